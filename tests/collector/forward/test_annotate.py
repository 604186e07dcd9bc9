"""Verdicts on spans that go on, end to end: the SDK's exporters, the service, next hops over real sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.config.settings.forward import NextHopSettings
from collector.restart.recovery import compiled
from collector.state.journal_files import read_file
from collector.state.records import RecordKind
from collector.state.records import request_of as request_of_record
from collector.state.segment_reading import Record
from collector.telemetry.logs import captured
from tests.collector.app.test_service import body
from tests.collector.event_loop import run, until
from tests.collector.forward.hops import GrpcHop, HttpHop, answer
from tests.collector.forward.running import LISTENERS, SPECS, post, service
from tests.collector.forward.telemetry import Protocol, export
from tests.collector.forward.test_sync import send

OURS = "offrails."
PLAIN_SPAN = Span(trace_id=b"\7" * 16, span_id=b"\7" * 8, name="chat")
UNKNOWN = b"\xfa\x3f\x03new"
"""A field that this program does not know."""
NO_FLYING = b"""
id: no_flying
version: "1"
kind: policy
match: {service.name: farm-rover}
severity: {default: critical}
alphabet:
  fly: {tool: fly}
constraints:
  - forbid: fly
"""


def spans_of(request: ExportTraceServiceRequest) -> Iterator[Span]:
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            yield from scope.spans


def without_ours(sent: bytes) -> bytes:
    """The request without our attributes."""
    request = ExportTraceServiceRequest.FromString(sent)
    for span in spans_of(request):
        kept = [each for each in span.attributes if not each.key.startswith(OURS)]
        del span.attributes[:]
        span.attributes.extend(kept)
    return request.SerializeToString()


def ours(sent: bytes) -> list[dict[str, Any]]:
    """Our attributes of each span, by the names behind `offrails.`."""
    return [
        {
            each.key.removeprefix(OURS): getattr(
                each.value, str(each.value.WhichOneof("value"))
            )
            for each in span.attributes
            if each.key.startswith(OURS)
        }
        for span in spans_of(ExportTraceServiceRequest.FromString(sent))
    ]


def request_of(*tools: str) -> bytes:
    """A request of the rover's: a call of each tool, and a span that is none; fields of a later version everywhere."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "farm-rover"
    resource.MergeFromString(UNKNOWN)
    scope = resource.scope_spans.add()
    scope.MergeFromString(UNKNOWN)
    scope.spans.append(PLAIN_SPAN)
    for number, tool in enumerate(tools, 1):
        span = scope.spans.add(
            trace_id=b"\7" * 16,
            span_id=number.to_bytes(8, "big"),
            name=f"execute_tool {tool}",
            start_time_unix_nano=number,
            end_time_unix_nano=number + 1,
        )
        for key, value in (
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", tool),
            ("gen_ai.conversation.id", "s"),
        ):
            span.attributes.add(key=key).value.string_value = value
        span.MergeFromString(UNKNOWN)
    return request.SerializeToString()


@pytest.mark.parametrize(("protocol", "server"), LISTENERS)
def test_spans_of_judged_calls_carry_their_verdicts(protocol: Protocol, server: str) -> None:
    """A next hop finds each call's verdict, reason, spec and HarmRate on its span; another one gets the exporter's bytes."""

    async def main() -> None:
        async with HttpHop() as plain, HttpHop() as one, GrpcHop() as two:
            hops = (
                NextHopSettings(endpoint=plain.url),
                NextHopSettings(endpoint=one.url, annotate=True),
                NextHopSettings(endpoint=two.url, annotate=True, protocol="grpc"),
            )
            async with service(*hops, grpc_server=server) as app:
                assert await export(protocol, "traces", app.addresses[protocol])
                await until(lambda: plain.got and one.got and two.got)
                (judgement,) = app.monitor.judgements()
        sent = plain.got[0].body
        assert not any(ours(sent))
        assert one.got[0].body == two.got[0].body
        assert without_ours(one.got[0].body) == sent
        rate = judgement["harm_rate"]
        assert rate == 0.25
        allowed = {"verdict": "progress", "spec": "farm_rover", "harm_rate": rate}
        found = ours(one.got[0].body)
        assert found[0] == found[1] == allowed
        assert found[2]["verdict"] in ("progress", "self_loop")
        assert found[3] == {
            "verdict": "harmful",
            "reason": "unknown_tool",
            "spec": "farm_rover",
            "harm_rate": rate,
        }

    run(main)


def test_metrics_and_logs_go_on_unchanged() -> None:
    """A next hop with `annotate` gets other signals byte for byte."""

    async def main() -> None:
        async with HttpHop() as plain, HttpHop() as one:
            hops = (
                NextHopSettings(endpoint=plain.url),
                NextHopSettings(endpoint=one.url, annotate=True),
            )
            async with service(*hops) as app:
                for signal in ("metrics", "logs"):
                    assert await export("http", signal, app.addresses["http"])
                await until(lambda: len(plain.got) == len(one.got) == 2)
        assert {each.body for each in plain.got} == {each.body for each in one.got}

    run(main)


def test_everything_else_stays() -> None:
    """Spans that are no calls, and fields of a later version, are as they came; so is a request without calls."""
    chat = ExportTraceServiceRequest()
    chat.resource_spans.add().scope_spans.add().spans.append(PLAIN_SPAN)
    no_call, sent = chat.SerializeToString() + UNKNOWN, request_of("unlock_safety", "fly")

    async def main() -> None:
        async with (
            HttpHop() as hop,
            service(NextHopSettings(endpoint=hop.url, annotate=True)) as app,
        ):
            assert (await send(app, "http", no_call)).code == 200
            assert (await send(app, "http", sent)).code == 200
            await until(lambda: len(hop.got) == 2)
        first, second = (each.body for each in hop.got)
        assert first == no_call
        assert [each.get("verdict") for each in ours(second)] == [None, "progress", "harmful"]
        assert second.count(UNKNOWN) == sent.count(UNKNOWN) == 4
        assert (
            without_ours(second)
            == ExportTraceServiceRequest.FromString(sent).SerializeToString()
        )
        assert PLAIN_SPAN.SerializeToString() in second

    run(main)


def test_a_large_request_is_annotated_whole() -> None:
    """Verdicts of a request that is judged in slices, while others are judged, are on its own spans."""
    sent = request_of(*["unlock_safety"] * 3_000, "fly")

    async def main() -> None:
        async with (
            HttpHop() as hop,
            service(NextHopSettings(endpoint=hop.url, annotate=True)) as app,
        ):
            assert (await send(app, "http", sent)).code == 200
            await until(lambda: hop.got)
        found = ours(hop.got[0].body)
        assert [bool(each) for each in found] == [False] + [True] * 3_001
        assert found[-1]["verdict"] == "harmful"

    run(main)


def test_requests_in_json_are_annotated_in_json() -> None:
    """A request in JSON stays JSON over HTTP, with its unknown fields; over gRPC it is converted afterwards."""
    sent = body("fly").replace(b'"spanId"', b'"later": {"x": 1.5}, "spanId"')

    async def main() -> None:
        async with HttpHop() as one, GrpcHop() as two:
            hops = (
                NextHopSettings(endpoint=one.url, annotate=True),
                NextHopSettings(endpoint=two.url, annotate=True, protocol="grpc"),
            )
            async with service(*hops) as app:
                assert await post(app, sent) == 200
                await until(lambda: one.got and two.got)
        (got,) = one.got
        assert got.headers["content-type"] == "application/json"
        found = json.loads(got.body)
        (span,) = found["resourceSpans"][0]["scopeSpans"][0]["spans"]
        assert span.pop("attributes")[-1] == {
            "key": "offrails.harm_rate",
            "value": {"doubleValue": 1.0},
        }
        assert span["later"] == {"x": 1.5}
        (attributes,) = ours(two.got[0].body)
        assert attributes["reason"] == "unknown_tool"

    run(main)


def test_what_is_refused_and_sent_again_has_its_verdicts() -> None:
    """Spans are judged once; a request that a next hop did not take has their verdicts when its sender repeats it."""
    statuses = ["503 Busy", "503 Busy", "200 OK"]

    async def main() -> None:
        async with (
            HttpHop(lambda _: answer(statuses.pop(0))) as hop,
            service(NextHopSettings(endpoint=hop.url, annotate=True, sync=True)) as app,
        ):
            sent = request_of("fly")
            codes = [(await send(app, "http", sent)).code for _ in range(3)]
            (judgement,) = app.monitor.judgements()
            assert judgement["calls"] == 1
        assert codes == [503, 503, 200]
        assert len({each.body for each in hop.got}) == 1
        assert [each.get("verdict") for each in ours(hop.got[-1].body)] == [None, "harmful"]

    with captured():
        run(main)


def test_the_worst_of_several_verdicts_is_shown() -> None:
    """A call under a task and a policy shows what is harmful, and of two harmful verdicts the more severe one."""
    policy = compiled([("no_flying.yaml", NO_FLYING)], 0)
    assert policy is not None

    async def main() -> None:
        async with HttpHop() as hop:
            hops = NextHopSettings(endpoint=hop.url, annotate=True)
            async with service(hops, specs=[*SPECS, *policy]) as app:
                assert (await send(app, "http", request_of("move", "fly"))).code == 200
                await until(lambda: hop.got)
        _, move, fly = ours(hop.got[0].body)
        assert (move["verdict"], move["spec"]) == ("harmful", "farm_rover")
        assert fly == {"verdict": "harmful", "spec": "no_flying", "reason": "forbidden"}

    run(main)


def test_harmless_verdicts_are_worded_although_nobody_looks_on() -> None:
    """With `annotate`, progress is on spans too, also after the last reader of live verdicts has gone."""

    async def main() -> None:
        async with (
            HttpHop() as hop,
            service(NextHopSettings(endpoint=hop.url, annotate=True)) as app,
        ):
            app.attend(True)
            app.attend(False)
            assert (await send(app, "http", request_of("unlock_safety"))).code == 200
            await until(lambda: hop.got)
        assert ours(hop.got[0].body)[1]["verdict"] == "progress"

    run(main)


@pytest.mark.parametrize("tool", ["unlock_safety", "fly"])
def test_the_journal_keeps_what_arrived(tool: str, tmp_path: Any) -> None:
    """A journal holds the request as its sender sent it, not as it went on."""
    sent = request_of(tool)

    async def main() -> None:
        async with HttpHop() as hop:
            hops = NextHopSettings(endpoint=hop.url, annotate=True)
            async with service(hops, more={"state": {"dir": tmp_path}}) as app:
                assert (await send(app, "http", sent)).code == 200
                await until(lambda: hop.got)
        assert ours(hop.got[0].body)[1]
        (file,) = tmp_path.glob("journal-*.log")
        kept = [each for each in read_file(file) if isinstance(each, Record)]
        requests = [
            request_of_record(each.payload) for each in kept if each.kind == RecordKind.REQUEST
        ]
        assert [each.body for each in requests] == [sent]

    with captured():
        run(main)
