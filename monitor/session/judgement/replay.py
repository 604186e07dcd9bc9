"""Stepping a log again: in stretches of single calls, and in groups of overlapping calls.

Idea: a *stretch* is a part of the log that is stepped in one go: either a whole group of overlapping
siblings, or up to `RESUME_EVERY` single calls. Single calls are stepped one by one. For a group,
`AutomatonRun.plan` finds the order first, and the calls are stepped in that order.

Invariant: the stretches cover the log without gaps. None cuts a group, unless `end` does.

If calls may be missing before a step (`Window`), the run goes on from every state that they may have led to. If they
may be missing among the calls of a group, each call of the group may come in any state that these and its siblings
lead to.

The wide reading steps the tokens of the log. The plain one takes each call for what it seems (`Judge.plain_of`).

Example: places 0 to 6, of which 2 to 4 overlap, give the stretches (0, 2), (2, 5)
(together) and (5, 7), each as (first, end).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from monitor.automaton.position import Position
from monitor.records import built
from monitor.session.judge.judge import CONTROL_TOKEN, Judge
from monitor.session.judge.run import AutomatonRun
from monitor.session.judgement.resume_points import RESUME_EVERY
from monitor.session.judgement.step_marks import CODE, JudgedStep
from monitor.session.log.log import SessionLog
from monitor.session.log.rows import Brief, mark_of
from monitor.session.overlap.question_budget import QuestionBudget
from monitor.session.time_limits.timing import TimedCall
from monitor.visibility.gap import EVER
from monitor.visibility.sight import Window, between

__all__ = ["Replay", "Stretch", "taken_of", "traced"]


class Stretch(NamedTuple):
    """A part of the log that is stepped in one go."""

    first: int
    end: int
    together: bool
    """True for a group of overlapping siblings."""
    steps: list[Brief]
    """The steps of the whole part of the log that is stepped."""
    start: int
    """The place of the first of `steps`."""

    def parts(self) -> list[Stretch]:
        """The same in stretches that are judged one by one: a group is one, and so is each other call."""
        if self.together:
            return [self]
        _, _, _, steps, start = self
        return [
            built(Stretch, (place, place + 1, False, steps, start))
            for place in range(self.first, self.end)
        ]


def _singles(
    found: list[Stretch], first: int, end: int, steps: list[Brief], start: int
) -> None:
    """Adds steps that overlap no sibling, in stretches of at most `RESUME_EVERY` steps."""
    while first < end:
        behind = min(first + RESUME_EVERY, end)
        found.append(built(Stretch, (first, behind, False, steps, start)))
        first = behind


def _step(
    run: AutomatonRun, judge: Judge, place: int, token: int, steps: list[JudgedStep]
) -> None:
    before = run.position if run.ways is None else run.judged_at(judge, token)
    code = run.step(judge, token)
    steps.append(built(JudgedStep, (place, code, before, run.position, None)))


class Replay:
    """Steps the log of one judgement in one reading.

    Args:
        judge: of the spec.
        log: of the session.
        windows: where calls may be missing in this reading.
        wide: True for the reading that allows for doubts in calls.
        begin_ns: the `at` of the last step before the log; -1 without one.
        budget: what the orders of its groups may take; None without a bound for all of them.
    """

    __slots__ = ("begin_ns", "budget", "judge", "log", "wide", "windows")

    def __init__(
        self,
        judge: Judge,
        log: SessionLog,
        windows: tuple[Window, ...] = (),
        *,
        wide: bool = False,
        begin_ns: int = -1,
        budget: QuestionBudget | None = None,
    ) -> None:
        self.judge = judge
        self.log = log
        self.windows = windows
        self.wide = wide
        self.begin_ns = begin_ns
        self.budget = budget

    def token(self, place: int) -> int:
        """The token of a step in this reading."""
        token = self.log.token(place)
        return token if self.wide else self.judge.plain_of(token)

    def trail(self, run: AutomatonRun) -> None:
        """Moves the run after the last step to where calls that are missing behind it may have led."""
        if self.windows:
            last = len(self.log) - 1
            self.pass_time(run, self.log.at(last) if last >= 0 else self.begin_ns, EVER, EVER)

    def approach(self, run: AutomatonRun, place: int) -> None:
        """Moves the run after the step before a place to where calls that are missing before it may have led."""
        if self.windows:
            self.pass_time(run, self.before(place), self.log.at(place), self.log.receipt(place))

    def pass_time(self, run: AutomatonRun, before_ns: int, after_ns: int, receipt: int) -> None:
        """Passes the time between two steps, in which calls may be missing."""
        tools = between(self.windows, before_ns, after_ns, receipt)
        if None in tools:
            run.scatter(self.judge.anywhere)
            run.exact = False
        elif tools:
            run.reach(self.judge.stepper, self.judge.missing(tools))

    def before(self, place: int) -> int:
        """The `at` of the step before a place."""
        return self.log.at(place - 1) if place else self.begin_ns

    def amid(self, run: AutomatonRun, first: int, end: int) -> Position | None:
        """Where each of some calls may come, if calls are missing among them; None if none are.

        Args:
            run: after the step before them (`approach`).
            first: place of the first of the calls.
            end: the place behind the last one.
        """
        if not self.windows:
            return None
        log = self.log
        latest = max(log.receipt(place) for place in range(first, end))
        tools = between(self.windows, log.at(first), log.at(end - 1), latest)
        if not tools:
            return None
        if None in tools:
            return self.judge.anywhere
        tokens = {self.token(place) for place in range(first, end)} - {CONTROL_TOKEN}
        return self.judge.reached([run.position], {*tokens, *self.judge.missing(tools)})

    def walk(self, run: AutomatonRun, end: int | None = None) -> list[JudgedStep]:
        """Steps the log in the order taken, up to before `end` or to its end."""
        steps: list[JudgedStep] = []
        for stretch in self.stretches(0, end):
            self.step(run, stretch, steps)
        return steps

    def grouped(
        self, run: AutomatonRun, end: int | None = None
    ) -> Iterator[tuple[list[JudgedStep], Position]]:
        """The steps that are judged together, and the position after them."""
        for stretch in self.stretches(0, end):
            for part in stretch.parts():
                steps: list[JudgedStep] = []
                self.step(run, part, steps)
                yield steps, run.position

    def retrace(
        self, run: AutomatonRun, places: Mapping[int, tuple[int, ...]], end: int | None = None
    ) -> list[JudgedStep]:
        """Steps the log along one way. `places`: first place of a group -> the way's order of it."""
        judge, token_of = self.judge, self.token
        steps: list[JudgedStep] = []
        for stretch in self.stretches(0, end):
            if not stretch.together:
                self.step(run, stretch, steps)
                continue
            group = range(stretch.first, stretch.end)
            for place in group:
                if token_of(place) == CONTROL_TOKEN:
                    _step(run, judge, place, CONTROL_TOKEN, steps)
            judged = [place for place in group if token_of(place) != CONTROL_TOKEN]
            for number in places[stretch.first]:
                _step(run, judge, judged[number], token_of(judged[number]), steps)
        return steps

    def trace(self, run: AutomatonRun, end: int | None = None) -> list[AutomatonRun]:
        """Steps the log with lineages kept, for `traced`. Returns the ways before the log."""
        roots = list(run.trace())
        for stretch in self.stretches(0, end):
            self.step(run, stretch, [])
        return roots

    def stretches(
        self,
        start: int,
        end: int | None = None,
        *,
        running: Mapping[bytes, int] | None = None,
    ) -> list[Stretch]:
        """The stretches from `start` to before `end`, or to the end; `running` as in `SessionLog.groups`."""
        log = self.log
        steps = log.unpacked(start, len(log) if end is None else end)
        groups: list[tuple[int, int]] = []
        if end is None:
            groups = log.groups(start, steps, running=running)
        elif log.grouped:
            groups = log.groups(start, end=end)
        end, place = start + len(steps), start
        found: list[Stretch] = []
        for first, behind in groups:
            _singles(found, place, first, steps, start)
            place = min(behind, end)
            found.append(Stretch(first, place, True, steps, start))
        _singles(found, place, end, steps, start)
        return found

    def step(
        self,
        run: AutomatonRun,
        stretch: Stretch,
        steps: list[JudgedStep],
        *,
        news: bool = False,
    ) -> None:
        """Steps one stretch and adds its steps to `steps`.

        With `news`, only steps are added whose code differs from their mark.
        """
        judge, log = self.judge, self.log
        first, end, together, rows, start = stretch
        if together:
            found = self._step_group(run, first, end, news=news)
            steps += (s for s in found if not news or s.code != log.mark(s.place) & CODE)
            return
        stride = CONTROL_TOKEN + 1 if self.wide else judge.stride
        gappy, last = bool(self.windows), self.before(first)
        for place in range(first, end):
            at, _, meta, token = rows[place - start]
            if gappy:
                self.pass_time(run, last, at, log.receipt(place))
                last = at
            if token >= stride:
                token = judge.plain_of(token)
            before = run.position if run.ways is None else run.judged_at(judge, token)
            code = run.step(judge, token)
            if not news or code != mark_of(meta) & CODE:
                steps.append(built(JudgedStep, (place, code, before, run.position, None)))

    def _step_group(
        self, run: AutomatonRun, first: int, end: int, *, news: bool
    ) -> list[JudgedStep]:
        """Steps overlapping siblings in the order taken (`AutomatonRun.plan`)."""
        judge, token_of = self.judge, self.token
        steps: list[JudgedStep] = []
        if judge.comparison is not None:
            for place in range(first, end):
                _step(run, judge, place, token_of(place), steps)
            return steps
        if self.windows:
            self.approach(run, first)
            amid = self.amid(run, first, end)
            if amid is not None:
                self._step_amid(run, amid, range(first, end), steps)
                return steps
        judged = [place for place in range(first, end) if token_of(place) != CONTROL_TOKEN]
        times = self.log.group_times(first, end)
        plan = run.plan(
            judge,
            first,
            tuple(token_of(place) for place in judged),
            tuple(times[place - first] for place in judged),
            self.budget,
        )
        judge.left_out += news and not plan.whole
        for place in range(first, end):
            if token_of(place) == CONTROL_TOKEN:
                _step(run, judge, place, CONTROL_TOKEN, steps)
        for number in plan.places:
            place = judged[number]
            _step(run, judge, place, token_of(place), steps)
        run.resume(judge, plan)
        return steps

    def _step_amid(
        self, run: AutomatonRun, amid: Position, places: Iterable[int], steps: list[JudgedStep]
    ) -> None:
        """Steps calls each of which may come in any state of a position, and may leave it in any of them."""
        for place in places:
            run.scatter(amid)
            _step(run, self.judge, place, self.token(place), steps)
        run.scatter(amid)
        run.exact = False


def taken_of(replay: Replay, steps: list[JudgedStep], folded: int) -> list[TimedCall]:
    """The steps as `SessionTiming` takes them; `folded` is the number of folded steps before the log."""
    log, plain_of = replay.log, replay.judge.plain_of
    return [
        TimedCall(
            each.code,
            plain_of(log.token(each.place)),
            folded + each.place + 1,
            log.row(each.place),
            each.before,
        )
        for each in steps
    ]


def traced(
    way: AutomatonRun, roots: Sequence[AutomatonRun]
) -> tuple[int, dict[int, tuple[int, ...]]]:
    """The number of the root that a way comes from, and its order of each group, by first place."""
    places: dict[int, tuple[int, ...]] = {}
    while way.lineage is not None:
        places[way.lineage.first] = way.lineage.places
        way = way.lineage.before
    return next(number for number, root in enumerate(roots) if root is way), places
