"""Which of the monitor's sessions the archive has, too."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from monitor.records import SessionKey

__all__ = ["WrittenSessions"]


class WrittenSessions:
    """Remembers sessions that were given to the archive, while the monitor has them.

    Args:
        is_kept: True for a session that the monitor has.
        done: how many sessions and labels of those that were given are written.
    """

    def __init__(self, is_kept: Callable[[SessionKey], bool], done: Callable[[], int]) -> None:
        self._is_kept = is_kept
        self.done = done
        self._numbers: OrderedDict[SessionKey, int] = OrderedDict()
        """How many had been given by the time a session was first."""

    def note(self, key: SessionKey, number: int) -> None:
        """A session was given; of two earlier ones, those that the monitor has forgotten are forgotten here."""
        self._numbers.setdefault(key, number)
        for _ in range(2):
            first, count = self._numbers.popitem(last=False)
            if self._is_kept(first):
                self._numbers[first] = count
            if not self._numbers:
                break

    def has(self, key: SessionKey, done: int) -> bool:
        """True if the archive has the session once so many are written."""
        number = self._numbers.get(key)
        return number is not None and number <= done
