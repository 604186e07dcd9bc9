"""The contract of both gRPC servers, checked with grpcio's own client."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from grpc_status import rpc_status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from collector.receive.admission import Admission
from collector.receive.bearer_tokens import Tokens
from collector.receive.grpc.grpcio_server import coding_of
from collector.receive.grpc.http2.keepalive import Keepalive
from collector.receive.listener.tls import Certificates
from collector.receive.rate_limits import RateLimit, RateLimits
from collector.receive.status_codes import ExportStatus, Refusal
from tests.collector.receive.grpc.servers import (
    HEALTH,
    KINDS,
    LIMIT,
    PREFIX,
    TRACES,
    Server,
    body,
    connect,
)
from tests.end_to_end.certificates import Pair, authority, have_openssl, issue

Code = grpc.StatusCode


class Started:
    """Starts servers of one kind, and stops them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._servers: list[Server] = []

    def __call__(self, **options: Any) -> Server:
        server = Server(KINDS[self.name], **options)
        self._servers.append(server)
        return server

    def close(self) -> None:
        for server in self._servers:
            server.close()


@pytest.fixture(params=KINDS)
def start(request: pytest.FixtureRequest) -> Iterator[Started]:
    started = Started(request.param)
    yield started
    started.close()


@pytest.fixture
def server(start: Started) -> Server:
    return start()


def counted(server: Server, code: str, signal: str = "traces") -> int:
    """Requests that ended with a code, as soon as there are any."""
    for _ in range(200):
        if found := server.stats.requests.get(("grpc", signal, code), 0):
            return found
        time.sleep(0.01)
    return 0


def retry_seconds(error: Any) -> int | None:
    """The delay in a status' RetryInfo, read by grpcio-status; None where there is none."""
    status = rpc_status.from_call(error)
    if status is None:
        return None
    assert (status.code, status.message) == (error.code().value[0], error.details())
    for each in status.details:
        assert each.type_url == "type.googleapis.com/google.rpc.RetryInfo"
        assert each.value[:3:2] == b"\x0a\x08"
        return int(each.value[3])
    return None


# --- what comes of a message ----------------------------------------------------------------------


@pytest.mark.parametrize("compression", list(grpc.Compression))
@pytest.mark.parametrize("size", [1, 20, 1_500])
def test_full_success(server: Server, compression: grpc.Compression, size: int) -> None:
    """An empty message, whatever the coding; a large request is inflated beside the loop."""
    raw = body(size)
    assert server.call(raw, compression=compression) == b""
    assert len(server.spans) == size
    assert server.stats.requests == {("grpc", "traces", "OK"): 1}
    assert server.stats.bytes["grpc"] == len(raw)


def test_partial_success(server: Server) -> None:
    """The spans that are left out are counted, with a reason."""
    raw = body(3) + body(2, span_id=b"")
    partial = ExportTraceServiceResponse.FromString(server.call(raw)).partial_success
    assert partial.rejected_spans == 2
    assert "span id has 0 bytes" in partial.error_message
    assert len(server.spans) == 3


@pytest.mark.parametrize("raw", [b"\xff", body()[:-1], gzip.compress(body(), mtime=0)[:-4]])
def test_malformed(server: Server, raw: bytes) -> None:
    """INVALID_ARGUMENT, without RetryInfo; the next call is served."""
    error = server.refused(raw)
    assert error.code() is Code.INVALID_ARGUMENT
    assert retry_seconds(error) is None
    assert server.call(body()) == b""
    assert counted(server, "INVALID_ARGUMENT") == 1


@pytest.mark.parametrize("compression", list(grpc.Compression))
def test_too_large(server: Server, compression: grpc.Compression) -> None:
    """A message over the bound, before or after inflation, gets RESOURCE_EXHAUSTED and no RetryInfo."""
    error = server.refused(bytes(LIMIT + 1), compression=compression)
    assert error.code() is Code.RESOURCE_EXHAUSTED
    assert rpc_status.from_call(error) is None
    assert counted(server, "RESOURCE_EXHAUSTED") == 1
    assert server.call(b"") == b""


def test_streams_with_no_message_or_two(server: Server) -> None:
    """Export is unary: none or two messages are refused, and no span is taken."""
    call = server.channel.stream_unary(TRACES)
    for messages in ((), (body(), body())):
        with pytest.raises(grpc.RpcError) as error:
            call(iter(messages), timeout=20)
        assert error.value.code() is Code.INVALID_ARGUMENT
    assert server.spans == []


def test_unknown_methods(server: Server) -> None:
    for method in ("/x.Y/Z", f"{PREFIX}.trace.v1.TraceService/Import"):
        assert server.refused(b"", method).code() is Code.UNIMPLEMENTED
    assert server.stats.requests == {}


def test_metrics_and_logs(server: Server) -> None:
    for signal in ("metrics", "logs"):
        method = f"{PREFIX}.{signal}.v1.{signal.title()}Service/Export"
        assert server.call(b"\x0a\x00", method) == b""
        assert counted(server, "OK", signal) == 1


def test_a_message_that_takes_too_long(start: Started) -> None:
    """The sender gets an error, and its place is free again."""
    admission = Admission(body_seconds=0.2)
    server = start(admission=admission)
    release = threading.Event()
    error = server.channel.stream_unary(TRACES).future(iter(lambda: release.wait(5), None))
    assert error.code() is Code.DEADLINE_EXCEEDED
    release.set()
    assert server.call(body()) == b""
    assert admission.requests == 0


# --- who may send, and when -----------------------------------------------------------------------


def bearer(token: str) -> tuple[tuple[str, str]]:
    return (("authorization", f"Bearer {token}"),)


def test_tokens(start: Started, tmp_path: Path) -> None:
    """Refused by the head; the file is read again when it changes. Health needs no token."""
    file = tmp_path / "tokens"
    file.write_text("one: first\n")
    server = start(admission=Admission(tokens=Tokens(file)))
    for metadata in ((), bearer("second")):
        error = server.refused(body(), metadata=metadata)
        assert error.code() is Code.UNAUTHENTICATED
        assert retry_seconds(error) is None
    assert server.call(body(), metadata=bearer("first")) == b""
    assert server.call(b"", HEALTH) == b"\x08\x01"
    file.write_text("one: second\n")
    time.sleep(1.1)
    assert server.call(body(), metadata=bearer("second")) == b""
    assert server.refused(body(), metadata=bearer("first")).code() is Code.UNAUTHENTICATED
    assert counted(server, "UNAUTHENTICATED") == 3


def test_throttled(start: Started, tmp_path: Path) -> None:
    """A sender's own share: RESOURCE_EXHAUSTED with RetryInfo."""
    file = tmp_path / "tokens"
    file.write_text("one: first\n")
    admission = Admission(
        tokens=Tokens(file), rate_limits=RateLimits(RateLimit(0.1), lambda *_: None)
    )
    server = start(admission=admission)
    assert server.call(body(), metadata=bearer("first")) == b""
    for _ in range(3):
        error = server.refused(body(), metadata=bearer("first"))
        assert error.code() is Code.RESOURCE_EXHAUSTED
        assert (retry_seconds(error) or 0) > 0


@pytest.mark.parametrize("outcome", [ExportStatus.UNAVAILABLE, ExportStatus.THROTTLED])
def test_refusals_of_the_pipeline(server: Server, outcome: ExportStatus) -> None:
    """Each refusal carries its RetryInfo."""
    server.refusal = Refusal(outcome, "full: wait ☕", 7)
    error = server.refused(body())
    assert (error.code().value[0], error.details()) == (outcome.value.grpc, "full: wait ☕")
    assert retry_seconds(error) == 7


def test_unavailable_where_there_is_no_room(start: Started) -> None:
    """Without room for the bytes the call is refused, and nothing stays reserved."""
    admission = Admission(max_inflight_bytes=1_000)
    server = start(admission=admission)
    error = server.refused(body(100))
    assert error.code() is Code.UNAVAILABLE
    assert retry_seconds(error) == 1
    assert server.call(body()) == b""
    assert (admission.bytes, admission.requests) == (0, 0)


def test_who_holds_most_places_gives_one_up(start: Started) -> None:
    """Half-sent calls of one sender take places only from that sender."""
    admission = Admission(requests_max=4)
    server = start(admission=admission)
    release = threading.Event()

    def half() -> Iterator[bytes]:
        yield body()
        release.wait(10)

    with connect(server.address) as flood, connect(server.address) as good:
        held = [flood.stream_unary(TRACES).future(half(), timeout=20) for _ in range(4)]
        while admission.requests < 4:
            time.sleep(0.01)
        assert good.unary_unary(TRACES)(body(), timeout=20) == b""
        release.set()
        codes = [each.code() for each in held]
    assert codes.count(Code.UNAVAILABLE) >= 1
    assert set(codes) <= {Code.UNAVAILABLE, Code.OK}
    assert admission.requests == 0


def test_an_error_of_ours(server: Server) -> None:
    """INTERNAL; the next call is served."""
    server.refusal = RuntimeError("ours")
    error = server.refused(body())
    assert error.code() is Code.INTERNAL
    assert "ours" not in error.details()
    server.refusal = None
    assert server.call(body()) == b""


# --- calls that end early, and many of them -------------------------------------------------------


def test_cancelled_and_late_calls(start: Started) -> None:
    """Cancelled and late calls are counted, hold nothing and are not logged."""
    admission = Admission()
    server = start(admission=admission)
    release = threading.Event()

    def nothing() -> Iterator[bytes]:
        release.wait(10)
        yield body()

    grpc.channel_ready_future(server.channel).result(10)
    call = server.channel.stream_unary(TRACES)
    first = call.future(nothing(), timeout=20)
    late = call.future(nothing(), timeout=1)
    time.sleep(0.3)
    first.cancel()
    assert late.code() is Code.DEADLINE_EXCEEDED
    for _ in range(200):
        if server.stats.requests.get(("grpc", "traces", "CANCELLED")) == 2:
            break
        time.sleep(0.01)
    release.set()
    assert server.stats.requests == {("grpc", "traces", "CANCELLED"): 2}
    assert server.stats.counts["unread_messages", "grpc"] == 2
    assert server.spans == []
    assert (admission.bytes, admission.requests) == (0, 0)


def test_20_calls_at_once(server: Server) -> None:
    raw = body(50)
    with ThreadPoolExecutor(20) as pool:
        assert set(pool.map(server.call, [raw] * 20)) == {b""}
    assert len(server.spans) == 20 * 50


def test_the_exporter_of_the_sdk(server: Server) -> None:
    for compression in (None, grpc.Compression.Gzip):
        exporter = OTLPSpanExporter(server.address, insecure=True, compression=compression)
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        with provider.get_tracer("t").start_as_current_span("execute_tool"):
            pass
        provider.shutdown()
    assert [span.name for span in server.spans] == ["execute_tool"] * 2


def test_drain(start: Started) -> None:
    """A call in flight is answered, new calls are refused, and health watchers are notified."""
    server = start()
    release = threading.Event()

    def half() -> Iterator[bytes]:
        yield body()
        release.wait(10)

    watch = health_pb2_grpc.HealthStub(server.channel).Watch(health_pb2.HealthCheckRequest())
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
    call = server.channel.stream_unary(TRACES).future(half(), timeout=20)
    time.sleep(0.5)
    stopping = threading.Thread(target=lambda: server.run(server.receiver.stop(5)))
    begun = time.monotonic()
    stopping.start()
    assert [each.status for each in watch] == [health_pb2.HealthCheckResponse.NOT_SERVING]
    release.set()
    assert call.result(20) == b""
    stopping.join()
    assert time.monotonic() - begun < 4
    assert len(server.spans) == 1
    assert server.refused(body()).code() is Code.UNAVAILABLE


def test_the_end_of_the_grace(start: Started) -> None:
    """Calls that are incomplete at the end of the grace period are dropped."""
    server = start()
    release = threading.Event()

    def nothing() -> Iterator[bytes]:
        release.wait(10)
        yield body()

    grpc.channel_ready_future(server.channel).result(10)
    call = server.channel.stream_unary(TRACES).future(nothing(), timeout=20)
    time.sleep(0.5)
    begun = time.monotonic()
    server.run(server.receiver.stop(0.3))
    assert time.monotonic() - begun < 3
    assert call.code() in {Code.UNAVAILABLE, Code.CANCELLED}
    release.set()
    assert counted(server, "CANCELLED") == 1


# --- the other services ---------------------------------------------------------------------------


def test_health(server: Server) -> None:
    stub = health_pb2_grpc.HealthStub(server.channel)
    request = health_pb2.HealthCheckRequest
    traces = "opentelemetry.proto.collector.trace.v1.TraceService"
    for name in ("", traces):
        assert (
            stub.Check(request(service=name)).status == health_pb2.HealthCheckResponse.SERVING
        )
    with pytest.raises(grpc.RpcError) as error:
        stub.Check(request(service="nobody"))
    assert error.value.code() is Code.NOT_FOUND
    watch = stub.Watch(request(service="nobody"))
    assert next(watch).status == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    watch.cancel()
    assert server.refused(b"\xff", HEALTH).code() is Code.INVALID_ARGUMENT


def test_reflection(start: Started) -> None:
    """Services, and the file of one, as grpcio's own client of reflection reads them; off by default."""
    names = ("metrics.v1.Metrics", "logs.v1.Logs", "trace.v1.Trace")
    wanted = {f"opentelemetry.proto.collector.{name}Service" for name in names}
    shown = ProtoReflectionDescriptorDatabase(start(reflection=True).channel)
    assert wanted | {"grpc.health.v1.Health"} <= set(shown.get_services())
    for name in wanted:
        for symbol in (name, f"{name}.Export"):  # ghz asks for the method
            found = shown.FindFileContainingSymbol(symbol)
            assert found.service[0].method[0].name == "Export"
    with pytest.raises(KeyError):
        shown.FindFileContainingSymbol("nobody")
    hidden = ProtoReflectionDescriptorDatabase(start().channel)
    with pytest.raises(grpc.RpcError) as error:
        hidden.get_services()
    assert error.value.code() is Code.UNIMPLEMENTED


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_both_versions_of_reflection(start: Started, version: str) -> None:
    server = start(reflection=True)
    method = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    [answer] = server.channel.stream_stream(method)(iter([b"\x3a\x00"]), timeout=20)
    assert b"grpc.health.v1.Health" in answer


# --- TLS ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    if not have_openssl():
        pytest.skip("the openssl program makes the certificates")
    return authority(tmp_path_factory.mktemp("authority"))


def secure(server: Server, signer: Pair, client: Pair | None = None) -> Any:
    """A TLS channel that shares no connection with others."""
    key = client.key.read_bytes() if client else None
    cert = client.cert.read_bytes() if client else None
    credentials = grpc.ssl_channel_credentials(signer.cert.read_bytes(), key, cert)
    options = [
        ("grpc.ssl_target_name_override", "localhost"),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    return grpc.secure_channel(server.address, credentials, options)


def code_of(channel: Any) -> grpc.StatusCode:
    """The status code of an Export on a channel, which is then closed."""
    with channel:
        try:
            channel.unary_unary(TRACES)(body(), timeout=20)
        except grpc.RpcError as error:
            found: grpc.StatusCode = error.code()
            return found
    return Code.OK


def test_tls(start: Started, signer: Pair, tmp_path: Path) -> None:
    """Clients that do not trust the authority, or send plain text, are refused."""
    pair = issue(signer, tmp_path, "server")
    server = start(certificates=Certificates(pair.cert, pair.key))
    assert code_of(secure(server, signer)) is Code.OK
    assert code_of(secure(server, authority(tmp_path, "foreign"))) is Code.UNAVAILABLE
    assert code_of(connect(server.address)) is Code.UNAVAILABLE


def test_mutual_tls(start: Started, signer: Pair, tmp_path: Path) -> None:
    """Only clients with a certificate of the authority are accepted."""
    pair, client = issue(signer, tmp_path, "server"), issue(signer, tmp_path, "client")
    foreign = issue(authority(tmp_path, "foreign"), tmp_path, "other")
    server = start(certificates=Certificates(pair.cert, pair.key, signer.cert))
    assert code_of(secure(server, signer, client)) is Code.OK
    assert code_of(secure(server, signer)) is Code.UNAVAILABLE
    assert code_of(secure(server, signer, foreign)) is Code.UNAVAILABLE


def test_certificates_are_read_again(start: Started, signer: Pair, tmp_path: Path) -> None:
    """New connections get the new one, open ones stay; files that do not fit change nothing."""
    pair = issue(signer, tmp_path, "server")
    server = start(certificates=Certificates(pair.cert, pair.key))
    stays = secure(server, signer)
    assert stays.unary_unary(TRACES)(body(), timeout=20) == b""
    other = authority(tmp_path, "other")
    renewed = issue(other, tmp_path, "renewed")
    good_key = pair.key.read_bytes()
    pair.key.write_bytes(renewed.key.read_bytes())
    time.sleep(1.1)
    assert code_of(secure(server, signer)) is Code.OK
    pair.key.write_bytes(good_key)
    pair.cert.write_bytes(renewed.cert.read_bytes())
    pair.key.write_bytes(renewed.key.read_bytes())
    time.sleep(1.1)
    assert code_of(secure(server, other)) is Code.OK
    assert code_of(secure(server, signer)) is Code.UNAVAILABLE
    assert stays.unary_unary(TRACES)(body(), timeout=20) == b""
    stays.close()


def test_files_that_cannot_be_used(start: Started, tmp_path: Path) -> None:
    """The start fails with the setting's name."""
    with pytest.raises(OSError, match=r"receiver\.tls"):
        start(certificates=Certificates(tmp_path / "none.pem", tmp_path / "none.key"))


# --- connections ----------------------------------------------------------------------------------


def test_old_connections_are_replaced(start: Started) -> None:
    """The client is notified between calls, and none of its calls fails."""
    server = start(keepalive=Keepalive(age_max=0.3, age_grace=1.0))
    for _ in range(10):
        assert server.call(body()) == b""
        time.sleep(0.1)
    assert len(server.spans) == 10


# --- grpcio alone ---------------------------------------------------------------------------------


def test_codings_are_told_by_their_first_bytes() -> None:
    """No request begins with them: its first field is number 1."""
    import zlib

    assert coding_of(gzip.compress(b"x")) == "gzip"
    for level in range(-1, 10):
        assert coding_of(zlib.compress(b"x", level)) == "deflate"
    for raw in (b"", b"\x0a", b"\x1f", b"\x78", b"\x78\x00", body(), body(50)):
        assert coding_of(raw) == ""
