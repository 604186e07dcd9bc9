"""A moment by which something has to be done in several steps."""

from __future__ import annotations

import time

__all__ = ["TimeBudget"]


class TimeBudget:
    """So many seconds from now."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def share(self, wanted: float, part: float) -> float:
        """What a step may take, in seconds.

        Args:
            wanted: what it takes at most where time does not matter.
            part: of what is left, from 0 to 1.
        """
        return max(0.0, min(wanted, part * (self._end - time.monotonic())))
