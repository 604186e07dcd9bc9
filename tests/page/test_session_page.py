"""The session view in a real browser: its contents, live updates, and resistance to abuse."""

from __future__ import annotations

import http.client
import json
import time
from pathlib import Path
from urllib.parse import quote

from tests.end_to_end.service import Service, eventually, request
from tests.end_to_end.traffic import GOLDEN, MILLISECOND, Rover, Sent, send
from tests.page.browser import Page

MARKUP = "<img src=x onerror=alert(1)>"
SCRIPT = "</script><script>alert(1)</script>\u202egnp.exe"


def url(monitor: Service, session: str = "") -> str:
    chosen = f"#//{quote(session, safe='')}" if session else ""
    return f"http://{monitor.addresses['admin']}/{chosen}"


def known(monitor: Service, session: str) -> None:
    eventually(lambda: monitor.judgements(session))


def harmed(monitor: Service, session: str, number: int) -> None:
    """A session that waters before the valve is open."""
    rover = Rover(session, number).calls("unlock_safety", "move", "scan", "water", "open_valve")
    send(monitor, rover.spans)
    known(monitor, session)


def test_a_past_session_is_shown(tmp_path: Path, page: Page) -> None:
    """What the archive alone has is in the list and opens: the harm, why, and the calls; no scores after each call."""
    service = Service(
        variables={
            "OFFRAILS_HISTORY": "complete",
            "OFFRAILS_ARCHIVE_DIR": str(tmp_path),
            "OFFRAILS_SESSIONS_IDLE_SECONDS": "1",
            "OFFRAILS_SESSIONS_REMEMBER_SECONDS": "1",
        }
    ).wait_ready()
    try:
        harmed(service, "yesterday", 101)
        trails = "/api/v1/trails/yesterday"
        eventually(lambda: service.get(trails).status == 404)
        page.open(url(service, "yesterday"))
        page.until(lambda: "out of order" in page.text("main .calls"))
        assert "Skipped: open_valve" in page.text(".why")
        assert "It came too early" in page.text(".verdict .because")
        assert "yesterday" in page.text("#sessions")
    finally:
        service.kill()


def test_session_is_explained(monitor: Service, page: Page) -> None:
    """The page shows path, harm with reason and skipped steps, scores, calls and trace link."""
    harmed(monitor, "explained", 101)
    page.open(url(monitor, "explained"))
    page.until(lambda: "out of order" in page.text("main .calls"))
    assert "explained" in page.text("main h2")
    why = page.text(".why")
    assert "Skipped: open_valve" in why
    assert "Allowed here: scan, open_valve" in why
    assert page.run("document.querySelector('.why a').href").startswith(
        "https://traces.example/0000"
    )
    assert page.run("document.querySelectorAll('.edge.taken').length") == 4
    assert "✗ water" in page.run("document.querySelector('.harm-text').textContent")
    assert page.run("document.querySelector('.state.here title').textContent") == "valve_open"
    assert "0.200" in page.text(".tiles")
    assert page.text(".verdict").startswith(
        "1 of 5 calls was harmful; it was call 4, water (out of order)."
    )
    assert "It came too early" in why
    detail = "water is not allowed yet in state scanned"
    assert detail in why
    assert f"{detail}." in page.text(".verdict")
    assert page.run("document.querySelectorAll('.rate, .crit').length") == 2
    assert page.problems == []


def test_constraints_of_a_policy_are_shown_as_sentences(monitor: Service, page: Page) -> None:
    """A policy's constraints are sentences, the broken one first, each with where it stands."""
    harmed(monitor, "ruled", 108)
    page.open(url(monitor, "ruled"))
    page.until(lambda: page.run("document.querySelectorAll('[role=tab]').length") == 2)
    page.run("document.querySelectorAll('[role=tab]')[1].click()")
    page.until(lambda: "no water before open_valve" in page.text(".machines"))
    said = page.text(".machines h4")
    assert said == "broken by call 1no water before open_valve"
    assert "water at most 5 times" in page.text(".machines")
    assert page.run("document.querySelectorAll('.machines .edge.taken').length") == 1
    assert "✗ water" in page.run("document.querySelector('.machines .harm-text').textContent")
    assert page.problems == []


def test_an_open_page_shows_an_unfinished_end(page: Page) -> None:
    """An open page shows that its session ended before its task was done."""
    service = Service(
        variables={"OFFRAILS_HISTORY": "complete", "OFFRAILS_SESSIONS_IDLE_SECONDS": "8"}
    )
    try:
        service.wait_ready()
        send(service, Rover("halfway", 110).calls("unlock_safety", "move").spans)
        known(service, "halfway")
        page.open(url(service, "halfway"))
        page.until(lambda: "No harmful call so far. The task goes on." in page.text(".verdict"))
        page.until(
            lambda: (
                "It ended before the task was done." in page.text(".verdict")
                and "ended: no call for a long time" in page.text(".head")
                and "ended in" in page.text(".tiles")
            )
        )
    finally:
        service.kill()


def test_page_is_live(monitor: Service, page: Page) -> None:
    """Calls appear without a reload, and screen readers announce harm."""
    rover = Rover("living", 102).calls("unlock_safety")
    send(monitor, rover.spans)
    known(monitor, "living")
    page.open(url(monitor, "living"))
    page.until(lambda: page.run("document.querySelectorAll('.call').length") == 1)
    page.until(lambda: page.text("#live") == "live")
    sent = len(rover.spans)
    rover.calls("move", "water")
    send(monitor, rover.spans[sent:])
    page.until(lambda: page.run("document.querySelectorAll('.call').length") == 3)
    page.until(lambda: page.text("#news") == "Harmful call: water, out of order")
    page.until(lambda: "farm_rover: 1 harmful" in page.text("#sessions a[aria-current]"))
    assert page.problems == []


def test_hostile_names_are_text(monitor: Service, page: Page) -> None:
    """Markup in ids, tools, arguments and specs is shown as text and never runs."""
    start = time.time_ns()
    spans = [
        Sent(
            b"\x11" * 16,
            bytes(7) + bytes([number + 1]),
            "execute_tool",
            start,
            start + MILLISECOND,
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool,
                "gen_ai.tool.call.arguments": json.dumps(arguments),
                "gen_ai.conversation.id": MARKUP,
                "gen_ai.agent.name": MARKUP,
            },
        )
        for number, (tool, arguments) in enumerate(
            (
                ("start", {MARKUP: SCRIPT}),
                (MARKUP, {MARKUP: SCRIPT}),
                ("two", {"x": MARKUP, MARKUP: SCRIPT}),
            )
        )
    ]
    send(monitor, spans, resource={"service.name": "hostile"})
    known(monitor, MARKUP)
    page.open(url(monitor, MARKUP))
    page.until(lambda: MARKUP in page.text("main .calls"))
    assert MARKUP in page.text("main .calls li:nth-child(3) .why .detail")
    assert page.text("main h2") == MARKUP
    assert "<script>alert(2)</script>" in page.run(
        "document.querySelector('main .wide svg').textContent"
    )
    assert "\u202e" not in page.run("document.body.textContent")
    assert page.run("document.querySelectorAll('main img, main script, nav img').length") == 0
    assert page.problems == []


def test_a_session_that_cannot_finish_says_so(monitor: Service, page: Page) -> None:
    """Without a harmful call, the page shows that the task is lost, and since when."""
    start = time.time_ns()
    spans = [
        Sent(
            b"\x2f" * 16,
            bytes(7) + bytes([number + 1]),
            "execute_tool",
            start + number * MILLISECOND,
            start + number * MILLISECOND,
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool,
                "gen_ai.conversation.id": "lost",
            },
        )
        for number, tool in enumerate(("enter", "fall"))
    ]
    send(monitor, spans, resource={"service.name": "maze"})
    known(monitor, "lost")
    page.open(url(monitor, "lost"))
    page.until(
        lambda: "Since call 2: no accepting state can be reached any more" in page.text(".note")
    )
    assert page.problems == []


def test_parallel_calls_are_seen_as_such(monitor: Service, page: Page) -> None:
    """Calls that overlap name each other beside their bars."""
    start = time.time_ns()
    spans = [
        Sent(
            b"\x12" * 16,
            bytes(7) + bytes([number]),
            "execute_tool",
            start + begin * MILLISECOND,
            start + end * MILLISECOND,
            {
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": tool,
                "gen_ai.conversation.id": "parallel",
            },
            b"\x12" * 8,
        )
        for number, tool, begin, end in (
            (1, "scan", 0, 50),
            (2, "log", 20, 60),
            (3, "move", 70, 80),
        )
    ]
    send(monitor, spans)
    known(monitor, "parallel")
    page.open(url(monitor, "parallel"))
    page.until(lambda: page.run("document.querySelectorAll('.call').length") == 3)
    assert page.run(
        "[...document.querySelectorAll('.together')].map((e) => e.textContent)"
    ) == [
        "at the same time as call ∥ with 2",
        "at the same time as call ∥ with 1",
    ]
    assert page.run("document.querySelectorAll('.call.bound').length") == 2


def asks(monitor: Service, session: str, tool: str, *, skips: bool = False) -> str:
    """An agent asks before a call, which it may skip then; returns the decision."""

    def post(path: str, body: object) -> dict[str, str]:
        sent = json.dumps(body).encode()
        kind = {"content-type": "application/json"}
        reply = request(monitor.addresses["decide"], "POST", path, sent, kind)
        assert reply.status == 200, reply
        answer: dict[str, str] = reply.json()
        return answer

    body = {"session": session, "service": "guarded", "tool": tool, "arguments": {}}
    found = post("/api/v1/decide", body)
    if skips:
        post("/api/v1/outcome", {"decision_id": found["decision_id"], "outcome": "skipped"})
    return found["decision"]


def test_a_prevented_call_is_seen_and_is_no_harm(monitor: Service, page: Page) -> None:
    """A denied call has a card of its own, struck out, with its reason; the session is without harm."""
    assert asks(monitor, "prevented", "pay", skips=True) == "deny"
    made = Rover("prevented", 111).calls("approve", "pay")
    send(monitor, made.spans, resource={"service.name": "guarded"})
    known(monitor, "prevented")
    page.open(url(monitor, "prevented"))
    page.until(lambda: page.run("document.querySelector('#prevented') !== null"))

    assert page.run("document.querySelector('#prevented del').textContent") == "pay"
    assert page.run("document.querySelectorAll('#prevented .call').length") == 1
    said = page.text("#prevented .to")
    assert "out of order" in said
    assert "first approve" in said
    assert page.run("document.querySelectorAll('main .why').length") == 0
    assert page.run("document.querySelectorAll('[id^=call-]').length") == 2
    assert page.problems == []


def test_a_denied_call_that_was_made_is_seen_as_harm(monitor: Service, page: Page) -> None:
    """It is among the calls, harmful, with a note that it was denied; nothing is called prevented."""
    assert asks(monitor, "overruled", "pay") == "deny"
    made = Rover("overruled", 112, start_ns=time.time_ns()).call("pay", {})
    send(monitor, made.spans, resource={"service.name": "guarded"})
    known(monitor, "overruled")
    page.open(url(monitor, "overruled"))
    page.until(lambda: "was denied" in page.text("#call-1"))

    assert "out of order" in page.text("#call-1")
    assert page.run("document.querySelector('#prevented')") is None
    assert page.problems == []


def test_list_filters_and_keys(monitor: Service, page: Page) -> None:
    """The search narrows the list; arrow keys and Enter choose a session."""
    harmed(monitor, "keys-one", 103)
    send(monitor, Rover("keys-two", 104).calls(*GOLDEN).spans)
    known(monitor, "keys-two")
    page.open(url(monitor))
    page.until(lambda: "keys-one" in page.text("#sessions"))
    page.run("document.getElementById('text').focus()")
    page.ask("Input.insertText", text="KEYS-")
    page.until(lambda: page.run("document.querySelectorAll('#sessions li').length") == 2)
    page.until(lambda: page.text("#sessions li:first-child .name") == "keys-one")
    page.press("ArrowDown")
    page.press("ArrowDown")
    page.press("Enter")
    page.until(lambda: page.text("main h2") == "keys-two")
    page.run(
        "document.getElementById('only').value = 'harmful';"
        "document.getElementById('only').dispatchEvent(new Event('change'))"
    )
    page.until(lambda: page.run("document.querySelectorAll('#sessions li').length") == 1)


def test_controls_have_names(monitor: Service, page: Page) -> None:
    """Every control and picture has a name that a screen reader can say."""
    harmed(monitor, "named", 105)
    page.open(url(monitor, "named"))
    page.until(lambda: page.text("main h2") == "named")
    tree = page.ask("Accessibility.getFullAXTree")["nodes"]
    roles = {"link", "button", "tab", "textbox", "searchbox", "combobox", "image", "img"}
    unnamed = [
        node["role"]["value"]
        for node in tree
        if not node.get("ignored")
        and node.get("role", {}).get("value") in roles
        and not node.get("name", {}).get("value")
    ]
    assert unnamed == []
    said = {node.get("role", {}).get("value") for node in tree}
    assert {"navigation", "main", "banner", "search", "tab", "heading", "list"} <= said


def test_narrow_window_needs_no_sideways_scroll(monitor: Service, page: Page) -> None:
    """On a telephone one thing is shown at a time, and the page is as wide as the window."""
    harmed(monitor, "narrow", 106)
    page.window(390, 800, dark=True)
    page.open(url(monitor, "narrow"))
    page.until(lambda: "out of order" in page.text("main .calls"))
    assert page.run("document.documentElement.scrollWidth") <= 390
    assert page.run("getComputedStyle(document.querySelector('.list')).display") == "none"
    page.run("document.querySelector('.back').click()")
    page.until(
        lambda: page.run("getComputedStyle(document.querySelector('main')).display") == "none"
    )
    page.until(lambda: "narrow" in page.text("#sessions"))


def test_the_content_security_policy_allows_only_own_resources(monitor: Service) -> None:
    """The page's policy allows its own script, its own style and its own API only."""
    reply = monitor.get("/")
    policy = reply.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert b"innerHTML =" not in monitor.get("/page/page.js").body
    assert monitor.get("/page/../settings.py").status == 404


def test_other_names_are_refused(monitor: Service) -> None:
    """A stranger's name that points at the loopback gets nothing (DNS rebinding)."""
    address = monitor.addresses["admin"]
    for host in ("evil.example", "evil.example:4319", "127.0.0.1.evil.example"):
        assert request(address, "GET", "/", headers={"host": host}).status == 403
        assert request(address, "GET", "/api/v1/sessions", headers={"host": host}).status == 403
    for host in ("localhost", "127.0.0.1:1", "[::1]:4319"):
        assert request(address, "GET", "/api/v1/about", headers={"host": host}).status == 200


def test_stream_ends_with_the_service(serve_page: Service) -> None:
    """An open event stream reports changes and does not delay the end of the service."""
    connection = http.client.HTTPConnection(serve_page.addresses["admin"], timeout=10)
    connection.request("GET", "/api/v1/events")
    answer = connection.getresponse()
    assert answer.headers["content-type"] == "text/event-stream"
    assert b"hello" in answer.readline() + answer.readline()
    send(serve_page, Rover("streamed", 107).calls("unlock_safety").spans)
    line = b""
    while not line.startswith(b'data: {"sessions"'):
        line = answer.readline()
    assert json.loads(line[6:]) == {"sessions": [["", "streamed"]], "more": False}
    started = time.monotonic()
    assert serve_page.stop() == 0
    assert time.monotonic() - started < 4
    connection.close()
