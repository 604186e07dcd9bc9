"""A monitor's sums -> Prometheus families.

A scrape renders what is already summed; it never walks sessions. Samples are made one by one, when
they are asked for, so that whoever renders them can let others have their turn in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from itertools import accumulate, islice, starmap
from typing import NamedTuple, Protocol, TypeVar

from monitor.aggregate.drift import WAYS, Drift, Way
from monitor.aggregate.totals import (
    OUTCOMES,
    UNKNOWN_TOOL,
    Exemplar,
    Pair,
    ScoreHistogram,
    Share,
    Totals,
    fixed,
    mean,
)
from monitor.exposition.family import ExemplarLines, Family, Sample, labels_text
from monitor.exposition.line_templates import at_zero, counters, filled, spread_lines
from monitor.exposition.metric_table import PAIR, TABLE, spread_family
from monitor.live.gaps import Gaps
from monitor.live.monitor_counters import MonitorCounters
from monitor.records import CALL_KINDS, OBSTACLES, PROFILES, Conventions, Kind, Reason
from monitor.scores.score_records import SCORES, SPREADS
from monitor.session.spec_binding import SpecBinder
from monitor.spec.spec import Spec

__all__ = ["RANKS", "MonitorTotals", "families_of", "monitor_families"]

PAIRS_AT_ONCE = 256
"""Pairs whose lines are made in one go, where each has one line of a family."""

SESSION_VERDICTS = tuple((kind, obstacle) for obstacle, kind in OBSTACLES.items())

RANKS = 10
"""Worst live sessions that are shown, by place: as many series, always."""

TOOLS_MAX = 200
"""Tools of one spec that have a counter from zero on."""

ENDED = ("idle", "explicit", "operator", "evicted", "input_end")


def _labelled(name: str, samples: Iterable[tuple[tuple[str, ...], float]]) -> Family:
    """A counter or gauge family of the table, with a sample for each label tuple."""
    labels = TABLE[name].labels
    return _family(name, (("", labels_text(labels, values), n) for values, n in samples))


def _family(
    name: str,
    rows: Iterable[tuple[str, str, float] | tuple[str, str, float, Exemplar | None]],
) -> Family:
    row = TABLE[name]
    return Family(f"offrails_{name}", row.kind, row.help, starmap(Sample, rows))


def _buckets(name: str, spread: ScoreHistogram, labels: str) -> str | ExemplarLines:
    """The lines of one histogram, with the exemplar of each bucket.

    Args:
        name: the family's, in full.
        spread: what it shows.
        labels: the pair's, as text.
    """
    template = spread_lines(name, spread.bounds)
    if not any(spread.counts):
        return at_zero(template, labels)
    counts = list(accumulate(spread.counts))
    text = filled(template, labels, (*counts, counts[-1], spread.total))
    return ExemplarLines(text, spread.exemplars) if spread.exemplars else text


def _singles(name: str, rows: Iterable[tuple[str, float]]) -> Family:
    """A family with one line a pair; a row is (labels, value)."""
    row = TABLE[name]
    full = f"offrails_{name}_total" if row.kind == "counter" else f"offrails_{name}"
    return Family(f"offrails_{name}", row.kind, row.help, _lumps(full, iter(rows)))


def _lumps(name: str, rows: Iterator[tuple[str, float]]) -> Iterator[str]:
    while lump := [
        f"{name}{{{labels}}} {float(value)}\n" for labels, value in islice(rows, PAIRS_AT_ONCE)
    ]:
        yield "".join(lump)


def _several(
    name: str,
    further: tuple[str, ...],
    labels: str,
    values: Iterable[int] | None,
    exemplars: Mapping[int, tuple[Exemplar, float]] | None = None,
) -> str | ExemplarLines:
    """Counters of one pair that differ in their further labels; without values all are 0."""
    template = counters(f"offrails_{name}_total", further)
    if values is None:
        return at_zero(template, labels)
    text = filled(template, labels, values)
    return ExemplarLines(text, exemplars) if exemplars else text


class MonitorTotals(Protocol):
    """What is read of a `monitor.Monitor`."""

    @property
    def totals(self) -> Totals: ...
    @property
    def binder(self) -> SpecBinder: ...
    @property
    def counters(self) -> MonitorCounters: ...
    @property
    def gaps(self) -> Gaps: ...


def families_of(monitor: MonitorTotals) -> Iterator[Family]:
    """All families of a monitor."""
    counted = monitor.counters
    yield from monitor_families(
        monitor.totals, monitor.binder, counted.ended, counted.tools_overflowed
    )
    yield _labelled("sessions_without_calls", [((), counted.without_calls)])
    yield _labelled("calls_out_of_order", [((), counted.out_of_order)])
    yield _labelled("spans_skewed", [((), counted.skewed)])
    yield _labelled("shown_arguments_given_up", [((), counted.arguments_given_up)])
    yield _labelled("sessions_resumed", [((), counted.resumed)])
    yield _labelled("sessions_unremembered", [((), counted.sessions_lost)])
    yield _labelled("values_dropped", [((), counted.values_dropped)])
    yield _labelled("orders_left_out", [((), counted.orders_left_out)])
    yield _labelled("doubts", [((cause.value,), n) for cause, n in monitor.gaps.doubts.items()])
    yield _labelled("gaps_merged", [((), monitor.gaps.merged)])
    yield _labelled("sessions_read_in_parts", [((), monitor.totals.read_in_parts)])
    yield _labelled("steps_folded_young", [((), counted.folded_young)])


def monitor_families(
    totals: Totals, binder: SpecBinder, ended: Mapping[str, int], tools_overflowed: int = 0
) -> Iterator[Family]:
    """Families of the sums over pairs of agent and spec, of tools and of loaded specs."""
    pairs = [
        (_pair_labels(pair, totals.is_labelled(pair)), pair) for pair in totals.pairs.values()
    ]
    yield from _means(pairs)
    yield from _worst(pairs, totals.worst(RANKS))
    yield from _finished_means(pairs)
    yield from _spreads(pairs)
    yield from _counts(pairs)
    yield from _session_verdicts(pairs)
    yield from _harmful(pairs)
    yield from _references(pairs)
    runs = [
        ((spec_id,), learnt.runs)
        for spec_id, judge in binder.judges.items()
        if (learnt := judge.spec.learnt) is not None
    ]
    yield _labelled("reference_runs", runs)
    yield from _consistency(pairs)
    yield _labelled("harmful_calls_by_tool", _by_tool(totals, binder))
    causes = {**dict.fromkeys(ENDED, 0), **ended}
    yield _labelled("sessions_ended", (((cause,), count) for cause, count in causes.items()))
    folded = sorted({**totals.folded, "tool": tools_overflowed}.items())
    yield _labelled("label_overflow", (((label,), count) for label, count in folded))
    yield _labelled(
        "spec_info", (((*_spec_labels(judge.spec),), 1) for judge in binder.judges.values())
    )


def _pair_labels(pair: Pair, namespaced: bool) -> str:
    """The labels of a pair, as text."""
    if namespaced:
        return labels_text((*PAIR, "namespace"), (pair.agent, pair.spec, pair.namespace))
    return labels_text(PAIR, (pair.agent, pair.spec))


def _spec_labels(spec: Spec) -> tuple[str, ...]:
    conventions = _conventions(spec.conventions)
    return spec.id, spec.version, spec.kind, spec.mode, conventions, spec.sha256_8


def _conventions(rules: Conventions) -> str:
    """The profile, and what differs from it: two results are comparable where this is equal."""
    ours, theirs = asdict(rules), asdict(PROFILES[rules.profile])
    changed = [f"{key.rstrip('_')}={ours[key]}" for key in ours if ours[key] != theirs[key]]
    return "+".join([rules.profile, *changed])


_Pairs = list[tuple[str, Pair]]
"""Pairs with their labels as text."""


def _references(pairs: _Pairs) -> Iterator[Family]:
    """What learnt references say: of pairs that have one, each way to diverge from zero on."""
    known = [(text, pair.drift) for text, pair in pairs if pair.drift is not None]
    name = "divergences"
    yield _grouped(
        name,
        (
            _several(name, _WAYS, t, _each(d.divergences, WAYS), _latest(d, WAYS))
            for t, d in known
        ),
    )
    for name, attribute in _DRIFT_COUNTS.items():
        rows = [(t, getattr(d, attribute), d.exemplars.get(name)) for t, d in known]
        yield _family(name, (("", *row) for row in rows))
    for name, attribute in _DRIFT_SPREADS.items():
        row, full = TABLE[name], f"offrails_{name}"
        spreads = ((text, getattr(drift, attribute)) for text, drift in known)
        yield Family(full, row.kind, row.help, (_buckets(full, s, text) for text, s in spreads))
    tops = ((text, drift.riskiest.first()) for text, drift in known)
    yield _singles("risk_max", ((text, top.share.risk) for text, top in tops if top))
    yield from _drift([(text, drift) for text, drift in known if drift.sessions])


_WAYS = tuple(f'phase="{phase}",kind="{kind}"' for phase, kind in WAYS)


def _consistency(pairs: _Pairs) -> Iterator[Family]:
    """How alike sessions are, of pairs that have two at least."""
    known = [(t, found, p.repeats) for t, p in pairs if (found := p.repeats.value) is not None]
    for name in ("tss", "unique_sequences", "first_two_agreement"):
        rows = [(text, getattr(found, name)) for text, found, _ in known]
        yield _singles(f"consistency_{name}", rows)
    yield _singles("consistency_sessions", ((text, found.runs) for text, found, _ in known))
    agreed = ((text, repeats.output_agreement) for text, _, repeats in known)
    yield _singles(
        "consistency_output_agreement", ((t, share) for t, share in agreed if share is not None)
    )
    points = ((text, found.divergence_point) for text, found, _ in known)
    yield _singles(
        "consistency_divergence_point", ((t, point) for t, point in points if point is not None)
    )
    yield _singles(
        "consistency_ac",
        (
            (f'{text},rule="{rule}"', getattr(found, f"ac_{rule}"))
            for text, found, repeats in known
            if repeats.with_arguments
            for rule in ("paper", "repository")
        ),
    )


_DRIFT_COUNTS = {
    "unexpected_writes": "unexpected_writes",
    "paging_writes": "paging_writes",
    "first_two_diverged": "first_two",
    "missing_writes": "missing_writes",
}

_DRIFT_SPREADS = {"divergence_step": "steps", "session_risk_ratio": "risks"}


def _latest(drift: Drift, keys: Sequence[Way | str]) -> Mapping[int, tuple[Exemplar, float]]:
    """The exemplars of some counters, by the place of their line."""
    found = drift.exemplars
    return {place: (found[key], 1.0) for place, key in enumerate(keys) if key in found}


def _drift(known: list[tuple[str, Drift]]) -> Iterator[Family]:
    """Gauges over the last finished sessions; a pair without any has no sample."""
    yield _singles("reference_sessions", ((t, d.sessions) for t, d in known))
    yield _singles(
        "reference_sessions_diverged_ratio",
        (
            (f"{t},{labels}", d.ways[way] / d.sessions)
            for t, d in known
            for labels, way in zip(_WAYS, WAYS, strict=True)
        ),
    )
    yield _singles("reference_similarity", ((t, d.similarity) for t, d in known if d.similar))
    yield _singles(
        "reference_new_tools_ratio", ((t, d.new_tools / d.sessions) for t, d in known)
    )
    yield _singles(
        "reference_new_arguments_ratio",
        ((t, d.new_arguments / d.sessions) for t, d in known),
    )


def _means(pairs: _Pairs) -> Iterator[Family]:
    """Live means; a pair without sessions has no sample, rather than a zero that means nothing."""
    known = [(text, pair) for text, pair in pairs if pair.sessions]
    yield _singles("harm_rate", ((t, mean(p.harm_rate, p.sessions)) for t, p in known))
    yield _singles(
        "prefix_crit",
        (
            (f'{t},beta="{p.beta:g}"', mean(p.prefix_crit, p.sessions))
            for t, p in known
            if p.sessions
        ),
    )
    yield _singles("harmful_calls_per_session", ((t, p.harmful / p.sessions) for t, p in known))
    yield _singles("session_score_window_sessions", ((t, p.sessions) for t, p in pairs))
    yield _singles("session_score_window_calls", ((t, p.scored_calls) for t, p in pairs))
    yield _singles("sessions_without_harm_ratio", ((t, p.clean / p.sessions) for t, p in known))


def _worst(pairs: _Pairs, worst: list[Share]) -> Iterator[Family]:
    """The worst live session of each pair, and the worst of all by place."""
    known = [(text, pair) for text, pair in pairs if pair.sessions and pair.active]
    one = fixed(1.0)
    yield _singles(
        "harm_rate_max",
        (
            (t, mean(top.share.harm_rate, 1) if (top := p.worst.first()) else 0.0)
            for t, p in known
        ),
    )
    yield _singles(
        "prefix_crit_min",
        (
            (t, mean(top.share.prefix_crit if (top := p.worst_prefix_crit.first()) else one, 1))
            for t, p in known
        ),
    )
    ranked = [(f'rank="{rank}"', share) for rank, share in enumerate(worst)]
    yield _singles("worst_session_harm_rate", ((t, mean(s.harm_rate, 1)) for t, s in ranked))
    yield _singles(
        "worst_session_prefix_crit", ((t, mean(s.prefix_crit, 1)) for t, s in ranked)
    )
    yield _singles("worst_session_harmful_calls", ((t, s.harmful) for t, s in ranked))


_SPREADS = {
    **{spread_family(name): name for name in SPREADS},
    "session_length_calls": "calls",
}


def _finished_means(pairs: _Pairs) -> Iterator[Family]:
    for name, score in SCORES.items():
        if not score.mean:
            continue
        found = ((text, *pair.scores.get(name, (0, 0))) for text, pair in pairs)
        yield _singles(score.family, ((text, mean(total, n)) for text, total, n in found if n))


def _spreads(pairs: _Pairs) -> Iterator[Family]:
    for name, score in _SPREADS.items():
        known = ((text, pair.spreads[score]) for text, pair in pairs if score in pair.spreads)
        row, full = TABLE[name], f"offrails_{name}"
        yield Family(full, row.kind, row.help, (_buckets(full, s, text) for text, s in known))


_VERDICTS = tuple(f'verdict="{kind.value}"' for kind in CALL_KINDS)
_OUTCOMES = tuple(f'outcome="{outcome}"' for outcome in OUTCOMES)


def _counts(pairs: _Pairs) -> Iterator[Family]:
    judged = (
        (t, p, sum(p.calls.values()) - p.calls[Kind.CONTROL])
        for t, p in pairs
        if p.drift is None
    )
    yield _singles(
        "harmful_call_ratio", ((t, p.calls[Kind.HARMFUL] / n) for t, p, n in judged if n)
    )
    yield _singles("sessions_active", ((t, p.active) for t, p in pairs))
    yield _singles("sessions_started", ((t, p.started) for t, p in pairs))
    yield _singles("sessions_joined", ((t, p.joined) for t, p in pairs))
    yield _singles("possible_harm", ((t, p.possible) for t, p in pairs))
    yield _singles("compensations", ((t, p.compensations) for t, p in pairs))
    yield _singles("calls_late", ((t, p.late) for t, p in pairs))
    dropped = ((t, p.things_dropped) for t, p in pairs if p.things_dropped)
    yield _singles("things_dropped", dropped)
    name = "sessions_finished"
    yield _grouped(
        name,
        (_several(name, _OUTCOMES, t, _each(p.outcomes, OUTCOMES)) for t, p in pairs),
    )
    yield _grouped(
        "calls",
        (
            _several("calls", _VERDICTS, t, _each(p.calls, CALL_KINDS), _marks(p, CALL_KINDS))
            for t, p in pairs
        ),
    )
    yield _family(
        "verdict_revisions",
        (
            ("", f'{t},from="{old.value}",to="{new.value}"', count)
            for t, p in pairs
            for (old, new), count in sorted(p.revisions.items())
        ),
    )


def _grouped(name: str, samples: Iterable[str | ExemplarLines]) -> Family:
    row = TABLE[name]
    return Family(f"offrails_{name}", row.kind, row.help, samples)


def _marks(
    pair: Pair, keys: Sequence[Kind] | Sequence[tuple[Reason, str]]
) -> dict[int, tuple[Exemplar, float]]:
    """Exemplars of counters, by the place of their line."""
    known = pair.exemplars
    return {place: (known[key], 1.0) for place, key in enumerate(keys) if key in known}


class _Harms(NamedTuple):
    """What harmful calls can be, under one spec."""

    keys: tuple[tuple[Reason, str], ...]
    labels: tuple[str, ...]


@cache
def _harms(severities: tuple[str, ...]) -> _Harms:
    keys = tuple((reason, severity) for severity in severities for reason in Reason)
    labels = tuple(
        f'reason="{reason.value}",severity="{severity}"' for reason, severity in keys
    )
    return _Harms(keys, labels)


_OBSTACLES = tuple(
    f'verdict="{kind.value}",reason="{obstacle.value}"' for kind, obstacle in SESSION_VERDICTS
)


def _session_verdicts(pairs: _Pairs) -> Iterator[Family]:
    """Of pairs whose specs have limits, from zero on; of all others there are none."""
    name = "session_verdicts"
    yield _grouped(
        name,
        (
            _several(name, _OBSTACLES, t, _each(p.session_verdicts, SESSION_VERDICTS))
            for t, p in pairs
            if p.bounded
        ),
    )


def _harmful(pairs: _Pairs) -> Iterator[Family]:
    """Every reason and severity the pair's spec can give, from zero on.

    A counter born at 1 is invisible to Prometheus' rate() and increase().
    """
    found = ((t, p, _harms(p.severities)) for t, p in pairs)
    yield _grouped("harmful_calls", (_final(t, p, harms) for t, p, harms in found))
    first = "harmful_calls_provisional"
    known = ((t, p.provisional, _harms(p.severities)) for t, p in pairs)
    yield _grouped(
        first,
        (_several(first, h.labels, t, _each(counted, h.keys)) for t, counted, h in known),
    )


def _final(labels: str, pair: Pair, harms: _Harms) -> str | ExemplarLines:
    marks = _marks(pair, harms.keys) if pair.final else None
    values = _each(pair.final, harms.keys)
    return _several("harmful_calls", harms.labels, labels, values, marks)


_Key = TypeVar("_Key")


def _each(counted: Mapping[_Key, int], keys: Iterable[_Key]) -> Iterable[int] | None:
    """What was counted by key; None if nothing was."""
    return [counted.get(key, 0) for key in keys] if counted else None


def _by_tool(totals: Totals, binder: SpecBinder) -> Iterator[tuple[tuple[str, ...], float]]:
    """Tools of the loaded specs from zero on, and what has been counted."""
    wanted = dict.fromkeys(totals.by_tool)
    for judge in binder.judges.values():
        tools = sorted(set(judge.spec.alphabet.tools))[:TOOLS_MAX]
        wanted |= dict.fromkeys((judge.spec.id, tool) for tool in (*tools, UNKNOWN_TOOL))
    return ((key, totals.by_tool[key]) for key in sorted(wanted))
