"""Where the stepping of a log can be taken up again, so that a late call costs little.

Most logs are short, and are stepped again from their checkpoint. In a burst the log is long and
calls overtake each other all the time; then the runs are remembered every so many steps, and only
what stands behind the last of these stops is stepped again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from monitor.session.log.log import Log
from monitor.session.run import Run

__all__ = ["STOP_EVERY", "Stop", "Stops"]

STOP_EVERY: Final = 32
"""A stop is as large as four steps of the log, and so many steps take as long as one insertion."""


class Stop(NamedTuple):
    """A place of the log where no group of siblings is under way, and the runs before it."""

    place: int
    runs: tuple[Run, ...]
    """One for each reading of the session."""
    running: Mapping[bytes, int] | None
    """What runs on behind this place (`monitor.session.log.log.Log.running_at`)."""


class Stops:
    """The stops of one log, nearest to its start first."""

    __slots__ = ("_stops",)

    def __init__(self) -> None:
        self._stops: list[Stop] = []

    def __len__(self) -> int:
        return len(self._stops)

    def before(self, changed: int) -> Stop | None:
        """The last stop before a step that is another now; the ones behind it are forgotten."""
        while self._stops and self._stops[-1].place >= changed:
            self._stops.pop()
        return self._stops[-1] if self._stops else None

    def due(self, place: int) -> bool:
        """True where the last stop is far enough behind."""
        return place - (self._stops[-1].place if self._stops else 0) >= STOP_EVERY

    def add(self, log: Log, place: int, runs: Sequence[Run]) -> None:
        """Remembers the runs as they are before the step of a log at `place`."""
        last = self._stops[-1] if self._stops else None
        running = (
            log.running_at(place, last.place, last.running) if last else log.running_at(place)
        )
        self._stops.append(Stop(place, tuple(run.copy() for run in runs), running))

    def fold(self, count: int) -> None:
        """The first `count` steps have left the log."""
        kept = (stop for stop in self._stops if stop.place > count)
        self._stops = [stop._replace(place=stop.place - count) for stop in kept]
