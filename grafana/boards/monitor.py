"""The board of the monitor itself: whether it sees everything, in time, and reaches people."""

from __future__ import annotations

from typing import Final

from grafana.boards.queries import (
    ANY_IS_BAD,
    INSTANCE,
    JOB,
    NEWS,
    PLAIN,
    PROCESS,
    of_processes,
    rate,
    rate_by,
)
from grafana.panels import AMBER, GREEN, GREY, RED, Board, Panel, Row, Target

__all__ = ["MONITOR_BOARD"]


def _health_stats() -> Row:
    lost = f"sum(increase({of_processes('spans_dropped_total', NEWS)}[$__range]))"
    return Row(
        (
            Panel(
                "Up",
                "stat",
                "Share of the chosen processes that answer. Below 1 calls go unseen.",
                "percentunit",
                (Target(f"avg(up{{{PROCESS}}})"),),
                4,
                ((None, RED), (1, GREEN)),
            ),
            Panel(
                "Version",
                "table",
                "Two versions at once: a rollout is under way, or stuck.",
                "none",
                (
                    Target(
                        f"count by (version, python) ({of_processes('build_info')})",
                        instant=True,
                    ),
                ),
                4,
                PLAIN,
                columns={"Value": ("Processes", "short", PLAIN)},
            ),
            Panel(
                "Spans not judged",
                "stat",
                "Dropped in the time shown. Each may hide a harmful call: see the reasons below.",
                "short",
                (Target(lost),),
                4,
                ANY_IS_BAD,
                decimals=0,
                may_be_empty=True,
            ),
            Panel(
                "Verdict latency p99",
                "stat",
                "From the receipt of a request to its last verdict.",
                "s",
                (
                    Target(
                        "histogram_quantile(0.99, sum by (le) ("
                        f"{rate(of_processes('verdict_latency_seconds_bucket'))}))"
                    ),
                ),
                4,
                ((None, GREEN), (0.01, AMBER), (0.1, RED)),
            ),
            Panel(
                "Last spec load",
                "stat",
                "0: the last change of a spec was refused, and the version before it judges on.",
                "bool_on_off",
                (Target(f"min({of_processes('spec_last_reload_successful')})"),),
                4,
                ((None, RED), (1, GREEN)),
            ),
            Panel(
                "Internal errors",
                "stat",
                "Faults of the monitor in the time shown. Report them.",
                "short",
                (Target(f"sum(increase({of_processes('internal_errors_total')}[$__range]))"),),
                4,
                ANY_IS_BAD,
                decimals=0,
                may_be_empty=True,
            ),
        ),
        5,
    )


def _intake() -> Row:
    codes = rate(of_processes("ingest_requests_total", 'code!~"OK|2.."'))
    return Row(
        (
            Panel(
                "Spans received",
                "timeseries",
                "By transport and result. Nothing at all while agents work: their exporters point elsewhere.",
                "cps",
                (
                    Target(
                        f"sum by (transport, result) ({rate(of_processes('ingest_spans_total'))})",
                        "{{transport}} {{result}}",
                    ),
                ),
                8,
                stack=True,
                low=0,
            ),
            Panel(
                "Refused requests",
                "timeseries",
                "By gRPC or HTTP code. Retryable ones come again; the others need the sender mended.",
                "reqps",
                (
                    Target(
                        f"sum by (transport, code) ({codes})",
                        "{{transport}} {{code}}",
                    ),
                ),
                8,
                low=0,
            ),
            Panel(
                "Dropped and not judged",
                "timeseries",
                "By reason: late, too many, seen before, no spec. Which limit, or which spec, is missing?",
                "cps",
                (
                    Target(
                        f"sum by (reason) ({rate(of_processes('spans_dropped_total'))})",
                        "dropped: {{reason}}",
                    ),
                    Target(
                        f"sum by (reason) ({rate(of_processes('coverage_total'))})",
                        "not judged: {{reason}}",
                    ),
                ),
                8,
                low=0,
            ),
        ),
        8,
        "Is everything seen?",
    )


def _times() -> Row:
    def quantiles(metric: str) -> tuple[Target, ...]:
        return tuple(
            Target(
                f"histogram_quantile({q}, sum by (le) ({rate(of_processes(metric + '_bucket'))}))",
                f"p{q * 100:g}",
            )
            for q in (0.5, 0.99, 0.999)
        )

    return Row(
        (
            Panel(
                "Verdict latency",
                "timeseries",
                "Our part of the way. Above 10 ms: the process lacks CPU.",
                "s",
                quantiles("verdict_latency_seconds"),
                8,
                ((None, "transparent"), (0.01, AMBER)),
                low=0,
            ),
            Panel(
                "Age of spans at receipt",
                "timeseries",
                "The senders' part: exporters wait up to 5 s for company (OTEL_BSP_SCHEDULE_DELAY).",
                "s",
                quantiles("span_lag_seconds"),
                8,
                low=0,
            ),
            rate_by(
                "from",
                "verdict_revisions_total",
                title="Revised verdicts",
                why="Spans overtake each other. Many revisions: senders batch too long, or clocks differ.",
                unit="cps",
                may_be_empty=True,
            ),
        ),
        8,
        "Is it in time?",
    )


def _decisions() -> Row:
    denied = of_processes("decisions_total", 'decision="deny"')
    return Row(
        (
            Panel(
                "Decisions before calls",
                "timeseries",
                "By what clients were told. Look at would_deny before you let a spec block; many unknown: outcomes or spans come late.",
                "cps",
                (
                    Target(
                        f"sum by (decision) ({rate(of_processes('decisions_total'))})",
                        "{{decision}}",
                    ),
                ),
                8,
                colours={"allow": GREEN, "unknown": GREY, "would_deny": AMBER, "deny": RED},
                stack=True,
                low=0,
            ),
            Panel(
                "Decision latency",
                "timeseries",
                "From the receipt of a question to its answer. An alert fires at a p99 above 10 ms; clients wait 50 ms by default.",
                "s",
                tuple(
                    Target(
                        f"histogram_quantile({q}, sum by (le) ({rate(of_processes('decision_seconds_bucket'))}))",
                        f"p{q * 100:g}",
                    )
                    for q in (0.5, 0.99)
                ),
                8,
                ((None, "transparent"), (0.01, AMBER)),
                low=0,
            ),
            Panel(
                "What becomes of decided calls",
                "timeseries",
                "Denied calls are prevented, but for those that are overruled: made anyway, and harmful. Unconfirmed: allowed, and neither a span nor an outcome came.",
                "short",
                (
                    Target(f"sum(increase({denied}[$__rate_interval]))", "denied"),
                    Target(
                        f"sum(increase({of_processes('decisions_overruled_total')}[$__rate_interval]))",
                        "overruled",
                    ),
                    Target(
                        f"sum(increase({of_processes('decisions_unconfirmed_total')}[$__rate_interval]))",
                        "unconfirmed",
                    ),
                ),
                8,
                colours={"denied": GREEN, "overruled": RED, "unconfirmed": AMBER},
                low=0,
            ),
        ),
        8,
        "What is answered before calls?",
    )


def _alerts() -> Row:
    return Row(
        (
            Panel(
                "Alerts sent",
                "timeseries",
                "By sink and result. Failures: harm is seen and nobody hears of it.",
                "cps",
                (
                    Target(
                        f"sum by (sink, result) ({rate(of_processes('alerts_sent_total'))})",
                        "{{sink}} {{result}}",
                    ),
                ),
                8,
                low=0,
            ),
            Panel(
                "Alert delivery p99",
                "timeseries",
                "How long a sink takes to accept an alert.",
                "s",
                (
                    Target(
                        "histogram_quantile(0.99, sum by (le, sink) ("
                        f"{rate(of_processes('alert_delivery_seconds_bucket'))}))",
                        "{{sink}}",
                    ),
                ),
                8,
                low=0,
            ),
            Panel(
                "Alert queue",
                "timeseries",
                "How full each sink's queue is. Full: the oldest news are dropped, and counted.",
                "percentunit",
                (
                    Target(
                        f"max by (sink) ({of_processes('alert_queue_length')} / {of_processes('alert_queue_capacity')})",
                        "{{sink}}",
                    ),
                ),
                8,
                ((None, "transparent"), (0.8, RED)),
                low=0,
                high=1,
            ),
        ),
        8,
        "Does it reach people?",
    )


def _forward() -> Row:
    held = f"{of_processes('forward_queue_bytes')} / {of_processes('forward_queue_bytes_max')}"
    return Row(
        (
            Panel(
                "Requests to next hops",
                "timeseries",
                "By next hop and outcome. Dropped and refused requests are missing there.",
                "reqps",
                (
                    Target(
                        f"sum by (destination, outcome) ({rate(of_processes('forward_requests_total'))})",
                        "{{destination}} {{outcome}}",
                    ),
                ),
                6,
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Next hop p99",
                "timeseries",
                "From the receipt of a request to the next hop's answer.",
                "s",
                (
                    Target(
                        "histogram_quantile(0.99, sum by (le, destination) ("
                        f"{rate(of_processes('forward_seconds_bucket'))}))",
                        "{{destination}}",
                    ),
                ),
                6,
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Queues of next hops",
                "timeseries",
                "How full each one is. Full: requests are dropped, or their senders are to try again.",
                "percentunit",
                (Target(f"max by (destination) ({held})", "{{destination}}"),),
                6,
                ((None, "transparent"), (0.8, RED)),
                low=0,
                high=1,
                may_be_empty=True,
            ),
            Panel(
                "Next hops that fail",
                "timeseries",
                "1 from an attempt that failed until one is answered.",
                "none",
                (
                    Target(
                        f"1 - min by (destination) ({of_processes('forward_up')})",
                        "{{destination}}",
                    ),
                ),
                6,
                ((None, "transparent"), (0.8, RED)),
                low=0,
                high=1,
                may_be_empty=True,
            ),
        ),
        8,
        "Does it reach the next hops?",
    )


def _journal() -> Row:
    return Row(
        (
            Panel(
                "Journal",
                "timeseries",
                "Bytes of its files, per monitor, and the most that they take. Nothing: no journal is kept.",
                "bytes",
                (
                    Target(of_processes("journal_bytes"), "{{instance}}"),
                    Target(of_processes("journal_bytes_max"), "{{instance}}, most"),
                ),
                6,
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Writes that the disk refused, files that went before their time",
                "timeseries",
                "Refused: by `state.on_error` the request is refused, or judged and lost with the process. Files go where the disk is full, or where somebody else deletes them.",
                "wps",
                (
                    Target(
                        f"sum by (instance) ({rate(of_processes('journal_errors_total'))})",
                        "{{instance}}",
                    ),
                    Target(
                        f"sum by (instance, why) ({rate(of_processes('journal_files_deleted_total'))})",
                        "{{instance}}, files: {{why}}",
                    ),
                ),
                6,
                ((None, "transparent"), (0.001, RED)),
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Spans are refused: the journal cannot be written",
                "timeseries",
                "1 while all spans are refused.",
                "short",
                (Target(of_processes("journal_refusing"), "{{instance}}"),),
                6,
                ((None, "transparent"), (1, RED)),
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "A snapshot is overdue",
                "timeseries",
                "For how long one has been due and was not taken, and how old the last one is. Without one, a restart judges all of the journal again.",
                "s",
                (
                    Target(of_processes("snapshot_overdue_seconds"), "{{instance}}"),
                    Target(
                        f"time() - ({of_processes('snapshot_timestamp_seconds')} > 0)",
                        "{{instance}}, age of the last",
                    ),
                ),
                6,
                ((None, "transparent"), (600, RED)),
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Snapshots",
                "timeseries",
                "By what became of them: ok, failed, or skipped for lack of memory.",
                "ops",
                (
                    Target(
                        f"sum by (instance, result) ({rate(of_processes('snapshots_total'))})",
                        "{{instance}}: {{result}}",
                    ),
                ),
                6,
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Time to judge the journal again",
                "timeseries",
                "Of the latest start. Requests that came meanwhile were judged last.",
                "s",
                (Target(of_processes("journal_recovery_seconds"), "{{instance}}"),),
                6,
                low=0,
                may_be_empty=True,
            ),
            Panel(
                "Down-time before the latest start",
                "timeseries",
                "Above `state.bridged_seconds`, calls may be missing, and sessions that go on count as joined.",
                "s",
                (Target(of_processes("down_seconds"), "{{instance}}"),),
                6,
                low=0,
                may_be_empty=True,
            ),
        ),
        8,
        "Does it survive a restart?",
    )


def _means() -> Row:
    return Row(
        (
            Panel(
                "Memory",
                "timeseries",
                "Resident, by process. It follows live sessions, which are bounded.",
                "bytes",
                (Target(f"process_resident_memory_bytes{{{PROCESS}}}", "{{instance}}"),),
                6,
                low=0,
            ),
            Panel(
                "CPU",
                "timeseries",
                "Cores. One process uses one: near 1 it is time for a second.",
                "none",
                (Target(rate(f"process_cpu_seconds_total{{{PROCESS}}}"), "{{instance}}"),),
                6,
                ((None, "transparent"), (0.8, RED)),
                low=0,
            ),
            Panel(
                "Live and ended sessions",
                "timeseries",
                "Evictions mean that sessions.max is too small for the traffic.",
                "short",
                (
                    Target(f"sum({of_processes('sessions_active')})", "live"),
                    Target(
                        f"sum by (cause) (increase({of_processes('sessions_ended_total')}[$__rate_interval]))",
                        "ended: {{cause}}",
                    ),
                ),
                6,
                low=0,
            ),
            Panel(
                "Series and folded labels",
                "timeseries",
                "Samples of a scrape, and label values folded into __overflow__: raise the bound, or name agents alike.",
                "short",
                (
                    Target(f"scrape_samples_scraped{{{PROCESS}}}", "samples, {{instance}}"),
                    Target(
                        f"sum by (label) (increase({of_processes('label_overflow_total')}[$__rate_interval]))",
                        "folded: {{label}}",
                    ),
                ),
                6,
                low=0,
            ),
        ),
        8,
        "What does it cost?",
    )


MONITOR_BOARD: Final = Board(
    "offrails-monitor",
    "offrails / Monitor",
    "Whether the monitor itself sees everything, in time, and reaches people.",
    (JOB, INSTANCE),
    (
        *(_health_stats(), _intake(), _times(), _decisions(), _alerts(), _forward()),
        *(_journal(), _means()),
    ),
    since="now-3h",
)
