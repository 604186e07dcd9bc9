"""The recent steps of one judgement in the order of their times.

Idea: a step is a row of 32 bytes in one `bytearray` (`rows.py`). A tuple with the same content
takes eight times as much memory, and a monitor holds many sessions. `SessionLog` puts each row at its
place. Which steps overlap is found in `overlap_groups`.

Invariants:

- Rows are sorted by (at, end, span id), whatever the order of arrival. So the same calls give the
  same log.
- `at` is the time by which the caller orders a call, usually its start. A child call stands behind
  its parent call, even if the clocks of their hosts disagree (`settle`).
- `append` takes only calls that belong behind all others and overlap no sibling. All others go
  through `insert`. It decides in O(1).

Source: docs/decisions/0003-log-behind-a-checkpoint.md.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from mypy_extensions import mypyc_attr

from monitor.records import Evidence, ToolCall, built
from monitor.session.log import call_ids
from monitor.session.log.asked_together import ENTRY_BYTES, StepAnswers
from monitor.session.log.overlap_groups import GroupedRows
from monitor.session.log.rows import (
    CONTEXT,
    CONTEXT_BYTES,
    ENDED,
    ERROR_SHIFT,
    EVIDENCE,
    EVIDENCE_AT,
    EVIDENCE_SHIFT,
    LENGTH,
    MOVED,
    NO_PARENT,
    WIDTH,
    append_row,
    may_name,
    pack_row,
    parent_of,
    unpacked,
)

__all__ = ["SessionLog", "StepPlace", "is_led"]

_DEPTH_MAX: Final = 64
"""Levels of nested calls that move with the outermost one: as many as the trees of spans are walked up."""


def is_led(excess: int, lead: int) -> bool:
    """True if a call that seems to have ended `excess` after its receipt is of a clock that is ahead by `lead`.

    A call that takes long to arrive seems to be less ahead than its clock is.
    """
    return excess > 0 and abs(excess - lead) < excess


class StepPlace(NamedTuple):
    """Where a step was added."""

    place: int
    first: int
    """The lowest place whose step has changed."""
    moved: int
    """The number of steps that were placed behind their parent call."""


@mypyc_attr(acyclic=True)
class SessionLog(GroupedRows):
    """Rows sorted by (at, end, span id). Each has a token, and a mark that the judgement sets."""

    __slots__ = ("_newest",)

    def __init__(self, *, by_answer: bool = False) -> None:
        super().__init__(by_answer=by_answer)
        self._newest = 0
        """The latest receipt of a step."""

    def copy(self) -> SessionLog:
        """A log with the same steps. Neither changes with the other."""
        twin = SessionLog(by_answer=self.by_answer)
        twin._answers = self._answers.copy() if self._answers is not None else None
        twin._rows = self._rows[:]
        twin._contexts, twin._ids, twin._lag = self._contexts, self._ids, self._lag
        twin._texts = dict(self._texts) if self._texts is not None else None
        twin._moved = dict(self._moved) if self._moved is not None else None
        twin._far = dict(self._far) if self._far is not None else None
        twin._newest, twin.grouped, twin.tail_end = self._newest, self.grouped, self.tail_end
        twin._running = dict(self._running) if self._running is not None else None
        return twin

    # --- adding and removing -------------------------------------------------------------------

    def append(self, call: ToolCall, tool: int, token: int, at: int, receipt: int) -> bool:
        """Adds a call behind all others, with mark 0.

        Returns:
            False, with the log unchanged, if the call belongs earlier, overlaps a sibling, was asked for
            with a step in the log, or may be the parent of one. Such a call needs `insert`.
        """
        span, end, tail_end = call.span_id, call.end_ns, self.tail_end
        if may_name(self._contexts, span) or (call.answer and self._is_asked_with(call)):
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
        if append_row is not None:
            append_row(self._rows, at, times, span, meta, tool, token)
        else:
            self._rows += pack_row(at, times, span, meta, tool, token)
        if call.call_id:
            self._keep_id(span, call.call_id)
        if call.answer:
            self._keep_answer(span, call.answer)
        return True

    def _is_asked_with(self, call: ToolCall) -> bool:
        """True if the answer that asked for a call asked for a step in the log, too."""
        return self._answers is not None and self._answers.knows(call.answer)

    def _keep_answer(self, span: bytes, answer: bytes) -> None:
        if not self.by_answer:
            return
        if self._answers is None:
            self._answers = StepAnswers()
        self._answers.by_span[span] = answer

    def has_as_it_is(self, place: int, call: ToolCall, tool: int, at: int) -> bool:
        """True if the step at `place` has all that it would have of a call, but for its token."""
        at_, times, span, meta, tool_, _ = self._step(place)
        if at_ != at or tool_ != tool or span != call.span_id or meta & MOVED:
            return False
        known = self._answers.by_span.get(span, b"") if self._answers is not None else b""
        return (
            self._end_and_receipt(at_, times, span)[0] == call.end_ns
            and self._context(meta) == call.trace_id + (call.parent_span_id or NO_PARENT)
            and bool(meta >> ERROR_SHIFT & 1) is call.error
            and EVIDENCE[meta >> EVIDENCE_SHIFT & 3] is call.evidence
            and (known == call.answer or not self.by_answer)
        )

    def takes_last(self, call: ToolCall, at: int) -> bool:
        """True if `append` would add the call."""
        if may_name(self._contexts, call.span_id) or (
            call.answer and self._is_asked_with(call)
        ):
            return False
        tail_end = self.tail_end
        if at > tail_end or not self._rows:
            return True
        last, _, _, meta, _, _ = self._step(-1)
        if at <= last:
            return False
        if at == tail_end:
            return True
        parent = parent_of(call.trace_id + (call.parent_span_id or NO_PARENT))
        return self._is_clear(parent, meta, at)

    def insert(self, call: ToolCall, tool: int, token: int, at: int, receipt: int) -> StepPlace:
        """Adds a call at its place, with mark 0.

        The call stands behind its parent call and before its children, even if the clocks of their
        hosts disagree.
        """
        span, end, meta = call.span_id, call.end_ns, self._meta(call, at)
        if call.call_id:
            self._keep_id(span, call.call_id)
        if call.answer:
            self._keep_answer(span, call.answer)
        begun = self._begun(call.trace_id, call.parent_span_id)
        behind = begun is not None and begun >= at
        if begun is not None and behind:
            meta = self._move(span, meta, call.start_ns, at)
            at = begun + 1
        times = self._times(at, end, receipt, span)
        place = self._insert(
            at, end, span, receipt, pack_row(at, times, span, meta, tool, token)
        )
        moved = self.settle(call.trace_id, span)
        if not moved:
            placed: StepPlace = built(StepPlace, (place, place, int(behind)))
            return placed
        place = self.find(span) or 0
        return StepPlace(place, min([place, *moved]), behind + len(moved) // 2)

    def _meta(self, call: ToolCall, at: int) -> int:
        """The flags of a step, with mark 0."""
        meta = self._number(call.trace_id + (call.parent_span_id or NO_PARENT))
        if call.error:
            meta |= 1 << ERROR_SHIFT
        if call.evidence is not Evidence.EXECUTED:
            meta |= EVIDENCE.index(call.evidence) << EVIDENCE_SHIFT
        if at != call.start_ns:
            meta = self._move(call.span_id, meta, call.start_ns, at)
        return meta

    def _insert(self, at: int, end: int, span: bytes, receipt: int, row: bytes) -> int:
        place = self._place(at, end, span)
        self._note_receipt(place, receipt)
        is_last = place == len(self)
        self.grouped = True
        self._rows[place * WIDTH : place * WIDTH] = row
        self._mark_late(place, late=not is_last)
        self.tail_end = max(self.tail_end, at)
        return place

    def _note_receipt(self, place: int, receipt: int) -> None:
        """Marks the steps before `place` as late that were received after the step that comes there."""
        if receipt >= self._newest:
            self._newest = receipt
            return
        while place > 0:
            place -= 1
            if not self._is_late(place):
                if self.receipt(place) <= receipt:
                    return
                self._mark_late(place, late=True)

    def _place(self, at: int, end: int, span: bytes) -> int:
        """The place where a step belongs, by binary search."""
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
        """Negative if the step at `place` comes before the given one, positive if behind it."""
        own = self.at(place)
        if own != at:
            return -1 if own < at else 1
        _, times, other, _, _, _ = self._step(place)
        own = self._end_and_receipt(at, times, other)[0]
        if own != end:
            return -1 if own < end else 1
        return 0 if other == span else -1 if other < span else 1

    def take(self, other: SessionLog, place: int) -> None:
        """Copies one step of another log to its place in this log."""
        at, times, span, meta, tool, token = other._step(place)
        end, receipt = other._end_and_receipt(at, times, span)
        times, number = self._times(at, end, receipt, span), self._number(other._context(meta))
        meta = meta & ~CONTEXT | number
        self._insert(at, end, span, receipt, pack_row(at, times, span, meta, tool, token))
        if other._ids and (call_id := call_ids.found(other._ids, span)):
            self._keep_id(span, call_id)
        if other._texts and (texts := other._texts.get(span)):
            self._texts = self._texts or {}
            self._texts[span] = texts
        if other._answers is not None and (answer := other._answers.by_span.get(span)):
            self._keep_answer(span, answer)
        if meta & MOVED and other._moved and (moved := other._moved.get(span)):
            self._moved = self._moved or {}
            self._moved[span] = moved

    def remove(self, place: int) -> None:
        """Removes a step. Its children keep their places until `settle`."""
        self._drop(place)
        del self._rows[place * WIDTH : (place + 1) * WIDTH]

    def forget(self, count: int) -> None:
        """Drops the first `count` steps, which the checkpoint now holds."""
        if self._ids or self._texts or self._moved or self._far or self._answers is not None:
            for place in range(count):
                self._drop(place)
        # A copy: deleting from the front would keep the memory.
        self._rows = self._rows[count * WIDTH :]
        if len(self._contexts) > 2 * CONTEXT_BYTES * (len(self) + 8):
            self._compact()

    def _drop(self, place: int) -> None:
        """Drops what is kept aside of a step."""
        if self._answers is not None:
            self._answers.by_span.pop(self._step(place)[2], None)
            if not self._answers.by_span:
                self._answers = None
        self._drop_aside(place)

    def size(self) -> int:
        """Approximate bytes of the log and its judgement."""
        own = super().size()
        return own if self._answers is None else own + ENTRY_BYTES * len(self._answers.by_span)

    # --- parents and children ---------------------------------------------------------------------

    def _begun(self, trace_id: bytes, span_id: bytes) -> int | None:
        """The `at` of a parent call; None if the log lacks it, or does not order it by its start."""
        place = self.find(span_id) if span_id else None
        if place is None:
            return None
        at, _, span, meta, _, _ = self._step(place)
        if self._context(meta)[:16] != trace_id:
            return None
        start, own = self._origin(span, at, meta)
        return at if start == own else None

    def settle(self, trace_id: bytes, span_id: bytes) -> list[int]:
        """Moves the children of a call behind it, or to their own times if the call is gone, and theirs with them.

        Returns:
            The places that steps were moved from or to.
        """
        moved: list[int] = []
        todo, depths = [span_id], {span_id: 0}  # spans may claim to be in a circle
        for above in todo:  # grows while it is read
            if depths[above] == _DEPTH_MAX or not may_name(self._contexts, above):
                continue
            begun = self._begun(trace_id, above)
            for part in self._parts(trace_id + above):
                places = [] if part in depths else self._follow(part, begun)
                if places:
                    moved += places
                    todo.append(part)
                    depths[part] = depths[above] + 1
        return moved

    def _parts(self, context: bytes) -> list[bytes]:
        """Span ids of the steps with this context (trace id and parent span id)."""
        contexts = self._contexts
        numbers = {
            number
            for number in range(len(contexts) // CONTEXT_BYTES)
            if contexts.startswith(context, number * CONTEXT_BYTES)
        }
        steps = unpacked(self._rows)
        return [span for _, _, span, meta, _, _ in steps if meta & CONTEXT in numbers]

    def _follow(self, span_id: bytes, begun: int | None) -> list[int]:
        """Moves one child of a call that stands at `begun`; returns the places that it is moved from and to."""
        place = self.find(span_id)
        assert place is not None
        at, times, span, meta, tool, token = self._step(place)
        end, receipt = self._end_and_receipt(at, times, span)
        start, own = self._origin(span, at, meta)
        new = own if begun is None else max(own, begun + 1)
        if new == at:
            return []
        meta, times = self._move(span, meta, start, own), self._times(new, end, receipt, span)
        del self._rows[place * WIDTH : (place + 1) * WIDTH]
        row = pack_row(new, times, span, meta, tool, token)
        return [place, self._insert(new, end, span, receipt, row)]

    def move_back(self, lead: int) -> bool:
        """Moves the steps of a sender whose clock is ahead to where they stand by ours.

        They are those that seem to have ended after their receipt, by about as much.

        Args:
            lead: how far the clock is ahead, in nanoseconds.

        Returns:
            True if a step has changed.
        """
        steps = [self._step(place) for place in range(len(self))]
        ends = [self._end_and_receipt(at, times, span) for at, times, span, *_ in steps]
        ahead = [p for p, (end, receipt) in enumerate(ends) if is_led(end - receipt, lead)]
        for place in reversed(ahead):
            del self._rows[place * WIDTH : (place + 1) * WIDTH]
        for place in ahead:
            (at, _, span, meta, tool, token), (end, receipt) = steps[place], ends[place]
            if meta & MOVED:
                start, own = self._origin(span, at, meta)
                self._move(span, meta, start - lead, own - lead)
            times = self._times(at - lead, end - lead, receipt, span)
            row = pack_row(at - lead, times, span, meta, tool, token)
            self._insert(at - lead, end - lead, span, receipt, row)
        return bool(ahead)

    def settle_all(self) -> None:
        """Settles the children of every step, after many steps were added at once."""
        for place in range(len(self._contexts) // CONTEXT_BYTES):
            context = self._context(place)
            if any(context[16:]) and self.find(context[16:]) is not None:
                self.settle(context[:16], context[16:])

    # --- reading -----------------------------------------------------------------------------------

    def in_flight(self) -> list[int]:
        """The places of the steps that have begun and, as far as is known, not ended."""
        flags = bytes(self._rows[EVIDENCE_AT::WIDTH])
        if not flags.translate(None, ENDED):
            return []
        return [place for place, flag in enumerate(flags) if flag not in ENDED]

    def received(
        self, before: int, mark: int, end: int | None = None
    ) -> tuple[list[int], int | None]:
        """Finds the steps whose mark lacks a bit and that were received up to `before`.

        Args:
            before: Unix nanoseconds.
            mark: the bit.
            end: only places before this one are searched.

        Returns:
            Their places, and the earliest receipt of the other steps that lack the bit (None if
            there are none).
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
        """True if no step behind this one was received earlier."""
        return self._far is None and not self._is_late(place)

    def span(self, count: int | None = None) -> tuple[int, int]:
        """(first start, last end) of the first `count` steps, or of all, Unix nanoseconds.

        The log must not be empty.
        """
        count = len(self) if count is None else count
        if not self._moved and self._far is None:
            last = 0
            for at, times, _, _ in self.unpacked(0, count):
                end = at + (times & LENGTH)
                if end > last:
                    last = end
            return self.at(0), last
        rows = [self.row(place) for place in range(count)]
        return min(row.start for row in rows), max(row.end for row in rows)
