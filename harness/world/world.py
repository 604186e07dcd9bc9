"""A world: tools over a state that is plain data.

    world = World("shop")

    @world.tool(reads=["stock"], writes=["cart"])
    def add(state, item: str) -> str:
        "Puts an item into the cart."
        if item not in state["stock"]:
            raise ToolError(f"no {item} here")
        state["cart"].append(item)
        return "added"

    @world.check(reads=["cart"])
    def has_tea(state, start, answer, calls) -> bool:
        return "tea" in state["cart"]

    @world.user(reads=["cart"])
    def ana(state, said: str, turn: int) -> str | None:
        return "And a cup, please." if "cup" not in state["cart"] else None

A check says whether a task is done, where predicates on the state cannot. A user answers when an agent has said something.
Agents see neither.

A tool is a function of the state and of its arguments by name. The same state and arguments give the same result and
the same state afterwards: that is what snapshots are keyed by. What a tool raises as `ToolError` is for the agent to read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from harness.world.schema import misfit, schema_of

__all__ = ["State", "Tool", "ToolError", "ToolResult", "World", "entry"]

State = dict[str, Any]
"""What a world is made of: JSON values by name."""


class ToolError(Exception):
    """A call did not work, and the agent reads why. The state is as it was."""


def entry(part: Mapping[str, Any], name: str, why: str) -> Any:
    """What a part of the state has under a name.

    Raises:
        ToolError: nothing, and `why` says so.
    """
    if name not in part:
        raise ToolError(why)
    return part[name]


class ToolResult(NamedTuple):
    """What came of one call."""

    result: Any
    """A JSON value, or the text of the error."""
    error: bool
    state: State
    """The state afterwards."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool of a world."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments."""
    reads: tuple[str, ...]
    """Keys of the state that it may read."""
    writes: tuple[str, ...]
    """Keys of the state that it may change: a change of any other is a fault of the tool."""
    function: Callable[..., Any]
    lenient: bool = False
    """True if the tool takes more than its schema says, and looks at its arguments itself."""

    def as_json(self) -> dict[str, Any]:
        """The tool without its function."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
            "reads": list(self.reads),
            "writes": list(self.writes),
            "lenient": self.lenient,
        }


class World:
    """Tools over one kind of state."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.tools: Final[dict[str, Tool]] = {}
        self.hidden: Final[dict[str, Tool]] = {}
        """Checks and users, which tasks name: called as tools are, and shown to no agent."""

    def tool(
        self,
        *,
        reads: Sequence[str] = (),
        writes: Sequence[str] = (),
        parameters: Mapping[str, Any] | None = None,
        lenient: bool = False,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declares a function as a tool.

        Args:
            reads: keys of the state that it reads. What it writes it may read, too.
            writes: keys of the state that it changes.
            parameters: JSON Schema of its arguments; made of its annotations where it is not given.
            lenient: whether it takes more than that, and looks at its arguments itself.
        """

        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            name = function.__name__
            self.tools[name] = Tool(
                name,
                inspect.getdoc(function) or name,
                schema_of(function) if parameters is None else parameters,
                tuple(reads),
                tuple(writes),
                function,
                lenient,
            )
            return function

        return declare

    def check(self, *, reads: Sequence[str] = ()) -> Callable[[Callable[..., Any]], Any]:
        """Declares a function as a check: (state, start, answer, calls) -> bool.

        It gets the state at the end, the one at the start, the agent's last text, and the calls that were made, each
        `{tool, arguments}`.

        Args:
            reads: keys of the state at the end that it reads.
        """

        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            self._hide(function, reads, ())
            return function

        return declare

    def user(
        self, *, reads: Sequence[str] = (), writes: Sequence[str] = ()
    ) -> Callable[[Callable[..., Any]], Any]:
        """Declares a function as a user: (state, said, turn) -> str | None.

        It gets what the agent has said and how often it has answered before, and says something, or None or "" if it is content.

        Args:
            reads: keys of the state that it reads.
            writes: keys of the state that it changes.
        """

        def declare(function: Callable[..., Any]) -> Callable[..., Any]:
            self._hide(function, reads, writes)
            return function

        return declare

    def _hide(
        self, function: Callable[..., Any], reads: Sequence[str], writes: Sequence[str]
    ) -> None:
        name = function.__name__
        self.hidden[name] = Tool(
            name, "", {}, tuple(reads), tuple(writes), function, lenient=True
        )

    def call(self, state: State, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Makes one call, of a tool, a check or a user. The given state is not changed.

        Raises:
            KeyError: a tool reads what it does not declare, or what the state does not have.
        """
        tool = self.tools.get(name) or self.hidden.get(name)
        if tool is None:
            return ToolResult(f"there is no tool {name}", True, state)
        if not tool.lenient and (wrong := misfit(tool.parameters, arguments)):
            return ToolResult(wrong, True, state)
        names = dict.fromkeys((*tool.reads, *tool.writes))
        seen = {key: _copied(state[key]) for key in names}
        try:
            result = tool.function(seen, **arguments)
        except ToolError as problem:
            return ToolResult(str(problem), True, state)
        return ToolResult(result, False, {**state, **{key: seen[key] for key in tool.writes}})


def _copied(value: Any) -> Any:
    """A copy of a JSON value; `copy.deepcopy` takes ten times as long."""
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [*map(_copied, value)] if isinstance(value, list) else value
