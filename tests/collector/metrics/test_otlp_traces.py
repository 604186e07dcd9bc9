"""The service's own spans at an OTLP/HTTP receiver: a small one of the tests, another offrails, and itself."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from pydantic import ValidationError

from collector.app.service import App
from collector.config.settings.alerts import AlertSettings
from collector.config.settings.decide import DecideSettings
from collector.config.settings.receiver import ReceiverSettings
from collector.config.settings.settings import Settings
from collector.config.settings.telemetry import TelemetrySettings
from collector.decode.protobuf.slices import LARGE_BYTES
from collector.telemetry.clock import now_ns
from collector.telemetry.logs import captured
from collector.telemetry.tracing import OWN
from monitor.spec.read import load_specs
from tests.collector.event_loop import run, until
from tests.collector.sinks.test_delivery import OK, Receiver
from tests.end_to_end.loopback import free_port
from tests.end_to_end.service import SPECS
from tests.end_to_end.traffic import GOLDEN, Rover, as_json

FREE = "127.0.0.1:0"
REFUSED = b"HTTP/1.1 400 No\r\ncontent-length: 0\r\n\r\n"
MOVE = as_json(Rover("s", 1).calls("move").spans)
SENT = {"content-type": "application/json"}


@pytest.fixture(autouse=True)
def setting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Spans are sent soon; a test ends with the threads that send."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    yield
    for thread in threading.enumerate():
        if thread.name.startswith(("otlp", "OtelBatch")):
            thread.join(20)
            assert not thread.is_alive(), thread.name


def settings(telemetry: TelemetrySettings, http: str = FREE, **more: Any) -> Settings:
    receiver = ReceiverSettings(grpc="off", http=http)
    off = DecideSettings(listen="off")
    return Settings(
        receiver=receiver,
        metrics=FREE,
        admin="off",
        decide=off,
        telemetry=telemetry,
        **more,
    )


def traces(url: str, ratio: float = 1, per_second: float = 1000) -> TelemetrySettings:
    return TelemetrySettings(
        otlp_endpoint=url, traces=True, traces_ratio=ratio, traces_per_second=per_second
    )


async def post(app: App, body: bytes) -> int:
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        url = f"http://{app.addresses['http']}/v1/traces"
        return (await client.post(url, content=body, headers=SENT)).status_code


async def scrape(app: App) -> str:
    async with httpx.AsyncClient(trust_env=False, verify=False) as client:
        return (await client.get(f"http://{app.addresses['metrics']}/metrics")).text


def calls(app: App) -> dict[str, int]:
    """Tool calls that were found, by evidence."""
    return {key[1]: n for key, n in app.stats.counts.items() if key[0] == "calls"}


def spans_at(receiver: Receiver) -> list[tuple[dict[str, Any], Span]]:
    """Each span that came, with its resource's attributes."""
    return [
        (_attributes(group.resource), span)
        for line, _, body in receiver.requests
        if line.startswith("POST /v1/traces")
        for group in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def _attributes(holder: Any) -> dict[str, Any]:
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value"))
        for each in holder.attributes
    }


def results(app: App) -> dict[str, int]:
    assert app.traces is not None
    return app.traces.tracer.results


def test_all_work_has_spans(tmp_path: Path) -> None:
    """Requests, deliveries, scrapes and reloads have spans with their outcome."""
    rover = tmp_path / "rover.yaml"
    rover.write_text((SPECS / "farm_rover.yaml").read_text())
    good = as_json(Rover("s", 1).calls("fly", *GOLDEN).spans)

    async def main() -> None:
        async with Receiver() as receiver:
            alerts = AlertSettings(jsonl=tmp_path / "alerts.jsonl")
            made = settings(traces(receiver.url), specs=(rover,), alerts=alerts)
            app = App(made, load_specs((rover,)).specs)
            await app.start()
            assert await post(app, good) == 200
            assert await post(app, b"{") == 400
            await scrape(app)
            assert (await app.reloader.reload("request")).success
            rover.write_text("id: [")
            with captured():
                assert not (await app.reloader.reload("change")).success
            await app.stop()
            found = spans_at(receiver)
            assert results(app) == {"ok": len(found), "failed": 0, "dropped": 0}
        resource = found[0][0]
        assert (resource["service.name"], resource[OWN]) == ("offrails", True)
        named: dict[str, list[tuple[dict[str, Any], Span]]] = {}
        for _, span in sorted(found, key=lambda each: each[1].start_time_unix_nano):
            named.setdefault(span.name, []).append((_attributes(span), span))
            assert span.end_time_unix_nano >= span.start_time_unix_nano
            assert not span.parent_span_id
        (taken, _), (refused, failed) = named["offrails.request"]
        assert taken == {
            "offrails.transport": "http_json",
            "offrails.bytes": len(good),
            "offrails.spans": len(GOLDEN) + 1,
            "offrails.rejected": 0,
            "offrails.status": "OK",
        }
        assert refused["offrails.status"] == "MALFORMED"
        assert (failed.status.code, failed.kind) == (
            Status.STATUS_CODE_ERROR,
            Span.SPAN_KIND_SERVER,
        )
        ((delivery, _), *_) = named["offrails.delivery"]
        assert delivery == {"offrails.sink": "jsonl", "offrails.messages": 1}
        ((scraped, _),) = named["offrails.scrape"]
        assert scraped["offrails.bytes"] > 1000
        (reloaded, _), (kept, not_reloaded) = named["offrails.reload"]
        assert (reloaded["offrails.trigger"], reloaded["offrails.specs"]) == ("request", 1)
        assert (kept["offrails.trigger"], not_reloaded.status.message) == ("change", "refused")

    run(main)


def test_a_flood_has_few_spans() -> None:
    """A hundred requests in a second give two spans. The others are counted, and none waits."""

    async def main() -> None:
        async with Receiver() as receiver:
            app = App(settings(traces(receiver.url, per_second=2)), [])
            now = [now_ns()]
            assert app.traces is not None
            app.traces.tracer.clock = lambda: now[0]
            await app.start()
            for _ in range(100):
                assert await post(app, MOVE) == 200
            await app.stop()
            assert len(spans_at(receiver)) == 2
            assert results(app) == {"ok": 2, "failed": 0, "dropped": 98}

    run(main)


def test_pointed_at_itself_it_makes_no_span_of_its_spans() -> None:
    """A service that exports to itself makes no spans of its own exports, and judges none."""

    async def main() -> None:
        address = f"127.0.0.1:{free_port()}"
        made = settings(traces(f"http://{address}"), http=address, drain_seconds=0.1)
        app = App(made, [])
        await app.start()
        assert await post(app, MOVE) == 200
        await until(lambda: results(app)["ok"] == 1)
        for n in range(3):
            await scrape(app)
            await until(lambda wanted=n + 2: results(app)["ok"] >= wanted)  # type: ignore[misc]
        # A request after those that brought own spans: were there spans of them, they came before its own.
        assert await post(app, MOVE) == 200
        await until(lambda: results(app)["ok"] >= 5)
        assert results(app) == {"ok": 5, "failed": 0, "dropped": 0}
        assert app.stats.requests["http_proto", "traces", "200"] >= 4
        assert sum(calls(app).values()) == 1  # sent twice, judged once
        await app.stop()

    run(main)


def test_a_call_that_is_marked_as_own_is_judged() -> None:
    """Who sends it can set any attribute of the resource: that hides no call."""

    async def main() -> None:
        async with Receiver() as receiver:
            app = App(settings(traces(receiver.url)), [])
            await app.start()
            spans = Rover("s", 1).calls("move").spans
            assert await post(app, as_json(spans, resource={OWN: "true"})) == 200
            await app.stop()
            assert calls(app) == {"executed": 1}
            assert spans_at(receiver) == []

    run(main)


def test_a_large_request_has_one_span() -> None:
    """It is taken in slices, and its span says how many spans it had; one that is refused, why."""
    spans = Rover("s", 1).calls(*["move"] * 1500).spans
    body = as_json(spans)
    assert len(body) > LARGE_BYTES

    async def main() -> None:
        async with Receiver() as receiver:
            app = App(settings(traces(receiver.url)), [])
            await app.start()
            assert await post(app, body) == 200
            assert await post(app, body[:-1]) == 400
            await app.stop()
            found = [_attributes(span) for _, span in spans_at(receiver)]
        taken, refused = sorted(found, key=lambda each: -each["offrails.bytes"])
        assert (taken["offrails.spans"], taken["offrails.status"]) == (1500, "OK")
        assert refused["offrails.status"] == "MALFORMED"

    run(main)


@pytest.mark.parametrize("traces_too", [True, False])
def test_spans_of_an_offrails_are_not_judged_by_another(traces_too: bool) -> None:
    """Another service finds no call and no agent in them, with or without traces of its own."""

    async def main() -> None:
        async with Receiver() as receiver:
            telemetry = traces(receiver.url) if traces_too else TelemetrySettings()
            other = App(settings(telemetry), [])
            addresses = await other.start()
            app = App(settings(traces(f"http://{addresses['http']}")), [])
            await app.start()
            assert await post(app, MOVE) == 200
            await scrape(app)
            await until(lambda: results(app)["ok"] == 2)
            await app.stop()
            assert other.stats.spans["http_proto", "accepted"] == 2
            assert (calls(app), calls(other)) == ({"executed": 1}, {})
            assert other.pipeline.inventory.new == []
            found = {key[1]: n for key, n in other.stats.counts.items() if key[0] == "coverage"}
            assert found == {"no_dialect": 2}
            if traces_too:
                assert results(other) == {"ok": 0, "failed": 0, "dropped": 0}
            await other.stop()
            assert spans_at(receiver) == []

    run(main)


def test_a_receiver_that_fails_is_logged_once() -> None:
    """Refused spans are counted, the log has one line, and one when they arrive again."""

    async def main() -> None:
        async with Receiver(REFUSED) as receiver:
            with captured() as told:
                app = App(settings(traces(receiver.url)), [])
                await app.start()
                for n in range(2):
                    await scrape(app)
                    await until(lambda wanted=n + 1: results(app)["failed"] == wanted)  # type: ignore[misc]
                receiver.answer = OK
                await scrape(app)
                await until(lambda: results(app)["ok"] == 1)
                assert 'offrails_telemetry_spans_total{result="failed"} 2' in await scrape(app)
                await app.stop()
        events = [each["event"] for each in told if "telemetry" in each["event"]]
        assert events == ["telemetry_traces_failed", "telemetry_traces_recovered"]

    run(main)


def test_a_receiver_that_hangs_ends_nothing() -> None:
    """The service stops within its time, and spans are judged meanwhile."""

    async def main() -> None:
        async with Receiver(None) as receiver:
            app = App(settings(traces(receiver.url), drain_seconds=0.1), [])
            await app.start()
            assert await post(app, MOVE) == 200
            await until(lambda: bool(receiver.requests))
            async with asyncio.timeout(5):
                assert await post(app, as_json(Rover("t", 2).calls("move").spans)) == 200
                await app.stop()

    run(main)


def test_without_an_endpoint_traces_are_refused() -> None:
    """Traces without an endpoint are an error at the start."""
    with pytest.raises(ValidationError, match="traces needs otlp_endpoint"):
        TelemetrySettings(traces=True)


def test_off_there_is_no_tracer() -> None:
    """If only metrics are on, no spans are made."""
    app = App(settings(TelemetrySettings(otlp_endpoint="http://127.0.0.1:1")), [])
    assert app.traces is None


def test_without_the_exporter_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """If traces are on and the extra is missing, the error names the extra."""
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    with pytest.raises(OSError, match=r"offrails\[otlp\]"):
        App(settings(traces("http://127.0.0.1:1")), [])
