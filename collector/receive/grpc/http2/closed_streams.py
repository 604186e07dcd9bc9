"""Numbers of streams that are over (RFC 9113 5.1): what came of them decides what a late frame means."""

from __future__ import annotations

from typing import Final

__all__ = ["ClosedStreams"]

CLOSED_MAX: Final = 1024
"""Streams that we closed before the client did, and gaps in their numbers: the oldest are forgotten, and are
then like those that the client has closed."""


class ClosedStreams:
    """Which streams of a connection we closed, and which were never opened."""

    __slots__ = ("_ours", "_skipped")

    def __init__(self) -> None:
        self._ours: dict[int, None] = {}
        """Streams of which the client may not know yet that they are over, the newest last."""
        self._skipped: dict[int, int] = {}
        """Numbers that were passed over: the last of some, and the first."""

    def add(self, number: int) -> None:
        """We closed it, and the client may go on sending until it knows."""
        self._ours[number] = None
        if len(self._ours) > CLOSED_MAX:
            del self._ours[next(iter(self._ours))]

    def discard(self, number: int) -> None:
        """The client has closed it, too."""
        self._ours.pop(number, None)

    def is_ours(self, number: int) -> bool:
        """What comes on it was under way when we closed it."""
        return number in self._ours

    def skip(self, first: int, last: int) -> None:
        """A later stream was opened: none of these is ever going to be (5.1.1)."""
        self._skipped[last] = first
        if len(self._skipped) > CLOSED_MAX:
            del self._skipped[next(iter(self._skipped))]

    def was_skipped(self, number: int) -> bool:
        """It was never opened."""
        return any(first <= number <= last for last, first in self._skipped.items())
