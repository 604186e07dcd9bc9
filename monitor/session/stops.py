"""Places of a log at which the runs are kept, so that a late call costs little.

Most logs are short, and are stepped again from their checkpoint. In a burst the log is long, and
calls overtake each other all the time. Then the runs are kept every `STOP_EVERY` steps, and only
the steps behind the last of these stops are stepped again.

Calls that overlap arrive one by one, and each changes the group at the end of the log. So the runs
before this group are kept, too, whatever the log's length: the next call of the group steps the
group again, and nothing before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from monitor.session.log.log import Log
from monitor.session.run import Run

__all__ = ["STOP_EVERY", "Stop", "Stops"]

STOP_EVERY: Final = 32
"""A stop takes as many bytes as four steps, and stepping 32 steps takes as long as one insertion."""


class Stop(NamedTuple):
    """A place of the log where no group of siblings is under way, and the runs before it."""

    place: int
    runs: tuple[Run, ...]
    """One for each reading of the session."""
    running: Mapping[bytes, int] | None
    """What runs on behind this place (`monitor.session.log.log.Log.running_at`)."""


class Stops:
    """The stops of one log, nearest to its start first."""

    __slots__ = ("_last_group", "_stops")

    def __init__(self) -> None:
        self._stops: list[Stop] = []
        self._last_group: Stop | None = None
        """Before the group at the end of the log, where there is one."""

    def __len__(self) -> int:
        return len(self._stops)

    def before(self, changed: int) -> Stop | None:
        """The last stop before a step that has changed; the stops behind that step are dropped."""
        while self._stops and self._stops[-1].place >= changed:
            self._stops.pop()
        last = self._last_group
        if last is not None:
            if last.place < changed:
                return last
            self._last_group = None
        return self._stops[-1] if self._stops else None

    def due(self, place: int) -> bool:
        """True where the last stop is far enough behind."""
        return place - (self._stops[-1].place if self._stops else 0) >= STOP_EVERY

    def add(self, log: Log, place: int, runs: Sequence[Run]) -> None:
        """Keeps the runs as they are before the step of a log at `place`."""
        last = self._stops[-1] if self._stops else None
        self._stops.append(_stop(log, place, runs, last))

    def add_last_group(self, log: Log, place: int, runs: Sequence[Run]) -> None:
        """Keeps the runs before the group at the end of a log, which begins at `place`."""
        last = self._last_group
        if last is None or last.place > place:
            last = self._stops[-1] if self._stops else None
        elif last.place == place:
            return
        self._last_group = _stop(log, place, runs, last)

    def release_last_group(self) -> None:
        """No call of the last group is expected any more: its runs are dropped."""
        self._last_group = None

    def fold(self, count: int) -> None:
        """The first `count` steps have left the log."""
        kept = (stop for stop in self._stops if stop.place > count)
        self._stops = [stop._replace(place=stop.place - count) for stop in kept]
        last = self._last_group
        if last is not None:
            self._last_group = (
                last._replace(place=last.place - count) if last.place > count else None
            )


def _stop(log: Log, place: int, runs: Sequence[Run], last: Stop | None) -> Stop:
    """The runs at a place, and what runs on there, counted on from an earlier stop."""
    running = log.running_at(place, last.place, last.running) if last else log.running_at(place)
    return Stop(place, tuple(run.copy() for run in runs), running)
