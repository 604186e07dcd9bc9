"""The recent steps of one judgement, in call order, packed as integers.

A step is a row of four unsigned 64-bit integers, 32 bytes: a tuple of the same content costs eight
times as much, and a monitor holds many sessions. Texts (call ids, and arguments while they are
shown) are kept aside, by span id.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from monitor.records import Evidence, ToolCall

__all__ = ["Log", "Names", "Placed", "Row", "Texts"]

_WIDTH: Final = 4
_AT: Final = 0
_TIMES: Final = 1
_SPAN: Final = 2
_META: Final = 3

# End and receipt are kept as distances from the place in the order: how long the call took, to the
# nanosecond, and how much later it was received, in whole milliseconds of the clock. What does
# not fit (calls of 18 minutes, receipts hours later, clocks that are wrong) is kept aside.
_LENGTH_BITS: Final = 40
_LENGTH: Final = (1 << _LENGTH_BITS) - 1
_MILLISECOND: Final = 1_000_000
_FAR: Final = (1 << 24) - 1

# What the last integer of a row holds, from its lowest bit on.
_CONTEXT: Final = (1 << 20) - 1
_SHORT: Final = (1 << 16) - 1
_TOOL_SHIFT: Final = 20
_ERROR_SHIFT: Final = 36
_EVIDENCE_SHIFT: Final = 37
_MOVED_SHIFT: Final = 39
_TOKEN_SHIFT: Final = 40
_MARK_SHIFT: Final = 56
_MARK: Final = 0xFF

_CONTEXT_BYTES: Final = 24
"""A trace id and a parent's span id."""
_NO_PARENT: Final = bytes(8)
_LOOK_BACK: Final = 4
_DEPTH_MAX: Final = 8
"""Calls within calls that are moved with the outermost; and spans may claim to be in a circle."""
_EVIDENCE: Final = tuple(Evidence)


class Names:
    """Tool names as small integers, shared by all sessions; bounded, since agents invent names."""

    __slots__ = ("_numbers", "_texts")

    NAMES_MAX = 65_536
    OVERFLOW = "__overflow__"

    def __init__(self) -> None:
        self._texts: list[str] = [self.OVERFLOW]
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        found = self._numbers.get(text)
        if found is None:
            if len(self._texts) >= self.NAMES_MAX:
                return 0
            found = len(self._texts)
            self._texts.append(text)
            self._numbers[text] = found
        return found

    def text(self, number: int) -> str:
        return self._texts[number]


_new: Any = tuple.__new__
"""NamedTuple's own constructor costs twice as much."""


class Texts(NamedTuple):
    """What of a step is not a number."""

    call_id: str
    arguments: Mapping[str, Any] | None
    hashed: frozenset[int] | None = None
    """Of the arguments, where the session is in a sample (`monitor.repeats`)."""


class _Moved(NamedTuple):
    """A step that does not stand where it started."""

    start: int
    own: int
    """Where it would stand by itself; it may stand behind, with the call it is a part of."""


class _Step(NamedTuple):
    """A row, unpacked as far as moving it needs."""

    at: int
    end: int
    receipt: int
    span: int
    meta: int


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


class Log:
    """Rows sorted by (at, end, span id); each has a token and a mark, which is the judgement's."""

    __slots__ = ("_contexts", "_far", "_moved", "_rows", "_texts", "tail_end")

    def __init__(self) -> None:
        self._rows = array("Q")
        self._contexts = b""
        self._texts: dict[int, Texts | str] | None = None
        """By span id; a call id alone where there is no more."""
        self._moved: dict[int, _Moved] | None = None
        """By span id."""
        self._far: dict[int, tuple[int, int]] | None = None
        """By span id, ends and receipts too far away to be packed."""
        self.tail_end = 0
        """When the last step, and the siblings it overlaps, have all ended."""

    def __len__(self) -> int:
        return len(self._rows) // _WIDTH

    # --- adding and removing -------------------------------------------------------------------

    def append(self, call: ToolCall, tool: int, token: int, at: int, receipt: int) -> bool:
        """Adds a call after all others, its mark 0 until judged.

        False, and nothing done, where it belongs earlier, overlaps a sibling, or may be what
        earlier steps are a part of.
        """
        if self._contexts.find(call.span_id) >= 0:
            return False
        rows = self._rows
        if rows and at <= rows[-_WIDTH]:
            return False
        span, end = int.from_bytes(call.span_id, "big"), call.end_ns
        meta = self._meta(call, span, tool, token, at)
        if at < self.tail_end and rows and self._siblings(meta, rows[-1]):
            return False
        self.tail_end = end
        rows.extend((at, self._times(at, end, receipt, span), span, meta))
        if call.call_id:
            self._keep_id(span, call.call_id)
        return True

    def insert(self, call: ToolCall, tool: int, token: int, at: int, receipt: int) -> Placed:
        """Adds a call in its place, its mark 0 until judged.

        It stands behind the call it is a part of, and before its own parts, whatever the clocks
        of their hosts say.
        """
        span = int.from_bytes(call.span_id, "big")
        meta = self._meta(call, span, tool, token, at)
        step = _Step(at, call.end_ns, receipt, span, meta)
        if call.call_id:
            self._keep_id(span, call.call_id)
        begun = self._begun(call.trace_id, call.parent_span_id)
        behind = begun is not None and begun >= at
        if begun is not None and behind:
            meta = self._move(step.span, step.meta, call.start_ns, at)
            step = step._replace(at=begun + 1, meta=meta)
        place = self._insert(step)
        moved = self.settle(call.trace_id, call.span_id)
        if moved:
            place = self.find(call.span_id) or 0
        return Placed(place, min([place, *moved]), behind + len(moved) // 2)

    def _meta(self, call: ToolCall, span: int, tool: int, token: int, at: int) -> int:
        """The last integer of a row, its mark 0."""
        context = call.trace_id + (call.parent_span_id or _NO_PARENT)
        meta = tool << _TOOL_SHIFT | token << _TOKEN_SHIFT
        if call.error:
            meta |= 1 << _ERROR_SHIFT
        if call.evidence is not Evidence.EXECUTED:
            meta |= _EVIDENCE.index(call.evidence) << _EVIDENCE_SHIFT
        if context != self._contexts:
            meta |= self._number(context)
        if at != call.start_ns:
            meta = self._move(span, meta, call.start_ns, at)
        return meta

    def _times(self, at: int, end: int, receipt: int, span: int) -> int:
        """The second integer of a row."""
        length, lag = end - at, receipt // _MILLISECOND - at // _MILLISECOND
        if 0 <= length <= _LENGTH and 0 <= lag < _FAR:
            return lag << _LENGTH_BITS | length
        self._far = self._far or {}
        self._far[span] = end, receipt
        return _FAR << _LENGTH_BITS

    def _unpack(self, place: int) -> _Step:
        at, times, span, meta = self._rows[place * _WIDTH : (place + 1) * _WIDTH]
        end, receipt = self._end_and_receipt(at, times, span)
        step: _Step = _new(_Step, (at, end, receipt, span, meta))
        return step

    def _end_and_receipt(self, at: int, times: int, span: int) -> tuple[int, int]:
        lag = times >> _LENGTH_BITS
        if lag == _FAR and self._far is not None:
            return self._far[span]
        return at + (times & _LENGTH), (at // _MILLISECOND + lag) * _MILLISECOND

    def _move(self, span: int, meta: int, start: int, own: int) -> int:
        """Notes that a step does not stand where it started."""
        self._moved = self._moved or {}
        self._moved[span] = _Moved(start, own)
        return meta | 1 << _MOVED_SHIFT

    def _insert(self, step: _Step) -> int:
        place = self._place(step.at, step.end, step.span)
        at, end, receipt, span, meta = step
        row = at, self._times(at, end, receipt, span), span, meta
        self._rows[place * _WIDTH : place * _WIDTH] = array("Q", row)
        return place

    def _place(self, at: int, end: int, span: int) -> int:
        rows, size = self._rows, len(self)
        if not size or (at, end, span) >= self._key(size - 1):
            return size
        if at < rows[_AT]:
            return 0
        return bisect_left(range(size), (at, end, span), key=self._key)

    def _key(self, place: int) -> tuple[int, int, int]:
        step = self._unpack(place)
        return step.at, step.end, step.span

    def take(self, other: Log, place: int) -> None:
        """Copies one step of another log to its place in this one."""
        step = other._unpack(place)
        span, meta = step.span, step.meta
        number = self._number(other._context(meta))
        self._insert(step._replace(meta=meta & ~_CONTEXT | number))
        if other._texts and (texts := other._texts.get(span)):
            self._texts = self._texts or {}
            self._texts[span] = texts
        if meta >> _MOVED_SHIFT & 1 and other._moved:
            self._moved = self._moved or {}
            self._moved[span] = other._moved[span]

    def keep(self, span_id: bytes, texts: Texts) -> None:
        """Keeps what of a step is text until the step is folded; its call id is kept in any case."""
        if self._texts is None:
            self._texts = {}
        self._texts[int.from_bytes(span_id, "big")] = texts

    def _keep_id(self, span: int, call_id: str) -> None:
        if self._texts is None:
            self._texts = {}
        if span not in self._texts:
            self._texts[span] = call_id

    def _texts_of(self, span: int) -> Texts | None:
        found = self._texts.get(span) if self._texts else None
        return Texts(found, None) if isinstance(found, str) else found

    def release(self) -> None:
        """Lets go of the hashes of arguments: they have been compared."""
        found: dict[int, Texts | str] = {}
        for span, each in (self._texts or {}).items():
            if isinstance(each, Texts) and each.arguments is not None:
                found[span] = each._replace(hashed=None)
            elif call_id := each.call_id if isinstance(each, Texts) else each:
                found[span] = call_id
        self._texts = found or None

    def remove(self, place: int) -> None:
        """Takes a step out; its parts stay where they stand until they are settled."""
        self._drop_aside(place)
        del self._rows[place * _WIDTH : (place + 1) * _WIDTH]

    def forget(self, count: int) -> None:
        """Drops the first `count` steps, which the checkpoint now holds."""
        if self._texts or self._moved or self._far:
            for place in range(count):
                self._drop_aside(place)
        del self._rows[: count * _WIDTH]
        if len(self._contexts) > 2 * _CONTEXT_BYTES * (len(self) + 8):
            self._compact()

    def _drop_aside(self, place: int) -> None:
        span = self._rows[place * _WIDTH + _SPAN]
        for aside in (self._texts, self._moved, self._far):
            if aside:
                aside.pop(span, None)

    # --- parents and children ---------------------------------------------------------------------

    def _begun(self, trace_id: bytes, span_id: bytes) -> int | None:
        """Where a step of the log stands; None where it is not there, or not by its start."""
        place = self.find(span_id) if span_id else None
        if place is None:
            return None
        at, _, _, span, meta = self._unpack(place)
        if self._context(meta)[:16] != trace_id:
            return None
        start, own = self._origin(span, at, meta)
        return at if start == own else None

    def _origin(self, span: int, at: int, meta: int) -> tuple[int, int]:
        """When a step started, and where it would stand by itself."""
        if meta >> _MOVED_SHIFT & 1 and self._moved:
            return self._moved[span]
        return at, at

    def settle(self, trace_id: bytes, span_id: bytes, depth: int = _DEPTH_MAX) -> list[int]:
        """The parts of a call go behind it, or where they stand by themselves if it is gone.

        Returns:
            The places that steps were moved from or to.
        """
        if self._contexts.find(span_id) < 0:
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
        rows = self._rows
        steps = zip(rows[_SPAN::_WIDTH], rows[_META::_WIDTH], strict=True)
        found = [span for span, meta in steps if meta & _CONTEXT in numbers]
        return [span.to_bytes(8, "big") for span in found]

    def _follow(
        self, trace_id: bytes, span_id: bytes, begun: int | None, depth: int
    ) -> list[int]:
        """One part of a call that stands at `begun`, and the parts of this part."""
        place = self.find(span_id)
        assert place is not None
        step = self._unpack(place)
        start, own = self._origin(step.span, step.at, step.meta)
        new = own if begun is None else max(own, begun + 1)
        if new == step.at:
            return []
        meta = self._move(step.span, step.meta, start, own)
        del self._rows[place * _WIDTH : (place + 1) * _WIDTH]
        moved = [place, self._insert(step._replace(at=new, meta=meta))]
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
        count = len(contexts) // _CONTEXT_BYTES
        for number in range(count - 1, max(-1, count - 1 - _LOOK_BACK), -1):
            if contexts.startswith(context, number * _CONTEXT_BYTES):
                return number
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
        for base in range(_META, len(self._rows), _WIDTH):
            meta = self._rows[base]
            number = numbers.setdefault(self._context(meta), len(numbers))
            self._rows[base] = meta & ~_CONTEXT | number
        self._contexts = b"".join(numbers)

    # --- reading -----------------------------------------------------------------------------------

    def at(self, place: int) -> int:
        at: int = self._rows[place * _WIDTH + _AT]
        return at

    def receipt(self, place: int) -> int:
        """When the step was received, to the millisecond below."""
        return self._unpack(place).receipt

    def token(self, place: int) -> int:
        meta: int = self._rows[place * _WIDTH + _META]
        return meta >> _TOKEN_SHIFT & _SHORT

    def mark(self, place: int) -> int:
        """What the judgement has noted on a step, one byte."""
        meta: int = self._rows[place * _WIDTH + _META]
        return meta >> _MARK_SHIFT

    def set_mark(self, place: int, mark: int) -> None:
        base = place * _WIDTH + _META
        self._rows[base] = self._rows[base] & ~(_MARK << _MARK_SHIFT) | mark << _MARK_SHIFT

    def mark_last(self, mark: int) -> None:
        """Marks the step that was just appended."""
        self._rows[-1] |= mark << _MARK_SHIFT

    def marks(self) -> list[int]:
        """The marks of all steps."""
        return [meta >> _MARK_SHIFT for meta in self._rows[_META::_WIDTH]]

    def find(self, span_id: bytes) -> int | None:
        """Place of the step with this span id."""
        try:
            return self._rows[_SPAN::_WIDTH].index(int.from_bytes(span_id, "big"))
        except ValueError:
            return None

    def origin(self, place: int) -> tuple[bytes, bytes, int]:
        """Trace id, span id and receipt of the step at `place`."""
        _, _, receipt, span, meta = self._unpack(place)
        return self._context(meta)[:16], span.to_bytes(8, "big"), receipt

    def row(self, place: int) -> Row:
        """The step at `place`, unpacked."""
        at, end, receipt, span, meta = self._unpack(place)
        context = self._context(meta)
        parent = context[16:]
        return Row(
            at=at,
            start=self._origin(span, at, meta)[0],
            end=end,
            receipt=receipt,
            span_id=span.to_bytes(8, "big"),
            parent_span_id=b"" if parent == _NO_PARENT else parent,
            trace_id=context[:16],
            tool=meta >> _TOOL_SHIFT & _SHORT,
            error=bool(meta >> _ERROR_SHIFT & 1),
            evidence=_EVIDENCE[meta >> _EVIDENCE_SHIFT & 3],
            texts=self._texts_of(span),
        )

    def span(self) -> tuple[int, int]:
        """When the first of its steps started, and when the last one ended; it has some."""
        rows = [self.row(place) for place in range(len(self))]
        return min(row.start for row in rows), max(row.end for row in rows)

    def groups(self, first: int = 0) -> list[tuple[int, int]]:
        """(first place, end place) of the groups of overlapping siblings, from `first` on.

        Siblings have one parent, and stand side by side in the log; each of a group starts
        strictly before all the others before it have ended, so touching times are a sequence.
        A step that overlaps none is in no group; nor is the step before `first`.
        """
        rows, found = self._rows, list[tuple[int, int]]()
        until = last = 0
        opened = place = first
        far = self._far
        for at, times, span, meta in zip(
            rows[first * _WIDTH + _AT :: _WIDTH],
            rows[first * _WIDTH + _TIMES :: _WIDTH],
            rows[first * _WIDTH + _SPAN :: _WIDTH],
            rows[first * _WIDTH + _META :: _WIDTH],
            strict=True,
        ):
            if at >= until or not self._siblings(meta, last):
                if place - opened > 1:
                    found.append((opened, place))
                opened, until = place, 0
            end = (
                at + (times & _LENGTH)
                if far is None
                else self._end_and_receipt(at, times, span)[0]
            )
            if end > until:
                until = end
            last = meta
            place += 1
        if place - opened > 1:
            found.append((opened, place))
        self.tail_end = until
        return found

    def unpacked(self, first: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """(place, token, mark, place in the order) of some steps, one after the other."""
        rows = self._rows
        times = rows[first * _WIDTH + _AT : end * _WIDTH : _WIDTH]
        metas = rows[first * _WIDTH + _META : end * _WIDTH : _WIDTH]
        for place, at, meta in zip(range(first, end), times, metas, strict=True):
            yield place, meta >> _TOKEN_SHIFT & _SHORT, meta >> _MARK_SHIFT, at

    def times(self, first: int, end: int) -> list[tuple[int, int]]:
        """(place in the order, end) of some steps."""
        steps = map(self._unpack, range(first, end))
        return [(step.at, step.end) for step in steps]
