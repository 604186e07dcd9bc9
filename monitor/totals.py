"""Sums per (agent, spec), kept call by call, so that a scrape never walks sessions.

Means are exact however long the process lives: a score is added as an integer multiple of 2**-60
(`fixed`), so what was added can be taken away again without a trace.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import NamedTuple

from monitor.records import Kind, Reason, SessionKey

__all__ = [
    "CLEAN_SHARE",
    "NO_SHARE",
    "OVERFLOW",
    "PAIRS_MAX",
    "UNMATCHED",
    "Finished",
    "Pair",
    "SessionFinished",
    "Share",
    "Totals",
    "fixed",
    "mean",
]

PAIRS_MAX = 5_000
"""Label pairs beyond this fold into one, visibly: series are the scraper's memory."""

OVERFLOW = "__overflow__"

UNMATCHED = "__unmatched__"
"""Spec label of sessions no spec matches."""

_ONE = 1 << 60


def fixed(score: float) -> int:
    """A score in [0, 1] as an integer multiple of 2**-60."""
    return int(score * _ONE)


def mean(total: int, count: int) -> float:
    """The mean of `count` fixed scores; count is at least 1."""
    return total / (count * _ONE)


class Share(NamedTuple):
    """What one judgement adds to its pair's live sums."""

    sessions: int
    harm_rate: int
    prefix_crit: int
    harmful: int


NO_SHARE = Share(0, 0, 0, 0)
CLEAN_SHARE = Share(1, 0, fixed(1.0), 0)
"""Of a session without harm: one object for all of them."""


class Finished(NamedTuple):
    """The scores of one finished session; None where undefined or not exact."""

    outcome: str
    calls: int
    harmful: int
    harm_rate: float | None
    prefix_crit: float | None
    pc: float | None
    pc_ktc: float | None
    pc_hlr: float | None
    efficiency: float | None


class SessionFinished(NamedTuple):
    """A session under one spec has ended; scores are None where undefined or not exact."""

    session: SessionKey
    agent: str
    spec: str
    spec_version: str
    ended: str
    scores: Finished


class Pair:
    """The sums of one (agent, spec)."""

    __slots__ = (
        "active",
        "agent",
        "beta",
        "calls",
        "compensations",
        "final",
        "finished",
        "harm_rate",
        "harmful",
        "joined",
        "late",
        "outcomes",
        "prefix_crit",
        "provisional",
        "revisions",
        "scores",
        "sessions",
        "severities",
        "spec",
        "started",
    )

    def __init__(self, agent: str, spec: str, beta: float, severities: tuple[str, ...]) -> None:
        self.agent = agent
        self.spec = spec
        self.beta = beta
        self.severities = severities
        """What the spec may call a harmful call: their counters exist from zero on."""
        self.active = 0
        self.sessions = 0
        self.harm_rate = 0
        self.prefix_crit = 0
        self.harmful = 0
        self.started = 0
        self.late = 0
        self.compensations = 0
        self.joined = 0
        self.calls: dict[Kind, int] = dict.fromkeys(Kind, 0)
        self.final: Counter[tuple[Reason, str]] = Counter()
        self.provisional: Counter[tuple[Reason, str]] = Counter()
        self.revisions: Counter[tuple[Kind, Kind]] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.finished = 0
        self.scores: dict[str, tuple[int, int]] = {}
        """Score name -> (fixed sum, count) over the finished sessions of the window."""

    def move(self, old: Share, new: Share) -> None:
        """Replaces what a judgement added by what it adds now."""
        self.sessions += new.sessions - old.sessions
        self.harm_rate += new.harm_rate - old.harm_rate
        self.prefix_crit += new.prefix_crit - old.prefix_crit
        self.harmful += new.harmful - old.harmful

    def tally(self, scores: Finished, sign: int) -> None:
        """Adds (sign 1) or takes away (-1) a finished session's scores."""
        for name in ("pc", "pc_ktc", "pc_hlr", "efficiency"):
            value = getattr(scores, name)
            if value is not None:
                total, count = self.scores.get(name, (0, 0))
                self.scores[name] = (total + sign * fixed(value), count + sign)


class _Held(NamedTuple):
    """A finished session that still counts in the means until `until`."""

    until: int
    pair: Pair
    share: Share
    scores: Finished


class Totals:
    """All pairs, and the finished sessions of the window."""

    def __init__(self, hold_ns: int) -> None:
        self.pairs: dict[tuple[str, str], Pair] = {}
        self.overflowed = 0
        self._hold_ns = hold_ns
        self._held: deque[_Held] = deque()

    def pair(self, agent: str, spec: str, beta: float, severities: tuple[str, ...]) -> Pair:
        """The pair's sums, created at zero when first seen."""
        key = (agent, spec)
        found = self.pairs.get(key)
        if found is None:
            if len(self.pairs) >= PAIRS_MAX and key != (OVERFLOW, OVERFLOW):
                self.overflowed += 1
                return self.pair(OVERFLOW, OVERFLOW, beta, severities)
            found = self.pairs[key] = Pair(agent, spec, beta, severities)
        return found

    def finish(self, pair: Pair, share: Share, scores: Finished, now: int) -> None:
        """Counts a finished session; its share stays in the live means for the hold time."""
        pair.finished += 1
        pair.outcomes[scores.outcome] += 1
        pair.tally(scores, 1)
        self._held.append(_Held(now + self._hold_ns, pair, share, scores))

    def expire(self, now: int) -> None:
        """Takes sessions whose hold time is over out of the means."""
        held = self._held
        while held and held[0].until <= now:
            old = held.popleft()
            old.pair.move(old.share, NO_SHARE)
            old.pair.tally(old.scores, -1)
