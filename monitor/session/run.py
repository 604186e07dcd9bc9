"""What a judgement knows of the calls so far, in a few integers: the O(1) accumulators."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from monitor.automaton.position import Outcome, Position
from monitor.reference.watch import Watched
from monitor.scores.running import HarmTally
from monitor.session.episodes import EpisodesTally
from monitor.session.judge import (
    CONTROL,
    CONTROL_TOKEN,
    FAILED,
    PROGRESS,
    SELF_LOOP,
    Judge,
    code_of,
)

__all__ = ["Run"]


@mypyc_attr(acyclic=True)
class Run:
    """Position, tally and progressed symbols after some prefix of the calls."""

    __slots__ = ("exact", "position", "progressed", "tally", "watched")

    def __init__(
        self,
        position: Position,
        tally: HarmTally,
        progressed: int = 0,
        *,
        exact: bool = True,
        watched: Watched | None = None,
    ) -> None:
        self.position = position
        self.tally = tally
        self.progressed = progressed
        self.exact = exact
        self.watched = watched
        """Where the session stands in a learnt reference."""

    def copy(self) -> Run:
        watched = self.watched.copy() if self.watched is not None else None
        tally = self.tally.copy()
        return Run(self.position, tally, self.progressed, exact=self.exact, watched=watched)

    def step(self, judge: Judge, token: int) -> int:
        """Takes one call and returns its code (`monitor.session.judge.CODES`)."""
        if token == CONTROL_TOKEN:
            return CONTROL
        if self.watched is not None and judge.watch is not None:
            judge.watch.step(self.watched, token)
            self.tally.self_loop()
            return SELF_LOOP
        if judge.once is not None and judge.opens(self.position, token):
            self._start_episode(judge.once.initial)
        before = self.position
        self.position, outcome = judge.stepper.step(before, token)
        if token >= judge.plain and not judge.spec.alphabet.tokens[token].exact:
            self.exact = False
        if outcome is Outcome.PROGRESS:
            self.tally.progress()
            if token < judge.plain:
                self.progressed |= 1 << token
            return PROGRESS
        if outcome is Outcome.SELF_LOOP:
            self.tally.self_loop()
            return SELF_LOOP if judge.spec.alphabet.tokens[token].effect else FAILED
        self.tally.harmful()
        return code_of(judge.reason(before, token, self.progressed))

    def _start_episode(self, initial: int) -> None:
        assert isinstance(self.tally, EpisodesTally)
        self.tally.start_episode()
        self.progressed = 0
        if isinstance(self.position, int):
            # Else the machine of many episodes goes on from all the others, too.
            self.position = initial
