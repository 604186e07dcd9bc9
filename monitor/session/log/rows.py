"""Steps packed into rows of 32 bytes, and what is kept aside of them, by span id.

Idea: all rows have one width, so a step is read and marked by its place alone. Many steps share a
trace id and a parent's span id. Such a pair is a *context*: `_contexts` holds it once, and a row
holds its number. Call ids are packed separately (`call_ids.py`). Arguments, and times that do not
fit into a row, are kept in dictionaries by span id.

| bytes | content |
|---|---|
| 0 to 7 | `at`: the place in the order, Unix nanoseconds |
| 8 to 15 | times: length of the call (40 bits, nanoseconds), lag of its receipt (24 bits, ms) |
| 16 to 23 | span id |
| 24 to 26 | flags: number of the context (19 bits), late, error, evidence (2 bits), moved |
| 27 | mark: what the judgement notes (`monitor.session.judgement.step_marks`) |
| 28 and 29 | number of the tool |
| 30 and 31 | token |

Invariant: `row` returns what was packed. Only receipts are rounded, down to the millisecond.

Example: a call starts at 1,000 ms, ends at 1,002 ms and is received at 1,005 ms. Its `at` is
1,000,000,000, its length 2,000,000 and its lag 5, so its times are `5 << 40 | 2_000_000`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from struct import Struct, calcsize
from typing import Any, Final, NamedTuple

from mypy_extensions import mypyc_attr

from monitor.aggregate.score_histogram import Exemplar
from monitor.alphabet.things import CallThings
from monitor.records import Evidence, ToolCall, built
from monitor.session.log import call_ids
from monitor.weights import text_bytes, value_bytes

__all__ = [
    "CONTEXT",
    "CONTEXT_BYTES",
    "ENDED",
    "ERROR_SHIFT",
    "EVIDENCE",
    "EVIDENCE_AT",
    "EVIDENCE_SHIFT",
    "LENGTH",
    "MOVED",
    "NO_PARENT",
    "TOKEN",
    "TOOL",
    "WIDTH",
    "Brief",
    "Row",
    "Rows",
    "StepOrder",
    "StepTimes",
    "Texts",
    "append_row",
    "briefed",
    "mark_of",
    "may_name",
    "order_of",
    "origin_of",
    "pack_row",
    "parent_of",
    "unpacked",
]

WIDTH: Final = 32


def _row_format() -> str:
    """The format of a row: `at`, times, span id, flags with mark, tool, token.

    The native format takes half the time. It is used where it makes the same bytes.
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
TOOL: Final = 28
TOKEN: Final = 30
"""Offsets, in bytes, of the fields that are read alone."""

_Packed = tuple[int, int, bytes, int, int, int]

Brief = tuple[int, int, int, int]
"""The fields that stepping needs: `at`, times, flags with mark, token."""

# Bound once, because a lookup takes as long as the call.
pack_row: Final[Any] = _ROW.pack
_unpack: Final[Any] = _ROW.unpack_from
_unpack_at: Final[Any] = _AT.unpack_from
_unpack_times: Final[Any] = _TIMES.unpack_from


def _in_c() -> tuple[Callable[..., None], Callable[[bytes, bytes], bool]] | tuple[None, None]:
    """The C functions of `native.pyi`, if they were built."""
    try:
        from monitor.session.log import native
    except ImportError:
        return None, None
    return native.append, native.names


_IN_C: Final = _in_c()
append_row: Final = _IN_C[0]
"""(rows, fields of a row): appends the row in a third of the time of `pack_row`."""
_named: Final = _IN_C[1]
"""(contexts, span id): `may_name` for many contexts, in a tenth of the time."""


def unpacked(rows: bytearray) -> Iterator[_Packed]:
    """All rows, with all fields."""
    return _ROW.iter_unpack(rows)


def briefed(rows: bytearray) -> Iterator[Brief]:
    """All rows, with the fields that stepping needs."""
    return _STEP.iter_unpack(rows)


# A row holds end and receipt as distances from `at`: the length of the call in nanoseconds, and the
# lag of its receipt in milliseconds, less the lag of the log (`Rows._lag`). The log's lag is there
# because calls that are exported long after they were made all lag alike. What does not fit is kept
# in `Rows._far`: calls longer than 18 minutes, receipts hours after the others, wrong clocks.
_LENGTH_BITS: Final = 40
LENGTH: Final = (1 << _LENGTH_BITS) - 1
_MILLISECOND: Final = 1_000_000
_FAR: Final = (1 << 24) - 1
_EARLIER: Final = 1 << 20
"""If the first call of a log lags too much, later ones may lag this much less: 17 minutes, in ms."""

# The flags of a step: one integer of a row, whose highest byte is the mark.
CONTEXT: Final = (1 << 19) - 1
"""The bits of the context's number, which are the lowest ones."""
_LATE_AT: Final = 26
_LATE: Final = 1 << 3
"""A bit of byte 26: a step behind this one may have been received earlier."""
ERROR_SHIFT: Final = 20
EVIDENCE_SHIFT: Final = 21
MOVED: Final = 1 << 23
"""Set if `at` is not the start of the call."""
_MARK_SHIFT: Final = 24

CONTEXT_BYTES: Final = 24
"""A trace id and a parent's span id."""
NO_PARENT: Final = bytes(8)
_ID_BYTES: Final = 8
_LOOKED_THROUGH_MAX: Final = 16 * CONTEXT_BYTES
"""Up to 16 contexts are compared one by one; more are searched as a whole."""
_LOOK_BACK: Final = 4
"""Contexts, the latest, that a new one is compared with."""
EVIDENCE: Final = tuple(Evidence)
EVIDENCE_AT: Final = 26
_IN_FLIGHT: Final = tuple(EVIDENCE.index(each) for each in (Evidence.PENDING, Evidence.DECIDED))
ENDED: Final = bytes(
    flag for flag in range(256) if flag >> (EVIDENCE_SHIFT - 16) & 3 not in _IN_FLIGHT
)
"""The values that byte 26 of a row has if the call is not in flight."""

_BYTES: Final = 512
_ASIDE_BYTES: Final = 256
_HASH_BYTES: Final = 64
"""Approximate bytes: of an empty log with its judgement, of an entry kept aside, of a hash."""


def may_name(contexts: bytes, span_id: bytes) -> bool:
    """True if a span id may be a parent in one of the contexts. False positives are possible."""
    size = len(contexts)
    if size > _LOOKED_THROUGH_MAX or len(span_id) != _ID_BYTES:
        if _named is not None and len(span_id) == _ID_BYTES:
            return _named(contexts, span_id)
        # The same as `in`, which tries to read the id as a number first and takes three times as long.
        return not span_id or bool(contexts.partition(span_id)[1])
    last, end = span_id[_ID_BYTES - 1], CONTEXT_BYTES
    while end <= size:
        if contexts[end - 1] == last and contexts[end - _ID_BYTES : end] == span_id:
            return True
        end += CONTEXT_BYTES
    return False


def parent_of(context: bytes) -> bytes:
    """What the context of a step has in common with those of its siblings.

    Steps without a parent are siblings, in whatever traces: nothing tells what runs before what of them.
    """
    return NO_PARENT if context.endswith(NO_PARENT) else context


def origin_of(call: ToolCall, receipt: int) -> Exemplar | None:
    """What `Rows.origin` will say of a call; None if its ids do not have the usual lengths."""
    if len(call.span_id) != _ID_BYTES or len(call.trace_id) != CONTEXT_BYTES - _ID_BYTES:
        return None
    fields = (call.trace_id, call.span_id, receipt - receipt % _MILLISECOND)
    origin: Exemplar = built(Exemplar, fields)
    return origin


class Texts(NamedTuple):
    """The texts of a step, which are kept aside."""

    call_id: str
    arguments: Mapping[str, Any] | None
    hashed: frozenset[int] | None = None
    """Hashes of the arguments, if the session is in a sample (`monitor.aggregate.consistency_sample`)."""
    note: str = ""
    """Which arguments match no symbol, in a sentence."""
    things: CallThings | None = None
    """What the call is about, under a spec with `each`."""


class StepTimes(NamedTuple):
    """Times of a step whose `at` is not its start."""

    start: int
    own: int
    """Value of `at` without regard to the parent. The step stands later if its parent starts later."""


class Row(NamedTuple):
    """One step, unpacked. Times are Unix nanoseconds."""

    at: int
    """The place in the order: the start, unless spec, clock or parent call demand another."""
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


StepOrder = tuple[int, int, bytes]
"""What steps are ordered by: `at`, end, span."""


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
        """Texts by span id: of steps with arguments, hashes or a note, or with a call id that
        cannot be packed."""
        self._moved: dict[bytes, StepTimes] | None = None
        """Times of moved steps by span id."""
        self._far: dict[bytes, tuple[int, int]] | None = None
        """Ends and receipts that do not fit into a row, by span id."""
        self._lag = 0
        """The lag of the log, in milliseconds: it is subtracted from the lag of each receipt."""

    def __len__(self) -> int:
        return len(self._rows) // WIDTH

    # --- packing --------------------------------------------------------------------------------------

    def _times(self, at: int, end: int, receipt: int, span: bytes) -> int:
        """Packs the end and the receipt of a step into one integer."""
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
        """The row at `place`: at, times, span id, flags with mark, tool, token."""
        step: _Packed = _unpack(self._rows, place * WIDTH)
        return step

    def _end_and_receipt(self, at: int, times: int, span: bytes) -> tuple[int, int]:
        lag = times >> _LENGTH_BITS
        if lag == _FAR:
            # Two steps may claim one span id. Removing the first removes what is kept aside of both.
            return (self._far or {}).get(span) or (at, at)
        # In compiled code a product of small integers is cheap, one of large integers is not.
        receipt = at - at % _MILLISECOND + (self._lag + lag) * _MILLISECOND
        return at + (times & LENGTH), receipt

    def _move(self, span: bytes, meta: int, start: int, own: int) -> int:
        """Stores the times of a step whose `at` is not its start; returns its flags."""
        if self._moved is None:
            self._moved = {}
        self._moved[span] = StepTimes(start, own)
        return meta | MOVED

    def _is_late(self, place: int) -> bool:
        return bool(self._rows[place * WIDTH + _LATE_AT] & _LATE)

    def _mark_late(self, place: int, *, late: bool) -> None:
        at = place * WIDTH + _LATE_AT
        self._rows[at] = self._rows[at] & ~_LATE | (_LATE if late else 0)

    # --- what is kept aside ---------------------------------------------------------------------------

    def keep(self, span_id: bytes, texts: Texts) -> None:
        """Keeps the texts of a step until the step is folded. Call ids are kept without this."""
        if self._texts is None:
            self._texts = {}
        self._texts[span_id] = texts

    def drop_arguments(self, least: int) -> int:
        """Drops arguments of the earliest steps, until about so many bytes are free; returns how many steps'."""
        steps = freed = 0
        kept = self._texts or {}
        for place in range(len(self._rows) // WIDTH if kept else 0):
            span = self._step(place)[2]
            texts = kept.get(span)
            if texts is None or texts.arguments is None:
                continue
            steps += 1
            freed += value_bytes(texts.arguments)
            left = texts._replace(arguments=None)
            if _is_needed(span, left):
                kept[span] = left
            else:
                del kept[span]
            if freed >= least:
                break
        return steps

    def texts(self, place: int) -> Texts | None:
        """What is kept aside of a step; None if nothing is, but perhaps a call id."""
        return self._texts.get(self._step(place)[2]) if self._texts else None

    def texts_of(self, span_id: bytes) -> Texts | None:
        """The same, by span id; the step may be yet to come."""
        return self._texts.get(span_id) if self._texts is not None else None

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
        """Drops the hashes of arguments, which are no longer needed."""
        kept: dict[bytes, Texts] = {}
        for span, each in (self._texts or {}).items():
            left = each._replace(hashed=None)
            if _is_needed(span, left):
                kept[span] = left
        self._texts = kept or None

    def _drop_aside(self, place: int) -> None:
        span = self._step(place)[2]
        if self._ids:
            self._ids = call_ids.without(self._ids, span)
        for aside in (self._texts, self._moved, self._far):
            if aside:
                aside.pop(span, None)

    def _origin(self, span: bytes, at: int, meta: int) -> tuple[int, int]:
        """(start, `at` without regard to the parent) of a step."""
        moved = self._moved.get(span) if meta & MOVED and self._moved else None
        return moved if moved is not None else (at, at)

    # --- contexts: the trace and the parent of a step -------------------------------------------------

    def _number(self, context: bytes) -> int:
        """The number of a context, which is added if it is new.

        Siblings share one, so it is nearly always the last. Only the last 4 are compared: if every
        call had its own parent, a full search would make each call of a long session more
        expensive. So one context may have several numbers.
        """
        contexts = self._contexts
        size = len(contexts)
        begin, least = size - CONTEXT_BYTES, max(0, size - _LOOK_BACK * CONTEXT_BYTES)
        while begin >= least:
            # The last byte is compared first: it nearly always differs, and a slice costs more.
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

    def _parent(self, meta: int) -> bytes:
        """What a step has in common with its siblings: see `parent_of`."""
        return parent_of(self._context(meta))

    def _siblings(self, meta: int, other: int) -> bool:
        """True if two steps have the same parent, or neither has one."""
        if not (meta ^ other) & CONTEXT:
            return True
        return self._parent(meta) == self._parent(other)

    def _compact(self) -> None:
        """Drops the contexts that no step uses any more."""
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
        rows, base = self._rows, place * WIDTH + TOOL
        return rows[base] | rows[base + 1] << 8

    def token(self, place: int) -> int:
        rows, base = self._rows, place * WIDTH + TOKEN
        return rows[base] | rows[base + 1] << 8

    def set_token(self, place: int, token: int) -> None:
        rows, base = self._rows, place * WIDTH + TOKEN
        rows[base], rows[base + 1] = token & 0xFF, token >> 8

    def span_id(self, place: int) -> bytes:
        """The id of a step's span."""
        at = place * WIDTH + _SPAN
        return bytes(self._rows[at : at + _ID_BYTES])

    def mark(self, place: int) -> int:
        """The mark of a step, one byte."""
        return self._rows[place * WIDTH + _MARK]

    def set_mark(self, place: int, mark: int) -> None:
        """Marks a step; -1 is the last one."""
        self._rows[place * WIDTH + _MARK] = mark

    def marks(self) -> bytes:
        """The marks of all steps."""
        return bytes(self._rows[_MARK::WIDTH])

    def tools(self) -> set[int]:
        """The numbers of the tools of all steps."""
        rows = self._rows
        found = set(zip(rows[TOOL::WIDTH], rows[TOOL + 1 :: WIDTH], strict=True))
        return {low | high << 8 for low, high in found}

    def rewrite(self, field: int, numbers: Mapping[int, int]) -> None:
        """Gives tools or tokens other numbers, in all steps; those that are not named stay.

        Args:
            field: `TOOL` or `TOKEN`.
            numbers: new ones by the old ones.
        """
        rows = self._rows
        for place in range(field, len(rows), WIDTH):
            old = rows[place] | rows[place + 1] << 8
            new = numbers.get(old, old)
            rows[place], rows[place + 1] = new & 0xFF, new >> 8

    def size(self) -> int:
        """Approximate bytes of the log and its judgement."""
        total = _BYTES + len(self._rows) + len(self._contexts) + len(self._ids)
        if self._texts is not None:
            for texts in self._texts.values():
                total += _ASIDE_BYTES + text_bytes(texts.call_id) + text_bytes(texts.note)
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

    def find_last(self, span_id: bytes) -> int | None:
        """Place of the last step with this span id. Spans of one id are told apart by their callers."""
        rows = self._rows
        found = rows.rfind(span_id)
        while found >= 0 and found % WIDTH != _SPAN:
            found = rows.rfind(span_id, 0, found + len(span_id) - 1)
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
        """The steps from `first` to before `end`, with the fields that stepping needs."""
        return list(briefed(self._rows[first * WIDTH : end * WIDTH]))

    def _end(self, place: int, at: int, times: int) -> int:
        """When the step at `place` ended."""
        if self._far is None or times >> _LENGTH_BITS != _FAR:
            return at + (times & LENGTH)
        return self._end_and_receipt(at, times, self._step(place)[2])[0]


def mark_of(meta: int) -> int:
    """The mark of a step, from its flags."""
    return meta >> _MARK_SHIFT


def _is_needed(span: bytes, texts: Texts) -> bool:
    """True if texts have more to keep than a call id that `call_ids` packs."""
    if texts.arguments is not None or texts.hashed is not None or texts.note:
        return True
    if texts.things is not None:
        return True
    return bool(texts.call_id) and not call_ids.packed(span, texts.call_id)


def order_of(log: Rows, place: int) -> StepOrder:
    """The place of a step in the order of all calls."""
    row = log.row(place)
    return row.at, row.end, row.span_id
