"""Flood protection: a budget for HTTP/2 frames that make no progress."""

from __future__ import annotations

from typing import Final

__all__ = ["FrameBudget"]

FRAMES_MAX: Final = 10_000
"""A full budget, in frames that make no progress."""
FRAMES_PER_SECOND: Final = 20.0
"""Refill per second, so that slow clients are not cut off."""
RESET_FRAMES: Final = 20
"""Cost of a reset or invalid stream; 500 of them exhaust the budget."""
BLOCK_BYTES_PER_FRAME: Final = 64
"""Header bytes per unit of cost."""
SETTING_BYTES_PER_FRAME: Final = 256
SMALL_DATA_BYTES: Final = 128
"""A data frame with fewer bytes than this costs one unit."""
CALL_FRAMES: Final = 200
"""Refill for each call that was read completely and answered."""
REFUSAL_FRAMES: Final = 8
"""Refill for each other answer: the usual cost of its own frames."""


class FrameBudget:
    """The frames without progress that a connection may still send.

    Each frame costs a unit, or more if it makes more work. Answered calls, and time, refill the
    budget.

    Args:
        now: seconds, monotonic.
    """

    __slots__ = ("_since", "left")

    def __init__(self, now: float) -> None:
        self.left = FRAMES_MAX
        self._since = now

    def spend(self, cost: int, now: float) -> bool:
        """Takes the cost of a frame from it; false: it is used up.

        Args:
            cost: in frames that ask for nothing.
            now: seconds, as above; what time gives back is looked for when nothing else is left.
        """
        self.left -= cost
        if self.left >= 0:
            return True
        self.left += min(FRAMES_MAX, int((now - self._since) * FRAMES_PER_SECOND))
        self._since = now
        return self.left >= 0

    def earn(self, frames: int) -> None:
        """Something was asked for."""
        self.left = min(FRAMES_MAX, self.left + frames)
