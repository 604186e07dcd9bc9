from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from collector.receive.listener.address import AddressInUse
from collector.receive.status_codes import ExportStatus, Refusal
from tests.collector.receive.grpc.servers import (
    HEALTH,
    KINDS,
    LIMIT,
    PREFIX,
    TRACES,
    Kind,
    Server,
    body,
    connect,
)


@pytest.fixture(scope="module", params=KINDS)
def running(request: pytest.FixtureRequest) -> Iterator[Server]:
    server = Server(KINDS[request.param])
    yield server
    server.close()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def server(running: Server) -> Server:
    running.spans.clear()
    running.refusal = None
    running.stats.requests.clear()
    return running


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_full_success(server: Server, compression: Any) -> None:
    """The response is OK with an empty message: partial_success is unset, compressed or not."""
    assert server.call(body(3), compression=compression) == b""
    assert len(server.spans) == 3
    assert server.stats.requests == {("grpc", "traces", "OK"): 1}


def test_empty_requests_succeed(server: Server) -> None:
    """No bytes is a valid request."""
    assert server.call(b"") == b""
    assert server.spans == []


def test_partial_success(server: Server) -> None:
    """Rejected spans are counted exactly, with a reason."""
    partial = ExportTraceServiceResponse.FromString(
        server.call(body(1) + body(2, span_id=b""))
    ).partial_success
    assert partial.rejected_spans == 2
    assert partial.error_message == "span 2 of the request: span id has 0 bytes, expected 8"
    assert len(server.spans) == 1


@pytest.mark.parametrize("signal", ["metrics.v1.Metrics", "logs.v1.Logs"])
def test_metrics_and_logs_are_accepted(server: Server, signal: str) -> None:
    """Metrics and logs are accepted and counted; malformed ones are refused like spans."""
    method = f"{PREFIX}.{signal}Service/Export"
    assert server.call(b"\x0a\x00", method) == b""
    assert server.refused(b"\xff", method).code() is grpc.StatusCode.INVALID_ARGUMENT
    name = signal.split(".", maxsplit=1)[0]
    assert server.stats.requests == {
        ("grpc", name, "OK"): 1,
        ("grpc", name, "INVALID_ARGUMENT"): 1,
    }


def test_malformed_is_invalid_argument(server: Server) -> None:
    """The client's fault, not worth a retry; the server lives."""
    for bad in (b"\xff", body()[:-1], b"\x0a" * 100):
        error = server.refused(bad)
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert "not an ExportTraceServiceRequest" in error.details()
    assert server.call(body()) == b""


def test_over_the_limit_is_resource_exhausted(server: Server) -> None:
    """This holds after decompression, too, and has no RetryInfo."""
    for compression in (None, grpc.Compression.Gzip):
        error = server.refused(b"\0" * (LIMIT + 1), compression=compression)
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "grpc-status-details-bin" not in dict(error.trailing_metadata())


def test_unknown_methods_are_unimplemented(server: Server) -> None:
    """An unknown method gets UNIMPLEMENTED, as gRPC specifies."""
    assert server.refused(b"", "/x.Y/Z").code() is grpc.StatusCode.UNIMPLEMENTED
    profiles = f"{PREFIX}.profiles.v1development.ProfilesService/Export"
    assert server.refused(b"", profiles).code() is grpc.StatusCode.UNIMPLEMENTED


def test_back_pressure_carries_retry_info(server: Server) -> None:
    """Without RetryInfo, a sender takes RESOURCE_EXHAUSTED for permanent."""
    cases = {
        ExportStatus.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
        ExportStatus.THROTTLED: grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
    for outcome, code in cases.items():
        server.refusal = Refusal(outcome, "full", 7)
        error = server.refused(body())
        assert (error.code(), error.details()) == (code, "full")
        details = dict(error.trailing_metadata())["grpc-status-details-bin"]
        assert details.endswith(b"google.rpc.RetryInfo\x12\x04\x0a\x02\x08\x07")


def test_an_error_of_ours_is_internal_and_the_server_lives(server: Server) -> None:
    """The sender is not blamed."""
    server.refusal = RuntimeError("ours")
    error = server.refused(body())
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "ours" not in error.details()
    server.refusal = None
    assert server.call(body()) == b""


def test_cancelled_calls_and_garbage_are_harmless(server: Server) -> None:
    """A tiny deadline, bytes that are no HTTP/2, HTTP/1.1 on this port."""
    with pytest.raises(grpc.RpcError):
        server.channel.unary_unary(TRACES)(body(20_000), timeout=0.000_001)
    host, port = server.address.split(":")
    for raw in (b"\0" * 100, b"POST /v1/traces HTTP/1.1\r\nHost: x\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(raw)
    assert server.call(body()) == b""


def test_health_check(server: Server) -> None:
    """SERVING for the server and each of its services; an unknown one is NOT_FOUND."""
    assert server.call(b"", HEALTH) == b"\x08\x01"
    name = b"opentelemetry.proto.collector.trace.v1.TraceService"
    assert server.call(b"\x0a" + bytes([len(name)]) + name, HEALTH) == b"\x08\x01"
    assert server.refused(b"\x0a\x01x", HEALTH).code() is grpc.StatusCode.NOT_FOUND
    assert server.refused(b"\xff", HEALTH).code() is grpc.StatusCode.INVALID_ARGUMENT


def test_parallel_calls_and_connections(server: Server) -> None:
    """12 connections with 8 calls each: every span arrives once."""
    raw = body(10)

    def send(_: int) -> None:
        with connect(server.address) as channel:
            calls = [channel.unary_unary(TRACES).future(raw) for _ in range(8)]
            assert {call.result(20) for call in calls} == {b""}

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(send, range(12)))
    assert len(server.spans) == 12 * 8 * 10


def test_a_used_port_is_said_so(server: Server) -> None:
    """A second instance fails, it does not share the port."""
    second = server.another(server.address)
    with pytest.raises(AddressInUse, match=f"address already in use: {server.address}"):
        server.run(second.start())
    foreign = server.another("192.0.2.1:1")
    with pytest.raises(OSError, match=r"cannot listen on 192\.0\.2\.1:1"):
        server.run(foreign.start())


def test_unix_sockets(kind: Kind, tmp_path: Path) -> None:
    """Both ends use a Unix socket. A second receiver is refused. The file is removed at the end."""
    path = tmp_path / "grpc.sock"
    server = Server(kind, f"unix:{path}")
    try:
        assert server.address == f"unix:{path}"
        assert server.call(body()) == b""
        second = server.another(f"unix:{path}")
        with pytest.raises(AddressInUse):
            server.run(second.start())
        assert server.call(body()) == b""
    finally:
        server.close()
    assert not path.exists()


def test_every_interface(kind: Kind) -> None:
    """An empty host is reached over IPv4."""
    server = Server(kind, ":0")
    try:
        port = server.address.rsplit(":", 1)[1]
        with connect(f"127.0.0.1:{port}") as channel:
            assert channel.unary_unary(TRACES)(body(), timeout=20) == b""
    finally:
        server.close()


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_the_real_sdk_exporter(server: Server, compression: grpc.Compression) -> None:
    """Spans of opentelemetry-exporter-otlp-proto-grpc arrive with all they say."""
    exporter = OTLPSpanExporter(server.address, insecure=True, compression=compression)
    provider = TracerProvider(resource=Resource({"service.name": "farm-rover"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("rover").start_as_current_span("execute_tool") as span:
        span.set_attributes({"gen_ai.tool.name": "water", "n": 3})
    provider.shutdown()
    [got] = server.spans
    assert (got.name, got.scope, got.kind) == ("execute_tool", "rover", 1)
    assert got.attributes() == {"gen_ai.tool.name": "water", "n": 3}
    assert got.resource.attributes["service.name"] == "farm-rover"


def test_stop_is_harmless_twice_and_refuses_new_calls(kind: Kind) -> None:
    """After the end a call is UNAVAILABLE."""
    server = Server(kind)
    assert server.call(body()) == b""
    server.run(server.receiver.stop(1))
    server.run(server.receiver.stop(1))
    assert server.refused(body()).code() is grpc.StatusCode.UNAVAILABLE
    server.close()


def test_clients_that_leave_do_not_fill_the_log(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """Messages over the limit, and calls that are cancelled, are counted and not logged."""
    with connect(server.address) as channel:
        call = channel.unary_unary(TRACES)
        for _ in range(5):
            assert call.future(bytes(LIMIT + 1)).code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            call.future(body(50)).cancel()
        call(body(), timeout=20)
    assert [record.getMessage() for record in caplog.records] == []
    assert ("unread_messages", "grpc") in server.stats.counts
