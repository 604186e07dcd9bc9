"""Places of a log at which the runs are kept, so that a late call costs little.

Most logs are short, and are stepped again from their checkpoint. In a burst the log is long, and
calls overtake each other all the time. Then the runs are kept every `RESUME_EVERY` steps, and only
the steps behind the last of these resume points are stepped again.

Calls that overlap arrive one by one, and each changes the group at the end of the log. So the runs
before this group are kept, too, whatever the log's length: the next call of the group steps the
group again, and nothing before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from monitor.session.log.log import Log
from monitor.session.run import Run

__all__ = ["RESUME_EVERY", "ResumePoint", "ResumePoints"]

RESUME_EVERY: Final = 32
"""A resume point takes as many bytes as four steps, and stepping 32 steps takes as long as one insertion."""


class ResumePoint(NamedTuple):
    """A place of the log where no group of siblings is under way, and the runs before it."""

    place: int
    runs: tuple[Run, ...]
    """One for each reading of the session."""
    running: Mapping[bytes, int] | None
    """What runs on behind this place (`monitor.session.log.log.Log.running_at`)."""


class ResumePoints:
    """The resume points of one log, nearest to its start first."""

    __slots__ = ("_last_group", "_resume_points")

    def __init__(self) -> None:
        self._resume_points: list[ResumePoint] = []
        self._last_group: ResumePoint | None = None
        """Before the group at the end of the log, where there is one."""

    def __len__(self) -> int:
        return len(self._resume_points)

    def before(self, changed: int) -> ResumePoint | None:
        """The last resume point before a step that has changed; the resume points behind that step are dropped."""
        while self._resume_points and self._resume_points[-1].place >= changed:
            self._resume_points.pop()
        last = self._last_group
        if last is not None:
            if last.place < changed:
                return last
            self._last_group = None
        return self._resume_points[-1] if self._resume_points else None

    def due(self, place: int) -> bool:
        """True where the last point is far enough behind."""
        return (
            place - (self._resume_points[-1].place if self._resume_points else 0)
            >= RESUME_EVERY
        )

    def add(self, log: Log, place: int, runs: Sequence[Run]) -> None:
        """Keeps the runs as they are before the step of a log at `place`."""
        last = self._resume_points[-1] if self._resume_points else None
        self._resume_points.append(_resume_point(log, place, runs, last))

    def add_last_group(self, log: Log, place: int, runs: Sequence[Run]) -> None:
        """Keeps the runs before the group at the end of a log, which begins at `place`."""
        last = self._last_group
        if last is None or last.place > place:
            last = self._resume_points[-1] if self._resume_points else None
        elif last.place == place:
            return
        self._last_group = _resume_point(log, place, runs, last)

    def release_last_group(self) -> None:
        """No call of the last group is expected any more: its runs are dropped."""
        self._last_group = None

    def fold(self, count: int) -> None:
        """The first `count` steps have left the log."""
        kept = (point for point in self._resume_points if point.place > count)
        self._resume_points = [point._replace(place=point.place - count) for point in kept]
        last = self._last_group
        if last is not None:
            self._last_group = (
                last._replace(place=last.place - count) if last.place > count else None
            )


def _resume_point(
    log: Log, place: int, runs: Sequence[Run], last: ResumePoint | None
) -> ResumePoint:
    """The runs at a place, and what runs on there, counted on from an earlier point."""
    running = log.running_at(place, last.place, last.running) if last else log.running_at(place)
    return ResumePoint(place, tuple(run.copy() for run in runs), running)
