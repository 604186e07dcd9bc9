"""Spans of farm-rover sessions as any sender may make them, and ways to send them.

A `Sent` is one span; `encode` makes the request's bytes in each encoding from the same message, so
that what differs between transports is the transport.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import grpc
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from tests.end_to_end.service import Reply, Service

__all__ = ["GOLDEN", "ROVER", "Rover", "Sent", "as_json", "as_proto", "export", "send"]

Transport = Literal["grpc", "http_proto", "http_json"]

ROVER: Mapping[str, Any] = {"service.name": "farm-rover"}
GOLDEN = ("unlock_safety", "move", "scan", "open_valve", "water", "log")
MILLISECOND = 1_000_000
EPOCH_NS = 1_700_000_000_000_000_000
"""Old enough that only a service told of its complete history takes sessions as fresh."""

EXPORT = "/opentelemetry.proto.collector.{0}.v1.{1}Service/Export"


@dataclass(frozen=True)
class Sent:
    """One span. Times are Unix nanoseconds, ids raw bytes."""

    trace_id: bytes
    span_id: bytes
    name: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Any]
    parent_span_id: bytes = b""
    error: bool = False


@dataclass
class Rover:
    """A session of the rover, call by call; each trace of it is a turn.

    Args:
        session: the conversation's id.
        number: makes ids and times differ from those of other sessions.
        told_on: which spans carry the session id: every call, or only the trace's root.
    """

    session: str
    number: int = 0
    told_on: Literal["calls", "root"] = "calls"
    start_ns: int = EPOCH_NS
    spans: list[Sent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._turn = 1
        self._now = self.start_ns + self.number * 3 * MILLISECOND

    @property
    def trace_id(self) -> bytes:
        return self.number.to_bytes(8, "big") + self._turn.to_bytes(8, "big")

    def _span_id(self) -> bytes:
        return (self.number + 1).to_bytes(4, "big") + (len(self.spans) + 1).to_bytes(4, "big")

    def call(
        self, tool: str, arguments: Any = None, *, error: bool = False, **attributes: Any
    ) -> Rover:
        """One `execute_tool` span; arguments other than text are sent as JSON."""
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        given = {} if arguments is None else {"gen_ai.tool.call.arguments": text}
        return self.span(
            f"execute_tool {tool}",
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool,
                "gen_ai.tool.call.id": f"call-{self.number}-{len(self.spans)}",
                **given,
                **({"gen_ai.conversation.id": self.session} if self.told_on == "calls" else {}),
                **attributes,
            },
            error=error,
        )

    def calls(self, *tools: str) -> Rover:
        """Several calls without arguments."""
        for tool in tools:
            self.call(tool, {})
        return self

    def openinference(self, tool: str, arguments: Any) -> Rover:
        """The same call as OpenInference writes it."""
        told = {"session.id": self.session} if self.told_on == "calls" else {}
        return self.span(
            tool,
            {
                "openinference.span.kind": "TOOL",
                "tool.name": tool,
                "input.value": json.dumps(arguments),
                "input.mime_type": "application/json",
                **told,
            },
        )

    def root(self, agent: str = "") -> Rover:
        """The `invoke_agent` span that ends the turn. It arrives last and names the session."""
        named = {"gen_ai.agent.name": agent} if agent else {}
        self.span(
            "invoke_agent",
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.conversation.id": self.session,
                **named,
            },
        )
        self._turn += 1
        return self

    def span(self, name: str, attributes: Mapping[str, Any], *, error: bool = False) -> Rover:
        """Any span; each lasts a millisecond and starts one after the last ended."""
        start, self._now = self._now, self._now + 2 * MILLISECOND
        self.spans.append(
            Sent(
                self.trace_id,
                self._span_id(),
                name,
                start,
                start + MILLISECOND,
                attributes,
                error=error,
            )
        )
        return self


# --- encodings -----------------------------------------------------------------------------------


def message(
    spans: Iterable[Sent], resource: Mapping[str, Any] = ROVER
) -> ExportTraceServiceRequest:
    """The request message of some spans of one resource."""
    made = ExportTraceServiceRequest()
    group = made.resource_spans.add()
    group.resource.attributes.extend(_attributes(resource))
    scope = group.scope_spans.add()
    scope.scope.name = "farm.rover"
    for sent in spans:
        span = scope.spans.add(
            trace_id=sent.trace_id,
            span_id=sent.span_id,
            parent_span_id=sent.parent_span_id,
            name=sent.name,
            start_time_unix_nano=sent.start_ns,
            end_time_unix_nano=sent.end_ns,
        )
        span.attributes.extend(_attributes(sent.attributes))
        if sent.error:
            span.status.code = span.status.STATUS_CODE_ERROR
    return made


def _attributes(values: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_any_value(value)) for key, value in values.items()]


def _any_value(value: Any) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(string_value=value)


def as_proto(spans: Iterable[Sent], resource: Mapping[str, Any] = ROVER) -> bytes:
    return message(spans, resource).SerializeToString()


def as_json(spans: Iterable[Sent], resource: Mapping[str, Any] = ROVER) -> bytes:
    """OTLP/JSON: the JSON mapping of protobuf, but for ids in hex and enums as integers."""
    found = MessageToDict(message(spans, resource), use_integers_for_enums=True)
    for span in found["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("traceId", "spanId", "parentSpanId"):
            if key in span:
                span[key] = base64.b64decode(span[key]).hex()
    return json.dumps(found).encode()


# --- sending ---------------------------------------------------------------------------------------


def send(
    service: Service,
    spans: Sequence[Sent],
    transport: Transport = "http_json",
    resource: Mapping[str, Any] = ROVER,
    *,
    compress: bool = False,
) -> None:
    """Sends spans as one request, which must be taken in full."""
    if transport == "grpc":
        coding = grpc.Compression.Gzip if compress else grpc.Compression.NoCompression
        assert export(service.addresses["grpc"], as_proto(spans, resource), coding) == b""
        return
    proto = transport == "http_proto"
    body = as_proto(spans, resource) if proto else as_json(spans, resource)
    content_type = "application/x-protobuf" if proto else "application/json"
    headers = {"content-encoding": "gzip"} if compress else {}
    reply = service.post(gzip.compress(body) if compress else body, content_type, **headers)
    assert reply == Reply(200, reply.headers, b"" if proto else b"{}")


def export(
    address: str,
    body: bytes,
    compression: grpc.Compression = grpc.Compression.NoCompression,
    method: str = EXPORT.format("trace", "Trace"),
) -> bytes:
    """One unary gRPC call with raw bytes.

    Raises:
        grpc.RpcError: with the status the receiver gave.
    """
    with grpc.insecure_channel(address) as channel:
        answer: bytes = channel.unary_unary(method, None, None)(
            body, timeout=20, compression=compression
        )
    return answer
