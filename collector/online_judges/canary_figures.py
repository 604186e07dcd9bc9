"""How judges did on canaries, by judge and model: the figure that stands beside their scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from collector.telemetry.counters import MetricReading
from judges.canary import CANARY_KINDS, Canary
from judges.judgement_record import JudgementRecord

__all__ = ["CanaryFigures"]

_Rater = tuple[str, str]


class CanaryFigures:
    """Counts since the start of the process."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[_Rater, str, bool]] = Counter()

    def add(self, canary: Canary, record: JudgementRecord) -> None:
        """Counts a canary that got a score."""
        passed = canary.passed(record)
        if passed is not None:
            self._counts[(record.judge, record.model), canary.kind, passed] += 1

    def of(self, judge: str, model: str) -> dict[str, Any]:
        """`passed` of `of` canaries of one judge and model, and the same of those with an injected text."""
        return {
            **self._sum(judge, model, CANARY_KINDS),
            "injected": self._sum(
                judge, model, [kind for kind in CANARY_KINDS if kind.endswith("injected")]
            ),
        }

    def _sum(self, judge: str, model: str, kinds: Sequence[str]) -> dict[str, int]:
        counts = {
            passed: sum(self._counts[(judge, model), kind, passed] for kind in kinds)
            for passed in (True, False)
        }
        return {"passed": counts[True], "of": counts[True] + counts[False]}

    def readings(self) -> Iterator[MetricReading]:
        """The metric: all kinds, passed or not, from 0."""
        found: Counter[tuple[str, ...]] = Counter(
            {(kind, passed): 0 for kind in CANARY_KINDS for passed in ("true", "false")}
        )
        for (_, kind, passed), count in self._counts.items():
            found[kind, str(passed).lower()] += count
        yield MetricReading("judge_canary", sorted(found.items()))
