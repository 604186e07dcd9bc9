"""What is judged of one session: taken on the event loop, made into a transcript in the thread of the judges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from collector.archive.record import SessionName
from collector.calls.pipeline import Pipeline
from collector.config.settings.sessions import SessionSettings
from collector.decode.span import Span
from collector.online_judges.kept_span import SpanReviver, redacted_span
from collector.online_judges.span_keeper import PackedSpan
from collector.telemetry.counters import Stats
from collector.telemetry.redaction import Redaction
from collector.transcripts.session_steps import session_steps
from collector.transcripts.span_shares import SessionId, span_shares
from judges.judging import JudgeOptions, SessionCase
from monitor.engine import Monitor
from monitor.limits import Limits

__all__ = ["JudgeJob", "case_of"]

STEP_BYTES: Final = 2_000
"""Bytes of a step of a judgement object, about."""


@dataclass(frozen=True, slots=True)
class JudgeJob:
    """A session that is to be judged. Names and texts are as they are shown, but for spans that are not redacted yet."""

    name: SessionName
    agent: str
    reason: str
    """harmful, diverged, risk or share."""
    judged: Sequence[Mapping[str, Any]]
    """Judgement objects of the session."""
    beside: Mapping[SessionId, Sequence[Mapping[str, Any]]]
    """Judgement objects of other sessions with calls in its traces."""
    spans: Sequence[PackedSpan]
    """All spans of its traces."""

    @property
    def size(self) -> int:
        """Bytes that it takes while it waits, about."""
        objects = [*self.judged, *(each for found in self.beside.values() for each in found)]
        return sum(len(each.text) for each in self.spans) + STEP_BYTES * sum(
            len(each["steps"]) for each in objects
        )


def case_of(
    job: JudgeJob, options: JudgeOptions, sessions: SessionSettings, redaction: Redaction
) -> SessionCase:
    """The case that judges are given: the transcript of the session's own spans, and what specs found."""
    spans = _own(job, list(_revived(job.spans, redaction)))
    judged = [*job.judged, *_folded(job.judged, spans, sessions)]
    steps = session_steps(judged, spans)
    return SessionCase.of(job.name.session, job.judged, steps, options)


def _revived(spans: Iterable[PackedSpan], redaction: Redaction) -> Iterator[Span]:
    reviver = SpanReviver()
    for each in spans:
        is_shown = each.is_redacted or not redaction
        yield reviver.span(each.text if is_shown else redacted_span(each.text, redaction))


def _own(job: JudgeJob, spans: Sequence[Span]) -> Sequence[Span]:
    """The spans of the session, where others have calls in its traces."""
    if not job.beside:
        return spans
    key = (job.name.namespace, job.name.session)
    return span_shares({**job.beside, key: job.judged}, spans)[key]


def _folded(
    judged: Sequence[Mapping[str, Any]], spans: Sequence[Span], sessions: SessionSettings
) -> list[Mapping[str, Any]]:
    """Judgement objects with the calls that the monitor keeps no steps of any more, read from the spans again."""
    if not any(each["steps_folded"] for each in judged):
        return []
    monitor = Monitor((), Limits(history_complete=True, fold=False))
    pipeline = Pipeline(
        monitor,
        Stats(),
        lambda _: None,
        session_keys=sessions.id_attributes,
        namespace_keys=sessions.namespace_attributes,
        agent_keys=sessions.agent_attributes,
        requested=sessions.requested,
        by_answer=sessions.group_by_answer,
    )
    if spans:
        pipeline.consume(spans, max(span.end_ns for span in spans), "replay")
    pipeline.finish()
    return list(monitor.judgements())
