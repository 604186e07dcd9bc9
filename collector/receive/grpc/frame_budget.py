"""What a client of HTTP/2 may ask of us for nothing."""

from __future__ import annotations

from typing import Final

__all__ = ["FrameBudget"]

FRAMES_MAX: Final = 10_000
"""Frames that ask for nothing: a budget that is full."""
FRAMES_PER_SECOND: Final = 20.0
"""Come back by themselves: a client that is slow is no flood."""
RESET_FRAMES: Final = 20
"""What a call costs that is given up, or is none: 500 of them are too many."""
BLOCK_BYTES_PER_FRAME: Final = 64
"""Of a header block."""
SETTING_BYTES_PER_FRAME: Final = 256
SMALL_DATA_BYTES: Final = 128
"""A frame with less of a body than this costs one."""
CALL_FRAMES: Final = 200
"""Come back with each call that was read whole and answered."""
REFUSAL_FRAMES: Final = 8
"""Come back with any other that was answered: what its own frames usually cost."""


class FrameBudget:
    """How many frames that ask for nothing a connection may still send.

    Every kind of frame costs: one that is read once, more where more is to be done. Calls that are
    answered, and time, give back.

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
