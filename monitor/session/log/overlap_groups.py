"""Which steps of a log overlap: siblings, steps that one answer asked for, and steps that have lost their context.

Idea: overlapping steps are judged together, as a *group*, since their times do not say in which order they took effect
(`monitor.session.overlap` searches their orders). Siblings overlap by their times. Steps that one model answer asked for
overlap whatever their times (`asked_together`), unless the log is not `by_answer`. The same holds for steps that overlap and
may be siblings, since one of them has lost its context (`_astray`).

Invariants:

- `tail_end` and `_running` say which steps still run at the end of the log, so that it takes O(1) to see that a step
  behind all others overlaps none.
- While `grouped` is False, no siblings overlap, and no answer asked for several steps.

Example: `a` (10 to 20), `b` (12 to 30) and `c` (30 to 31) have one parent. `b` starts before `a`
ends, so both are a group: `groups()` is `[(0, 2)]`. `c` starts when `b` ends. Touching times are a
sequence, so `c` is in no group.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mypy_extensions import mypyc_attr

from monitor.session.log.asked_together import StepAnswers, united
from monitor.session.log.rows import NO_PARENT, WIDTH, Brief, Rows, briefed

__all__ = ["GroupedRows"]


@mypyc_attr(acyclic=True)
class GroupedRows(Rows):
    """Packed steps in the order of their times, and which of them overlap."""

    __slots__ = ("_answers", "_running", "by_answer", "grouped", "tail_end")

    def __init__(self, *, by_answer: bool = False) -> None:
        super().__init__()
        self.by_answer = by_answer
        """True where the best order counts: steps that one model answer asked for are a group, and so are those that may be
        siblings (`_astray`)."""
        self._answers: StepAnswers | None = None
        """Answers of the steps that were requested together with others."""
        self._running: dict[bytes, int] | None = None
        """Latest end of each parent's steps that still run at the start of the last step. None if
        all steps that still run are siblings of the last one."""
        self.grouped = False
        """False if no siblings overlap. An insertion sets it until `groups` has searched the whole log."""
        self.tail_end = 0
        """The latest end of a step, but no earlier than the start of the last step."""

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

    def _is_clear(self, parent: bytes, last: int, at: int) -> bool:
        """True if no sibling of a step with this parent still runs at its start, given that some step does."""
        running = self._running
        if running is None:
            running = {self._parent(last): self.tail_end}
        return at >= _until(parent, running, self._astray(parent, running))

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
