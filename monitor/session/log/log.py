"""The recent steps of one judgement, in call order, packed into bytes.

Idea: a step is a row of 32 bytes in one `bytearray`. A tuple of the same content takes eight times
as much, and a monitor holds many sessions. A row holds its place in the order (`at`), how long the
call took, how much later it was received, its span id, flags, a mark of the judgement, and the
numbers of its context (trace and parent), tool and token. What does not fit is kept aside, by span
id: texts (`Texts`), moved steps (`_Moved`), distant times (`_far`).

Invariants:

- Rows are sorted by (at, end, span id), whatever the order of arrival. So the same calls give the
  same log.
- `at` is the start of the call, with one exception: a call stands behind the call that it is a part
  of, whatever the clocks of their hosts say (`settle`).
- `append` takes only calls that belong behind all others and overlap no sibling. All others go
  through `insert`.
- `tail_end` and `_running` say what runs on behind the last step, so `append` decides in O(1).
- While `grouped` is False, no siblings overlap.

Example: `a` (10 to 20), `b` (12 to 30) and `c` (30 to 31) have one parent. `b` starts before `a`
has ended, so they are a group: `groups()` is `[(0, 2)]`. `c` starts when `b` has ended: touching
times are a sequence, and `c` is in no group.

Source: docs/decisions/0003-log-behind-a-checkpoint.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from struct import Struct, calcsize
from typing import Any, Final, NamedTuple

from mypy_extensions import mypyc_attr

from monitor.aggregate.histogram import Exemplar
from monitor.records import Evidence, ToolCall, built
from monitor.session.log import call_ids
from monitor.session.tool_names import Names
from monitor.weights import text_bytes, value_bytes

__all__ = ["Brief", "Log", "Names", "Placed", "Row", "Texts", "mark_of", "origin_of"]

_WIDTH: Final = 32


def _row_format() -> str:
    """A row: its place in the order, its times, its span id, what it is, its tool, its token.

    Sizes of the machine take half the time, where they make the same bytes.
    """
    own = "@NN8sIHH"
    same = sys.byteorder == "little" and calcsize(own) == _WIDTH
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
_pack: Final[Any] = _ROW.pack
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
_append: Final = _IN_C[0]
"""(rows, what one holds) adds it, in a third of the time that packing it takes."""
_named: Final = _IN_C[1]
"""(contexts, span id) tells what `_names` tells, of many in a tenth of the time."""


def _unpacked(rows: bytearray) -> Iterator[_Packed]:
    return _ROW.iter_unpack(rows)


def _briefed(rows: bytearray) -> Iterator[Brief]:
    return _STEP.iter_unpack(rows)


# End and receipt are kept as distances from the place in the order: how long the call took, to the
# nanosecond, and how much later it was received, in whole milliseconds of the clock, above what is
# the log's: calls that are told again long after they were made all lag alike. What does not fit
# (calls of 18 minutes, receipts hours after the others', clocks that are wrong) is kept aside.
_LENGTH_BITS: Final = 40
_LENGTH: Final = (1 << _LENGTH_BITS) - 1
_MILLISECOND: Final = 1_000_000
_FAR: Final = (1 << 24) - 1
_EARLIER: Final = 1 << 20
"""What later calls of a log may lag less than its first one, where that lags much: 17 minutes."""

# What a step is, one integer of a row, from its lowest bit on; its highest byte is the mark.
_CONTEXT: Final = (1 << 19) - 1
_LATE_AT: Final = 26
_LATE: Final = 1 << 3
"""A bit of this byte of a row, above the context: a step behind this one may have been received earlier."""
_ERROR_SHIFT: Final = 20
_EVIDENCE_SHIFT: Final = 21
_MOVED: Final = 1 << 23
_MARK_SHIFT: Final = 24

_CONTEXT_BYTES: Final = 24
"""A trace id and a parent's span id."""
_NO_PARENT: Final = bytes(8)
_ID_BYTES: Final = 8
_LOOKED_THROUGH_MAX: Final = 16 * _CONTEXT_BYTES
"""So many contexts are looked through one by one."""
_LOOK_BACK: Final = 4
_DEPTH_MAX: Final = 8
"""Calls within calls that are moved with the outermost; and spans may claim to be in a circle."""
_EVIDENCE: Final = tuple(Evidence)

_BYTES: Final = 512
_ASIDE_BYTES: Final = 256
_HASH_BYTES: Final = 64
"""What an empty log and its judgement take, what is kept aside of a step, and a hash of arguments."""


def _names(contexts: bytes, span_id: bytes) -> bool:
    """True where a span id may be one of the parents."""
    size = len(contexts)
    if size > _LOOKED_THROUGH_MAX or len(span_id) != _ID_BYTES:
        if _named is not None and len(span_id) == _ID_BYTES:
            return _named(contexts, span_id)
        # As `in`, which first takes the id for a number, at a third of the cost.
        return not span_id or bool(contexts.partition(span_id)[1])
    last, end = span_id[_ID_BYTES - 1], _CONTEXT_BYTES
    while end <= size:
        if contexts[end - 1] == last and contexts[end - _ID_BYTES : end] == span_id:
            return True
        end += _CONTEXT_BYTES
    return False


def origin_of(call: ToolCall, receipt: int) -> Exemplar | None:
    """What a log will say of where a call's step came from; None for ids it has to fit in."""
    if len(call.span_id) != _ID_BYTES or len(call.trace_id) != _CONTEXT_BYTES - _ID_BYTES:
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


class _Moved(NamedTuple):
    """A step that does not stand where it started."""

    start: int
    own: int
    """Where it would stand by itself; it may stand behind, with the call it is a part of."""


class Placed(NamedTuple):
    """Where a step was added."""

    place: int
    first: int
    """The first place where another step stands than before."""
    moved: int
    """Steps that do not stand where they started, because they are parts of others."""


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
class Log:
    """Rows sorted by (at, end, span id); each has a token and a mark, which is the judgement's."""

    __slots__ = (
        "_contexts",
        "_far",
        "_ids",
        "_lag",
        "_moved",
        "_newest",
        "_rows",
        "_running",
        "_texts",
        "grouped",
        "tail_end",
    )

    def __init__(self) -> None:
        self._rows = bytearray()
        self._contexts = b""
        self._ids = b""
        """Call ids, as `call_ids` packs them."""
        self._texts: dict[bytes, Texts] | None = None
        """By span id, where there is more than an id, or an id that is not packed."""
        self._moved: dict[bytes, _Moved] | None = None
        """By span id."""
        self._far: dict[bytes, tuple[int, int]] | None = None
        """By span id, ends and receipts too far away to be packed."""
        self._lag = 0
        """What is taken off how much later each step was received, in milliseconds."""
        self.grouped = False
        """False where no siblings overlap, as far as `groups` was asked since the last insertion."""
        self._newest = 0
        """The latest receipt of a step."""
        self.tail_end = 0
        """When the last step has begun, and all that had not ended by then has ended."""
        self._running: dict[bytes, int] | None = None
        """By parent, when the last of its steps that had not ended when the last step began will have
        ended; None where they all have one parent."""

    def __len__(self) -> int:
        return len(self._rows) // _WIDTH

    # --- adding and removing -------------------------------------------------------------------

    def append(self, call: ToolCall, tool: int, token: int, at: int, receipt: int) -> bool:
        """Adds a call after all others, its mark 0 until judged.

        False, and nothing done, where it belongs earlier, overlaps a sibling, or may be what
        earlier steps are a part of.
        """
        span, end, tail_end = call.span_id, call.end_ns, self.tail_end
        if _names(self._contexts, span):
            return False
        meta = self._meta(call, at)
        if at <= tail_end and self._rows:
            last, _, _, other, _, _ = self._step(-1)
            if at <= last or (at < tail_end and self._is_beside(meta, other, at)):
                return False
            if at < tail_end:
                self._run_on(meta, other, at, end)
        if at >= tail_end:
            self.tail_end = max(at, end)
            if self._running is not None:
                self._running = None
        if receipt >= self._newest:
            self._newest = receipt
        else:
            self._note_receipt(len(self), receipt)
        times = self._times(at, end, receipt, span)
        if _append is not None:
            _append(self._rows, at, times, span, meta, tool, token)
        else:
            self._rows += _pack(at, times, span, meta, tool, token)
        if call.call_id:
            self._keep_id(span, call.call_id)
        return True

    def insert(self, call: ToolCall, tool: int, token: int, at: int, receipt: int) -> Placed:
        """Adds a call in its place, its mark 0 until judged.

        It stands behind the call it is a part of, and before its own parts, whatever the clocks
        of their hosts say.
        """
        span, end, meta = call.span_id, call.end_ns, self._meta(call, at)
        if call.call_id:
            self._keep_id(span, call.call_id)
        begun = self._begun(call.trace_id, call.parent_span_id)
        behind = begun is not None and begun >= at
        if begun is not None and behind:
            meta = self._move(span, meta, call.start_ns, at)
            at = begun + 1
        times = self._times(at, end, receipt, span)
        place = self._insert(at, end, span, receipt, _pack(at, times, span, meta, tool, token))
        moved = self.settle(call.trace_id, span)
        if not moved:
            placed: Placed = built(Placed, (place, place, int(behind)))
            return placed
        place = self.find(span) or 0
        return Placed(place, min([place, *moved]), behind + len(moved) // 2)

    def _meta(self, call: ToolCall, at: int) -> int:
        """What a step is, its mark 0."""
        meta = self._number(call.trace_id + (call.parent_span_id or _NO_PARENT))
        if call.error:
            meta |= 1 << _ERROR_SHIFT
        if call.evidence is not Evidence.EXECUTED:
            meta |= _EVIDENCE.index(call.evidence) << _EVIDENCE_SHIFT
        if at != call.start_ns:
            meta = self._move(call.span_id, meta, call.start_ns, at)
        return meta

    def _times(self, at: int, end: int, receipt: int, span: bytes) -> int:
        """The end and the receipt of a step, in one integer."""
        length = end - at
        lag = receipt // _MILLISECOND - at // _MILLISECOND - self._lag
        if 0 <= length <= _LENGTH:
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
        step: _Packed = _unpack(self._rows, place * _WIDTH)
        return step

    def _end_and_receipt(self, at: int, times: int, span: bytes) -> tuple[int, int]:
        lag = times >> _LENGTH_BITS
        if lag == _FAR:
            # Two steps of one session may claim one span id: what is kept aside goes with the first.
            return (self._far or {}).get(span) or (at, at)
        # Compiled, a product of small numbers is cheap, and one of large ones is not.
        receipt = at - at % _MILLISECOND + (self._lag + lag) * _MILLISECOND
        return at + (times & _LENGTH), receipt

    def _move(self, span: bytes, meta: int, start: int, own: int) -> int:
        """Notes that a step does not stand where it started."""
        if self._moved is None:
            self._moved = {}
        self._moved[span] = _Moved(start, own)
        return meta | _MOVED

    def _insert(self, at: int, end: int, span: bytes, receipt: int, row: bytes) -> int:
        place = self._place(at, end, span)
        self._note_receipt(place, receipt)
        is_last = place == len(self)
        self.grouped = True
        self._rows[place * _WIDTH : place * _WIDTH] = row
        self._mark_late(place, late=not is_last)
        self.tail_end = max(self.tail_end, at)
        return place

    def _note_receipt(self, place: int, receipt: int) -> None:
        """A step comes to `place`: those that stand before it and were received later are late."""
        if receipt >= self._newest:
            self._newest = receipt
            return
        while place > 0:
            place -= 1
            if not self._is_late(place):
                if self.receipt(place) <= receipt:
                    return
                self._mark_late(place, late=True)

    def _is_late(self, place: int) -> bool:
        return bool(self._rows[place * _WIDTH + _LATE_AT] & _LATE)

    def _mark_late(self, place: int, *, late: bool) -> None:
        at = place * _WIDTH + _LATE_AT
        self._rows[at] = self._rows[at] & ~_LATE | (_LATE if late else 0)

    def _place(self, at: int, end: int, span: bytes) -> int:
        """Where a step belongs: the first place behind all that come before it."""
        low, high = 0, len(self)
        if not high or self._order(high - 1, at, end, span) <= 0:
            return high
        while low < high:
            middle = (low + high) // 2
            if self._order(middle, at, end, span) < 0:
                low = middle + 1
            else:
                high = middle
        return low

    def _order(self, place: int, at: int, end: int, span: bytes) -> int:
        """Below zero where the step at `place` comes before another one, above where behind it."""
        own = self.at(place)
        if own != at:
            return -1 if own < at else 1
        _, times, other, _, _, _ = self._step(place)
        own = self._end_and_receipt(at, times, other)[0]
        if own != end:
            return -1 if own < end else 1
        return 0 if other == span else -1 if other < span else 1

    def take(self, other: Log, place: int) -> None:
        """Copies one step of another log to its place in this one."""
        at, times, span, meta, tool, token = other._step(place)
        end, receipt = other._end_and_receipt(at, times, span)
        times, number = self._times(at, end, receipt, span), self._number(other._context(meta))
        meta = meta & ~_CONTEXT | number
        self._insert(at, end, span, receipt, _pack(at, times, span, meta, tool, token))
        if other._ids and (call_id := call_ids.found(other._ids, span)):
            self._keep_id(span, call_id)
        if other._texts and (texts := other._texts.get(span)):
            self._texts = self._texts or {}
            self._texts[span] = texts
        if meta & _MOVED and other._moved and (moved := other._moved.get(span)):
            self._moved = self._moved or {}
            self._moved[span] = moved

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

    def remove(self, place: int) -> None:
        """Takes a step out; its parts stay where they stand until they are settled."""
        self._drop_aside(place)
        del self._rows[place * _WIDTH : (place + 1) * _WIDTH]

    def forget(self, count: int) -> None:
        """Drops the first `count` steps, which the checkpoint now holds."""
        if self._ids or self._texts or self._moved or self._far:
            for place in range(count):
                self._drop_aside(place)
        # Not deleted from what there is, which would keep its room.
        self._rows = self._rows[count * _WIDTH :]
        if len(self._contexts) > 2 * _CONTEXT_BYTES * (len(self) + 8):
            self._compact()

    def _drop_aside(self, place: int) -> None:
        span = self._step(place)[2]
        if self._ids:
            self._ids = call_ids.without(self._ids, span)
        for aside in (self._texts, self._moved, self._far):
            if aside:
                aside.pop(span, None)

    # --- parents and children ---------------------------------------------------------------------

    def _begun(self, trace_id: bytes, span_id: bytes) -> int | None:
        """Where a step of the log stands; None where it is not there, or not by its start."""
        place = self.find(span_id) if span_id else None
        if place is None:
            return None
        at, _, span, meta, _, _ = self._step(place)
        if self._context(meta)[:16] != trace_id:
            return None
        start, own = self._origin(span, at, meta)
        return at if start == own else None

    def _origin(self, span: bytes, at: int, meta: int) -> tuple[int, int]:
        """When a step started, and where it would stand by itself."""
        moved = self._moved.get(span) if meta & _MOVED and self._moved else None
        return moved if moved is not None else (at, at)

    def settle(self, trace_id: bytes, span_id: bytes, depth: int = _DEPTH_MAX) -> list[int]:
        """The parts of a call go behind it, or where they stand by themselves if it is gone.

        Returns:
            The places that steps were moved from or to.
        """
        if not _names(self._contexts, span_id):
            return []
        begun = self._begun(trace_id, span_id)
        moved: list[int] = []
        for part in self._parts(trace_id + span_id):
            if part != span_id:
                moved += self._follow(trace_id, part, begun, depth)
        return moved

    def _parts(self, context: bytes) -> list[bytes]:
        """Span ids of the steps of one trace that have one parent."""
        contexts = self._contexts
        numbers = {
            number
            for number in range(len(contexts) // _CONTEXT_BYTES)
            if contexts.startswith(context, number * _CONTEXT_BYTES)
        }
        steps = _unpacked(self._rows)
        return [span for _, _, span, meta, _, _ in steps if meta & _CONTEXT in numbers]

    def _follow(
        self, trace_id: bytes, span_id: bytes, begun: int | None, depth: int
    ) -> list[int]:
        """One part of a call that stands at `begun`, and the parts of this part."""
        place = self.find(span_id)
        assert place is not None
        at, times, span, meta, tool, token = self._step(place)
        end, receipt = self._end_and_receipt(at, times, span)
        start, own = self._origin(span, at, meta)
        new = own if begun is None else max(own, begun + 1)
        if new == at:
            return []
        meta, times = self._move(span, meta, start, own), self._times(new, end, receipt, span)
        del self._rows[place * _WIDTH : (place + 1) * _WIDTH]
        row = _pack(new, times, span, meta, tool, token)
        moved = [place, self._insert(new, end, span, receipt, row)]
        return moved + self.settle(trace_id, span_id, depth - 1) if depth else moved

    def settle_all(self) -> None:
        """The same for every step of the log, after many came at once."""
        for place in range(len(self._contexts) // _CONTEXT_BYTES):
            context = self._context(place)
            if any(context[16:]) and self.find(context[16:]) is not None:
                self.settle(context[:16], context[16:])

    # --- who a step belongs to -------------------------------------------------------------------

    def _number(self, context: bytes) -> int:
        """Number of a (trace, parent) pair; siblings share one, so it is nearly always the last.

        Only the last few are compared: where every call has a parent of its own a full search
        would make a session's cost grow with its length. So one pair may have several numbers.
        """
        contexts = self._contexts
        size = len(contexts)
        begin, least = size - _CONTEXT_BYTES, max(0, size - _LOOK_BACK * _CONTEXT_BYTES)
        while begin >= least:
            # Nearly always the last bytes of others differ: a slice costs more than a byte.
            if (
                contexts[begin + _CONTEXT_BYTES - 1] == context[-1]
                and contexts[begin : begin + _CONTEXT_BYTES] == context
            ):
                return begin // _CONTEXT_BYTES
            begin -= _CONTEXT_BYTES
        count = size // _CONTEXT_BYTES
        if count > _CONTEXT:
            return _CONTEXT
        self._contexts = contexts + context
        return count

    def _context(self, meta: int) -> bytes:
        """The trace id and the parent's span id of a step."""
        place = (meta & _CONTEXT) * _CONTEXT_BYTES
        return self._contexts[place : place + _CONTEXT_BYTES]

    def _siblings(self, meta: int, other: int) -> bool:
        """True where two steps are of one trace and have one parent."""
        if not (meta ^ other) & _CONTEXT:
            return True
        return self._context(meta) == self._context(other)

    def _compact(self) -> None:
        """Forgets the contexts no step uses any more."""
        numbers: dict[bytes, int] = {}
        rows = bytearray()
        for at, times, span, meta, tool, token in _unpacked(self._rows):
            number = numbers.setdefault(self._context(meta), len(numbers))
            rows += _pack(at, times, span, meta & ~_CONTEXT | number, tool, token)
        self._rows = rows
        self._contexts = b"".join(numbers)

    # --- reading -----------------------------------------------------------------------------------

    def at(self, place: int) -> int:
        at: int = _unpack_at(self._rows, place * _WIDTH)[0]
        return at

    def receipt(self, place: int) -> int:
        """When the step was received, to the millisecond below."""
        packed: tuple[int, int] = _unpack_times(self._rows, place * _WIDTH)
        at, times = packed
        span = b"" if times >> _LENGTH_BITS != _FAR else self._step(place)[2]
        return self._end_and_receipt(at, times, span)[1]

    def received(
        self, before: int, mark: int, end: int | None = None
    ) -> tuple[list[int], int | None]:
        """Places of the steps without a mark that were received up to `before`.

        Args:
            before: Unix nanoseconds.
            mark: a bit.
            end: bounds them to those before this place.

        Returns:
            The places, and the earliest receipt of the others without the mark; None where there are
            none of these.
        """
        marks = self.marks()
        found: list[int] = []
        earliest = -1
        for place in range(len(marks) if end is None else end):
            if marks[place] & mark:
                continue
            receipt = self.receipt(place)
            if receipt <= before:
                found.append(place)
                continue
            if earliest < 0 or receipt < earliest:
                earliest = receipt
            if self._leads(place):
                break
        return found, earliest if earliest >= 0 else None

    def _leads(self, place: int) -> bool:
        """True where all steps behind this one were received no earlier."""
        return self._far is None and not self._is_late(place)

    def tool(self, place: int) -> int:
        """The number of the step's tool."""
        rows, base = self._rows, place * _WIDTH + _TOOL
        return rows[base] | rows[base + 1] << 8

    def token(self, place: int) -> int:
        rows, base = self._rows, place * _WIDTH + _TOKEN
        return rows[base] | rows[base + 1] << 8

    def mark(self, place: int) -> int:
        """What the judgement has noted on a step, one byte."""
        return self._rows[place * _WIDTH + _MARK]

    def set_mark(self, place: int, mark: int) -> None:
        self._rows[place * _WIDTH + _MARK] = mark

    def mark_last(self, mark: int) -> None:
        """Marks the step that was just appended."""
        self._rows[_MARK - _WIDTH] = mark

    def marks(self) -> bytes:
        """The marks of all steps."""
        return bytes(self._rows[_MARK::_WIDTH])

    def tools(self) -> set[tuple[int, int]]:
        """The numbers of its steps' tools, each as its lower and its upper byte."""
        rows = self._rows
        return set(zip(rows[_TOOL::_WIDTH], rows[_TOOL + 1 :: _WIDTH], strict=True))

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
        while found >= 0 and found % _WIDTH != _SPAN:
            found = rows.find(span_id, found + 1)
        return found // _WIDTH if found >= 0 else None

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
            b"" if parent == _NO_PARENT else parent,
            context[:16],
            tool,
            bool(meta >> _ERROR_SHIFT & 1),
            _EVIDENCE[meta >> _EVIDENCE_SHIFT & 3],
            self._texts_of(span),
        )
        row: Row = built(Row, fields)
        return row

    def span(self, count: int | None = None) -> tuple[int, int]:
        """When the first of its steps started, and when the last one ended; it has some.

        `count` bounds it to the first ones.
        """
        count = len(self) if count is None else count
        if not self._moved and self._far is None:
            last = 0
            for at, times, _, _ in self.unpacked(0, count):
                last = max(last, at + (times & _LENGTH))
            return self.at(0), last
        rows = [self.row(place) for place in range(count)]
        return min(row.start for row in rows), max(row.end for row in rows)

    def unpacked(self, first: int, end: int) -> list[Brief]:
        """What is needed to step some steps, one after the other."""
        return list(_briefed(self._rows[first * _WIDTH : end * _WIDTH]))

    def groups(
        self,
        first: int = 0,
        steps: Sequence[Brief] | None = None,
        *,
        end: int | None = None,
        running: Mapping[bytes, int] | None = None,
    ) -> list[tuple[int, int]]:
        """(first place, end place) of the groups of overlapping siblings, from `first` on.

        Siblings have one parent; each of a group starts strictly before all the others before it
        have ended, so touching times are a sequence. Steps of other parents that stand between
        those of a group are judged with it, and groups that stand in each other are one. A step
        that overlaps no sibling is in no group.

        Args:
            first: place of the first step that is looked at.
            steps: those from `first` on, where they are at hand.
            end: only groups that begin before this place, each of them whole; without, what runs
                on behind the last step is worked out.
            running: by parent, until when steps before `first` run on (`running_at`). A group that
                one of these is in begins before `first`.
        """
        found: list[tuple[int, int]] = []
        at = self.at(-1) if self._rows and first >= len(self) else 0
        until = max(running.values()) if running else 0
        runs = {key: (first - 1, over) for key, over in running.items()} if running else None
        last, own, place = 0, first, first
        for at, times, meta, _ in (
            _briefed(self._rows[first * _WIDTH :]) if steps is None else steps
        ):
            over = self._end(place, at, times)
            if at >= until:
                if end is not None and place >= end:
                    break
                runs, own, until = None, place, over
            elif runs is None and self._siblings(meta, last):
                _join(found, own, place)
                until = max(until, over)
            else:
                if runs is None:
                    runs = {self._context(last): (own, until)}
                self._beside(found, runs, place, at, over, meta)
                until = max(until, over)
                if end is not None and place >= end and not _reaches(found, runs, end, at):
                    break
            last = meta
            place += 1
        if end is not None:
            return [group for group in found if group[0] < end]
        self.tail_end = max(until, at)
        if not first:
            self.grouped = bool(found)
        kept = {key: over for key, (_, over) in (runs or {}).items() if over > at}
        self._running = kept if runs is not None else None
        return found

    def _beside(
        self,
        found: list[tuple[int, int]],
        runs: dict[bytes, tuple[int, int]],
        place: int,
        at: int,
        over: int,
        meta: int,
    ) -> None:
        """A step begins while steps of other parents run, and maybe siblings of it, too."""
        parent = self._context(meta)
        known = runs.get(parent)
        if known is not None and at < known[1]:
            _join(found, known[0], place)
            runs[parent] = known[0], max(known[1], over)
        else:
            runs[parent] = place, over

    def running_at(
        self, place: int, first: int = 0, running: Mapping[bytes, int] | None = None
    ) -> dict[bytes, int] | None:
        """By parent, until when steps before `place` run on behind the start of the step there.

        `running` is the same as of `first`, a place before it.
        """
        start = self.at(place)
        found = dict(running) if running else {}
        for number, (at, times, meta, _) in enumerate(self.unpacked(first, place), first):
            over = self._end(number, at, times)
            if over > start:
                parent = self._context(meta)
                found[parent] = max(over, found.get(parent, 0))
        return {parent: over for parent, over in found.items() if over > start} or None

    def _is_beside(self, meta: int, last: int, at: int) -> bool:
        """True where a sibling of a new step has not ended at its start, where something has not."""
        if self._running is None:
            return self._siblings(meta, last)
        return at < self._running.get(self._context(meta), 0)

    def _run_on(self, meta: int, last: int, at: int, end: int) -> None:
        """Notes that a step was appended while others run that are no siblings of it."""
        known = self._running
        if known is None:
            known = {self._context(last): self.tail_end}
        self._running = {parent: over for parent, over in known.items() if over > at}
        self._running[self._context(meta)] = end
        self.tail_end = max(self.tail_end, end)

    def _end(self, place: int, at: int, times: int) -> int:
        """When the step at `place` ended."""
        if self._far is None or times >> _LENGTH_BITS != _FAR:
            return at + (times & _LENGTH)
        return self._end_and_receipt(at, times, self._step(place)[2])[0]

    def times(self, first: int, end: int) -> list[tuple[int, int]]:
        """(place in the order, end) of some steps."""
        return [
            (at, self._end(place, at, times))
            for place, (at, times, _, _) in enumerate(self.unpacked(first, end), first)
        ]

    def group_times(self, first: int, end: int) -> list[tuple[int, int]]:
        """(start, end) of the steps of a group, as far as they leave its order open.

        The start is the place in the order. A step that overlaps none of its siblings stands where
        it started, among those that ran then: its end is its start.
        """
        steps = self.unpacked(first, end)
        found: list[tuple[int, int]] = []
        runs: dict[bytes, tuple[int, int]] = {}
        beside = [False] * len(steps)
        for number, (at, times, meta, _) in enumerate(steps):
            over = self._end(first + number, at, times)
            found.append((at, over))
            parent = self._context(meta)
            known = runs.get(parent)
            if known is not None and at < known[1]:
                beside[known[0]] = beside[number] = True
                over = max(over, known[1])
            runs[parent] = number, over
        return [
            each if beside[number] else (each[0], each[0]) for number, each in enumerate(found)
        ]


def _join(found: list[tuple[int, int]], first: int, last: int) -> None:
    """Adds the group from one step to another to those before it, which it may join."""
    while found and found[-1][1] > first:
        first = min(first, found.pop()[0])
    found.append((first, last + 1))


def _reaches(
    found: Sequence[tuple[int, int]], runs: Mapping[bytes, tuple[int, int]], end: int, at: int
) -> bool:
    """True where a group that begins before a place may have another step yet."""
    limit = end
    for group in found:
        if group[0] < end:
            limit = max(limit, group[1])
    return any(first < limit and over > at for first, over in runs.values())


def mark_of(meta: int) -> int:
    """What the judgement has noted on a step, of what the step is."""
    return meta >> _MARK_SHIFT
