from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import logging
import socket
import threading
import time
import zlib
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import pytest
import zstandard
from google.protobuf import json_format
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from collector.decode.protobuf.message_classes import INT32, STRING, build
from collector.decode.span import Span
from collector.receive.export import Export
from collector.receive.http.service import HttpApp
from collector.receive.listener.listener import Listener
from collector.receive.status_codes import ExportStatus, Refusal
from collector.telemetry.counters import Stats
from tests.conformance.bodies import varint

LIMIT = 100_000
PROTO, JSON = "application/x-protobuf", "application/json"
Status = build(
    "test.rpc", {"Status": [("code", 1, INT32, False), ("message", 2, STRING, False)]}
)["Status"]


class Server:
    """A receiver with an event loop in its own thread."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.refusal: Exception | None = None
        self.stats = Stats()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        app = HttpApp(Export(self.consume, self.stats, time.time_ns), LIMIT)
        self.listener = Listener(app, "127.0.0.1:0")
        self.address: str = self.run(self.listener.start())

    def consume(self, spans: list[Span], now_ns: int, transport: str) -> None:
        if self.refusal:
            raise self.refusal
        self.spans += spans

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    def close(self) -> None:
        self.run(self.listener.stop(2))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def server(running: Server) -> Server:
    running.spans.clear()
    running.refusal = None
    running.stats.requests.clear()
    return running


@pytest.fixture
def client(server: Server) -> Iterator[http.client.HTTPConnection]:
    connection = http.client.HTTPConnection(server.address, timeout=20)
    yield connection
    connection.close()


def message(count: int = 1, **fields: Any) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for _ in range(count):
        scope.spans.add(**{"trace_id": b"\1" * 16, "span_id": b"\2" * 8, **fields})
    return request


BODY = message().SerializeToString()
JSON_BODY = (
    b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"'
    + b"01" * 16
    + b'","spanId":"'
    + b"02" * 8
    + b'"}]}]}]}'
)


class Reply:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.code = response.status
        self.headers = response.headers
        self.body = response.read()

    def status(self) -> tuple[int, str]:
        """The google.rpc.Status in the body, by the answer's own media type."""
        if self.headers["content-type"] == PROTO:
            parsed = Status.FromString(self.body)
            return parsed.code, parsed.message
        document = json.loads(self.body)
        return document["code"], document["message"]


def post(
    client: http.client.HTTPConnection,
    body: Any,
    content_type: str | None = PROTO,
    path: str = "/v1/traces",
    method: str = "POST",
    **headers: str,
) -> Reply:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if content_type is not None:
        sent["Content-Type"] = content_type
    client.request(method, path, body, sent)
    return Reply(client.getresponse())


@pytest.mark.parametrize(
    ("content_type", "body", "answer"),
    [
        (PROTO, BODY, b""),
        ("Application/X-Protobuf; charset=utf-8", BODY, b""),
        (JSON, JSON_BODY, b"{}"),
        ("APPLICATION/JSON ;charset=UTF-8", JSON_BODY, b"{}"),
    ],
)
def test_full_success(
    server: Server,
    client: http.client.HTTPConnection,
    content_type: str,
    body: bytes,
    answer: bytes,
) -> None:
    """200, the request's media type, and a response whose partial_success is unset."""
    reply = post(client, body, content_type)
    assert (reply.code, reply.body) == (200, answer)
    assert (
        reply.headers["content-type"] == content_type.split(";", maxsplit=1)[0].strip().lower()
    )
    assert [span.trace_id for span in server.spans] == [b"\1" * 16]
    transport = "http_json" if "json" in content_type.lower() else "http_proto"
    assert server.stats.requests == {(transport, "traces", "200"): 1}


def test_partial_success(server: Server, client: http.client.HTTPConnection) -> None:
    """A bad span among good ones: 200, an exact count and a reason, in both encodings."""
    both = message(2)
    both.resource_spans[0].scope_spans[0].spans[1].span_id = bytes(8)
    reply = post(client, both.SerializeToString())
    partial = ExportTraceServiceResponse.FromString(reply.body).partial_success
    assert (reply.code, partial.rejected_spans) == (200, 1)
    assert partial.error_message == "span 2 of the request: span id is all zero"
    reply = post(client, JSON_BODY.replace(b"02" * 8, b"00" * 8), JSON)
    parsed = json_format.Parse(reply.body, ExportTraceServiceResponse())
    assert parsed.partial_success.rejected_spans == 1
    assert "spans[0]: span id is all zero" in parsed.partial_success.error_message


@pytest.mark.parametrize("path", ["/v1/metrics", "/v1/logs"])
def test_metrics_and_logs_are_accepted(
    server: Server, client: http.client.HTTPConnection, path: str
) -> None:
    """Metrics and logs are accepted and counted; malformed ones are refused like spans."""
    assert post(client, b"", path=path).code == 200
    assert post(client, b"{}", JSON, path=path).body == b"{}"
    assert post(client, b"\xff", path=path).code == 400
    signal = path.removeprefix("/v1/")
    assert server.stats.requests[("http_json", signal, "200")] == 1
    assert server.stats.requests[("http_proto", signal, "400")] == 1


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", gzip.compress(BODY, mtime=0)),
        ("GZIP", gzip.compress(BODY, mtime=0)),
        ("x-gzip", gzip.compress(BODY, mtime=0)),
        ("gzip, identity", gzip.compress(BODY, mtime=0)),
        (
            "gzip",
            gzip.compress(BODY[:5], mtime=0) + gzip.compress(BODY[5:], mtime=0) + b"\0" * 7,
        ),
        ("deflate", zlib.compress(BODY)),
        ("Deflate", zlib.compress(BODY)),
        ("zstd", zstandard.compress(BODY)),
        ("ZStd", zstandard.compress(BODY[:5]) + zstandard.compress(BODY[5:])),
        ("identity", BODY),
        ("Identity", BODY),
        ("", BODY),
    ],
)
def test_content_codings(
    server: Server, client: http.client.HTTPConnection, coding: str, packed: bytes
) -> None:
    """Codings are read in any letter case, and gzip may have several members."""
    assert post(client, packed, Content_Encoding=coding).code == 200
    assert len(server.spans) == 1


@pytest.mark.parametrize(
    ("body", "content_type", "coding"),
    [
        (b"\xff", PROTO, ""),
        (BODY[:-1], PROTO, ""),
        (b"", JSON, ""),
        (b"[]", JSON, ""),
        (b"\xff\xfe\x00", JSON, ""),
        (b"[" * 90_000, JSON, ""),
        (BODY, PROTO, "gzip"),
        (b"", PROTO, "gzip"),
        (gzip.compress(BODY, mtime=0)[:-1], PROTO, "gzip"),
        (gzip.compress(BODY, mtime=0)[:-6] + b"\0\0\0\0\0\0", PROTO, "gzip"),
        (gzip.compress(BODY, mtime=0) + b"rest", JSON, "gzip"),
        (gzip.compress(b"", mtime=0) * 4097, PROTO, "gzip"),
        (zlib.compress(BODY) + b"rest", PROTO, "deflate"),
        (BODY, PROTO, "zstd"),
        (b"", PROTO, "zstd"),
        (zstandard.compress(BODY)[:-1], PROTO, "zstd"),
        (zstandard.compress(BODY) + b"rest", PROTO, "zstd"),
        (zstandard.compress(b"") * 4097, PROTO, "zstd"),
    ],
)
def test_bad_data_is_400_with_a_status(
    server: Server,
    client: http.client.HTTPConnection,
    body: bytes,
    content_type: str,
    coding: str,
) -> None:
    """Malformed, cut or corrupt bodies get 400 in their own encoding."""
    reply = post(client, body, content_type, Content_Encoding=coding)
    assert reply.code == 400
    assert reply.headers["content-type"] == content_type
    code, text = reply.status()
    assert code == 3
    assert text
    assert server.spans == []


def test_errors_of_routing_carry_a_status(
    server: Server, client: http.client.HTTPConnection
) -> None:
    """404, 405 with Allow, and 415 each have a Status body, on one connection."""
    reply = post(client, BODY, path="/v1/nothing")
    assert (reply.code, reply.status()[0]) == (404, 5)
    assert reply.headers["content-type"] == PROTO
    for method in ("GET", "PUT", "OPTIONS", "DELETE"):
        reply = post(client, None, None, method=method)
        assert (reply.code, reply.headers["allow"]) == (405, "POST")
        assert "use POST" in reply.status()[1]
    assert post(client, None, None, method="HEAD").body == b""
    for content_type in (None, "text/plain", "application/grpc", ""):
        reply = post(client, BODY, content_type)
        assert (reply.code, reply.status()[0]) == (415, 3)
        assert "use application/x-protobuf or application/json" in reply.status()[1]
    for coding in ("br", "gzip, gzip", "snappy"):
        reply = post(client, BODY, JSON, Content_Encoding=coding)
        assert (reply.code, reply.headers["content-type"]) == (415, JSON)
        assert reply.headers["accept-encoding"] == "gzip, deflate, zstd, identity"
    assert post(client, b"?", "text/plain", Content_Encoding="br").code == 415
    assert post(client, BODY).code == 200
    assert server.stats.requests[("http_proto", "other", "404")] == 1


def test_too_large_is_413(server: Server, client: http.client.HTTPConnection) -> None:
    """Too large a body gets 413: by its length, in chunks, or after decompression."""
    for body in (b"x" * (LIMIT + 1), iter([b"x" * 60_000] * 3)):
        reply = post(client, body)
        assert (reply.code, reply.status()[0]) == (413, 8)
        assert reply.headers["content-type"] == PROTO
    bomb = gzip.compress(b"\0" * (LIMIT + 1))
    reply = post(client, bomb, JSON, Content_Encoding="gzip")
    assert (reply.code, reply.status()[0]) == (413, 8)
    assert "100000" in reply.status()[1]
    assert server.spans == []


def test_the_limit_itself_is_allowed(
    server: Server, client: http.client.HTTPConnection
) -> None:
    """A body of exactly the limit, plain and compressed."""
    pad = LIMIT - len(BODY) - 5
    body = BODY + b"\x9a\x06" + varint(pad) + b"x" * pad
    assert len(body) == LIMIT
    assert post(client, body).code == 200
    assert post(client, gzip.compress(body), Content_Encoding="gzip").code == 200


def test_a_bomb_is_not_inflated_beyond_the_limit(
    client: http.client.HTTPConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gigabyte in a megabyte costs one limit of memory, not a gigabyte."""
    produced = []
    real = zlib.decompressobj

    class Spy:
        def __init__(self, bits: int) -> None:
            self.real = real(bits)

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

        def decompress(self, data: bytes, most: int) -> bytes:
            produced.append(len(out := self.real.decompress(data, most)))
            return out

    packer = zlib.compressobj(9, wbits=31)
    block = packer.compress(b"\0" * (1 << 20))
    bomb = block + b"".join(packer.compress(b"\0" * (1 << 20)) for _ in range(63))
    monkeypatch.setattr(zlib, "decompressobj", Spy)
    reply = post(client, (bomb + packer.flush())[: LIMIT - 1], Content_Encoding="gzip")
    assert reply.code == 413
    assert sum(produced) == LIMIT + 1


@pytest.mark.parametrize(
    ("outcome", "code"), [(ExportStatus.UNAVAILABLE, 503), (ExportStatus.THROTTLED, 429)]
)
def test_retryable_refusals_say_when(
    server: Server, client: http.client.HTTPConnection, outcome: ExportStatus, code: int
) -> None:
    """Back-pressure carries Retry-After."""
    server.refusal = Refusal(outcome, "full", retry_seconds=7)
    reply = post(client, BODY)
    assert (reply.code, reply.headers["retry-after"]) == (code, "7")
    assert reply.status()[1] == "full"


def test_an_error_of_ours_is_500_and_the_server_lives(
    server: Server, client: http.client.HTTPConnection
) -> None:
    """The sender is not blamed, and the next request is served."""
    server.refusal = RuntimeError("ours")
    reply = post(client, JSON_BODY, JSON)
    assert (reply.code, reply.status()[0]) == (500, 13)
    assert "ours" not in reply.status()[1]
    assert reply.headers.get("retry-after") is None
    server.refusal = None
    assert post(client, BODY).code == 200


def test_chunked_bodies_and_query_strings(
    server: Server, client: http.client.HTTPConnection
) -> None:
    """A body of unknown length arrives whole; a query does not change the path."""
    chunks = (BODY[at : at + 3] for at in range(0, len(BODY), 3))
    assert post(client, chunks, path="/v1/traces?tenant=1").code == 200
    assert len(server.spans) == 1


def talk(server: Server, *parts: bytes) -> socket.socket:
    host, port = server.address.split(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    for part in parts:
        connection.sendall(part)
    return connection


def head(length: int, *lines: bytes) -> bytes:
    fixed = [b"POST /v1/traces HTTP/1.1", b"Host: x", b"Content-Type: application/x-protobuf"]
    return b"\r\n".join([*fixed, b"Content-Length: %d" % length, *lines]) + b"\r\n\r\n"


def test_expect_100_continue(server: Server) -> None:
    """The client gets 100; one that announces too large a body is refused instead."""
    with talk(server, head(len(BODY), b"Expect: 100-continue")) as connection:
        assert connection.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(BODY)
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK")
    with talk(server, head(LIMIT + 1, b"Expect: 100-continue")) as connection:
        assert connection.recv(1000).startswith(b"HTTP/1.1 413 ")


def test_who_sends_far_too_much_reads_why(server: Server) -> None:
    """The response comes in the middle of the body. The rest is read and dropped, without a reset."""
    with talk(server, head(8_000_000)) as connection:
        for _ in range(80):
            connection.sendall(bytes(100_000))
        answer = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_who_sends_a_little_too_much_keeps_its_connection(
    server: Server, client: http.client.HTTPConnection
) -> None:
    """The body is read to its end, so the next request can follow."""
    for _ in range(3):
        reply = post(client, b"x" * (LIMIT + 1))
        assert (reply.code, reply.headers["connection"]) == (413, None)
    assert post(client, BODY).code == 200


def test_a_client_that_leaves_in_its_body_is_harmless(
    server: Server, client: http.client.HTTPConnection
) -> None:
    """Counted, nothing is judged, and others are served."""
    before = server.stats.counts.get(("client_disconnects", "http_proto"), 0)
    talk(server, head(1000), b"half").close()
    deadline = time.monotonic() + 10
    while server.stats.counts.get(("client_disconnects", "http_proto"), 0) == before:
        assert time.monotonic() < deadline
        assert post(client, BODY).code == 200


def test_slow_bodies_do_not_hold_up_others(
    server: Server, client: http.client.HTTPConnection
) -> None:
    """While a hundred half-sent requests wait, another client is served; then they are."""
    waiting = [talk(server, head(len(BODY)), BODY[:4]) for _ in range(100)]
    assert post(client, BODY).code == 200
    for connection in waiting:
        connection.sendall(BODY[4:])
    for connection in waiting:
        assert connection.recv(1000).startswith(b"HTTP/1.1 200 OK")
        connection.close()
    assert len(server.spans) == 101


@pytest.mark.parametrize(
    "raw",
    [
        b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: nine\r\n\r\n",
        b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"nonsense\r\n\r\n",
    ],
)
def test_broken_http_is_400(
    server: Server, raw: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Bad lengths, smuggling, HTTP/2 and TLS by mistake are refused, and the server goes on."""
    caplog.set_level(logging.CRITICAL)
    with talk(server, raw) as connection:
        assert connection.recv(1000).startswith(b"HTTP/1.1 400 ")


def test_32_parallel_connections(server: Server) -> None:
    """Every span of every connection arrives once."""
    body = message(50).SerializeToString()

    def send(_: int) -> list[int]:
        connection = http.client.HTTPConnection(server.address, timeout=20)
        codes = [post(connection, body).code for _ in range(4)]
        connection.close()
        return codes

    with ThreadPoolExecutor(32) as pool:
        assert set(chain.from_iterable(pool.map(send, range(32)))) == {200}
    assert len(server.spans) == 32 * 4 * 50


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
def test_the_real_sdk_exporter(server: Server, compression: Compression) -> None:
    """Spans of opentelemetry-exporter-otlp-proto-http arrive with all they say."""
    exporter = OTLPSpanExporter(
        endpoint=f"http://{server.address}/v1/traces", compression=compression
    )
    provider = TracerProvider(resource=Resource({"service.name": "farm-rover"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("rover").start_as_current_span("execute_tool") as span:
        span.set_attributes({"gen_ai.tool.name": "water", "n": 3, "list": ["a", "b"]})
        span.add_event("e", {"k": True})
    provider.shutdown()
    [got] = server.spans
    assert (got.name, got.scope, got.kind) == ("execute_tool", "rover", 1)
    assert got.attributes() == {"gen_ai.tool.name": "water", "n": 3, "list": ["a", "b"]}
    assert got.resource.attributes["service.name"] == "farm-rover"
    assert [(name, attributes) for name, attributes, _ in got.span_events()] == [
        ("e", {"k": True})
    ]
