"""How soon the page is there: with what it waits for, and with 10,000 sessions behind it."""

from __future__ import annotations

import pytest

from tests.bench.page import (
    PAINT_MS_MAX,
    UPDATE_MS_MAX,
    cold,
    fill,
    floor,
    serve,
    updates,
)
from tests.end_to_end.service import Service
from tests.page.browser import MISSING, Page


def test_first_paint_waits_for_the_page_alone(monitor: Service, page: Page) -> None:
    """Nothing that is fetched blocks painting, and the list is asked for once, before the script."""
    page.open(f"http://{monitor.addresses['admin']}/")
    page.until(lambda: page.text("#count"))
    found = page.run(
        "performance.getEntriesByType('resource').map((each) =>"
        " [new URL(each.name).pathname, each.renderBlockingStatus, each.initiatorType])"
    )
    lists = [kind for path, _, kind in found if path == "/api/v1/sessions"]
    assert [path for path, blocking, _ in found if blocking == "blocking"] == []
    assert lists[0] == "link"
    assert page.problems == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_cold_browser_paints_soon() -> None:
    """With 10,000 live sessions, a browser just started paints in 200 ms, and an update is drawn in 50 ms.

    At their best of several: the best, because other work on the machine only ever adds; where a few bytes of JSON take
    half of that, the machine is too busy to tell.
    """
    if MISSING:
        pytest.skip(MISSING)
    service = serve()
    try:
        fill(service)
        least = min(floor(service) for _ in range(3))
        best = min(cold(service).first for _ in range(7))
        drawn = {name: took[0] for name, took in updates(service).items()}
    finally:
        service.kill()
    if least > PAINT_MS_MAX / 2 and best >= PAINT_MS_MAX:
        pytest.skip(f"the machine is too busy: {least:.0f} ms for a few bytes, {best:.0f} ms")
    assert best < PAINT_MS_MAX
    assert max(drawn.values()) < UPDATE_MS_MAX
