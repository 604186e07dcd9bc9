"""One attempt over gRPC, against good and bad next hops on real sockets."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status as RpcStatus
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from pydantic import SecretStr

from collector.config.settings.forward import NextHopSettings
from collector.forward.grpc_sender import GrpcForwarder
from collector.forward.message import ForwardMessage, ForwardReply
from collector.net.watched_files import UnusableFileError, WatchedFiles
from collector.receive.status_codes import ExportStatus
from tests.collector.event_loop import run
from tests.collector.forward.hops import GrpcHop, HttpHop, Status
from tests.end_to_end.certificates import authority, have_openssl, issue

CODES = grpc.StatusCode
RETRYABLE = {
    CODES.CANCELLED,
    CODES.DEADLINE_EXCEEDED,
    CODES.ABORTED,
    CODES.OUT_OF_RANGE,
    CODES.UNAVAILABLE,
    CODES.DATA_LOSS,
}


async def sent(
    url: str, message: ForwardMessage | None = None, seconds: float = 5.0, **settings: Any
) -> ForwardReply:
    """What comes of one attempt."""
    hop = NextHopSettings(endpoint=url, protocol="grpc", timeout_seconds=seconds, **settings)
    sender = GrpcForwarder(hop, "forward[0]")
    try:
        await sender.prepare()
        return await sender.send(message or ForwardMessage("traces", b"\x0a\x00", "proto"))
    finally:
        await sender.close()


def reply_to(given: bytes | Status | None, seconds: float = 5.0) -> ForwardReply:
    """What comes of one attempt at a next hop that answers so."""
    found: list[ForwardReply] = []

    async def main() -> None:
        async with GrpcHop(lambda _: given) as hop:
            found.append(await sent(hop.url, seconds=seconds))

    run(main)
    return found[0]


def details(*found: Any) -> bytes:
    """A google.rpc.Status with these details."""
    status = RpcStatus(code=14, message="busy")
    for each in found:
        packed = AnyMessage()
        packed.Pack(each)
        status.details.append(packed)
    packed_status: bytes = status.SerializeToString()
    return packed_status


@pytest.mark.parametrize(
    ("signal", "method"),
    [
        ("traces", "/opentelemetry.proto.collector.trace.v1.TraceService/Export"),
        ("metrics", "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"),
        ("logs", "/opentelemetry.proto.collector.logs.v1.LogsService/Export"),
    ],
)
def test_the_body_is_the_message(signal: Any, method: str) -> None:
    """Each signal has its service; the message is the body, byte for byte, whatever its size."""
    body = bytes(range(256)) * 40_000

    async def main() -> None:
        async with GrpcHop() as hop:
            metadata = [
                (b"x-tenant", b"farm"),
                (b"trace-bin", base64.b64encode(b"\0\1\2").rstrip(b"=")),
                (b"x-latin", b"\xe9"),
            ]
            message = ForwardMessage(signal, body, "proto", metadata)
            headers = {"X-Key": SecretStr("s3cret")}
            reply = await sent(hop.url, message, headers=headers)
        assert reply == ForwardReply(ExportStatus.OK)
        (got,) = hop.got
        assert got.method == method
        assert got.body == body
        assert got.metadata["x-tenant"] == "farm"
        assert got.metadata["x-key"] == "s3cret"
        assert got.metadata["trace-bin"] == b"\0\1\2"
        assert "x-latin" not in got.metadata
        assert "authorization" not in got.metadata

    run(main)


def test_credentials_are_sent(tmp_path: Path) -> None:
    """A user in the endpoint, or a token in a file, becomes the next hop's own authorization."""
    token = tmp_path / "token"
    token.write_text("t0ken\n")

    async def main() -> None:
        async with GrpcHop() as hop:
            await sent(hop.url.replace("://", "://me:pw@"))
            await sent(hop.url, bearer_token_file=token)
        first, second = (each.metadata["authorization"] for each in hop.got)
        assert first.startswith("Basic ")
        assert second == "Bearer t0ken"

    run(main)


@pytest.mark.parametrize("code", [each for each in CODES if each is not CODES.OK])
def test_the_code_decides(code: grpc.StatusCode) -> None:
    """The codes of the specification are to be tried again, no other is (OTLP/gRPC, Failures)."""
    reply = reply_to(Status(code, "because"))

    assert reply.status.value.retryable == (code in RETRYABLE)
    assert reply.status is not ExportStatus.OK
    assert reply.message == f"{code.name}: because"


@pytest.mark.parametrize(
    ("code", "found", "outcome", "seconds"),
    [
        (
            CODES.UNAVAILABLE,
            details(RetryInfo(retry_delay=Duration(seconds=3, nanos=500_000_000))),
            ExportStatus.UNAVAILABLE,
            3.5,
        ),
        (
            CODES.RESOURCE_EXHAUSTED,
            details(BadRequest(), RetryInfo(retry_delay=Duration(seconds=7))),
            ExportStatus.THROTTLED,
            7.0,
        ),
        (CODES.RESOURCE_EXHAUSTED, details(BadRequest()), ExportStatus.TOO_LARGE, 0.0),
        (CODES.RESOURCE_EXHAUSTED, b"", ExportStatus.TOO_LARGE, 0.0),
        (CODES.UNAVAILABLE, b"\xff\xff", ExportStatus.UNAVAILABLE, 0.0),
        (
            CODES.UNAVAILABLE,
            details(RetryInfo(retry_delay=Duration(seconds=-9))),
            ExportStatus.UNAVAILABLE,
            0.0,
        ),
    ],
)
def test_retry_info_is_honoured(
    code: grpc.StatusCode, found: bytes, outcome: ExportStatus, seconds: float
) -> None:
    """The delay is taken from the details; RESOURCE_EXHAUSTED is to be tried again only with it."""
    reply = reply_to(Status(code, "busy", found))

    assert (reply.status, reply.wait_seconds) == (outcome, seconds)


@pytest.mark.parametrize(
    ("given", "partial"),
    [
        (
            ExportTraceServiceResponse(
                partial_success={"rejected_spans": 3, "error_message": "bad ids"}  # type: ignore[arg-type]
            ).SerializeToString(),
            (3, "bad ids"),
        ),
        (ExportTraceServiceResponse(partial_success={}).SerializeToString(), (0, "")),  # type: ignore[arg-type]
        (b"\xff\xff garbage", (0, "")),
    ],
)
def test_partial_success_is_read(given: bytes, partial: tuple[int, str]) -> None:
    """Rejected items and message; an answer that cannot be read says nothing."""
    reply = reply_to(given)

    assert reply.status is ExportStatus.OK
    assert (reply.rejected, reply.message) == partial


def test_a_next_hop_that_hangs_is_given_up_in_time() -> None:
    """An attempt lasts as long as the timeout."""
    reply = reply_to(None, seconds=0.2)

    assert reply.status is ExportStatus.UNAVAILABLE
    assert reply.message.startswith("DEADLINE_EXCEEDED")


def test_another_protocol_answers() -> None:
    """A port that speaks HTTP/1.1, garbage, or resets is to be tried again, and the message says so."""

    async def main() -> None:
        for given in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\xff garbage" * 9, b""):
            async with HttpHop(lambda _, given=given: given) as hop:  # type: ignore[misc]
                reply = await sent(hop.url, seconds=1)
            assert reply.status is ExportStatus.UNAVAILABLE
            assert reply.message

    run(main)


def test_nobody_listens_and_then_somebody_does() -> None:
    """A refused connection is to be tried again, and the channel finds a next hop that is back."""

    async def main() -> None:
        async with GrpcHop() as hop:
            url = hop.url
        made = NextHopSettings(endpoint=url, protocol="grpc", timeout_seconds=5)
        sender = GrpcForwarder(made, "forward[0]")
        await sender.prepare()
        message = ForwardMessage("traces", b"", "proto")
        assert (await sender.send(message)).status is ExportStatus.UNAVAILABLE
        back = grpc.aio.server()
        hop = GrpcHop()
        back.add_generic_rpc_handlers((hop,))  # type: ignore[arg-type]
        back.add_insecure_port(url.removeprefix("http://"))
        await back.start()
        async with asyncio.timeout(15):
            while (await sender.send(message)).status is not ExportStatus.OK:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await sender.close()
        await back.stop(0)

    run(main)


def test_a_file_that_cannot_be_used_is_said_at_the_start(tmp_path: Path) -> None:
    """Certificates are read before the first request."""

    async def main() -> None:
        with pytest.raises(UnusableFileError, match=r"forward\[0\]\.ca_file: .*No such file"):
            await sent("https://localhost:1", ca_file=tmp_path / "missing.pem")

    run(main)


@pytest.mark.skipif(not have_openssl(), reason="openssl makes the certificates")
def test_tls_with_certificates_of_both(tmp_path: Path) -> None:
    """The next hop's certificate is checked against the authority that is set, and ours is shown to it."""
    signer = authority(tmp_path)
    server, client = issue(signer, tmp_path, "server"), issue(signer, tmp_path, "client")
    credentials = grpc.ssl_server_credentials(
        [(server.key.read_bytes(), server.cert.read_bytes())], signer.cert.read_bytes(), True
    )

    async def main() -> None:
        async with GrpcHop(credentials=credentials) as hop:
            trusted: dict[str, Any] = {"ca_file": signer.cert}
            shown: dict[str, Any] = {
                "client_cert_file": client.cert,
                "client_key_file": client.key,
            }
            good = await sent(hop.url, **trusted, **shown)
            together = await sent(hop.url, **trusted, client_cert_file=client.together())
            without = await sent(hop.url, **trusted)
            distrusted = await sent(hop.url, **shown)
        assert good.status is together.status is ExportStatus.OK
        assert without.status is distrusted.status is ExportStatus.UNAVAILABLE

    run(main)


@pytest.mark.skipif(not have_openssl(), reason="openssl makes the certificates")
def test_a_renewed_token_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that changes is read anew; one that cannot be used keeps what was read before."""
    token = tmp_path / "token"
    token.write_text("first")

    async def main() -> None:
        async with GrpcHop() as hop:
            made = NextHopSettings(endpoint=hop.url, protocol="grpc", bearer_token_file=token)
            sender = GrpcForwarder(made, "forward[0]")
            await sender.prepare()
            message = ForwardMessage("traces", b"", "proto")
            for text in (None, "second", " "):
                if text is not None:
                    token.write_text(text)
                    monkeypatch.setattr(WatchedFiles, "changed", lambda _: True)
                assert (await sender.send(message)).status is ExportStatus.OK
            await sender.close()
        found = [each.metadata["authorization"] for each in hop.got]
        assert found == ["Bearer first", "Bearer second", "Bearer second"]

    run(main)
