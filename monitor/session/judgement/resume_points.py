"""Places of a log at which the runs are kept, so that a late call costs little.

Idea: a short log is stepped again from its checkpoint. In a burst the log is long, and many calls
arrive out of order. So the runs are kept every `RESUME_EVERY` steps, and only the steps behind the
nearest of these resume points are stepped again.

Overlapping calls arrive one by one, and each changes the group at the end of the log. So the runs
before this group are kept, too, however short the log is. The next call of the group steps the group
again, and nothing before it.

Invariant: the runs of a resume point are those after all steps before its place. So a change before
that place drops the point.

Example: the log has 100 steps and resume points at 32, 64 and 96. A call is inserted at place 70. The
point at 96 is dropped, and the log is stepped again from 64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from monitor.session.judge.run import AutomatonRun
from monitor.session.log.log import SessionLog

__all__ = ["RESUME_EVERY", "ResumePoint", "ResumePoints"]

RESUME_EVERY: Final = 32
"""A resume point takes as many bytes as 4 steps. Stepping 32 steps takes as long as one insertion."""


class ResumePoint(NamedTuple):
    """A place of the log that cuts no group, and the runs before it."""

    place: int
    runs: tuple[AutomatonRun, ...]
    """One for each reading of the session."""
    apart: bool
    """True if these had different numbers of harms after some step before it."""
    running: Mapping[bytes, int] | None
    """The steps that still run at this place (`monitor.session.log.overlap_groups.GroupedRows.running_at`)."""


class ResumePoints:
    """The resume points of one log, in the order of their places."""

    __slots__ = ("_last_group", "_resume_points")

    def __init__(self) -> None:
        self._resume_points: list[ResumePoint] = []
        self._last_group: ResumePoint | None = None
        """The point before the group at the end of the log, if there is one."""

    def __len__(self) -> int:
        return len(self._resume_points)

    def runs(self) -> Iterator[AutomatonRun]:
        """All runs that are kept."""
        for point in self._resume_points:
            yield from point.runs
        if self._last_group is not None:
            yield from self._last_group.runs

    def copy(self) -> ResumePoints:
        """The same points, to be kept apart from now on. Points themselves never change."""
        twin = ResumePoints()
        twin._resume_points = list(self._resume_points)
        twin._last_group = self._last_group
        return twin

    def before(self, changed: int) -> ResumePoint | None:
        """The last resume point before a changed step. Points behind the step are dropped."""
        while self._resume_points and self._resume_points[-1].place >= changed:
            self._resume_points.pop()
        last = self._last_group
        if last is not None:
            if last.place < changed:
                return last
            self._last_group = None
        return self._resume_points[-1] if self._resume_points else None

    def due(self, place: int) -> bool:
        """True if the last point is at least `RESUME_EVERY` steps before `place`."""
        return (
            place - (self._resume_points[-1].place if self._resume_points else 0)
            >= RESUME_EVERY
        )

    def add(
        self, log: SessionLog, place: int, runs: Sequence[AutomatonRun], *, apart: bool
    ) -> None:
        """Keeps the runs before the step at `place`."""
        last = self._resume_points[-1] if self._resume_points else None
        self._resume_points.append(_resume_point(log, place, runs, last, apart=apart))

    def add_last_group(
        self, log: SessionLog, place: int, runs: Sequence[AutomatonRun], *, apart: bool
    ) -> None:
        """Keeps the runs before the last group of the log, which begins at `place`."""
        last = self._last_group
        if last is None or last.place > place:
            last = self._resume_points[-1] if self._resume_points else None
        elif last.place == place:
            return
        self._last_group = _resume_point(log, place, runs, last, apart=apart)

    def release_last_group(self) -> None:
        """Drops the runs before the last group, once no further call of it is expected."""
        self._last_group = None

    def fold(self, count: int) -> None:
        """Shifts the points after the first `count` steps have left the log."""
        kept = (point for point in self._resume_points if point.place > count)
        self._resume_points = [point._replace(place=point.place - count) for point in kept]
        last = self._last_group
        if last is not None:
            self._last_group = (
                last._replace(place=last.place - count) if last.place > count else None
            )


def _resume_point(
    log: SessionLog,
    place: int,
    runs: Sequence[AutomatonRun],
    last: ResumePoint | None,
    *,
    apart: bool,
) -> ResumePoint:
    """A resume point at `place`; what runs there is counted on from the point `last`."""
    running = log.running_at(place, last.place, last.running) if last else log.running_at(place)
    return ResumePoint(place, tuple(run.copy() for run in runs), apart, running)
