"""Episodes: passes from the initial to an accepting state, each scored on its own.

Under a spec with `again`, a new episode begins with a call that an accepting state refuses and the
initial state allows. Numbers of calls, substantive steps and harmful steps are sums over all episodes.
All scores (HarmRate, PrefixCrit, comparisons with golden paths) are those of the current episode.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mypy_extensions import mypyc_attr

from monitor.automaton.dfa import UNDEFINED, Automaton
from monitor.scores.running_scores import HarmTally

__all__ = ["EPISODES_MAX", "EpisodesTally", "looped"]

EPISODES_MAX: Final = 64
"""Limit of the finished episodes of one judgement that are listed, the latest; all are counted."""


@mypyc_attr(acyclic=True)
class EpisodesTally(HarmTally):
    """A tally whose counts are sums and whose scores are the current episode's."""

    __slots__ = ("current", "finished")

    def __init__(self, beta: float) -> None:
        super().__init__(beta)
        self.current = HarmTally(beta)
        self.finished = 0
        """Episodes before the current one."""

    def start_episode(self) -> None:
        """Ends the current episode; the next call is the first of another."""
        self.finished += 1
        self.current = HarmTally(self.beta)

    def progress(self) -> None:
        super().progress()
        self.current.progress()

    def self_loop(self) -> None:
        super().self_loop()
        self.current.self_loop()

    def harmful(self) -> None:
        super().harmful()
        self.current.harmful()

    @property
    def harm_rate(self) -> float:
        return self.current.harm_rate

    @property
    def prefix_crit(self) -> float:
        return self.current.prefix_crit

    def copy(self) -> EpisodesTally:
        twin = EpisodesTally(self.beta)
        twin.calls, twin.substantive = self.calls, self.substantive
        twin.harmful_steps = self.harmful_steps
        twin.current, twin.finished = self.current.copy(), self.finished
        return twin


def looped(machine: Automaton) -> Automaton:
    """The machine of many episodes: an accepting state also allows what the initial state allows."""
    width, table = len(machine.symbols), list(machine.table)
    for state in machine.accepting:
        for symbol in range(width):
            if table[state * width + symbol] == UNDEFINED:
                table[state * width + symbol] = machine.step(machine.initial, symbol)
    return replace(machine, table=tuple(table))
