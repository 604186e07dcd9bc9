"""The recent steps of one judgement, in call order, packed as integers.

A step is a row of five unsigned 64-bit integers, 40 bytes: a tuple of the same content costs six
times as much, and a monitor holds many sessions. Texts (call ids, and arguments while they are
shown) are kept aside, by span id.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from monitor.records import Evidence, ToolCall

__all__ = ["Log", "Names", "Row", "Texts"]

_WIDTH = 5
_AT, _END, _RECEIPT, _SPAN, _META = range(_WIDTH)

# What the last integer of a row holds, from its lowest bit on.
_SHORT = (1 << 16) - 1
_TOOL_SHIFT = 16
_ERROR_SHIFT = 32
_EVIDENCE_SHIFT = 33
_MOVED_SHIFT = 35
_TOKEN_SHIFT = 36
_MARK_SHIFT = 52
_MARK = 0xFF

_CONTEXT_BYTES = 24
"""A trace id and a parent's span id."""
_NO_PARENT = bytes(8)
_LOOK_BACK = 4
_EVIDENCE = tuple(Evidence)


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


class Texts(NamedTuple):
    """What of a step is not a number."""

    call_id: str
    arguments: Mapping[str, Any] | None
    hashed: frozenset[int] | None = None
    """Of the arguments, where the session is in a sample (`monitor.repeats`)."""


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

    __slots__ = ("_contexts", "_rows", "_starts", "_texts", "tail_end")

    def __init__(self) -> None:
        self._rows = array("Q")
        self._contexts = b""
        self._texts: dict[int, Texts] | None = None
        self._starts: dict[int, int] | None = None
        """By span id, the starts of calls that do not stand where they started."""
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
        if call.span_id in self._contexts:
            return False
        rows = self._rows
        row = self._pack(call, tool, token, at, receipt)
        if rows:
            if at <= rows[-_WIDTH]:
                return False
            if at < self.tail_end and _same_context(row[_META], rows[-1]):
                return False
        self.tail_end = row[_END]
        rows.extend(row)
        return True

    def insert(self, call: ToolCall, tool: int, token: int, at: int, receipt: int) -> int:
        """Adds a call in its place, its mark 0 until judged; returns the place."""
        return self._insert(self._pack(call, tool, token, at, receipt))

    def _pack(
        self, call: ToolCall, tool: int, token: int, at: int, receipt: int
    ) -> tuple[int, ...]:
        context = call.trace_id + (call.parent_span_id or _NO_PARENT)
        span = int.from_bytes(call.span_id, "big")
        meta = tool << _TOOL_SHIFT | token << _TOKEN_SHIFT
        if call.error:
            meta |= 1 << _ERROR_SHIFT
        if call.evidence is not Evidence.EXECUTED:
            meta |= _EVIDENCE.index(call.evidence) << _EVIDENCE_SHIFT
        if context != self._contexts:
            meta |= self._number(context)
        if at != call.start_ns:
            meta |= 1 << _MOVED_SHIFT
            self._starts = self._starts or {}
            self._starts[span] = call.start_ns
        return at, call.end_ns, receipt, span, meta

    def _insert(self, row: tuple[int, ...]) -> int:
        place = self._place(row[_AT], row[_END], row[_SPAN])
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
        base, rows = place * _WIDTH, self._rows
        return rows[base + _AT], rows[base + _END], rows[base + _SPAN]

    def take(self, other: Log, place: int) -> None:
        """Copies one step of another log to its place in this one."""
        at, end, receipt, span, meta = other._raw(place)
        number = self._number(other._context(meta))
        self._insert((at, end, receipt, span, meta & ~_SHORT | number))
        if other._texts and (texts := other._texts.get(span)):
            self._texts = self._texts or {}
            self._texts[span] = texts
        if meta >> _MOVED_SHIFT & 1 and other._starts:
            self._starts = self._starts or {}
            self._starts[span] = other._starts[span]

    def keep(self, span_id: bytes, texts: Texts) -> None:
        """Keeps what of a step is text until the step is folded."""
        if self._texts is None:
            self._texts = {}
        self._texts[int.from_bytes(span_id, "big")] = texts

    def release(self) -> None:
        """Lets go of the hashes of arguments: they have been compared."""
        found = {
            span: texts._replace(hashed=None) for span, texts in (self._texts or {}).items()
        }
        found = {
            span: each
            for span, each in found.items()
            if each.call_id or each.arguments is not None
        }
        self._texts = found or None

    def remove(self, place: int) -> None:
        """Takes a step out."""
        self._drop_aside(place)
        del self._rows[place * _WIDTH : (place + 1) * _WIDTH]

    def forget(self, count: int) -> None:
        """Drops the first `count` steps, which the checkpoint now holds."""
        if self._texts or self._starts:
            for place in range(count):
                self._drop_aside(place)
        del self._rows[: count * _WIDTH]
        if len(self._contexts) > 2 * _CONTEXT_BYTES * (len(self) + 8):
            self._compact()

    def _drop_aside(self, place: int) -> None:
        span = self._rows[place * _WIDTH + _SPAN]
        for aside in (self._texts, self._starts):
            if aside:
                aside.pop(span, None)

    # --- parents and children ---------------------------------------------------------------------

    def begun(self, trace_id: bytes, span_id: bytes) -> int | None:
        """Where a step of the log stands; None where it is not there, or not by its start."""
        place = self.find(span_id) if span_id else None
        if place is None:
            return None
        meta = self._rows[place * _WIDTH + _META]
        if meta >> _MOVED_SHIFT & 1 or self._context(meta)[:16] != trace_id:
            return None
        return self.at(place)

    def may_have_children(self, span_id: bytes) -> bool:
        """False where no step in the log has this span for its parent: a quick look."""
        return span_id in self._contexts

    def move_children(self, trace_id: bytes, span_id: bytes, at: int) -> int:
        """Steps with this span for their parent that stand up to `at` go behind it.

        Returns:
            How many there were.
        """
        context = trace_id + span_id
        for place in range(len(self)):
            row = self._raw(place)
            if row[_AT] > at or self._context(row[_META]) != context:
                continue
            if not row[_META] >> _MOVED_SHIFT & 1:
                self._starts = self._starts or {}
                self._starts[row[_SPAN]] = row[_AT]
            del self._rows[place * _WIDTH : (place + 1) * _WIDTH]
            meta = row[_META] | 1 << _MOVED_SHIFT
            self._insert((at + 1, row[_END], row[_RECEIPT], row[_SPAN], meta))
            return 1 + self.move_children(trace_id, span_id, at)
        return 0

    # --- who a step belongs to -------------------------------------------------------------------

    def _number(self, context: bytes) -> int:
        """Number of a (trace, parent) pair; siblings share one, so it is nearly always the last.

        Only the last few are compared: where every call has a parent of its own a full search
        would make a session's cost grow with its length, and a repeated pair does no harm.
        """
        contexts = self._contexts
        count = len(contexts) // _CONTEXT_BYTES
        for number in range(count - 1, max(-1, count - 1 - _LOOK_BACK), -1):
            if contexts.startswith(context, number * _CONTEXT_BYTES):
                return number
        if count > _SHORT:
            return _SHORT
        self._contexts = contexts + context
        return count

    def _context(self, meta: int) -> bytes:
        """The trace id and the parent's span id of a step."""
        place = (meta & _SHORT) * _CONTEXT_BYTES
        return self._contexts[place : place + _CONTEXT_BYTES]

    def _compact(self) -> None:
        """Forgets the contexts no step uses any more."""
        numbers: dict[bytes, int] = {}
        for base in range(_META, len(self._rows), _WIDTH):
            meta = self._rows[base]
            number = numbers.setdefault(self._context(meta), len(numbers))
            self._rows[base] = meta & ~_SHORT | number
        self._contexts = b"".join(numbers)

    # --- reading -----------------------------------------------------------------------------------

    def at(self, place: int) -> int:
        at: int = self._rows[place * _WIDTH + _AT]
        return at

    def receipt(self, place: int) -> int:
        receipt: int = self._rows[place * _WIDTH + _RECEIPT]
        return receipt

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
        """Place of the step with this span id; the latest first, as it is asked for soon."""
        span = int.from_bytes(span_id, "big")
        spans = self._rows[_SPAN::_WIDTH]
        return next((p for p in range(len(spans) - 1, -1, -1) if spans[p] == span), None)

    def _raw(self, place: int) -> array[int]:
        return self._rows[place * _WIDTH : (place + 1) * _WIDTH]

    def row(self, place: int) -> Row:
        """The step at `place`, unpacked."""
        at, end, receipt, span, meta = self._raw(place)
        context = self._context(meta)
        parent = context[16:]
        moved = meta >> _MOVED_SHIFT & 1 and self._starts
        return Row(
            at=at,
            start=self._starts[span] if moved and self._starts else at,
            end=end,
            receipt=receipt,
            span_id=span.to_bytes(8, "big"),
            parent_span_id=b"" if parent == _NO_PARENT else parent,
            trace_id=context[:16],
            tool=meta >> _TOOL_SHIFT & _SHORT,
            error=bool(meta >> _ERROR_SHIFT & 1),
            evidence=_EVIDENCE[meta >> _EVIDENCE_SHIFT & 3],
            texts=self._texts.get(span) if self._texts else None,
        )

    def groups(self) -> Iterator[tuple[int, int]]:
        """(first place, end place) of each group of overlapping siblings, most often of one.

        Siblings have one parent, and stand side by side in the log; each of a group starts
        strictly before all the others before it have ended, so touching times are a sequence.
        """
        rows, size = self._rows, len(self)
        first = until = 0
        for place in range(size):
            base = place * _WIDTH
            if place > first and not (
                rows[base + _AT] < until
                and _same_context(rows[base + _META], rows[base - _WIDTH + _META])
            ):
                yield first, place
                first, until = place, 0
            until = max(until, rows[base + _END])
        self.tail_end = until
        if size:
            yield first, size

    def times(self, first: int, end: int) -> list[tuple[int, int]]:
        """(place in the order, end) of some steps."""
        rows = self._rows
        bases = range(first * _WIDTH, end * _WIDTH, _WIDTH)
        return [(rows[base + _AT], rows[base + _END]) for base in bases]


def _same_context(meta: int, other: int) -> bool:
    return not (meta ^ other) & _SHORT
