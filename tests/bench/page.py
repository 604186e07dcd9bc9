"""The session view with 10,000 live sessions: how soon a cold browser paints, how long an update takes, and what
ingest feels.

    python -m tests.bench.page

Cold is a browser that has just been started, with an empty profile. The same browser's first paint
of a few bytes of JSON is given beside it: what no page can be below on this machine, as busy as
it is.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import NamedTuple

from tests.end_to_end.service import Service, eventually
from tests.end_to_end.traffic import GOLDEN, Rover, send
from tests.page.browser import MISSING, Browser, Page

__all__ = [
    "PAINT_MS_MAX",
    "UPDATE_MS_MAX",
    "Paint",
    "cold",
    "fill",
    "floor",
    "serve",
    "updates",
]

SESSIONS = 10_000
PAINT_MS_MAX = 200.0
"""To the first paint, on loopback."""
UPDATE_MS_MAX = 50.0
"""From an answer of the service to its picture: the list, or one session."""

_BAD = ("unlock_safety", "water", "move", "move", "scan")
_LUMP = 100
_WATCH = """
new MutationObserver(() => {
  if (self.listed || !document.querySelector('#sessions li')) return;
  self.listed = -1;
  requestAnimationFrame(() => setTimeout(() => { self.listed = performance.now(); }));
}).observe(document, { childList: true, subtree: true });
"""


_TIME = """
self.took = { showList: [], showSession: [] };
for (const name of Object.keys(took)) {
  const real = self[name];
  self[name] = (...given) => {
    const began = performance.now();
    real(...given);
    requestAnimationFrame(() => setTimeout(() => took[name].push(performance.now() - began)));
  };
}
"""
"""Times what draws an answer, to the end of its frame."""


class Paint(NamedTuple):
    """Milliseconds from the navigation."""

    first: float
    listed: float
    """Until the list of sessions is painted."""


def serve() -> Service:
    """A service on free ports with `history: complete`."""
    return Service(variables={"OFFRAILS_HISTORY": "complete"}).wait_ready()


def fill(service: Service, sessions: int = SESSIONS) -> None:
    """Live sessions, one in seven of them with harm, each judged under two specs."""
    began = time.time_ns() - 10**12
    for first in range(0, sessions, _LUMP):
        spans = []
        for number in range(first, first + _LUMP):
            rover = Rover(f"session-{number:05d}", number, start_ns=began)
            spans += rover.calls(*(_BAD if number % 7 == 0 else GOLDEN)).spans
        send(service, spans, "http_proto")
    eventually(
        lambda: service.get("/api/v1/sessions?steps=0&limit=1").json()["live"] >= sessions
    )


def _in_new_browser(service: Service, path: str, probe: Callable[[Page], Paint]) -> Paint:
    browser = Browser()
    try:
        page = browser.page()
        page.window(1280, 900)
        page.ask("Page.addScriptToEvaluateOnNewDocument", source=_WATCH)
        page.open(f"http://{service.addresses['admin']}{path}")
        page.until(lambda: page.run("performance.getEntriesByType('paint').length"))
        return probe(page)
    finally:
        browser.close()


def _first(page: Page) -> float:
    found: float = page.run("performance.getEntriesByType('paint')[0].startTime")
    return found


def cold(service: Service) -> Paint:
    """The page in a browser that has just been started."""

    def probe(page: Page) -> Paint:
        listed: float = page.until(lambda: page.run("self.listed > 0 && self.listed"))
        return Paint(_first(page), listed)

    return _in_new_browser(service, "/", probe)


def floor(service: Service) -> float:
    """The first paint of a few bytes of JSON, in milliseconds."""
    return _in_new_browser(service, "/api/v1/about", lambda page: Paint(_first(page), 0)).first


def updates(
    service: Service, session: str = "updated", count: int = 12
) -> dict[str, list[float]]:
    """Milliseconds that each update of the list and of an open session took, as its calls came."""
    rover = Rover(session, 4 * SESSIONS).calls(*GOLDEN[:1])
    send(service, rover.spans, "http_proto")
    eventually(lambda: service.judgements(session))
    browser = Browser()
    try:
        page = browser.page()
        page.window(1400, 900)
        page.open(f"http://{service.addresses['admin']}/?sort=recent#//{session}")
        page.until(lambda: page.text("main h2") == session and page.text("#range"))
        page.run(_TIME)
        for number in range(count):
            sent = len(rover.spans)
            rover.calls(_BAD[number % len(_BAD)])
            send(service, rover.spans[sent:], "http_proto")
            page.until(partial(_drawn, page, number + 1))
        found: dict[str, list[float]] = page.run("took")
        return {name: sorted(took) for name, took in found.items()}
    finally:
        browser.close()


def _drawn(page: Page, count: int) -> bool:
    """True when both have been drawn again so often."""
    return bool(page.run(f"Object.values(took).every((each) => each.length >= {count})"))


def _ingest(service: Service, first: int) -> list[float]:
    """Milliseconds of each of some requests of ten calls."""
    took = []
    for number in range(first, first + 200):
        spans = Rover(f"more-{number}", number).calls(*GOLDEN, *GOLDEN[:4]).spans
        began = time.perf_counter()
        send(service, spans, "http_proto")
        took.append((time.perf_counter() - began) * 1e3)
    return sorted(took)


def _told(name: str, took: list[float]) -> None:
    print(f"{name}: p50 {median(took):.2f} ms, p99 {took[int(len(took) * 0.99)]:.2f} ms")


def main() -> None:
    """Measures, prints."""
    if MISSING:
        print(MISSING)
        return
    os.environ["no_proxy"] = "127.0.0.1"
    service = serve()
    try:
        fill(service)
        paints, floors = [], []
        for _ in range(7):
            floors.append(floor(service))
            paints.append(cold(service))
        for name, each in (
            ("a few bytes of JSON, first paint", floors),
            ("the page, first paint", [paint.first for paint in paints]),
            ("the page, list painted", [paint.listed for paint in paints]),
        ):
            print(f"{name}: best {min(each):.0f} ms, median {median(each):.0f} ms")
        for name, took in updates(service).items():
            _told(f"an update, {name}", took)
        _told("a request of ten calls, nobody looks", _ingest(service, 2 * SESSIONS))
        browser = Browser()
        try:
            for _ in range(3):
                browser.page().open(f"http://{service.addresses['admin']}/")
            _told("the same, three pages open", _ingest(service, 3 * SESSIONS))
        finally:
            browser.close()
    finally:
        service.kill()


if __name__ == "__main__":
    main()
