"""One attempt over HTTP, against good and bad next hops on real sockets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from pydantic import SecretStr

from collector.config.settings.forward import NextHopSettings
from collector.forward.http_sender import HttpForwarder, retry_after
from collector.forward.message import ForwardMessage, ForwardReply
from collector.net.watched_files import UnusableFileError
from collector.receive.status_codes import ExportStatus, Refusal, status_bytes
from tests.collector.event_loop import run
from tests.collector.forward.hops import OK, GotHttp, HttpHop, answer

NOW = 1_700_000_000_000_000_000


async def sent(
    url: str, message: ForwardMessage | None = None, seconds: float = 5.0, **settings: Any
) -> ForwardReply:
    """What comes of one attempt."""
    hop = NextHopSettings(endpoint=url, timeout_seconds=seconds, **settings)
    sender = HttpForwarder(hop, "forward[0]", lambda: NOW)
    try:
        await sender.prepare()
        return await sender.send(message or ForwardMessage("traces", b"\x0a\x00", "proto"))
    finally:
        await sender.close()


def reply_to(given: bytes | None, seconds: float = 5.0) -> ForwardReply:
    """What comes of one attempt at a next hop that answers so."""
    found: list[ForwardReply] = []

    async def main() -> None:
        async with HttpHop(lambda _: given) as hop:
            found.append(await sent(hop.url, seconds=seconds))

    run(main)
    return found[0]


@pytest.mark.parametrize(
    ("signal", "encoding", "kind"),
    [
        ("traces", "proto", "application/x-protobuf"),
        ("metrics", "proto", "application/x-protobuf"),
        ("logs", "json", "application/json"),
    ],
)
def test_the_body_goes_on_as_it_is(signal: Any, encoding: Any, kind: str) -> None:
    """Each signal has its path below the endpoint's, each encoding its media type; the bytes are the same."""
    body = bytes(range(256))

    async def main() -> None:
        async with HttpHop() as hop:
            metadata = [(b"x-tenant", b"farm")]
            headers = {"x-key": SecretStr("s3cret")}
            message = ForwardMessage(signal, body, encoding, metadata)
            reply = await sent(hop.url + "/api/otel/", message, headers=headers)
        assert reply == ForwardReply(ExportStatus.OK)
        (got,) = hop.got
        assert got.path == f"/api/otel/v1/{signal}"
        assert got.body == body
        assert got.headers["content-type"] == kind
        assert got.headers["x-tenant"] == "farm"
        assert got.headers["x-key"] == "s3cret"
        assert "content-encoding" not in got.headers
        assert "authorization" not in got.headers

    run(main)


def test_connections_are_kept() -> None:
    """A next hop is reached by one connection as long as one message goes at a time."""

    async def main() -> None:
        async with HttpHop() as hop:
            sender = HttpForwarder(NextHopSettings(endpoint=hop.url), "forward[0]", lambda: NOW)
            await sender.prepare()
            for _ in range(5):
                assert (
                    await sender.send(ForwardMessage("logs", b"", "proto"))
                ).status is ExportStatus.OK
            await sender.close()
        assert hop.connections == 1

    run(main)


def test_credentials_are_sent(tmp_path: Path) -> None:
    """A user in the endpoint, or a token in a file, becomes the next hop's own authorization."""
    token = tmp_path / "token"
    token.write_text("t0ken\n")

    async def main() -> None:
        async with HttpHop() as hop:
            await sent(hop.url.replace("://", "://me:pw@"))
            await sent(hop.url, bearer_token_file=token)
        first, second = (each.headers["authorization"] for each in hop.got)
        assert first.startswith("Basic ")
        assert second == "Bearer t0ken"

    run(main)


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (200, ExportStatus.OK),
        (202, ExportStatus.OK),
        (302, ExportStatus.INTERNAL),
        (400, ExportStatus.MALFORMED),
        (401, ExportStatus.UNAUTHENTICATED),
        (403, ExportStatus.PERMISSION_DENIED),
        (404, ExportStatus.NOT_FOUND),
        (413, ExportStatus.TOO_LARGE),
        (429, ExportStatus.THROTTLED),
        (500, ExportStatus.INTERNAL),
        (501, ExportStatus.INTERNAL),
        (502, ExportStatus.UNAVAILABLE),
        (503, ExportStatus.UNAVAILABLE),
        (504, ExportStatus.UNAVAILABLE),
    ],
)
def test_the_status_decides(status: int, outcome: ExportStatus) -> None:
    """429, 502, 503 and 504 are to be tried again, no other error is (OTLP/HTTP Response)."""
    reply = reply_to(answer(f"{status} Whatever", b"", "location: /elsewhere"))

    assert reply.status is outcome
    assert outcome.value.retryable == (status in (429, 502, 503, 504))


@pytest.mark.parametrize(
    ("given", "partial"),
    [
        (
            answer(
                "200 OK",
                ExportTraceServiceResponse(
                    partial_success={"rejected_spans": 3, "error_message": "bad ids"}  # type: ignore[arg-type]
                ).SerializeToString(),
                "content-type: application/x-protobuf",
            ),
            (3, "bad ids"),
        ),
        (
            answer(
                "200 OK",
                ExportLogsServiceResponse(
                    partial_success={"rejected_log_records": 2}  # type: ignore[arg-type]
                ).SerializeToString(),
                "content-type: application/x-protobuf",
            ),
            (2, ""),
        ),
        (
            answer(
                "200 OK",
                b'{"partialSuccess":{"rejectedDataPoints":"4","errorMessage":"old"}}',
                "content-type: application/json",
            ),
            (4, "old"),
        ),
        (answer("200 OK", b'{"partialSuccess":{}}', "content-type: application/json"), (0, "")),
        (answer("200 OK", b"\xff\xff garbage", "content-type: text/html"), (0, "")),
        (answer("200 OK", b"[[", "content-type: application/json"), (0, "")),
        (
            answer(
                "200 OK",
                b'{"partialSuccess":{"rejectedSpans":"-7"}}',
                "content-type: application/json",
            ),
            (0, ""),
        ),
        (answer("200 OK", b"x" * 100_000), (0, "")),
    ],
)
def test_partial_success_is_read(given: bytes, partial: tuple[int, str]) -> None:
    """Rejected items and message of both encodings; an answer that cannot be read says nothing."""
    reply = reply_to(given)

    assert reply.status is ExportStatus.OK
    assert (reply.rejected, reply.message) == partial


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30.0),
        ("Tue, 14 Nov 2023 22:13:00 GMT", 0.0),
        ("soon", 0.0),
        ("", 0.0),
        ("-3", 0.0),
        ("9" * 400, 999_999_999.0),
        ("Fri, 31 Dec 99999 23:59:59 GMT", 0.0),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str, seconds: float) -> None:
    """What is neither asks for nothing (RFC 9110 10.2.3)."""
    assert retry_after(header, NOW) == seconds


def test_retry_after_is_honoured_where_it_is_to_be_tried_again() -> None:
    """The header counts for 429 and 503, and its words reach the log."""
    said = status_bytes(Refusal(ExportStatus.UNAVAILABLE, "come back later"))
    kind = "content-type: application/x-protobuf"
    busy = reply_to(answer("503 Busy", said, kind, "retry-after: 9"))
    gone = reply_to(
        answer(
            "400 No", json.dumps({"message": "bad"}).encode(), "content-type: application/json"
        )
    )

    assert busy == ForwardReply(ExportStatus.UNAVAILABLE, "status 503: come back later", 0, 9.0)
    assert gone == ForwardReply(ExportStatus.MALFORMED, "status 400: bad")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (b"", "closed without response"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", ""),
        (b"\x00\xff\x00\xff" * 20 + b"\r\n\r\n", ""),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nshort", ""),
        (b"HTTP/1.1 two hundred\r\n\r\n", ""),
    ],
)
def test_garbage_is_a_fault_of_the_connection(given: bytes, said: str) -> None:
    """An answer that is not HTTP, or is cut off, is tried again: nobody knows what became of the request."""
    found: list[ForwardReply] = []

    async def main() -> None:
        def reply(got: GotHttp) -> bytes:
            return given

        async with HttpHop(reply) as hop:
            found.append(await sent(hop.url, seconds=0.5))

    run(main)
    assert found[0].status is ExportStatus.UNAVAILABLE
    assert said in found[0].message
    assert found[0].message


def test_a_next_hop_that_hangs_is_given_up_in_time() -> None:
    """An attempt lasts as long as the timeout."""
    assert reply_to(None, seconds=0.1) == ForwardReply(
        ExportStatus.UNAVAILABLE, "no answer in time"
    )


def test_nobody_listens() -> None:
    """A refused connection, or a name that is not known, is to be tried again."""

    async def main() -> None:
        async with HttpHop() as hop:
            url = hop.url
        refused = await sent(url)
        assert refused == ForwardReply(ExportStatus.UNAVAILABLE, "Connection refused")
        unknown = await sent("http://no-such-host.invalid:4318")
        assert unknown.status is ExportStatus.UNAVAILABLE

    run(main)


def test_a_file_that_cannot_be_used_is_said_at_the_start(tmp_path: Path) -> None:
    """Certificates and tokens are read before the first request."""

    async def main() -> None:
        with pytest.raises(UnusableFileError, match=r"forward\[0\]\.ca_file: .*No such file"):
            await sent("https://localhost:1", ca_file=tmp_path / "missing.pem")

    run(main)


def test_a_next_hop_that_is_back_is_reached_by_new_connections() -> None:
    """After a reset, the same client sends on."""
    answers = [b"", OK, b"", OK]

    async def main() -> None:
        async with HttpHop(lambda _: answers.pop(0)) as hop:
            sender = HttpForwarder(NextHopSettings(endpoint=hop.url), "forward[0]", lambda: NOW)
            await sender.prepare()
            outcomes = [
                (await sender.send(ForwardMessage("traces", b"", "proto"))).status
                for _ in range(4)
            ]
            await sender.close()
        assert outcomes == [ExportStatus.UNAVAILABLE, ExportStatus.OK] * 2

    run(main)


def test_many_at_once_share_the_timeout() -> None:
    """Attempts that wait for a connection give up in time, too."""

    async def main() -> None:
        async with HttpHop(lambda _: None) as hop:
            made = NextHopSettings(endpoint=hop.url, timeout_seconds=0.3)
            sender = HttpForwarder(made, "forward[0]", lambda: NOW)
            await sender.prepare()
            messages = [ForwardMessage("traces", b"", "proto") for _ in range(100)]
            replies = await asyncio.gather(*map(sender.send, messages))
            await sender.close()
        assert {each.message for each in replies} == {"no answer in time"}

    run(main)
