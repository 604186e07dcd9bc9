"""Spans, as they are made in a world, and their OTLP/JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from tests.simulation.worlds.truth import Call

Attributes = list[tuple[str, Any]]

# Unix time of a world's begin.
BEGIN = 1_800_000_000.0


def unix_ns(seconds: float) -> int:
    """The time of the wire of a time in a world."""
    return int((BEGIN + seconds) * 1e9)


@dataclass
class Span:
    """A span before it is written.

    Args:
        name: and the fields below: as in OTLP; ids are numbers, times seconds since the world began.
        calls: what it tells of: the executed call, or the calls that a model asked for.
        given: numbers of the calls of which a model was given the requests and the results.
        conversation: the true one, by its id.
        sent: when its request is received.
        status: 0 unset, 1 ok, 2 error.
        state: the trace state.
        host: `host.name` of its resource; "" if that has none.
        instance: `service.instance.id` of its resource; "" if that has none.
    """

    name: str
    trace: int
    id: int
    parent: int
    start: float
    end: float
    attributes: Attributes
    role: str
    conversation: str
    sent: float
    calls: list[Call] = field(default_factory=list)
    given: frozenset[int] = frozenset()
    kind: int = 1
    status: int = 0
    scope: str = "agent"
    version: str = ""
    service: str = "shop"
    state: str = ""
    dropped: int = 0
    host: str = ""
    instance: str = ""

    def get(self, key: str) -> Any:
        return next((value for found, value in self.attributes if found == key), None)

    def set(self, **attributes: Any) -> None:
        """Sets attributes; dots are written as two underscores, None takes one away."""
        for name, value in attributes.items():
            key = name.replace("__", ".")
            self.attributes = [(k, v) for k, v in self.attributes if k != key]
            if value is not None:
                self.attributes.append((key, value))

    def __str__(self) -> str:
        shown = ", ".join(f"{k}={v}" for k, v in self.attributes if _is_shown(k))
        of = " ".join(f"#{call.number}" for call in self.calls)
        error = " ERROR" if self.status == 2 else ""
        return (
            f"{self.name} [{of}] {_short(self.trace)}/{_short(self.id)}"
            f" below {_short(self.parent)} {self.start:.3f}-{self.end:.3f}{error} {shown}"
        )


def _is_shown(key: str) -> bool:
    """Ids, names and arguments; not what models said."""
    last = key.replace("_", ".").split(".")[-1].lower()
    return (
        last in {"id", "sessionid", "arguments", "args", "value", "params"} and "llm" not in key
    )


def _short(id_: int) -> str:
    return f"{id_:x}"[:4] if id_ else "nothing"


@dataclass
class Request:
    """Spans that one sender exports at once."""

    at: float
    spans: list[Span]


def requests(spans: Sequence[Span]) -> list[Request]:
    """The requests of a world: what is sent at one time by one service on one host is one request."""

    def sender(span: Span) -> tuple[float, str, str, str]:
        return span.sent, span.service, span.host, span.instance

    grouped = groupby(sorted(spans, key=sender), key=sender)
    return [Request(sent[0], list(group)) for sent, group in grouped]


def body(spans: Sequence[Span]) -> bytes:
    """An ExportTraceServiceRequest in JSON; all spans are of one service on one host."""
    first = spans[0]
    named = [("host.name", first.host), ("service.instance.id", first.instance)]
    host = [(key, value) for key, value in named if value]
    scopes = groupby(spans, key=lambda span: (span.scope, span.version))
    return json.dumps(
        {
            "resourceSpans": [
                {
                    "resource": {
                        "attributes": _pairs([("service.name", first.service), *host])
                    },
                    "scopeSpans": [
                        {
                            "scope": {"name": name, "version": version},
                            "spans": [_written(span) for span in group],
                        }
                        for (name, version), group in scopes
                    ],
                }
            ]
        }
    ).encode()


def _written(span: Span) -> Mapping[str, Any]:
    return {
        "traceId": f"{span.trace:032x}",
        "spanId": f"{span.id:016x}",
        **({"parentSpanId": f"{span.parent:016x}"} if span.parent else {}),
        "traceState": span.state,
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(unix_ns(span.start)),
        "endTimeUnixNano": str(unix_ns(span.end)),
        "attributes": _pairs(span.attributes),
        "droppedAttributesCount": span.dropped,
        "status": {"code": span.status} if span.status else {},
    }


def _pairs(attributes: Attributes) -> list[Mapping[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes]


def _value(value: Any) -> Mapping[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [_value(each) for each in value]}}
        case _:
            return {"stringValue": str(value)}
