"""One session under one spec: a log of recent calls behind one checkpoint.

Idea: the head (a `Run`) holds what is needed for each call in O(1). A call that arrives in order
steps the head. A call that belongs earlier goes to its place in the log, and the log is stepped
again from the last place at which the runs were kept (a resume point, or the checkpoint). Old calls are
folded into the checkpoint, so the memory of a session does not grow with its length.

Invariants:

- The head is the run after all steps of the log, and each step's mark is the verdict that stepping
  gives. So any order of arrival ends in the same verdicts.
- A verdict is reported when a mark changes, and only then (`Change`): first the verdict of the new
  call, then the revisions.
- The checkpoint is the run after the folded steps. Folded steps do not change any more; a call that
  belongs among them is `late`, and goes to the front of the log.
- A doubtful session is read in two ways: from the start (plain) and from anywhere (joined). The
  head is the reading with fewer harms, `_rival` is the other. What only the plain reading calls
  harmful is *possible*: reported as that, and in no score.

Example: `unlock move` arrive without `scan`, then `open`: harmful. `scan`, which started before
`open`, arrives one second later. It is inserted before `open` and the log is stepped again: `scan`
gets its first verdict (progress), and the verdict of `open` is revised from harmful to progress.

Source: docs/decisions/0003-log-behind-a-checkpoint.md.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

from mypy_extensions import mypyc_attr

from monitor.aggregate.histogram import Exemplar
from monitor.aggregate.totals import CLEAN_SHARE, NO_SHARE, Pair, Share, fixed
from monitor.automaton.position import Position
from monitor.records import ToolCall, built
from monitor.session import fold_log
from monitor.session.checkpoint import Checkpoint, Scored
from monitor.session.judge import (
    CONTROL_TOKEN,
    HARMFUL,
    PROGRESS,
    SELF_LOOP,
    Judge,
    is_substantive,
)
from monitor.session.log.log import Log
from monitor.session.log.rows import mark_of
from monitor.session.replay import Replay, Stretch, taken_of, traced
from monitor.session.resume_points import RESUME_EVERY, ResumePoints
from monitor.session.run import Run
from monitor.session.session_verdicts import SessionVerdicts
from monitor.session.step_marks import (
    CODE,
    FINAL,
    POSSIBLE,
    RAISED,
    SUSPECTED,
    UNJUDGED,
    Change,
    Finality,
    Step,
    Suspicion,
    changes_of,
    waiting_for_none,
)
from monitor.session.timing import Taken

__all__ = ["Judgement", "Path"]


class Path(NamedTuple):
    """The way taken: the run before the log, what is folded of it, and its steps in the log."""

    run: Run
    folded: Scored | None
    steps: list[Step]


@mypyc_attr(acyclic=True)
class Judgement:
    """The calls of one session (of one agent, or turn, where the spec's scope says so).

    It and its pair may refer to each other while it is live: `Table` sees to that.
    """

    __slots__ = (
        "_began_young",
        "_doubted",
        "_joined",
        "_resume_points",
        "_rival",
        "_suspected",
        "_swapped",
        "_young",
        "base",
        "behind",
        "blind_ns",
        "counted",
        "declared",
        "doubtful",
        "ending",
        "head",
        "is_behind",
        "judge",
        "late",
        "log",
        "pair",
        "part",
        "sampled",
        "session_verdicts",
        "share",
        "suspicious",
    )

    def __init__(
        self, judge: Judge, part: str, *, joined: bool, doubtful: bool, blind_ns: int = 0
    ) -> None:
        """A judgement of no call yet.

        Args:
            judge: of the spec.
            part: the agent or turn, where the spec's scope is one of these; else "".
            joined: its first calls were not seen.
            doubtful: they may not have been.
            blind_ns: where it was joined, calls that began before this moment may be missing
                between those that were seen, so nothing follows from one to the next.
        """
        # What is true or false stands side by side: compiled, that takes a byte each.
        self.doubtful = doubtful and judge.comparison is not None
        """Of a comparison with a reference: calls before the first one seen may be missing."""
        self._joined = joined
        self._young = doubtful
        self._began_young = doubtful
        """True where it began when any session may have begun before we did."""
        self._doubted = False
        """True where its calls look like those of a session that goes on."""
        self.suspicious = False
        """True where there may be news of calls that are possibly harmful (`suspicions`)."""
        self._swapped = False
        """True while the head reads the session as joined in the middle, and may be wrong."""
        self.counted = False
        """True once the metrics have counted it as a session."""
        self.is_behind = False
        """True where its share is another by now, which the pair is to take in."""
        self.sampled = False
        """True where its calls are compared with those of others when it ends."""
        self.blind_ns = blind_ns
        self.judge = judge
        self.part = part
        self.log = Log()
        self.base: Checkpoint | None = None
        self.head = self._fresh(joined=joined)
        self._rival = (
            self._fresh(joined=True)
            if doubtful and not joined and judge.comparison is None
            else None
        )
        """The other reading of a doubtful session; `head` is the one with fewer harms."""
        self._resume_points: ResumePoints | None = None
        self.late = 0
        self._suspected = 0
        """Steps of the log that are reported as possibly harmful."""
        self.ending = 0
        """By which number the metrics hold its scores since it last ended; 0 if it never has.

        Final counters take the scores of the first ending only.
        """
        self.session_verdicts: SessionVerdicts | None = None
        """Verdicts on the session, where the spec has limits and something was due."""
        self.pair: Pair | None = None
        self.share = NO_SHARE
        """What it adds to the live sums of its pair."""
        self.behind = 0
        """Its calls behind the live means."""
        self.declared = 0
        """Alarms raised and counted against a reference, as bits (`monitor.judging.reference_alarms`)."""

    def _fresh(self, *, joined: bool) -> Run:
        stepper = self.judge.stepper
        position: Position = self.judge.anywhere if joined else stepper.start()
        tally = self.judge.tally()
        comparison = self.judge.comparison
        watched = comparison.start() if comparison is not None else None
        return Run(position, tally, exact=not joined, watched=watched)

    @property
    def joined(self) -> bool:
        """True where the session's first calls were not seen, as far as is known by now."""
        return self._joined or self._swapped

    @property
    def calls(self) -> int:
        return self.head.tally.calls

    def before(self, token: int) -> Position:
        """The position that the next call is judged by."""
        head = self.head
        return head.position if head.ways is None else head.judged_at(self.judge, token)

    def span(self) -> tuple[int, int] | None:
        """When the first of its calls started, and when the last one ended; None if it has none."""
        base = self.base
        spans = [self.log.span()] if len(self.log) else []
        if base is not None and base.count:
            spans.append((base.started, base.last))
        if not spans:
            return None
        return min(start for start, _ in spans), max(end for _, end in spans)

    @property
    def folded(self) -> int:
        return self.base.count if self.base else 0

    def weigh(self) -> Share:
        """What it adds to the live sums of its pair, as of now; not against a reference."""
        run, share = self.head, self.share
        if not (self.judge.scored and run.exact):
            return NO_SHARE
        tally = run.tally
        if not tally.harmful_steps:
            return CLEAN_SHARE if share.harmful or not share.sessions else share
        harm_rate, prefix_crit = fixed(tally.harm_rate), fixed(tally.prefix_crit)
        new: Share = built(Share, (1, harm_rate, prefix_crit, tally.harmful_steps, 0.0))
        return new

    def append(self, call: ToolCall, tool: int, token: int, at: int, now: int) -> int | None:
        """Judges a call that comes in order: its code. None, and nothing done, for any other."""
        judge, rival = self.judge, self._rival
        if rival is not None and self._contested(token):
            return None
        if self._joined and at < self.blind_ns:
            return None
        if not self.log.append(call, tool, token, at, now):
            return None
        code = self.head.step(judge, token)
        if rival is not None and rival.step(judge, token) >= HARMFUL and self._swapped:
            self.suspicious = True
        if code != PROGRESS:
            self.log.mark_last(code if code < HARMFUL else code | RAISED)
        return code

    def _contested(self, token: int) -> bool:
        """True where the call would be harmful, so that the session may have been joined."""
        if token == CONTROL_TOKEN or self.judge.comparison is not None:
            return False
        return self.head.is_harmed(self.judge, token)

    def insert(self, call: ToolCall, tool: int, token: int, at: int, now: int) -> list[Change]:
        """Judges a call wherever it belongs: its own verdict first, then revisions of others."""
        if self.base is not None and at < self.base.at:
            self.late += 1
            at = 1 + (self.log.at(len(self.log) - 1) if len(self.log) else self.base.at)
        placed = self.log.insert(call, tool, token, at, now)
        self.log.set_mark(placed.place, UNJUDGED)
        self.judge.skewed += placed.moved
        return self._replay(placed.first)

    def amend(self, place: int, call: ToolCall, tool: int, token: int, at: int) -> list[Change]:
        """Reads the step at `place` again, from a fuller span of the same call."""
        log = self.log
        receipt, mark = log.receipt(place), log.mark(place)
        if self.base is not None and at < self.base.at:
            at = self._late_again(place)
        log.remove(place)
        placed = log.insert(call, tool, token, at, receipt)
        log.set_mark(placed.place, mark)
        self.judge.skewed += placed.moved
        return self._replay(min(place, placed.first))

    def _late_again(self, place: int) -> int:
        """Where a step stays that belongs among folded ones, as is known only now."""
        assert self.base is not None
        if self.log.row(place).start < self.base.at:
            return self.log.at(place)
        self.late += 1
        return self.base.at

    def retract(self, place: int) -> list[Change]:
        """The step at `place` was no call: what follows is judged without it."""
        row = self.log.row(place)
        self._suspected -= self.log.mark(place) & POSSIBLE != 0
        self.log.remove(place)
        moved = self.log.settle(row.trace_id, row.span_id)
        return self._replay(min([place, *moved]))

    def join(self, blind_ns: int) -> list[Change]:
        """It is learnt that the session began before it was seen: its object is revised.

        Calls that began before `blind_ns` may have been followed by others that are missing.
        """
        if self._joined and blind_ns <= self.blind_ns:
            return []
        self.blind_ns = max(blind_ns, self.blind_ns)
        self._decide(joined=True)
        return self._replay(0)

    def doubt(self, *, doubtful: bool) -> list[Change]:
        """Calls before its first one may be missing, or turn out not to be: its object is revised.

        What was doubtful when it began stays so, and what is folded stays as it was read.
        """
        self._doubted = doubtful
        changes = self._read_both_ways(doubtful=doubtful)
        self._suspect()
        return changes

    def _read_both_ways(self, *, doubtful: bool) -> list[Change]:
        if self.judge.comparison is not None:
            self.doubtful = doubtful or self._young
            return []
        known = self._young or self._joined or self.base is not None
        if known or doubtful == (self._rival is not None):
            return []
        self._resume_points, self._swapped = None, False
        self._rival = self._fresh(joined=True) if doubtful else None
        return self._replay(0)

    def prove(self, *, fresh: bool, doubted: bool) -> list[Change]:
        """The session is proven to begin with its first call, or no longer is: its object is revised.

        What is folded stays as it was read. Where calls may be missing for another reason (`doubted`) it is still
        read both ways.
        """
        if not self._began_young:
            return []
        self._young = False
        changes = self._read_both_ways(doubtful=doubted or not fresh)
        self._young = not fresh
        self._suspect()
        return changes

    def _decide(self, *, joined: bool) -> None:
        """No more doubt about where the session began."""
        self._resume_points = None
        self._joined, self._swapped, self._rival = joined, False, None
        if joined and self.base is not None:
            self.base.run.exact = False
            for scored in (self.base, *self.base.others):
                scored.give_up()

    def _origin(self) -> Run:
        """The run before the first step of the log."""
        return self.base.run.copy() if self.base else self._fresh(joined=self.joined)

    # --- stepping the log again ------------------------------------------------------------------

    def _replay_log(self) -> Replay:
        return Replay(self.judge, self.log, self.blind_ns if self._joined else 0)

    def _replay(self, changed: int) -> list[Change]:
        """Steps the log again from the step at `changed` on; what differs is reported.

        A step that was not judged yet gets its first verdict, which comes before all others.
        """
        changes = self._step_again(changed)
        self._suspect()
        return changes

    def _suspect(self) -> None:
        """The steps or their readings have changed: other calls may be possibly harmful."""
        self.suspicious = self._swapped or self._suspected > 0

    def _step_again(self, changed: int) -> list[Change]:
        runs, stretches = self._rewind(changed)
        news = self._walk(runs, stretches)
        if len(runs) == 1:
            (self.head,) = runs
            return changes_of(self.log, news[0])
        plain, wide = runs
        swapped = plain.tally.harmful_steps > wide.tally.harmful_steps
        self.head, self._rival = (wide, plain) if swapped else (plain, wide)
        if swapped == self._swapped:
            return changes_of(self.log, news[swapped])
        # It is read the other way from now on, and from its first step.
        self._swapped = swapped
        return changes_of(self.log, self.walk())

    # --- what is possible ------------------------------------------------------------------------

    def possible_harms(self) -> list[Step]:
        """Calls that are harmful if the session began with its first call, and not as it is read now.

        None where the calls look like those of a session that goes on.
        """
        if not self._swapped or not self._young or self._doubted:
            return []
        harmful = {step.place for step in self.walk() if step.code >= HARMFUL}
        plain = self._replay_log().walk(self._fresh(joined=False))
        return [step for step in plain if step.code >= HARMFUL and step.place not in harmful]

    def is_certain_call(self, place: int, before: Position) -> bool:
        """False where a harmful call is right by some reading, and an earlier one is the harm."""
        if not self.judge.is_certain_call(before, self.log.token(place)):
            return False
        if not self._swapped:
            return True
        plain = self._replay_log().walk(self._fresh(joined=False))
        return any(step.place == place and step.code >= HARMFUL for step in plain)

    def suspicions(self) -> list[Suspicion]:
        """What is possible by now and was not reported, and what was and no longer is; marks the steps."""
        self.suspicious = False
        log, found = self.log, {step.place: step for step in self.possible_harms()}
        gone = self._unmark(found) if self._suspected else set()
        news = [
            Suspicion(step, first=False, withdrawn=True)
            for step in (self.walk() if gone else ())
            if step.place in gone
        ]
        for place, step in found.items():
            mark = log.mark(place)
            if not mark & POSSIBLE:
                news.append(Suspicion(step, first=not mark & SUSPECTED, withdrawn=False))
                log.set_mark(place, mark | POSSIBLE | SUSPECTED)
        self._suspected = len(found)
        return news

    def _unmark(self, found: Container[int]) -> set[int]:
        """Places of steps that are no longer possibly harmful, and not harmful either."""
        log, gone = self.log, set()
        for place in range(len(log)):
            mark = log.mark(place)
            if mark & POSSIBLE and place not in found:
                log.set_mark(place, mark & ~POSSIBLE)
                if mark & CODE < HARMFUL:
                    gone.add(place)
        return gone

    def is_possible(self, place: int) -> bool:
        """True for a step that is reported as possibly harmful."""
        return bool(self.log.mark(place) & POSSIBLE)

    def _rewind(self, changed: int) -> tuple[tuple[Run, ...], list[Stretch]]:
        """The runs as they were at a place up to `changed`, one a reading; what is behind it."""
        replay = self._replay_log()
        while (
            self._resume_points is not None
            and (point := self._resume_points.before(changed)) is not None
        ):
            stretches = replay.stretches(point.place, running=point.running)
            if not stretches or stretches[0].first >= point.place:
                return tuple(run.copy() for run in point.runs), stretches
            # A group is under way there by now.
            changed = point.place
        stretches = replay.stretches(0)
        if self._rival is None:
            return (self._origin(),), stretches
        return (self._fresh(joined=False), self._fresh(joined=True)), stretches

    def _walk(self, runs: Sequence[Run], stretches: list[Stretch]) -> list[list[Step]]:
        """Steps a part of the log under each reading, and adds resume points: the steps whose verdicts differ."""
        replay = self._replay_log()
        news: list[list[Step]] = [[] for _ in runs]
        last = len(stretches) - 1
        for number, stretch in enumerate(stretches):
            if stretch.first >= RESUME_EVERY:
                self._add_resume_point(stretch.first, runs)
            if number == last and stretch.together and stretch.first:
                self._stop_at_last_group(stretch.first, runs)
            for reading, run in enumerate(runs):
                replay.step(run, stretch, news[reading], news=True)
        return news

    def _add_resume_point(self, place: int, runs: Sequence[Run]) -> None:
        if self._resume_points is None:
            self._resume_points = ResumePoints()
        if self._resume_points.due(place):
            self._resume_points.add(self.log, place, runs)

    def _stop_at_last_group(self, place: int, runs: Sequence[Run]) -> None:
        if self._resume_points is None:
            self._resume_points = ResumePoints()
        self._resume_points.add_last_group(self.log, place, runs)

    def grouped(self) -> Iterator[tuple[list[Taken], Position]]:
        """The calls of the log as they are judged together, and where each group may have led.

        While it is not known where the session began it is read from everywhere it may have.
        """
        doubtful = self._rival is not None
        origin = self._fresh(joined=True) if doubtful else self._origin()
        for steps, position in self._replay_log().grouped(origin):
            yield taken_of(self.log, steps, self.folded), position

    @property
    def possible(self) -> Position:
        """Everywhere the session may be, under both readings of a doubtful one."""
        rival = self._rival
        return self.head.position if rival is None or self._swapped else rival.position

    def walk(self, end: int | None = None) -> list[Step]:
        """Steps the log from the checkpoint, in the order taken, all of it or up to a place."""
        return self._replay_log().walk(self._origin(), end)

    def path(self) -> Path:
        """The path that scores are of: that of one of the best orders of all calls.

        Where several orders do as well it is the one nearest to the starts. Verdicts were given call
        by call, so a step may be another here, where later calls showed which order it was.
        """
        base = self.base
        if not self._has_paths():
            return Path(self._origin(), base, self.walk())
        run, replay = self._origin(), self._replay_log()
        roots = replay.trace(run)
        number, places = traced(run.taken, roots)
        root = base.root(number) if base else self._origin()
        steps = replay.retrace(root.copy(), places)
        return Path(root, base.of(number) if base else None, steps)

    def _has_paths(self) -> bool:
        """True where scores depend on the order of overlapping calls."""
        base = self.base
        if not self.judge.scored or self.joined or self.judge.comparison is not None:
            return False
        return (base is not None and base.run.ways is not None) or (
            self.log.grouped and bool(self.log.groups())
        )

    def substantive(self) -> tuple[Scored | None, list[int]]:
        """What is folded of the way taken, and tokens of its substantive steps in the log."""
        log = self.log
        if self._has_paths():
            _, folded, steps = self.path()
            return folded, [
                log.token(each.place) for each in steps if is_substantive(each.code)
            ]
        rows = log.unpacked(0, len(log))
        if log.grouped and log.groups(0, rows):
            walked = self.walk()
            return self.base, [
                log.token(each.place) for each in walked if is_substantive(each.code)
            ]
        return self.base, [
            token for _, _, meta, token in rows if is_substantive(mark_of(meta) & CODE)
        ]

    # --- what time brings -------------------------------------------------------------------------

    def finalise(self, before: int, count: int | None = None, *, overdue: int = 0) -> Finality:
        """Marks steps received up to `before` as final.

        A call that overlaps siblings is final when all calls of its group are, since each may change the
        verdicts of the others. A verdict that depends on no order is final by itself.

        Args:
            before: Unix nanoseconds.
            count: bounds it to the first steps of the log, whatever their group.
            overdue: steps received up to this moment do not wait for the others of their group.
        """
        new, open_ = self.log.received(before, FINAL, count)
        if open_ is None and count is None and self._resume_points is not None:
            self._resume_points.release_last_group()
        waits = self.log.grouped and count is None and self.judge.comparison is None
        if new and open_ is not None and waits:
            new = waiting_for_none(self.log, new, before, overdue)
        return Finality(self._mark_final(new) if new else [], open_)

    def _mark_final(self, new: list[int]) -> list[Step]:
        log, harmful = self.log, False
        for place in new:
            mark = log.mark(place)
            log.set_mark(place, mark | FINAL)
            harmful = harmful or mark & CODE >= HARMFUL
        if self.judge.comparison is not None:
            return self._unexpected(new)
        if not harmful:
            return []
        # A group that is cut is another group.
        end = new[-1] + 1
        if log.grouped:
            for group in log.groups(end=end):
                end = max(end, group[1])
        found, final = self.walk(end), set(new)
        return [step for step in found if step.code >= HARMFUL and step.place in final]

    def _unexpected(self, places: list[int]) -> list[Step]:
        comparison, position = self.judge.comparison, self.head.position
        return [
            Step(place, SELF_LOOP, position, position)
            for place in places
            if comparison is not None and comparison.is_unexpected(self.log.token(place))
        ]

    def absorb(self, other: Judgement) -> list[Change]:
        """Takes over the calls of another judgement under the same spec, none of them folded."""
        assert other.base is None
        for index in range(len(other.log)):
            self.log.take(other.log, index)
        self.log.settle_all()
        # It is one session, and was counted by either name.
        self.counted = self.counted or other.counted
        self._suspected += other._suspected
        if other._joined:
            self._decide(joined=True)
        return self._replay(0)

    def exemplar(self, place: int) -> Exemplar:
        """A step of the log as what stands for a count."""
        return self.log.origin(place)

    def is_final(self, index: int) -> bool:
        return bool(self.log.mark(index) & FINAL)

    def fold(self, before: int) -> None:
        """Folds steps that are far enough back and were received up to `before`."""
        count = fold_log.foldable(self.log, before)
        if count:
            self.fold_first(count)

    def lump(self) -> int:
        """How many steps are folded in a burst."""
        return fold_log.lump(self.log)

    @property
    def crowded(self) -> bool:
        """True when a burst has filled the log: its first FOLD_LUMP steps must be folded."""
        return len(self.log) >= fold_log.LOG_MAX + fold_log.FOLD_LUMP

    def condense(self) -> None:
        """Moves all steps into the checkpoint.

        Where it was not known if calls came before them it is taken that some did: no harm is
        claimed then that is not certain.
        """
        if not len(self.log):
            return
        if self._rival is not None:
            wide = self.head if self._swapped else self._rival
            self._decide(joined=True)
            self.head = wide
        self.fold_first(len(self.log))

    def fold_first(self, count: int) -> None:
        """Moves the first `count` steps into the checkpoint."""
        base = self.base
        if base is None:
            base = self.base = Checkpoint(self._origin(), self.judge)
        if self._rival is not None:
            # After sixty-four calls a doubt is not worth carrying: what was possible stays so.
            self._decide(joined=self.joined)
            self._suspected, self.suspicious = 0, False
        scored = self.judge.scored and not self.joined and self.judge.comparison is None
        fold_log.fold(self._replay_log(), base, count, scored=scored)
        if self._resume_points is not None:
            self._resume_points.fold(count)
