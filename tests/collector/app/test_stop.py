"""The end of the service: pages are sent, verdicts become final, counters are scraped, losses are logged."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from collector.app.service import App
from collector.config.settings import Alerts, Webhook
from collector.telemetry.logs import captured
from monitor.spec.compiler.compile import compile_text
from tests.collector.app.test_service import Clock, body, http, settings

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
        alerts = Alerts(
            webhook=Webhook(url=await hook.start()),
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
            sent = body("log").replace(b'"s"', json.dumps(name).encode())
            sent = sent.replace(b"01" * 16, f"{ord(name):02x}".encode() * 16)
            sent = sent.replace(b"02" * 8, f"{ord(name):02x}".encode() * 8)
            await http(app.addresses["http"], "POST", "/v1/traces", sent)
        with captured() as events:
            await app.stop()
        return [each for each in events if each["event"] == "pages_undelivered"]

    [line] = with_app(use, alerts={"pages_per_minute": 2, "group_by": "session"})
    assert line["pages"] == len(line["sessions"]) > 0
