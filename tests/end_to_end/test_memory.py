"""Memory does not grow with what hostile senders send, of any kind."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.end_to_end.traffic import Rover, as_json
from tests.samples import sampled

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve
    from tests.end_to_end.service import Service

GROWTH_MAX = 250 << 20
PROTO = "application/x-protobuf"
SECOND = 1_000_000_000
START = 1_800_000_000 * SECOND
SPANS = 500
"""Of a request."""


def resident(service: Service) -> int:
    """Bytes of the process that are in memory."""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) << 10


def request(
    first: int,
    attributes: Callable[[int], Mapping[str, str]],
    resource: Callable[[int], Mapping[str, str]] = lambda _: {"service.name": "hostile"},
    spans: int = SPANS,
) -> bytes:
    """A request of calls in traces of their own, from the number `first` on."""
    made = ExportTraceServiceRequest()
    last: Mapping[str, str] | None = None
    for number in range(first, first + spans):
        found = resource(number)
        if found != last:
            group = made.resource_spans.add()
            for key, value in found.items():
                group.resource.attributes.add(key=key).value.string_value = value
            scope, last = group.scope_spans.add(), found
        span = scope.spans.add(
            trace_id=(number + 1).to_bytes(16, "big"),
            span_id=(number + 1).to_bytes(8, "big"),
            name="execute_tool",
            kind=Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=START + number,
            end_time_unix_nano=START + number + 1,
        )
        given = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "tool"}
        for key, value in {**given, **attributes(number)}.items():
            span.attributes.add(key=key).value.string_value = value
    return made.SerializeToString()


def wide(number: int, length: int = 1_000) -> str:
    """A text that differs by number, of characters that take much memory."""
    return f"{number} " + "\U0001f600" * length


KINDS: dict[str, Callable[[int], bytes]] = {
    "names": lambda n: request(n, lambda k: {"gen_ai.tool.name": wide(k)}),
    "sessions": lambda n: request(n, lambda k: {"gen_ai.conversation.id": wide(k)}),
    "call ids": lambda n: request(n, lambda k: {"gen_ai.tool.call.id": wide(k)}),
    "agents": lambda n: request(n, lambda k: {"gen_ai.agent.name": wide(k)}),
    "keys": lambda n: request(n, lambda k: {wide(k, 500): "x"}),
    "arguments' names": lambda n: request(
        n, lambda k: {"gen_ai.tool.call.arguments": json.dumps({wide(k): 1})}
    ),
    "resources": lambda n: request(
        n,
        lambda _: {},
        lambda k: {"service.name": "hostile", **{f"a{i}": wide(k) for i in range(20)}},
    ),
    "what specs bind on": lambda n: request(n, lambda k: {"offrails.spec": wide(k, 4_000)}),
    "small arguments": lambda n: request(
        n, lambda _: {"gen_ai.tool.call.arguments": '{"a":[' + ",".join(["{}"] * 900) + "]}"}
    ),
}


def bodies(kind: str, spans: int) -> Iterator[bytes]:
    return (gzip.compress(KINDS[kind](n), 1) for n in range(0, spans, SPANS))


SAMPLE = {"sessions", "arguments' names", "what specs bind on"}
"""One that is kept by session, one of arguments, one that is kept by no session. `make test-long` sends each kind."""


@pytest.mark.parametrize(
    "kind",
    [each if each in SAMPLE else pytest.param(each, marks=pytest.mark.long) for each in KINDS],
)
def test_texts_of_senders_are_bounded(serve: Serve, kind: str) -> None:
    """Thousands of long names, ids, keys and arguments take no more than their bounds."""
    service = serve(OFFRAILS_HISTORY="complete")
    idle = resident(service)
    for body in bodies(kind, 4_000):
        assert service.post(body, PROTO, **{"content-encoding": "gzip"}).status == 200

    assert resident(service) - idle < GROWTH_MAX


@pytest.mark.long
def test_large_arguments_are_given_up(serve: Serve) -> None:
    """Arguments of a megabyte each are held up to their bound, and the calls stay judged."""
    service = serve()
    idle = resident(service)
    text = '{"a":[' + ",".join(["{}"] * 200_000) + "]}"
    for number in range(0, 10, 5):
        body = request(number, lambda _: {"gen_ai.tool.call.arguments": text}, spans=5)
        sent = service.post(gzip.compress(body, 1), PROTO, **{"content-encoding": "gzip"})
        assert sent.status == 200

    assert resident(service) - idle < GROWTH_MAX
    assert service.metric("offrails_coverage_total", reason="arguments_given_up") > 0
    assert service.metric("offrails_tool_calls_total") == 10


@pytest.mark.parametrize("sessions", sampled([1, 120], [120]))
def test_shown_arguments_are_given_up_before_requests_are_refused(
    serve: Serve, sessions: int
) -> None:
    """Under a memory limit every call is taken, in one session or many; the latest arguments are shown."""
    service = serve(
        OFFRAILS_HISTORY="complete",
        OFFRAILS_SHOW_ARGUMENTS="true",
        OFFRAILS_MEMORY_LIMIT=str(300 << 20),
        # However slow this machine is, no call is folded: arguments of folded ones are not shown anyway.
        OFFRAILS_SESSIONS_WINDOW_SECONDS="600",
    )
    idle = resident(service)
    text = json.dumps({"text": "x" * 900_000})
    for number in range(120):
        rover = Rover(f"large-{number % sessions}", number).call("move", text)
        assert service.post(as_json(rover.spans)).status == 200

    assert resident(service) - idle < 150 << 20
    assert service.metric("offrails_shown_arguments_given_up_total") > 20
    assert service.metric("offrails_sessions_ended_total", cause="evicted") == 0
    last = service.judgements(f"large-{119 % sessions}")[0]["steps"][-1]
    assert len(last["arguments"]["text"]) == 900_000


def test_inflated_bodies_are_held_before_they_are_made(serve: Serve) -> None:
    """Sixteen bodies that inflate a thousandfold wait, or are refused as retryable."""
    service = serve()
    idle = resident(service)
    filler = "x" * 1_000_000
    body = request(0, lambda _: {"unknown": filler}, spans=40)
    packed = gzip.compress(body, 9)
    assert len(packed) < 100_000
    peak = 0
    with ThreadPoolExecutor(16) as pool:
        sent = [
            pool.submit(service.post, packed, PROTO, **{"content-encoding": "gzip"})
            for _ in range(16)
        ]
        while not all(each.done() for each in sent):
            peak = max(peak, resident(service))
    codes = {each.result().status for each in sent}

    assert 200 in codes
    assert codes <= {200, 503}
    assert peak - idle < 2 * GROWTH_MAX
    assert service.metric("offrails_ingest_queue_length", queue="bytes") == 0
