"""Traces in TRAIL's form: a document a trace, spans as a tree. They become an OTLP/JSON request, read as any other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from collector.decode.json.write_values import attributes_json

__all__ = ["BadTraceError", "is_trail", "otlp_request"]

_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>[\d.]+)S)?)?"
)
_STATUS: Final = {"ok": 1, "error": 2}
_KINDS: Final = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
_SECOND: Final = 1_000_000_000
_DEPTH_MAX: Final = 500


class BadTraceError(Exception):
    """A document is no trace of TRAIL's form; the message says why."""


def is_trail(document: Any) -> bool:
    """True for an object that has spans with attributes under TRAIL's keys."""
    if not isinstance(document, dict) or not isinstance(document.get("spans"), list):
        return False
    spans = document["spans"]
    return bool(spans) and all(
        isinstance(span, dict) and "span_id" in span and "span_attributes" in span
        for span in spans
    )


def otlp_request(document: Mapping[str, Any]) -> dict[str, Any]:
    """The ExportTraceServiceRequest of a trace, as OTLP/JSON.

    Raises:
        BadTraceError: a span is no object, has no sensible time, or the tree is too deep.
    """
    trace = str(document.get("trace_id") or "")
    groups = [
        {
            "resource": {"attributes": _attributes(span.get("resource_attributes"))},
            "scopeSpans": [
                {
                    "scope": {"name": str(span.get("scope_name") or "")},
                    "spans": [_span(span, trace, parent)],
                }
            ],
        }
        for span, parent in _tree(document["spans"], None, 0)
    ]
    return {"resourceSpans": groups}


def _tree(
    spans: Any, parent: str | None, depth: int
) -> Iterator[tuple[Mapping[str, Any], str | None]]:
    if depth > _DEPTH_MAX:
        raise BadTraceError(f"spans are nested more than {_DEPTH_MAX} deep")
    for span in spans if isinstance(spans, list) else ():
        if not isinstance(span, dict):
            raise BadTraceError("expected each span to be an object")
        yield span, span.get("parent_span_id") or parent
        yield from _tree(span.get("child_spans"), span.get("span_id"), depth + 1)


def _span(span: Mapping[str, Any], trace: str, parent: str | None) -> dict[str, Any]:
    start = _time(span.get("timestamp"))
    events = span.get("events")
    return {
        "traceId": str(span.get("trace_id") or trace),
        "spanId": str(span.get("span_id") or ""),
        "parentSpanId": parent or "",
        "name": str(span.get("span_name") or ""),
        "kind": _KINDS.get(str(span.get("span_kind")).lower(), 1),
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + _length(span.get("duration"))),
        "attributes": _attributes(span.get("span_attributes")),
        "status": {"code": _STATUS.get(str(span.get("status_code")).lower(), 0)},
        "events": [
            _event(each, start)
            for each in (events if isinstance(events, list) else ())
            if isinstance(each, dict)
        ],
    }


def _event(event: Mapping[str, Any], start: int) -> dict[str, Any]:
    fields = {key.lower(): value for key, value in event.items()}
    return {
        "name": str(fields.get("name") or ""),
        "timeUnixNano": str(_time(fields["timestamp"]) if fields.get("timestamp") else start),
        "attributes": _attributes(fields.get("attributes")),
    }


def _attributes(found: Any) -> list[dict[str, Any]]:
    return attributes_json(found) if isinstance(found, dict) else []


def _time(text: Any) -> int:
    """Unix nanoseconds of an ISO 8601 time; without a zone it is UTC."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        raise BadTraceError(f"expected an ISO 8601 time, found {str(text)[:40]!r}") from None
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return int(aware.timestamp()) * _SECOND + aware.microsecond * 1_000


def _length(text: Any) -> int:
    """Nanoseconds of an ISO 8601 duration; 0 if there is none."""
    found = _DURATION.fullmatch(str(text or ""))
    if found is None:
        return 0
    days, hours, minutes = (int(found[name] or 0) for name in ("days", "hours", "minutes"))
    whole = ((days * 24 + hours) * 60 + minutes) * 60 * _SECOND
    return whole + int(float(found["seconds"] or 0) * _SECOND)
