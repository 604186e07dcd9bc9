"""The metrics of the library: their names, kinds, labels and descriptions, in one table.

To add a metric of the library, add a row to `TABLE` and make its samples in
`monitor.exposition.metric_samples`. Metrics of the service are in `collector.metrics.service_table`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from monitor.exposition.family import MetricDescription
from monitor.scores.score_records import SCORES, SPREADS

__all__ = ["PAIR", "TABLE", "spread_family"]


PAIR: Final = ("agent", "spec")
"""Labels of the families by agent and spec; `namespace` may follow."""


def spread_family(score: str) -> str:
    """The histogram of a score over finished sessions."""
    return f"session_{SCORES[score].family}_ratio"


TABLE: Mapping[str, MetricDescription] = {
    # CORE, live: mean over sessions alive now or finished within the hold time.
    "harm_rate": MetricDescription(
        "gauge",
        PAIR,
        "Mean HarmRate (harmful / substantive steps, CORE eq. 7) of sessions in the window.",
    ),
    "prefix_crit": MetricDescription(
        "gauge",
        (*PAIR, "beta"),
        "Mean PrefixCrit (CORE eq. 6; 1 = no harm, 0 = every step harmful) of sessions in the window.",
    ),
    "harmful_calls_per_session": MetricDescription(
        "gauge", PAIR, "Mean H (harmful calls) of sessions in the window."
    ),
    "session_score_window_sessions": MetricDescription(
        "gauge", PAIR, "Sessions behind the live means."
    ),
    "session_score_window_calls": MetricDescription(
        "gauge", PAIR, "Calls of the sessions behind the live means."
    ),
    "sessions_without_harm_ratio": MetricDescription(
        "gauge", PAIR, "Share of the sessions in the window that did no harm."
    ),
    "harm_rate_max": MetricDescription(
        "gauge", PAIR, "Highest HarmRate of a live session: is one bad one hidden in the mean?"
    ),
    "prefix_crit_min": MetricDescription("gauge", PAIR, "Lowest PrefixCrit of a live session."),
    "worst_session_harm_rate": MetricDescription(
        "gauge",
        ("rank",),
        "HarmRate of the worst live sessions (rank 0 is the worst, by HarmRate, then H).",
    ),
    "worst_session_prefix_crit": MetricDescription(
        "gauge", ("rank",), "PrefixCrit of the session at the same rank."
    ),
    "worst_session_harmful_calls": MetricDescription(
        "gauge", ("rank",), "Harmful calls of the session at the same rank."
    ),
    "harmful_call_ratio": MetricDescription(
        "gauge", PAIR, "Harmful calls / all judged calls, by first verdicts, since the start."
    ),
    # CORE, over the finished sessions of the window.
    **{
        score.family: MetricDescription("gauge", PAIR, score.mean)
        for score in SCORES.values()
        if score.mean
    },
    # CORE, over all finished sessions.
    **{
        spread_family(name): MetricDescription("histogram", PAIR, spread.help)
        for name, spread in SPREADS.items()
    },
    "session_length_calls": MetricDescription("histogram", PAIR, "Calls of finished sessions."),
    # Sessions and calls.
    "sessions_active": MetricDescription("gauge", PAIR, "Live sessions."),
    "sessions_started": MetricDescription(
        "counter", PAIR, "Sessions seen, counted when their first verdicts are final."
    ),
    "sessions_finished": MetricDescription(
        "counter", (*PAIR, "outcome"), "Sessions ended, by outcome."
    ),
    "sessions_joined": MetricDescription(
        "counter", PAIR, "Sessions whose first calls were not seen, counted with the session."
    ),
    "sessions_without_calls": MetricDescription(
        "counter", (), "Sessions that were heard of, and ended without a single tool call."
    ),
    "sessions_ended": MetricDescription("counter", ("cause",), "Sessions ended, by cause."),
    "calls": MetricDescription(
        "counter", (*PAIR, "verdict"), "Judged calls, each once, by its first verdict."
    ),
    "verdict_revisions": MetricDescription(
        "counter",
        (*PAIR, "from", "to"),
        "Verdicts changed because an earlier call arrived later.",
    ),
    "session_verdicts": MetricDescription(
        "counter",
        (*PAIR, "verdict", "reason"),
        "Sessions that can no longer finish (trap, deadline) or stood still (idle), final, for "
        "specs that have such limits.",
    ),
    "harmful_calls": MetricDescription(
        "counter",
        (*PAIR, "reason", "severity"),
        "Harmful calls by their final verdict, given when the reordering window has passed.",
    ),
    "harmful_calls_provisional": MetricDescription(
        "counter",
        (*PAIR, "reason", "severity"),
        "Calls raised as harmful for the first time, at once.",
    ),
    "possible_harm": MetricDescription(
        "counter",
        PAIR,
        "Calls that are harmful unless something was missed or is in doubt, once each; not in harmful_calls.",
    ),
    "harmful_calls_by_tool": MetricDescription(
        "counter",
        ("spec", "tool"),
        "Harmful calls by their final verdict and tool; a tool the spec does not name is __unknown__.",
    ),
    # Learnt references. Counters are of what is final.
    "divergences": MetricDescription(
        "counter",
        (*PAIR, "phase", "kind"),
        "Sessions that diverged from their learnt reference, by their first divergence.",
    ),
    "unexpected_writes": MetricDescription(
        "counter", PAIR, "Calls that wrote what no seen run of the reference has written."
    ),
    "paging_writes": MetricDescription(
        "counter",
        PAIR,
        "Unexpected writes that are worth a page: by a tool of no usual run, or against what usual runs agree on.",
    ),
    "first_two_diverged": MetricDescription(
        "counter", PAIR, "Sessions whose first two tools are not those of the medoid."
    ),
    "missing_writes": MetricDescription(
        "counter", PAIR, "Sessions that ended without a write that every seen run made."
    ),
    "divergence_step": MetricDescription(
        "histogram", PAIR, "Number of the call that first diverged, from 1."
    ),
    "session_risk_ratio": MetricDescription(
        "histogram", PAIR, "Risk of finished sessions that they fail, by what the runs taught."
    ),
    "reference_runs": MetricDescription(
        "gauge",
        ("spec",),
        "Seen runs that a loaded reference rests on; one alone pages nobody.",
    ),
    "risk_max": MetricDescription("gauge", PAIR, "Highest risk of a live session."),
    "reference_sessions": MetricDescription(
        "gauge", PAIR, "The last finished sessions, 100 at most, behind the shares below."
    ),
    "reference_sessions_diverged_ratio": MetricDescription(
        "gauge",
        (*PAIR, "phase", "kind"),
        "Share of the last sessions that first diverged from the reference this way.",
    ),
    "reference_similarity": MetricDescription(
        "gauge",
        PAIR,
        "Mean TSS (papers/002 definition 3) of the last sessions' tools and the medoid's.",
    ),
    "reference_new_tools_ratio": MetricDescription(
        "gauge", PAIR, "Share of the last sessions with a tool that no learning run called."
    ),
    "reference_new_arguments_ratio": MetricDescription(
        "gauge",
        PAIR,
        "Share of the last sessions with arguments that no seen run gave a known tool.",
    ),
    # Consistency of repeated sessions (papers/002 section 3.2): the last 10 of a sample.
    "consistency_sessions": MetricDescription(
        "gauge", PAIR, "Finished sessions that are compared with each other, 10 at most."
    ),
    "consistency_tss": MetricDescription(
        "gauge", PAIR, "Mean TSS (papers/002 definition 3) of pairs of these sessions."
    ),
    "consistency_ac": MetricDescription(
        "gauge",
        (*PAIR, "rule"),
        "Mean AC (definition 4) of these pairs, where all arguments are on the wire; steps of different tools count 0 (paper) or are compared (repository).",
    ),
    "consistency_unique_sequences": MetricDescription(
        "gauge", PAIR, "Different sequences of tools among these sessions."
    ),
    "consistency_first_two_agreement": MetricDescription(
        "gauge", PAIR, "Share of these pairs whose first two tools are the same."
    ),
    "consistency_output_agreement": MetricDescription(
        "gauge",
        PAIR,
        "Share of these pairs whose last answers are the same, where both told one.",
    ),
    "consistency_divergence_point": MetricDescription(
        "gauge", PAIR, "Mean call, from 1, at which a pair first differs, of those that do."
    ),
    "compensations": MetricDescription(
        "counter", PAIR, "Calls undone by their marked undo, in finished sessions."
    ),
    "calls_late": MetricDescription(
        "counter", ("agent", "spec"), "Calls that came after their place was folded."
    ),
    "things_dropped": MetricDescription(
        "counter",
        ("agent", "spec"),
        "Things of specs with `each` that one session does not know any more, because it had more than `sessions.things_max`, or that sessions had in common beyond `sessions.shared_things_max` or `sessions.max_shared_things_bytes`: one that comes back is read as joined.",
    ),
    "calls_out_of_order": MetricDescription(
        "counter",
        (),
        "Calls that arrived after one that began later, under each spec of theirs.",
    ),
    "spans_skewed": MetricDescription(
        "counter",
        (),
        "Calls that by their clocks began before the call they are a part of, or ended over 60 seconds after they were received, or over a second in a session with several clocks, or began there over a second before what has caused them, or whose times are missing or contradict the order in which they were received: hosts' clocks differ, or were set.",
    ),
    "shown_arguments_given_up": MetricDescription(
        "counter",
        (),
        "Calls whose arguments are not shown any more (`show_arguments`): live sessions were over `sessions.max_bytes`, or memory was scarce.",
    ),
    "sessions_resumed": MetricDescription(
        "counter",
        (),
        "Sessions that went on when their state was gone: they are read as joined.",
    ),
    "sessions_unremembered": MetricDescription(
        "counter",
        (),
        "Ended sessions of which nothing is remembered: one that goes on passes as new.",
    ),
    "values_dropped": MetricDescription(
        "counter",
        (),
        "Calls whose values rules over data (`from`, `not_from`, `remember`) do not know any more, because one session had too many: what is not found among the others is unknown.",
    ),
    "orders_left_out": MetricDescription(
        "counter",
        (),
        "Times that overlapping calls were judged with more orders possible than are tried.",
    ),
    "doubts": MetricDescription(
        "counter",
        ("cause",),
        "Gaps in what was seen, and calls that may not be what they seem, by cause.",
    ),
    "gaps_merged": MetricDescription(
        "counter",
        (),
        "Times that two gaps in what was seen became one, because there were too many: it reaches more sessions.",
    ),
    "sessions_read_in_parts": MetricDescription(
        "counter",
        (),
        "Sessions that ended while more was possible than their spec's constraints can be read together for.",
    ),
    "steps_folded_young": MetricDescription(
        "counter", (), "Steps folded before the window had passed, in a burst of one session."
    ),
    "label_overflow": MetricDescription(
        "counter", ("label",), "Label values folded into __overflow__ at the bound."
    ),
    # Specs.
    "spec_info": MetricDescription(
        "gauge",
        ("spec", "version", "kind", "mode", "conventions", "sha256_8"),
        "A loaded spec; always 1.",
    ),
}
