"""One session under one spec: a log of recent calls behind one checkpoint.

Idea: a call that arrives in order steps the *head* (an `AutomatonRun`), in O(1). A call that belongs earlier
is inserted at its place in the log, and the log is stepped again from the nearest earlier place with
a stored run (a resume point, or the checkpoint). Old calls are *folded* into the checkpoint, so the
memory of a session does not grow with its length.

Invariants:

- The head is the run after all steps of the log, and the mark of each step is the verdict that
  stepping gives. So the verdicts do not depend on the order of arrival.
- A verdict is reported if and only if a mark changes (`VerdictChange`): first the verdict of the new call,
  then the revisions.
- The checkpoint is the run after the folded steps, which no longer change. A call that belongs among
  them is *late*: it is judged after all calls so far.
- Where something may be missing or doubtful (`monitor.visibility`), there are two readings: the *plain*
  one takes what was seen for the whole, the *wide* one allows for all that may be otherwise. The head is
  the plain reading while it has as few harms as the wide one, from then on the wide one; `_rival` is the
  other. A call that only the plain reading calls harmful is *possibly* harmful: it is reported so, and is
  in no score.
- Where the numbers of harms agree again, the plain reading has one at an earlier call, which may be right.
  So the wide one stays the head, but for sessions whose beginning alone is in doubt (`_is_young`).
- While the plain reading has no harm, the wide one has none either. So it is not stepped until the plain one comes to
  a harm, or until somebody looks at it (`readings`): doubts and gaps that come and go meanwhile cost nothing.

Example: a task allows `open` after `scan` only. `unlock`, `move` and `open` arrive, so `open` is
harmful. One second later `scan` arrives, which started before `open`. It is inserted before `open`,
and the log is stepped again. `scan` gets its first verdict (progress), and the verdict of `open` is
revised from harmful to progress.

Source: docs/decisions/0003-log-behind-a-checkpoint.md.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from typing import NamedTuple

from mypy_extensions import mypyc_attr

from monitor.aggregate.histogram import Exemplar
from monitor.aggregate.totals import CLEAN_SHARE, NO_SHARE, Pair, Share, fixed
from monitor.automaton.position import Position
from monitor.records import Reason, ToolCall, built
from monitor.reference.comparison import ComparisonState
from monitor.session.judge.judge import (
    CODES,
    CONTROL_TOKEN,
    HARMFUL,
    PROGRESS,
    SELF_LOOP,
    Judge,
    is_substantive,
)
from monitor.session.judge.run import AutomatonRun
from monitor.session.judgement import fold_log
from monitor.session.judgement.checkpoint import Checkpoint, FoldedScores
from monitor.session.judgement.replay import Replay, Stretch, taken_of, traced
from monitor.session.judgement.resume_points import RESUME_EVERY, ResumePoints
from monitor.session.judgement.step_marks import (
    CODE,
    FINAL,
    POSSIBLE,
    RAISED,
    SUSPECTED,
    UNJUDGED,
    Finality,
    JudgedStep,
    Suspicion,
    VerdictChange,
    changes_of,
    waiting_for_none,
)
from monitor.session.limits.session_verdicts import SessionVerdicts
from monitor.session.limits.timing import TimedCall
from monitor.session.log.log import SessionLog
from monitor.session.log.rows import mark_of
from monitor.session.overlap.budget import Budget
from monitor.visibility.cause import FACTS, Cause
from monitor.visibility.sight import CLEAR, Sight
from monitor.visibility.words import DOUBTED_CALLS

__all__ = ["Judgement", "Path", "Preview"]


class Path(NamedTuple):
    """The way taken: the run before the log, its folded part, and its steps in the log."""

    run: AutomatonRun
    folded: FoldedScores | None
    steps: list[JudgedStep]


class Preview(NamedTuple):
    """What a call would be."""

    code: int
    before: Position
    """The position by which it would be judged."""


class WalkResult(NamedTuple):
    """What stepping a part of the log came to."""

    runs: tuple[AutomatonRun, ...]
    """Runs of the readings after the last step."""
    news: list[list[JudgedStep]]
    """Steps of each reading whose verdicts differ from their marks."""
    is_whole: bool
    """True if the log was stepped from its beginning."""
    apart: bool
    """True if the plain reading had more harms than the wide one after some step, folded ones included."""


@mypyc_attr(acyclic=True)
class Judgement:
    """The calls of one session under one spec, or those of one agent or turn, by the spec's scope.

    While it is live, it and its pair refer to each other. `Table` breaks this cycle.
    """

    __slots__ = (
        "_doubts",
        "_held_back",
        "_resume_points",
        "_rival",
        "_suspected",
        "_swapped",
        "base",
        "behind",
        "budget",
        "counted",
        "declared",
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
        "sight",
        "suspicious",
    )

    def __init__(self, judge: Judge, part: str, sight: Sight = CLEAR) -> None:
        """A judgement without calls.

        Args:
            judge: of the spec.
            part: the agent or turn, if the spec's scope is one of these; else "".
            sight: where calls may be missing.
        """
        # Bools stand side by side, because compiled ones then take a byte each.
        self.suspicious = False
        """True if `suspicions` may have something to report."""
        self._swapped = False
        """True while the head is the wide reading."""
        self.counted = False
        """True once the metrics have counted it as a session."""
        self.is_behind = False
        """True if its share has changed and the pair has not taken it yet."""
        self.sampled = False
        """True if it is compared with other sessions when it ends."""
        self.judge = judge
        self.part = part
        self.sight = sight
        """Windows in which calls may be missing. `see` sets them."""
        self.log = SessionLog(by_answer=not judge.strict)
        self._held_back = -1
        """The first place to be stepped again once `catch_up` is called; -1 while each call is judged at once."""
        self._doubts = 0
        """Steps of the log that may not be what they seem."""
        self.budget: Budget | None = None
        """What the orders of its groups may take; None without a bound for all of them. A copy that decides has one."""
        self.base: Checkpoint | None = None
        self.head = self._fresh()
        self._rival: AutomatonRun | None = None
        """The other reading; None while there is only one, or while the wide one is not stepped."""
        self._resume_points: ResumePoints | None = None
        self.late = 0
        self._suspected = 0
        """Steps of the log that are reported as possibly harmful."""
        self.ending = 0
        """The number under which the metrics hold its scores since its last end; 0 before the first.

        Final counters take the scores of the first end only.
        """
        self.session_verdicts: SessionVerdicts | None = None
        """Verdicts on the session as a whole; None until a limit of the spec may be due."""
        self.pair: Pair | None = None
        self.share = NO_SHARE
        """Share of the judgement in the live sums of its pair."""
        self.behind = 0
        """The number of its calls that the live means count."""
        self._look_beyond()
        self.declared = 0
        """Alarms raised and counted under a reference, as bits (`monitor.judging.reference_alarms`)."""

    def _fresh(self) -> AutomatonRun:
        """The run before all calls."""
        position, comparison = self.judge.stepper.start(), self.judge.comparison
        watched = comparison.start() if comparison is not None else None
        return AutomatonRun(
            position, self.judge.tally(), exact=not self.sight.sure, watched=watched
        )

    def _look_beyond(self) -> None:
        """Moves the readings to where calls that are missing behind the last one may have led."""
        rival, sight = self._rival, self.sight
        if sight is CLEAR or self.judge.comparison is not None:
            return
        if rival is not None:
            self.replay_log(wide=not self._swapped).trail(rival)
        if sight.sure or self._swapped:
            self.replay_log(wide=self._swapped).trail(self.head)

    def _is_doubtful(self) -> bool:
        """True if the wide reading may differ from the plain one."""
        if self.judge.comparison is not None:
            return False
        base = self.base
        return bool(self.sight.maybe or self._doubts) or (
            base is not None and base.wide is not None
        )

    @property
    def joined(self) -> bool:
        """True if the session is read as one of which calls are missing."""
        return bool(self.sight.sure) or (self._swapped and bool(self.sight.maybe))

    @property
    def partial(self) -> bool:
        """True if it is read as one of which calls are missing or doubtful: then it has no scores."""
        return self._swapped or bool(self.sight.sure)

    @property
    def doubtful(self) -> bool:
        """True if calls may be missing."""
        return bool(self.sight.maybe)

    @property
    def unless(self) -> tuple[str, ...]:
        """What would make the possible harms none: causes of gaps, and `DOUBTED_CALLS`."""
        causes = tuple(
            each.value
            for each in self.sight.causes
            if FACTS[each].told and not FACTS[each].sure
        )
        return (*causes, DOUBTED_CALLS) if self._doubts else causes

    def token(self, place: int) -> int:
        """The token of a step of the log, as the call that it seems to be."""
        return self.judge.plain_of(self.log.token(place))

    @property
    def calls(self) -> int:
        return self.head.tally.calls

    def before(self, token: int) -> Position:
        """The position by which the next call is judged."""
        head = self.head
        return head.position if head.ways is None else head.judged_at(self.judge, token)

    def span(self) -> tuple[int, int] | None:
        """(first start, last end) of its calls, Unix nanoseconds; None if it has none."""
        base = self.base
        if base is None:
            return self.log.span() if len(self.log) else None
        spans = [self.log.span()] if len(self.log) else []
        if base.count:
            spans.append((base.started, base.last))
        if not spans:
            return None
        return min(start for start, _ in spans), max(end for _, end in spans)

    @property
    def folded(self) -> int:
        return self.base.count if self.base else 0

    def weigh(self) -> Share:
        """Its present share in the live sums of its pair; not for references."""
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
        """Judges a call that comes in order; returns its code. Returns None if the call needs `insert`."""
        judge, rival, sight = self.judge, self._rival, self.sight
        plain = judge.plain_of(token)
        if self._held_back >= 0:
            return None
        if (plain != token or self._is_doubtful()) and self._contested(token):
            return None
        moved = rival is not None or bool(sight.sure)
        if moved and (at <= sight.since_ns or now <= sight.received_ns):
            return None
        if rival is not None and plain != token and not self._doubts:
            # The first call in doubt decides on which reading counts for those before it, too.
            return None
        if not self.log.append(call, tool, token, at, now):
            return None
        self._doubts += plain != token
        code = self.head.step(judge, token if self._swapped else plain)
        if rival is not None:
            other = rival.step(judge, plain if self._swapped else token)
            if self._swapped and (other >= HARMFUL or token != plain):
                self.suspicious = True
        if moved and at < sight.until_ns:
            self._look_beyond()
        if code != PROGRESS:
            self.log.mark_last(code if code < HARMFUL else code | RAISED)
        return code

    def preview(self, call: ToolCall, token: int, at: int) -> Preview | None:
        """What `append` would make of a call. Changes nothing.

        Returns None if the call needs `insert`, or may be possibly harmful.
        """
        judge = self.judge
        if self._swapped or (self._is_doubtful() and self._contested(token)):
            return None
        if at <= self.sight.since_ns or judge.is_doubted(token):
            return None
        if not self.log.takes_last(call, at):
            return None
        found: Preview = built(Preview, (self.head.peek(judge, token), self.before(token)))
        return found

    def tools(self) -> set[int]:
        """The numbers of all tools in it."""
        found = {low | high << 8 for low, high in self.log.tools()}
        if self.session_verdicts is not None:
            found |= self.session_verdicts.tools()
        if self.base is not None and self.base.timing is not None:
            found |= self.base.timing.tools()
        return found

    def renumber(self, tools: Mapping[int, int]) -> None:
        """Gives all tools other numbers: those of another process."""
        self.log.renumber(tools)
        if self.session_verdicts is not None:
            self.session_verdicts.renumber(tools)
        if self.base is not None and self.base.timing is not None:
            self.base.timing.renumber(tools)

    def unknown(self) -> dict[int, str]:
        """The tools in it that no learning run of its reference called, by their numbers in this process."""
        comparison = self.judge.comparison
        if comparison is None:
            return {}
        found: dict[int, str] = {}
        for at in self._watched():
            found |= comparison.unknown(at)
        return found

    def renumber_unknown(self, numbers: Mapping[int, int]) -> None:
        """Gives them other numbers: those of this process, by those of another one."""
        comparison = self.judge.comparison
        assert comparison is not None
        self.log.retoken(comparison.tokens_of(numbers))
        for at in self._watched():
            comparison.renumber(at, numbers)

    def _watched(self) -> list[ComparisonState]:
        """The states in the comparison with a reference, each once: runs may share one."""
        runs = [self.head]
        if self._rival is not None:
            runs.append(self._rival)
        if self.base is not None:
            runs.append(self.base.run)  # a reference has no wide reading
        if self._resume_points is not None:
            runs += self._resume_points.runs()
        found = {id(run.watched): run.watched for run in runs if run.watched is not None}
        return list(found.values())

    def copy(self) -> Judgement:
        """The same judgement, to be changed apart from now on. It is in no sums and in no sample."""
        twin = Judgement(self.judge, self.part)
        twin.sight = self.sight
        twin._doubts = self._doubts
        twin.suspicious, twin._swapped = self.suspicious, self._swapped
        twin.counted, twin.late = self.counted, self.late
        twin.log, twin.head = self.log.copy(), self.head.copy()
        base, rival, points = self.base, self._rival, self._resume_points
        twin.base = base.copy(self.judge) if base is not None else None
        twin._rival = rival.copy() if rival is not None else None
        twin._resume_points = points.copy() if points is not None else None
        twin._suspected, twin.ending, twin.declared = (
            self._suspected,
            self.ending,
            self.declared,
        )
        return twin

    def _contested(self, token: int) -> bool:
        """True if the call would be harmful by the head: then the other reading may be the better one."""
        if token == CONTROL_TOKEN or self.judge.comparison is not None:
            return False
        return self.head.is_harmed(
            self.judge, token if self._swapped else self.judge.plain_of(token)
        )

    def insert(
        self, call: ToolCall, tool: int, token: int, at: int, now: int
    ) -> list[VerdictChange]:
        """Judges a call at any place. Returns its own verdict first, then the revisions."""
        if self.base is not None and at < self.base.at:
            self.late += 1
            at = 1 + (self.log.at(len(self.log) - 1) if len(self.log) else self.base.at)
        placed = self.log.insert(call, tool, token, at, now)
        self.log.set_mark(placed.place, UNJUDGED)
        self.judge.skewed += placed.moved
        self._doubts += self.judge.is_doubted(token)
        return self._replay(placed.first)

    def amend(
        self,
        place: int,
        call: ToolCall,
        tool: int,
        token: int,
        at: int,
        receipt: int | None = None,
    ) -> list[VerdictChange]:
        """Judges the step at `place` again, from a fuller span of the same call.

        `receipt` is that of the step from now on; None: it stays as it was.
        """
        log = self.log
        mark = log.mark(place)
        if receipt is None:
            receipt = log.receipt(place)
        if self.base is not None and at < self.base.at:
            at = self._late_again(place)
        self._doubts += self.judge.is_doubted(token) - self._is_doubted(place)
        log.remove(place)
        placed = log.insert(call, tool, token, at, receipt)
        log.set_mark(placed.place, mark)
        self.judge.skewed += placed.moved
        return self._replay(min(place, placed.first))

    def ends_doubt(self, place: int, call: ToolCall, tool: int, token: int, at: int) -> bool:
        """Ends the doubt of a step, if nothing else of it changes and the plain reading counts anyhow.

        Returns False, and changes nothing, if the step needs `amend`.

        The wide reading has at least as many harmful calls as before, and no more than the plain one: so that one
        goes on to count. The wide one is stepped again when it is looked at.
        """
        old = self.log.token(place)
        if self._swapped or self._suspected or old == token or self._held_back >= 0:
            return False
        if self.judge.plain_of(old) != token or not self.log.has_as_it_is(
            place, call, tool, at
        ):
            return False
        self.log.set_token(place, token)
        self._doubts -= 1
        self._forget_wide()
        return True

    def _late_again(self, place: int) -> int:
        """The `at` of a step that, by its fuller span, belongs among the folded steps."""
        assert self.base is not None
        if self.log.row(place).start < self.base.at:
            return self.log.at(place)
        self.late += 1
        return self.base.at

    def move_back(self, lead: int) -> list[VerdictChange]:
        """Moves the steps of a sender whose clock is ahead by `lead` nanoseconds, and revises the verdicts."""
        if not self.log.move_back(lead):
            return []
        self.log.settle_all()
        self._resume_points = None
        return self._replay(0)

    def retract(self, place: int) -> list[VerdictChange]:
        """Removes the step at `place`, which was no call; later steps are judged again."""
        row = self.log.row(place)
        self._doubts -= self._is_doubted(place)
        self._suspected -= self.log.mark(place) & POSSIBLE != 0
        self.log.remove(place)
        moved = self.log.settle(row.trace_id, row.span_id)
        return self._replay(min([place, *moved]))

    def _is_doubted(self, place: int) -> bool:
        return self.judge.is_doubted(self.log.token(place))

    def see(self, sight: Sight) -> list[VerdictChange]:
        """Sets where calls may be missing, and revises the verdicts. Folded steps keep theirs."""
        if sight == self.sight:
            return []
        if self.base is not None:
            self._blur(self.base, sight)
        is_sure = bool(self.sight.sure or sight.sure)
        self.sight = sight
        if not (is_sure or self._swapped or self.head.tally.harmful_steps):
            self._forget_wide()
            self._suspect()
            return []
        self._resume_points = None
        return self._replay(0)

    def _forget_wide(self) -> None:
        """What the wide reading allows for has changed, and the plain one counts anyhow: it is stepped when needed."""
        if self._rival is not None:
            self._rival = self._resume_points = None

    def _blur(self, base: Checkpoint, sight: Sight) -> None:
        """Allows for calls that are missing, as has become known, among the folded steps."""
        known = {*self.sight.sure, *self.sight.maybe}
        sure, maybe = (
            any(each.since_ns < base.at and each not in known for each in windows)
            for windows in (sight.sure, sight.maybe)
        )
        anywhere = self.judge.anywhere
        if self.judge.comparison is None and (sure or maybe):
            base.wide = base.wide or base.run.copy()
            base.wide.exact = False
            base.wide.scatter(anywhere)
        if sure:
            base.run.exact = False
            if self.judge.comparison is None:
                base.run.scatter(anywhere)
            for scored in (base, *base.others):
                scored.give_up()
        if not (sight.maybe or self._doubts):
            base.wide, base.apart = None, False

    @property
    def _is_young(self) -> bool:
        """True if all that is not known is whether the session began before the first call."""
        base = self.base
        return (
            self.sight.causes == (Cause.STARTED,)
            and not self._doubts
            and (base is None or not base.doubted)
        )

    def _origin(self, *, wide: bool) -> AutomatonRun:
        """The run before the first step of the log, in one reading."""
        base = self.base
        if base is None:
            run = self._fresh()
        else:
            run = (base.wide if wide and base.wide is not None else base.run).copy()
        run.exact = run.exact and not wide
        return run

    @property
    def readings(self) -> tuple[AutomatonRun, ...]:
        """The runs after all steps: two while something is not known, else one."""
        if self._rival is None and self._is_doubtful():
            self._step_wide()
        return (self.head,) if self._rival is None else (self.head, self._rival)

    def _step_wide(self) -> None:
        """Steps the wide reading, while the plain one counts."""
        run, replay = self._origin(wide=True), self.replay_log(wide=True)
        replay.walk(run)
        replay.trail(run)
        self._rival, self._resume_points = run, None

    def widest_origin(self) -> AutomatonRun:
        """The run before the log in the reading that allows for everything, as a copy."""
        return self._origin(wide=self._is_doubtful())

    def widest_replay(self) -> Replay:
        """What steps the log in that reading."""
        return self.replay_log(wide=self._is_doubtful())

    def _replays(self) -> tuple[Replay, ...]:
        """What steps the log in each reading, the plain one first."""
        plain = self.replay_log(wide=False)
        return (plain, self.replay_log(wide=True)) if self._is_doubtful() else (plain,)

    # --- stepping the log again ------------------------------------------------------------------

    def replay_log(self, *, wide: bool) -> Replay:
        """What steps the log in one reading."""
        begin_ns = self.base.at if self.base is not None else -1
        windows = () if self.sight is CLEAR else self.sight.windows(wide=wide)
        return Replay(
            self.judge, self.log, windows, wide=wide, begin_ns=begin_ns, budget=self.budget
        )

    def _replay(self, changed: int) -> list[VerdictChange]:
        """Steps the log again from the step at `changed` on; returns the changes, first verdicts first."""
        if self._held_back >= 0:
            self._held_back = min(self._held_back, changed)
            return []
        changes = self._step_again(changed)
        self._suspect()
        return changes

    def hold_back(self) -> None:
        """Adds calls from now on without judging them, until `catch_up`: many are judged at the cost of one."""
        self._held_back = len(self.log)

    def catch_up(self) -> list[VerdictChange]:
        """Judges the calls that were held back."""
        changed, self._held_back = self._held_back, -1
        return self._replay(changed) if 0 <= changed < len(self.log) else []

    def _suspect(self) -> None:
        """Notes that `suspicions` may have news, since steps or readings have changed."""
        self.suspicious = self._swapped or self._suspected > 0

    def _step_again(self, changed: int) -> list[VerdictChange]:
        replays, is_alone = self._replays(), self._rival is None
        if not is_alone and len(replays) == 1:
            self._resume_points, changed = None, 0
        walked = self._walk(changed, replays[:1] if is_alone else replays)
        if is_alone and len(replays) > 1 and walked.runs[0].tally.harmful_steps:
            self._resume_points = None
            walked = self._walk(0, replays)
        runs, news, is_whole, _ = walked
        if self.sight is not CLEAR:
            for run, replay in zip(runs, replays, strict=False):
                replay.trail(run)
        before, self._swapped = self._swapped, False
        self.head, self._rival = runs[0], None
        if len(runs) > 1:
            plain, wide = runs
            self._swapped = _have_parted(runs) or (walked.apart and not self._is_young)
            self.head, self._rival = (wide, plain) if self._swapped else (plain, wide)
        steps = news[self._swapped]
        if self._swapped is not before and not is_whole:
            # The other reading counts from now on, for all steps of the log.
            steps = self.walk()
        return changes_of(self.log, steps)

    # --- what is possible ------------------------------------------------------------------------

    def possible_harms(self) -> list[JudgedStep]:
        """Calls that are harmful in the plain reading, but not in the wide one, which counts.

        The list is empty if a cause says that this is no news (`Fact.told`).
        """
        if not self._swapped or not self.sight.told:
            return []
        mark = self.log.mark
        return [
            step
            for step in self._plain()
            if step.code >= HARMFUL and mark(step.place) & CODE < HARMFUL
        ]

    def _plain(self) -> list[JudgedStep]:
        """The steps of the log in the plain reading."""
        return self.replay_log(wide=False).walk(self._origin(wide=False))

    def is_certain_call(self, place: int, before: Position) -> bool:
        """False if a harmful call is allowed in some reading, in which an earlier call is the harm."""
        if not self.judge.is_certain_call(before, self.token(place)):
            return False
        if not self._swapped:
            return True
        return any(step.place == place and step.code >= HARMFUL for step in self._plain())

    def explanation(self, place: int, code: int, before: Position) -> str:
        """Why the step at `place`, judged from `before` as `code`, is harmful; "" if it is not."""
        reason = CODES[code][1] if code >= HARMFUL else None
        if reason is None:
            return ""
        note = self.log.note(place) if reason is Reason.ARGUMENT_MISMATCH else ""
        return note or self.judge.explanation(before, self.token(place), reason)

    def suspicions(self, again: Collection[bytes] = ()) -> list[Suspicion]:
        """New possible harms, and those to withdraw. Marks the steps as reported.

        `again`: span ids of steps whose verdicts are told anew. Those that are possible harms are told as such.
        """
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
            if not mark & POSSIBLE or log.span_id(place) in again:
                news.append(Suspicion(step, first=not mark & SUSPECTED, withdrawn=False))
                log.set_mark(place, mark | POSSIBLE | SUSPECTED)
        self._suspected = len(found)
        return news

    def _unmark(self, found: Container[int]) -> set[int]:
        """Unmarks former possible harms; returns the places of those that are not harmful now."""
        log, gone = self.log, set()
        for place in range(len(log)):
            mark = log.mark(place)
            if mark & POSSIBLE and place not in found:
                log.set_mark(place, mark & ~POSSIBLE)
                if mark & CODE < HARMFUL:
                    gone.add(place)
        return gone

    def is_alarming(self, place: int) -> bool:
        """True if the step is reported as harmful or as possibly harmful."""
        mark = self.log.mark(place)
        return bool(mark & POSSIBLE) or HARMFUL <= mark & CODE < UNJUDGED

    def is_possible(self, place: int) -> bool:
        """True if the step is reported as possibly harmful."""
        return bool(self.log.mark(place) & POSSIBLE)

    def _rewind(
        self, changed: int, replays: Sequence[Replay]
    ) -> tuple[tuple[AutomatonRun, ...], list[Stretch], bool]:
        """A run for each reading, at a place no later than `changed`, the stretches from there on, and `apart` by then."""
        replay = replays[0]
        while (
            self._resume_points is not None
            and (point := self._resume_points.before(changed)) is not None
        ):
            stretches = replay.stretches(point.place, running=point.running)
            if not stretches or stretches[0].first >= point.place:
                return tuple(run.copy() for run in point.runs), stretches, point.apart
            # A group now reaches across this point.
            changed = point.place
        runs = tuple(self._origin(wide=each.wide) for each in replays)
        base = self.base
        return runs, replay.stretches(0), base is not None and base.apart

    def _walk(self, changed: int, replays: Sequence[Replay]) -> WalkResult:
        """Steps the log in some readings from a place no later than `changed`, and adds resume points."""
        runs, stretches, apart = self._rewind(changed, replays)
        news: list[list[JudgedStep]] = [[] for _ in runs]
        last = len(stretches) - 1
        for number, stretch in enumerate(stretches):
            if stretch.first >= RESUME_EVERY:
                self._add_resume_point(stretch.first, runs, apart)
            if number == last and stretch.together and stretch.first:
                self._stop_at_last_group(stretch.first, runs, apart)
            apart = _step_all(replays, runs, stretch, news) or apart
        is_whole = bool(stretches) and stretches[0].first == 0
        return WalkResult(runs, news, is_whole, apart)

    def _add_resume_point(self, place: int, runs: Sequence[AutomatonRun], apart: bool) -> None:
        if self._resume_points is None:
            self._resume_points = ResumePoints()
        if self._resume_points.due(place):
            self._resume_points.add(self.log, place, runs, apart=apart)

    def _stop_at_last_group(
        self, place: int, runs: Sequence[AutomatonRun], apart: bool
    ) -> None:
        if self._resume_points is None:
            self._resume_points = ResumePoints()
        self._resume_points.add_last_group(self.log, place, runs, apart=apart)

    def grouped(self) -> Iterator[tuple[list[TimedCall], Position]]:
        """The calls of the log in groups that are judged together, each with the position after it.

        They are read widely where something is not known.
        """
        wide = self._rival is not None
        replay = self.replay_log(wide=wide)
        for steps, position in replay.grouped(self._origin(wide=wide)):
            yield taken_of(replay, steps, self.folded), position

    @property
    def widest(self) -> AutomatonRun:
        """The run after all steps in the reading that allows for everything."""
        rival = self.readings[-1]
        return self.head if self._swapped else rival

    @property
    def possible(self) -> Position:
        """All states the session may be in, in every reading."""
        return self.widest.position

    def walk(self, end: int | None = None) -> list[JudgedStep]:
        """Steps the log from the checkpoint in the order taken, up to before `end` or to its end."""
        wide = self._swapped
        return self.replay_log(wide=wide).walk(self._origin(wide=wide), end)

    def path(self) -> Path:
        """The path that is scored: one of the best orders of all calls, the nearest to the start order.

        Verdicts are given call by call. So a step may differ from its verdict here, if a later call
        showed which order was the best.
        """
        base = self.base
        if not self._has_paths():
            return Path(self._origin(wide=self._swapped), base, self.walk())
        run, replay = self._origin(wide=False), self.replay_log(wide=False)
        roots = replay.trace(run)
        number, places = traced(run.taken, roots)
        root = base.root(number) if base else self._origin(wide=False)
        steps = replay.retrace(root.copy(), places)
        return Path(root, base.of(number) if base else None, steps)

    def _has_paths(self) -> bool:
        """True if scores depend on the order of overlapping calls."""
        base = self.base
        if not self.judge.scored or self._swapped or self.sight.sure:
            return False
        if self.judge.comparison is not None:
            return False
        if base is not None and (base.run.ways is not None or base.trail is not None):
            return True
        return self.log.grouped and bool(self.log.groups())

    def substantive(self) -> tuple[FoldedScores | None, list[int]]:
        """The folded part of the way taken, and the tokens of its substantive steps in the log."""
        log = self.log
        if self._has_paths():
            _, folded, steps = self.path()
            return folded, [
                self.token(each.place) for each in steps if is_substantive(each.code)
            ]
        rows = log.unpacked(0, len(log))
        if log.grouped and log.groups(0, rows):
            walked = self.walk()
            return self.base, [
                self.token(each.place) for each in walked if is_substantive(each.code)
            ]
        plain_of = self.judge.plain_of
        return self.base, [
            plain_of(token)
            for _, _, meta, token in rows
            if is_substantive(mark_of(meta) & CODE)
        ]

    # --- what time brings -------------------------------------------------------------------------

    def finalise(self, before: int, count: int | None = None, *, overdue: int = 0) -> Finality:
        """Marks steps received up to `before` as final.

        A call that overlaps siblings becomes final with its whole group, since each call of a group
        may change the verdicts of the others. A verdict that no order changes does not wait.

        Args:
            before: Unix nanoseconds.
            count: only the first `count` steps of the log, and groups do not wait.
            overdue: Unix nanoseconds. Steps received up to this moment do not wait for their group.
        """
        new, open_ = self.log.received(before, FINAL, count)
        if open_ is None and count is None and self._resume_points is not None:
            self._resume_points.release_last_group()
        waits = self.log.grouped and count is None and self.judge.comparison is None
        if new and open_ is not None and waits:
            new = waiting_for_none(self.log, new, before, overdue)
        return Finality(self._mark_final(new) if new else [], open_)

    def _mark_final(self, new: list[int]) -> list[JudgedStep]:
        log, harmful = self.log, False
        for place in new:
            mark = log.mark(place)
            log.set_mark(place, mark | FINAL)
            harmful = harmful or mark & CODE >= HARMFUL
        if self.judge.comparison is not None:
            return self._unexpected(new)
        if not harmful:
            return []
        # The walk must end behind a whole group: a part of a group may be ordered in another way.
        end = new[-1] + 1
        if log.grouped:
            for group in log.groups(end=end):
                end = max(end, group[1])
        found, final = self.walk(end), set(new)
        return [step for step in found if step.code >= HARMFUL and step.place in final]

    def _unexpected(self, places: list[int]) -> list[JudgedStep]:
        comparison, position = self.judge.comparison, self.head.position
        return [
            JudgedStep(place, SELF_LOOP, position, position)
            for place in places
            if comparison is not None and comparison.is_unexpected(self.log.token(place))
        ]

    def absorb(self, other: Judgement) -> list[VerdictChange]:
        """Takes over the calls of another judgement under the same spec, none of them folded."""
        assert other.base is None
        for index in range(len(other.log)):
            self.log.take(other.log, index)
        self.log.settle_all()
        # Both are one session, which was counted under one of its names.
        self.counted = self.counted or other.counted
        self._suspected += other._suspected
        self._doubts += other._doubts
        return self._replay(0)

    def under(
        self, judge: Judge, tokens: Mapping[bytes, int], sight: Sight
    ) -> tuple[Judgement, list[VerdictChange]]:
        """The same calls under another version of the spec, and how their verdicts change.

        Steps keep their places in the order, their receipts, and what was reported of them. Folded steps are not
        known any more: `sight` is to allow for them.

        Args:
            judge: of that version, whose scope is the same.
            tokens: by span id; calls without one are left out.
            sight: where calls may be missing.
        """
        twin = Judgement(judge, self.part, sight)
        twin.counted, twin.late, twin.ending = self.counted, self.late, self.ending
        twin._suspected, twin.session_verdicts = self._suspected, self.session_verdicts
        for place in range(len(self.log)):
            if self.log.span_id(place) in tokens:
                twin.log.take(self.log, place)
        twin.log.settle_all()
        for place in range(len(twin.log)):
            twin.log.set_token(place, tokens[twin.log.span_id(place)])
            twin._doubts += twin._is_doubted(place)
        return twin, twin._replay(0)

    def exemplar(self, place: int) -> Exemplar:
        """The origin of a step of the log, as an exemplar for a counter."""
        return self.log.origin(place)

    def is_final(self, index: int) -> bool:
        return bool(self.log.mark(index) & FINAL)

    def fold(self, before: int) -> None:
        """Folds steps that are far enough back and were received up to `before`."""
        count = fold_log.foldable(self.log, before)
        if count:
            self.fold_first(count)

    def lump(self) -> int:
        """The number of steps to fold in a burst."""
        return fold_log.lump(self.log)

    @property
    def crowded(self) -> bool:
        """True when a burst has filled the log: its first FOLD_LUMP steps must be folded."""
        return len(self.log) >= fold_log.LOG_MAX + fold_log.FOLD_LUMP

    def condense(self) -> None:
        """Moves all steps into the checkpoint."""
        if len(self.log):
            self.fold_first(len(self.log))

    def fold_first(self, count: int) -> None:
        """Moves the first `count` steps into the checkpoint."""
        base, replays = self.base, self._replays()
        if base is None:
            base = Checkpoint(self._origin(wide=False), self.judge)
        if len(replays) > 1:
            self._fold_wide(base, replays, count)
        self.base = base
        scored = self.judge.scored and not self.sight.sure
        fold_log.fold(replays[0], base, count, scored=scored and self.judge.comparison is None)
        if self._resume_points is not None:
            self._resume_points.fold(count)

    def _fold_wide(self, base: Checkpoint, replays: Sequence[Replay], count: int) -> None:
        """Moves the wide reading of the first `count` steps into the checkpoint."""
        runs = (self._origin(wide=False), self._origin(wide=True))
        for stretch in replays[0].stretches(0, count):
            base.apart = _step_all(replays, runs, stretch) or base.apart
        base.wide = runs[1]
        self._suspected -= sum(1 for place in range(count) if self.is_possible(place))
        doubted = sum(self._is_doubted(place) for place in range(count))
        base.doubted = base.doubted or doubted > 0
        self._doubts -= doubted


def _step_all(
    replays: Sequence[Replay],
    runs: Sequence[AutomatonRun],
    stretch: Stretch,
    news: Sequence[list[JudgedStep]] | None = None,
) -> bool:
    """Steps a stretch in each reading; returns True if the plain one had more harms than the wide one on the way.

    `news` takes, for each reading, the steps whose verdicts differ from their marks.
    """
    apart = False
    for part in stretch.parts() if len(runs) > 1 else (stretch,):
        for reading, run in enumerate(runs):
            steps = news[reading] if news is not None else []
            replays[reading].step(run, part, steps, news=news is not None)
        apart = apart or (len(runs) > 1 and _have_parted(runs))
    return apart


def _have_parted(runs: Sequence[AutomatonRun]) -> bool:
    """True if the plain reading has more harms than the wide one."""
    plain, wide = runs
    return plain.tally.harmful_steps > wide.tally.harmful_steps
