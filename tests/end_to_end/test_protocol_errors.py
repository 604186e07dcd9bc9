"""Refused requests get the protocol's own error and are counted; nothing breaks."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tests.end_to_end.service import eventually, request
from tests.end_to_end.traffic import EXPORT, as_json, as_proto, export, send

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve
    from tests.end_to_end.service import Service
    from tests.end_to_end.traffic import Rover

PROTO = "application/x-protobuf"
JSON = "application/json"
GARBAGE = b"\xff\xff\xff not a message"


def requests(service: Service, **labels: str) -> float:
    return service.metric("offrails_ingest_requests_total", **labels)


@pytest.mark.parametrize(
    ("content_type", "coding", "body", "status"),
    [
        (PROTO, "", GARBAGE, 400),
        (JSON, "", b"{", 400),
        (JSON, "", b"[]", 400),
        (JSON, "", b'{"resourceSpans": 1}', 400),
        (JSON, "gzip", b"{}", 400),
        (JSON, "gzip", gzip.compress(b"{}", mtime=0)[:-4], 400),
        (JSON, "br", b"{}", 415),
        ("text/plain", "", b"{}", 415),
    ],
)
def test_http_says_what_is_wrong(
    shared: Service, content_type: str, coding: str, body: bytes, status: int
) -> None:
    """The answer is a status in the request's own media type, and the request is counted."""
    transport = "http_proto" if content_type == PROTO else "http_json"
    labels = {"transport": transport, "signal": "traces", "code": str(status)}
    before = requests(shared, **labels)

    headers = {"content-encoding": coding} if coding else {}
    reply = shared.post(body, content_type, **headers)

    assert reply.status == status
    assert reply.headers["content-type"] == (PROTO if content_type == PROTO else JSON)
    assert reply.body
    assert requests(shared, **labels) - before == 1


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/v1/traces", 405), ("POST", "/v1/spans", 404)]
)
def test_http_wrong_method_and_path(
    shared: Service, method: str, path: str, status: int
) -> None:
    """Wrong methods and paths are refused by name, and a browser's request does no harm."""
    reply = request(shared.addresses["http"], method, path, b"", {"content-type": JSON})

    assert reply.status == status
    assert reply.json()["message"]


def test_grpc_says_what_is_wrong(shared: Service) -> None:
    """Bytes that are no message are INVALID_ARGUMENT, and counted."""
    labels = {"transport": "grpc", "code": "INVALID_ARGUMENT"}
    before = requests(shared, **labels)

    with pytest.raises(grpc.RpcError) as caught:
        export(shared.addresses["grpc"], GARBAGE)

    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert requests(shared, **labels) - before == 1


def test_a_body_over_the_limit(
    serve: Callable[..., Service], rover: Callable[..., Rover]
) -> None:
    """Both protocols refuse it, compressed or not. Requests within the limit are still accepted."""
    service = serve(OFFRAILS_RECEIVER_MAX_REQUEST_BYTES="20000", OFFRAILS_HISTORY="complete")
    large = as_proto(rover().call("move", {"note": "x" * 30_000}).spans)
    session = rover().calls("water")

    replies = [
        service.post(large, PROTO),
        service.post(gzip.compress(large), PROTO, **{"content-encoding": "gzip"}),
    ]
    with pytest.raises(grpc.RpcError) as caught:
        export(service.addresses["grpc"], large)
    for transport in ("grpc", "http_proto", "http_json"):
        send(service, session.spans, transport)

    assert [reply.status for reply in replies] == [413, 413]
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert service.judgement(session.session)["calls"] == 1


def test_a_span_that_is_faulty_is_left_out(
    shared: Service, rover: Callable[..., Rover]
) -> None:
    """The rest of its request is accepted, with a partial success."""
    session = rover().calls("unlock_safety", "move")
    spans = [replace(session.spans[0], trace_id=b"\1" * 3), session.spans[1]]
    reply = shared.post(as_proto(spans), PROTO)

    assert reply.status == 200
    assert b"trace id has 3 bytes" in reply.body
    assert shared.judgement(session.session)["calls"] == 1


def rejected(service: Service, **labels: str) -> float:
    return service.metric("offrails_spans_rejected_total", **labels)


def partial_success(service: Service, transport: str, spans: Sequence[Any]) -> tuple[int, str]:
    """The number of rejected spans and the message, as a transport reports them."""
    if transport == "http_json":
        found = service.post(as_json(spans), JSON).json()["partialSuccess"]
        return int(found["rejectedSpans"]), found["errorMessage"]
    if transport == "grpc":
        raw = export(service.addresses["grpc"], as_proto(spans))
    else:
        raw = service.post(as_proto(spans), PROTO).body
    partial = ExportTraceServiceResponse.FromString(raw).partial_success
    return partial.rejected_spans, partial.error_message


@pytest.mark.parametrize("transport", ["grpc", "http_proto", "http_json"])
def test_a_span_over_a_bound_is_left_out(
    shared: Service, rover: Callable[..., Rover], transport: str
) -> None:
    """Too long a span name, key or tool name is reported exactly and counted by reason."""
    session = rover().calls("unlock_safety", "move", "t" * 1_025, "scan", "log")
    first, move, *rest = session.spans
    spans = [
        first,
        replace(move, name="n" * 8_193),
        *rest[:2],
        replace(rest[2], attributes={"k" * 2_049: 1}),
    ]
    before = rejected(shared, reason="over_bound")

    count, message = partial_success(shared, transport, spans)

    assert count == 3
    assert "name has more than 8192 characters" in message
    assert rejected(shared, reason="over_bound") - before == 3
    assert shared.judgement(session.session)["calls"] == 2


@pytest.mark.parametrize("signal", ["metrics", "logs"])
def test_other_signals_are_accepted_and_counted(shared: Service, signal: str) -> None:
    """An exporter set up by one endpoint variable for all signals does not fail."""
    message = (
        ExportMetricsServiceRequest() if signal == "metrics" else ExportLogsServiceRequest()
    )
    body = message.SerializeToString()
    before = requests(shared, signal=signal)

    replies = [
        shared.post(body, PROTO, f"/v1/{signal}"),
        shared.post(b"{}", JSON, f"/v1/{signal}"),
    ]
    method = EXPORT.format(signal, signal.title())
    answer = export(shared.addresses["grpc"], body, method=method)

    assert [reply.status for reply in replies] == [200, 200]
    assert answer == b""
    assert requests(shared, signal=signal) - before == 3


def test_hostile_bytes_do_not_stop_it(shared: Service, rover: Callable[..., Rover]) -> None:
    """After deep nesting, huge numbers and control characters, a session is judged as usual."""
    hostile = [
        b'{"resourceSpans":' + b"[" * 50_000,
        b"[" * 50_000 + b"]" * 50_000,
        json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{"name": 1}]}]}]}).encode(),
        json.dumps({"resourceSpans": "x" * 100_000}).encode(),
        b"\x00" * 1000,
    ]
    statuses = {shared.post(body).status for body in hostile}
    session = rover().call("w\x1b[31mater\n", {"a": "\u202e"}).call("unlock_safety", "[" * 9999)
    send(shared, session.spans)

    assert statuses <= {200, 400}
    assert shared.judgement(session.session)["harmful"] == 1
    (event,) = eventually(
        lambda: [e for e in shared.events("harmful_call") if e["session"] == session.session]
    )
    assert event["tool"] == "w\x1b[31mater\n"
    assert not any("\x1b" in line for line in shared.err)


def test_bytes_that_are_no_http(serve: Serve) -> None:
    """They are answered with 400 and logged once, so they cannot fill the log."""
    service = serve()  # others speak other protocols to the shared one
    host, port = service.addresses["http"].split(":")

    for _ in range(3):
        for junk in (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"GET\r\n\r\n", b"\x00" * 500):
            with socket.create_connection((host, int(port)), timeout=10) as connection:
                connection.sendall(junk)
                connection.shutdown(socket.SHUT_WR)
                assert b"400" in connection.recv(1_000)[:20]

    def named() -> list[str]:
        found = service.events("foreign_protocol")  # of any listener
        return [each["protocol"] for each in found if "on the HTTP port" in each["reason"]]

    eventually(lambda: len(named()) >= 2)
    assert sorted(named()) == ["other", "tls"]


def test_arguments_that_are_no_unicode(shared: Service, rover: Callable[..., Rover]) -> None:
    """Half a surrogate pair in a session's arguments does not hide any session."""
    session = rover().call("unlock_safety", '{"half": "\\ud800"}')

    send(shared, session.spans)

    assert shared.judgement(session.session)["calls"] == 1
    assert session.session in {each["session"] for each in shared.judgements()}
