"""Spans over a bound are rejected one by one. The sender gets their number and the reason."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.calls.pipeline import Pipeline
from collector.decode.protobuf.slices import LARGE_BYTES
from collector.decode.span import ATTRIBUTES_MAX, KEY_MAX, NAME_MAX, Span
from collector.dialects.names.name_bound import NAME_MAX as TOOL_MAX
from collector.receive.export import Encoding, Export, ExportResult
from collector.receive.status_codes import ExportStatus, Refusal
from collector.telemetry.counters import Stats
from monitor.engine import Monitor

Attributes = dict[str, str]


def body(encoding: Encoding, *spans: tuple[str, Attributes]) -> bytes:
    """Spans with a name and text attributes; their ids are their numbers, from 1."""
    if encoding == "json":
        found = [
            {
                "traceId": f"{number:032x}",
                "spanId": f"{number:016x}",
                "name": name,
                "endTimeUnixNano": "7",
                "attributes": [
                    {"key": key, "value": {"stringValue": text}}
                    for key, text in attributes.items()
                ],
            }
            for number, (name, attributes) in enumerate(spans, 1)
        ]
        return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": found}]}]}).encode()
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number, (name, attributes) in enumerate(spans, 1):
        span = scope.spans.add(
            trace_id=number.to_bytes(16), span_id=number.to_bytes(8), name=name
        )
        span.end_time_unix_nano = 7
        for key, text in attributes.items():
            span.attributes.add(key=key).value.string_value = text
    return request.SerializeToString()


def tool(name: str) -> Attributes:
    return {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}


class Service:
    """An `Export` on a real pipeline."""

    def __init__(self) -> None:
        self.stats = Stats()
        self.recorded: list[bytes] = []
        self.monitor = Monitor([], started_ns=0)
        self.pipeline = Pipeline(self.monitor, self.stats, lambda verdicts: None)
        self.export = Export(
            self.pipeline.consume,
            self.stats,
            lambda: 10,
            record=lambda raw, encoding: self.recorded.append(raw),
        )

    def send(
        self, raw: bytes, encoding: Encoding = "proto", transport: str = "grpc"
    ) -> ExportResult:
        return asyncio.run(self.export.ingest("traces", raw, encoding, transport))

    def count(self, name: str, *labels: str) -> int:
        return self.stats.counts.get((name, *labels), 0)


TOO_MANY = {f"k{number}": "" for number in range(ATTRIBUTES_MAX + 1)}
FAULTS = {
    "name": ("n" * (NAME_MAX + 1), {}, f"name has more than {NAME_MAX} characters"),
    "key": ("s", {"k" * (KEY_MAX + 1): ""}, f"key has more than {KEY_MAX} characters"),
    "attributes": ("s", TOO_MANY, f"more than {ATTRIBUTES_MAX} attributes"),
    "tool": ("s", tool("t" * (TOOL_MAX + 1)), f"tool's name has more than {TOOL_MAX}"),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("encoding", ["proto", "json"])
def test_over_a_bound_that_span_alone_is_left_out(encoding: Encoding, fault: str) -> None:
    """Two spans of four are rejected, counted and named; the others are judged."""
    name, attributes, message = FAULTS[fault]
    service, bad, good = Service(), (name, attributes), ("s", tool("scan"))
    answer = service.send(body(encoding, good, bad, good, bad), encoding)
    assert answer.rejected == 2
    assert message in answer.message
    assert service.stats.spans == {("grpc", "accepted"): 2, ("grpc", "rejected"): 2}
    assert service.count("spans_rejected", "over_bound") == 2
    assert service.count("calls", "executed") == 2


@pytest.mark.parametrize("encoding", ["proto", "json"])
def test_at_the_bound_all_is_taken(encoding: Encoding) -> None:
    """The bounds themselves are allowed, in characters whatever their bytes."""
    spans = [
        ("ü" * NAME_MAX, {"ü" * KEY_MAX: ""}),
        ("s", {f"k{number}": "" for number in range(ATTRIBUTES_MAX)}),
        ("s", tool("ü" * TOOL_MAX)),
    ]
    service = Service()
    assert service.send(body(encoding, *spans), encoding) == ExportResult()
    assert service.count("calls", "executed") == 1


def test_a_rejected_span_may_come_again_mended() -> None:
    """A rejected span's id is not remembered, so a corrected span is taken."""
    service = Service()
    assert service.send(body("proto", ("s", tool("t" * 2_000)))).rejected == 1
    assert service.send(body("proto", ("s", tool("scan")))) == ExportResult()
    assert service.count("calls", "executed") == 1


def large(count: int = 600) -> list[tuple[str, Attributes]]:
    """Calls of sessions of their own: those of one session are compared with each other, which takes long."""
    return [
        ("s", {**tool("scan"), "session.id": str(number), "text": "x" * 1_000})
        for number in range(count)
    ]


@pytest.mark.parametrize("encoding", ["proto", "json"])
def test_a_large_request_is_answered_like_a_small_one(encoding: Encoding) -> None:
    """Every span is judged once, the faulty ones of all slices are counted together."""
    spans = large()
    spans[1] = ("n" * (NAME_MAX + 1), {})
    spans[555] = ("s", tool("t" * 2_000))
    raw = body(encoding, *spans)
    assert len(raw) > 2 * LARGE_BYTES
    service = Service()
    answer = service.send(raw, encoding)
    assert answer.rejected == 2
    assert service.stats.spans == {("grpc", "accepted"): 598, ("grpc", "rejected"): 2}
    assert service.count("calls", "executed") == 598
    assert service.count("coverage", "duplicate") == 0
    again = Service()
    for piece in service.recorded:
        again.send(piece, encoding)
    assert again.count("calls", "executed") == 598


@pytest.mark.plain
def test_spans_that_were_not_kept_are_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans beyond those kept between two readings are decoded again: none is lost or judged twice."""
    monkeypatch.setattr("collector.receive.export.KEPT_SPANS", 100)
    service = Service()
    assert service.send(body("proto", *large())) == ExportResult()
    assert service.count("calls", "executed") == 600
    assert service.count("coverage", "duplicate") == 0


@pytest.mark.parametrize("encoding", ["proto", "json"])
def test_a_large_request_with_a_fault_at_its_end_is_refused_whole(encoding: Encoding) -> None:
    """No span of a refused request is judged, even if it precedes the fault."""
    good = body(encoding, *large())
    if encoding == "json":
        raw = good.replace(b'"spanId": "0000000000000258"', b'"spanId": 600')
    else:
        raw = good + b"\x0a\x05\x12\x03abc"
    assert raw != good
    service = Service()
    with pytest.raises(Refusal) as refusal:
        service.send(raw, encoding)
    assert refusal.value.status is ExportStatus.MALFORMED
    if encoding == "json":
        assert "from resourceSpans[0].scopeSpans[0].spans[" in refusal.value.message
    assert service.count("calls", "executed") == 0


async def _beside(service: Service, raw: bytes) -> tuple[int, bool]:
    """Turns that others get while a large request is taken; whether it was taken."""
    turns = 0
    taking = asyncio.create_task(service.export.ingest("traces", raw, "proto", "grpc"))
    while not taking.done():
        await asyncio.sleep(0)
        turns += 1
    return turns, taking.result() == ExportResult()


@pytest.mark.plain
@pytest.mark.parametrize(("seconds", "least", "most"), [(0, 1_000 / 32, 400), (1e9, 1, 10)])
def test_others_are_served_while_a_large_request_is_taken(
    monkeypatch: pytest.MonkeyPatch, seconds: float, least: float, most: float
) -> None:
    """Others get a turn by the clock, which is read at each slice and each 32 spans."""
    monkeypatch.setattr("collector.receive.export.TURN_SECONDS", seconds)
    turns, taken = asyncio.run(_beside(Service(), body("proto", *large(1_000))))
    assert taken
    assert least < turns < most


async def _until(reached: Callable[[], bool]) -> None:
    """Gives the other tasks turns."""
    for _ in range(10_000):
        if reached():
            return
        await asyncio.sleep(0)
    raise AssertionError("never reached")


@pytest.mark.plain
def test_a_large_request_that_was_let_in_is_judged_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """If the sender leaves, the whole request is judged all the same."""
    monkeypatch.setattr("collector.receive.export.TURN_SECONDS", 0)
    service = Service()

    async def scene() -> None:
        taking = asyncio.create_task(
            service.export.ingest("traces", body("proto", *large()), "proto", "grpc")
        )
        await _until(lambda: service.count("calls", "executed") > 0)
        assert service.count("calls", "executed") < 600
        taking.cancel()
        await _until(lambda: service.count("calls", "executed") == 600)

    asyncio.run(scene())
    assert service.count("calls", "executed") == 600


@pytest.mark.parametrize("signal", ["metrics", "logs"])
def test_large_bodies_of_other_signals_are_checked_in_slices(signal: Any) -> None:
    """Well-formed ones are accepted, others refused."""
    from opentelemetry.proto.logs.v1.logs_pb2 import LogsData
    from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

    if signal == "metrics":
        message: Any = MetricsData()
        scope = message.resource_metrics.add().scope_metrics.add()
        for _ in range(400):
            scope.metrics.add(name="m" * 1_000)
    else:
        message = LogsData()
        scope = message.resource_logs.add().scope_logs.add()
        for _ in range(400):
            scope.log_records.add().body.string_value = "m" * 1_000
    export, good = Export(lambda *_: None, Stats(), lambda: 0), message.SerializeToString()
    assert asyncio.run(export.ingest(signal, good, "proto", "grpc")) == ExportResult()
    text = b'{"x":"%s"}' % (b"y" * 400_000)
    assert asyncio.run(export.ingest(signal, text, "json", "http_json")) == ExportResult()
    for raw, encoding in (
        (good + b"\x0a\x02\x12\x7f", "proto"),
        (good + b"\x0a\x06\x12\x04\x12\x02\x0a\x7f", "proto"),
        (text[:-1], "json"),
        (b"[%s]" % text, "json"),
    ):
        with pytest.raises(Refusal) as refusal:
            asyncio.run(export.ingest(signal, raw, encoding, "grpc"))  # type: ignore[arg-type]
        assert refusal.value.status is ExportStatus.MALFORMED


def test_spans_are_handed_on_in_order() -> None:
    """The order is kept in large requests, too."""
    seen: list[bytes] = []

    def consume(spans: list[Span], _now: int, _transport: str) -> None:
        seen.extend(span.span_id for span in spans)

    raw = body("proto", *large())
    asyncio.run(Export(consume, Stats(), lambda: 0).ingest("traces", raw, "proto", "grpc", "a"))
    assert seen == [number.to_bytes(8) for number in range(1, 601)]
