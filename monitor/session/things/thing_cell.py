"""Things that are in one state, and are stepped as one.

Idea: two things whose runs are alike (`likeness`) do the same from now on. So they share one run, which counts the steps
since the cell began; what a thing had counted before is its own offset.

Example: A1 was looked up, B7 was looked up and refunded twice. After `approve_all` both may be refunded: their cells are
alike, the cell of B7 goes into that of A1, and B7 has two calls more than A1 by its offset.
"""

from __future__ import annotations

from typing import NamedTuple

from mypy_extensions import mypyc_attr

from monitor.session.judge.run import AutomatonRun

__all__ = ["NO_COUNTS", "ThingCell", "ThingCounts", "likeness"]


class ThingCounts(NamedTuple):
    """What was counted of a thing's calls."""

    calls: int
    substantive: int
    harmful: int

    def plus(self, other: ThingCounts) -> ThingCounts:
        return ThingCounts(
            self.calls + other.calls,
            self.substantive + other.substantive,
            self.harmful + other.harmful,
        )

    def minus(self, other: ThingCounts) -> ThingCounts:
        return ThingCounts(
            self.calls - other.calls,
            self.substantive - other.substantive,
            self.harmful - other.harmful,
        )


NO_COUNTS = ThingCounts(0, 0, 0)


@mypyc_attr(acyclic=True)
class ThingCell:
    """A run that some things share."""

    __slots__ = ("first", "into", "offset", "run", "size", "unsure")

    def __init__(self, run: AutomatonRun, unsure: int) -> None:
        self.run = run
        self.unsure = unsure
        """Calls of the run that may be none of its things': their values are not known."""
        self.size = 0
        """Things that are in it."""
        self.first: bytes | None = None
        """A thing that was in it when it was last asked for one."""
        self.into: ThingCell | None = None
        """The cell that it was merged into."""
        self.offset = NO_COUNTS
        """What its things had counted more than those of `into`, when it was merged."""

    def counts(self) -> ThingCounts:
        """What its run has counted."""
        tally = self.run.tally
        return ThingCounts(tally.calls - self.unsure, tally.substantive, tally.harmful_steps)

    def copy(self) -> ThingCell:
        twin = ThingCell(self.run.copy(), self.unsure)
        twin.size, twin.first = self.size, self.first
        return twin


def likeness(run: AutomatonRun) -> tuple[object, ...]:
    """What decides on the further verdicts of a run: two runs with the same go on alike."""
    ways = run.ways
    if ways is None:
        return run.position, run.progressed, run.exact, run.whole
    least = run.tally.harmful_steps
    each = tuple(
        [
            (way.position, way.progressed, way.exact, way.tally.harmful_steps - least)
            for way in ways
        ]
    )
    return run.position, run.progressed, run.exact, run.whole, each
