"""What symbols ask of a call beside its arguments: what it returned, and whether it failed.

Idea: each such fact is compared as if it were one more argument, whose name no argument of a spec has. So the patterns of
a symbol stay one mapping, and which readings are possible is found in the same way for all of them (`readings`).

Invariant: the facts of a call are set from the call alone. An argument of an agent with such a name is overwritten, or
taken out.

Example: `{tool: ask, result: {status: approved}}` asks for the fact `result_name("status")`, whose value is the tuple of
all values at the path; the pattern takes it if it takes one of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from monitor.alphabet.pattern import Matcher, Pattern
from monitor.partial import UNREAD, PartialArguments
from monitor.records import Returned, result_in
from monitor.value_paths import ValuePath, path_of

__all__ = [
    "COUNTED",
    "FAILED",
    "AskedFacts",
    "failed_values",
    "is_data",
    "is_fact",
    "is_result",
    "read_json",
    "result_name",
    "taking",
    "worded",
]

_MARK: Final = "\0"
_RESULT: Final = "\0result "
_DATA: Final = "\0data "

FAILED: Final = "\0failed"
"""The fact whether a call failed: true or false."""

COUNTED: Final = "\0arguments"
"""The fact how many arguments a call has."""

failed_values: Final[Mapping[str, tuple[Any, ...]]] = {FAILED: (False, True), COUNTED: (0, 1)}
"""The values that such a fact may have, as far as patterns tell them apart."""


def result_name(path: str) -> str:
    """The name of the fact what is at a path of a result."""
    return _RESULT + path


def is_fact(name: str) -> bool:
    """True for the name of a fact, which is no argument's."""
    return name.startswith(_MARK)


def is_result(name: str) -> bool:
    """True for a fact about the result, whose value is a tuple of values."""
    return name.startswith(_RESULT)


def worded(name: str) -> str:
    """What people call an argument or a fact."""
    if is_result(name):
        path = name.removeprefix(_RESULT)
        return "result" if path == "$" else f"result {path}"
    if is_data(name):
        return name.removeprefix(_DATA).partition(_MARK)[0]
    return {FAILED: "error", COUNTED: "arguments"}.get(name, name)


def is_data(name: str) -> bool:
    """True for a fact about what was seen before the call (`DataCondition.name`)."""
    return name.startswith(_DATA)


def taking(name: str, pattern: Pattern) -> Matcher:
    """True for a call's argument, or the value of a fact, that matches."""
    takes = pattern.takes
    if not is_result(name):
        return takes
    return lambda values: any(takes(each) for each in values)


def read_json(result: Any) -> Any:
    """A text that is a JSON object or array, read once: tools that return JSON mostly return it as text."""
    if not isinstance(result, str) or not result.startswith(("{", "[")):
        return result
    try:
        return json.loads(result)
    except (ValueError, RecursionError):
        return result


class AskedFacts:
    """The facts that the symbols of one tool ask for.

    Args:
        names: of arguments and facts in their patterns.
    """

    __slots__ = ("_arguments", "_paths", "data", "fails", "paths")

    def __init__(self, names: Iterable[str]) -> None:
        asked = list(dict.fromkeys(names))
        self._arguments = frozenset(name for name in asked if not is_fact(name))
        self.paths: tuple[ValuePath, ...] = tuple(
            path_of(name.removeprefix(_RESULT)) for name in asked if is_result(name)
        )
        """Paths of results."""
        self._paths = tuple((result_name(path.text), path) for path in self.paths)
        self.fails = FAILED in asked
        """True if it is asked whether calls failed."""
        self.data = tuple(name for name in asked if is_data(name))
        """Facts about what was seen before the call. They are not the call's own: `of_call` leaves them out."""

    def of_call(
        self,
        arguments: Mapping[str, Any] | None,
        returned: Returned,
        *,
        failed: bool,
        ended: bool,
    ) -> tuple[PartialArguments, frozenset[str]]:
        """The arguments of a call with its facts; and the names of those that may as well be absent.

        Args:
            arguments: None if they are unknown.
            returned: what the call returned, as its only item, or unread; () if that is unknown.
            failed: whether it failed.
            ended: False if it is not known whether it failed.
        """
        known = (
            {} if arguments is None else {k: v for k, v in arguments.items() if not is_fact(k)}
        )
        unread = (
            set(arguments.unread) if isinstance(arguments, PartialArguments) else set[str]()
        )
        absent: frozenset[str] = frozenset()
        if arguments is None:
            unread |= {COUNTED, *self._arguments}
            absent = self._arguments
        else:
            known[COUNTED] = min(1, len(known))
        if ended:
            known[FAILED] = failed
        else:
            unread.add(FAILED)
        result = result_in(returned) if self._paths else ()
        if result:
            result = (read_json(result[0]),)
        found = [(name, path.find(result[0]) if result else None) for name, path in self._paths]
        known.update(found)
        untold = {name for name, values in found if values is None}
        unread |= untold
        absent |= untold
        known.update(dict.fromkeys(unread, UNREAD))
        return PartialArguments(known, unread), absent
