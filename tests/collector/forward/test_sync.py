"""Next hops that answer their senders, over real sockets and in virtual time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import grpc
import httpx
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from collector.app.service import App
from collector.config.settings.forward import NextHopSettings
from collector.forward.message import ForwardReply
from collector.forward.next_hop import SYNC_MAX
from collector.receive.status_codes import ExportStatus, Refusal, retry_seconds, status_bytes
from collector.telemetry.logs import captured
from tests.collector.app.test_service import body, http
from tests.collector.event_loop import WAIT_SECONDS, run, until
from tests.collector.forward.hops import OK, GotHttp, GrpcHop, HttpHop, Status, answer
from tests.collector.forward.running import LISTENERS, metrics, post, service
from tests.collector.forward.telemetry import SIGNALS, Protocol, export
from tests.collector.forward.test_next_hop import FakeHop, destination, message
from tests.collector.forward.virtual_time import run_virtual

METHODS = {
    "/v1/traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "/v1/logs": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
}
PARTIAL = ExportTraceServiceResponse()
PARTIAL.partial_success.rejected_spans = 3
PARTIAL.partial_success.error_message = "too old"
KIND = "content-type: application/x-protobuf"


class Told(NamedTuple):
    """What a sender is told."""

    code: int
    """Status of HTTP, or of gRPC."""
    body: bytes = b""
    message: str = ""
    wait_seconds: float | None = None


def _bytes(given: bytes) -> bytes:
    return given


def _call(address: str, path: str, sent: bytes) -> Told:
    with grpc.insecure_channel(address) as channel:
        try:
            got = channel.unary_unary(METHODS[path], _bytes, _bytes)(sent, timeout=WAIT_SECONDS)
        except grpc.RpcError as error:
            found: Any = error
            details = dict(found.trailing_metadata()).get("grpc-status-details-bin", b"")
            code = found.code().value[0]
            return Told(code, message=found.details(), wait_seconds=retry_seconds(details))
    return Told(0, got)


def _post(address: str, path: str, sent: bytes) -> Told:
    headers = {"content-type": "application/x-protobuf"}
    found = httpx.post(
        f"http://{address}{path}",
        content=sent,
        headers=headers,
        timeout=WAIT_SECONDS,
        trust_env=False,
        verify=False,
    )
    wait = found.headers.get("retry-after")
    text = "" if found.is_success else found.content.decode("utf-8", "replace")
    return Told(found.status_code, found.content, text, float(wait) if wait else None)


async def send(
    app: App, protocol: Protocol, sent: bytes = b"", path: str = "/v1/traces"
) -> Told:
    """Sends a request in protobuf, and waits for its answer."""
    make = _call if protocol == "grpc" else _post
    return await asyncio.to_thread(make, app.addresses[protocol], path, sent)


def spans(count: int) -> bytes:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number in range(1, count + 1):
        ids = number.to_bytes(8, "big")
        scope.spans.add(trace_id=ids * 2, span_id=ids, name="x" * 100)
    return request.SerializeToString()


def http_hop(url: str, **more: Any) -> NextHopSettings:
    return NextHopSettings(endpoint=url, name="hop", sync=True, **more)


def grpc_hop(url: str, **more: Any) -> NextHopSettings:
    return NextHopSettings(endpoint=url, name="hop", protocol="grpc", sync=True, **more)


@pytest.mark.parametrize(("protocol", "server"), LISTENERS)
@pytest.mark.parametrize("signal", SIGNALS)
def test_the_sender_is_answered_once_the_next_hop_has_it(
    signal: str, protocol: Protocol, server: str
) -> None:
    """When an exporter is told that its data arrived, both next hops have them, byte for byte."""

    async def main() -> None:
        async with HttpHop() as one, GrpcHop() as two:
            hops = (
                http_hop(one.url),
                NextHopSettings(endpoint=two.url, protocol="grpc", sync=True),
            )
            async with service(*hops, grpc_server=server) as app:
                assert await export(protocol, signal, app.addresses[protocol])
                assert len(one.got) == len(two.got) == 1
                assert one.got[0].body == two.got[0].body
                found = await metrics(app)
        ok = f'offrails_forward_requests_total{{destination="hop",signal="{signal}",outcome="ok"}}'
        assert found[ok] == 1
        assert found['offrails_forward_queue_bytes{destination="hop"}'] == 0

    run(main)


REFUSED_HTTP = {
    "403 Forbidden": (403, 7),
    "400 Bad Request": (400, 3),
    "413 Too Large": (413, 8),
    "500 Broken": (500, 13),
}
REFUSED_GRPC = {
    grpc.StatusCode.PERMISSION_DENIED: (403, 7),
    grpc.StatusCode.INVALID_ARGUMENT: (400, 3),
    grpc.StatusCode.UNAUTHENTICATED: (401, 16),
    grpc.StatusCode.INTERNAL: (500, 13),
}


@pytest.mark.parametrize(("protocol", "server"), LISTENERS)
def test_a_refusal_is_the_senders_answer(protocol: Protocol, server: str) -> None:
    """Over both protocols the sender gets the status of the next hop, whichever protocol that speaks, after one attempt."""
    replies: list[Any] = []

    async def main() -> None:
        async with (
            HttpHop(lambda _: answer(replies[0])) as one,
            GrpcHop(lambda _: Status(replies[0], "not for you")) as two,
        ):
            for hop, settings, table in (
                (one, http_hop(one.url), REFUSED_HTTP),
                (two, grpc_hop(two.url), REFUSED_GRPC),
            ):
                async with service(settings, grpc_server=server) as app:
                    for said, codes in table.items():
                        replies[:] = [said]
                        told = await send(app, protocol, spans(1))
                        assert told.code == codes[protocol == "grpc"]
                        assert "the next hop does not take it" in told.message
                        assert told.wait_seconds is None
                    assert len(hop.got) == len(table)
                    found = await metrics(app)
                labels = '{destination="hop",signal="traces",outcome="refused"}'
                assert found[f"offrails_forward_requests_total{labels}"] == len(table)

    with captured():
        run(main)


@pytest.mark.parametrize(("protocol", "server"), LISTENERS)
def test_a_sender_is_to_send_again_what_may_be_taken_later(
    protocol: Protocol, server: str
) -> None:
    """Whatever is retryable becomes 503 or UNAVAILABLE, 429 or RESOURCE_EXHAUSTED, with the time that the next hop asks for."""
    info = status_bytes(Refusal(ExportStatus.THROTTLED, "slower", 9))
    throttled = Status(grpc.StatusCode.RESOURCE_EXHAUSTED, "slower", info)

    async def main() -> None:
        hops: list[tuple[Any, Any, tuple[int, int], float]] = [
            (
                HttpHop(lambda _: answer("503 Busy", b"", "retry-after: 7")),
                http_hop,
                (503, 14),
                7,
            ),
            (
                HttpHop(lambda _: answer("429 Slower", b"", "retry-after: 8")),
                http_hop,
                (429, 8),
                8,
            ),
            (HttpHop(lambda _: b""), http_hop, (503, 14), 5),
            (GrpcHop(lambda _: throttled), grpc_hop, (429, 8), 9),
            (GrpcHop(lambda _: Status(grpc.StatusCode.UNAVAILABLE)), grpc_hop, (503, 14), 5),
        ]
        for made, settings, codes, wait in hops:
            async with made as hop, service(settings(hop.url), grpc_server=server) as app:
                told = await send(app, protocol, spans(1))
                assert told.code == codes[protocol == "grpc"]
                assert told.wait_seconds == wait
                assert len(hop.got) == 1
                found = await metrics(app)
                assert found['offrails_forward_retries_total{destination="hop"}'] == 1
                assert found['offrails_forward_queue_bytes{destination="hop"}'] == 0

    with captured():
        run(main)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_no_sender_waits_longer_than_the_timeout(protocol: Protocol) -> None:
    """A next hop that hangs is a retryable answer after `timeout_seconds`, over either protocol."""

    async def main() -> None:
        async with HttpHop(lambda _: None) as one, GrpcHop(lambda _: None) as two:
            for settings in (
                http_hop(one.url, timeout_seconds=1),
                grpc_hop(two.url, timeout_seconds=1),
            ):
                async with service(settings) as app:
                    told = await send(app, protocol, spans(1))
                    assert told.code == (14 if protocol == "grpc" else 503)
        assert len(one.got) == len(two.got) == 1

    with captured():
        run(main)


@pytest.mark.parametrize(("protocol", "server"), LISTENERS)
def test_partial_success_is_the_senders_too(protocol: Protocol, server: str) -> None:
    """What the next hop left out is in the sender's answer, of traces and of logs; so is a warning alone."""
    partial = PARTIAL.SerializeToString()
    warning = ExportTraceServiceResponse()
    warning.partial_success.error_message = "soon too old"

    async def main() -> None:
        async with (
            GrpcHop(lambda got: partial if got.body else warning.SerializeToString()) as hop,
            service(grpc_hop(hop.url), grpc_server=server) as app,
        ):
            told = await send(app, protocol, spans(3))
            assert ExportTraceServiceResponse.FromString(told.body) == PARTIAL
            log = b"\x0a\x00"
            told = await send(app, protocol, log, "/v1/logs")
            logs = ExportLogsServiceResponse.FromString(told.body).partial_success
            assert (logs.rejected_log_records, logs.error_message) == (3, "too old")
            told = await send(app, protocol)
            assert ExportTraceServiceResponse.FromString(told.body) == warning

    with captured():
        run(main)


def test_what_a_full_queue_refuses_is_judged_for_certain() -> None:
    """So it is where a queue has no room, and its next hop is to refuse."""

    async def main() -> None:
        hop = NextHopSettings(
            endpoint="http://127.0.0.1:9", on_full="refuse", queue_bytes=1_024
        )
        async with service(hop) as app:
            codes = []
            for number in range(6):
                now = time.time_ns()
                sent = body("water").replace(b'"1"', b'"%d"' % now)
                sent = sent.replace(b'"2"', b'"%d"' % (now + 1)).replace(
                    b'"s"', b'"s%d"' % number
                )
                sent = sent.replace(b"01" * 16, b"%032d" % (number + 1)).replace(
                    b"02" * 8, b"%016d" % (number + 1)
                )
                codes.append(await post(app, sent))
            app.step()
            assert set(codes) == {200, 503}
            found = list(app.monitor.judgements())
            assert [each["harmful"] for each in found] == [1] * 6

    with captured():
        run(main)


@pytest.mark.parametrize("status", ["503 Busy", "429 Too Many Requests"])
def test_what_a_next_hop_refuses_is_judged_for_certain(status: str) -> None:
    """A request that its sender is to send again was judged: no call is missing, and its harm is no possible one."""

    async def main() -> None:
        async with (
            HttpHop(lambda _: answer(status)) as hop,
            service(http_hop(hop.url)) as app,
        ):
            now = time.time_ns()
            sent = (
                body("water")
                .replace(b'"1"', b'"%d"' % now)
                .replace(b'"2"', b'"%d"' % (now + 1))
            )
            assert await post(app, sent) == int(status[:3])
            assert await post(app, sent) == int(status[:3])
            app.step()  # what may be missing is looked at
            (judgement,) = app.monitor.judgements()
        assert (judgement["calls"], judgement["harmful"]) == (1, 1)
        assert not any("possible" in step for step in judgement["steps"])

    with captured():
        run(main)


def test_partial_success_in_json_has_the_key_of_its_signal() -> None:
    """A sender in JSON finds the count under the name that the specification has for the signal."""
    body_of = answer("200 OK", PARTIAL.SerializeToString(), KIND)

    async def main() -> None:
        async with HttpHop(lambda _: body_of) as hop, service(http_hop(hop.url)) as app:
            address = app.addresses["http"]
            _, found = await http(address, "POST", "/v1/logs", b'{"resourceLogs":[]}')
            assert b'"rejectedLogRecords": "3"' in found
            _, found = await http(address, "POST", "/v1/traces", body("move"))
            assert b'"rejectedSpans": "3"' in found

    with captured():
        run(main)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_large_request_is_answered_by_the_next_hop(protocol: Protocol) -> None:
    """A request that is judged in slices goes on whole, and its answer is the next hop's."""
    whole = spans(6_000)

    def refuse(_: GotHttp) -> bytes:
        return answer("403 Forbidden")

    async def main() -> None:
        async with HttpHop(refuse) as hop, service(http_hop(hop.url)) as app:
            told = await send(app, protocol, whole)
            assert told.code == (7 if protocol == "grpc" else 403)
            assert [each.body for each in hop.got] == [whole]

    with captured():
        run(main)


def test_other_next_hops_get_what_was_taken() -> None:
    """A next hop with a queue gets a request once the one that answers has taken it, so its sender's repetition is no second."""
    statuses = ["503 Busy", "403 Forbidden", "200 OK"]

    async def main() -> None:
        async with (
            HttpHop(lambda _: answer(statuses.pop(0))) as sync,
            HttpHop() as queued,
            service(http_hop(sync.url), queued.url) as app,
        ):
            assert await post(app, body("move")) == 503
            assert await post(app, body("move")) == 403
            assert await post(app, body("move")) == 200
            await until(lambda: queued.got)
            (judgement,) = app.monitor.judgements()
            assert judgement["calls"] == 1
        assert len(queued.got) == 1
        assert len(sync.got) == 3

    with captured():
        run(main)


def test_the_answer_that_asks_for_a_repetition_comes_first() -> None:
    """Where one next hop refuses for good and another may take it later, the sender is to send it again."""

    async def main() -> None:
        async with (
            HttpHop(lambda _: answer("403 Forbidden")) as no,
            HttpHop(lambda _: answer("503 Busy")) as busy,
        ):
            hops = [NextHopSettings(endpoint=each.url, sync=True) for each in (no, busy)]
            async with service(*hops) as app:
                assert await post(app, body("move")) == 503

    with captured():
        run(main)


def test_what_cannot_be_converted_is_malformed() -> None:
    """A request in JSON that the official schema does not allow is the sender's fault over gRPC, and counted."""

    async def main() -> None:
        async with GrpcHop() as hop, service(grpc_hop(hop.url)) as app:
            assert await post(app, b'{"resourceLogs": 7}', "/v1/logs") == 400
            found = await metrics(app)
            assert not hop.got
        dropped = 'offrails_forward_dropped_total{destination="hop",reason="unreadable"}'
        assert found[dropped] == 1

    with captured():
        run(main)


def _reply(to: FakeHop, after: float) -> Callable[[], Any]:
    """Sends 3 * SYNC_MAX messages at once, and a few more after a while."""

    async def main() -> None:
        hop = destination(to, sync=True)
        first = [asyncio.create_task(_send(hop, number)) for number in range(3 * SYNC_MAX)]
        await asyncio.sleep(1)
        assert sum(each.done() for each in first) == 2 * SYNC_MAX
        assert {each.result().status for each in first if each.done()} == {
            ExportStatus.UNAVAILABLE
        }
        await asyncio.gather(*first)
        later = [asyncio.create_task(_send(hop, number)) for number in range(50)]
        await asyncio.sleep(1)
        assert sum(not each.done() for each in later) == 1
        await asyncio.sleep(after)
        assert (await _send(hop, 7)).status is ExportStatus.OK
        assert hop.queue.bytes == 0

    async def _send(hop: Any, number: int) -> ForwardReply:
        each = message(number)
        assert hop.queue.reserve(each.size)
        found: ForwardReply = await hop.send_now(each)
        return found

    return main


def test_few_senders_wait_for_a_next_hop_that_hangs() -> None:
    """At most `SYNC_MAX` senders wait, then one at a time, until it answers; the others are told so at once."""
    hop = FakeHop(lambda now, _: ForwardReply(ExportStatus.OK) if now > 30 else None)
    with captured():
        run_virtual(_reply(hop, 30))
    assert hop.most_at_once == SYNC_MAX
    assert len(hop.attempts) == SYNC_MAX + 2


def test_ok_is_the_plain_answer() -> None:
    """An answer of full success is the one that a sender gets without next hops."""

    async def main() -> None:
        async with HttpHop(lambda _: OK) as hop, service(http_hop(hop.url)) as app:
            status, found = await http(
                app.addresses["http"], "POST", "/v1/traces", body("move")
            )
            assert (status, found) == (200, b"{}")
            told = await send(app, "http", spans(1))
            assert told == Told(200)

    run(main)
