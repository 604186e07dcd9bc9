"""Sums -> Prometheus families. All names, helps and labels are in one table.

A scrape renders what is already summed; it never walks sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Literal, NamedTuple

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from monitor.binder import Binder
from monitor.records import PROFILES, Conventions, Kind, Reason
from monitor.spec.spec import Spec
from monitor.totals import Pair, Totals, mean

__all__ = ["TABLE", "Described", "family", "histogram", "monitor_families"]


class Described(NamedTuple):
    """One row of the table of metrics; the name is without `offrails_` and `_total`."""

    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str


_PAIR = ("agent", "spec")

TABLE: Mapping[str, Described] = {
    # CORE, live: mean over sessions alive now or finished within the hold time.
    "harm_rate": Described(
        "gauge",
        _PAIR,
        "Mean HarmRate (harmful / substantive steps, CORE eq. 7) of sessions in the window.",
    ),
    "prefix_crit": Described(
        "gauge",
        (*_PAIR, "beta"),
        "Mean PrefixCrit (CORE eq. 6; 1 = no harm, 0 = every step harmful) of sessions in the window.",
    ),
    "harmful_calls_per_session": Described(
        "gauge", _PAIR, "Mean H (harmful calls) of sessions in the window."
    ),
    "session_score_window_sessions": Described(
        "gauge", _PAIR, "Sessions behind the live means."
    ),
    "harmful_call_ratio": Described(
        "gauge", _PAIR, "Harmful calls / all judged calls, by first verdicts, since the start."
    ),
    # CORE, over the finished sessions of the window.
    "path_correctness": Described(
        "gauge", _PAIR, "Mean PC (CORE eq. 4) of sessions finished in the window."
    ),
    "path_correctness_ktc": Described(
        "gauge", _PAIR, "Mean PC-KTC (CORE eq. 5) of sessions finished in the window."
    ),
    "path_correctness_hlr": Described(
        "gauge", _PAIR, "Mean PC+HLR (CORE section 4) of sessions finished in the window."
    ),
    "efficiency": Described(
        "gauge",
        _PAIR,
        "Mean Efficiency (CORE eq. 8) of sessions finished in the window, where defined.",
    ),
    # Sessions and calls.
    "sessions_active": Described("gauge", _PAIR, "Live sessions."),
    "sessions_started": Described(
        "counter", _PAIR, "Sessions seen, counted when their first verdicts are final."
    ),
    "sessions_finished": Described(
        "counter", (*_PAIR, "outcome"), "Sessions ended, by outcome."
    ),
    "sessions_joined": Described(
        "counter", _PAIR, "Sessions whose first calls were not seen, counted with the session."
    ),
    "sessions_ended": Described("counter", ("cause",), "Sessions ended, by cause."),
    "calls": Described(
        "counter", (*_PAIR, "verdict"), "Judged calls, each once, by its first verdict."
    ),
    "verdict_revisions": Described(
        "counter",
        (*_PAIR, "from", "to"),
        "Verdicts changed because an earlier call arrived later.",
    ),
    "harmful_calls": Described(
        "counter",
        (*_PAIR, "reason", "severity"),
        "Harmful calls by their final verdict, given when the reordering window has passed.",
    ),
    "harmful_calls_provisional": Described(
        "counter",
        (*_PAIR, "reason", "severity"),
        "Calls raised as harmful for the first time, at once.",
    ),
    "compensations": Described(
        "counter", _PAIR, "Calls undone by their marked undo, in finished sessions."
    ),
    "calls_late": Described(
        "counter", ("agent", "spec"), "Calls that came after their place was folded."
    ),
    "steps_folded_young": Described(
        "counter", (), "Steps folded before the window had passed, in a burst of one session."
    ),
    "label_overflow": Described(
        "counter", ("label",), "Label values folded into __overflow__ at the bound."
    ),
    # Specs.
    "spec_info": Described(
        "gauge",
        ("spec", "version", "kind", "mode", "conventions", "sha256_8"),
        "A loaded spec; always 1.",
    ),
    "build_info": Described("gauge", ("version", "python"), "This program; always 1."),
    # The receiver and the pipeline.
    "ingest_requests": Described(
        "counter", ("transport", "signal", "code"), "Requests answered, by gRPC or HTTP code."
    ),
    "ingest_spans": Described(
        "counter", ("transport", "result"), "Spans received: accepted or rejected."
    ),
    "ingest_bytes": Described("counter", ("transport",), "Bytes of request bodies received."),
    "internal_errors": Described(
        "counter", ("error",), "Faults of this program while it took spans, by type."
    ),
    "sessions_split": Described(
        "counter", (), "Traces whose session was learnt too late to join their calls to it."
    ),
    "spans_dropped": Described(
        "counter",
        ("reason",),
        "Spans not judged because they were late, too many, or seen before.",
    ),
    "calls_not_judged": Described(
        "counter", ("reason",), "Tool calls that no spec judged, by reason."
    ),
    "arguments_unreadable": Described(
        "counter",
        ("dialect",),
        "Calls judged without their arguments, which could not be read.",
    ),
    "verdict_latency_seconds": Described(
        "histogram", ("transport",), "From the receipt of a request to its last verdict."
    ),
    "span_lag_seconds": Described(
        "histogram", (), "From the end of a tool call's span to its receipt."
    ),
}

_FAMILIES: Mapping[str, type[CounterMetricFamily] | type[GaugeMetricFamily]] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
}


def family(name: str, samples: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    """A counter or gauge family of the table, with a sample for each label tuple."""
    row = TABLE[name]
    made = _FAMILIES[row.kind](f"offrails_{name}", row.help, labels=row.labels)
    for labels, value in samples:
        made.add_metric(labels, value)
    return made


def histogram(
    name: str, samples: Iterable[tuple[tuple[str, ...], list[tuple[str, float]], float]]
) -> Metric:
    """A histogram family; a sample is (labels, cumulative buckets, sum)."""
    row = TABLE[name]
    made = HistogramMetricFamily(f"offrails_{name}", row.help, labels=row.labels)
    for labels, buckets, total in samples:
        made.add_metric(labels, buckets, total)
    return made


def monitor_families(
    totals: Totals, binder: Binder, ended: Mapping[str, int]
) -> Iterator[Metric]:
    """Families of what the monitor knows."""
    pairs = list(totals.pairs.values())
    yield from _means(pairs)
    yield from _finished_means(pairs)
    yield from _counts(pairs)
    yield family("sessions_ended", (((cause,), count) for cause, count in ended.items()))
    yield family("label_overflow", [(("agent_spec",), totals.overflowed)])
    yield family(
        "spec_info", (((*_spec_labels(judge.spec),), 1) for judge in binder.judges.values())
    )


def _spec_labels(spec: Spec) -> tuple[str, ...]:
    conventions = _conventions(spec.conventions)
    return spec.id, spec.version, spec.kind, spec.mode, conventions, spec.sha256_8


def _conventions(rules: Conventions) -> str:
    """The profile, and what differs from it: two results are comparable where this is equal."""
    ours, theirs = asdict(rules), asdict(PROFILES[rules.profile])
    changed = [f"{key.rstrip('_')}={ours[key]}" for key in ours if ours[key] != theirs[key]]
    return "+".join([rules.profile, *changed])


def _means(pairs: list[Pair]) -> Iterator[Metric]:
    """Live means; a pair without sessions has no sample, rather than a zero that means nothing."""
    known = [pair for pair in pairs if pair.sessions]
    yield family(
        "harm_rate",
        (((p.agent, p.spec), mean(p.harm_rate, p.sessions)) for p in known),
    )
    yield family(
        "prefix_crit",
        (((p.agent, p.spec, f"{p.beta:g}"), mean(p.prefix_crit, p.sessions)) for p in known),
    )
    yield family(
        "harmful_calls_per_session",
        (((p.agent, p.spec), p.harmful / p.sessions) for p in known),
    )
    yield family(
        "session_score_window_sessions", (((p.agent, p.spec), p.sessions) for p in pairs)
    )


_FINISHED = {
    "path_correctness": "pc",
    "path_correctness_ktc": "pc_ktc",
    "path_correctness_hlr": "pc_hlr",
    "efficiency": "efficiency",
}


def _finished_means(pairs: list[Pair]) -> Iterator[Metric]:
    for name, score in _FINISHED.items():
        found = ((pair, pair.scores.get(score, (0, 0))) for pair in pairs)
        yield family(
            name,
            (((p.agent, p.spec), mean(total, count)) for p, (total, count) in found if count),
        )


def _counts(pairs: list[Pair]) -> Iterator[Metric]:
    judged = [(p, sum(p.calls.values()) - p.calls[Kind.CONTROL]) for p in pairs]
    yield family(
        "harmful_call_ratio",
        (((p.agent, p.spec), p.calls[Kind.HARMFUL] / n) for p, n in judged if n),
    )
    yield family("sessions_active", (((p.agent, p.spec), p.active) for p in pairs))
    yield family("sessions_started", (((p.agent, p.spec), p.started) for p in pairs))
    yield family("sessions_joined", (((p.agent, p.spec), p.joined) for p in pairs))
    yield family("compensations", (((p.agent, p.spec), p.compensations) for p in pairs))
    yield family("calls_late", (((p.agent, p.spec), p.late) for p in pairs))
    yield family(
        "sessions_finished",
        (
            ((p.agent, p.spec, outcome), count)
            for p in pairs
            for outcome, count in sorted(p.outcomes.items())
        ),
    )
    yield family(
        "calls",
        (((p.agent, p.spec, kind.value), n) for p in pairs for kind, n in p.calls.items()),
    )
    yield family(
        "verdict_revisions",
        (
            ((p.agent, p.spec, old.value, new.value), count)
            for p in pairs
            for (old, new), count in sorted(p.revisions.items())
        ),
    )
    yield family("harmful_calls", _by_reason(pairs, "final"))
    yield family("harmful_calls_provisional", _by_reason(pairs, "provisional"))


def _by_reason(
    pairs: list[Pair], which: Literal["final", "provisional"]
) -> Iterator[tuple[tuple[str, ...], float]]:
    """Every reason and severity the pair's spec can give, from zero on.

    A counter born at 1 is invisible to Prometheus' rate() and increase().
    """
    for pair in pairs:
        counted = pair.final if which == "final" else pair.provisional
        for severity in pair.severities:
            for reason in Reason:
                labels = (pair.agent, pair.spec, reason.value, severity)
                yield labels, counted[reason, severity]
