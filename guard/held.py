"""Decisions whose calls are on their way, by the id of the call."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from guard.forks import renew_after_fork

__all__ = ["HELD_MAX", "Held"]

HELD_MAX: Final = 4096
"""Calls on their way; beyond it the oldest is given up: its spans confirm it, or nothing does."""


class Held:
    """Remembers the decision's id of a call until its outcome is known. Safe for threads."""

    def __init__(self, most: int = HELD_MAX) -> None:
        self._most = most
        self._ids: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()
        renew_after_fork(self)

    def put(self, call: str, decision_id: str) -> None:
        """Remembers the decision of a call; "" is none."""
        if not decision_id:
            return
        with self._lock:
            self._ids[call] = decision_id
            if len(self._ids) > self._most:
                self._ids.popitem(last=False)

    def take(self, call: str) -> str:
        """The decision's id, which is forgotten then; "" where there is none."""
        with self._lock:
            return self._ids.pop(call, "")

    def take_all(self) -> list[str]:
        """All of them, which are forgotten then."""
        with self._lock:
            found = list(self._ids.values())
            self._ids.clear()
            return found

    def renew(self) -> None:
        """After a fork: the lock may be held by a thread that is not here."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._ids)
