"""The end of the service: pages are sent, verdicts become final, counters are scraped, losses are logged."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from collector.app.deadline import TimeBudget
from collector.app.service import App
from collector.config.settings.alerts import AlertSettings, WebhookSettings
from collector.config.settings.state import StateSettings
from collector.telemetry.logs import captured
from monitor.spec.compiler.compile import compile_text
from tests.collector.app.test_service import Clock, body, http, settings
from tests.collector.event_loop import until

PAGING = """
id: paging
mode: page
match: {service.name: farm-rover}
alphabet: {move: {tool: move}, log: {tool: log}}
golden: [[move, log]]
"""
FINAL = b'offrails_harmful_calls_total{agent="farm-rover",spec="paging"'
T = TypeVar("T")


class Hook:
    """A receiver of webhooks."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/"

    def close(self) -> None:
        self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].split()[0])
        self.taken.append(json.loads(await reader.readexactly(length)))
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()


def with_app(use: Callable[[App, Hook], Awaitable[T]], **changes: Any) -> T:
    """Runs `use` on a service with one harmful call that is still provisional."""

    async def run() -> T:
        hook = Hook()
        alerts = AlertSettings(
            webhook=WebhookSettings(url=await hook.start()),
            settle_seconds=60.0,
            **changes.pop("alerts", {}),
        )
        spec, findings = compile_text(PAGING, "paging.yaml")
        assert spec is not None, findings
        app = App(settings(alerts=alerts, **changes), [spec], Clock())
        await app.start()
        sent = body("log")
        assert (await http(app.addresses["http"], "POST", "/v1/traces", sent))[0] == 200
        try:
            return await use(app, hook)
        finally:
            hook.close()

    return asyncio.run(run())


def test_a_settling_page_is_delivered_before_the_end() -> None:
    """A page that would have waited for a minute is delivered before the process ends."""

    async def use(app: App, hook: Hook) -> tuple[int, int]:
        before = len(hook.taken)
        await app.stop()
        return before, len(hook.taken)

    assert with_app(use) == (0, 1)


def test_final_counters_are_scraped() -> None:
    """`/-/ready` says no, and one more scrape finds final verdicts; then the process ends by itself."""

    async def use(app: App, _hook: Hook) -> tuple[bytes, tuple[int, bytes], bytes]:
        place = app.addresses["metrics"]
        _, before = await http(place, "GET", "/metrics")
        stopping = asyncio.create_task(app.stop())
        await asyncio.sleep(0)  # one turn of the loop, in which it begins
        ready = await http(place, "GET", "/-/ready")
        scrapes = [before]
        with contextlib.suppress(OSError, IndexError):  # it ends after the last scrape
            while not stopping.done():
                scrapes.append((await http(place, "GET", "/metrics"))[1])
        await stopping
        return before, ready, max(scrapes, key=_value)

    before, ready, after = with_app(use, last_scrape_seconds=600.0)
    assert ready == (503, b"not ready: stopping\n")
    assert _value(before) == 0
    assert _value(after) == 1


def other(name: str) -> bytes:
    """The harmful call, in a session and a trace of its own."""
    sent = body("log").replace(b'"s"', json.dumps(name).encode())
    sent = sent.replace(b"01" * 16, f"{ord(name):02x}".encode() * 16)
    return sent.replace(b"02" * 8, f"{ord(name):02x}".encode() * 8)


def test_spans_are_taken_while_the_last_scrape_is_awaited() -> None:
    """A sender is answered as ever until the last scrape has come, and this scrape has its calls as final ones."""

    async def use(app: App, _hook: Hook) -> tuple[int, float, list[str]]:
        places = dict(app.addresses)
        await http(places["metrics"], "GET", "/metrics")
        with captured() as events:
            stopping = asyncio.create_task(app.stop())
            await asyncio.sleep(0)  # one turn of the loop, in which it begins
            status, _ = await http(places["http"], "POST", "/v1/traces", other("t"))
            _, last = await http(places["metrics"], "GET", "/metrics")
            await stopping
        with pytest.raises(ConnectionRefusedError):
            await http(places["http"], "POST", "/v1/traces", other("u"))
        return status, _value(last), [each["event"] for each in events]

    status, counted, events = with_app(use, last_scrape_seconds=600.0)
    assert (status, counted) == (200, 2)
    assert "counters_not_scraped" not in events


def test_calls_behind_the_last_scrape_are_told() -> None:
    """A call that comes when the last scrape has been rendered is in the next one, or in the log by its number."""

    async def use(app: App, _hook: Hook) -> list[int]:
        assert app.last_scrape is not None
        scraped = app.last_scrape.app
        await http(app.addresses["metrics"], "GET", "/metrics")
        with captured() as events:
            stopping = asyncio.create_task(app.stop())
            await asyncio.sleep(0)
            # It is taken, and stands for one that came while the scrape was on its way.
            await http(app.addresses["http"], "POST", "/v1/traces", other("t"))
            scraped.counted, scraped.count = 0, lambda: 1
            await http(app.addresses["metrics"], "GET", "/metrics")
            await stopping
        return [each["calls"] for each in events if each["event"] == "counters_not_scraped"]

    assert with_app(use, last_scrape_seconds=600.0, drain_seconds=0.1) == [1]


def test_with_a_journal_no_scrape_is_awaited(tmp_path: Path) -> None:
    """The counters go on in the next process: the stop does not wait for anybody to read them."""

    async def use(app: App, _hook: Hook) -> list[str]:
        await http(app.addresses["metrics"], "GET", "/metrics")
        with captured() as events:
            await app.stop()
        return [each["event"] for each in events]

    state = StateSettings(dir=tmp_path / "state")
    assert "counters_not_scraped" not in with_app(use, last_scrape_seconds=600.0, state=state)


def test_what_comes_beside_the_last_snapshot_is_taken(tmp_path: Path) -> None:
    """While the last snapshot is written a sender is answered, and the next process knows its session."""
    state = StateSettings(dir=tmp_path / "state")

    async def use(app: App, _hook: Hook) -> int:
        assert app.state is not None
        place = app.addresses["http"]
        snapshots = app.state.snapshots
        stopping = asyncio.create_task(app.stop())
        await until(lambda: snapshots.child)
        status, _ = await http(place, "POST", "/v1/traces", other("t"))
        await stopping
        return status

    async def again(app: App, _hook: Hook) -> set[str]:
        known = {key.id for key in app.monitor.kept.known_keys()}
        await app.stop()
        return known

    assert with_app(use, state=state) == 200
    assert with_app(again, state=state) == {"s", "t"}


def test_steps_of_a_stop_share_its_time() -> None:
    """A step gets what it wants, or its part of what is left, and nothing once the time is over."""
    deadline = TimeBudget(100.0)
    assert deadline.share(1.0, 0.5) == 1.0
    assert 49.0 < deadline.share(80.0, 0.5) <= 50.0
    assert TimeBudget(-1.0).share(1.0, 0.5) == 0.0


def test_a_reload_does_not_hide_that_the_service_stops(tmp_path: Path) -> None:
    """Specs may be read anew while the last scrape is awaited; the reason stays."""
    (tmp_path / "paging.yaml").write_text(PAGING)

    async def use(app: App, _hook: Hook) -> tuple[int, bytes]:
        place = app.addresses["metrics"]
        await http(place, "GET", "/metrics")
        stopping = asyncio.create_task(app.stop())
        await asyncio.sleep(0)  # one turn of the loop, in which it begins
        assert (await app.reloader.reload("signal")).success
        ready = await http(place, "GET", "/-/ready")
        with contextlib.suppress(OSError, IndexError):  # it ends after the last scrape
            while not stopping.done():
                await http(place, "GET", "/metrics")
        await stopping
        return ready

    answer = with_app(use, last_scrape_seconds=600.0, specs=(tmp_path,))
    assert answer == (503, b"not ready: stopping\n")


def _value(page: bytes) -> float:
    lines = (line for line in page.splitlines() if line.startswith(FINAL))
    return sum(float(line.rpartition(b" ")[2]) for line in lines)


def test_a_service_that_was_never_scraped_ends_at_once() -> None:
    """A service that was never scraped ends without waiting for a scrape."""

    async def use(app: App, _hook: Hook) -> bool:
        await app.stop()
        return True

    assert with_app(use, last_scrape_seconds=600.0)


def test_counters_that_nobody_scraped_are_logged() -> None:
    """If the scraper does not come back, one log line says so."""

    async def use(app: App, _hook: Hook) -> list[str]:
        await http(app.addresses["metrics"], "GET", "/metrics")
        with captured() as events:
            await app.stop()
        return [each["event"] for each in events]

    assert "counters_not_scraped" in with_app(use, last_scrape_seconds=0.01)


def test_pages_without_room_are_logged() -> None:
    """A second page has no room in its minute: the log names its session when the process ends."""

    async def use(app: App, _hook: Hook) -> list[dict[str, Any]]:
        for name in ("t", "u", "v", "w"):
            await http(app.addresses["http"], "POST", "/v1/traces", other(name))
        with captured() as events:
            await app.stop()
        return [each for each in events if each["event"] == "pages_undelivered"]

    [line] = with_app(use, alerts={"pages_per_minute": 2, "group_by": "session"})
    assert line["pages"] == len(line["sessions"]) > 0
