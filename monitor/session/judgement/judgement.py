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
  the plain reading while it has as few harms as the wide one, from then on the wide one; `rival` is the
  other. A call that only the plain reading calls harmful is *possibly* harmful: it is reported so, and is
  in no score.
- Where the numbers of harms agree again, the plain reading has one at an earlier call, which may be right.
  So the wide one stays the head, but for sessions whose beginning alone is in doubt (`is_young`).
- While the plain reading has no harm, the wide one has none either. So it is not stepped until the plain one comes to
  a harm, or until somebody looks at it (`readings`): doubts and gaps that come and go meanwhile cost nothing.

Example: a task allows `open` after `scan` only. `unlock`, `move` and `open` arrive, so `open` is
harmful. One second later `scan` arrives, which started before `open`. It is inserted before `open`,
and the log is stepped again. `scan` gets its first verdict (progress), and the verdict of `open` is
revised from harmful to progress.

Source: docs/decisions/0003-log-behind-a-checkpoint.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mypy_extensions import mypyc_attr

from monitor.aggregate.totals import CLEAN_SHARE, NO_SHARE, Pair, Share, fixed
from monitor.automaton.position import Position
from monitor.records import ToolCall, built
from monitor.session.judge.judge import CONTROL_TOKEN, HARMFUL, PROGRESS, Judge
from monitor.session.judge.run import AutomatonRun
from monitor.session.judgement.checkpoint import Checkpoint
from monitor.session.judgement.log_walk import (
    WalkResult,
    WalkStart,
    have_parted,
    resumed,
    walked,
)
from monitor.session.judgement.replay import Replay
from monitor.session.judgement.resume_points import ResumePoints
from monitor.session.judgement.step_marks import (
    POSSIBLE,
    RAISED,
    UNJUDGED,
    JudgedStep,
    VerdictChange,
    changes_of,
)
from monitor.session.log.log import SessionLog
from monitor.session.log.rows import StepOrder
from monitor.session.overlap.question_budget import QuestionBudget
from monitor.session.time_limits.session_verdicts import SessionVerdicts
from monitor.visibility.cause import Cause
from monitor.visibility.sight import CLEAR, Sight

__all__ = ["Judgement", "is_young", "position_before"]


@mypyc_attr(acyclic=True)
class Judgement:
    """The calls of one session under one spec, or those of one agent or turn, by the spec's scope.

    While it is live, it and its pair refer to each other. `Table` breaks this cycle.
    """

    __slots__ = (
        "_held_back",
        "base",
        "behind",
        "budget",
        "counted",
        "declared",
        "doubts",
        "ending",
        "final_excess",
        "head",
        "is_behind",
        "judge",
        "late",
        "log",
        "pair",
        "part",
        "resume_points",
        "rival",
        "sampled",
        "session_verdicts",
        "share",
        "sight",
        "suspected",
        "suspicious",
        "swapped",
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
        """True if `possible_harms.suspicions` may have something to report."""
        self.swapped = False
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
        self.doubts = 0
        """Steps of the log that may not be what they seem."""
        self.budget: QuestionBudget | None = None
        """What the orders of its groups may take; None without a bound for all of them. A copy that decides has one."""
        self.base: Checkpoint | None = None
        self.head = self.fresh_run()
        self.rival: AutomatonRun | None = None
        """The other reading; None while there is only one, or while the wide one is not stepped."""
        self.resume_points: ResumePoints | None = None
        self.late = 0
        self.suspected = 0
        """Steps of the log that are reported as possibly harmful."""
        self.final_excess = 0
        """The harms that were counted as final beyond those of final steps (`step_marks.reopen`)."""
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

    def fresh_run(self) -> AutomatonRun:
        """The run before all calls."""
        position, comparison = self.judge.stepper.start(), self.judge.comparison
        watched = comparison.start() if comparison is not None else None
        return AutomatonRun(
            position, self.judge.tally(), exact=not self.sight.sure, watched=watched
        )

    def note_call(self, call: ToolCall) -> None:
        """Keeps what the judgement needs of a call beside its token: nothing, but with things."""

    def step_last(self, run: AutomatonRun, token: int) -> int:
        """Steps a reading by the last call of the log, and returns its code."""
        return run.step(self.judge, token)

    def settle(self, last: StepOrder) -> None:
        """Takes note that the steps up to `last` were folded: of things, one table holds the folded part."""

    def _look_beyond(self) -> None:
        """Moves the readings to where calls that are missing behind the last one may have led."""
        rival, sight = self.rival, self.sight
        if sight is CLEAR or self.judge.comparison is not None:
            return
        if rival is not None:
            self.replay_log(wide=not self.swapped).trail(rival)
        if sight.sure or self.swapped:
            self.replay_log(wide=self.swapped).trail(self.head)

    def is_doubtful(self) -> bool:
        """True if the wide reading may differ from the plain one."""
        if self.judge.comparison is not None:
            return False
        base = self.base
        return bool(self.sight.maybe or self.doubts) or (
            base is not None and base.wide is not None
        )

    @property
    def joined(self) -> bool:
        """True if the session is read as one of which calls are missing."""
        return bool(self.sight.sure) or (self.swapped and bool(self.sight.maybe))

    @property
    def partial(self) -> bool:
        """True if it is read as one of which calls are missing or doubtful: then it has no scores."""
        return self.swapped or bool(self.sight.sure)

    def token(self, place: int) -> int:
        """The token of a step of the log, as the call that it seems to be."""
        return self.judge.plain_of(self.log.token(place))

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
        judge, rival, sight = self.judge, self.rival, self.sight
        plain = judge.plain_of(token)
        if self._held_back >= 0:
            return None
        if (plain != token or self.is_doubtful()) and self.is_contested(call, token):
            return None
        moved = rival is not None or bool(sight.sure)
        if moved and (at <= sight.since_ns or now <= sight.received_ns):
            return None
        if rival is not None and plain != token and not self.doubts:
            # The first call in doubt decides on which reading counts for those before it, too.
            return None
        if judge.each is not None:
            self.note_call(call)
        if not self.log.append(call, tool, token, at, now):
            return None
        self.doubts += plain != token
        code = self.step_last(self.head, token if self.swapped else plain)
        if rival is not None:
            other = self.step_last(rival, plain if self.swapped else token)
            if self.swapped and (other >= HARMFUL or token != plain):
                self.suspicious = True
        if moved and at < sight.until_ns:
            self._look_beyond()
        if code != PROGRESS:
            self.log.set_mark(-1, code if code < HARMFUL else code | RAISED)
        return code

    def preview(self, call: ToolCall, token: int, at: int) -> tuple[int, Position] | None:
        """What `append` would make of a call: its code, and the position by which it is judged. Changes nothing.

        Returns None if the call needs `insert`, or may be possibly harmful.
        """
        judge = self.judge
        if self.swapped or (self.is_doubtful() and self.is_contested(call, token)):
            return None
        if at <= self.sight.since_ns or judge.is_doubted(token):
            return None
        if not self.log.takes_last(call, at):
            return None
        return self.head.peek(judge, token), position_before(self, token)

    def copy(self) -> Judgement:
        """The same judgement, to be changed apart from now on. It is in no sums and in no sample."""
        twin = type(self)(self.judge, self.part)
        twin.sight = self.sight
        twin.doubts = self.doubts
        twin.suspicious, twin.swapped = self.suspicious, self.swapped
        twin.counted, twin.late = self.counted, self.late
        twin.final_excess = self.final_excess
        twin.log, twin.head = self.log.copy(), self.head.copy()
        base, rival, points = self.base, self.rival, self.resume_points
        twin.base = base.copy(self.judge) if base is not None else None
        twin.rival = rival.copy() if rival is not None else None
        twin.resume_points = points.copy() if points is not None else None
        twin.suspected, twin.ending, twin.declared = (
            self.suspected,
            self.ending,
            self.declared,
        )
        return twin

    def is_contested(self, call: ToolCall, token: int) -> bool:  # noqa: ARG002 - of things
        """True if the call would be harmful by the head: then the other reading may be the better one."""
        if token == CONTROL_TOKEN or self.judge.comparison is not None:
            return False
        return self.head.is_harmed(
            self.judge, token if self.swapped else self.judge.plain_of(token)
        )

    def insert(
        self, call: ToolCall, tool: int, token: int, at: int, now: int
    ) -> list[VerdictChange]:
        """Judges a call at any place. Returns its own verdict first, then the revisions."""
        if self.base is not None and at < self.base.at:
            self.late += 1
            at = 1 + (self.log.at(len(self.log) - 1) if len(self.log) else self.base.at)
        self.note_call(call)
        placed = self.log.insert(call, tool, token, at, now)
        self.log.set_mark(placed.place, UNJUDGED)
        self.judge.skewed += placed.moved
        self.doubts += self.judge.is_doubted(token)
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
        self.doubts += self.judge.is_doubted(token) - self.judge.is_doubted(
            self.log.token(place)
        )
        log.remove(place)
        self.note_call(call)
        placed = log.insert(call, tool, token, at, receipt)
        log.set_mark(placed.place, mark)
        self.judge.skewed += placed.moved
        return self._replay(min(place, placed.first))

    def retoken(self, place: int, token: int) -> list[VerdictChange]:
        """Judges the step at `place` again as a call with another token, and the steps behind it."""
        is_doubted = self.judge.is_doubted
        self.doubts += is_doubted(token) - is_doubted(self.log.token(place))
        self.log.set_token(place, token)
        return self._replay(place)

    def ends_doubt(self, place: int, call: ToolCall, tool: int, token: int, at: int) -> bool:
        """Ends the doubt of a step, if nothing else of it changes and the plain reading counts anyhow.

        Returns False, and changes nothing, if the step needs `amend`.

        The wide reading has at least as many harmful calls as before, and no more than the plain one: so that one
        goes on to count. The wide one is stepped again when it is looked at.
        """
        old = self.log.token(place)
        if self.swapped or self.suspected or old == token or self._held_back >= 0:
            return False
        if self.judge.plain_of(old) != token or not self.log.has_as_it_is(
            place, call, tool, at
        ):
            return False
        self.log.set_token(place, token)
        self.doubts -= 1
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
        self.resume_points = None
        return self._replay(0)

    def retract(self, place: int) -> list[VerdictChange]:
        """Removes the step at `place`, which was no call; later steps are judged again."""
        row = self.log.row(place)
        self.doubts -= self.judge.is_doubted(self.log.token(place))
        self.suspected -= self.log.mark(place) & POSSIBLE != 0
        self.log.remove(place)
        moved = self.log.settle(row.trace_id, row.span_id)
        return self._replay(min([place, *moved]))

    def see(self, sight: Sight) -> list[VerdictChange]:
        """Sets where calls may be missing, and revises the verdicts. Folded steps keep theirs."""
        if sight == self.sight:
            return []
        if self.base is not None:
            self.base.blur(self.judge, self.sight, sight, doubted=self.doubts > 0)
        is_sure = bool(self.sight.sure or sight.sure)
        self.sight = sight
        if not (is_sure or self.swapped or self.head.tally.harmful_steps):
            self._forget_wide()
            self._suspect()
            return []
        self.resume_points = None
        return self._replay(0)

    def _forget_wide(self) -> None:
        """What the wide reading allows for has changed, and the plain one counts anyhow: it is stepped when needed."""
        if self.rival is not None:
            self.rival = self.resume_points = None

    def origin(self, *, wide: bool) -> AutomatonRun:
        """The run before the first step of the log, in one reading."""
        base = self.base
        if base is None:
            run = self.fresh_run()
        else:
            run = (base.wide if wide and base.wide is not None else base.run).copy()
        run.exact = run.exact and not wide
        return run

    @property
    def readings(self) -> tuple[AutomatonRun, ...]:
        """The runs after all steps: two while something is not known, else one."""
        if self.rival is None and self.is_doubtful():
            self.rival, replay = self.origin(wide=True), self.replay_log(wide=True)
            replay.walk(self.rival)
            replay.trail(self.rival)
            self.resume_points = None
        return (self.head,) if self.rival is None else (self.head, self.rival)

    def replays(self) -> tuple[Replay, ...]:
        """What steps the log in each reading, the plain one first."""
        plain = self.replay_log(wide=False)
        return (plain, self.replay_log(wide=True)) if self.is_doubtful() else (plain,)

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
        """Notes that `possible_harms.suspicions` may have news, since steps or readings have changed."""
        self.suspicious = self.swapped or self.suspected > 0

    def _step_again(self, changed: int) -> list[VerdictChange]:
        replays, is_alone = self.replays(), self.rival is None
        if not is_alone and len(replays) == 1:
            self.resume_points, changed = None, 0
        found = self._walk(changed, replays[:1] if is_alone else replays)
        if is_alone and len(replays) > 1 and found.runs[0].tally.harmful_steps:
            self.resume_points = None
            found = self._walk(0, replays)
        runs = found.runs
        if self.sight is not CLEAR or self.judge.each is not None:
            for run, replay in zip(runs, replays, strict=False):
                replay.trail(run)
        before, self.swapped = self.swapped, False
        self.head, self.rival = runs[0], None
        if len(runs) > 1:
            plain, wide = runs
            self.swapped = have_parted(runs) or (found.apart and not is_young(self))
            self.head, self.rival = (wide, plain) if self.swapped else (plain, wide)
        steps = found.news[self.swapped]
        if self.swapped is not before and not found.is_whole:
            # The other reading counts from now on, for all steps of the log.
            steps = self.walk()
        return changes_of(self.log, steps)

    def _walk(self, changed: int, replays: Sequence[Replay]) -> WalkResult:
        """Steps the log in some readings from a place no later than `changed`, and keeps resume points."""
        points, base = self.resume_points, self.base
        start = resumed(points, replays[0], changed) if points is not None else None
        if start is None:
            runs = tuple([self.origin(wide=each.wide) for each in replays])
            start = WalkStart(runs, replays[0].stretches(0), base is not None and base.apart)
        found = walked(replays, start, points)
        self.resume_points = found.points
        return found

    def steps_of(self, *, wide: bool) -> list[JudgedStep]:
        """The steps of the log in one reading."""
        return self.replay_log(wide=wide).walk(self.origin(wide=wide))

    def walk(self, end: int | None = None) -> list[JudgedStep]:
        """Steps the log from the checkpoint in the order taken, up to before `end` or to its end."""
        wide = self.swapped
        return self.replay_log(wide=wide).walk(self.origin(wide=wide), end)

    def absorb(self, other: Judgement) -> list[VerdictChange]:
        """Takes over the calls of another judgement under the same spec, none of them folded."""
        assert other.base is None
        for index in range(len(other.log)):
            self.log.take(other.log, index)
        self.log.settle_all()
        # Both are one session, which was counted under one of its names.
        self.counted = self.counted or other.counted
        self.suspected += other.suspected
        self.final_excess += other.final_excess
        self.doubts += other.doubts
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
        twin = type(self)(judge, self.part, sight)
        twin.hold_back()
        twin.counted, twin.late, twin.ending = self.counted, self.late, self.ending
        twin.suspected, twin.session_verdicts = self.suspected, self.session_verdicts
        twin.final_excess = self.final_excess
        for place in range(len(self.log)):
            if self.log.span_id(place) in tokens:
                twin.log.take(self.log, place)
        twin.log.settle_all()
        for place in range(len(twin.log)):
            twin.log.set_token(place, tokens[twin.log.span_id(place)])
            twin.doubts += judge.is_doubted(twin.log.token(place))
        return twin, twin.catch_up()


def position_before(judgement: Judgement, token: int) -> Position:
    """The position by which the next call is judged."""
    head = judgement.head
    return head.position if head.ways is None else head.judged_at(judgement.judge, token)


def is_young(judgement: Judgement) -> bool:
    """True if all that is not known is whether the session began before the first call."""
    base = judgement.base
    return (
        judgement.sight.causes == (Cause.STARTED,)
        and not judgement.doubts
        and (base is None or not base.doubted)
    )
