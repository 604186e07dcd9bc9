"""One session under one spec: a log of recent calls behind one checkpoint.

Idea: the head (a `Run`) holds what is needed for each call in O(1). A call that arrives in order
steps the head. A call that belongs earlier goes to its place in the log, and the log is stepped
again from the last place at which the runs were kept (a stop, or the checkpoint). Old calls are
folded into the checkpoint, so the memory of a session does not grow with its length.

Invariants:

- The head is the run after all steps of the log, and each step's mark is the verdict that stepping
  gives. So any order of arrival ends in the same verdicts.
- A verdict is reported when a mark changes, and only then (`Change`): first the verdict of the new
  call, then the revisions.
- The checkpoint is the run after the folded steps. Folded steps do not change any more; a call that
  belongs among them is `late`, and goes to the front of the log.
- A doubtful session is read in two ways: from the start (plain) and from anywhere (joined). The
  head is the reading with fewer harms, `_rival` is the other.

Example: `unlock move` arrive without `scan`, then `open`: harmful. `scan`, which started before
`open`, arrives one second later. It is inserted before `open` and the log is stepped again: `scan`
gets its first verdict (progress), and the verdict of `open` is revised from harmful to progress.

Source: docs/decisions/0003-log-behind-a-checkpoint.md.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from mypy_extensions import mypyc_attr

from monitor.aggregate.histogram import Exemplar
from monitor.aggregate.totals import CLEAN_SHARE, NO_SHARE, Pair, Share, fixed
from monitor.automaton.position import Position
from monitor.records import ToolCall, built
from monitor.scores.running import PathRows
from monitor.session.compensation import Compensations
from monitor.session.episodes import EPISODES_MAX, Episode, EpisodesTally, without_scores
from monitor.session.judge import (
    ALWAYS,
    CONTROL_TOKEN,
    HARMFUL,
    PROGRESS,
    SELF_LOOP,
    Judge,
    count_code,
    is_substantive,
)
from monitor.session.log.log import Brief, Log, mark_of
from monitor.session.outlook import Outlook
from monitor.session.run import Run
from monitor.session.scoring import episode
from monitor.session.stops import STOP_EVERY, Stops
from monitor.session.timing import Taken, Timing

__all__ = [
    "CONDENSED_MAX",
    "FOLD_AFTER",
    "LOG_MAX",
    "Change",
    "Checkpoint",
    "Judgement",
    "Path",
    "Scored",
    "Step",
]

FOLD_AFTER: Final = 64
"""So many steps stay unfolded, whatever their age: they are what the API shows."""

FOLD_LUMP: Final = 16
"""Folding in lumps: one deletion from the front of the log a lump, not one a call."""

LOG_MAX: Final = 1_024
"""So many steps stay unfolded at most, whatever their age, so that a burst stays bounded."""

CONDENSED_MAX: Final = 512
"""PC+HLR needs the condensed path; beyond this many steps it is given up, all else stays exact."""

_CODE: Final = 0x0F
_UNJUDGED: Final = _CODE
_RAISED: Final = 0x40
_FINAL: Final = 0x80


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


class Finality(NamedTuple):
    """What has become final, and what has not."""

    reported: list[Step]
    """The harmful steps that are final now; under a learnt reference, which knows no harm, those that wrote
    what nobody has written."""
    open: int | None
    """The earliest receipt of a step that is not final yet, among those that were looked at."""


class _Stretch(NamedTuple):
    """A part of the log that is stepped in one go."""

    first: int
    end: int
    together: bool
    """True for a group of overlapping siblings."""
    steps: list[Brief]
    """Those of the log, from the first one on that is stepped."""
    start: int
    """Where `steps` begin."""


def _singles(
    found: list[_Stretch], first: int, end: int, steps: list[Brief], start: int
) -> None:
    """Adds steps that overlap no sibling, in stretches no longer than from stop to stop."""
    while first < end:
        behind = min(first + STOP_EVERY, end)
        found.append(built(_Stretch, (first, behind, False, steps, start)))
        first = behind


def _news_first(change: Change) -> tuple[bool, int]:
    return change.old is not None, change.place


def _step(run: Run, judge: Judge, place: int, token: int, steps: list[Step]) -> None:
    before = run.position if run.ways is None else run.judged_at(judge, token)
    code = run.step(judge, token)
    steps.append(built(Step, (place, code, before, run.position)))


class Scored:
    """What scores hang on of folded steps, as one way took them."""

    __slots__ = ("compensations", "condensed", "episodes", "exact", "rows", "tally")

    def __init__(self, judge: Judge, *, exact: bool) -> None:
        self.exact = exact
        """False once a call could not be read for certain, or from the beginning."""
        self.rows = PathRows(judge.goldens) if judge.goldens else None
        undo = judge.spec.undo
        self.compensations = Compensations(undo) if undo else None
        self.condensed: array[int] | None = array("H")
        """Tokens of the folded substantive steps; None beyond CONDENSED_MAX."""
        self.tally = judge.tally() if judge.once is not None else None
        """Of the folded steps, where they may be of several episodes."""
        self.episodes: tuple[Episode, ...] = ()
        """The folded episodes that are over, the latest of them."""

    def start_from(self, other: Scored) -> None:
        """Becomes a copy of another."""
        self.exact = other.exact
        self.rows = other.rows.copy() if other.rows is not None else None
        compensations = other.compensations
        self.compensations = compensations.copy() if compensations is not None else None
        self.condensed = other.condensed[:] if other.condensed is not None else None
        self.tally = other.tally.copy() if other.tally is not None else None
        self.episodes = other.episodes

    def take(self, judge: Judge, token: int, step: Step, number: int) -> None:
        """Takes over a step, by its number from 1."""
        code = step.code
        if isinstance(self.tally, EpisodesTally):
            if judge.opens(step.before, token):
                self._start_episode(judge, self.tally)
            count_code(self.tally, code)
        self.exact = self.exact and judge.is_certain(token)
        if self.compensations is not None:
            self.compensations.take(number, token, code)
        if not is_substantive(code):
            return
        if self.rows is not None:
            self.rows.add(judge.score_tokens[token])
        if self.condensed is not None:
            self.condensed.append(token)
            if len(self.condensed) > CONDENSED_MAX:
                self.condensed = None

    def _start_episode(self, judge: Judge, tally: EpisodesTally) -> None:
        rows = self.rows
        done = episode(judge, tally.current, lambda: rows, self.condensed, exact=self.exact)
        self.episodes = (*self.episodes, done)[-EPISODES_MAX:]
        tally.start_episode()
        self.rows = PathRows(judge.goldens) if judge.goldens else None
        self.condensed = array("H")
        if self.compensations is not None:
            self.compensations.start_episode()

    def give_up(self) -> None:
        """The first calls were not seen, as is known by now: nothing of it is exact."""
        self.exact = False
        self.episodes = tuple(without_scores(each) for each in self.episodes)


class Checkpoint(Scored):
    """All that remains of the folded steps; itself of the first of the ways there are."""

    __slots__ = ("at", "count", "last", "others", "run", "started", "timing")

    def __init__(self, run: Run, judge: Judge) -> None:
        super().__init__(judge, exact=run.exact)
        self.run = run
        self.others: list[Scored] = []
        """Of the other ways."""
        self.timing = Timing(judge) if judge.bounds is not None else None
        self.count = 0
        self.at = 0
        self.started = 0
        self.last = 0
        """When the first folded call started, and when the last one ended."""

    def of(self, number: int) -> Scored:
        """What is folded of a way."""
        return self.others[number - 1] if number else self

    def part(self, ways: list[Scored]) -> None:
        """There are other ways than before, at least one."""
        self.start_from(ways[0])
        self.others = ways[1:]


class Path(NamedTuple):
    """The way taken: where it is before the log, what is folded of it, and its steps in the log."""

    run: Run
    folded: Scored | None
    steps: list[Step]


@mypyc_attr(acyclic=True)
class Judgement:
    """The calls of one session (of one agent, or turn, where the spec's scope says so).

    It and its pair may refer to each other while it is live: `Table` sees to that.
    """

    __slots__ = (
        "_joined",
        "_rival",
        "_stops",
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
        "outlook",
        "pair",
        "part",
        "sampled",
        "share",
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
        self.doubtful = doubtful and judge.watch is not None
        """Of a comparison with a reference: calls before the first one seen may be missing."""
        self._joined = joined
        self._young = doubtful
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
            if doubtful and not joined and judge.watch is None
            else None
        )
        """The other reading of a doubtful session; `head` is the one with fewer harms."""
        self._stops: Stops | None = None
        self.late = 0
        self.ending = 0
        """By which number the metrics hold its scores since it last ended; 0 if it never has.

        Final counters take the scores of the first ending only.
        """
        self.outlook: Outlook | None = None
        """Verdicts on the session, where the spec has limits and something was due."""
        self.pair: Pair | None = None
        self.share = NO_SHARE
        """What it adds to the live sums of its pair."""
        self.behind = 0
        """Its calls behind the live means."""
        self.declared = 0
        """What was told and counted of its comparison with a reference (`monitor.judging.reference_alarms`)."""

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
        if rival is not None:
            rival.step(judge, token)
        if code != PROGRESS:
            self.log.mark_last(code if code < HARMFUL else code | _RAISED)
        return code

    def _contested(self, token: int) -> bool:
        """True where the call would be harmful, so that the session may have been joined."""
        if token == CONTROL_TOKEN or self.judge.watch is not None:
            return False
        return self.head.is_harmed(self.judge, token)

    def insert(self, call: ToolCall, tool: int, token: int, at: int, now: int) -> list[Change]:
        """Judges a call wherever it belongs: its own verdict first, then revisions of others."""
        if self.base is not None and at < self.base.at:
            self.late += 1
            at = 1 + (self.log.at(len(self.log) - 1) if len(self.log) else self.base.at)
        placed = self.log.insert(call, tool, token, at, now)
        self.log.set_mark(placed.place, _UNJUDGED)
        self.judge.skewed += placed.moved
        return self._replay(placed.first)

    def amend(self, place: int, call: ToolCall, tool: int, token: int, at: int) -> list[Change]:
        """The step at `place` is read anew, from a fuller span of the same call."""
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
        if self.judge.watch is not None:
            self.doubtful = doubtful or self._young
            return []
        known = self._young or self._joined or self.base is not None
        if known or doubtful == (self._rival is not None):
            return []
        self._stops, self._swapped = None, False
        self._rival = self._fresh(joined=True) if doubtful else None
        return self._replay(0)

    def _decide(self, *, joined: bool) -> None:
        """No more doubt about where the session began."""
        self._stops = None
        self._joined, self._swapped, self._rival = joined, False, None
        if joined and self.base is not None:
            self.base.run.exact = False
            for scored in (self.base, *self.base.others):
                scored.give_up()

    def _origin(self) -> Run:
        """The run before the first step of the log."""
        return self.base.run.copy() if self.base else self._fresh(joined=self.joined)

    # --- stepping the log again ------------------------------------------------------------------

    def _replay(self, changed: int) -> list[Change]:
        """Steps the log again from the step at `changed` on; what differs is reported.

        A step that was not judged yet gets its first verdict, which comes before all others.
        """
        runs, stretches = self._rewind(changed)
        news = self._walk(runs, stretches)
        if len(runs) == 1:
            (self.head,) = runs
            return self._compare(news[0])
        plain, wide = runs
        swapped = plain.tally.harmful_steps > wide.tally.harmful_steps
        self.head, self._rival = (wide, plain) if swapped else (plain, wide)
        if swapped == self._swapped:
            return self._compare(news[swapped])
        # It is read the other way from now on, and from its first step.
        self._swapped = swapped
        return self._compare(self.walk())

    def _rewind(self, changed: int) -> tuple[tuple[Run, ...], list[_Stretch]]:
        """The runs as they were at a place up to `changed`, one a reading; what is behind it."""
        while self._stops is not None and (stop := self._stops.before(changed)) is not None:
            stretches = self._stretches(stop.place, running=stop.running)
            if not stretches or stretches[0].first >= stop.place:
                return tuple(run.copy() for run in stop.runs), stretches
            # A group is under way there by now.
            changed = stop.place
        stretches = self._stretches(0)
        if self._rival is None:
            return (self._origin(),), stretches
        return (self._fresh(joined=False), self._fresh(joined=True)), stretches

    def _walk(self, runs: Sequence[Run], stretches: list[_Stretch]) -> list[list[Step]]:
        """Steps a part of the log under each reading, with stops on the way: what is judged anew."""
        news: list[list[Step]] = [[] for _ in runs]
        last = len(stretches) - 1
        for number, stretch in enumerate(stretches):
            if stretch.first >= STOP_EVERY:
                self._stop(stretch.first, runs)
            if number == last and stretch.together and stretch.first:
                self._stop_at_last_group(stretch.first, runs)
            for reading, run in enumerate(runs):
                self._step(run, stretch, news[reading], news=True)
        return news

    def _stop(self, place: int, runs: Sequence[Run]) -> None:
        if self._stops is None:
            self._stops = Stops()
        if self._stops.due(place):
            self._stops.add(self.log, place, runs)

    def _stop_at_last_group(self, place: int, runs: Sequence[Run]) -> None:
        if self._stops is None:
            self._stops = Stops()
        self._stops.add_last_group(self.log, place, runs)

    def grouped(self) -> Iterator[tuple[list[Taken], Position]]:
        """The calls of the log as they are judged together, and where each group may have led.

        While it is not known where the session began it is read from everywhere it may have.
        """
        doubtful = self._rival is not None
        origin = self._fresh(joined=True) if doubtful else self._origin()
        for steps, position in self._grouped(origin):
            yield self._taken(steps), position

    @property
    def possible(self) -> Position:
        """Everywhere the session may be, also while it is not known where it began."""
        rival = self._rival
        return self.head.position if rival is None or self._swapped else rival.position

    def _grouped(
        self, run: Run, end: int | None = None
    ) -> Iterator[tuple[list[Step], Position]]:
        for stretch in self._stretches(0, end):
            first, behind, together = stretch.first, stretch.end, stretch.together
            places = [first] if together else range(first, behind)
            for place in places:
                steps: list[Step] = []
                until = behind if together else place + 1
                self._step(run, stretch._replace(first=place, end=until), steps)
                yield steps, run.position

    def _taken(self, steps: list[Step]) -> list[Taken]:
        log, folded = self.log, self.folded
        return [
            Taken(
                each.code,
                log.token(each.place),
                folded + each.place + 1,
                log.row(each.place),
                each.before,
            )
            for each in steps
        ]

    def walk(self, end: int | None = None) -> list[Step]:
        """Steps the log from the checkpoint, in the order taken, all of it or up to a place."""
        return self._walked(self._origin(), end)

    def path(self) -> Path:
        """The path that scores are of: that of one of the best orders of all calls.

        Where several orders do as well it is the one nearest to the starts. Verdicts were given call
        by call, so a step may be another here, where later calls showed which order it was.
        """
        base = self.base
        if not self._has_paths():
            return Path(self._origin(), base, self.walk())
        run = self._origin()
        roots = list(run.trace())
        for stretch in self._stretches(0):
            self._step(run, stretch, [])
        number, places = _traced(run.taken, roots)
        root = self._root(number)
        return Path(root, base.of(number) if base else None, self._retrace(root.copy(), places))

    def _has_paths(self) -> bool:
        """True where scores hang on how overlapping calls went."""
        base = self.base
        if not self.judge.scored or self.joined or self.judge.watch is not None:
            return False
        return (base is not None and base.run.ways is not None) or (
            self.log.grouped and bool(self.log.groups())
        )

    def _root(self, number: int) -> Run:
        """One of the ways before the log, by itself."""
        origin = self._origin()
        return origin.ways[number] if origin.ways is not None else origin

    def _retrace(
        self, run: Run, places: Mapping[int, tuple[int, ...]], end: int | None = None
    ) -> list[Step]:
        """Steps the log along one way: by group, its places in the order that the way took."""
        judge, token_of = self.judge, self.log.token
        steps: list[Step] = []
        for stretch in self._stretches(0, end):
            if not stretch.together:
                self._step(run, stretch, steps)
                continue
            group = range(stretch.first, stretch.end)
            for place in group:
                if token_of(place) == CONTROL_TOKEN:
                    _step(run, judge, place, CONTROL_TOKEN, steps)
            judged = [place for place in group if token_of(place) != CONTROL_TOKEN]
            for number in places[stretch.first]:
                _step(run, judge, judged[number], token_of(judged[number]), steps)
        return steps

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
            token for _, _, meta, token in rows if is_substantive(mark_of(meta) & _CODE)
        ]

    def _walked(self, run: Run, end: int | None = None) -> list[Step]:
        steps: list[Step] = []
        for stretch in self._stretches(0, end):
            self._step(run, stretch, steps)
        return steps

    def _stretches(
        self,
        start: int,
        end: int | None = None,
        *,
        running: Mapping[bytes, int] | None = None,
    ) -> list[_Stretch]:
        """The log from one place to another, or to its end; `running` as in `Log.groups`."""
        log = self.log
        steps = log.unpacked(start, len(log) if end is None else end)
        groups: list[tuple[int, int]] = []
        if end is None:
            groups = log.groups(start, steps, running=running)
        elif log.grouped:
            groups = log.groups(start, end=end)
        end, place = start + len(steps), start
        found: list[_Stretch] = []
        for first, behind in groups:
            _singles(found, place, first, steps, start)
            place = min(behind, end)
            found.append(_Stretch(first, place, True, steps, start))
        _singles(found, place, end, steps, start)
        return found

    def _step(
        self, run: Run, stretch: _Stretch, steps: list[Step], *, news: bool = False
    ) -> None:
        """Steps one stretch; with `news` gives only what is judged otherwise than its mark says.

        Where calls may be missing after a step, or after a group, it may have led anywhere.
        """
        judge, log = self.judge, self.log
        blind = self.blind_ns if self._joined else 0
        first, end, together, rows, start = stretch
        if together:
            found = self._step_group(run, first, end, news=news)
            steps += (s for s in found if not news or s.code != log.mark(s.place) & _CODE)
            if log.at(first) < blind:
                run.scatter(judge.anywhere)
            return
        for place in range(first, end):
            at, _, meta, token = rows[place - start]
            before = run.position if run.ways is None else run.judged_at(judge, token)
            code = run.step(judge, token)
            if not news or code != mark_of(meta) & _CODE:
                steps.append(built(Step, (place, code, before, run.position)))
            if at < blind:
                run.scatter(judge.anywhere)

    def _step_group(self, run: Run, first: int, end: int, *, news: bool) -> list[Step]:
        """Steps overlapping siblings in the order taken (`Run.plan`)."""
        judge, token_of = self.judge, self.log.token
        steps: list[Step] = []
        if judge.watch is not None:
            for place in range(first, end):
                _step(run, judge, place, token_of(place), steps)
            return steps
        judged = [place for place in range(first, end) if token_of(place) != CONTROL_TOKEN]
        times = self.log.group_times(first, end)
        plan = run.plan(
            judge,
            first,
            tuple(token_of(place) for place in judged),
            tuple(times[place - first] for place in judged),
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

    def _compare(self, steps: list[Step]) -> list[Change]:
        """Marks steps with what they are now; what is new or another than before."""
        log = self.log
        changes: list[Change] = []
        for place, code, before, after in steps:
            mark = log.mark(place)
            if mark & _CODE == code:
                continue
            raised = code >= HARMFUL and not mark & _RAISED
            log.set_mark(place, mark & ~_CODE | code | (_RAISED if raised else 0))
            old = None if mark & _CODE == _UNJUDGED else mark & _CODE
            final = bool(mark & _FINAL)
            change: Change = built(Change, (place, old, code, raised, final, before, after))
            changes.append(change)
        if len(changes) > 1:
            changes.sort(key=_news_first)
        return changes

    # --- what time brings -------------------------------------------------------------------------

    def finalise(self, before: int, count: int | None = None, *, overdue: int = 0) -> Finality:
        """Marks steps received up to `before` as final.

        A call that overlaps siblings is final when all of its group are: each may change what the
        others were. Only what does not hang on an order is final by itself.

        Args:
            before: Unix nanoseconds.
            count: bounds it to the first steps of the log, whatever their group.
            overdue: steps received up to this moment do not wait for the others of their group.
        """
        new, open_ = self.log.received(before, _FINAL, count)
        waits = self.log.grouped and count is None and self.judge.watch is None
        if new and open_ is not None and waits:
            new = self._closed(new, before, overdue)
        return Finality(self._mark_final(new) if new else [], open_)

    def _closed(self, new: list[int], before: int, overdue: int) -> list[int]:
        """Those of some steps that wait for no other of their group."""
        log = self.log
        held: set[int] = set()
        for first, end in log.groups(end=new[-1] + 1):
            group = range(first, end)
            if any(log.receipt(place) > before for place in group):
                held.update(place for place in group if log.receipt(place) > overdue)
        return [
            place for place in new if place not in held or log.mark(place) & _CODE in ALWAYS
        ]

    def _mark_final(self, new: list[int]) -> list[Step]:
        log, harmful = self.log, False
        for place in new:
            mark = log.mark(place)
            log.set_mark(place, mark | _FINAL)
            harmful = harmful or mark & _CODE >= HARMFUL
        if self.judge.watch is not None:
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
        watch, position = self.judge.watch, self.head.position
        return [
            Step(place, SELF_LOOP, position, position)
            for place in places
            if watch is not None and watch.is_unexpected(self.log.token(place))
        ]

    def absorb(self, other: Judgement) -> list[Change]:
        """Takes over the calls of another judgement under the same spec, none of them folded."""
        assert other.base is None
        for index in range(len(other.log)):
            self.log.take(other.log, index)
        self.log.settle_all()
        # It is one session, and was counted by either name.
        self.counted = self.counted or other.counted
        if other._joined:
            self._decide(joined=True)
        return self._replay(0)

    def exemplar(self, place: int) -> Exemplar:
        """A step of the log as what stands for a count."""
        return self.log.origin(place)

    def is_final(self, index: int) -> bool:
        return bool(self.log.mark(index) & _FINAL)

    def fold(self, before: int) -> None:
        """Folds steps that are far enough back and were received up to `before`."""
        log = self.log
        if len(log) < FOLD_AFTER + FOLD_LUMP or log.receipt(FOLD_LUMP - 1) > before:
            return
        count = 0
        while count < len(log) - FOLD_AFTER and log.receipt(count) <= before:
            count += 1
        if log.grouped:
            for first, end in log.groups(end=count):
                if first < count < end:
                    count = first
        if count >= FOLD_LUMP:
            self.fold_first(count)

    def lump(self) -> int:
        """How many steps are folded in a burst: a few, and no group is cut that leaves the log room."""
        count = FOLD_LUMP
        for _, end in self.log.groups(end=FOLD_LUMP):
            count = max(count, end)
        return count if count <= len(self.log) // 2 else FOLD_LUMP

    @property
    def crowded(self) -> bool:
        """True when a burst has filled the log: its first FOLD_LUMP steps must be folded."""
        return len(self.log) >= LOG_MAX + FOLD_LUMP

    def fold_first(self, count: int) -> None:
        """Moves the first `count` steps into the checkpoint."""
        base = self.base
        if base is None:
            base = self.base = Checkpoint(self._origin(), self.judge)
        if self._rival is not None:
            # After sixty-four calls a doubt is not worth carrying.
            self._decide(joined=self.joined)
        started, last = self.log.span(count)
        base.started = min(base.started or started, started)
        base.last = max(base.last, last)
        ways = self._fold_ways(base, count)
        folded = self._folding(base, count)
        if ways:
            base.part(ways)
        else:
            for step in folded:
                self._take(base, step)
        base.count += count
        base.at = max(base.at, self.log.at(count - 1))
        self.log.forget(count)
        if self._stops is not None:
            self._stops.fold(count)

    def _take(self, scored: Scored, step: Step) -> None:
        scored.take(self.judge, self.log.token(step.place), step, self.folded + step.place + 1)

    def _fold_ways(self, base: Checkpoint, count: int) -> list[Scored]:
        """What becomes of each way when the first steps are folded; empty where there is one alone."""
        if not self.judge.scored or self.joined or self.judge.watch is not None:
            return []
        if base.run.ways is None and not (self.log.grouped and self.log.groups(end=count)):
            return []
        run = base.run.copy()
        roots = list(run.trace())
        for stretch in self._stretches(0, count):
            self._step(run, stretch, [])
        found: list[Scored] = []
        for way in run.ways or ():
            number, places = _traced(way, roots)
            scored = Scored(self.judge, exact=True)
            scored.start_from(base.of(number))
            for step in self._retrace(self._root(number), places, count):
                self._take(scored, step)
            found.append(scored)
        return found

    def _folding(self, base: Checkpoint, count: int) -> list[Step]:
        """Steps the checkpoint's run, and its clocks where there are any, over what is folded."""
        timing = base.timing
        if timing is None:
            return self._walked(base.run, count)
        folded: list[Step] = []
        for steps, position in self._grouped(base.run, count):
            timing.take(self._taken(steps), position)
            folded += steps
        timing.forget()
        return folded


def _traced(way: Run, roots: Sequence[Run]) -> tuple[int, dict[int, tuple[int, ...]]]:
    """Which of the roots a way has come from, and its order of each group since, by first place."""
    places: dict[int, tuple[int, ...]] = {}
    while way.lineage is not None:
        places[way.lineage.first] = way.lineage.places
        way = way.lineage.before
    return next(number for number, root in enumerate(roots) if root is way), places
