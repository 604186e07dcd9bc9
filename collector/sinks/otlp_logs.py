"""Verdicts and scores as OTLP log events `gen_ai.evaluation.result`, on the judged span.

Sent by opentelemetry-exporter-otlp, so that whatever it knows (`OTEL_EXPORTER_OTLP_*` for headers,
certificates, compression) works here too.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from collector.config.settings.http_client import HttpClientSettings
from collector.net.http_client import tls_context, without_user
from collector.net.otlp_exporter import require_exporter, session_for
from collector.net.threads import in_thread
from collector.net.watched_files import UnusableFileError, WatchedFiles
from collector.sinks.http_client import DeliveryError, authorization_of, files_of
from collector.sinks.printable_text import clock_time
from collector.telemetry.logs import log
from monitor.aggregate.totals import SessionFinished
from monitor.records import ALARMING, SESSION_KINDS, ReferenceAlarm, Verdict
from monitor.visibility.words import unless_words

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import ReadableLogRecord

__all__ = ["EVENT", "Event", "OtlpLogs", "of_alarm", "of_judgement", "of_session", "of_verdict"]

EVENT = "gen_ai.evaluation.result"

SETTING = "alerts.otlp_http"

GRACE_SECONDS = 1.0
"""The exporter has its own timeout; after so much more it is not waited for."""


class Event(NamedTuple):
    """One log record; ids are raw bytes, empty if no span is meant."""

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
    label = "possible" if verdict.possible else verdict.kind.value if harmful else "pass"
    on_session = verdict.kind in SESSION_KINDS or verdict.revised_from in SESSION_KINDS
    reason = verdict.reason.value if verdict.reason else ""
    found: dict[str, str | int | float | None] = {
        "gen_ai.evaluation.name": "dfa.session" if on_session else "dfa.transition",
        "gen_ai.evaluation.score.value": 0.0 if harmful else 1.0,
        "gen_ai.evaluation.score.label": label,
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


def of_alarm(raised: ReferenceAlarm, now: int) -> Event:
    """An alarm of a reference: the evaluation is named after it, and a risk has its value."""
    holds = not raised.withdrawn
    score = raised.risk if raised.alarm == "risk" and raised.risk is not None else not holds
    found: dict[str, str | int | float | None] = {
        "gen_ai.evaluation.name": f"reference.{raised.alarm}",
        "gen_ai.evaluation.score.value": float(score),
        "gen_ai.evaluation.score.label": "diverged" if holds else "pass",
        "gen_ai.evaluation.explanation": ", ".join(
            part for part in (raised.kind, raised.phase, *raised.expected) if part
        ),
        "gen_ai.conversation.id": raised.session.id,
        "gen_ai.agent.name": raised.agent,
        "gen_ai.tool.name": raised.tool,
        "offrails.spec": raised.spec,
        "offrails.spec.version": raised.spec_version,
        "offrails.mode": raised.mode,
        "offrails.namespace": raised.session.namespace,
        "offrails.step": raised.step,
        "offrails.level": raised.level,
        "offrails.severity": raised.severity,
        "offrails.precision": raised.precision,
    }
    attributes = {name: value for name, value in found.items() if value not in ("", None)}
    severity = raised.severity if holds else "info"
    return Event(now, severity, _known(attributes), raised.trace_id, raised.span_id)


def _known(found: Mapping[str, Any]) -> dict[str, str | int | float]:
    return dict(found)


def _explanation(verdict: Verdict, reason: str) -> str:
    if not reason:
        return ""
    why = f": {verdict.detail}" if verdict.detail else ""
    if verdict.kind in SESSION_KINDS:
        return f"{reason}{why}"
    allowed = f"; allowed: {', '.join(verdict.allowed)}" if verdict.allowed else ""
    skipped = f"; skipped: {', '.join(verdict.skipped)}" if verdict.skipped else ""
    which = "" if verdict.certain_call else "; this call or an earlier one"
    if verdict.possible:
        which += f"; {unless_words(verdict.unless, clock_time(verdict.unless_before_ns))}"
    return f"{reason}{why}{allowed}{skipped}{which}"


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


def of_judgement(found: Mapping[str, Any]) -> Event:
    """What a model says of a session, named after its judge; without a score it says what became of it.

    Args:
        found: the judgement as the API shows it.
    """
    score = found["normalised"]
    attributes: dict[str, str | int | float | None] = {
        "gen_ai.evaluation.name": f"judge.{found['judge']}",
        "gen_ai.evaluation.score.value": score,
        "gen_ai.evaluation.score.label": found["outcome"],
        "gen_ai.evaluation.explanation": found["criteria"],
        "gen_ai.conversation.id": found["session"],
        "gen_ai.agent.name": found["agent"],
        "offrails.namespace": found["namespace"],
        "offrails.judge.version": found["judge_version"],
        "offrails.judge.model": found["model"],
        "offrails.judge.reason": found["reason"],
        "offrails.judge.contradiction": found["contradiction"],
        "offrails.judge.findings": len(found["findings"]),
        "offrails.judge.tokens": found["tokens_in"] + found["tokens_out"],
    }
    known = {name: value for name, value in attributes.items() if value not in ("", None)}
    return Event(found["judged_at"], "info", _known(known))


class OtlpLogs:
    """One OTLP/HTTP receiver of logs.

    Args:
        endpoint: its base, such as http://127.0.0.1:4318; /v1/logs is added.
        timeout_seconds: for a whole request.
        client: credentials, certificates, proxy; what it leaves out, `OTEL_EXPORTER_OTLP_*` may set.

    Raises:
        OSError: a sentence; the exporter is not installed.
    """

    name = "otlp"

    def __init__(
        self, endpoint: str, timeout_seconds: float, client: HttpClientSettings | None = None
    ) -> None:
        require_exporter("alerts.otlp_endpoint")
        self._url, self._authorization = without_user(endpoint.rstrip("/") + "/v1/logs")
        self._timeout_seconds = timeout_seconds
        self._patience_seconds = timeout_seconds + GRACE_SECONDS
        self._settings = client or HttpClientSettings()
        self._watched = WatchedFiles(*files_of(self._settings))
        self._exporter: OTLPLogExporter | None = None
        self._turn = threading.Lock()
        """Held during a request: a thread that was not waited for may still send one."""

    async def prepare(self) -> None:
        """Reads certificates and credentials, so that wrong ones are noticed at the start.

        Raises:
            UnusableFileError: a file that the settings name.
        """
        # What the environment says of proxies is no setting: the first event says that it is wrong.
        with contextlib.suppress(ValueError):
            self._exporter = await in_thread(self._make)

    async def send(self, messages: Sequence[Event]) -> None:
        """Each message is an event."""
        try:
            async with asyncio.timeout(self._patience_seconds):
                arrived = await in_thread(partial(self._export_in_turn, messages))
        except TimeoutError:
            raise DeliveryError("no answer in time") from None
        except (UnusableFileError, ValueError) as problem:
            raise DeliveryError(getattr(problem, "strerror", None) or str(problem)) from None
        if not arrived:
            raise DeliveryError("the exporter gave up")

    def _export_in_turn(self, messages: Sequence[Event]) -> bool:
        if not self._turn.acquire(timeout=self._timeout_seconds):
            return False
        try:
            return self._export(messages)
        finally:
            self._turn.release()

    def _export(self, messages: Sequence[Event]) -> bool:
        if self._exporter is None or self._watched.changed():
            try:
                self._exporter = self._make()
            except UnusableFileError as problem:
                if self._exporter is None:
                    raise
                log.warning("sink_files_not_reloaded", reason=problem.strerror)
        return self._exporter.export(_records(messages)).name == "SUCCESS"

    def _make(self) -> OTLPLogExporter:
        from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter

        given = self._settings
        if given.ca_file or given.client_cert_file:  # this reports what is wrong with them
            tls_context(given.ca_file, given.client_cert_file, given.client_key_file, SETTING)
        authorization = authorization_of(given, SETTING) or self._authorization
        headers = {"authorization": authorization} if authorization else {}
        return OTLPLogExporter(
            endpoint=self._url,
            certificate_file=_text(given.ca_file),
            client_certificate_file=_text(given.client_cert_file),
            client_key_file=_text(given.client_key_file),
            headers={**headers, **given.plain_headers} or None,
            timeout=self._timeout_seconds,
            session=session_for(self._url, given.proxy),
        )


def _text(file: Path | None) -> str | None:
    return str(file) if file is not None else None


def _records(events: Sequence[Event]) -> list[ReadableLogRecord]:
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.sdk._logs import ReadableLogRecord
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    numbers = {
        "info": SeverityNumber.INFO,
        "warning": SeverityNumber.WARN,
        "critical": SeverityNumber.ERROR,
    }
    resource, scope = Resource({"service.name": "offrails"}), InstrumentationScope("offrails")
    return [
        ReadableLogRecord(
            LogRecord(
                timestamp=event.at_ns,
                observed_timestamp=event.at_ns,
                context=_on_span(event),
                severity_text=event.severity,
                severity_number=numbers.get(event.severity, SeverityNumber.WARN),
                attributes={name: _clean(value) for name, value in event.attributes.items()},
                event_name=EVENT,
            ),
            resource,
            scope,
        )
        for event in events
    ]


def _on_span(event: Event) -> Context | None:
    """The judged span as the event's own; a session's scores are of no span."""
    from opentelemetry.trace import NonRecordingSpan, SpanContext, set_span_in_context

    if not event.span_id:
        return None
    trace_id, span_id = (
        int.from_bytes(each, "big") for each in (event.trace_id, event.span_id)
    )
    return set_span_in_context(NonRecordingSpan(SpanContext(trace_id, span_id, is_remote=True)))


def _clean(value: str | int | float) -> str | int | float:
    """Half a surrogate pair, which an agent may well say, has no place in the protocol's texts."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value
