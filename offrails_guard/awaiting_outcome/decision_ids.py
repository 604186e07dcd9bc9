"""Decisions whose calls are on their way, by the id of the call.

Several calls may have one id: some servers give the tool's name. The newest is taken first: of calls at once each is taken,
and one whose outcome never came leaves the later ones theirs.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

from offrails_guard.forks import renew_after_fork

__all__ = ["AWAITING_MAX", "DecisionIds"]

AWAITING_MAX: Final = 4096
"""Calls on their way; beyond it the oldest is given up: its spans confirm it, or nothing does."""


class DecisionIds:
    """Remembers the decision's id of a call until its outcome is known. Safe for threads."""

    def __init__(self, most: int = AWAITING_MAX) -> None:
        self._most = most
        self._ids: OrderedDict[str, list[str]] = OrderedDict()
        self._count = 0
        self._lock = threading.Lock()
        renew_after_fork(self)

    def put(self, call: str, decision_id: str) -> None:
        """Remembers the decision of a call; "" is none."""
        if not decision_id:
            return
        with self._lock:
            self._ids.setdefault(call, []).append(decision_id)
            self._count += 1
            if self._count > self._most:
                self._pop(next(iter(self._ids)), 0)

    def take(self, call: str) -> str:
        """The decision's id, which is forgotten then; "" where there is none."""
        with self._lock:
            return self._pop(call, -1)

    def take_all(self) -> list[str]:
        """All of them, which are forgotten then."""
        with self._lock:
            found = [each for ids in self._ids.values() for each in ids]
            self._ids.clear()
            self._count = 0
            return found

    def renew(self) -> None:
        """After a fork: the lock may be held by a thread that is not here."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return self._count

    def _pop(self, call: str, place: int) -> str:
        ids = self._ids.get(call)
        if ids is None:
            return ""
        found = ids.pop(place)
        self._count -= 1
        if not ids:
            del self._ids[call]
        return found
