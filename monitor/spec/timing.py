"""The limits on time that a spec sets: deadlines between calls, and how long a session may make none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

__all__ = ["NO_TIMING", "Deadline", "SpecTiming"]


class Deadline(NamedTuple):
    """After a call of one kind, a call of another must begin in time."""

    first: frozenset[int]
    """Symbols; any of them."""
    then: frozenset[int]
    within_ns: int
    """Time between the places of the two calls in the order: both starts, as a rule."""
    text: str
    """Text for verdicts."""


class SpecTiming(NamedTuple):
    """The times of a spec, in nanoseconds."""

    deadlines: tuple[Deadline, ...] = ()
    idle_ns: int = 0
    """How long a session may make no call in a state that is not accepting; 0: any time."""
    idle_by_state: Mapping[int, int] = {}
    """The same by state, where the document says so."""

    def times(self) -> Iterator[int]:
        """All times, each above 0: what is due is looked up no more often than the shortest asks for."""
        found = [each.within_ns for each in self.deadlines]
        found += [self.idle_ns, *self.idle_by_state.values()]
        return filter(None, found)


NO_TIMING: Final = SpecTiming()
