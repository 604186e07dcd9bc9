"""A world: tools over a state that is plain data.

    world = World("shop")

    @world.tool(reads=["stock"], writes=["cart"])
    def add(state, item: str) -> str:
        "Puts an item into the cart."
        if item not in state["stock"]:
            raise ToolError(f"no {item} here")
        state["cart"].append(item)
        return "added"

A tool is a function of the state and of its arguments by name. The same state and arguments give the same result and
the same state afterwards: that is what snapshots are keyed by. What a tool raises as `ToolError` is for the agent to read.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from harness.world.schema import misfit, schema_of

__all__ = ["State", "Tool", "ToolError", "ToolResult", "World"]

State = dict[str, Any]
"""What a world is made of: JSON values by name."""


class ToolError(Exception):
    """A call did not work, and the agent reads why. The state is as it was."""


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

    def as_json(self) -> dict[str, Any]:
        """The tool without its function."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
            "reads": list(self.reads),
            "writes": list(self.writes),
        }


class World:
    """Tools over one kind of state."""

    def __init__(self, name: str) -> None:
        self.name: Final = name
        self.tools: Final[dict[str, Tool]] = {}

    def tool(
        self,
        *,
        reads: Sequence[str] = (),
        writes: Sequence[str] = (),
        parameters: Mapping[str, Any] | None = None,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declares a function as a tool.

        Args:
            reads: keys of the state that it reads. What it writes it may read, too.
            writes: keys of the state that it changes.
            parameters: JSON Schema of its arguments; made of its annotations where it is not given.
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
            )
            return function

        return declare

    def call(self, state: State, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Makes one call. The given state is not changed.

        Raises:
            KeyError: a tool reads what it does not declare, or what the state does not have.
        """
        tool = self.tools.get(name)
        if tool is None:
            return ToolResult(f"there is no tool {name}", True, state)
        if wrong := misfit(tool.parameters, arguments):
            return ToolResult(wrong, True, state)
        names = dict.fromkeys((*tool.reads, *tool.writes))
        seen = {key: copy.deepcopy(state[key]) for key in names}
        try:
            result = tool.function(seen, **arguments)
        except ToolError as problem:
            return ToolResult(str(problem), True, state)
        return ToolResult(result, False, {**state, **{key: seen[key] for key in tool.writes}})
