"""Whose turn it is: connections with more to read than fits a turn of the event loop go on one after another."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["TURN_SECONDS", "Turns"]

TURN_SECONDS: Final = 0.003
"""For what one connection has sent; what is left of it waits for its next turn."""
ROUND_SECONDS: Final = 0.006
"""For all connections that wait, before others are looked at."""


class Turns:
    """The connections of a listener that wait for their next turn.

    However many they are, they take a bounded time of each round of the loop together, so what others
    send is looked at meanwhile. A connection's socket is not read while it waits.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], bool]] = deque()
        self._is_called = False

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def wait(self, go_on: Callable[[], bool]) -> None:
        """A connection has more to read.

        Args:
            go_on: reads on for at most a turn, in later rounds of the loop, until it returns false.
        """
        self._waiting.append(go_on)
        self._call()

    def _call(self) -> None:
        if not self._is_called:
            self._is_called = True
            asyncio.get_running_loop().call_soon(self._round)

    def _round(self) -> None:
        ends = time.perf_counter() + ROUND_SECONDS
        self._is_called = False
        try:
            for _ in range(len(self._waiting)):
                go_on = self._waiting.popleft()
                if go_on():
                    self._waiting.append(go_on)
                if time.perf_counter() >= ends:
                    break
        finally:  # whatever it was, the others go on
            if self._waiting:
                self._call()
