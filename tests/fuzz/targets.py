"""The fuzz targets: each takes bytes, and may raise only its documented errors."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.decode.json import otlp_json
from collector.decode.protobuf import otlp_proto, scan
from collector.decode.protobuf.anyvalue import attributes_of
from collector.decode.protobuf.slices import proto_slices
from collector.decode.span import NAME_MAX, MalformedBodyError, Span
from collector.dialects.values.arguments import callback_form
from collector.receive.admission import Admission
from collector.receive.content_coding import inflate
from collector.receive.export import Export, ExportResult, RequestLimits, proto_answer
from collector.receive.grpc.builtin_server import GrpcReceiver
from collector.receive.grpc.http2.hpack import literal
from collector.receive.http.service import HttpApp
from collector.receive.listener.connections import (
    INBOX_BYTES,
    ConnectionBase,
    ConnectionBounds,
    Connections,
)
from collector.receive.status_codes import ExportStatus, Refusal, status_bytes
from collector.state.records import (
    DeliveryRecord,
    KnownSessionsRecord,
    OpeningRecord,
    SpecsRecord,
    UnwrittenRecord,
    decoded,
    encoded,
    request_head,
    request_of,
)
from collector.state.segment import HEAD_BYTES, HEADERS_BYTES, VERSION, Header, head_of
from collector.state.segment_reading import Damage, read, read_header
from collector.telemetry.counters import Stats
from collector.telemetry.logs import captured
from tests.conformance.bodies import BODIES, deep, proto_body
from tests.conformance.http2 import PREFACE, frame
from tests.conformance.json_cases import ACCEPTED, REFUSED
from tests.native import missing, native, native_json, native_reader

__all__ = ["CRASHES", "TARGETS", "seeds"]

CRASHES = Path(__file__).parent / "crashes"
CAPTURES = Path(__file__).parents[2] / ".." / "shared" / "captures"
CAPTURED_MAX = 200
SEED_BYTES_MAX = 50_000
LIMIT = 1 << 20


def protobuf(body: bytes) -> None:
    """Both decoders agree with the official parser, field by field."""
    reader = None if missing() else native_reader()
    scanned = scan.decode(body, otlp_proto.ProtoCodec(), reader)
    try:
        batch = otlp_proto.decode_any(body)
        spans = _all(batch.spans)
        assert scanned is None or not batch.rejects.count
    except MalformedBodyError:
        spans = None
    assert scanned is None or _all(scanned.spans) == spans
    for span in scanned.spans if scanned is not None else ():
        _by_index(span)
    try:
        official = ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        return  # invalid UTF-8 in a text is the fault of one span to us, of the body to it
    assert spans is not None, "the official parser takes it"
    assert spans == [_official(span) for span in _good(official)]


def _all(spans: list[Span]) -> list[tuple[Any, ...]]:
    return [
        (
            span.trace_id,
            span.span_id,
            span.parent_span_id,
            span.name,
            span.kind,
            span.start_ns,
            span.end_ns,
            span.status,
            span.dropped,
            repr(span.attributes()),
            repr(span.span_events()),
        )
        for span in spans
    ]


def _by_index(span: Span) -> None:
    """Checks that the C index gives what the value's bytes give."""
    read, values = native(), span.values
    told = [(read.text(raw), read.text_at(values, at)) for at, raw in enumerate(values)]
    assert all(text in (None, whole) for whole, text in told)
    assert all(read.recurring_at(values, at) in (None, each[0]) for at, each in enumerate(told))
    assert all(read.came_as(values, at, raw) for at, raw in enumerate(values))
    assert read.all_came_as(values, tuple(enumerate(values)))
    json_, wanted = native_json(), ("parts", "tool_call", *NAMES)
    for at, (_, text) in enumerate(told):
        whole = json_.members(text, *NAMES) if text is not None else None
        assert json_.members_at(values, at, *NAMES) in (None, whole)
        parts = json_.listed(text, *wanted) if text is not None else None
        assert json_.listed_at(values, at, *wanted) in (None, parts)
        if text is not None and text.isascii():
            assert json_.members_at(values, at, *NAMES) == whole


def _good(request: ExportTraceServiceRequest) -> Iterator[Any]:
    for group in request.resource_spans:
        for scope in group.scope_spans:
            for span in scope.spans:
                ids = (span.trace_id, span.span_id)
                sizes = (len(span.trace_id), len(span.span_id)) == (16, 8)
                if len(span.name) > NAME_MAX:
                    continue
                if sizes and all(map(any, ids)) and len(span.parent_span_id) in (0, 8):
                    yield span


def _official(span: Any) -> tuple[Any, ...]:
    events = [(e.name, attributes_of(e.attributes), e.time_unix_nano) for e in span.events]
    return (
        span.trace_id,
        span.span_id,
        span.parent_span_id if any(span.parent_span_id) else b"",
        span.name,
        span.kind,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.status.code,
        span.dropped_attributes_count,
        repr(attributes_of(span.attributes)),
        repr(events),
    )


def json_text(body: bytes) -> None:
    """Taken or malformed; what is taken can be read."""
    try:
        batch = otlp_json.decode(body)
    except MalformedBodyError:
        return
    _all(batch.spans)


NAMES = ("type", "name", "id", "lc_agent_name", "parts", "")


def texts(body: bytes) -> None:
    """Reads a JSON text; the short C reading and the full reading must agree."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return
    callback_form(text)
    members = None if missing() else native_json().members(text, *NAMES)
    listed = None if missing() else native_json().listed(text, "parts", "tool_call", *NAMES)
    if members is not None:
        _same(members, json.loads(text))
    if listed is not None:
        parts = [part for message in json.loads(text) for part in message.get("parts", ())]
        calls = [part for part in parts if part.get("type") == "tool_call"]
        for told, call in zip(listed, calls, strict=True):
            _same(("tool_call", *told), call)


def _same(told: tuple[str | bytes | None, ...], full: dict[str, Any]) -> None:
    """Checks that the members found are those of the text."""
    for name, found in zip(NAMES, told, strict=True):
        value = json.loads(found) if isinstance(found, bytes) else found
        assert repr(value) == repr(full.get(name))


def compressed(body: bytes) -> None:
    """Inflated up to the limit, or refused; the first byte chooses the coding."""
    coding = ("gzip", "deflate", "zstd", "identity")[body[0] % 4] if body else ""
    try:
        found = inflate(body[1:], coding, LIMIT)
    except Refusal as refusal:
        _expect(refusal, ExportStatus.MALFORMED, ExportStatus.TOO_LARGE)
    else:
        assert len(found) <= LIMIT or coding == "identity"


def request(body: bytes) -> None:
    """The whole of a request, of any signal and encoding: never a fault of ours."""
    export = Export(_read, Stats(), lambda: 0, RequestLimits(body_bytes=LIMIT))
    for signal in ("traces", "metrics", "logs"):
        for encoding in ("proto", "json"):
            try:
                answer = _ended(export.ingest(signal, body, encoding, "grpc", "sender"))
            except Refusal as refusal:
                _expect(refusal, ExportStatus.MALFORMED, ExportStatus.TOO_LARGE)
                status_bytes(refusal)
            else:
                proto_answer(answer)


def _ended(taking: Coroutine[Any, Any, ExportResult]) -> ExportResult:
    """The answer; a loop is made only for requests that wait in between."""
    try:
        taking.send(None)
    except StopIteration as end:
        answer: ExportResult = end.value
        return answer
    return asyncio.run(_rest(taking))


async def _rest(taking: Coroutine[Any, Any, ExportResult]) -> ExportResult:
    return await taking


def slices(body: bytes) -> None:
    """A request cut in slices holds the spans of the whole; what is no request is refused."""
    try:
        whole: list[Any] | None = _all(otlp_proto.decode(body).spans)
    except MalformedBodyError:
        whole = None
    try:
        pieces = [piece for piece in proto_slices(body) if piece is not None]
        found = [span for each in pieces for span in _all(otlp_proto.decode(each).spans)]
    except MalformedBodyError:
        assert whole is None, "the whole is taken"
    else:
        assert found == whole


def http1(raw: bytes) -> None:
    """Bytes on an HTTP connection: whatever comes of them, nothing is left when it is closed."""
    with captured():
        asyncio.run(
            _connected(
                raw, lambda export, admission: HttpApp(export, LIMIT, admission=admission)
            )
        )


def http2(raw: bytes) -> None:
    """Bytes on a gRPC connection: the same."""
    asyncio.run(_connected(raw, _grpc))


def _grpc(export: Export, admission: Admission) -> Callable[[Connections], ConnectionBase]:
    return GrpcReceiver(export, "127.0.0.1:0", LIMIT, admission=admission).connect


class _Wire(asyncio.Transport):
    """Takes what is written, and forgets it."""

    closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert isinstance(data, bytes)

    def write_eof(self) -> None:
        """Nobody listens."""

    def can_write_eof(self) -> bool:
        return True

    def pause_reading(self) -> None:
        """There is nothing more to read."""

    def resume_reading(self) -> None:
        """There is nothing more to read."""

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, _name: str, _default: Any = None) -> Any:
        """Nobody is there."""

    def close(self) -> None:
        self.closed = True


async def _connected(
    raw: bytes, serve: Callable[[Export, Admission], Callable[[Connections], ConnectionBase]]
) -> None:
    """Gives the bytes to a connection, at once, in two pieces and twice."""
    half = len(raw) // 2
    for pieces in ((raw,), (raw[:half], raw[half:]), (raw, raw)):
        admission = Admission()
        connections = Connections(ConnectionBounds(), Stats())
        connection: Any = serve(Export(_read, Stats(), lambda: 0), admission)(connections)
        connection.connection_made(_Wire())
        for piece in pieces:
            if 0 < len(piece) <= INBOX_BYTES:
                connection.get_buffer(-1)[: len(piece)] = piece
                connection.buffer_updated(len(piece))
            elif piece:
                connection.data_received(piece)
        await asyncio.gather(*connections.tasks)
        connection.time_out()
        connection.connection_lost(None)
        assert (admission.requests, admission.bytes) == (0, 0)
        assert not connection.turn
        assert not connections.open


def _expect(refusal: Refusal, *outcomes: ExportStatus) -> None:
    if refusal.status not in outcomes:
        raise AssertionError(refusal.message) from (refusal.__cause__ or refusal)


def _read(spans: list[Span], _now: int, _transport: str) -> None:
    for span in spans:
        span.attributes()
        span.span_events()
        hash(span.shape)


def journal(data: bytes) -> None:
    """A file of the journal gives records and damages, which cover it; a payload gives its kind, or none."""
    at = 0 if isinstance(read_header(data), Damage) else HEADERS_BYTES
    for each in read(data):
        assert each.offset == at
        at += each.bytes if isinstance(each, Damage) else HEAD_BYTES + len(each.payload)
    assert at in (len(data), HEADERS_BYTES)
    with suppress(ValueError):
        kept = request_of(data)
        assert data.endswith(kept.body)
    for kind in (
        dict,
        int,
        OpeningRecord,
        SpecsRecord,
        KnownSessionsRecord,
        DeliveryRecord,
        UnwrittenRecord,
    ):
        with suppress(ValueError):
            assert isinstance(decoded(data, kind), kind)


def _journals() -> list[bytes]:
    """Files: empty, whole and torn; payloads of all kinds."""
    header = Header(VERSION, 7, 1_000, bytes(range(20)))
    head = request_head("grpc", "proto", "anna")
    file = header.pack()
    for number, payload in enumerate((head + BODIES["pb"], b"", b"x" * 300)):
        kind = number + 2
        file += head_of(header.mark, header.seed, kind, 10, len(payload), (payload,)) + payload
    kinds = [
        OpeningRecord("1"),
        SpecsRecord(b"d", [("f", b"t")]),
        KnownSessionsRecord(b"m" * 8),
        UnwrittenRecord(1, 2),
        {"a": [1.5]},
    ]
    payloads = [encoded(each) for each in (*kinds, DeliveryRecord("s", [b"k"]), 5)]
    return [header.pack(), file, file[:-1], file + file, head + b"{}", *payloads]


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "protobuf": protobuf,
    "json": json_text,
    "texts": texts,
    "compressed": compressed,
    "request": request,
    "slices": slices,
    "http1": http1,
    "http2": http2,
    "journal": journal,
}


def _captured() -> Iterator[bytes]:
    """Requests of real agents, in JSON."""
    lines = (
        line.strip()
        for path in sorted(CAPTURES.glob("*/*.otlp.jsonl"))
        for line in path.read_bytes().splitlines()[:3]
    )
    for _, line in zip(range(CAPTURED_MAX), lines, strict=False):
        if b"resourceSpans" in line and len(line) <= SEED_BYTES_MAX:
            yield line


def _as_protobuf(line: bytes) -> bytes:
    """The same request: ids in JSON are hex to OTLP, base64 to the library."""

    def based(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        ids = ("traceId", "spanId", "parentSpanId")
        return {
            key: base64.b64encode(bytes.fromhex(value)).decode() if key in ids else value
            for key, value in pairs
        }

    document = json.loads(line, object_pairs_hook=based)
    message = json_format.ParseDict(
        document, ExportTraceServiceRequest(), ignore_unknown_fields=True
    )
    return message.SerializeToString()


_CALL = {"type": "tool_call", "id": "1", "name": "a", "arguments": {"x": [1.5e-3, -0, None]}}
_TEXTS = [
    json.dumps(each).encode()
    for each in (
        {
            "lc_agent_name": "a",
            "name": {"lc_agent_name": "b"},
            "id": "\\é\U0001f600\n",
            "": True,
        },
        {"input_str": "{}", "inputs": _CALL, "kwargs": {"tool_call_id": "1"}, "args": []},
        [{"role": "x", "parts": [_CALL, {"type": "text", "content": "long " * 9}]}, {}],
        [{"parts": []}, {"parts": [_CALL | {"id": None}]}],
    )
] + [b' {"id" : "a" ,\t"id":"\\u0062", "\\u0069d": 1}\n', b"[" * 70 + b"]" * 70]


@cache
def seeds() -> Mapping[str, list[bytes]]:
    """Valid inputs of each target, from which a search begins."""
    captured = list(_captured())
    texts = [body for group in (*ACCEPTED.values(), *REFUSED.values()) for body in group]
    protos = [BODIES["pb"], proto_body(3), deep(20), *map(_as_protobuf, captured)]
    jsons = [BODIES["json"], *texts, *captured]
    import gzip
    import zlib

    import zstandard

    packed = [
        b"\0" + gzip.compress(BODIES["pb"]),
        b"\1" + zlib.compress(BODIES["pb"]),
        b"\2" + zstandard.compress(BODIES["pb"]),
    ]
    return {
        "protobuf": protos,
        "json": jsons,
        "texts": _TEXTS,
        "compressed": packed,
        "request": [*protos[:3], *jsons[:20]],
        "slices": protos,
        "http1": _conversations(),
        "http2": _calls(),
        "journal": _journals(),
    }


def _conversations() -> list[bytes]:
    """HTTP/1.1 requests: with a length, chunked, several, and with rare headers."""
    body = BODIES["pb"]
    head = b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-protobuf\r\n"
    plain = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    chunks = head + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (
        len(body),
        body,
    )
    asked = plain.replace(b"Host: x", b"Host: x\r\nExpect: 100-continue")
    upgrade = plain.replace(b"Host: x", b"Host: x\r\nConnection: Upgrade\r\nUpgrade: h2c")
    rare = b"OPTIONS * HTTP/1.1\r\n\r\n" + b"GET /v1/traces?x=1 HTTP/1.0\r\n\r\n"
    return [plain, chunks + plain, asked, upgrade + plain, rare, plain * 3]


def _calls() -> list[bytes]:
    """Calls as HTTP/2 frames: whole, in pieces, refused, cancelled, with other frames between."""
    begin = PREFACE + frame(4, b"\0\4\0\0\0\2")
    body = b"\0" + len(BODIES["pb"]).to_bytes(4, "big") + BODIES["pb"]
    fields = {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": b"/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        b"content-type": b"application/grpc",
    }
    block = b"".join(b"\x40" + literal(*field)[1:] for field in fields.items())
    whole = frame(1, block, 4, 1) + frame(0, body, 1, 1)
    pieces = frame(1, block[:9], 0, 1) + frame(9, block[9:], 4, 1) + frame(0, body[:7], 0, 1)
    end = frame(0, body[7:], 1, 1) + frame(8, b"\0\0\0\x09", 0, 1) + frame(6, bytes(8))
    again = frame(1, b"\xc1\xc0\xbf\xbe", 4, 3) + frame(3, b"\0\0\0\0", 0, 3)
    return [begin + whole, begin + pieces + end, begin + whole + again, begin + pieces]
