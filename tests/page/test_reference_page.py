"""The page for a session that is compared with learnt runs, or whose start was missed."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.end_to_end.service import Service
from tests.page.browser import Page
from tests.page.scenes import Scene, play, serve_scenes


@pytest.fixture(scope="module")
def watching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that has learnt what refunds usually look like."""
    service = serve_scenes(tmp_path_factory.mktemp("reference"), OFFRAILS_HISTORY="auto")
    try:
        yield service
    finally:
        service.kill()


def shown(service: Service, page: Page, session: str) -> None:
    page.open(f"http://{service.addresses['admin']}/#/harvest/{quote(session, safe='')}")
    page.until(lambda: page.text("main h2") == session)


def now(session: str, number: int, service: str = "refunds") -> Scene:
    """The present time, so that a session has no missed calls."""
    return Scene(session, number, service, before_ns=0)


def texts(page: Page, selector: str) -> list[str]:
    found: list[str] = page.run(
        f"[...document.querySelectorAll({selector!r})].map((each) => each.textContent)"
    )
    return found


def test_departures_are_drawn_in_the_tree(watching: Service, page: Page) -> None:
    """The tree shows the path, the skipped step, the departure, the usual call and the risk."""
    left = now("left", 20).steady("find_user", "get_order", "refund", "update_account", every=1)
    play(watching, [left.steady("send_mail", every=1)])
    shown(watching, page, "left")
    page.until(lambda: page.run("document.querySelectorAll('.branch').length") > 0)
    assert page.run("document.querySelectorAll('.branch.taken').length") == 4
    assert texts(page, ".label.skipped")[0].startswith("check_policy")
    assert texts(page, "svg .departs")[0].startswith("\u25c6 3 refund +1")
    assert "call 3 on: refund, but check_policy was left out" in page.text(".verdict")
    assert texts(page, ".kind") == [
        "as usual",
        "as usual",
        "left something out",
        "another tool",
        "as usual",
    ]
    assert "Usual here: check_policy" in page.text(".why.departs")
    assert page.run("document.querySelectorAll('.depart-dot').length") == 2
    assert "alarm from 0.6" in page.run("document.querySelector('.limit + text').textContent")
    assert "It wrote by a tool that no learnt run wrote by" in page.text("main")
    assert page.problems == []


def test_a_session_like_the_learnt_ones_has_no_departure(watching: Service, page: Page) -> None:
    """A session like the learnt ones is shown as usual, until it departs."""
    scene = now("usual", 21).steady("find_user", "get_order", every=1)
    play(watching, [scene])
    shown(watching, page, "usual")
    page.until(lambda: page.text("#live") == "live")
    assert page.text(".verdict").startswith("As in the learnt runs so far.")
    assert page.run("document.querySelectorAll('svg .departs').length") == 0
    assert page.text(".likely") == "Likely next: check_policy 100 %"
    assert "surprise" in page.text(".tiles")
    play(watching, [scene.steady("fly", every=1)])
    page.until(lambda: "Call 3 is not as in the learnt runs" in page.text("#news"))
    assert page.problems == []


def test_joined_session_is_explained(watching: Service, page: Page) -> None:
    """A session from before the start shows what is unknown, and no score."""
    began = Scene("began before", 22, before_ns=3_600 * 10**9)
    play(watching, [began.steady("scan", "open_valve", "fly")])
    shown(watching, page, "began before")
    page.until(lambda: "Joined in the middle." in page.text(".note"))
    assert "where it stands is not known for sure" in page.text(".note")
    assert "harmful for certain" in page.text(".verdict")
    assert "HarmRate" not in page.text(".tiles")
    assert page.problems == []


def test_hostile_departure_is_text(watching: Service, page: Page) -> None:
    """A tool name with markup is shown as text in the tree and beside the call."""
    markup = "<img src=x onerror=alert(1)>"
    play(watching, [now("hostile", 23).steady("find_user", markup, every=1)])
    shown(watching, page, "hostile")
    page.until(lambda: markup in page.text(".verdict"))
    assert texts(page, "svg .departs")[0].startswith("\u25c6 2 <img")
    assert page.run("document.querySelectorAll('main img').length") == 0
    assert page.problems == []
