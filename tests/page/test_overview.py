"""The overview: what the session view shows first, and where its figures lead."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from collector.archive.store import FILE
from tests.end_to_end.service import SPECS, Service, eventually, request
from tests.end_to_end.traffic import MILLISECOND, Sent, send
from tests.page.browser import Page
from tests.page.conftest import HOSTILE

MARKUP = "<img src=x onerror=alert(1)>"
SCRIPT = "<script>alert(2)</script>"
GOOD = ("unlock_safety", "move", "scan", "open_valve", "water", "log")
BAD = ("unlock_safety", "water", "water")
WIDTHS = ((1280, 900), (400, 900))

REFUND = """\
id: refund_policy
match: {service.name: shop}
alphabet: {check: {tool: check}, refund: {tool: refund}, email: {tool: email}}
severity: {default: warning, tools: {refund: critical}}
constraints:
  - precedence: [check, refund]
  - at_most: [email, 1]
"""


def calls(
    session: str, number: int, tools: tuple[str, ...], agent: str = "", start_ns: int = 0
) -> list[Sent]:
    start = start_ns or time.time_ns() - 60 * 1_000 * MILLISECOND
    more = {"gen_ai.agent.name": agent} if agent else {}
    return [
        Sent(
            number.to_bytes(16, "big"),
            (number * 100 + place + 1).to_bytes(8, "big"),
            "execute_tool",
            start + place * MILLISECOND,
            start + place * MILLISECOND + 1_000,
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool,
                "gen_ai.conversation.id": session,
                **more,
            },
        )
        for place, tool in enumerate(tools)
    ]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with an archive: two versions of a rover, one of them worse, a shop, and an agent that no spec matches."""
    folder: Path = tmp_path_factory.mktemp("specs")
    (folder / "refund.yaml").write_text(REFUND, encoding="utf-8")
    (folder / "hostile.yaml").write_text(HOSTILE, encoding="utf-8")
    service = Service(
        ("--specs", str(SPECS), "--specs", str(folder)),
        {
            "OFFRAILS_HISTORY": "complete",
            "OFFRAILS_ARCHIVE_DIR": str(tmp_path_factory.mktemp("archive")),
        },
    ).wait_ready()
    try:
        for number in range(1, 9):
            version, tools = ("1.9", GOOD) if number < 5 else ("1.10", BAD)
            resource = {"service.name": "farm-rover", "service.version": version}
            send(service, calls(f"rover-{number}", number, tools), resource=resource)
        shop = {"service.name": "shop"}
        send(service, calls("order", 20, ("refund", "email", "email")), resource=shop)
        send(service, calls("plain", 21, ("look",)), resource={"service.name": "nobody"})
        send(
            service,
            calls(MARKUP, 22, ("start", MARKUP), MARKUP),
            resource={"service.name": "hostile", "service.version": SCRIPT},
        )
        eventually(lambda: len(service.judgements(MARKUP)) == 1)
        yield service
        assert service.stop() == 0
    finally:
        service.kill()


def url(service: Service, rest: str = "") -> str:
    return f"http://{service.addresses['admin']}/{rest}"


def row_of(page: Page, name: str) -> list[tuple[str, str]]:
    """The cells of the first row of a table whose name begins so, with their links."""
    found: dict[str, list[tuple[str, str]]] = page.run(
        "Object.fromEntries([...document.querySelectorAll('.figures tbody tr')].map((row) =>"
        " [row.querySelector('th').innerText, [...row.querySelectorAll('td a')].map((a) => [a.innerText, a.getAttribute('href')])]))"
    )
    return next((cells for each, cells in found.items() if each.startswith(name)), [])


def lists(page: Page, count: str) -> bool:
    return page.text("#range") == count


@pytest.mark.parametrize(("wide", "high"), WIDTHS)
def test_the_overview_comes_first(kept: Service, page: Page, wide: int, high: int) -> None:
    """Agents, specs, time, reasons, tools, and what is not judged are there without a choice, in any width."""
    page.window(wide, high)
    page.open(url(kept))
    page.until(lambda: "Agents" in page.text("main"))
    text = page.run("document.querySelector('main').textContent")
    for part in (
        "Overview",
        "Over time, by day",
        "Worst sessions",
        "Specs",
        "Reasons",
        "Not judged",
    ):
        assert part in text
    assert "times in UTC" in text
    assert "6 of 11 sessions had a harmful call." in page.text(".verdict")
    assert "nobody: 1 session, 1 call" in text
    assert "spend_limit" in text  # a spec that no session matches
    assert page.run("document.documentElement.scrollWidth") <= wide
    assert page.problems == []


def test_figures_lead_to_the_sessions_behind_them(kept: Service, page: Page) -> None:
    """Each link of a figure of an agent, a reason, a tool or a severity lists as many sessions as it says."""
    page.open(url(kept))
    page.until(lambda: row_of(page, "farm-rover"))
    cells = row_of(page, "farm-rover")
    assert [text for text, _ in cells[:2]] == ["8", "4"]
    ranked = page.run(
        "[...document.querySelectorAll('.ranking a')].map((a) => [a.querySelector('b').innerText, a.getAttribute('href')])"
    )
    assert len(ranked) > 4
    for count, href in (*cells[:2], *ranked):
        page.open("about:blank")
        page.open(url(kept, href))
        page.until(lambda: page.text("#range") or page.text("#none"))
        page.until(partial(lists, page, f"{count} session{'' if count == '1' else 's'}"))
    assert page.problems == []


def test_a_click_filters_and_the_way_back_leads_back(kept: Service, page: Page) -> None:
    """A figure sets the filters of the list and narrows the overview; the address says so, and back undoes it."""
    page.open(url(kept))
    page.until(lambda: row_of(page, "shop"))
    page.click(".figures th a[href*='agent=shop']")
    page.until(lambda: page.text("#range") == "1 session")
    page.until(lambda: "Of agent shop alone" in page.text("main"))
    assert "agent=shop" in page.run("location.search")
    page.run("history.back()")
    page.until(lambda: page.text("#range") == "11 sessions")
    page.until(lambda: "alone" not in page.text("main .head"))
    assert page.problems == []


def test_row_and_headline_name_the_worst_and_first_harm(kept: Service, page: Page) -> None:
    """A critical refund before two warnings about mail is what is told, in the list, the overview and the session."""
    page.open(url(kept, "?agent=shop"))
    page.until(lambda: page.text("#sessions .because"))
    assert page.text("#sessions .because").startswith("refund: ")
    page.until(lambda: "refund" in page.text(".verdict"))
    assert "critical" in page.text(".verdict")
    page.click("#worst")
    page.until(lambda: page.text("main h2") == "order")
    assert "the worst: call 1, refund" in page.text(".verdict")
    assert page.text(".verdict .level") == "critical"
    assert page.problems == []


@pytest.mark.parametrize(("wide", "high"), WIDTHS)
def test_two_versions_are_compared(kept: Service, page: Page, wide: int, high: int) -> None:
    """The earlier version stands before the later one, 1.9 before 1.10; the difference is told, and figures lead to sessions."""
    page.window(wide, high)
    page.open(url(kept, "#/compare?agent=farm-rover"))
    page.until(lambda: row_of(page, "sessions"))
    assert page.run("[$('version-one').value, $('version-two').value]") == ["1.9", "1.10"]
    share = row_of(page, "share with harm")
    assert [text for text, _ in share] == ["0.000", "1.000"]
    assert "+1.000" in page.text("main")
    page.choose("#version-one", "1.10")
    page.until(
        lambda: [text for text, _ in row_of(page, "share with harm")] == ["1.000", "1.000"]
    )
    assert "one=1.10" in page.run("location.hash")
    assert page.run("document.documentElement.scrollWidth") <= wide
    page.open("about:blank")
    page.open(url(kept, share[1][1]))
    page.until(lambda: page.text("#range") == "4 sessions")
    assert page.problems == []


def test_hostile_names_are_text_in_the_overview(kept: Service, page: Page) -> None:
    """Markup in agents, specs, tools, versions and session ids is shown as text and never runs."""
    page.open(url(kept))
    page.until(lambda: "Agents" in page.text("main"))
    assert MARKUP in page.run("document.querySelector('main').textContent")
    for address in (
        "?agent=",
        "#/compare?agent=",
        "#/compare?spec=",
        "?service_version=",
        "?namespace=",
    ):
        page.open("about:blank")
        page.open(url(kept, address + page.run(f"encodeURIComponent({MARKUP!r})")))
        page.until(lambda: page.text("main h2"))
        page.until(lambda: page.text("#live") == "live")
    page.open("about:blank")
    page.open(url(kept, "#/compare?agent=" + page.run(f"encodeURIComponent({MARKUP!r})")))
    page.until(lambda: SCRIPT in page.text("main"))
    assert page.run("document.querySelectorAll('main img, main script, nav img').length") == 0
    assert page.problems == []


def test_keys_lead_through_the_overview(kept: Service, page: Page) -> None:
    """Every figure, step and choice is reached by the tabulator, and Enter follows it."""
    page.open(url(kept))
    page.until(lambda: row_of(page, "shop"))
    page.run("document.querySelector(\".figures th a[href*='agent=shop']\").focus()")
    page.press("Enter")
    page.until(lambda: page.text("#range") == "1 session")
    page.until(lambda: page.run("document.getElementById('last-day') !== null"))
    page.run("document.getElementById('last-day').focus()")
    page.press("Enter")
    page.until(lambda: "last=day" in page.run("location.search"))
    page.until(lambda: "Over time, by hour" in page.text("main"))
    assert page.run("document.activeElement.id") == "last-day"
    assert page.problems == []


@pytest.mark.parametrize(
    "query", ["last=constructor", "by=toString", "last=decade&by=__proto__"]
)
def test_an_address_with_other_words_shows_the_week(
    kept: Service, page: Page, query: str
) -> None:
    """A time or a step that there is none of, whatever else has that name, is the usual one."""
    page.open(url(kept, f"?{query}"))
    page.until(lambda: "Over time, by day" in page.text("main"))
    assert (
        page.run("document.getElementById('last-week').getAttribute('aria-pressed')") == "true"
    )
    assert page.problems == []


def test_narrow_windows_show_one_view_at_a_time(kept: Service, page: Page) -> None:
    """At 400 pixels the overview and the list are apart, each a link away."""
    page.window(400, 900)
    page.open(url(kept))
    page.until(lambda: "Agents" in page.text("main"))
    assert not page.run("document.querySelector('nav.list').checkVisibility()")
    page.click(".views a:nth-child(2)")
    page.until(lambda: page.run("document.querySelector('nav.list').checkVisibility()"))
    assert not page.run("document.querySelector('main').checkVisibility()")
    assert page.problems == []


def test_a_spec_has_the_share_of_its_pages_that_people_call_right(
    kept: Service, page: Page
) -> None:
    """Two labels of sessions that it calls harmful, one of them wrong: half of two."""
    for session, label in (("rover-5", "right"), ("rover-6", "wrong")):
        text = json.dumps({"label": label}).encode()
        path = f"/api/v1/sessions/{session}/label"
        assert request(kept.addresses["admin"], "POST", path, text).status == 200
    page.open(url(kept))
    cell = (
        "[...document.querySelectorAll('.figures tbody tr')].filter((row) =>"
        " row.querySelector('th').innerText.startsWith('farm_rover')).map((row) => row.lastChild.innerText)[0]"
    )
    page.until(lambda: page.run(cell) == "50 % of 2")


def test_a_list_without_its_past_sessions_says_so(page: Page, tmp_path: Path) -> None:
    """Where the archive does not answer, an empty list is not taken for one that nothing matches."""
    service = Service(
        ("--specs", str(SPECS / "farm_rover.yaml")),
        {"OFFRAILS_ARCHIVE_DIR": str(tmp_path)},
    ).wait_ready()
    try:
        with contextlib.closing(sqlite3.connect(tmp_path / FILE)) as connection:
            connection.execute("PRAGMA user_version = 99")
        page.open(url(service, "?agent=shop"))
        page.until(lambda: "Past sessions are missing" in page.text("#none"))
        assert "newer version" in page.text("#none")
    finally:
        service.kill()
