"""One session under one spec: a log of recent calls behind one checkpoint.

The head holds everything that is asked per call in O(1). A call that arrives in order steps the
head; one that belongs earlier goes to its place and the log is stepped again from the checkpoint.
Old calls are folded into the checkpoint, so a session's memory does not grow with its length.
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from monitor.automaton.position import Outcome, Position
from monitor.records import ToolCall
from monitor.scores.running import PathRows
from monitor.session.compensation import Compensations
from monitor.session.episodes import EPISODES_MAX, Episode, EpisodesTally
from monitor.session.judge import (
    CONTROL_TOKEN,
    HARMFUL,
    PROGRESS,
    SELF_LOOP,
    Judge,
    count_code,
)
from monitor.session.log import Log
from monitor.session.run import Run
from monitor.session.scoring import episode
from monitor.session.siblings import SIBLINGS_MAX
from monitor.totals import NO_SHARE, Pair

__all__ = [
    "CONDENSED_MAX",
    "FOLD_AFTER",
    "LOG_MAX",
    "Change",
    "Checkpoint",
    "Judgement",
    "Step",
]

FOLD_AFTER = 64
"""So many steps stay unfolded, whatever their age: they are what the API shows."""

FOLD_LUMP = 16
"""Folding in lumps: one deletion from the front of the log a lump, not one a call."""

LOG_MAX = 1_024
"""So many steps stay unfolded at most, whatever their age, so that a burst stays bounded."""

CONDENSED_MAX = 512
"""PC+HLR needs the condensed path; beyond this many steps it is given up, all else stays exact."""

_CODE = 0x0F
_RAISED = 0x40
_FINAL = 0x80


class Change(NamedTuple):
    """A call whose verdict was given (`old` is None) or revised. Codes as in `judge.CODES`."""

    place: int
    old: int | None
    new: int
    raised: bool
    """True when the call is harmful for the first time."""
    final: bool
    """True when the old verdict had been counted as final."""
    before: Position
    after: Position


class Step(NamedTuple):
    """One call of the log, as judged."""

    place: int
    code: int
    before: Position
    after: Position


def _step(run: Run, judge: Judge, place: int, token: int, steps: list[Step]) -> None:
    before = run.position
    code = run.step(judge, token)
    steps.append(Step(place, code, before, run.position))


class Checkpoint:
    """All that remains of the folded steps."""

    __slots__ = (
        "at",
        "compensations",
        "condensed",
        "count",
        "episodes",
        "rows",
        "run",
        "tally",
    )

    def __init__(self, run: Run, judge: Judge) -> None:
        self.run = run
        self.rows = PathRows(judge.goldens) if judge.goldens else None
        undo = judge.spec.undo
        self.compensations = Compensations(undo) if undo else None
        self.condensed: array[int] | None = array("H")
        """Tokens of the folded substantive steps; None beyond CONDENSED_MAX."""
        self.count = 0
        self.at = 0
        self.tally = judge.tally() if judge.once is not None else None
        """Of the folded steps, where they may be of several episodes."""
        self.episodes: tuple[Episode, ...] = ()
        """The folded episodes that are over, the latest of them."""

    def take(self, judge: Judge, token: int, step: Step, at: int) -> None:
        """Takes over a step that `run` has just made."""
        self.count += 1
        self.at = max(self.at, at)
        code = step.code
        if isinstance(self.tally, EpisodesTally):
            if judge.opens(step.before, token):
                self._start_episode(judge, self.tally)
            count_code(self.tally, code)
        if self.compensations is not None:
            self.compensations.take(self.count, token, code)
        if code != PROGRESS and code < HARMFUL:
            return
        if self.rows is not None:
            self.rows.add(judge.score_tokens[token])
        if self.condensed is not None:
            self.condensed.append(token)
            if len(self.condensed) > CONDENSED_MAX:
                self.condensed = None

    def _start_episode(self, judge: Judge, tally: EpisodesTally) -> None:
        done = episode(judge, tally.current, self.rows, self.condensed, exact=self.run.exact)
        self.episodes = (*self.episodes, done)[-EPISODES_MAX:]
        tally.start_episode()
        self.rows = PathRows(judge.goldens) if judge.goldens else None
        self.condensed = array("H")
        if self.compensations is not None:
            self.compensations.start_episode()


class Judgement:
    """The calls of one session (of one agent, or turn, where the spec's scope says so)."""

    __slots__ = (
        "_joined",
        "_rival",
        "_swapped",
        "base",
        "blind_ns",
        "counted",
        "doubtful",
        "finished",
        "head",
        "judge",
        "late",
        "log",
        "pair",
        "part",
        "sampled",
        "share",
        "told",
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
        self.blind_ns = blind_ns
        self.doubtful = doubtful and judge.watch is not None
        """Of a comparison with a reference: calls before the first one seen may be missing."""
        self.judge = judge
        self.part = part
        self.log = Log()
        self.base: Checkpoint | None = None
        self._joined = joined
        self.head = self._fresh(joined=joined)
        self._rival = (
            self._fresh(joined=True)
            if doubtful and not joined and judge.watch is None
            else None
        )
        """The other reading of a doubtful session; `head` is the one with fewer harms."""
        self._swapped = False
        """True while the head reads the session as joined in the middle, and may be wrong."""
        self.late = 0
        self.finished = False
        """True once the metrics have its final scores: a session that goes on gives no others."""
        self.counted = False
        """True once the metrics have counted it as a session."""
        self.pair: Pair | None = None
        self.share = NO_SHARE
        self.sampled = False
        """True where its calls are compared with those of others when it ends."""
        self.told = 0
        """What was told and counted of its comparison with a reference (`monitor.alarms`)."""

    def _fresh(self, *, joined: bool) -> Run:
        stepper = self.judge.stepper
        position: Position = self.judge.anywhere if joined else stepper.start()
        tally = self.judge.tally()
        watch = self.judge.watch
        watched = watch.start() if watch is not None else None
        return Run(position, tally, exact=not joined, watched=watched)

    @property
    def joined(self) -> bool:
        """True where the session's first calls were not seen, as far as is known by now."""
        return self._joined or self._swapped

    @property
    def calls(self) -> int:
        return self.head.tally.calls

    @property
    def folded(self) -> int:
        return self.base.count if self.base else 0

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
        if rival is not None:
            rival.step(judge, token)
        self.log.mark_last(code if code < HARMFUL else code | _RAISED)
        return code

    def _contested(self, token: int) -> bool:
        """True where the call would be harmful, so that the session may have been joined."""
        if token == CONTROL_TOKEN or self.judge.watch is not None:
            return False
        _, outcome = self.judge.stepper.step(self.head.position, token)
        return outcome is Outcome.HARMFUL

    def insert(self, call: ToolCall, tool: int, token: int, at: int, now: int) -> list[Change]:
        """Judges a call wherever it belongs: its own verdict first, then revisions of others."""
        if self.base is not None and at < self.base.at:
            self.late += 1
            at = 1 + (self.log.at(len(self.log) - 1) if len(self.log) else self.base.at)
        at = self._behind_parent(call, at)
        place = self.log.insert(call, tool, token, at, now)
        if self._lead_children(call):
            place = self.log.find(call.span_id) or 0
        return self._replay(place)

    def _behind_parent(self, call: ToolCall, at: int) -> int:
        """A call stands behind the call it is a part of, whatever their hosts' clocks say."""
        begun = self.log.begun(call.trace_id, call.parent_span_id)
        if begun is None or begun < at:
            return at
        self.judge.skewed += 1
        return begun + 1

    def _lead_children(self, call: ToolCall) -> bool:
        """Calls that are parts of this one, and stand before it, go behind it."""
        log = self.log
        if not log.may_have_children(call.span_id):
            return False
        begun = log.begun(call.trace_id, call.span_id)
        moved = log.move_children(call.trace_id, call.span_id, begun) if begun else 0
        self.judge.skewed += moved
        return moved > 0

    def amend(self, place: int, call: ToolCall, tool: int, token: int, at: int) -> list[Change]:
        """The step at `place` is read anew, from a fuller span of the same call."""
        log = self.log
        receipt, mark = log.receipt(place), log.mark(place)
        log.remove(place)
        if self.base is not None:
            at = max(at, self.base.at)
        at = self._behind_parent(call, at)
        log.set_mark(log.insert(call, tool, token, at, receipt), mark)
        self._lead_children(call)
        return self._replay(None)

    def retract(self, place: int) -> list[Change]:
        """The step at `place` was no call: what follows is judged without it."""
        self.log.remove(place)
        return self._replay(None)

    def join(self, blind_ns: int) -> list[Change]:
        """It is learnt that the session began before it was seen: its object is revised.

        Calls that began before `blind_ns` may have been followed by others that are missing.
        """
        if self._joined and blind_ns <= self.blind_ns:
            return []
        self.blind_ns = max(blind_ns, self.blind_ns)
        self._decide(joined=True)
        return self._replay(None)

    def _decide(self, *, joined: bool) -> None:
        """No more doubt about where the session began."""
        self._joined, self._swapped, self._rival = joined, False, None
        if joined and self.base is not None:
            self.base.run.exact = False

    def _origin(self) -> Run:
        """The run before the first step of the log."""
        return self.base.run.copy() if self.base else self._fresh(joined=self.joined)

    def _replay(self, added: int | None) -> list[Change]:
        """Steps the log again from the checkpoint; what differs is reported, `added` first."""
        if self._rival is None:
            self.head = self._origin()
            return self._compare(self._walk(self.head), added)
        plain, wide = self._fresh(joined=False), self._fresh(joined=True)
        as_plain, as_wide = self._walk(plain), self._walk(wide)
        self._swapped = plain.tally.harmful_steps > wide.tally.harmful_steps
        self.head, self._rival = (wide, plain) if self._swapped else (plain, wide)
        return self._compare(as_wide if self._swapped else as_plain, added)

    def walk(self) -> list[Step]:
        """Steps the log from the checkpoint, in the order taken."""
        return self._walk(self._origin())

    def _walk(self, run: Run) -> list[Step]:
        steps: list[Step] = []
        for first, end in self.log.groups():
            self._walk_group(run, first, end, steps)
        return steps

    def _walk_group(self, run: Run, first: int, end: int, steps: list[Step]) -> None:
        """Steps one group; where calls may be missing after it, it may have led anywhere."""
        self._step_group(run, first, end, steps)
        if self._joined and self.log.at(first) < self.blind_ns:
            run.position = self.judge.anywhere

    def _step_group(self, run: Run, first: int, end: int, steps: list[Step]) -> None:
        """Steps one group; of overlapping siblings in the order that `siblings` chooses."""
        judge, token_of = self.judge, self.log.token
        if end - first == 1 or end - first > SIBLINGS_MAX or judge.watch is not None:
            for place in range(first, end):
                _step(run, judge, place, token_of(place), steps)
            return
        judged = [place for place in range(first, end) if token_of(place) != CONTROL_TOKEN]
        times = self.log.times(first, end)
        chosen = judge.order(
            run.position,
            tuple(token_of(place) for place in judged),
            tuple(times[place - first] for place in judged),
        )
        for place in range(first, end):
            if token_of(place) == CONTROL_TOKEN:
                _step(run, judge, place, CONTROL_TOKEN, steps)
        for number in chosen.places:
            place = judged[number]
            _step(run, judge, place, token_of(place), steps)
        run.position = chosen.end

    def _compare(self, steps: list[Step], added: int | None) -> list[Change]:
        log = self.log
        marks = log.marks()
        changes: list[Change] = []
        for place, code, before, after in steps:
            mark = marks[place]
            if place != added and mark & _CODE == code:
                continue
            raised = code >= HARMFUL and not mark & _RAISED
            log.set_mark(place, mark & ~_CODE | code | (_RAISED if raised else 0))
            old = None if place == added else mark & _CODE
            final = bool(mark & _FINAL)
            changes.append(Change(place, old, code, raised, final, before, after))
        changes.sort(key=lambda change: (change.old is not None, change.place))
        return changes

    def finalise(self, before: int, count: int | None = None) -> list[Step]:
        """Marks steps received up to `before` as final; returns the harmful ones among them.

        Under a learnt reference, which knows no harm: those that wrote what nobody has written.
        `count` bounds it to the first steps of the log.
        """
        log, harmful = self.log, False
        new = set()
        for place in range(len(log) if count is None else count):
            mark = log.mark(place)
            if not mark & _FINAL and log.receipt(place) <= before:
                log.set_mark(place, mark | _FINAL)
                new.add(place)
                harmful = harmful or mark & _CODE >= HARMFUL
        if self.judge.watch is not None:
            return self._unexpected(new)
        if not harmful:
            return []
        return [step for step in self.walk() if step.code >= HARMFUL and step.place in new]

    def _unexpected(self, places: set[int]) -> list[Step]:
        watch, position = self.judge.watch, self.head.position
        return [
            Step(place, SELF_LOOP, position, position)
            for place in sorted(places)
            if watch is not None and watch.is_unexpected(self.log.token(place))
        ]

    def absorb(self, other: Judgement) -> list[Change]:
        """Takes over the calls of another judgement under the same spec, none of them folded."""
        assert other.base is None
        for index in range(len(other.log)):
            self.log.take(other.log, index)
        if other._joined:
            self._decide(joined=True)
        return self._replay(None)

    def open_receipt(self) -> int | None:
        """Earliest receipt of a step that is not final yet."""
        log = self.log
        waiting = (log.receipt(i) for i, mark in enumerate(log.marks()) if not mark & _FINAL)
        return min(waiting, default=None)

    def is_final(self, index: int) -> bool:
        return bool(self.log.mark(index) & _FINAL)

    def fold(self, before: int) -> None:
        """Folds steps that are far enough back and were received up to `before`."""
        log = self.log
        if len(log) < FOLD_AFTER + FOLD_LUMP:
            return
        count = 0
        while count < len(log) - FOLD_AFTER and log.receipt(count) <= before:
            count += 1
        whole = max((end for _, end in log.groups() if end <= count), default=0)
        if whole >= FOLD_LUMP:
            self.fold_first(whole)

    @property
    def crowded(self) -> bool:
        """True when a burst has filled the log: its first FOLD_LUMP steps must be folded."""
        return len(self.log) >= LOG_MAX + FOLD_LUMP

    def fold_first(self, count: int) -> None:
        """Moves the first `count` steps into the checkpoint."""
        if self.base is None:
            self.base = Checkpoint(self._origin(), self.judge)
        # After sixty-four calls a doubt is not worth carrying.
        self._decide(joined=self.joined)
        steps: list[Step] = []
        for first, end in self.log.groups():
            if first < count:
                self._walk_group(self.base.run, first, min(end, count), steps)
        for step in steps:
            place = step.place
            self.base.take(self.judge, self.log.token(place), step, self.log.at(place))
        self.log.forget(count)
