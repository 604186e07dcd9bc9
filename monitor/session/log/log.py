"""The recent steps of one judgement in the order of their times, and the groups of overlapping steps.

Idea: a step is a row of 32 bytes in one `bytearray` (`rows.py`). A tuple with the same content
takes eight times as much memory, and a monitor holds many sessions. `SessionLog` puts each row at its
place and finds the groups.

Invariants:

- Rows are sorted by (at, end, span id), whatever the order of arrival. So the same calls give the
  same log.
- `at` is the time by which the caller orders a call, usually its start. A child call stands behind
  its parent call, even if the clocks of their hosts disagree (`settle`).
- `append` takes only calls that belong behind all others and overlap no sibling. All others go
  through `insert`.
- `tail_end` and `_running` say which steps still run at the end of the log, so `append` decides in
  O(1).
- While `grouped` is False, no siblings overlap, and no answer asked for several steps.
- Steps that one model answer asked for are one group (`answers`), unless the log is not `by_answer`. The same holds for
  steps that overlap and may be siblings, since one of them has lost its context (`_astray`).

Example: `a` (10 to 20), `b` (12 to 30) and `c` (30 to 31) have one parent. `b` starts before `a`
ends, so both are a group: `groups()` is `[(0, 2)]`. `c` starts when `b` ends. Touching times are a
sequence, so `c` is in no group.

Source: docs/decisions/0003-log-behind-a-checkpoint.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from mypy_extensions import mypyc_attr

from monitor.records import Evidence, ToolCall, built
from monitor.session.log import call_ids
from monitor.session.log.answers import ENTRY_BYTES, StepAnswers, united
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
    Brief,
    Rows,
    append_row,
    briefed,
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
class SessionLog(Rows):
    """Rows sorted by (at, end, span id). Each has a token, and a mark that the judgement sets."""

    __slots__ = ("_answers", "_newest", "_running", "by_answer", "grouped", "tail_end")

    def __init__(self, *, by_answer: bool = False) -> None:
        super().__init__()
        self.by_answer = by_answer
        """True where the best order counts: steps that one model answer asked for are a group, and so are those that may be
        siblings (`_astray`)."""
        self._answers: StepAnswers | None = None
        """Answers of the steps that were requested together with others."""
        self._newest = 0
        """The latest receipt of a step."""
        self._running: dict[bytes, int] | None = None
        """Latest end of each parent's steps that still run at the start of the last step. None if
        all steps that still run are siblings of the last one."""
        self.grouped = False
        """False if no siblings overlap. An insertion sets it until `groups` has searched the whole log."""
        self.tail_end = 0
        """The latest end of a step, but no earlier than the start of the last step."""

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
        running = self._running
        if running is None:
            running = {self._parent(meta): tail_end}
        return at >= _until(parent, running, self._astray(parent, running))

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

    def extend(self, place: int, end: int) -> None:
        """Sets the end of a step, which keeps its place, whatever the ends of steps that begin with it."""
        at, times, span, meta, tool, token = self._step(place)
        receipt = self._end_and_receipt(at, times, span)[1]
        times = self._times(at, end, receipt, span)
        row = pack_row(at, times, span, meta, tool, token)
        self._rows[place * WIDTH : (place + 1) * WIDTH] = row

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

    def groups(
        self,
        first: int = 0,
        steps: Sequence[Brief] | None = None,
        *,
        end: int | None = None,
        running: Mapping[bytes, int] | None = None,
    ) -> list[tuple[int, int]]:
        """The groups of steps that are judged together, from `first` on, as (first place, end place).

        Overlapping siblings are a group, and so are the steps that one answer asked for.

        Args:
            first: place of the first step that is searched.
            steps: the steps from `first` on, if they are unpacked already.
            end: returns only groups that begin before this place, each of them whole. Without it,
                the search also updates `tail_end` and `_running`, and from place 0 on `grouped`.
            running: by parent, until when steps before `first` run (`running_at`). A group with
                such a step begins before `first`.
        """
        if self._answers is None:
            return self._overlapping(first, steps, end=end, running=running)
        asked = [each for each in self._answers.groups(self.find) if each[1] > first]
        if end is None:
            found = united(asked + self._overlapping(first, steps, running=running))
            self.grouped = self.grouped or bool(found)
            return found
        limit, reach = end, end
        while True:  # a group that is longer for an answer may reach into further groups
            limit = reach
            parts = self._overlapping(first, steps, end=limit, running=running)
            found = united([each for each in asked if each[0] < limit] + parts)
            reach = max((each[1] for each in found if each[0] < end), default=0)
            if reach <= limit:
                return [each for each in found if each[0] < end]

    def _overlapping(
        self,
        first: int,
        steps: Sequence[Brief] | None,
        *,
        end: int | None = None,
        running: Mapping[bytes, int] | None = None,
    ) -> list[tuple[int, int]]:
        """`groups` of overlapping siblings alone.

        Siblings have the same parent, or none (`rows.parent_of`); where a step has lost its context, see `_astray`. A step
        joins a group if it starts while an earlier sibling of the group still runs; touching times are a sequence. Steps of other
        parents that stand between the steps of a group are judged with it. Groups that interleave
        become one group. A step that overlaps no sibling is in no group.
        """
        found: list[tuple[int, int]] = []
        at = self.at(-1) if self._rows and first >= len(self) else 0
        until = max(running.values()) if running else 0
        runs = {key: (first - 1, over) for key, over in running.items()} if running else None
        last, own, place = 0, first, first
        for at, times, meta, _ in (
            briefed(self._rows[first * WIDTH :]) if steps is None else steps
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
                    runs = {self._parent(last): (own, until)}
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
        """Takes a step that starts while steps of other parents run: it may overlap siblings, too."""
        parent = self._parent(meta)
        known = runs.get(parent)
        begun = place
        if known is not None and at < known[1]:
            begun, over = known[0], max(known[1], over)
        for other in self._astray(parent, runs, place, at):
            if at < runs[other][1]:
                begun = min(begun, runs[other][0])
        if begun < place:
            _join(found, begun, place)
        runs[parent] = begun, over

    def _astray(
        self, parent: bytes, runs: Collection[bytes], place: int = -1, at: int = 0
    ) -> list[bytes]:
        """Of other parents with steps that run, those whose steps may be siblings of a step, for all that is known.

        A step without a parent may have lost its context: then it may be a sibling of any step that is no part of a call. The
        order of the two is open, but not where the worst order counts: it would have to be certain that they are siblings.

        Args:
            parent: of the step.
            runs: the parents of those that run.
            place: of the step, to leave out those of one trace if no other step without a parent runs `at` its start: the one may
                be the root, and the others below it. -1 leaves out none.
            at: the start of the step.
        """
        if not self.by_answer or (parent != NO_PARENT and NO_PARENT not in runs):
            return []
        others = (
            [NO_PARENT] if parent != NO_PARENT else [each for each in runs if each != parent]
        )
        found = [each for each in others if self.find(_known(each, parent)[16:]) is None]
        if not found or place < 0:
            return found
        roots = [
            self._context(meta)[:16]
            for number, (begun, times, meta, _) in enumerate(self.unpacked(0, place + 1))
            if (number == place or self._end(number, begun, times) > at)
            and self._parent(meta) == NO_PARENT
        ]
        if len(roots) > 1:
            return found
        return [each for each in found if roots != [_known(each, parent)[:16]]]

    def running_at(
        self, place: int, first: int = 0, running: Mapping[bytes, int] | None = None
    ) -> dict[bytes, int] | None:
        """By parent: the latest end of the steps that still run when the step at `place` starts.

        `running` is the same for `first`, an earlier place from which the search goes on.
        """
        start = self.at(place)
        found = dict(running) if running else {}
        for number, (at, times, meta, _) in enumerate(self.unpacked(first, place), first):
            over = self._end(number, at, times)
            if over > start:
                parent = self._parent(meta)
                found[parent] = max(over, found.get(parent, 0))
        return {parent: over for parent, over in found.items() if over > start} or None

    def _is_beside(self, meta: int, last: int, at: int) -> bool:
        """True if a sibling of a new step still runs at its start, given that some step does."""
        if self._running is not None:
            parent = self._parent(meta)
            return at < _until(parent, self._running, self._astray(parent, self._running))
        if self._siblings(meta, last):
            return True
        # What runs until `tail_end` are siblings of the last step.
        return self.by_answer and bool(self._astray(self._parent(meta), (self._parent(last),)))

    def _run_on(self, meta: int, last: int, at: int, end: int) -> None:
        """Takes note of a step that was appended while steps of other parents run."""
        known = self._running
        if known is None:
            known = {self._parent(last): self.tail_end}
        self._running = {parent: over for parent, over in known.items() if over > at}
        self._running[self._parent(meta)] = end
        self.tail_end = max(self.tail_end, end)

    def group_times(
        self, first: int, end: int, without: Collection[int] = ()
    ) -> list[tuple[int, int]]:
        """(start, end) of the steps of a group, for the search over their orders.

        The start is the step's `at`. A step that overlaps none of its siblings counts as an
        instant: its end is its start. Steps of `without` overlap none.
        """
        steps = self.unpacked(first, end)
        found: list[tuple[int, int]] = []
        runs: dict[bytes, tuple[int, int]] = {}
        beside = [False] * len(steps)
        for number, (at, times, meta, _) in enumerate(steps):
            over = self._end(first + number, at, times)
            found.append((at, over))
            if first + number in without:
                continue
            parent = self._parent(meta)
            known = runs.get(parent)
            for other in self._astray(parent, runs, first + number, at):
                if at < runs[other][1]:
                    beside[runs[other][0]] = beside[number] = True
            if known is not None and at < known[1]:
                beside[known[0]] = beside[number] = True
                over = max(over, known[1])
            runs[parent] = number, over
        if self._answers is not None:
            self._meet(self._answers, (first, end), found, beside, without)
        return [
            each if beside[number] else (each[0], each[0]) for number, each in enumerate(found)
        ]

    def possible_times(
        self, first: int, flying: Sequence[int], last: int
    ) -> list[tuple[int, int]]:
        """(start, end) of the steps from `first` on, as `group_times`, where calls in flight have not ended.

        A call in flight may take effect at any later time, so it overlaps all steps that began since.

        Args:
            first: a place before which no step overlaps one from it on.
            flying: the places of calls in flight, from `first` on.
            last: the time of the last call in the order.
        """
        return _in_flight(self.group_times(first, len(self)), first, flying, last)

    def certain_times(
        self, first: int, flying: Sequence[int], last: int, asked: Collection[int]
    ) -> list[tuple[int, int]]:
        """The same with the orders alone that are possible whatever calls of other parents, and calls asked about, do.

        A step that runs while a call of another parent starts, or overlaps only calls that are asked about, counts as
        an instant.
        """
        found = self.group_times(first, len(self), asked)
        parents = [self._parent(meta) for _, _, meta, _ in self.unpacked(first, len(self))]
        other = len(found)
        for number in range(len(found) - 2, -1, -1):
            if parents[number] != parents[number + 1]:
                other = number + 1
            if other < len(found) and found[other][0] < found[number][1]:
                found[number] = found[number][0], found[number][0]
        return _in_flight(found, first, flying, last)

    def _meet(
        self,
        answers: StepAnswers,
        group: tuple[int, int],
        times: list[tuple[int, int]],
        beside: list[bool],
        without: Collection[int],
    ) -> None:
        """Has the steps of one answer overlap: each ends behind the start of the last one."""
        for members in answers.members(self.find, group):
            places = [place for place in members if place not in without]
            if not places:
                continue
            last = times[max(places) - group[0]][0] + 1
            for place in places:
                number = place - group[0]
                start, over = times[number]
                times[number], beside[number] = (start, max(over, last)), True


def _known(one: bytes, other: bytes) -> bytes:
    """Of two, of which one is `NO_PARENT`, the other: the trace id and the span id of a parent."""
    return other if one == NO_PARENT else one


def _until(parent: bytes, running: Mapping[bytes, int], astray: Sequence[bytes]) -> int:
    """Until when siblings of a step run, or steps that may be; 0 if none does."""
    return max([running.get(parent, 0), *[running[other] for other in astray]])


def _in_flight(
    times: list[tuple[int, int]], first: int, flying: Sequence[int], last: int
) -> list[tuple[int, int]]:
    """The times with calls in flight ended behind all others."""
    for place in flying:
        start, end = times[place - first]
        times[place - first] = start, max(end, last + 1)
    return times


def _join(found: list[tuple[int, int]], first: int, last: int) -> None:
    """Adds a group to those found; it is merged with groups that reach into it."""
    while found and found[-1][1] > first:
        first = min(first, found.pop()[0])
    found.append((first, last + 1))


def _reaches(
    found: Sequence[tuple[int, int]], runs: Mapping[bytes, tuple[int, int]], end: int, at: int
) -> bool:
    """True if a group that begins before place `end` may still get another step."""
    limit = end
    for group in found:
        if group[0] < end:
            limit = max(limit, group[1])
    return any(first < limit and over > at for first, over in runs.values())
