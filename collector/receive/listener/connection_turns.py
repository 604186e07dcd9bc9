"""Round robin over connections that have sent more than fits one turn of the event loop.

Invariant: however many connections wait, they take at most `ROUND_SECONDS`, plus one turn, of each round of the loop.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

__all__ = ["TURN_SECONDS", "Turns"]

TURN_SECONDS: Final = 0.003
"""Length of a turn: work on what one connection has sent. The rest waits for its next turn."""
ROUND_SECONDS: Final = 0.006
"""Length of a round: turns of waiting connections, before new input is read."""


class Turns:
    """The connections of a listener that wait for their next turn.

    The socket of a waiting connection is not read.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], bool]] = deque()
        self._is_called = False

    def __len__(self) -> int:
        """Number of connections that wait."""
        return len(self._waiting)

    def wait(self, go_on: Callable[[], bool]) -> None:
        """Queues a connection that has more to read.

        Args:
            go_on: reads for at most one turn; called once a round until it returns False.
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
        finally:  # an error of one connection must not stop the others
            if self._waiting:
                self._call()
