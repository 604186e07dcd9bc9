"""OTLP/gRPC: opentelemetry-proto docs/specification.md, and what gRPC itself asks for."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tests.conformance.bodies import (
    PROTO_BODY,
    SPAN_ID,
    TRACE_ID,
    deep,
    padded,
    proto_body,
    raw_field,
)
from tests.conformance.case import case
from tests.conformance.target import TRACES, Target

PREFIX = "/opentelemetry.proto.collector"
OK = grpc.StatusCode.OK
HEALTH = "/grpc.health.v1.Health/Check"


def partial(answer: bytes) -> tuple[int, str]:
    found = ExportTraceServiceResponse.FromString(answer).partial_success
    return found.rejected_spans, found.error_message


@case("grpc.export_ok")
def _(target: Target) -> None:
    """A span with all kinds of fields is taken."""
    target.call(PROTO_BODY)


@case("grpc.partial_success_field_unset")
def _(target: Target) -> None:
    """Full Success: the field MUST be unset."""
    answer = ExportTraceServiceResponse.FromString(target.call(PROTO_BODY))
    assert not answer.HasField("partial_success")


@case("grpc.empty_request")
def _(target: Target) -> None:
    target.call(b"")


@case("grpc.empty_envelopes")
def _(target: Target) -> None:
    target.call(raw_field(1, b""))
    target.call(raw_field(1, raw_field(2, b"")))


@case("grpc.gzip")
def _(target: Target) -> None:
    target.call(PROTO_BODY, compression=grpc.Compression.Gzip)


@case("grpc.deflate_ok_or_unimplemented")
def _(target: Target) -> None:
    code = target.code(PROTO_BODY, compression=grpc.Compression.Deflate)
    assert code in {OK, grpc.StatusCode.UNIMPLEMENTED}


@case("grpc.unknown_fields_ignored")
def _(target: Target) -> None:
    target.call(PROTO_BODY + raw_field(1999, b"future"))


@case("grpc.malformed_invalid_argument")
def _(target: Target) -> None:
    error = target.refused(b"\xff\xff\xff")
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert error.details()


@case("grpc.truncated_invalid_argument")
def _(target: Target) -> None:
    assert target.refused(PROTO_BODY[:-3]).code() is grpc.StatusCode.INVALID_ARGUMENT


@case("grpc.malformed_then_ok_on_one_connection")
def _(target: Target) -> None:
    channel = target.channel()
    target.refused(b"\xff", channel=channel)
    target.call(PROTO_BODY, channel=channel)
    channel.close()


@case("grpc.malformed_has_no_retry_info")
def _(target: Target) -> None:
    error = target.refused(b"\xff")
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert b"RetryInfo" not in str(error.trailing_metadata()).encode()


@case("grpc.trace_id_of_wrong_length_partial_success")
def _(target: Target) -> None:
    count, message = partial(target.call(proto_body(trace_id=b"\1" * 3) + PROTO_BODY))
    assert (count, bool(message)) == (1, True)


@case("grpc.span_id_of_wrong_length_partial_success")
def _(target: Target) -> None:
    count, message = partial(target.call(proto_body(2, span_id=b"\1" * 9) + PROTO_BODY))
    assert (count, bool(message)) == (2, True)


@case("grpc.zero_ids_partial_success")
def _(target: Target) -> None:
    body = proto_body(trace_id=bytes(16)) + proto_body(span_id=bytes(8)) + PROTO_BODY
    assert partial(target.call(body))[0] == 2


@case("grpc.invalid_utf8_name_partial_success")
def _(target: Target) -> None:
    span = raw_field(1, TRACE_ID) + raw_field(2, SPAN_ID) + raw_field(5, b"\xff\xfe")
    body = raw_field(1, raw_field(2, raw_field(2, span)))
    assert partial(target.call(body + PROTO_BODY))[0] == 1


@case("grpc.odd_names")
def _(target: Target) -> None:
    for name in ("\0", "🚜" * 100, "a\r\nb", ""):
        target.call(proto_body(name=name))


@case("grpc.end_before_start_and_unknown_kind")
def _(target: Target) -> None:
    body = proto_body(start_time_unix_nano=9, end_time_unix_nano=1, kind=77)
    assert partial(target.call(body)) == (0, "")


@case("grpc.deep_value_harmless")
def _(target: Target) -> None:
    assert target.code(deep(2_000)) in {OK, grpc.StatusCode.INVALID_ARGUMENT}
    target.call(PROTO_BODY)


@case("grpc.5000_spans")
def _(target: Target) -> None:
    target.call(proto_body(5_000))


@case("grpc.large_request_partial_success_exact")
def _(target: Target) -> None:
    """Every tenth span of thousands is faulty: each of them is counted, and no other."""
    ten = proto_body(9) + proto_body(1, span_id=bytes(8))
    assert partial(target.call(ten * 400))[0] == 400


@case("grpc.64_in_flight")
def _(target: Target) -> None:
    channel = target.channel()
    call = channel.unary_unary(TRACES)
    futures = [
        call.future(PROTO_BODY, timeout=20, metadata=target.metadata()) for _ in range(64)
    ]
    for future in futures:
        future.result()
    channel.close()


@case("grpc.24_connections")
def _(target: Target) -> None:
    with ThreadPoolExecutor(24) as pool:
        list(pool.map(target.call, [PROTO_BODY] * 24))


@case("grpc.200_in_sequence")
def _(target: Target) -> None:
    channel = target.channel()
    for _ in range(200):
        target.call(PROTO_BODY, channel=channel)
    channel.close()


for _name, _method in {
    "service": "/no.such.Service/Export",
    "method": f"{PREFIX}.trace.v1.TraceService/Import",
}.items():

    @case(f"grpc.unknown_{_name}_unimplemented")
    def _(target: Target, method: str = _method) -> None:
        assert target.refused(b"", method).code() is grpc.StatusCode.UNIMPLEMENTED


for _signal in ("metrics", "logs"):

    @case(f"grpc.{_signal}_accepted_or_unimplemented")
    def _(target: Target, signal: str = _signal) -> None:
        method = f"{PREFIX}.{signal}.v1.{signal.title()}Service/Export"
        assert target.code(b"", method) in {OK, grpc.StatusCode.UNIMPLEMENTED}


for _name, _compression in {"": None, "_after_gunzip": grpc.Compression.Gzip}.items():

    @case(f"grpc.over_limit{_name}_resource_exhausted")
    def _(target: Target, compression: grpc.Compression | None = _compression) -> None:
        """Without RetryInfo, or the sender would try for ever."""
        error = target.refused(padded(PROTO_BODY, target.limit), compression=compression)
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert b"RetryInfo" not in str(error.trailing_metadata()).encode()
        target.call(PROTO_BODY)


@case("grpc.cancelled_calls_harmless")
def _(target: Target) -> None:
    channel = target.channel()
    call = channel.unary_unary(TRACES)
    for _ in range(50):
        call.future(proto_body(100), timeout=20, metadata=target.metadata()).cancel()
    target.call(PROTO_BODY, channel=channel)
    channel.close()


@case("grpc.tiny_deadlines_harmless")
def _(target: Target) -> None:
    channel = target.channel()
    target.call(PROTO_BODY, channel=channel)
    for _ in range(20):
        code = target.code(proto_body(100), channel=channel, timeout=0.0001)
        assert code in {OK, grpc.StatusCode.DEADLINE_EXCEEDED}
    target.call(PROTO_BODY, channel=channel)
    channel.close()


@case("grpc.client_streaming_without_a_message_harmless")
def _(target: Target) -> None:
    channel = target.channel()
    call = channel.stream_unary(TRACES)
    future = call.future(iter(()), timeout=20, metadata=target.metadata())
    client_faults = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED}
    assert future.code() in {OK, *client_faults, grpc.StatusCode.INTERNAL}
    target.call(PROTO_BODY, channel=channel)
    channel.close()


@case("grpc.open_stream_without_a_message_does_not_hold_up_others")
def _(target: Target) -> None:
    channel = target.channel()
    done = threading.Event()

    def wait() -> bytes:
        done.wait(20)
        return PROTO_BODY

    calls = [
        channel.stream_unary(TRACES).future(
            iter(wait, None), timeout=20, metadata=target.metadata()
        )
        for _ in range(4)
    ]
    target.call(PROTO_BODY)
    for call in calls:
        call.cancel()
    done.set()
    channel.close()


@case("grpc.health_serving")
def _(target: Target) -> None:
    assert target.call(b"", HEALTH) == b"\x08\x01"
    service = raw_field(1, b"opentelemetry.proto.collector.trace.v1.TraceService")
    assert target.call(service, HEALTH) == b"\x08\x01"


@case("grpc.health_of_unknown_service_not_found")
def _(target: Target) -> None:
    error = target.refused(raw_field(1, b"no.such.Service"), HEALTH)
    assert error.code() is grpc.StatusCode.NOT_FOUND
