"""What a judgement knows of the calls so far, in a few integers: the O(1) accumulators."""

from __future__ import annotations

from monitor.automaton.position import Outcome, Position
from monitor.scores.running import HarmTally
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


class Run:
    """Position, tally and progressed symbols after some prefix of the calls."""

    __slots__ = ("exact", "position", "progressed", "tally")

    def __init__(
        self, position: Position, tally: HarmTally, progressed: int = 0, *, exact: bool = True
    ) -> None:
        self.position = position
        self.tally = tally
        self.progressed = progressed
        self.exact = exact

    def copy(self) -> Run:
        return Run(self.position, self.tally.copy(), self.progressed, exact=self.exact)

    def step(self, judge: Judge, token: int) -> int:
        """Takes one call and returns its code (`monitor.session.judge.CODES`)."""
        if token == CONTROL_TOKEN:
            return CONTROL
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
