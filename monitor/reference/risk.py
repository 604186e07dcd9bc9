"""The risk that a run fails, from which tools it has called and whether it wrote the unexpected.

A naive Bayes score over the set of tools called so far: simpler than the bigram model and the
automata it was compared with, and not beaten by them (docs/references.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from monitor.reference.settings import (
    PRIOR_RUNS_MAX,
    PSEUDO_RUNS,
    RECORD_PSEUDO_RUNS,
    WRITE_WEIGHT,
)

__all__ = ["Risk", "mean_failure", "record_risk", "risk_with_record"]


class Risk:
    """Log-odds of failure.

    Args:
        tools: whose presence counts, by number.
        called_by: tool -> (successes, failures) that called it.
        successes: runs that succeeded.
        failures: runs that failed.
        labelled: whether outcomes are known; if not, the share of failures means nothing.
    """

    __slots__ = ("_prior", "_unknown", "_weights")

    def __init__(
        self,
        tools: Sequence[str],
        called_by: Mapping[str, tuple[int, int]],
        successes: int,
        failures: int,
        *,
        labelled: bool,
    ) -> None:
        self._prior = prior(successes, failures) if labelled else 0.0
        self._weights = tuple(
            weight(*called_by.get(tool, (0, 0)), successes, failures) for tool in tools
        )
        self._unknown = weight(0, 0, successes, failures)

    def of(self, called: int, *, unexpected_write: bool) -> float:
        """Risk, 0 to 1.

        Args:
            called: bit mask of the tools called; the first bit is any unknown tool, then one for
                each known, then one for each unknown.
            unexpected_write: whether the run has written what no seen run wrote.
        """
        odds, known = self._prior, len(self._weights)
        rest, number = called >> 1, 0
        while rest:
            if rest & 1:
                odds += self._weights[number] if number < known else self._unknown
            rest >>= 1
            number += 1
        return sigmoid(odds + (WRITE_WEIGHT if unexpected_write else 0.0))


def prior(successes: int, failures: int) -> float:
    """Log-odds of failure before the first call; many runs count as few (`PRIOR_RUNS_MAX`).

    `PSEUDO_RUNS` of either outcome are imagined beside them.
    """
    runs = successes + failures
    scale = min(runs, PRIOR_RUNS_MAX) / runs if runs else 0.0
    return math.log((failures * scale + PSEUDO_RUNS) / (successes * scale + PSEUDO_RUNS))


def weight(succeeded: int, failed: int, successes: int, failures: int) -> float:
    """Log-odds a tool adds that `succeeded` of the successes and `failed` failures called.

    `PSEUDO_RUNS` of either outcome are imagined beside them, and half of these called the tool.
    """
    half = PSEUDO_RUNS / 2
    return math.log((failed + half) / (failures + PSEUDO_RUNS)) - math.log(
        (succeeded + half) / (successes + PSEUDO_RUNS)
    )


def record_risk(records: Mapping[str, tuple[int, int]], agent: str) -> float:
    """The share of an agent's runs at other tasks that failed, drawn towards that of all agents.

    Args:
        records: agent -> (successes, failures).
        agent: one of them.
    """
    good, bad = records[agent]
    imagined = RECORD_PSEUDO_RUNS
    return (bad + imagined * mean_failure(records)) / (good + bad + imagined)


def mean_failure(records: Mapping[str, tuple[int, int]]) -> float:
    """The share of all agents' runs that failed, with one imagined run of either outcome."""
    failures = sum(bad for _, bad in records.values())
    return (failures + 1) / (sum(map(sum, records.values())) + 2)


def risk_with_record(risk: float, records: Mapping[str, tuple[int, int]], agent: str) -> float:
    """A risk by Bayes' rule, with the agent's own record for a prior in place of the mean agent's."""
    shift = _odds(record_risk(records, agent)) - _odds(mean_failure(records))
    return sigmoid(_odds(risk) + shift)


def _odds(probability: float) -> float:
    kept = min(max(probability, 1e-9), 1 - 1e-9)
    return math.log(kept / (1 - kept))


def sigmoid(odds: float) -> float:
    """The probability of log-odds."""
    return 1 / (1 + math.exp(-odds)) if odds >= 0 else 1 - 1 / (1 + math.exp(odds))
