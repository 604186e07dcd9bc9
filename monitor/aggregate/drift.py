"""Sums of one agent under one learnt reference: how its sessions diverge, and how often lately."""

from __future__ import annotations

from collections import Counter, deque
from typing import Any, Final, NamedTuple

from monitor.aggregate.score_histogram import Exemplar, ScoreHistogram
from monitor.aggregate.top_k import TopK
from monitor.reference.comparison import PHASES, Departure

__all__ = ["WAYS", "WINDOW", "Drift", "DriftSample", "Way", "by_risk"]

WINDOW: Final = 100
"""Last finished sessions behind the drift gauges."""

_STEPS: Final[tuple[float, ...]] = (1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0)
_RISKS: Final[tuple[float, ...]] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

_KINDS: Final = tuple(kind.name.lower() for kind in Departure)

_ONE: Final = 1 << 60

Way = tuple[str, str]
"""Phase and kind of a first divergence."""

WAYS: Final[tuple[Way, ...]] = tuple((phase, kind) for phase in PHASES for kind in _KINDS)
"""All ways to diverge: as many series for each pair, from zero on."""


class DriftSample(NamedTuple):
    """One finished session, as the drift gauges take it."""

    way: Way | None
    """How it first diverged; None if it did not."""
    similarity: float | None
    """Definition 3 of its tools and the medoid's; None if it was too long to compare."""
    new_tools: bool
    new_arguments: bool


def by_risk(share: Any) -> tuple[float]:
    """More risk is worse."""
    return (share.risk,)


class Drift:
    """Counters of final divergences, and the last finished sessions."""

    __slots__ = (
        "_last",
        "_similar",
        "divergences",
        "exemplars",
        "first_two",
        "missing_writes",
        "new_arguments",
        "new_tools",
        "paging_writes",
        "riskiest",
        "risks",
        "similar",
        "steps",
        "unexpected_writes",
        "ways",
    )

    def __init__(self) -> None:
        self.divergences: Counter[Way] = Counter()
        self.unexpected_writes = 0
        self.paging_writes = 0
        """Unexpected writes that are worth a page."""
        self.first_two = 0
        self.missing_writes = 0
        self.exemplars: dict[Way | str, Exemplar] = {}
        """The latest call of each way, and of each other counter by its name."""
        self.steps = ScoreHistogram(_STEPS)
        """Numbers of the calls that first diverged."""
        self.risks = ScoreHistogram(_RISKS)
        """Risks of finished sessions."""
        self.riskiest: TopK[Any] = TopK(by_risk)
        """Live judgements by their risk."""
        self._last: deque[DriftSample] = deque()
        self.ways: Counter[Way] = Counter()
        """Number of the last sessions that first diverged each way."""
        self.new_tools = 0
        self.new_arguments = 0
        self._similar = 0
        self.similar = 0
        """How many of the last sessions have a similarity."""

    @property
    def sessions(self) -> int:
        """The last finished sessions, `WINDOW` at most."""
        return len(self._last)

    @property
    def similarity(self) -> float:
        """Their mean similarity to the medoid, where there is one."""
        return self._similar / (self.similar * _ONE)

    def add(self, seen: DriftSample) -> None:
        """Takes a finished session; the oldest goes where there are too many."""
        self._last.append(seen)
        self._count(seen, 1)
        if len(self._last) > WINDOW:
            self._count(self._last.popleft(), -1)

    def _count(self, seen: DriftSample, sign: int) -> None:
        if seen.way is not None:
            self.ways[seen.way] += sign
        self.new_tools += sign * seen.new_tools
        self.new_arguments += sign * seen.new_arguments
        if seen.similarity is not None:
            # Integers, so that what leaves the window leaves no trace.
            self._similar += sign * int(seen.similarity * _ONE)
            self.similar += sign
