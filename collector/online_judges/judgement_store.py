"""Judgements of the sessions that were judged last, as the API shows them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from collector.archive.record import SessionName
from collector.telemetry.json_text import as_json

__all__ = ["JUDGED_BYTES_MAX", "JudgementStore"]

JUDGED_BYTES_MAX: Final = 16 << 20
"""Bytes of judgements as JSON. Beyond it the session that was judged first goes."""


class _Entry(NamedTuple):
    found: Mapping[str, Any]
    size: int


class JudgementStore:
    """Judgements by session. A judgement takes the place of an earlier one by the same judge and model."""

    def __init__(self, bytes_max: int = JUDGED_BYTES_MAX) -> None:
        self.forgotten = 0
        """Judgements that went for the bound."""
        self._bytes_max = bytes_max
        self._size = 0
        self._sessions: OrderedDict[tuple[str, str], dict[tuple[Any, ...], _Entry]] = (
            OrderedDict()
        )

    def add(self, found: Mapping[str, Any]) -> None:
        """Keeps a judgement, as it is shown."""
        key = (found["namespace"], found["session"])
        session = self._sessions.setdefault(key, {})
        self._sessions.move_to_end(key)
        place = (found["begun"], found["judge"], found["model"])
        before = session.get(place)
        entry = _Entry(found, len(as_json(found)))
        session[place] = entry
        self._size += entry.size - (before.size if before else 0)
        while self._size > self._bytes_max and len(self._sessions) > 1:
            _, gone = self._sessions.popitem(last=False)
            self._size -= sum(each.size for each in gone.values())
            self.forgotten += len(gone)

    def of(self, name: SessionName, last: int) -> list[Mapping[str, Any]]:
        """The judgements of a session whose last call ended at `last`, in the order in which they came."""
        found = self._sessions.get((name.namespace, name.session), {})
        # An earlier call may have arrived since: then the session begins earlier.
        return [
            each.found for each in found.values() if name.begun <= each.found["begun"] <= last
        ]
