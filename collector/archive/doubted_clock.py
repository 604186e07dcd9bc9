"""The time by which sessions are too old: a clock that is set forward deletes nothing for a day.

Idea: time that passes is seen on the steady clock. What the wall clock says beyond that is believed once it has said so for
`DOUBTED_NS`. A clock that is set back is believed at once: it keeps more.

Example: the newest session is of 02:00. A service starts with a clock that is three years ahead: by age it counts from 02:00
on. The clock is set right an hour later: it counts by that. Had it been right, 24 hours later it would be believed.
"""

from __future__ import annotations

from typing import Final

__all__ = ["DOUBTED_NS", "SLACK_NS", "DoubtedClock"]

HOUR_NS: Final = 3_600 * 1_000_000_000
SLACK_NS: Final = HOUR_NS
"""Time by which a clock may be set forward and is believed."""
DOUBTED_NS: Final = 24 * HOUR_NS


class DoubtedClock:
    """Doubts a clock that jumps.

    Args:
        newest: the latest time that is known to have been, Unix nanoseconds; 0 if none is.
        steady: nanoseconds of the steady clock by then.
    """

    def __init__(self, newest: int, steady: int) -> None:
        self._believed = newest
        self._steady = steady
        self._doubted_since: int | None = None

    def now(self, wall: int, steady: int) -> int:
        """The time by which ages count.

        Args:
            wall: what the clock says, Unix nanoseconds.
            steady: nanoseconds of the steady clock.
        """
        expected = self._believed + steady - self._steady
        if self._believed and wall > expected + SLACK_NS:
            if self._doubted_since is None:
                self._doubted_since = steady
            if steady - self._doubted_since < DOUBTED_NS:
                return expected
        self._believed, self._steady, self._doubted_since = wall, steady, None
        return wall
