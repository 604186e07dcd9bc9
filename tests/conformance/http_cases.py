"""OTLP/HTTP in both encodings: opentelemetry-proto docs/specification.md and RFC 9110."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import zstandard
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tests.conformance.bodies import (
    BODIES,
    PROTO_BODY,
    SPAN_ID,
    TRACE_ID,
    deep,
    json_body,
    padded,
    proto_body,
    raw_field,
)
from tests.conformance.case import case
from tests.conformance.target import JSON, PROTO, Reply, Target, parse_status

TYPES = {"pb": PROTO, "json": JSON}
BAD_REQUEST, UNSUPPORTED = 400, 415
BOMB_BYTES = 1 << 30
MIXED = 4_000
"""Spans of a large request: less than two megabytes in either encoding."""
BOMB_SECONDS = 10


def is_status(reply: Reply, status: int, content_type: str) -> None:
    """The answer is this status, with a Status body in this media type and a message."""
    assert reply.status == status, reply
    assert reply.headers.get("content-type", "").startswith(content_type), reply
    assert parse_status(reply)[1], reply


def partial(reply: Reply) -> tuple[int, str]:
    assert reply.status == 200, reply
    if reply.headers["content-type"].startswith(JSON):
        parsed = json_format.Parse(reply.body, ExportTraceServiceResponse())
    else:
        parsed = ExportTraceServiceResponse.FromString(reply.body)
    return parsed.partial_success.rejected_spans, parsed.partial_success.error_message


def large(encoding: str, size: int) -> bytes:
    """A well-formed body of more than `size` bytes."""
    if encoding == "pb":
        return padded(PROTO_BODY, size)
    return json_body(unknown="x" * size)


@cache
def mixed(as_json: bool) -> bytes:
    """A large request in which every tenth span has an all-zero id."""
    if not as_json:
        ten = proto_body(9) + proto_body(1, span_id=bytes(8))
        return ten * (MIXED // 10)
    good, bad = (
        json.loads(json_body(**fields))["resourceSpans"]
        for fields in ({}, {"spanId": "0" * 16})
    )
    return json.dumps({"resourceSpans": (9 * good + bad) * (MIXED // 10)}).encode()


@cache
def bomb() -> bytes:
    """A gigabyte in a megabyte: one block is packed, and said again and again; it has no end, as nobody may read so far."""
    packer = zlib.compressobj(9, wbits=31)
    first, block = (
        packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2)
    )
    return first + block * ((BOMB_BYTES >> 20) - 1)


for _encoding, _body in BODIES.items():
    _type = TYPES[_encoding]
    _name = f"http.{_encoding}"

    @case(f"{_name}.export_ok_in_its_media_type")
    def _(target: Target, body: bytes = _body, kind: str = _type) -> None:
        reply = target.request(body, kind)
        assert reply.status == 200, reply
        assert reply.headers["content-type"].startswith(kind)

    @case(f"{_name}.partial_success_field_unset")
    def _(target: Target, body: bytes = _body, kind: str = _type) -> None:
        """Full Success: the field MUST be unset."""
        reply = target.request(body, kind)
        if kind == JSON:
            assert "partialSuccess" not in json.loads(reply.body)
        else:
            parsed = ExportTraceServiceResponse.FromString(reply.body)
            assert not parsed.HasField("partial_success")

    @case(f"{_name}.media_type_with_parameters_and_any_case")
    def _(target: Target, body: bytes = _body, kind: str = _type) -> None:
        for name in (f"{kind}; charset=utf-8", f"{kind};a=b", kind.upper(), f" {kind} ;x"):
            assert target.request(body, name).status == 200

    for _coding, _packed in {
        "gzip": gzip.compress(_body),
        "deflate": zlib.compress(_body),
        "zstd": zstandard.compress(_body),
        "identity": _body,
    }.items():

        @case(f"{_name}.{_coding}_in_any_case")
        def _(
            target: Target,
            packed: bytes = _packed,
            coding: str = _coding,
            kind: str = _type,
        ) -> None:
            for name in (coding, coding.upper(), coding.title()):
                reply = target.request(packed, kind, headers={"Content-Encoding": name})
                assert reply.status == 200, (name, reply)

    for _fault, (_coding, _broken) in {
        "malformed": ("", b"\xff\xff\xff"),
        "truncated": ("", _body[:-2]),
        "corrupt_gzip": ("gzip", b"\x1f\x8b" + b"\0" * 20),
        "plain_as_gzip": ("gzip", _body),
        "truncated_gzip": ("gzip", gzip.compress(_body)[:-9]),
        "empty_gzip": ("gzip", b""),
        "corrupt_deflate": ("deflate", _body),
        "corrupt_zstd": ("zstd", _body),
        "truncated_zstd": ("zstd", zstandard.compress(_body)[:-2]),
    }.items():

        @case(f"{_name}.{_fault}_400_status")
        def _(
            target: Target,
            broken: bytes = _broken,
            coding: str = _coding,
            kind: str = _type,
        ) -> None:
            """Bad Data: MUST be 400 with a Status in the request's encoding."""
            headers = {"Content-Encoding": coding} if coding else {}
            is_status(target.request(broken, kind, headers=headers), BAD_REQUEST, kind)

    @case(f"{_name}.unsupported_coding_4xx_status")
    def _(target: Target, body: bytes = _body, kind: str = _type) -> None:
        for coding in ("br", "gzip, gzip", "x" * 200):
            reply = target.request(body, kind, headers={"Content-Encoding": coding})
            assert 400 <= reply.status < 500
            assert parse_status(reply)[1]

    @case(f"{_name}.over_limit_413")
    def _(target: Target, encoding: str = _encoding, kind: str = _type) -> None:
        is_status(target.request(large(encoding, target.limit), kind), 413, kind)

    @case(f"{_name}.over_limit_chunked_413")
    def _(target: Target, encoding: str = _encoding, kind: str = _type) -> None:
        body = large(encoding, target.limit)
        pieces = (body[at : at + 60_000] for at in range(0, len(body), 60_000))
        is_status(target.request(pieces, kind), 413, kind)

    for _coding, _pack in {"gzip": gzip.compress, "zstd": zstandard.compress}.items():

        @case(f"{_name}.over_limit_after_{_coding}_413")
        def _(
            target: Target,
            encoding: str = _encoding,
            kind: str = _type,
            coding: str = _coding,
            pack: object = _pack,
        ) -> None:
            assert callable(pack)
            packed = pack(large(encoding, target.limit))
            reply = target.request(packed, kind, headers={"Content-Encoding": coding})
            is_status(reply, 413, kind)

    @case(f"{_name}.chunked")
    def _(target: Target, body: bytes = _body, kind: str = _type) -> None:
        pieces = (body[at : at + 7] for at in range(0, len(body), 7))
        assert target.request(pieces, kind).status == 200

    @case(f"{_name}.keep_alive")
    def _(target: Target, body: bytes = _body, kind: str = _type) -> None:
        connection = target.connection()
        for sent in (body, b"\xff", body):
            status = target.request(sent, kind, connection=connection).status
            assert status == (400 if sent == b"\xff" else 200)
        connection.close()

    @case(f"{_name}.zero_ids_partial_success")
    def _(target: Target, kind: str = _type) -> None:
        bad = {"pb": proto_body(span_id=bytes(8)), "json": json_body(spanId="0" * 16)}
        count, message = partial(target.request(bad["json" if kind == JSON else "pb"], kind))
        assert (count, bool(message)) == (1, True)

    @case(f"{_name}.large_request_partial_success_exact")
    def _(target: Target, kind: str = _type) -> None:
        """Every tenth span of thousands is faulty: each of them is counted, and no other."""
        count, message = partial(target.request(mixed(kind == JSON), kind))
        assert (count, bool(message)) == (MIXED // 10, True)

    @case(f"{_name}.odd_names")
    def _(target: Target, kind: str = _type) -> None:
        for name in ("\0", "🚜" * 100, "a\r\nb", ""):
            body = json_body(name=name) if kind == JSON else proto_body(name=name)
            assert target.request(body, kind).status == 200

    for _signal in ("metrics", "logs"):

        @case(f"{_name}.{_signal}_accepted_or_404")
        def _(target: Target, kind: str = _type, signal: str = _signal) -> None:
            body = b"{}" if kind == JSON else b""
            assert target.request(body, kind, path=f"/v1/{signal}").status in {200, 404}

    @case(f"{_name}.64_requests_on_24_connections")
    def _(target: Target, body: bytes = _body, kind: str = _type) -> None:
        with ThreadPoolExecutor(24) as pool:
            replies = list(pool.map(lambda _: target.request(body, kind), range(64)))
        assert {reply.status for reply in replies} == {200}


@case("http.pb.empty_body")
def _(target: Target) -> None:
    assert target.request(b"").status == 200


@case("http.pb.empty_envelopes")
def _(target: Target) -> None:
    assert target.request(raw_field(1, raw_field(2, b""))).status == 200


@case("http.pb.unknown_fields_ignored")
def _(target: Target) -> None:
    assert target.request(PROTO_BODY + raw_field(1999, b"future")).status == 200


@case("http.pb.trace_id_of_wrong_length_partial_success")
def _(target: Target) -> None:
    reply = target.request(proto_body(3, trace_id=b"\1" * 15) + PROTO_BODY)
    assert partial(reply)[0] == 3


@case("http.pb.invalid_utf8_name_partial_success")
def _(target: Target) -> None:
    span = raw_field(1, TRACE_ID) + raw_field(2, SPAN_ID) + raw_field(5, b"\xff\xfe")
    assert partial(target.request(raw_field(1, raw_field(2, raw_field(2, span)))))[0] == 1


@case("http.pb.end_before_start_and_unknown_kind")
def _(target: Target) -> None:
    body = proto_body(start_time_unix_nano=9, end_time_unix_nano=1, kind=77)
    assert partial(target.request(body)) == (0, "")


@case("http.pb.deep_value_harmless")
def _(target: Target) -> None:
    assert target.request(deep(2_000)).status in {200, 400}
    assert target.request(PROTO_BODY).status == 200


@case("http.pb.5000_spans")
def _(target: Target) -> None:
    assert target.request(proto_body(5_000)).status == 200


@case("http.pb.gzip_of_several_members")
def _(target: Target) -> None:
    packed = gzip.compress(PROTO_BODY[:9]) + gzip.compress(PROTO_BODY[9:])
    assert target.request(packed, headers={"Content-Encoding": "gzip"}).status == 200


@case("http.pb.gigabyte_bomb_refused_in_10_s")
def _(target: Target) -> None:
    packed = bomb()
    begun = time.monotonic()
    reply = target.request(packed, headers={"Content-Encoding": "gzip"})
    assert reply.status == 413
    assert time.monotonic() - begun < BOMB_SECONDS
    assert target.request(PROTO_BODY).status == 200


@case("http.query_string")
def _(target: Target) -> None:
    assert target.request(PROTO_BODY, path="/v1/traces?a=b&c").status == 200


@case("http.connection_close")
def _(target: Target) -> None:
    reply = target.request(PROTO_BODY, headers={"Connection": "close"})
    assert (reply.status, reply.headers.get("connection")) == (200, "close")


@case("http.unknown_path_404_status")
def _(target: Target) -> None:
    for path in ("/", "/v1/nothing", "/v1/traces/", "//v1/traces", "/V1/TRACES"):
        is_status(target.request(PROTO_BODY, path=path), 404, PROTO)


for _method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS"):

    @case(f"http.{_method.lower()}_405_allow_status")
    def _(target: Target, method: str = _method) -> None:
        """RFC 9110 15.5.6: MUST have Allow; every 4xx body MUST be a Status."""
        reply = target.request(None, None, method=method)
        assert (reply.status, reply.headers.get("allow")) == (405, "POST")
        assert parse_status(reply)[1]


@case("http.head_405_without_body")
def _(target: Target) -> None:
    reply = target.request(None, None, method="HEAD")
    assert (reply.status, reply.body) == (405, b"")


for _name, _sent in {
    "no_media_type": None,
    "wrong_media_type": "text/plain",
    "empty_media_type": "",
    "grpc_media_type": "application/grpc",
}.items():

    @case(f"http.{_name}_415_status")
    def _(target: Target, kind: str | None = _sent) -> None:
        reply = target.request(PROTO_BODY, kind)
        assert reply.status in {400, UNSUPPORTED}
        assert parse_status(reply)[1]


@case("http.bad_media_type_and_coding_not_5xx")
def _(target: Target) -> None:
    reply = target.request(b"?", "text/plain", headers={"Content-Encoding": "br"})
    assert 400 <= reply.status < 500
    assert parse_status(reply)[1]


@case("http.bad_media_type_and_body_not_5xx")
def _(target: Target) -> None:
    reply = target.request(b"\xff\xfe", "multipart/form-data; boundary=x")
    assert 400 <= reply.status < 500
    assert parse_status(reply)[1]


@case("http.foreign_origin_is_granted_nothing")
def _(target: Target) -> None:
    headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for method, body in (("OPTIONS", None), ("POST", PROTO_BODY)):
        reply = target.request(body, method=method, headers=headers)
        assert "access-control-allow-origin" not in reply.headers
