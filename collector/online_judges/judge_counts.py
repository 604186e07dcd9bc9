"""What is counted of judges: outcomes, scores by judge and agent, tokens, cost, and what was not judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from collector.online_judges.canary_figures import CanaryFigures
from collector.online_judges.judge_panel import PanelAnswer
from collector.telemetry.counters import MetricReading
from collector.telemetry.duration_histogram import DurationHistogram
from judges.judgement_record import OUTCOMES, JudgementRecord

__all__ = ["DROPPED_SESSIONS", "JudgeCounts"]

SCORES: Final = (0.0, 1.0, 2.0, 3.0)
AGENTS_MAX: Final = 256
"""Agents with series of their own; further ones are summed."""
OVERFLOW: Final = "__overflow__"

DROPPED_SESSIONS: Final = ("queue_full", "error", "forgotten")
"""Why a session was not judged; or why its judgements are not shown any more, as the label `reason`."""


class JudgeCounts:
    """The counters of one process."""

    def __init__(self) -> None:
        self.sessions = 0
        """Sessions that were handed to the judges."""
        self.dropped: Counter[str] = Counter(dict.fromkeys(DROPPED_SESSIONS, 0))
        self._outcomes: Counter[str] = Counter(dict.fromkeys(OUTCOMES, 0))
        self._tokens: Counter[str] = Counter(input=0, output=0)
        self._cost = 0.0
        self.canaries = CanaryFigures()
        self._disputes: Counter[bool | None] = Counter()
        self._scores: dict[tuple[str, str], DurationHistogram] = {}
        self._agents: set[str] = set()

    def add(self, answer: PanelAnswer, agent: str) -> None:
        """Counts one judgement. The histogram has scores of the first model alone; canaries have a counter of their own."""
        record = answer.record
        self._tokens["input"] += record.tokens_in
        self._tokens["output"] += record.tokens_out
        self._cost += answer.cost
        if answer.canary is not None:
            self.canaries.add(answer.canary, record)
            return
        self._outcomes[record.outcome] += 1
        if answer.is_second:
            self._disputes[record.disputed] += 1
        else:
            self._score(record, agent)

    def _score(self, record: JudgementRecord, agent: str) -> None:
        """Counts a score, if it is in a mean: of a whole session, without a contradiction."""
        if record.outcome != "scored" or record.contradiction or record.score is None:
            return
        if agent not in self._agents and len(self._agents) >= AGENTS_MAX:
            agent = OVERFLOW
        self._agents.add(agent)
        key = (record.judge, agent)
        if key not in self._scores:
            self._scores[key] = DurationHistogram(SCORES)
        self._scores[key].observe(record.score)

    def readings(self) -> Iterator[MetricReading]:
        """The metrics."""
        yield MetricReading(
            "judge_score", sorted(self._scores.items(), key=lambda each: each[0])
        )
        yield MetricReading("judge_requests", _by(self._outcomes))
        yield MetricReading("judge_tokens", _by(self._tokens))
        yield MetricReading("judge_cost", [((), self._cost)])
        yield from self.canaries.readings()
        compared = [(("true",), self._disputes[True]), (("false",), self._disputes[False])]
        yield MetricReading("judge_second_scores", compared)
        yield MetricReading("judge_sessions", [((), self.sessions)])
        yield MetricReading("judge_sessions_dropped", _by(self.dropped))


def _by(counts: Counter[str]) -> list[tuple[tuple[str, ...], float]]:
    return [((label,), count) for label, count in counts.items()]
