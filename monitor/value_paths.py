"""Paths to values within arguments and results: `status`, `order.lines[*].price`, `$.items[0]`, `$`.

Idea: a path is a list of steps, each a member's name, a place in a list, or every place (`[*]`). It finds all values that
its steps lead to, and none where a step leads nowhere. A mapping that has the path's whole text as a key is meant to be
read by that key: the paths of old are plain names.

Invariant: `pruned(value, paths)` has at each of the paths what `value` has there.

Example: `lines[*].price` finds (3, 4) in `{"lines": [{"price": 3}, {"price": 4}, {}]}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from monitor.errors import OffrailsError
from monitor.partial import CutObject, PartialArguments

__all__ = ["PATH_LENGTH_MAX", "PathError", "ValuePath", "path_of", "pruned"]

PATH_LENGTH_MAX: Final = 500
"""Characters of a path."""

STEPS_MAX: Final = 32

WHOLE: Final = "$"

_STEP: Final = re.compile(r"\.([^.\[\]]+)|\[([0-9]{1,9})\]|\[(\*)\]")

Step = str | int | None
"""A member, a place in a list, or every place."""


class PathError(OffrailsError):
    """A text is no path."""


class ValuePath:
    """A path, ready to be followed. `path_of` makes it."""

    __slots__ = ("steps", "text")

    def __init__(self, text: str, steps: tuple[Step, ...]) -> None:
        self.text = text
        self.steps = steps

    @property
    def is_several(self) -> bool:
        """True if it may find more than one value."""
        return None in self.steps

    def find(self, value: Any) -> tuple[Any, ...] | None:
        """All values at the path, in their order; () if there are none, None if the value was cut before them."""
        found, steps = (value,), self.steps
        if steps and isinstance(value, Mapping) and self.text in value:
            found, steps = (value[self.text],), ()
        for step in steps:
            if any(_lacks(each, step) for each in found):
                return None
            found = tuple([inner for each in found for inner in _at(each, step)])
        return None if any(isinstance(each, CutObject) for each in found) else found

    def of_call(self, arguments: Mapping[str, Any] | None) -> tuple[Any, ...] | None:
        """All values that a call has at the path; None if they are not known, since arguments of it could not be read."""
        if arguments is None:
            return None
        if isinstance(arguments, PartialArguments) and arguments.unread:
            asked = {self.text, *self.steps[:1]}
            if not self.steps or not asked.isdisjoint(arguments.unread):
                return None
        return self.find(arguments)


def path_of(text: str) -> ValuePath:
    """The path that a text writes.

    Raises:
        PathError: it is none.
    """
    if len(text) > PATH_LENGTH_MAX:
        raise PathError(f"a path has at most {PATH_LENGTH_MAX} characters")
    is_rooted = text == WHOLE or text.startswith(("$.", "$["))
    rest = text[len(WHOLE) :] if is_rooted else text if text.startswith("[") else f".{text}"
    steps: list[Step] = []
    at = 0
    while at < len(rest):
        found = _STEP.match(rest, at)
        if found is None:
            raise PathError(f"{text!r} is no path: write names with dots, [0] or [*]")
        name, place, every = found.groups()
        steps.append(None if every else int(place) if place else name)
        at = found.end()
    if len(steps) > STEPS_MAX:
        raise PathError(f"a path has at most {STEPS_MAX} steps")
    return ValuePath(text, tuple(steps))


def _lacks(value: Any, step: Step) -> bool:
    """True if a value may have had the member before it was cut."""
    return isinstance(value, CutObject) and isinstance(step, str) and step not in value


def _at(value: Any, step: Step) -> Sequence[Any]:
    """What one step leads to."""
    if isinstance(step, str):
        return (value[step],) if isinstance(value, Mapping) and step in value else ()
    if not isinstance(value, list | tuple):
        return ()
    if step is None:
        return value
    return (value[step],) if step < len(value) else ()


# --- keeping what paths ask for -----------------------------------------------------------------


def pruned(value: Any, paths: Iterable[ValuePath]) -> Any:
    """The parts of a value that some paths lead to, in their places. What no path leads to is left out."""
    asked = list(paths)
    kept = _kept(value, [path.steps for path in asked])
    if isinstance(kept, dict) and isinstance(value, Mapping):
        kept.update({path.text: value[path.text] for path in asked if path.text in value})
    return kept


def _kept(value: Any, ways: Sequence[tuple[Step, ...]]) -> Any:
    if any(not way for way in ways):
        return value
    if isinstance(value, Mapping):
        names = [way[0] for way in ways if way[0] in value]
        kept = {str(name): _kept(value[name], _behind(ways, name)) for name in names}
        return CutObject(kept) if isinstance(value, CutObject) else kept
    if isinstance(value, list | tuple):
        return [_kept(each, _behind(ways, place)) for place, each in enumerate(value)]
    return None


def _behind(ways: Iterable[tuple[Step, ...]], step: Step) -> list[tuple[Step, ...]]:
    """What is left of the ways that take a step."""
    is_place = isinstance(step, int)
    return [way[1:] for way in ways if way[0] == step or (is_place and way[0] is None)]
