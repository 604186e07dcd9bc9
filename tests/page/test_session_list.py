"""The list of the session view: pages, search, and a state that its address holds."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator

import pytest

from tests.bench.page import fill
from tests.end_to_end.service import Service
from tests.page.browser import Page

PAGE_SIZE = 50
SESSIONS = 200
HARMED = 29
"""Each seventh of them."""


@pytest.fixture(scope="module")
def many() -> Iterator[Service]:
    """A service with more sessions than one page shows, each under two specs."""
    service = Service(variables={"OFFRAILS_HISTORY": "complete"}).wait_ready()
    try:
        fill(service, SESSIONS)
        yield service
    finally:
        service.kill()


def url(service: Service, rest: str = "") -> str:
    return f"http://{service.addresses['admin']}/{rest}"


def listed(page: Page) -> list[str]:
    found: list[str] = page.run(
        "[...document.querySelectorAll('#sessions .name')].map((each) => each.textContent)"
    )
    return found


def turn(page: Page) -> None:
    """Goes to the next page. A button that moves while a pointer is down on it gets no click, so none is used."""
    page.run("document.getElementById('next').click()")


def address(page: Page) -> str:
    found: str = page.run("location.search + location.hash")
    return found


def test_pages_are_of_sessions(many: Service, page: Page) -> None:
    """A page holds fifty whole sessions; the next ones follow, and the address says which page it is."""
    page.open(url(many, "?sort=recent"))
    page.until(lambda: page.text("#range") == "1\u201350 of 200 sessions")
    first = listed(page)
    assert len(first) == PAGE_SIZE
    assert page.run("document.querySelectorAll('#sessions .chip').length") == 2 * PAGE_SIZE
    for shown in ("51\u2013100", "101\u2013150", "151\u2013200"):
        turn(page)
        page.until(lambda: page.text("#range") == f"{shown} of 200 sessions")  # noqa: B023
    assert address(page) == "?sort=recent&page=4"
    assert page.run("document.getElementById('next').disabled")
    last = listed(page)
    assert not set(first) & set(last)
    page.open(url(many, "?sort=recent&page=4"))
    page.until(lambda: listed(page) == last)
    page.open(url(many, "?sort=recent&page=9"))
    page.until(lambda: listed(page) == last)
    assert page.problems == []


def test_short_pages_are_followed(many: Service, page: Page) -> None:
    """A service that looks at few sessions at a time gives short pages, each with a `next`: the list has whole ones, skips none, and stays whole when it is asked for again."""
    page.open(url(many, "?sort=recent"))
    page.until(lambda: len(listed(page)) == PAGE_SIZE)
    page.run("window.asked = []")
    page.run(
        "{ const plain = window.fetch; window.fetch = (path, options) => {"
        " if (path.includes('sessions?')) window.asked.push(path);"
        " return plain(path.replace(/limit=([0-9]+)/, (_, n) => `limit=${Math.min(n, 7)}`), options); }; }"
    )
    page.choose("#sort", "harm_rate")
    for number in (1, 2):
        with urllib.request.urlopen(
            url(many, f"api/v1/sessions?steps=0&sort=harm_rate&limit={number * PAGE_SIZE}")
        ) as answer:
            rows = json.load(answer)["sessions"]
        names = [*dict.fromkeys(row["session"] for row in rows)]
        page.until(lambda: listed(page) == names[-PAGE_SIZE:])  # noqa: B023
        assert page.text("#range") == f"{number * 50 - 49}\u2013{number * 50} of 200 sessions"
        if number == 1:
            turn(page)
    page.run(
        "window.least = Infinity; const list = document.getElementById('sessions');"
        " new MutationObserver(() => { window.least = Math.min(window.least, list.children.length); })"
        ".observe(list, { childList: true }); rowsShown.clear(); refreshNow()"
    )
    page.until(lambda: page.run("Number.isFinite(window.least)"))
    assert page.run("window.least") == PAGE_SIZE
    assert not any("offset=" in each for each in page.run("window.asked"))
    assert page.problems == []


def test_filters_are_in_the_address(many: Service, page: Page) -> None:
    """Filters narrow the list and are in the address, which leads back to the same list."""
    page.open(url(many))
    page.until(lambda: page.text("#range"))
    page.click("#more summary")
    page.until(lambda: page.run("document.getElementById('spec').options.length") > 1)
    page.choose("#severity", "critical")
    page.choose("#reason", "out_of_order")
    page.choose("#spec", "farm_rover")
    page.choose("#tool", "water")
    page.until(lambda: page.text("#range") == f"{HARMED} sessions")
    assert page.text("#used") == "4 in use"
    found = address(page)
    assert found == "?reason=out_of_order&severity=critical&spec=farm_rover&tool=water"
    page.open(url(many, found))
    page.until(lambda: page.text("#range") == f"{HARMED} sessions")
    assert page.run("document.getElementById('reason').value") == "out_of_order"
    page.run("document.getElementById('more').open = true")
    page.choose("#tool", "fly")
    page.until(lambda: page.text("#none") == "No session matches.")
    page.click("#reset")
    page.until(lambda: page.text("#range") == "1\u201350 of 200 sessions")
    assert address(page) == ""
    assert page.problems == []


def test_mode_and_agent_are_filters(many: Service, page: Page) -> None:
    """Specs that only watch and those that page are apart, and each agent is."""
    page.open(url(many))
    page.until(lambda: page.text("#range"))
    page.click("#more summary")
    page.until(lambda: page.run("document.getElementById('agent').options.length") > 1)
    page.choose("#mode", "shadow")
    page.until(lambda: page.text("#range") == "1\u201350 of 200 sessions")
    page.choose("#mode", "page")
    page.until(lambda: page.text("#none") == "No session matches.")
    assert address(page) == "?mode=page"
    page.click("#reset")
    agent = "farm-rover"  # the service's: its calls name no agent
    page.choose("#agent", agent)
    page.until(lambda: page.text("#range") == "1\u201350 of 200 sessions")
    page.open(url(many, f"?agent={agent}x"))
    page.until(lambda: page.text("#none") == "No session matches.")
    assert page.problems == []


def test_time_is_a_filter(many: Service, page: Page) -> None:
    """The last minutes, and from one time to another, by the calls' own clock."""
    page.open(url(many, "?age=900"))  # the calls are from a quarter of an hour ago, and older
    page.until(lambda: page.text("#none") == "No session matches.")
    page.open(url(many, "?age=3600"))
    page.until(lambda: page.text("#range") == "1\u201350 of 200 sessions")
    page.open(url(many, "?to=2020-01-01T00:00"))
    page.until(lambda: page.text("#none") == "No session matches.")
    page.open(url(many, "?from=2020-01-01T00:00"))
    page.until(lambda: page.text("#range") == "1\u201350 of 200 sessions")
    assert page.problems == []


def test_the_search_finds_tools_and_reasons(many: Service, page: Page) -> None:
    """The one field in sight finds reasons and tools, and a row says why its latest call was harmful."""
    page.open(url(many, "?q=out%20of%20order"))
    page.until(lambda: page.text("#range") == f"{HARMED} sessions")
    page.until(lambda: page.text("#sessions .because").endswith("critical"))
    page.open(url(many, "?q=open_valve"))
    page.until(lambda: page.text("#range") == f"1\u201350 of {SESSIONS - HARMED} sessions")
    assert page.problems == []


def test_letters_that_are_typed_share_a_question(many: Service, page: Page) -> None:
    """Who types fast asks at most once meanwhile, and gets the list of what stands there in the end."""
    page.open(url(many))
    page.until(lambda: page.text("#range"))
    asked = page.run(TYPE)
    assert asked <= 1
    page.until(lambda: page.text("#range") == f"{HARMED} sessions")
    assert page.problems == []


TYPE = """
(() => {
  const real = fetch;
  let asked = 0;
  self.fetch = (...what) => { asked += 1; return real(...what); };
  for (const letter of 'out of order') {
    document.getElementById('text').value += letter;
    document.getElementById('text').dispatchEvent(new Event('input'));
  }
  self.fetch = real;
  return asked;
})()
"""
"""Types into the field in sight, and counts the questions."""


def test_judgement_is_in_the_address(many: Service, page: Page) -> None:
    """The tab that is shown is kept in the address, beside the filters."""
    page.open(url(many, "?only=harmful#//session-00007"))
    page.until(lambda: page.run("document.querySelectorAll('[role=tab]').length") == 2)
    page.click("#tab-1")
    page.until(lambda: page.text("main .card h3 small") and "under=" in address(page))
    title = page.text("[role=tab][aria-selected=true]")
    found = address(page)
    assert found.startswith("?only=harmful#//session-00007?under=")
    page.open("about:blank")
    page.open(url(many, found))
    page.until(lambda: page.text("[role=tab][aria-selected=true]") == title)
    page.until(lambda: page.text("#range") == f"{HARMED} sessions")
    assert page.problems == []
