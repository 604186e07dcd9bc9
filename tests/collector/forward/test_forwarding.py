"""The service and its next hops in one process, over real sockets, with the SDK's own exporters."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.config.settings.forward import NextHopSettings
from collector.net.watched_files import UnusableFileError
from collector.receive.listener.address import AddressInUse
from collector.receive.request import Signal
from collector.telemetry.logs import captured
from tests.collector.app.test_service import body, http
from tests.collector.event_loop import WAIT_SECONDS, run, until
from tests.collector.forward.hops import GrpcHop, HttpHop, answer
from tests.collector.forward.running import LISTENERS, metrics, post, service
from tests.collector.forward.telemetry import SIGNALS, Protocol, export

BUSY = answer("503 Busy")


@pytest.mark.parametrize(("protocol", "server"), LISTENERS)
@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("signal", SIGNALS)
def test_requests_go_on_byte_for_byte(
    signal: Signal, protocol: Protocol, zipped: bool, server: str
) -> None:
    """Over both protocols a next hop gets what it would have got from the exporter itself, of every signal."""

    async def main() -> None:
        async with HttpHop() as hop, GrpcHop() as other:
            hops = (
                NextHopSettings(endpoint=hop.url),
                NextHopSettings(endpoint=other.url, protocol="grpc"),
            )
            async with service(*hops, grpc_server=server) as app:
                assert await export("http", signal, hop.url.removeprefix("http://"))
                assert await export(protocol, signal, app.addresses[protocol], gzip=zipped)
                await until(lambda: len(hop.got) == 2 and other.got)
        direct, forwarded = hop.got
        (by_grpc,) = other.got
        assert by_grpc.body == direct.body
        assert f".{signal.removesuffix('s')}" in by_grpc.method
        assert forwarded.path == direct.path == f"/v1/{signal}"
        assert forwarded.body == direct.body
        assert forwarded.headers["content-type"] == "application/x-protobuf"

    run(main)


def test_json_goes_on_byte_for_byte() -> None:
    """Also what no parser would write like that: order, spaces and unknown fields stay."""
    odd = body("move").replace(b'{"resourceSpans"', b'{ "x" : 1.10,  "resourceSpans"')

    async def main() -> None:
        async with HttpHop() as hop, service(hop.url) as app:
            assert await post(app, odd) == 200
            assert await post(app, b'{"resourceLogs": [ ]}', "/v1/logs") == 200
            await until(lambda: len(hop.got) == 2)
        assert hop.got[0].body == odd
        assert hop.got[1].body == b'{"resourceLogs": [ ]}'
        assert {each.headers["content-type"] for each in hop.got} == {"application/json"}

    run(main)


@pytest.mark.parametrize("count", [1, 200])
def test_json_reaches_a_next_hop_over_grpc_as_protobuf(count: int) -> None:
    """The next hop gets the same spans; a body that the official schema does not allow is counted."""
    spans = [_span(number, "ü\U0001f600") for number in range(count)]
    dropped = 'offrails_forward_dropped_total{destination="hop",reason="unreadable"}'

    async def main() -> None:
        async with GrpcHop() as hop:
            hops = NextHopSettings(endpoint=hop.url, protocol="grpc", name="hop")
            async with service(hops) as app:
                assert await post(app, b'{"resourceLogs": 7}', "/v1/logs") == 200
                assert await post(app, _request(spans)) == 200
                await until(lambda: hop.got)
                found = await metrics(app)
        assert found[dropped] == 1
        (got,) = hop.got
        (group,) = ExportTraceServiceRequest.FromString(got.body).resource_spans
        sent = group.scope_spans[0].spans
        assert [each.span_id.hex() for each in sent] == [each["spanId"] for each in spans]
        assert sent[0].attributes[0].value.string_value == "ü\U0001f600"

    with captured():
        run(main)


def _span(number: int, text: str) -> dict[str, Any]:
    value = {"stringValue": text}
    ids = {"traceId": "01" * 16, "spanId": f"{number + 1:016x}"}
    return {**ids, "name": "x" * 100, "attributes": [{"key": "said", "value": value}]}


def _request(spans: list[dict[str, Any]]) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_large_request_goes_on_as_one(protocol: Protocol) -> None:
    """A request that is judged in slices reaches the next hop as it came, once."""
    message = ExportTraceServiceRequest()
    scope = message.resource_spans.add().scope_spans.add()
    for number in range(1, 6_000):
        ids = number.to_bytes(8, "big")
        scope.spans.add(trace_id=ids * 2, span_id=ids, name="x" * 100)
    whole = message.SerializeToString()

    async def main() -> None:
        async with HttpHop() as hop, GrpcHop() as other:
            hops = (
                NextHopSettings(endpoint=hop.url),
                NextHopSettings(endpoint=other.url, protocol="grpc"),
            )
            async with service(*hops) as app:
                if protocol == "http":
                    packed = gzip.compress(whole)
                    status = await asyncio.to_thread(_post_proto, app.addresses["http"], packed)
                    assert status == 200
                else:
                    await asyncio.to_thread(_call, app.addresses["grpc"], whole)
                await until(lambda: hop.got and other.got)
        assert [each.body for each in hop.got] == [whole]
        assert [each.body for each in other.got] == [whole]

    run(main)


def _post_proto(address: str, packed: bytes) -> int:
    import httpx

    kind = {"content-type": "application/x-protobuf", "content-encoding": "gzip"}
    url = f"http://{address}/v1/traces"
    return httpx.post(
        url,
        content=packed,
        headers=kind,
        timeout=WAIT_SECONDS,
        trust_env=False,
        verify=False,
    ).status_code


def _bytes(given: bytes) -> bytes:
    return given


def _call(address: str, whole: bytes, metadata: Any = ()) -> None:
    import grpc

    method = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
    with grpc.insecure_channel(address) as channel:
        channel.unary_unary(method, _bytes, _bytes)(
            whole, timeout=WAIT_SECONDS, metadata=metadata
        )


@pytest.mark.parametrize(("protocol", "server"), LISTENERS)
def test_listed_headers_of_the_sender_go_on(protocol: Protocol, server: str) -> None:
    """Each next hop gets the headers that it lists, and never the sender's authorization unless it lists it."""
    headers = {"x-tenant": "farm", "x-other": "1", "authorization": "Bearer t"}

    async def main() -> None:
        async with HttpHop() as one, HttpHop() as two, HttpHop() as three:
            hops = (
                NextHopSettings(endpoint=one.url),
                NextHopSettings(
                    endpoint=two.url, headers_from_sender=("X-Tenant", "x-missing")
                ),
                NextHopSettings(endpoint=three.url, headers_from_sender=("authorization",)),
            )
            async with service(*hops, grpc_server=server) as app:
                address = app.addresses[protocol]
                for _ in range(2):  # the second has a head that is known
                    assert await export(protocol, "traces", address, headers=headers)
                await until(lambda: all(len(each.got) == 2 for each in (one, two, three)))
        for hop, expected in (
            (one, {}),
            (two, {"x-tenant": "farm"}),
            (three, {"authorization": "Bearer t"}),
        ):
            for got in hop.got:
                assert {k: v for k, v in got.headers.items() if k in headers} == expected

    run(main)


def test_each_next_hop_gets_its_signals() -> None:
    """A signal that a next hop does not list does not go there."""

    async def main() -> None:
        async with HttpHop() as one, HttpHop() as two:
            hops = (
                NextHopSettings(endpoint=one.url, signals=("traces",)),
                NextHopSettings(endpoint=two.url, signals=("metrics", "logs")),
            )
            async with service(*hops) as app:
                for signal in SIGNALS:
                    assert await export("http", signal, app.addresses["http"])
                await until(lambda: len(one.got) + len(two.got) == 3)
        assert [each.path for each in one.got] == ["/v1/traces"]
        assert {each.path for each in two.got} == {"/v1/metrics", "/v1/logs"}

    run(main)


def test_refused_requests_do_not_go_on() -> None:
    """What its sender is told to be malformed is nobody else's either."""

    async def main() -> None:
        async with HttpHop() as hop, service(hop.url) as app:
            assert await post(app, b"[]") == 400
            assert await post(app, b"{", "/v1/logs") == 400
            assert await post(app, body("move")) == 200
            await until(lambda: hop.got)
        assert [each.body for each in hop.got] == [body("move")]

    run(main)


def test_a_fault_of_ours_keeps_no_request_from_going_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request whose judging fails is sound: its sender does not send it again, so it goes on."""

    def fail(*_: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr("collector.app.service.Pipeline.consume", fail)

    async def main() -> None:
        async with HttpHop() as hop, service(hop.url) as app:
            assert await post(app, body("move")) == 500
            await until(lambda: hop.got)
        assert [each.body for each in hop.got] == [body("move")]

    with captured():
        run(main)


def test_a_next_hop_that_hangs_delays_nobody() -> None:
    """Other next hops, and the sender, wait for none that hangs, refuses, resets or answers garbage."""

    async def main() -> None:
        async with (
            HttpHop() as good,
            HttpHop(lambda _: None) as hangs,
            HttpHop(lambda _: answer("403 Forbidden")) as refuses,
            HttpHop(lambda _: b"") as resets,
            HttpHop(lambda _: b"\0garbage\r\n\r\n") as garbage,
        ):
            down = NextHopSettings(endpoint="http://127.0.0.1:9", name="down")
            urls = (hangs.url, refuses.url, resets.url, garbage.url, good.url)
            async with service(down, *urls, drain_seconds=0.2) as app:
                for number in range(100):
                    assert await post(app, body(f"tool{number}")) == 200
                await until(lambda: len(good.got) == 100)
                found = await metrics(app)

                def of(name: str, hop: HttpHop, labels: str = "") -> float:
                    place = hop.url.removeprefix("http://")
                    return found[f'offrails_forward_{name}{{destination="{place}"{labels}}}']

                traces = ',signal="traces",outcome="%s"'
                assert of("requests_total", good, traces % "ok") == 100
                assert of("up", good) == 1
                assert of("queue_bytes", good) == 0
                await until(lambda: refuses.got)
                assert of("queue_bytes", hangs) > 100_000
                assert found['offrails_forward_up{destination="down"}'] == 0
        assert len(hangs.got) == 8

    with captured() as lines:
        run(main)
    left = {line["destination"] for line in lines if line["event"] == "forward_undelivered"}
    assert len(left) == 4


def test_a_full_queue_refuses_where_that_is_asked_for() -> None:
    """The sender is told to try again later, and no next hop gets what it is to send again. It is judged once."""

    async def main() -> None:
        async with HttpHop() as good, HttpHop(lambda _: BUSY) as busy:
            hops = (
                NextHopSettings(endpoint=good.url),
                NextHopSettings(
                    endpoint=busy.url, name="busy", on_full="refuse", queue_bytes=8_000
                ),
            )
            async with service(*hops, drain_seconds=0.0) as app:
                statuses = [await post(app, body("move")) for _ in range(10)]
                taken = statuses.count(200)
                assert statuses == [200] * taken + [503] * (10 - taken)
                assert 2 < taken < 8
                await until(lambda: len(good.got) == taken)
                _, page = await http(app.addresses["metrics"], "GET", "/metrics")
                count = f'offrails_requests_refused_total{{reason="next_hop"}} {10 - taken}'
                assert count in page.decode()
                (judgement,) = app.monitor.judgements()
                assert judgement["calls"] == 1

    with captured():
        run(main)


def test_what_waits_is_sent_before_the_end() -> None:
    """A service that stops has sent what was accepted, within its grace."""

    async def main() -> None:
        async with HttpHop() as hop:
            async with service(hop.url) as app:
                for number in range(50):
                    assert await post(app, body(f"tool{number}")) == 200
            assert len(hop.got) == 50

    run(main)


@pytest.mark.parametrize(
    ("listener", "host"),
    [
        ("127.0.0.1:0", "127.0.0.1"),
        ("127.0.0.1:0", "localhost"),
        ("0.0.0.0:0", "127.0.0.2"),
        (":0", "127.0.0.1"),
        ("127.0.0.1:0", "0.0.0.0"),
        ("127.0.0.1:0", "0"),
        ("127.0.0.1:0", "[::ffff:127.0.0.1]"),
        ("[::1]:0", "[::]"),
    ],
)
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_loop_is_refused_at_the_start(listener: str, host: str, protocol: Protocol) -> None:
    """An endpoint at which one of our own listeners answers is refused by name, however the host is written."""

    async def told_of_the_port() -> UnusableFileError:
        off: dict[str, Any] = {"grpc": "off", "http": "off"}
        async with service(**{**off, protocol: listener}) as app:
            port = app.addresses[protocol].rpartition(":")[2]
        own = {**off, protocol: listener.replace(":0", f":{port}")}
        try:
            async with service(f"http://{host}:{port}", **own):
                pass
        except UnusableFileError as found:
            return found
        except AddressInUse:  # another test has the port by now
            return await told_of_the_port()
        pytest.fail("it has started")

    async def main() -> None:
        told = await told_of_the_port()
        assert told.setting == "forward[0].endpoint"
        assert f"this service's own listener receiver.{protocol}" in str(told)

    run(main)


def test_another_port_or_host_is_no_loop() -> None:
    """A next hop on this machine, at another port or address, is one."""

    async def main() -> None:
        async with HttpHop() as hop, service(hop.url, http="127.0.0.1:0") as app:
            port = app.addresses["http"].rpartition(":")[2]
            async with service(f"http://127.0.0.1:{port}") as first:
                assert await post(first, body("move")) == 200
                await until(lambda: hop.got)

    run(main)


def test_metrics_are_there_from_the_start() -> None:
    """Every outcome and reason of each next hop is 0 before the first request."""

    async def main() -> None:
        async with HttpHop() as hop:
            hops = NextHopSettings(endpoint=hop.url, name="tempo", signals=("traces",))
            async with service(hops) as app:
                found = await metrics(app)
        assert {
            name.removeprefix("offrails_forward_"): value
            for name, value in found.items()
            if "_seconds_bucket" not in name and "created" not in name
        } == {
            **{
                f'requests_total{{destination="tempo",signal="traces",outcome="{each}"}}': 0
                for each in ("ok", "partial", "refused", "dropped")
            },
            **{
                f'dropped_total{{destination="tempo",reason="{each}"}}': 0
                for each in (
                    "queue_full",
                    "gave_up",
                    "unreadable",
                    "shutdown",
                    "not_in_journal",
                    "internal_error",
                )
            },
            'rejected_items_total{destination="tempo",signal="traces"}': 0,
            'retries_total{destination="tempo"}': 0,
            'queue_bytes{destination="tempo"}': 0,
            'queue_bytes_max{destination="tempo"}': 64 << 20,
            'seconds_count{destination="tempo"}': 0,
            'seconds_sum{destination="tempo"}': 0,
            'up{destination="tempo"}': 1,
        }

    run(main)
