"""The first view: the reason, the set-up of an empty service, and when the page is out of date."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.end_to_end.service import Service, eventually
from tests.end_to_end.traffic import Rover, send
from tests.page.browser import Page

ROOT = Path(__file__).parents[2]


def _serving() -> Iterator[Service]:
    service = Service(variables={"OFFRAILS_HISTORY": "complete"}).wait_ready()
    try:
        yield service
    finally:
        service.kill()


@pytest.fixture(scope="module")
def bare() -> Iterator[Service]:
    """A service that shows no arguments."""
    yield from _serving()


@pytest.fixture
def empty() -> Iterator[Service]:
    """A service that has no session, whichever tests ran before."""
    yield from _serving()


def url(service: Service, session: str = "") -> str:
    return f"http://{service.addresses['admin']}/{f'#//{session}' if session else ''}"


def harmed(service: Service, session: str, number: int) -> None:
    """A session that waters before the valve is open."""
    rover = Rover(session, number).calls("unlock_safety", "move", "scan", "water", "open_valve")
    send(service, rover.spans)
    eventually(lambda: service.judgements(session))


def place(page: Page, selector: str) -> tuple[float, float]:
    """Top and bottom in the window."""
    top, bottom = page.run(
        f"(({{ top, bottom }}) => [top, bottom])"
        f"(document.querySelector({json.dumps(selector)}).getBoundingClientRect())"
    )
    return top, bottom


@pytest.mark.parametrize(("wide", "high"), [(1400, 900), (400, 900)])
def test_reason_comes_before_scores(monitor: Service, page: Page, wide: int, high: int) -> None:
    """Without scrolling one reads which call was harmful and why; the scores follow the calls."""
    harmed(monitor, "first", 301)
    page.window(wide, high)
    page.open(url(monitor, "first"))
    page.until(lambda: page.text(".why"))
    assert "It came too early" in page.text(".verdict .because")
    assert "critical" in page.text(".verdict .because")
    assert "shadow: pages nobody" in page.text(".verdict .because")
    verdict, calls, why, scores = (
        place(page, selector) for selector in (".verdict", ".calls", ".why", ".tiles")
    )
    assert verdict[1] <= calls[0] < high / 2
    assert why[0] < why[1] <= scores[0]
    assert why[0] + 100 < high
    assert page.run("document.documentElement.scrollWidth") <= wide
    assert page.problems == []


def test_empty_service_says_how_to_send(empty: Service, page: Page) -> None:
    """The lines have this service's own addresses, and a button that copies them as they are."""
    page.allow_clipboard()
    page.open(url(empty))
    page.until(lambda: "No sessions yet" in page.text("main"))
    page.click("#copy-http")
    page.until(lambda: page.text("#news") == "Copied the lines for HTTP")
    copied = page.run("navigator.clipboard.readText()")
    assert copied.splitlines() == [
        "export OTEL_SERVICE_NAME=my-agent",
        f"export OTEL_EXPORTER_OTLP_ENDPOINT=http://{empty.addresses['http']}",
        "export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
    ]
    assert f"OTLP_ENDPOINT=http://{empty.addresses['grpc']}" in page.text("main")
    assert f"init --from {empty.addresses['admin']}" in page.text("main")
    page.window(400, 800)
    assert place(page, "#copy-http")[1] > 0
    assert page.run("document.documentElement.scrollWidth") <= 400
    harmed(empty, "comes", 302)
    page.until(lambda: "Overview" in page.run("document.querySelector('main').textContent"))
    assert page.problems == []


def test_the_option_for_hidden_arguments_is_named(
    bare: Service, monitor: Service, page: Page
) -> None:
    """Where arguments are not shown, the page names the option that shows them; else it is silent."""
    harmed(bare, "without", 303)
    harmed(monitor, "with", 304)
    page.open(url(bare, "without"))
    page.until(lambda: "Arguments are not shown" in page.text("main"))
    assert "--show-arguments" in page.text(".hint")
    page.open("about:blank")
    page.open(url(monitor, "with"))
    page.until(lambda: page.text(".why"))
    assert "Arguments are not shown" not in page.text("main")


def is_copied(page: Page, text: str) -> bool:
    return bool(page.run("navigator.clipboard.readText()") == text)


def test_ids_are_copied(monitor: Service, page: Page) -> None:
    """The ids of the session, of a call's trace and of its span, whole."""
    harmed(monitor, "copied", 305)
    (judgement, *_) = monitor.judgements("copied")
    step = judgement["steps"][3]
    page.allow_clipboard()
    page.open(url(monitor, "copied"))
    page.until(lambda: page.text(".why"))
    for button, text in (
        ("#copy-session", "copied"),
        ("#copy-trace-4", step["trace_id"]),
        ("#copy-span-4", step["span_id"]),
    ):
        page.click(button)
        page.until(partial(is_copied, page, text))
    assert page.problems == []


def glossary() -> dict[str, tuple[str, str]]:
    """By score, its sentence and its formula, from the glossary's table."""
    rows = {}
    for line in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").splitlines():
        found = re.fullmatch(
            r"\| \*\*(.+?)\*\*[^|]* \| (.+) \| (.+) \|", line.replace(r"\|", "\0")
        )
        if found:
            name, sentence, formula = (
                part.replace("\0", "|").replace("\\", "") for part in found.groups()
            )
            rows[name] = sentence, formula
    return rows


def test_scores_are_explained_as_in_the_glossary(monitor: Service, page: Page) -> None:
    """Each score's tooltip shows the glossary's sentence and formula, to the pointer and to the keyboard."""
    known = glossary()
    assert set(known) == {
        *("H", "HarmRate", "PrefixCrit", "PC", "PC-KTC", "PC+HLR", "Efficiency"),
    }
    bad_start = ("unlock_safety", "move", "scan", "water", "open_valve")
    send(monitor, Rover("scored", 306).calls(*bad_start, "water", "log").spans)
    eventually(lambda: monitor.judgements("scored"))
    page.open(url(monitor, "scored"))
    page.until(lambda: page.text(".tiles"))
    shown = page.run(
        "[...document.querySelectorAll('.tiles .meaning:has(.formula)')].map((each) =>"
        " [each.previousSibling.textContent, ...[...each.children].slice(0, 2).map((part) => part.textContent)])"
    )
    named = {name: (sentence, formula) for name, sentence, formula in shown}
    named["H"] = named.pop("harmful")
    assert named == known
    assert page.run("getComputedStyle(document.querySelector('#meaning-PC')).display") == "none"
    page.run("document.querySelector('#tile-meaning-PC').focus()")
    assert "golden path" in page.text("#meaning-PC")
    assert page.run("getComputedStyle(document.querySelector('#meaning-PC')).display") == "grid"


def test_meaning_fits_a_narrow_window(monitor: Service, page: Page) -> None:
    """On a phone each tooltip is whole in the window, and nothing scrolls sideways."""
    bad_start = ("unlock_safety", "move", "scan", "water", "open_valve")
    send(monitor, Rover("tapped", 308).calls(*bad_start, "water", "log").spans)
    eventually(lambda: monitor.judgements("tapped"))
    page.window(400, 800)
    page.open(url(monitor, "tapped"))
    page.until(lambda: page.text(".tiles"))
    for name in ("HarmRate", "PrefixCrit", "PC", "PC-KTC", "PC-HLR", "Efficiency"):
        page.run(f"document.querySelector('#tile-meaning-{name}').focus()")
        left, right = page.run(
            "(({ left, right }) => [left, right])"
            f"(document.querySelector('#meaning-{name}').getBoundingClientRect())"
        )
        assert 0 <= left < right <= 400
        assert page.run("document.documentElement.scrollWidth") <= 400


def test_a_long_session_shows_harmful_and_latest_calls(monitor: Service, page: Page) -> None:
    """Of many calls the harmful ones and the latest are shown; the others come when they are asked for."""
    reads = ("scan", "log") * 36
    send(monitor, Rover("lengthy", 309).calls("unlock_safety", "water", "move", *reads).spans)
    eventually(lambda: monitor.judgements("lengthy")[0]["calls"] == 75)
    page.open(url(monitor, "lengthy"))
    page.until(lambda: page.text("#all-calls"))
    assert page.text("#all-calls") == "Show 14 earlier calls"
    assert page.text(".call .index") == "2"
    assert page.run("document.querySelectorAll('.call').length") == 61
    page.click("#all-calls")
    page.until(lambda: page.run("document.querySelectorAll('.call').length") == 75)
    assert page.problems == []


def test_a_lost_connection_raises_a_banner(page: Page) -> None:
    """A banner says since when what is shown may be old; it goes when the service is back."""
    service = Service(variables={"OFFRAILS_HISTORY": "complete"}).wait_ready()
    again = None
    try:
        page.open(url(service))
        page.until(lambda: page.text("#live") == "live")
        assert page.text("#banner") == ""
        service.kill()
        page.until(
            lambda: page.text("#banner").startswith("No connection to the service since")
        )
        admin = service.addresses["admin"]
        again = Service(variables={"OFFRAILS_ADMIN": admin}).wait_ready()
        page.until(lambda: page.text("#live") == "live" and page.text("#banner") == "")
    finally:
        service.kill()
        if again is not None:
            again.kill()


def test_the_next_answer_removes_the_banner(monitor: Service, page: Page) -> None:
    """The stream lives on, so the next answer takes the banner away."""
    page.open(url(monitor))
    page.until(lambda: page.text("#live") == "live" and page.text("#count"))
    page.run("self.real = fetch; self.fetch = () => Promise.reject(new TypeError('lost')); 0")
    page.run("loadList()")
    page.until(lambda: page.text("#banner").startswith("No connection to the service since"))
    page.run("self.fetch = self.real; 0")
    page.run("loadList()")
    page.until(lambda: page.text("#live") == "live" and page.text("#banner") == "")
    assert page.problems == []


def test_possible_harm_is_hatched_and_in_no_score(monitor: Service, page: Page) -> None:
    """Possible harm is hatched with its reason, and is no harm in the path, the plot or the text."""
    harmed(monitor, "maybe", 307)
    page.open(url(monitor, "maybe"))
    page.until(lambda: page.text(".why"))
    page.run(POSSIBLE)
    page.run("location.hash = '#//maybe?under='")
    page.until(lambda: "Possible: harmful unless" in page.text(".why"))
    assert page.text(".call:nth-child(4) .kind") == "possible"
    assert page.text(".call:nth-child(4) .to") == "out of order"
    assert "It came too early" in page.text(".why.possible")
    assert "unless this session began before 10:00:00 UTC" in page.text(".why.possible")
    assert "Skipped: open_valve" in page.text(".why.possible")
    assert "It counts in no score" in page.text(".why.possible")
    assert (
        page.run("getComputedStyle(document.querySelector('.bar.possible')).fill")
        == 'url("#hatch")'
    )
    assert "gradient" in page.run(
        "getComputedStyle(document.querySelector('.kind.possible')).backgroundImage"
    )
    assert (
        page.run("document.querySelectorAll('.harm-dot, .harm-text, .kind.harmful').length")
        == 0
    )
    assert page.text(".verdict").startswith("No harmful call so far.")
    assert page.run("document.querySelector('.verdict').className") == "verdict warn"
    assert "Possible, not certain: call 4, water." in page.text(".verdict .because")
    assert page.problems == []


POSSIBLE = """
const real = fetch;
self.fetch = async (path, ...more) => {
  const answer = await real(path, ...more);
  if (!String(path).startsWith('api/v1/sessions/')) return answer;
  const found = await answer.json();
  for (const judgement of found.sessions) {
    Object.assign(judgement, { harmful: 0, exact: true, accepting: false, ended: null, unless: ["started"], unless_began_before: 36e12 });
    for (const step of judgement.steps) if (step.kind === 'harmful') {
      const { reason: possible_reason, skipped: possible_skipped, allowed: possible_allowed } = step;
      Object.assign(step, { possible: true, possible_reason, possible_skipped, possible_allowed });
      Object.assign(step, { kind: 'progress', reason: null, skipped: [], allowed: [] });
    }
  }
  return new Response(JSON.stringify(found));
};
0
"""
"""Answers as of a service that tells the harmful call as possible."""
