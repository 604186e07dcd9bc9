"""Verdicts and scores as OTLP log events `gen_ai.evaluation.result`, on the judged span.

Written with the protocol's own messages, which the receivers need anyway, and posted by the same
client as every other sink: the same bounds, timeouts and retries, and no further dependency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from collector.sinks.http import post
from monitor.records import ALARMING, SESSION_KINDS, Verdict
from monitor.totals import SessionFinished

__all__ = ["EVENT", "Event", "OtlpLogs", "of_session", "of_verdict"]

EVENT = "gen_ai.evaluation.result"

_SEVERITIES: Mapping[str, SeverityNumber.ValueType] = {
    "info": SeverityNumber.SEVERITY_NUMBER_INFO,
    "warning": SeverityNumber.SEVERITY_NUMBER_WARN,
    "critical": SeverityNumber.SEVERITY_NUMBER_ERROR,
}


class Event(NamedTuple):
    """One log record; ids are raw bytes, empty where no span is meant."""

    at_ns: int
    severity: str
    attributes: Mapping[str, str | int | float]
    trace_id: bytes = b""
    span_id: bytes = b""


def of_verdict(verdict: Verdict, now: int) -> Event:
    """What one call was: the evaluation is named after the automaton's step.

    A verdict on a session is named after the session.
    """
    harmful = verdict.kind in ALARMING
    on_session = verdict.kind in SESSION_KINDS or verdict.revised_from in SESSION_KINDS
    reason = verdict.reason.value if verdict.reason else ""
    found: dict[str, str | int | float | None] = {
        "gen_ai.evaluation.name": "dfa.session" if on_session else "dfa.transition",
        "gen_ai.evaluation.score.value": 0.0 if harmful else 1.0,
        "gen_ai.evaluation.score.label": verdict.kind.value if harmful else "pass",
        "gen_ai.evaluation.explanation": _explanation(verdict, reason),
        "gen_ai.conversation.id": verdict.session.id,
        "gen_ai.agent.name": verdict.agent,
        "gen_ai.tool.name": verdict.tool,
        "offrails.spec": verdict.spec,
        "offrails.spec.version": verdict.spec_version,
        "offrails.mode": verdict.mode,
        "offrails.namespace": verdict.session.namespace,
        "offrails.step": verdict.step,
        "offrails.verdict": verdict.kind.value,
        "offrails.reason": reason,
        "offrails.severity": verdict.severity,
        "offrails.revised_from": verdict.revised_from.value if verdict.revised_from else "",
    }
    attributes = {name: value for name, value in found.items() if value not in ("", None)}
    severity = verdict.severity if harmful else "info"
    return Event(now, severity, _known(attributes), verdict.trace_id, verdict.span_id)


def _known(found: Mapping[str, Any]) -> dict[str, str | int | float]:
    return dict(found)


def _explanation(verdict: Verdict, reason: str) -> str:
    if not reason:
        return ""
    if verdict.kind in SESSION_KINDS:
        return f"{reason}: {verdict.constraint}" if verdict.constraint else reason
    allowed = f"; allowed: {', '.join(verdict.allowed)}" if verdict.allowed else ""
    skipped = f"; skipped: {', '.join(verdict.skipped)}" if verdict.skipped else ""
    return f"{reason}{allowed}{skipped}"


def of_session(event: SessionFinished, now: int) -> list[Event]:
    """One event a score of a finished session."""
    scores = {"HarmRate": event.scores.harm_rate, "PrefixCrit": event.scores.prefix_crit}
    return [
        Event(
            now,
            "info",
            {
                "gen_ai.evaluation.name": name,
                "gen_ai.evaluation.score.value": value,
                "gen_ai.conversation.id": event.session.id,
                "gen_ai.agent.name": event.agent,
                "offrails.spec": event.spec,
                "offrails.spec.version": event.spec_version,
                "offrails.namespace": event.session.namespace,
            },
        )
        for name, value in scores.items()
        if value is not None
    ]


class OtlpLogs:
    """One OTLP/HTTP receiver of logs.

    Args:
        endpoint: its base, such as http://127.0.0.1:4318; /v1/logs is added.
        timeout_seconds: for a whole request.
    """

    name = "otlp"

    def __init__(self, endpoint: str, timeout_seconds: float) -> None:
        self._url = endpoint.rstrip("/") + "/v1/logs"
        self._timeout_seconds = timeout_seconds

    async def send(self, messages: Sequence[Event]) -> None:
        """Each message is an event."""
        body = _request(messages).SerializeToString()
        headers = {"content-type": "application/x-protobuf"}
        await post(self._url, body, headers, self._timeout_seconds)


def _request(events: Sequence[Event]) -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    group = request.resource_logs.add()
    group.resource.attributes.append(_pair("service.name", "offrails"))
    scope = group.scope_logs.add()
    scope.scope.name = "offrails"
    scope.log_records.extend(_record(event) for event in events)
    return request


def _record(event: Event) -> LogRecord:
    return LogRecord(
        time_unix_nano=event.at_ns,
        observed_time_unix_nano=event.at_ns,
        severity_number=_SEVERITIES.get(event.severity, SeverityNumber.SEVERITY_NUMBER_WARN),
        severity_text=event.severity,
        event_name=EVENT,
        attributes=[_pair(name, value) for name, value in event.attributes.items()],
        trace_id=event.trace_id,
        span_id=event.span_id,
    )


def _pair(name: str, value: str | int | float) -> KeyValue:
    if isinstance(value, str):
        # Half a surrogate pair has no place in the protocol's texts.
        value = value.encode(errors="replace").decode()
        return KeyValue(key=name, value=AnyValue(string_value=value))
    if isinstance(value, int):
        return KeyValue(key=name, value=AnyValue(int_value=value))
    return KeyValue(key=name, value=AnyValue(double_value=value))
