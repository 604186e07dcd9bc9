"""The checkpoint of a judgement: the run after its folded steps, and the numbers that scores need of them."""

from __future__ import annotations

from array import array
from typing import Final

from monitor.scores.running_scores import PathRows
from monitor.scores.score_records import Episode, without_scores
from monitor.session.judge.compensation import Compensations
from monitor.session.judge.episodes import EPISODES_MAX, EpisodesTally
from monitor.session.judge.judge import Judge, count_code, is_substantive
from monitor.session.judge.run import AutomatonRun
from monitor.session.judgement.episode_scores import episode
from monitor.session.judgement.step_marks import JudgedStep
from monitor.session.time_limits.timing import SessionTiming
from monitor.visibility.sight import Sight

__all__ = ["CONDENSED_MAX", "Checkpoint", "FoldedScores"]

CONDENSED_MAX: Final = 512
"""PC+HLR needs the condensed path. Beyond this many steps it is undefined; all else stays exact."""


class FoldedScores:
    """The numbers that scores need of the folded steps, along one way."""

    __slots__ = ("compensations", "condensed", "episodes", "exact", "rows", "tally", "trail")

    def __init__(self, judge: Judge, *, exact: bool) -> None:
        self.exact = exact
        """False if a call had several readings, or first calls are missing."""
        self.rows = PathRows(judge.goldens) if judge.goldens else None
        undo = judge.spec.undo
        self.compensations = Compensations(undo) if undo else None
        self.condensed: array[int] | None = array("H")
        """Tokens of the folded substantive steps; None beyond CONDENSED_MAX."""
        self.tally = judge.tally() if judge.once is not None else None
        """The tally of the folded steps, if the spec allows several episodes."""
        self.episodes: tuple[Episode, ...] = ()
        """The latest finished episodes that are folded whole."""
        self.trail: AutomatonRun | None = None
        """The run along this way alone, if it differs from the way of the checkpoint's run.

        A run of several ways may go on from one uncertain position that holds the ends of all. The scores
        follow one way, so they go on from the end of that way, folded or not.
        """

    def start_from(self, other: FoldedScores) -> None:
        """Becomes a copy of another."""
        self.exact = other.exact
        self.rows = other.rows.copy() if other.rows is not None else None
        compensations = other.compensations
        self.compensations = compensations.copy() if compensations is not None else None
        self.condensed = other.condensed[:] if other.condensed is not None else None
        self.tally = other.tally.copy() if other.tally is not None else None
        self.episodes = other.episodes
        self.trail = other.trail

    def take(self, judge: Judge, token: int, step: JudgedStep, number: int) -> None:
        """Adds a folded step; `number` counts the calls of the judgement from 1."""
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
        """Drops the scores, which are not exact because first calls are missing."""
        self.exact = False
        self.episodes = tuple(without_scores(each) for each in self.episodes)


class Checkpoint(FoldedScores):
    """All that remains of the folded steps. Its own numbers are those of the first way."""

    __slots__ = (
        "apart",
        "at",
        "count",
        "doubted",
        "last",
        "others",
        "run",
        "started",
        "timing",
        "wide",
    )

    def __init__(self, run: AutomatonRun, judge: Judge) -> None:
        super().__init__(judge, exact=run.exact)
        self.run = run
        self.wide: AutomatonRun | None = None
        """The run of the wide reading, if it differs."""
        self.apart = False
        """True if the plain reading had more harms than the wide one after some folded step."""
        self.doubted = False
        """True if a folded step may not be what it seems."""
        self.others: list[FoldedScores] = []
        """The numbers of the other ways."""
        self.timing = SessionTiming(judge) if judge.bounds is not None else None
        self.count = 0
        self.at = 0
        self.started = 0
        self.last = 0
        """The first start and the last end of the folded calls, Unix nanoseconds."""

    def copy(self, judge: Judge) -> Checkpoint:
        """The same, to be changed apart from now on."""
        twin = Checkpoint(self.run.copy(), judge)
        twin.start_from(self)
        for other in self.others:
            scored = FoldedScores(judge, exact=other.exact)
            scored.start_from(other)
            twin.others.append(scored)
        twin.wide = self.wide.copy() if self.wide is not None else None
        twin.apart, twin.doubted = self.apart, self.doubted
        twin.timing = self.timing.copy() if self.timing is not None else None
        twin.count, twin.at = self.count, self.at
        twin.started, twin.last = self.started, self.last
        return twin

    def blur(self, judge: Judge, known: Sight, sight: Sight, *, doubted: bool) -> None:
        """Allows for calls that are missing, as has become known, among the folded steps.

        Args:
            judge: of the spec.
            known: where calls were known to be missing.
            sight: where they are known to be missing now.
            doubted: True if a step of the log may not be what it seems.
        """
        windows = {*known.sure, *known.maybe}
        sure, maybe = (
            any(each.since_ns < self.at and each not in windows for each in new)
            for new in (sight.sure, sight.maybe)
        )
        judged = judge.comparison is None
        if judged and (sure or maybe):
            self.wide = self.wide or self.run.copy()
            self.wide.exact = False
            self.wide.scatter(judge.anywhere)
        if sure:
            self.run.exact = False
            if judged:
                self.run.scatter(judge.anywhere)
            for scored in (self, *self.others):
                scored.give_up()
        # A folded step that may not be what it seems remains so, whatever is missing.
        if not (sight.maybe or doubted or self.doubted):
            self.wide, self.apart = None, False

    def of(self, number: int) -> FoldedScores:
        """The folded numbers of a way."""
        return self.others[number - 1] if number else self

    def root(self, number: int) -> AutomatonRun:
        """A copy of the run along one way alone."""
        trail = self.of(number).trail
        if trail is not None:
            return trail.copy()
        run = self.run.copy()
        return run.ways[number] if run.ways is not None else run

    def part(self, ways: list[FoldedScores]) -> None:
        """Sets the numbers of all ways, of which there is at least one."""
        self.start_from(ways[0])
        self.others = ways[1:]
