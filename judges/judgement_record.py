"""What became of one judgement: an object a line, as `offrails judge --json` prints it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

from judges.answer import CitedFinding

__all__ = [
    "FINE",
    "OUTCOMES",
    "SCORE_MAX",
    "CallsSeen",
    "JudgementRecord",
    "Outcome",
    "PlacedFinding",
]

Outcome = Literal[
    "over_budget",
    "failed",
    "refused",
    "truncated",
    "unparsable",
    "not_applicable",
    "partial",
    "scored",
]
OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)
"""The first that applies."""

FINE: Final = frozenset({"scored", "partial", "not_applicable"})
"""Outcomes of judgements that stand."""

SCORE_MAX: Final = 3
"""The best score; scores are whole, from 0."""


@dataclass(frozen=True, slots=True)
class PlacedFinding:
    """A finding with the span of its step."""

    step: str
    span_id: str | None
    """None if the step is none that was shown."""
    category: str
    impact: str
    what: str

    @classmethod
    def of(cls, finding: CitedFinding, span_id: str | None) -> PlacedFinding:
        return cls(finding.step, span_id, finding.category, finding.impact, finding.what)


@dataclass(frozen=True, slots=True)
class CallsSeen:
    """How many of a session's tool calls were in the transcript."""

    calls: int
    of: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgementRecord:
    """One judgement of one session by one judge."""

    session: str
    judge: str
    judge_version: str
    model: str
    repeat: int
    outcome: Outcome
    seen: CallsSeen
    validated: bool
    score: int | None = None
    criteria: str = ""
    evidence: str = ""
    findings: Sequence[PlacedFinding] = ()
    not_in_trace: Sequence[PlacedFinding] = ()
    contradiction: bool = False
    tokens_in: int = 0
    tokens_out: int = 0
    cached: bool = False
    disputed: bool | None = None
    """Whether the score and that of another model are too far apart; None if there are not both. In the JSON if it is known."""
    why: str = ""
    """Why there is no score, for people; not in the JSON."""

    def as_json(self) -> dict[str, Any]:
        """The object of a JSON line."""
        return {
            "session": self.session,
            "judge": self.judge,
            "judge_version": self.judge_version,
            "model": self.model,
            "repeat": self.repeat,
            "outcome": self.outcome,
            "score": self.score,
            "normalised": None if self.score is None else self.score / SCORE_MAX,
            "criteria": self.criteria,
            "evidence": self.evidence,
            "findings": [asdict(each) for each in self.findings],
            "not_in_trace": [asdict(each) for each in self.not_in_trace],
            "seen": asdict(self.seen),
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "cached": self.cached,
            "contradiction": self.contradiction,
            "validated": self.validated,
            **({} if self.disputed is None else {"disputed": self.disputed}),
        }
