"""Names, kinds, labels and descriptions of the families on /metrics, in one table.

This table has the families of the process: receiver, sinks, reloads of specs. The library describes its own:
scores, sessions, calls, specs (`monitor.exposition.metric_table`). A part with metrics yields
`collector.telemetry.counters.MetricReading`s: the name of a row and its present values.
`collector.metrics.registry` joins rows and readings. To add a metric, add a row here and a reading where
it is counted. prometheus_client provides the families without the prefix `offrails_` (`process_*`, `python_*`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from monitor.exposition.family import MetricDescription
from monitor.exposition.metric_table import TABLE as LIBRARY

__all__ = ["OWN", "TABLE"]

OWN: Final[Mapping[str, MetricDescription]] = {
    # This process, and the specs that it loads.
    "build_info": MetricDescription(
        "gauge",
        ("version", "python", "build"),
        "This program; always 1. `build` is `plain` or `compiled`.",
    ),
    "spec_reloads": MetricDescription(
        "counter",
        ("result",),
        "Times the specs were read anew: success, or failure (all kept).",
    ),
    "spec_load_errors": MetricDescription(
        "counter",
        (),
        "Errors found in spec files that were read anew, or at a start that went on without them.",
    ),
    "spec_last_reload_successful": MetricDescription(
        "gauge",
        (),
        "1 unless spec files were refused: at the last reload, and older specs are in use, or at a start that went on without them.",
    ),
    "spec_last_reload_success_timestamp_seconds": MetricDescription(
        "gauge", (), "When the specs in use were read, Unix time."
    ),
    "standby": MetricDescription(
        "gauge",
        (),
        "1 where the service could not start, receives nothing, and tries again (`specs_on_error: start`).",
    ),
    "telemetry_pushes": MetricDescription(
        "counter",
        ("result",),
        "Pushes of the service's own metrics over OTLP, ok or failed; only where they are pushed.",
    ),
    "telemetry_spans": MetricDescription(
        "counter",
        ("result",),
        "The service's own spans: ok or failed as they were sent over OTLP, dropped above `telemetry.traces_per_second`; only where traces are on.",
    ),
    "internal_errors": MetricDescription(
        "counter", ("error",), "Faults of this program while it took spans, by type."
    ),
    "clock_jumps": MetricDescription(
        "counter",
        (),
        "Times that the wall clock was set by five seconds or more; it ends no session.",
    ),
    "log_lines_dropped": MetricDescription(
        "counter",
        ("reason",),
        "Lines of the log that were lost: too many were waiting for the writer, or standard error refused them.",
    ),
    "memory_bytes": MetricDescription(
        "gauge",
        ("of",),
        "What sessions and spans hold of the process's memory, estimated, by what holds it; see docs/performance.md.",
    ),
    # The journal; only where `state.dir` is set.
    "journal_bytes": MetricDescription("gauge", (), "Bytes of the journal's files."),
    "journal_records": MetricDescription(
        "counter", ("kind",), "Records written to the journal, by kind."
    ),
    "journal_errors": MetricDescription(
        "counter", (), "Writes to the journal that the disk refused."
    ),
    "journal_failing": MetricDescription(
        "gauge", (), "1 from a write to the journal that the disk refused until one succeeds."
    ),
    "journal_bytes_max": MetricDescription(
        "gauge",
        (),
        "Most that its files take: `state.bytes_max`, or what its volume has room for.",
    ),
    "journal_files_deleted": MetricDescription(
        "counter",
        ("why",),
        "Files of the journal that went before their time: full, since the disk was; others, since somebody else deleted them.",
    ),
    "journal_refusing": MetricDescription(
        "gauge", (), "1 while spans are refused, since the journal cannot be written."
    ),
    "journal_replayed": MetricDescription(
        "counter",
        (),
        "Requests of earlier processes that this one has judged again at its start.",
    ),
    "journal_recovery_seconds": MetricDescription(
        "gauge",
        (),
        "How long it took to judge them again; requests that came meanwhile were judged last.",
    ),
    "journal_flaws": MetricDescription(
        "gauge",
        (),
        "Places in the journal that could not be read at the start, torn ends aside.",
    ),
    "journal_gaps": MetricDescription(
        "gauge",
        ("cause",),
        "Times of which spans may be missing, as the start found them: damage in the journal, down-time that senders do not bridge, records of a newer version, and requests that were judged and not written.",
    ),
    "snapshots": MetricDescription(
        "counter",
        ("result",),
        "Snapshots of the state, by what became of them: ok, failed, or skipped, which the log explains.",
    ),
    "snapshot_bytes": MetricDescription("gauge", (), "Size of the last snapshot."),
    "snapshot_seconds": MetricDescription(
        "gauge", (), "How long the last snapshot took, in a process of its own."
    ),
    "snapshot_overdue_seconds": MetricDescription(
        "gauge",
        (),
        "For how long a snapshot has been due and was not taken: skipped or failed.",
    ),
    "snapshot_timestamp_seconds": MetricDescription(
        "gauge", (), "When the last snapshot was taken, Unix time; 0 before the first."
    ),
    "down_seconds": MetricDescription(
        "gauge", (), "From the last record of the process before to the start of this one."
    ),
    # The archive; only where there is one.
    "archive_sessions_written": MetricDescription(
        "counter",
        (),
        "Times that a session was written to the archive: at its end, or at a harm.",
    ),
    "archive_dropped": MetricDescription(
        "counter",
        ("reason",),
        "Sessions that are not in the archive, or not as they are: the queue was full (queue_full), or the file was locked (locked), without room (disk_full), deleted by somebody (deleted), damaged (damaged), of a newer version (newer_schema), or refused them (error); or the database could not be reached (unreachable).",
    ),
    "archive_deleted": MetricDescription(
        "counter",
        ("bound",),
        "Sessions that left the archive for a bound: age, sessions or bytes.",
    ),
    "archive_sessions": MetricDescription("gauge", (), "Sessions in the archive."),
    "archive_bytes": MetricDescription("gauge", (), "Bytes of all files of the archive."),
    "archive_queue_length": MetricDescription(
        "gauge", (), "Sessions that wait to be written to the archive."
    ),
    # The receiver.
    "ingest_requests": MetricDescription(
        "counter", ("transport", "signal", "code"), "Requests answered, by gRPC or HTTP code."
    ),
    "ingest_spans": MetricDescription(
        "counter", ("transport", "result"), "Spans received: accepted or rejected."
    ),
    "ingest_bytes": MetricDescription(
        "counter", ("transport",), "Bytes of request bodies received."
    ),
    "ingest_queue_length": MetricDescription(
        "gauge",
        ("queue",),
        "What is being read and judged now: requests, and bytes of their bodies.",
    ),
    "ingest_queue_capacity": MetricDescription(
        "gauge", ("queue",), "Beyond it senders are told to try again later."
    ),
    "memory_limit_bytes": MetricDescription(
        "gauge",
        (),
        "What the process may take (`memory_limit`, or the cgroup's); requests are refused before it.",
    ),
    "requests_refused": MetricDescription(
        "counter",
        ("reason",),
        "Requests told to try again later, since all places or bytes are taken, or those of their"
        " connection or sender, since memory is scarce, or since a next hop has no room.",
    ),
    "requests_throttled": MetricDescription(
        "counter", ("sender", "reason"), "Requests refused because a token's share was used up."
    ),
    "unread_messages": MetricDescription(
        "counter", ("transport",), "Requests that the transport refused before they were read."
    ),
    "client_disconnects": MetricDescription(
        "counter", ("transport",), "Senders that left before their request was complete."
    ),
    "connections": MetricDescription(
        "gauge", ("listener",), "Open connections, those in their TLS handshake included."
    ),
    "connections_capacity": MetricDescription(
        "gauge",
        ("listener",),
        "How many may be open: the setting, or what the process' file descriptors leave.",
    ),
    "connections_closed": MetricDescription(
        "counter",
        ("cause",),
        "Connections that we closed: crowded, refused, slow, stalled, or no_descriptor.",
    ),
    "reads_deferred": MetricDescription(
        "counter",
        (),
        "Turns in which a connection had sent more than its time allowed: the rest waited.",
    ),
    "tls_handshakes_failed": MetricDescription(
        "counter", ("reason",), "Connections that ended in their TLS handshake, by reason."
    ),
    "certificate_not_before_timestamp_seconds": MetricDescription(
        "gauge", ("listener",), "From when a listener's certificate is valid, Unix time."
    ),
    "certificate_not_after_timestamp_seconds": MetricDescription(
        "gauge",
        ("listener",),
        "When a listener's certificate expires, Unix time; of a chain, the certificate that expires first.",
    ),
    "foreign_protocol": MetricDescription(
        "counter", ("protocol",), "Connections that spoke another protocol than their listener."
    ),
    "http2_errors": MetricDescription(
        "counter",
        ("scope", "code"),
        "Streams and connections of HTTP/2 that we ended for a fault of the client's.",
    ),
    "spans_rejected": MetricDescription(
        "counter",
        ("reason",),
        "Spans left out of their request, as its sender was told: faulty ids or names, or a bound.",
    ),
    "attributes_over_bound": MetricDescription(
        "counter", (), "Attribute values that were to be read, and were too large for it."
    ),
    "record_requests": MetricDescription(
        "counter",
        ("result",),
        "Requests to be recorded: written, or dropped (the queue was full, or the disk refused).",
    ),
    # From spans to verdicts.
    "tool_calls": MetricDescription(
        "counter", ("evidence",), "Tool calls read from spans, by how they are known."
    ),
    "coverage": MetricDescription(
        "counter",
        ("reason",),
        "Spans and tool calls that were not judged, or not for certain, by reason.",
    ),
    "agent_calls": MetricDescription(
        "counter",
        ("agent", "namespace", "arguments"),
        "Calls of tools that have arguments, by agent: known, or missing (the tool had some before).",
    ),
    "agent_changes": MetricDescription(
        "counter",
        ("change",),
        "Changes of agents that were seen before: another instrumentation, or arguments that stop or come again; the log's event `agent_changed` has each.",
    ),
    "spans_dropped": MetricDescription(
        "counter",
        ("reason",),
        "Spans not judged because they were late, too many, or seen before.",
    ),
    "spans_merged": MetricDescription(
        "counter",
        (),
        "Spans that turned out to be another one's call, and were merged with it.",
    ),
    "sessions_split": MetricDescription(
        "counter", (), "Traces whose session was learnt too late to join their calls to it."
    ),
    "arguments_unreadable": MetricDescription(
        "counter",
        ("dialect",),
        "Calls judged without their arguments, which could not be read.",
    ),
    "verdict_latency_seconds": MetricDescription(
        "histogram", ("transport",), "From the receipt of a request to its last verdict."
    ),
    "span_lag_seconds": MetricDescription(
        "histogram", (), "From the end of a tool call's span to its receipt."
    ),
    # Decisions before calls.
    "decisions": MetricDescription(
        "counter",
        ("decision", "spec"),
        "Calls that were decided before they were made, by what their client was to do and the spec that says the worst (empty: no spec judges the call). would_deny: allowed, though a spec advises to deny it.",
    ),
    "decision_seconds": MetricDescription(
        "histogram",
        (),
        "From the receipt of a question to its answer, for answers with status 200.",
    ),
    "decision_requests": MetricDescription(
        "counter", ("code",), "Answered requests of the listener for decisions, by HTTP status."
    ),
    "decisions_unconfirmed": MetricDescription(
        "counter",
        (),
        "Decided calls that were taken back, as neither a span nor their client confirmed them in time (`decide.confirm_seconds`).",
    ),
    "decisions_overruled": MetricDescription(
        "counter", (), "Calls that were denied, made anyway, and harmful."
    ),
    "decided_calls": MetricDescription(
        "gauge", (), "Decided calls that are remembered, to meet their spans."
    ),
    "decided_calls_capacity": MetricDescription(
        "gauge", (), "Greatest number of decided calls that are remembered."
    ),
    "decided_calls_overflowed": MetricDescription(
        "counter", (), "Decided calls that were forgotten before their time, at a bound."
    ),
    # Requests that go on to next hops; only where `forward` is set.
    "forward_requests": MetricDescription(
        "counter",
        ("destination", "signal", "outcome"),
        "Requests for a next hop: ok, partial (it left out some items), refused (it never takes them), or dropped.",
    ),
    "forward_dropped": MetricDescription(
        "counter",
        ("destination", "reason"),
        "Requests that did not reach a next hop: the queue was full, they grew too old, they could not be"
        " converted, the service stopped, the journal no longer had them, or a fault of this program.",
    ),
    "forward_rejected_items": MetricDescription(
        "counter",
        ("destination", "signal"),
        "Spans, data points and log records that a next hop left out of requests it took (partial success).",
    ),
    "forward_unkept": MetricDescription(
        "counter",
        ("destination",),
        "Requests that waited for a next hop when the journal, at its bound, deleted them: lost if the process ends.",
    ),
    "forward_retries": MetricDescription(
        "counter", ("destination",), "Requests that a next hop is to be sent again."
    ),
    "forward_queue_bytes": MetricDescription(
        "gauge",
        ("destination",),
        "Bytes of requests that wait for a next hop or are on their way to it.",
    ),
    "forward_queue_bytes_max": MetricDescription(
        "gauge", ("destination",), "Beyond it, `on_full` decides what becomes of a request."
    ),
    "forward_seconds": MetricDescription(
        "histogram", ("destination",), "From the receipt of a request to the next hop's answer."
    ),
    "forward_up": MetricDescription(
        "gauge",
        ("destination",),
        "0 from an attempt that is to be made again until the next hop answers, else 1.",
    ),
    # Judges that are models; only where `judges.endpoint` is set.
    "judge_score": MetricDescription(
        "histogram",
        ("judge", "agent"),
        "Scores, 0 to 3, of sessions that a model judged as a whole, without a contradiction.",
    ),
    "judge_requests": MetricDescription(
        "counter",
        ("outcome",),
        "Judgements that models were asked for, by what became of them; see docs/judges.md.",
    ),
    "judge_tokens": MetricDescription(
        "counter", ("direction",), "Tokens of all requests to judges, input and output."
    ),
    "judge_cost": MetricDescription(
        "counter", (), "Money that judges have cost, by `judges.prices`; 0 without prices."
    ),
    "judge_canary": MetricDescription(
        "counter",
        ("kind", "passed"),
        "Sessions of which it is known how they went and that a judge gave a score: good or bad, with or without an injected text;"
        " passed: the judge saw it.",
    ),
    "judge_second_scores": MetricDescription(
        "counter",
        ("disputed",),
        "Judgements that two models gave a score; disputed: the scores differ by more than a point.",
    ),
    "judge_sessions": MetricDescription(
        "counter", (), "Ended sessions that were handed to judges."
    ),
    "judge_sessions_dropped": MetricDescription(
        "counter",
        ("reason",),
        "Sessions that were to be judged and were not: too many waited, or a fault of this program;"
        " forgotten: judgements that the API shows no more, since there are too many.",
    ),
    "judge_queue_length": MetricDescription(
        "gauge", (), "Ended sessions that wait for judges, or are being judged."
    ),
    "judge_spans_bytes": MetricDescription(
        "gauge", (), "Bytes of spans that are kept for transcripts."
    ),
    "judge_spans_dropped": MetricDescription(
        "counter",
        ("reason",),
        "Spans that are in no transcript: older than `judges.keep_seconds`, over `judges.keep_bytes`, too large, or a fault of this program.",
    ),
    # Alerts that leave this process.
    "alerts_sent": MetricDescription(
        "counter",
        ("sink", "result"),
        "Deliveries to a sink: ok, failed (given up), or dropped.",
    ),
    "alert_retries": MetricDescription(
        "counter", ("sink",), "Deliveries that were tried again."
    ),
    "alerts_withheld": MetricDescription(
        "counter",
        ("reason",),
        "Pages not raised: known already, over the rate limit (until there is room), more than are kept, or revised within the settle time;"
        " unnamed: of more tools than their alert remembers, which was not told anew for them.",
    ),
    "alerts_firing": MetricDescription("gauge", (), "Pages raised and not resolved."),
    "alert_groups_firing": MetricDescription(
        "gauge", (), "Alerts raised and not resolved, each for the pages of an agent and spec."
    ),
    "alert_queue_length": MetricDescription("gauge", ("sink",), "Messages waiting for a sink."),
    "alert_queue_capacity": MetricDescription(
        "gauge", ("sink",), "Messages that may wait; beyond it the oldest are dropped, counted."
    ),
    "alert_delivery_seconds": MetricDescription(
        "histogram", ("sink",), "From the verdict to the sink's answer."
    ),
}
"""Families of the process; the name is without `offrails_` and `_total`."""

TABLE: Final[Mapping[str, MetricDescription]] = {**LIBRARY, **OWN}
"""Every family whose name begins with `offrails_`."""
