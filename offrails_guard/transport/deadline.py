"""When to give up waiting for an answer, where many wait at once.

A model may make a hundred calls in one turn. A service that answers one after the other is healthy, and that a check is
the last of them is no reason to let its call go on. So a deadline is one of silence: it runs while the service answers
nobody, and not while it answers others, nor while this process waits for the processor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

__all__ = ["TURNS_MAX", "Silence"]

PARTS: Final = 5
"""Looks at what the service has answered, in the time of a deadline."""

TURNS_MAX: Final = 100
"""Most that a check waits, as a multiple of its seconds, whomever the service answers."""


class _Waiting(NamedTuple):
    ends: float
    """Total silence of the service at which the check ends."""
    is_over: Callable[[], bool]
    give_up: Callable[[], None]


class Silence:
    """Gives up on those who wait. Time is an argument, in seconds.

    Args:
        seconds: of silence that each waits for.
    """

    def __init__(self, seconds: float) -> None:
        self.part: Final = seconds / PARTS
        """Time between two checks of the silence."""
        self.seconds: Final = seconds
        self._silent = 0.0
        """How long the service has been silent, in all."""
        self._looked = 0.0
        self._heard = 0
        self._waiting: deque[_Waiting] = deque()

    def add(
        self, is_over: Callable[[], bool], give_up: Callable[[], None], answers: int, now: float
    ) -> bool:
        """Somebody waits from now on. True if nobody did: it is time to `look` again and again.

        Args:
            is_over: whether it waits no more.
            give_up: called once the service has been silent for too long.
            answers: of the service so far, to anybody.
            now: time.
        """
        is_first = not self._waiting
        if is_first:
            self._looked, self._heard = now, answers
        begun = self._silent + min(self.part, now - self._looked)
        self._waiting.append(_Waiting(begun + self.seconds, is_over, give_up))
        return is_first

    def look(self, answers: int, now: float) -> bool:
        """Counts the time since the last look. True while somebody waits."""
        if answers == self._heard:
            self._silent += min(self.part, now - self._looked)
        self._looked, self._heard = now, answers
        waiting = self._waiting
        while waiting and (waiting[0].is_over() or waiting[0].ends <= self._silent):
            each = waiting.popleft()
            if not each.is_over():
                each.give_up()
        return bool(waiting)
