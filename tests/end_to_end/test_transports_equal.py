"""However spans come, the same objects and the same final counters come of them."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import (
    OTLPSpanExporter as GrpcExporter,
)
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import (
    OTLPSpanExporter as HttpExporter,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import StatusCode

from tests.end_to_end.service import eventually
from tests.end_to_end.traffic import EPOCH_NS, GOLDEN, MILLISECOND, Rover, Sent, send
from tests.samples import sampled

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve
    from tests.end_to_end.service import Service

EXPORT_SECONDS = 60
"""Six services start side by side: on a busy machine the first answer may take longer than usual."""
COMPLETE = {"OFFRAILS_HISTORY": "complete", "OFFRAILS_SHOW_ARGUMENTS": "true"}


# --- the SDK's own exporters ---------------------------------------------------------------------


class _Counting(IdGenerator):
    """Ids in a row, so that two runs make the same spans."""

    def __init__(self) -> None:
        self._last = 0

    def generate_span_id(self) -> int:
        self._last += 1
        return self._last

    def generate_trace_id(self) -> int:
        return 0xABC0000 + self.generate_span_id()


def _played() -> Sequence[ReadableSpan]:
    """Spans of two sessions, made by the SDK: a tool call with every kind of argument, a failure."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(
        resource=Resource({"service.name": "farm-rover", "process.pid": 7, "tags": ["a", "b"]}),
        id_generator=_Counting(),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("farm.rover", "1.0")
    now = EPOCH_NS
    for session, tools in (
        ("sdk good", GOLDEN),
        ("sdk bad/ü", ("unlock_safety", "water", "fly", "move")),
    ):
        with tracer.start_as_current_span("invoke_agent", start_time=now) as turn:
            turn.set_attribute("gen_ai.conversation.id", session)
            turn.set_attribute("gen_ai.agent.name", "driver")
            for number, tool in enumerate(tools):
                now += 2 * MILLISECOND
                span = tracer.start_span(f"execute_tool {tool}", start_time=now)
                span.set_attributes(
                    {
                        "gen_ai.operation.name": "execute_tool",
                        "gen_ai.tool.name": tool,
                        "gen_ai.tool.call.id": f"{session} {number}",
                        "gen_ai.tool.call.arguments": json.dumps(
                            {
                                "text": "é\u2028",
                                "number": 2**53,
                                "real": 0.1,
                                "list": [True, None],
                            }
                        ),
                    }
                )
                if tool == "fly":
                    span.record_exception(ValueError("no wings"), timestamp=now)
                    span.set_status(StatusCode.ERROR, "no wings")
                span.end(end_time=now + MILLISECOND)
            turn.end(end_time=now + MILLISECOND)
    provider.shutdown()
    return memory.get_finished_spans()


def _exporter(service: Service, kind: str) -> SpanExporter:
    transport, _, gzip = kind.partition("+")
    if transport == "grpc":
        coding = grpc.Compression.Gzip if gzip else grpc.Compression.NoCompression
        return GrpcExporter(
            service.addresses["grpc"],
            insecure=True,
            compression=coding,
            timeout=EXPORT_SECONDS,
        )
    url = f"http://{service.addresses['http']}/v1/traces"
    compression = Compression.Gzip if gzip else Compression.NoCompression
    return HttpExporter(url, compression=compression, timeout=EXPORT_SECONDS)


def _as_sent(spans: Sequence[ReadableSpan]) -> Iterator[Sent]:
    """The SDK's spans as plain ones."""
    for span in spans:
        assert span.context is not None
        yield Sent(
            trace_id=span.context.trace_id.to_bytes(16, "big"),
            span_id=span.context.span_id.to_bytes(8, "big"),
            name=span.name,
            start_ns=span.start_time or 0,
            end_ns=span.end_time or 0,
            attributes=dict(span.attributes or {}),
            parent_span_id=span.parent.span_id.to_bytes(8, "big") if span.parent else b"",
            error=span.status.status_code is StatusCode.ERROR,
        )


def test_sdk_exporters_and_plain_json_give_equal_objects(serve: Serve) -> None:
    """gRPC, HTTP protobuf and HTTP JSON, with and without gzip: six times the same sessions."""
    kinds = ("grpc", "grpc+gzip", "http", "http+gzip", "json", "json+gzip")
    services = {kind: serve(wait=False, **COMPLETE) for kind in kinds}
    spans = _played()

    found = {}
    for kind, service in services.items():
        service.wait_ready()
        if kind.startswith("json"):
            send(service, list(_as_sent(spans)), compress=kind.endswith("gzip"))
        else:
            exporter = _exporter(service, kind)
            assert exporter.export(spans) is SpanExportResult.SUCCESS
            exporter.shutdown()
        found[kind] = sorted(service.judgements(), key=lambda each: str(each["session"]))

    tasks = [each for each in found["grpc"] if each["spec"] == "farm_rover"]
    assert [(each["session"], each["agent"], each["harmful"]) for each in tasks] == [
        ("sdk bad/ü", "driver", 2),
        ("sdk good", "driver", 0),
    ]
    assert tasks[0]["steps"][0]["arguments"] == {
        "text": "é\u2028",
        "number": 2**53,
        "real": 0.1,
        "list": [True, None],
    }
    for kind in kinds[1:]:
        assert found[kind] == found["grpc"], kind


# --- 1,000 spans in any order ----------------------------------------------------------------------

SESSIONS = 250
SPANS = 1_000
REQUESTS = 8
TRANSPORTS: tuple[Literal["grpc", "http_proto", "http_json"], ...] = (
    "grpc",
    "http_proto",
    "http_json",
)
UNKNOWN = ("fly", "override_interlock", "dig")
WINDOW_SECONDS = 10
"""Longer than the sending takes, so that no final verdict is given before all is there."""


def _sessions(chance: random.Random, start_ns: int) -> Iterator[Rover]:
    """Sessions of many kinds: good, bad, failing, with unknown tools; some name their id late."""
    for number in range(1, SESSIONS + 1):
        told_on: Literal["calls", "root"] = "root" if number % 3 == 0 else "calls"
        session = Rover(f"session-{number:03}", number, told_on, start_ns)
        tools = list(GOLDEN)
        for _ in range(chance.choice((0, 0, 1, 3))):
            tools.insert(chance.randrange(len(tools) + 1), chance.choice((*GOLDEN, *UNKNOWN)))
        if chance.random() < 0.3:
            chance.shuffle(tools)
        turn_ends = chance.randrange(len(tools)) if chance.random() < 0.3 else -1
        for place, tool in enumerate(tools):
            form = chance.random()
            if form < 0.2:
                session.openinference(tool, {"n": place})
            elif form < 0.3:
                session.call(tool, "not {json")
            else:
                session.call(tool, {"n": place}, error=chance.random() < 0.15)
            if place == turn_ends:
                session.root(f"rover-{number % 2}")
        yield session.root(f"rover-{number % 2}" if number % 5 else "")


def _traffic(start_ns: int) -> tuple[list[Sent], list[list[Sent]]]:
    """The spans in order; and shuffled, one in five twice, in eight requests."""
    chance = random.Random(20260117)
    ordered = [span for session in _sessions(chance, start_ns) for span in session.spans][
        :SPANS
    ]
    assert len(ordered) == SPANS
    ordered.sort(key=lambda span: (span.start_ns, span.end_ns, span.span_id))
    shuffled = ordered + chance.sample(ordered, len(ordered) // 5)
    chance.shuffle(shuffled)
    size = len(shuffled) // REQUESTS
    return ordered, [shuffled[i * size : (i + 1) * size] for i in range(REQUESTS)]


def _objects(service: Service) -> list[dict[str, Any]]:
    found = service.judgements(limit="1000")
    for each in found:
        del each["coverage"]
    return sorted(found, key=lambda each: (each["session"], each["spec"] or ""))


def _settled(service: Service) -> list[dict[str, Any]] | None:
    """All objects, once every verdict is final."""
    found = _objects(service)
    final = all(step["final"] for each in found for step in each["steps"])
    return found if final else None


STARTED = "unless_began_before"
"""Start of the service that judged: each service has its own."""


def _differences(
    expected: list[dict[str, Any]], found: list[dict[str, Any]]
) -> dict[str, tuple[str, Any, Any]]:
    """Each field that differs, with a session where it does: easier to read than the objects."""
    names = [(each["session"], each["spec"]) for each in found]
    assert names == [(each["session"], each["spec"]) for each in expected]
    return {
        key: (theirs["session"], theirs[key], ours[key])
        for theirs, ours in zip(expected, found, strict=True)
        for key in theirs
        if theirs[key] != ours[key] and key != STARTED
    }


FINAL_COUNTERS = ("offrails_harmful_calls_total", "offrails_sessions_active")
MEANS = (
    "offrails_harm_rate",
    "offrails_prefix_crit",
    "offrails_harmful_calls_per_session",
    "offrails_session_score_window_sessions",
)


def _samples(service: Service, *names: str) -> dict[Any, float]:
    """Samples that are not zero: a series may exist from before an agent's name was learnt."""
    return {
        place: value
        for place, value in service.metrics().items()
        if place[0] in names and value
    }


@pytest.mark.parametrize("history", sampled(["complete", "auto"], ["auto"]))
def test_a_thousand_spans_in_any_order(serve: Serve, history: str) -> None:
    """Eight parallel, shuffled requests with 20 % duplicates end like one ordered request."""
    settings = COMPLETE | {
        "OFFRAILS_HISTORY": history,
        "OFFRAILS_SESSIONS_WINDOW_SECONDS": str(WINDOW_SECONDS),
    }
    one, eight = (serve(wait=False, **settings) for _ in range(2))
    one.wait_ready()
    eight.wait_ready()
    ordered, requests = _traffic(EPOCH_NS if history == "complete" else time.time_ns())

    send(one, ordered, "grpc")
    with ThreadPoolExecutor(REQUESTS) as pool:
        sent = [
            pool.submit(send, eight, spans, TRANSPORTS[number % 3])
            for number, spans in enumerate(requests)
        ]
        for each in sent:
            each.result()

    expected, found = (
        eventually(partial(_settled, service), 4 * WINDOW_SECONDS) for service in (one, eight)
    )
    assert len({each["session"] for each in expected}) > 100
    assert _differences(expected, found) == {}
    assert _samples(eight, *FINAL_COUNTERS) == _samples(one, *FINAL_COUNTERS)
    assert _samples(eight, *MEANS) == _samples(one, *MEANS)
    for spec in ("farm_rover", "rover_policy"):
        counts = [s.metric("offrails_calls_total", spec=spec) for s in (one, eight)]
        assert counts[0] == counts[1] > 250
