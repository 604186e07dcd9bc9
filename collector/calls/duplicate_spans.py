"""Drops spans whose ids were judged before: exporters send a request again when its answer is lost.

Idea: the ids of one trace's spans stand one behind the other in bytes, found by the trace. As entries of a set they
take four times as much.

Invariant: a key is found again for at least one period after it was last added, unless its tenant has filled more
than its share of the filter.
Forgetting costs nothing per span: a whole generation of keys is dropped at once.

Example: the keys `t + a` and `t + b` of trace t are one entry, t -> `ab`.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

__all__ = ["BYTES_MAX", "KEY_BYTES", "DuplicateFilter"]

PARTS: Final = 16
"""Each part has tables of its own: one table of a million keys takes 40 ms to grow or to free."""
_PART_AT: Final = (9, 15)
"""Two bytes of the trace id choose the part: not every byte of an id is random."""

_TRACE: Final = 16
_SPAN: Final = 8
KEY_BYTES: Final = _TRACE + _SPAN
"""Least bytes of a key: a trace id, a span id, and what distinguishes spans with the same ids."""

_FEW: Final = 64 * _SPAN
"""Bytes of ids that are looked through. A trace with more has a set, so that a span costs the same in any trace."""

BYTES_MAX: Final = 128 << 20
"""Bound on what all keys take."""

_TRACE_BYTES: Final = 176
_ID_BYTES: Final = 16
_SET_ID_BYTES: Final = 112
"""Bytes of a trace and of each of its ids, in bytes and in a set."""


class _Generation:
    """Keys that came in one period: by trace, how many there are, and what they take."""

    __slots__ = ("count", "few", "many", "taken")

    def __init__(self) -> None:
        self.few: dict[bytes, bytes] = {}
        """Trace id, with what follows the span id in its keys -> span ids, one behind the other."""
        self.many: dict[bytes, set[bytes]] = {}
        """The same of traces with more than a few."""
        self.count = 0
        self.taken = 0
        """Bytes, about."""

    def holds(self, trace: bytes, span: bytes) -> bool:
        known = self.few.get(trace)
        if known is not None:
            return _has(known, span)
        many = self.many.get(trace)
        return many is not None and span in many

    def add(self, trace: bytes, span: bytes) -> None:
        """Adds a key that is not known."""
        known, many = self.few.get(trace), self.many.get(trace)
        if known is not None:
            self.append(trace, known, span)
            return
        self.count += 1
        if many is not None:
            many.add(span)
            self.taken += _SET_ID_BYTES
        else:
            self.few[trace] = span
            self.taken += _TRACE_BYTES + _ID_BYTES

    def append(self, trace: bytes, known: bytes, span: bytes) -> None:
        """Adds a key that is not known to the few of its trace."""
        self.count += 1
        self.taken += _ID_BYTES
        known += span
        if len(known) <= _FEW:
            self.few[trace] = known
            return
        del self.few[trace]
        self.many[trace] = set(_ids(known))
        self.taken += len(known) // _SPAN * _SET_ID_BYTES

    def discard(self, trace: bytes, span: bytes) -> None:
        if not self.holds(trace, span):
            return
        self.count -= 1
        if trace in self.many:
            self.many[trace].discard(span)
            return
        self.few[trace] = b"".join([each for each in _ids(self.few[trace]) if each != span])

    def of_small_tenants(self) -> _Generation:
        """The keys of tenants that have no more than half a fair share of these."""
        counts: Counter[bytes] = Counter()
        for trace, ids in self.few.items():
            counts[_tenant(trace)] += len(ids) // _SPAN
        for trace, spans in self.many.items():
            counts[_tenant(trace)] += len(spans)
        share = self.count // (2 * max(1, len(counts)))
        kept = _Generation()
        for trace, ids in self.few.items():
            if counts[_tenant(trace)] <= share:
                kept.few[trace] = ids
                kept.count += len(ids) // _SPAN
                kept.taken += _TRACE_BYTES + len(ids) // _SPAN * _ID_BYTES
        for trace, spans in self.many.items():
            if counts[_tenant(trace)] <= share:
                kept.many[trace] = spans
                kept.count += len(spans)
                kept.taken += _TRACE_BYTES + len(spans) * _SET_ID_BYTES
        return kept


class _Part:
    """Two generations of keys. The young one becomes the old one after a period, or at its bound."""

    __slots__ = ("old", "since", "young")

    def __init__(self) -> None:
        self.young = _Generation()
        self.old = _Generation()
        self.since = 0


class DuplicateFilter:
    """Remembers the ids of judged spans for one to two periods, within a bound on their number and bytes.

    A key has `KEY_BYTES` bytes or more: it begins with a trace id and a span id.

    Args:
        period_ns: length of a period, Unix nanoseconds.
        bound: number of ids after which a period ends early; at most twice as many are remembered.
        bytes_max: what they may take in all, about; a period ends early at half of it.
    """

    def __init__(
        self,
        period_ns: int = 600 * 1_000_000_000,
        bound: int = 1_000_000,
        bytes_max: int = BYTES_MAX,
    ) -> None:
        self._period_ns = period_ns
        self._bound = bound // PARTS
        self._taken_max = bytes_max // PARTS // 2
        self._parts = [_Part() for _ in range(PARTS)]

    def is_repeat(self, key: bytes, now: int) -> bool:
        """Adds a key; True if it was known."""
        part = self._parts[(key[_PART_AT[0]] ^ key[_PART_AT[1]]) % PARTS]
        young = part.young
        if now < part.since:  # the clock was set back
            part.since = now
        if now - part.since >= self._period_ns:
            part.old, part.young, part.since = young, _Generation(), now
            young = part.young
        elif young.count >= self._bound or young.taken >= self._taken_max:
            part.old, part.young = young, young.of_small_tenants()
            young = part.young
            if not young.count:
                part.since = now
        trace, span = key[:_TRACE], key[_TRACE:KEY_BYTES]
        if len(key) != KEY_BYTES:
            trace += key[KEY_BYTES:]
        if part.old.count and part.old.holds(trace, span):
            return True
        # Mostly the ids of a trace are few, and this one is new among them.
        known = young.few.get(trace)
        if known is not None and known.find(span) < 0:
            young.append(trace, known, span)
            return False
        if young.holds(trace, span):
            return True
        young.add(trace, span)
        return False

    def forget(self, key: bytes) -> None:
        """Removes a key: its span was not judged after all."""
        part, trace, span = self._part(key), _trace_of(key), key[_TRACE:KEY_BYTES]
        part.young.discard(trace, span)
        part.old.discard(trace, span)

    def __contains__(self, key: bytes) -> bool:
        part, trace, span = self._part(key), _trace_of(key), key[_TRACE:KEY_BYTES]
        return part.young.holds(trace, span) or part.old.holds(trace, span)

    def _part(self, key: bytes) -> _Part:
        return self._parts[(key[_PART_AT[0]] ^ key[_PART_AT[1]]) % PARTS]

    def size(self) -> int:
        """Bytes that it takes, about."""
        return sum(part.young.taken + part.old.taken for part in self._parts)


def _trace_of(key: bytes) -> bytes:
    """What the keys of one trace have in common."""
    return key[:_TRACE] if len(key) == KEY_BYTES else key[:_TRACE] + key[KEY_BYTES:]


def _tenant(trace: bytes) -> bytes:
    """Of the entry of a trace: its namespace up to the first slash."""
    return trace[_TRACE:].partition(b"/")[0]


def _has(known: bytes, span: bytes) -> bool:
    at = known.find(span)
    # An id may also be found across two others: a sender can choose its ids so.
    while at % _SPAN and at >= 0:
        at = known.find(span, at + 1)
    return at >= 0


def _ids(known: bytes) -> list[bytes]:
    return [known[at : at + _SPAN] for at in range(0, len(known), _SPAN)]
