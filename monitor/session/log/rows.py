"""Steps packed into rows of 32 bytes, and what is kept aside of them, by span id.

Idea: a row has a fixed width, so a step is read and marked by its place alone. Ids of traces and
parents are shared by many steps: they stand once in `_contexts`, and a row has their number. Call
ids are packed apart (`call_ids.py`).

A row, by its bytes: the place in the order (0 to 7), times (8 to 15), span id (16 to 23), what the
step is (24 to 26: number of the context, late, error, evidence, moved), the mark (27), tool (28 and
29), token (30 and 31).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from struct import Struct, calcsize
from typing import Any, Final, NamedTuple

from mypy_extensions import mypyc_attr

from monitor.aggregate.histogram import Exemplar
from monitor.records import Evidence, ToolCall, built
from monitor.session.log import call_ids
from monitor.weights import text_bytes, value_bytes

__all__ = [
    "CONTEXT",
    "CONTEXT_BYTES",
    "ERROR_SHIFT",
    "EVIDENCE",
    "EVIDENCE_SHIFT",
    "LENGTH",
    "MOVED",
    "NO_PARENT",
    "WIDTH",
    "Brief",
    "Moved",
    "Row",
    "Rows",
    "Texts",
    "append_row",
    "briefed",
    "mark_of",
    "may_name",
    "origin_of",
    "pack_row",
    "unpacked",
]

WIDTH: Final = 32


def _row_format() -> str:
    """A row: its place in the order, its times, its span id, what it is, its tool, its token.

    Sizes of the machine take half the time, where they make the same bytes.
    """
    own = "@NN8sIHH"
    same = sys.byteorder == "little" and calcsize(own) == WIDTH
    return own if same else "<QQ8sIHH"


_ROW: Final = Struct(_row_format())
_STEP: Final = Struct("<QQ8xI2xH")
_AT: Final = Struct("<Q")
_TIMES: Final = Struct("<QQ")
_SPAN: Final = 16
_MARK: Final = 27
_TOOL: Final = 28
_TOKEN: Final = 30
"""Where in a row what is read by itself begins."""

_Packed = tuple[int, int, bytes, int, int, int]

Brief = tuple[int, int, int, int]
"""What of a row a step needs: its place in the order, its times, what it is, its token."""

# Bound once: looking them up takes as long as what they do.
pack_row: Final[Any] = _ROW.pack
_unpack: Final[Any] = _ROW.unpack_from
_unpack_at: Final[Any] = _AT.unpack_from
_unpack_times: Final[Any] = _TIMES.unpack_from


def _in_c() -> tuple[Callable[..., None], Callable[[bytes, bytes], bool]] | tuple[None, None]:
    """What `native.pyi` promises, where it was built."""
    try:
        from monitor.session.log import native
    except ImportError:
        return None, None
    return native.append, native.names


_IN_C: Final = _in_c()
append_row: Final = _IN_C[0]
"""(rows, what one holds) adds it, in a third of the time that packing it takes."""
_named: Final = _IN_C[1]
"""(contexts, span id): the same as `may_name`, for many contexts in a tenth of the time."""


def unpacked(rows: bytearray) -> Iterator[_Packed]:
    """All rows, each with all that it holds."""
    return _ROW.iter_unpack(rows)


def briefed(rows: bytearray) -> Iterator[Brief]:
    """What of the rows a step needs."""
    return _STEP.iter_unpack(rows)


# End and receipt are kept as distances from the place in the order: how long the call took, to the
# nanosecond, and how much later it was received, in whole milliseconds of the clock, above what is
# the log's: calls that are received long after they were made all lag alike. What does not fit
# (calls of 18 minutes, receipts hours after the others', clocks that are wrong) is kept aside.
_LENGTH_BITS: Final = 40
LENGTH: Final = (1 << _LENGTH_BITS) - 1
_MILLISECOND: Final = 1_000_000
_FAR: Final = (1 << 24) - 1
_EARLIER: Final = 1 << 20
"""What later calls of a log may lag less than its first one, where that lags much: 17 minutes."""

# What a step is, one integer of a row, from its lowest bit on; its highest byte is the mark.
CONTEXT: Final = (1 << 19) - 1
_LATE_AT: Final = 26
_LATE: Final = 1 << 3
"""A bit of this byte of a row, above the context: a step behind this one may have been received earlier."""
ERROR_SHIFT: Final = 20
EVIDENCE_SHIFT: Final = 21
MOVED: Final = 1 << 23
_MARK_SHIFT: Final = 24

CONTEXT_BYTES: Final = 24
"""A trace id and a parent's span id."""
NO_PARENT: Final = bytes(8)
_ID_BYTES: Final = 8
_LOOKED_THROUGH_MAX: Final = 16 * CONTEXT_BYTES
"""So many contexts are looked through one by one."""
_LOOK_BACK: Final = 4
EVIDENCE: Final = tuple(Evidence)

_BYTES: Final = 512
_ASIDE_BYTES: Final = 256
_HASH_BYTES: Final = 64
"""What an empty log and its judgement take, what is kept aside of a step, and a hash of arguments."""


def may_name(contexts: bytes, span_id: bytes) -> bool:
    """True where a span id may be one of the parents."""
    size = len(contexts)
    if size > _LOOKED_THROUGH_MAX or len(span_id) != _ID_BYTES:
        if _named is not None and len(span_id) == _ID_BYTES:
            return _named(contexts, span_id)
        # As `in`, which first takes the id for a number, at a third of the cost.
        return not span_id or bool(contexts.partition(span_id)[1])
    last, end = span_id[_ID_BYTES - 1], CONTEXT_BYTES
    while end <= size:
        if contexts[end - 1] == last and contexts[end - _ID_BYTES : end] == span_id:
            return True
        end += CONTEXT_BYTES
    return False


def origin_of(call: ToolCall, receipt: int) -> Exemplar | None:
    """What a log will say of where a call's step came from; None for ids it has to fit in."""
    if len(call.span_id) != _ID_BYTES or len(call.trace_id) != CONTEXT_BYTES - _ID_BYTES:
        return None
    fields = (call.trace_id, call.span_id, receipt - receipt % _MILLISECOND)
    origin: Exemplar = built(Exemplar, fields)
    return origin


class Texts(NamedTuple):
    """What of a step is not a number."""

    call_id: str
    arguments: Mapping[str, Any] | None
    hashed: frozenset[int] | None = None
    """Of the arguments, where the session is in a sample (`monitor.aggregate.consistency_sample`)."""


class Moved(NamedTuple):
    """A step that does not stand where it started."""

    start: int
    own: int
    """Where it would stand by itself; it may stand behind, with the call it is a part of."""


class Row(NamedTuple):
    """One step, unpacked. Times are Unix nanoseconds."""

    at: int
    """Where the call stands in the order: its start, unless its clock or its spec says else."""
    start: int
    end: int
    receipt: int
    span_id: bytes
    parent_span_id: bytes
    trace_id: bytes
    tool: int
    error: bool
    evidence: Evidence
    texts: Texts | None


@mypyc_attr(acyclic=True)
class Rows:
    """Packed steps in some order, and what is kept aside of them."""

    __slots__ = ("_contexts", "_far", "_ids", "_lag", "_moved", "_rows", "_texts")

    def __init__(self) -> None:
        self._rows = bytearray()
        self._contexts = b""
        self._ids = b""
        """Call ids, as `call_ids` packs them."""
        self._texts: dict[bytes, Texts] | None = None
        """By span id, where there is more than an id, or an id that is not packed."""
        self._moved: dict[bytes, Moved] | None = None
        """By span id."""
        self._far: dict[bytes, tuple[int, int]] | None = None
        """By span id, ends and receipts too far away to be packed."""
        self._lag = 0
        """What is taken off how much later each step was received, in milliseconds."""

    def __len__(self) -> int:
        return len(self._rows) // WIDTH

    # --- packing --------------------------------------------------------------------------------------

    def _times(self, at: int, end: int, receipt: int, span: bytes) -> int:
        """The end and the receipt of a step, in one integer."""
        length = end - at
        lag = receipt // _MILLISECOND - at // _MILLISECOND - self._lag
        if 0 <= length <= LENGTH:
            if 0 <= lag < _FAR:
                return lag << _LENGTH_BITS | length
            if not self._rows:
                self._lag += lag - _EARLIER
                return _EARLIER << _LENGTH_BITS | length
        if self._far is None:
            self._far = {}
        self._far[span] = end, receipt - receipt % _MILLISECOND
        return _FAR << _LENGTH_BITS

    def _step(self, place: int) -> _Packed:
        """The row at `place`: its place in the order, times, span id, what it is, tool, token."""
        step: _Packed = _unpack(self._rows, place * WIDTH)
        return step

    def _end_and_receipt(self, at: int, times: int, span: bytes) -> tuple[int, int]:
        lag = times >> _LENGTH_BITS
        if lag == _FAR:
            # Two steps of one session may claim one span id: what is kept aside goes with the first.
            return (self._far or {}).get(span) or (at, at)
        # Compiled, a product of small numbers is cheap, and one of large ones is not.
        receipt = at - at % _MILLISECOND + (self._lag + lag) * _MILLISECOND
        return at + (times & LENGTH), receipt

    def _move(self, span: bytes, meta: int, start: int, own: int) -> int:
        """Notes that a step does not stand where it started."""
        if self._moved is None:
            self._moved = {}
        self._moved[span] = Moved(start, own)
        return meta | MOVED

    def _is_late(self, place: int) -> bool:
        return bool(self._rows[place * WIDTH + _LATE_AT] & _LATE)

    def _mark_late(self, place: int, *, late: bool) -> None:
        at = place * WIDTH + _LATE_AT
        self._rows[at] = self._rows[at] & ~_LATE | (_LATE if late else 0)

    # --- what is kept aside ---------------------------------------------------------------------------

    def keep(self, span_id: bytes, texts: Texts) -> None:
        """Keeps what of a step is text until the step is folded; its call id is kept in any case."""
        if self._texts is None:
            self._texts = {}
        self._texts[span_id] = texts

    def _keep_id(self, span: bytes, call_id: str) -> None:
        known, self._ids = self._ids, call_ids.added(self._ids, span, call_id)
        if self._ids is not known:
            return
        if self._texts is None:
            self._texts = {}
        self._texts.setdefault(span, Texts(call_id, None))

    def _texts_of(self, span: bytes) -> Texts | None:
        texts = self._texts.get(span) if self._texts else None
        if texts is not None or not self._ids:
            return texts
        call_id = call_ids.found(self._ids, span)
        return Texts(call_id, None) if call_id else None

    def release(self) -> None:
        """Lets go of the hashes of arguments: they have been compared."""
        kept: dict[bytes, Texts] = {}
        for span, each in (self._texts or {}).items():
            is_packed = not each.call_id or bool(call_ids.packed(span, each.call_id))
            if each.arguments is not None or not is_packed:
                kept[span] = each._replace(hashed=None)
        self._texts = kept or None

    def _drop_aside(self, place: int) -> None:
        span = self._step(place)[2]
        if self._ids:
            self._ids = call_ids.without(self._ids, span)
        for aside in (self._texts, self._moved, self._far):
            if aside:
                aside.pop(span, None)

    def _origin(self, span: bytes, at: int, meta: int) -> tuple[int, int]:
        """When a step started, and where it would stand by itself."""
        moved = self._moved.get(span) if meta & MOVED and self._moved else None
        return moved if moved is not None else (at, at)

    # --- contexts: the trace and the parent of a step -------------------------------------------------

    def _number(self, context: bytes) -> int:
        """Number of a (trace, parent) pair; siblings share one, so it is nearly always the last.

        Only the last few are compared: where every call has a parent of its own a full search
        would make a session's cost grow with its length. So one pair may have several numbers.
        """
        contexts = self._contexts
        size = len(contexts)
        begin, least = size - CONTEXT_BYTES, max(0, size - _LOOK_BACK * CONTEXT_BYTES)
        while begin >= least:
            # Nearly always the last bytes of others differ: a slice costs more than a byte.
            if (
                contexts[begin + CONTEXT_BYTES - 1] == context[-1]
                and contexts[begin : begin + CONTEXT_BYTES] == context
            ):
                return begin // CONTEXT_BYTES
            begin -= CONTEXT_BYTES
        count = size // CONTEXT_BYTES
        if count > CONTEXT:
            return CONTEXT
        self._contexts = contexts + context
        return count

    def _context(self, meta: int) -> bytes:
        """The trace id and the parent's span id of a step."""
        place = (meta & CONTEXT) * CONTEXT_BYTES
        return self._contexts[place : place + CONTEXT_BYTES]

    def _siblings(self, meta: int, other: int) -> bool:
        """True where two steps are of one trace and have one parent."""
        if not (meta ^ other) & CONTEXT:
            return True
        return self._context(meta) == self._context(other)

    def _compact(self) -> None:
        """Forgets the contexts no step uses any more."""
        numbers: dict[bytes, int] = {}
        rows = bytearray()
        for at, times, span, meta, tool, token in unpacked(self._rows):
            number = numbers.setdefault(self._context(meta), len(numbers))
            rows += pack_row(at, times, span, meta & ~CONTEXT | number, tool, token)
        self._rows = rows
        self._contexts = b"".join(numbers)

    # --- reading --------------------------------------------------------------------------------------

    def at(self, place: int) -> int:
        at: int = _unpack_at(self._rows, place * WIDTH)[0]
        return at

    def receipt(self, place: int) -> int:
        """When the step was received, to the millisecond below."""
        packed: tuple[int, int] = _unpack_times(self._rows, place * WIDTH)
        at, times = packed
        span = b"" if times >> _LENGTH_BITS != _FAR else self._step(place)[2]
        return self._end_and_receipt(at, times, span)[1]

    def tool(self, place: int) -> int:
        """The number of the step's tool."""
        rows, base = self._rows, place * WIDTH + _TOOL
        return rows[base] | rows[base + 1] << 8

    def token(self, place: int) -> int:
        rows, base = self._rows, place * WIDTH + _TOKEN
        return rows[base] | rows[base + 1] << 8

    def mark(self, place: int) -> int:
        """What the judgement has noted on a step, one byte."""
        return self._rows[place * WIDTH + _MARK]

    def set_mark(self, place: int, mark: int) -> None:
        self._rows[place * WIDTH + _MARK] = mark

    def mark_last(self, mark: int) -> None:
        """Marks the step that was just appended."""
        self._rows[_MARK - WIDTH] = mark

    def marks(self) -> bytes:
        """The marks of all steps."""
        return bytes(self._rows[_MARK::WIDTH])

    def tools(self) -> set[tuple[int, int]]:
        """The numbers of its steps' tools, each as its lower and its upper byte."""
        rows = self._rows
        return set(zip(rows[_TOOL::WIDTH], rows[_TOOL + 1 :: WIDTH], strict=True))

    def size(self) -> int:
        """Bytes that it and its judgement take, about."""
        total = _BYTES + len(self._rows) + len(self._contexts) + len(self._ids)
        if self._texts is not None:
            for texts in self._texts.values():
                total += _ASIDE_BYTES + text_bytes(texts.call_id)
                if texts.hashed is not None:
                    total += _HASH_BYTES * len(texts.hashed)
                if texts.arguments is not None:
                    total += value_bytes(texts.arguments)
        for aside in (self._moved, self._far):
            if aside is not None:
                total += _ASIDE_BYTES * len(aside)
        return total

    def find(self, span_id: bytes) -> int | None:
        """Place of the step with this span id."""
        rows = self._rows
        found = rows.find(span_id)
        while found >= 0 and found % WIDTH != _SPAN:
            found = rows.find(span_id, found + 1)
        return found // WIDTH if found >= 0 else None

    def origin(self, place: int) -> Exemplar:
        """Trace id, span id and receipt of the step at `place`."""
        at, times, span, meta, _, _ = self._step(place)
        receipt = self._end_and_receipt(at, times, span)[1]
        origin: Exemplar = built(Exemplar, (self._context(meta)[:16], span, receipt))
        return origin

    def row(self, place: int) -> Row:
        """The step at `place`, unpacked."""
        at, times, span, meta, tool, _ = self._step(place)
        context = self._context(meta)
        end, receipt = self._end_and_receipt(at, times, span)
        parent = context[16:]
        fields = (
            at,
            self._origin(span, at, meta)[0],
            end,
            receipt,
            span,
            b"" if parent == NO_PARENT else parent,
            context[:16],
            tool,
            bool(meta >> ERROR_SHIFT & 1),
            EVIDENCE[meta >> EVIDENCE_SHIFT & 3],
            self._texts_of(span),
        )
        row: Row = built(Row, fields)
        return row

    def unpacked(self, first: int, end: int) -> list[Brief]:
        """What is needed to step some steps, one after the other."""
        return list(briefed(self._rows[first * WIDTH : end * WIDTH]))

    def _end(self, place: int, at: int, times: int) -> int:
        """When the step at `place` ended."""
        if self._far is None or times >> _LENGTH_BITS != _FAR:
            return at + (times & LENGTH)
        return self._end_and_receipt(at, times, self._step(place)[2])[0]

    def times(self, first: int, end: int) -> list[tuple[int, int]]:
        """(place in the order, end) of some steps."""
        return [
            (at, self._end(place, at, times))
            for place, (at, times, _, _) in enumerate(self.unpacked(first, end), first)
        ]


def mark_of(meta: int) -> int:
    """What the judgement has noted on a step, of what the step is."""
    return meta >> _MARK_SHIFT
