"""Sums per (agent, spec), kept call by call, so that a scrape never walks sessions.

Means are exact however long the process lives: a score is added as an integer multiple of 2**-60
(`fixed`), so what was added can be taken away again without a trace.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple, Protocol

from monitor.aggregate.consistency_sample import ConsistencySample
from monitor.aggregate.drift import Drift, by_risk
from monitor.aggregate.score_histogram import Exemplar, ScoreHistogram
from monitor.aggregate.top_k import TopK
from monitor.records import CALL_KINDS, Kind, Obstacle, Reason, SessionKey
from monitor.scores.score_records import SCORES, SPREADS, FinalScores
from monitor.tenants import Holdings

__all__ = [
    "BADNESS",
    "BEHIND_MAX",
    "BOUNDS",
    "CLEAN_SHARE",
    "NO_SHARE",
    "OUTCOMES",
    "OVERFLOW",
    "PAIRS_MAX",
    "UNKNOWN_TOOL",
    "UNMATCHED",
    "Exemplar",
    "NamespaceLabel",
    "Pair",
    "ScoreHistogram",
    "SessionFinished",
    "Share",
    "Totals",
    "fixed",
    "mean",
]

PAIRS_MAX: Final = 2_000
"""Label pairs beyond this fold into one, visibly: series are the scraper's memory.

A pair has 100 to 153 series, and 250,000 of them are what one scrape may well bring. A user may set
more: 5,000 pairs are rendered in a quarter of a second.
"""

RESERVE_SHARE: Final = 4
"""Part of the pairs' bound that is added for tenants that have few."""

FEW_SHARE: Final = 16
"""Part of the bound that counts as few."""

SPARE_NS: Final = 3_600 * 1_000_000_000
"""A pair without sessions for this long makes room for another pair of its tenant."""

HELD_MAX: Final = 100_000
"""Finished sessions in the means; beyond it the earliest leave them early: of who has too many."""

NamespaceLabel = Literal["auto", "always", "never"]
"""Whether sums are kept by namespace, and say so: `auto` says so once a second one was seen."""

Key = tuple[str, ...]
"""Agent and spec; and behind them the namespace, where that is not the first that was seen."""

AGENT_CHARACTERS_MAX: Final = 128
"""Longer names are cut: the name is the sender's, the memory ours."""

FORGET_NS: Final = 24 * 3_600 * 1_000_000_000
"""A pair without sessions for this long is dropped, with its series."""

BEHIND_MAX: Final = 512
"""Judgements of a pair whose shares are updated only on request."""

_SWEEP_NS: Final = 60 * 1_000_000_000
_CLEARED_AT_ONCE: Final = 16
"""Pairs whose worst sessions are cleared up in one go, in turn."""

OVERFLOW: Final = "__overflow__"

UNMATCHED: Final = "__unmatched__"
"""Spec label of sessions no spec matches."""

UNKNOWN_TOOL: Final = "__unknown__"
"""Tool label of a tool the spec does not name: such names are the agent's, and without end."""

OUTCOMES: Final = ("accepted", "not_accepted", "empty", "evicted")
"""How a session can end, as a label."""

_LENGTHS: Final[tuple[float, ...]] = (1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 55.0, 89.0)

BOUNDS: Final[Mapping[str, tuple[float, ...]]] = {
    **{name: spread.bounds for name, spread in SPREADS.items()},
    "calls": _LENGTHS,
}
"""Upper bounds of the histograms over finished sessions, by field of `FinalScores`."""

_MEANS: Final = tuple(name for name, score in SCORES.items() if score.mean)
"""Scores whose means are of finished sessions alone."""

_ONE: Final = 1 << 60


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
    risk: float = 0.0
    """Against a learnt reference, which has no score beside it."""


NO_SHARE: Final = Share(0, 0, 0, 0)
CLEAN_SHARE: Final = Share(1, 0, fixed(1.0), 0)
"""Share of a session without harm: one object for all of them."""


class SessionFinished(NamedTuple):
    """A session under one spec has ended; scores are None if undefined or not exact."""

    session: SessionKey
    agent: str
    spec: str
    spec_version: str
    ended: str
    scores: FinalScores
    unsatisfied: tuple[str, ...] = ()
    """Constraints that were not kept in the end."""
    missed: tuple[str, ...] = ()
    """Limits that were not kept, `reason: rule`."""


class _Holder(Protocol):
    @property
    def share(self) -> Share: ...


class _Judgement(Protocol):
    """A judgement, as far as the sums look at it."""

    share: Share
    is_behind: bool

    @property
    def pair(self) -> Pair | None: ...
    def weigh(self) -> Share: ...


class Pair:
    """The sums of one (agent, spec)."""

    __slots__ = (
        "_behind",
        "_clean",
        "_harm_rate",
        "_harmful",
        "_lost",
        "_worst",
        "_worst_prefix_crit",
        "active",
        "agent",
        "beta",
        "bounded",
        "compensations",
        "controls",
        "drift",
        "exemplars",
        "final",
        "finished",
        "harms",
        "idle_since",
        "joined",
        "late",
        "loops",
        "namespace",
        "outcomes",
        "possible",
        "progress",
        "provisional",
        "repeats",
        "revisions",
        "scored_calls",
        "scores",
        "session_verdicts",
        "sessions",
        "severities",
        "spec",
        "spreads",
        "started",
        "tenant",
        "things_dropped",
    )

    def __init__(
        self,
        agent: str,
        spec: str,
        beta: float,
        severities: tuple[str, ...],
        *,
        scored: bool = True,
        namespace: str = "",
        tenant: str = "",
    ) -> None:
        self.agent = agent
        self.spec = spec
        self.namespace = namespace
        self.tenant = tenant
        """Whose share of the pairs it is part of."""
        self.beta = beta
        self.severities = severities
        """Severities of the spec's harmful calls: their counters exist from zero on."""
        self.active = 0
        self.idle_since: int | None = None
        self.sessions = 0
        self._clean = 0
        self._harm_rate = 0
        self._lost = 0
        """Sum of 1 - PrefixCrit, in fixed point."""
        self._harmful = 0
        self._behind: list[_Judgement] = []
        """Whose calls have changed their shares since these were taken into the sums."""
        self.started = 0
        self.late = 0
        self.things_dropped = 0
        self.compensations = 0
        self.joined = 0
        self.possible = 0
        """Calls reported as possibly harmful, once each."""
        self.progress = 0
        self.loops = 0
        self.harms = 0
        self.controls = 0
        """Calls by their first verdicts."""
        self.final: Counter[tuple[Reason, str]] = Counter()
        self.provisional: Counter[tuple[Reason, str]] = Counter()
        self.revisions: Counter[tuple[Kind, Kind]] = Counter()
        self.session_verdicts: Counter[tuple[Kind, Obstacle]] = Counter()
        """Verdicts on sessions, final."""
        self.bounded = False
        """True if a spec of the pair has limits: their counters exist from zero on."""
        self.outcomes: Counter[str] = Counter()
        self.finished = 0
        self.scored_calls = 0
        """Calls of the sessions behind the live means."""
        self.scores: dict[str, tuple[int, int]] = {}
        """Score name -> (fixed sum, count) over the finished sessions of the window."""
        names = BOUNDS if scored else ("calls",)
        self.spreads = {name: ScoreHistogram(BOUNDS[name]) for name in names}
        self.exemplars: dict[Kind | tuple[Reason, str], Exemplar] = {}
        """The latest call of a kind, and the latest final one of a reason and severity."""
        self.repeats = ConsistencySample()
        self.drift: Drift | None = None
        """Divergence from the reference, if the spec is a learnt reference."""
        self._worst: TopK[_Holder] = TopK(_harm)
        self._worst_prefix_crit: TopK[_Holder] = TopK(_crit)

    # --- what live judgements add --------------------------------------------------------------

    def move(self, old: Share, new: Share) -> None:
        """Replaces what a judgement added by what it adds now."""
        self.sessions += new.sessions - old.sessions
        self._clean += _is_clean(new) - _is_clean(old)
        if new.harmful or old.harmful:
            # Sums of fixed scores are beyond a machine's integers: others add nothing to them.
            self._harm_rate += new.harm_rate - old.harm_rate
            self._lost += _lost(new) - _lost(old)
            self._harmful += new.harmful - old.harmful

    def rank(self, holder: _Holder) -> None:
        """The share of a live judgement that did harm is another now."""
        self._worst.push(holder)
        self._worst_prefix_crit.push(holder)

    def put_off(self, judgement: _Judgement) -> None:
        """The share of one that adds to the sums is another now: worked out when somebody asks.

        A session that does harm changes its share with each of its calls.
        """
        if not judgement.is_behind:
            judgement.is_behind = True
            self._behind.append(judgement)
            if len(self._behind) >= BEHIND_MAX:
                self.catch_up()

    def catch_up(self) -> None:
        """Takes what was put off into the sums."""
        behind, self._behind = self._behind, []
        for judgement in behind:
            if judgement.is_behind and judgement.pair is self:
                self.take(judgement, judgement.weigh())

    def let_go(self) -> None:
        """Lets go of judgements that have ended."""
        self._behind = [each for each in self._behind if each.is_behind and each.pair is self]
        self._worst.clear_up()
        self._worst_prefix_crit.clear_up()
        if self.drift is not None:
            self.drift.riskiest.clear_up()

    def take(self, judgement: _Judgement, new: Share) -> None:
        """The share of a judgement is this one now."""
        judgement.is_behind = False
        if new is not judgement.share:
            self.move(judgement.share, new)
            judgement.share = new
            if new.harmful:
                self.rank(judgement)

    @property
    def clean(self) -> int:
        """Of the sessions, those without harm."""
        self.catch_up()
        return self._clean

    @property
    def harm_rate(self) -> int:
        """The sum over the sessions, fixed."""
        self.catch_up()
        return self._harm_rate

    @property
    def prefix_crit(self) -> int:
        """The sum over the sessions, fixed."""
        self.catch_up()
        return self.sessions * _ONE - self._lost

    @property
    def harmful(self) -> int:
        """Harmful calls of the sessions."""
        self.catch_up()
        return self._harmful

    @property
    def worst(self) -> TopK[_Holder]:
        """Live judgements that did harm, by HarmRate, then H."""
        self.catch_up()
        return self._worst

    @property
    def worst_prefix_crit(self) -> TopK[_Holder]:
        """The same by PrefixCrit."""
        self.catch_up()
        return self._worst_prefix_crit

    # --- what is counted -------------------------------------------------------------------------

    @property
    def calls(self) -> dict[Kind, int]:
        """Calls by their first verdicts."""
        counts = (self.progress, self.loops, self.harms, self.controls)
        return dict(zip(CALL_KINDS, counts, strict=True))

    def spread(self, scores: FinalScores, exemplar: Exemplar | None) -> None:
        """Counts a finished session in the histograms."""
        for name, spread in self.spreads.items():
            value = getattr(scores, name)
            if value is not None:
                spread.observe(value, exemplar)

    def tally(self, scores: FinalScores, sign: int) -> None:
        """Adds (sign 1) or takes away (-1) a finished session's scores."""
        for name in _MEANS:
            value = getattr(scores, name)
            if value is not None:
                total, count = self.scores.get(name, (0, 0))
                self.scores[name] = (total + sign * fixed(value), count + sign)


def _harm(share: Share) -> tuple[int, int]:
    return share.harm_rate, share.harmful


def _crit(share: Share) -> tuple[int]:
    return (-share.prefix_crit,)


BADNESS: Final = {
    "worst by harm": _harm,
    "worst by prefix crit": _crit,
    "worst by risk": by_risk,
}
"""Orders of shares, by the name that plain records have for each."""


def _is_clean(share: Share) -> bool:
    return share.sessions > 0 and not share.harmful


def _lost(share: Share) -> int:
    return share.sessions * _ONE - share.prefix_crit


class _Held(NamedTuple):
    """A finished session that still counts in the means until `until`."""

    until: int
    pair: Pair
    share: Share
    calls: int
    """Calls behind the share."""
    scores: FinalScores


class Totals:
    """All pairs, and the finished sessions of the window.

    Args:
        hold_ns: how long a finished session counts in the means.
        pairs_max: pairs with sums of their own.
        label: whether sums are kept by namespace.
        agents_max: different agents of one namespace; who comes later is `OVERFLOW`, by spec. None: as many as there
            is room for pairs.
    """

    def __init__(
        self,
        hold_ns: int,
        pairs_max: int = PAIRS_MAX,
        label: NamespaceLabel = "auto",
        agents_max: int | None = None,
    ) -> None:
        self.pairs: dict[Key, Pair] = {}
        self.folded: Counter[str] = Counter({"agent": 0, "agent_spec": 0})
        """Number of values that were folded into `OVERFLOW`, by label."""
        self.by_tool: Counter[tuple[str, str]] = Counter()
        """(spec, tool): harmful calls, final."""
        self.read_in_parts = 0
        """Judgements that ended while their constraints were too many to be read together."""
        self.sampled = 0
        """Live judgements whose calls are kept for comparison."""
        self.left_early = 0
        """Finished sessions that left the means before their time: there were too many."""
        self._label = label
        self._agents: dict[str, Counter[str]] = {}
        """Namespace -> how many pairs each of its agents has."""
        self._counts = Holdings()
        """Pairs by tenant."""
        self._spare: dict[str, deque[Key]] = {}
        """Pairs by tenant that make room, as far as was known a minute ago, the longest idle first."""
        self._hold_ns = hold_ns
        self._pairs_max = pairs_max
        self._agents_max = agents_max
        self._held: OrderedDict[int, _Held] = OrderedDict()
        self._held_by = Holdings()
        self._held_order: dict[str, deque[int]] = {}
        """Finished sessions of the means by tenant, with some that have left since."""
        self._endings = 0
        self._sweep_ns = 0
        self._to_clear: list[Pair] = []

    def is_labelled(self, pair: Pair) -> bool:
        """True if the pair's series have the label `namespace`, as long as it lives.

        Prometheus takes an empty label as one that is not there: `always` changes the text alone.
        """
        return bool(pair.namespace) or self._label == "always"

    def pair(
        self,
        agent: str,
        spec: str,
        beta: float,
        severities: tuple[str, ...],
        *,
        scored: bool = True,
        namespace: str = "",
    ) -> Pair:
        """The pair's sums, created at zero when first seen."""
        agent, namespace = agent[:AGENT_CHARACTERS_MAX], self._place(namespace)
        found = self.pairs.get(self._key(agent, spec, namespace))
        if found is None:
            agent, spec, namespace = self._labels(agent, spec, namespace)
            key = self._key(agent, spec, namespace)
            found = self.pairs.get(key)
            if found is None:
                tenant = self._counts.name(namespace)
                found = self.pairs[key] = Pair(
                    agent,
                    spec,
                    beta,
                    severities,
                    scored=scored,
                    namespace=namespace,
                    tenant=tenant,
                )
                self._counts.add(tenant, 1)
                self._agents.setdefault(namespace, Counter())[agent] += 1
        if found.severities is not severities and not {*severities} <= {*found.severities}:
            found.severities = tuple(sorted({*found.severities, *severities}))
        return found

    def _place(self, namespace: str) -> str:
        """The namespace that sums are kept under."""
        return "" if self._label == "never" else namespace[:AGENT_CHARACTERS_MAX]

    @staticmethod
    def _key(agent: str, spec: str, namespace: str) -> Key:
        return (agent, spec, namespace) if namespace else (agent, spec)

    def _labels(self, agent: str, spec: str, namespace: str) -> tuple[str, str, str]:
        """The labels a new pair gets: its own, as long as there is room."""
        agents, most = self._agents.get(namespace, ()), self._agents_max
        if (
            most is not None
            and agent not in agents
            and len(agents) >= most
            and agent != OVERFLOW
        ):
            self.folded["agent"] += 1
            agent = OVERFLOW
        if self._key(agent, spec, namespace) in self.pairs or self._has_room(namespace):
            return agent, spec, namespace
        self.folded["agent_spec"] += 1
        if namespace in self._agents or not namespace:
            return OVERFLOW, OVERFLOW, namespace
        return OVERFLOW, OVERFLOW, OVERFLOW

    def _has_room(self, namespace: str) -> bool:
        """True if one more pair may be, if need be in the place of one that is idle."""
        tenant = self._counts.name(namespace)
        few = self._counts.of(tenant) < self._pairs_max // FEW_SHARE
        most = self._pairs_max + (self._pairs_max // RESERVE_SHARE if few else 0)
        if len(self.pairs) < most:
            return True
        spare = self._spare.get(tenant)
        while spare:
            key = spare.popleft()
            pair = self.pairs.get(key)
            if pair is not None and not (pair.active or pair.sessions):
                self._forget(key, pair)
                return True
        return False

    def worst(self, most: int) -> list[Share]:
        """What the worst live judgements add to the sums, by HarmRate, then H.

        The worst `most` of all are among the worst of the `most` pairs that have the worst one.
        """
        tops = [(pair, top) for pair in self.pairs.values() if (top := pair.worst.first())]
        tops.sort(key=lambda each: _badness(each[1].share), reverse=True)
        found = [holder.share for pair, _ in tops[:most] for holder in pair.worst.top(most)]
        return sorted(found, key=_badness, reverse=True)[:most]

    def finish(self, pair: Pair, scores: FinalScores, exemplar: Exemplar | None = None) -> None:
        """Counts a finished session."""
        pair.finished += 1
        pair.outcomes[scores.outcome] += 1
        pair.spread(scores, exemplar)

    def hold(self, pair: Pair, share: Share, calls: int, scores: FinalScores, now: int) -> int:
        """A session that ended stays in the means for the hold time.

        Returns:
            A number to `let_go` of it by, from 1.
        """
        pair.tally(scores, 1)
        self._endings += 1
        self._held[self._endings] = _Held(now + self._hold_ns, pair, share, calls, scores)
        self._held_order.setdefault(pair.tenant, deque()).append(self._endings)
        self._held_by.add(pair.tenant, 1)
        if len(self._held) > HELD_MAX:
            self._leave_early(pair.tenant)
        return self._endings

    def _leave_early(self, tenant: str) -> None:
        """There are too many finished sessions: the earliest of who has most of them leaves."""
        order = self._held_order[self._held_by.gives_way(tenant)]
        while order:
            number = order.popleft()
            if number in self._held:
                self.left_early += 1
                self.let_go(number)
                return

    def let_go(self, number: int) -> None:
        """Takes a held session out of the means, if it is still there: it goes on."""
        old = self._held.pop(number, None)
        if old is not None:
            self._held_by.add(old.pair.tenant, -1)
            if not self._held_by.of(old.pair.tenant):
                self._held_order.pop(old.pair.tenant, None)
            old.pair.move(old.share, NO_SHARE)
            old.pair.scored_calls -= old.calls
            old.pair.tally(old.scores, -1)

    def shift(self, by: int) -> None:
        """The clock was set by so many nanoseconds: finished sessions stay as long as they would."""
        held = self._held
        for number, each in held.items():
            held[number] = each._replace(until=each.until + by)
        for pair in self.pairs.values():
            if pair.idle_since is not None:
                pair.idle_since += by
        self._sweep_ns = 0

    def expire(self, now: int) -> None:
        """Takes sessions whose hold time is over out of the means, and forgets idle pairs."""
        held = self._held
        while held and next(iter(held.values())).until <= now:
            self.let_go(next(iter(held)))
        self._clear_up()
        if now >= self._sweep_ns:
            self._sweep_ns = now + _SWEEP_NS
            self._sweep(now)

    def _clear_up(self) -> None:
        """Lets go of ended sessions among the worst, a few pairs at a time."""
        if not self._to_clear:
            self._to_clear = list(self.pairs.values())
        for pair in self._to_clear[-_CLEARED_AT_ONCE:]:
            pair.let_go()
        del self._to_clear[-_CLEARED_AT_ONCE:]

    def _sweep(self, now: int) -> None:
        """Drops pairs without sessions for a day: agents' names may change with each version."""
        spare: list[tuple[int, Key, str]] = []
        for key, pair in list(self.pairs.items()):
            if pair.active or pair.sessions:
                pair.idle_since = None
            elif pair.idle_since is None:
                pair.idle_since = now
            elif now - pair.idle_since >= FORGET_NS:
                self._forget(key, pair)
            elif now - pair.idle_since >= SPARE_NS:
                spare.append((pair.idle_since, key, pair.tenant))
        self._spare = {}
        for _, key, tenant in sorted(spare):
            self._spare.setdefault(tenant, deque()).append(key)
        for order in self._held_order.values():
            while order and order[0] not in self._held:
                order.popleft()

    def _forget(self, key: Key, pair: Pair) -> None:
        del self.pairs[key]
        self._counts.add(pair.tenant, -1)
        agents = self._agents[pair.namespace]
        agents[pair.agent] -= 1
        if not agents[pair.agent]:
            del agents[pair.agent]
        if not agents:
            del self._agents[pair.namespace]


def _badness(share: Share) -> tuple[int, int]:
    return share.harm_rate, share.harmful
