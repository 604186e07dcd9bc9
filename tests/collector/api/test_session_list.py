"""Lists of sessions are sorted, filtered and bounded. So is what the page loads beside them."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest

from collector.api import session_list
from collector.api.session_list import (
    LISTED_MAX,
    SessionLists,
    SessionPage,
    SessionQuery,
    paged,
    ranked,
)
from collector.api.session_query import Follow, follow_nothing
from collector.api.session_view.about import ServiceInfo
from collector.api.session_view.routes import SessionView
from collector.api.shared_answers import REST
from collector.net.health import Health
from collector.net.host_guard import HostGuard
from monitor.engine import Monitor
from monitor.limits import Limits
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.session.judgement.fold_log import FOLD_AFTER
from monitor.spec.read import load_specs

SPECS = Path(__file__).parents[3] / "dfa_specs" / "farm_rover.yaml"
ABOUT = ServiceInfo("https://t/{trace_id}", {"http": "127.0.0.1:4318"})
GOOD = ("unlock_safety", "move", "scan", "open_valve", "water", "log")


@pytest.fixture
def monitor() -> Monitor:
    """Three sessions: none, one, and two harmful calls."""
    monitor = Monitor(load_specs([SPECS]).specs, Limits(history_complete=True))
    play(monitor, "good", GOOD, 1)
    play(monitor, "one", ("unlock_safety", "move", "water"), 2)
    play(monitor, "two", ("water", "water", *GOOD), 3)
    return monitor


def play(monitor: Monitor, session: str, tools: tuple[str, ...], number: int) -> None:
    for place, tool in enumerate(tools):
        start = number * 1_000_000 + place * 10
        monitor.observe(
            ToolCall(
                session=SessionKey("", session),
                agent="rover",
                tool=tool,
                arguments=None,
                error=False,
                start_ns=start,
                end_ns=start + 5,
                trace_id=number.to_bytes(16, "big"),
                span_id=start.to_bytes(8, "big"),
                parent_span_id=b"",
                call_id="",
                evidence=Evidence.EXECUTED,
                attributes={"service.name": "farm-rover"},
            ),
            start + 6,
        )


def names(monitor: Monitor, **query: str) -> list[str]:
    found = asyncio.run(ranked(monitor, SessionQuery.read(query)))
    return [row["session"] for row in found["sessions"]]


def ask(
    monitor: Monitor,
    path: str,
    query: str = "",
    method: str = "GET",
    follow: Follow = follow_nothing,
) -> tuple[int, Any]:
    sent: list[Any] = []

    async def api(*_: Any) -> None:
        sent.append({"status": 0})

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    health = Health()
    health.ready = True
    app = SessionView(api, monitor, health, HostGuard("127.0.0.1:1"), ABOUT, follow=follow)
    scope = {
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"localhost")],
    }
    asyncio.run(app(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent)
    return sent[0]["status"], json.loads(body) if body[:1] in (b"{", b"[") else body


def test_worst_come_first(monitor: Monitor) -> None:
    """Sessions are sorted by harm, then HarmRate, then PrefixCrit, then time."""
    assert names(monitor, sort="harm") == ["two", "one", "good"]
    assert names(monitor, sort="harm_rate") == ["one", "two", "good"]
    assert names(monitor, sort="prefix_crit") == ["two", "one", "good"]
    assert names(monitor) == ["two", "one", "good"]


def test_a_list_is_filtered_and_bounded(monitor: Monitor) -> None:
    """The limit holds, and matches beyond it are counted."""
    assert names(monitor, only="harmful") == ["two", "one"]
    assert names(monitor, q="GOO") == ["good"]
    assert names(monitor, agent="nobody") == []
    found = asyncio.run(ranked(monitor, SessionQuery.read({"sort": "harm", "limit": "1"})))
    assert ([row["session"] for row in found["sessions"]], found["matching"]) == (["two"], 3)
    assert names(monitor, limit="0") == []
    assert SessionQuery.read({"limit": "9" * 30}).limit == LISTED_MAX


def test_a_list_is_searched_by_what_was_called(monitor: Monitor) -> None:
    """Filters by tool, reason, severity, mode and time. Filters that are combined must hold for one call."""
    assert names(monitor, tool="OPEN_val") == ["two", "good"]
    assert names(monitor, reason="out_of_order") == ["two", "one"]
    assert names(monitor, reason="out_of_order", tool="water") == ["two", "one"]
    assert names(monitor, reason="out_of_order", tool="unlock_safety") == []
    assert names(monitor, reason="repeated") == []
    assert names(monitor, severity="critical") == ["two", "one"]
    assert names(monitor, severity="info") == []
    assert names(monitor, mode="shadow") == ["two", "one", "good"]
    assert names(monitor, mode="page") == []
    assert names(monitor, since="2000000", until="2999999") == ["one"]
    assert names(monitor, q="open_valve") == ["two", "good"]
    assert names(monitor, q="out of order") == ["two", "one"]


def test_severity_by_state_is_found(tmp_path: Path) -> None:
    """The severity filter finds calls whose severity depends on the state."""
    text = SPECS.read_text(encoding="utf-8")
    assert "\nseverity:" in text
    spec = tmp_path / "spec.yaml"
    head, _, rest = text.partition("\nseverity:")
    kept = rest[rest.index("\n") + 1 :].splitlines(keepends=True)
    while kept and kept[0].startswith(" "):
        del kept[0]
    severity = "\nseverity: {default: info, states: {locked: warning}}\n"
    spec.write_text(head + severity + "".join(kept), encoding="utf-8")
    monitor = Monitor(load_specs([spec]).specs, Limits(history_complete=True))
    play(monitor, "locked", ("water",), 1)
    play(monitor, "unlocked", ("unlock_safety", "water"), 2)
    assert names(monitor, severity="warning") == ["locked"]
    assert names(monitor, severity="info") == ["unlocked"]


def test_a_row_names_its_latest_harm(monitor: Monitor) -> None:
    """A row shows the latest harmful call, why it is harmful, and its severity; null where there is none."""
    found = asyncio.run(ranked(monitor, SessionQuery.read({"sort": "harm"})))["sessions"]
    severity = {"tool": "water", "reason": "out_of_order", "severity": "critical"}
    detail = "`water` is not allowed yet in state `{}`"
    assert [row["last_harm"] for row in found] == [
        {"step": 2, **severity, "detail": detail.format("locked")},
        {"step": 3, **severity, "detail": detail.format("arrived")},
        None,
    ]


def test_lists_are_cut_and_counted_by_sessions() -> None:
    """A session under two specs is one entry: its rows are never parted by a page's end."""
    folder = SPECS.parent
    monitor = Monitor(load_specs([folder]).specs, Limits(history_complete=True))
    for number in range(5):
        play(monitor, f"s{number}", ("unlock_safety", *("water",) * (number + 1)), number + 1)
    pages = [
        asyncio.run(
            ranked(monitor, SessionQuery.read({"sort": "harm", "limit": "2", "offset": start}))
        )
        for start in ("0", "2", "4", "6")
    ]
    assert {page["matching"] for page in pages} == {5}
    listed = [[row["session"] for row in page["sessions"]] for page in pages]
    assert listed == [["s4", "s4", "s3", "s3"], ["s2", "s2", "s1", "s1"], ["s0", "s0"], []]


def test_hidden_names_are_not_found_by_what_they_hide(monitor: Monitor) -> None:
    """A redacted tool name is found by its shown form only."""

    async def found(**query: str) -> int:
        hidden: dict[str, Any] = await ranked(
            monitor,
            SessionQuery.read(query),
            lambda name: name.replace("water", "[redacted]"),
        )
        count: int = hidden["matching"]
        return count

    assert asyncio.run(found(tool="water")) == asyncio.run(found(q="water")) == 0
    assert asyncio.run(found(tool="[redacted]")) == asyncio.run(found(q="[redacted]")) == 3


@pytest.mark.parametrize(
    "query",
    [
        *(
            "sort=size",
            "limit=-1",
            "limit=x",
            "limit=²",
            "only=nah",
            "reason=bad",
            "severity=x",
        ),
        *("mode=off", "offset=10001", "offset=-1", "since=now", "until=1.5"),
    ],
)
def test_a_bad_question_is_refused(monitor: Monitor, query: str) -> None:
    """A bad query gets 400 and the expected form."""
    status, found = ask(monitor, "/api/v1/sessions", f"steps=0&{query}")
    assert status == 400
    assert "must be" in found["error"]


@pytest.mark.parametrize(
    ("path", "query", "problem"),
    [
        ("sessions", "steps=0&sevrity=info", "did you mean `severity`?"),
        ("trails/two", "spec=x", "unknown parameter `spec`: This path takes namespace"),
        ("about", "x=1", "this path takes none"),
        ("specs", "limit=1", "unknown parameter `limit`: This path takes agent"),
        ("specs/farm", "since=1", "this path takes none"),
        ("events", "session=two", "this path takes none"),
    ],
)
def test_an_unknown_parameter_is_refused(
    monitor: Monitor, path: str, query: str, problem: str
) -> None:
    """400 names the parameter, and the one that was probably meant."""
    status, found = ask(monitor, f"/api/v1/{path}", query)
    assert status == 400
    assert problem in found["error"]


def test_summaries_say_what_judgements_say(monitor: Monitor) -> None:
    """A summary's fields are the judgement's own, to the last bit."""
    _, found = ask(monitor, "/api/v1/sessions", "steps=0&sort=harm")
    for row in found["sessions"]:
        (whole,) = monitor.find(row["session"])
        shared = {key: whole[key] for key in row if key in whole}
        assert {key: row[key] for key in shared} == shared
        assert "steps" not in row


def test_trails_end_in_the_scores(monitor: Monitor) -> None:
    """The last point of a trail is the judgement's score, also where steps are folded."""
    play(monitor, "long", (*GOOD, "water", *("scan", "move") * 60), 4)
    monitor.tick(10**11)
    for session in ("two", "long"):
        status, found = ask(monitor, f"/api/v1/trails/{session}")
        (whole,) = monitor.find(session)
        assert status == 200
        index, harm_rate, prefix_crit = found["trails"][0]["trail"][-1]
        assert (harm_rate, prefix_crit) == (whole["harm_rate"], whole["prefix_crit"])
        assert index == whole["calls"]
        assert found["trails"][0]["severities"] == {
            str(step["index"]): "critical" if step["tool"] == "water" else "warning"
            for step in whole["steps"]
            if step["kind"] == "harmful"
        }
    assert whole["calls"] > FOLD_AFTER


def test_specs_are_told_as_they_are_drawn(monitor: Monitor) -> None:
    """States and edges of the automaton; 404 for a spec that there is not."""
    status, found = ask(monitor, "/api/v1/specs/farm_rover")
    assert status == 200
    (machine,) = found["machines"]
    assert [each["name"] for each in machine["states"] if each["initial"]] == ["locked"]
    assert [each["name"] for each in machine["states"] if each["accepting"]] == ["done"]
    assert {"source": 0, "target": 1, "symbols": ["unlock_safety"]} in machine["edges"]
    assert ask(monitor, "/api/v1/specs/other")[0] == 404
    assert [each["id"] for each in ask(monitor, "/api/v1/specs")[1]["specs"]] == ["farm_rover"]


def test_what_is_not_the_pages_is_the_apis(monitor: Monitor) -> None:
    """Other paths reach the API; the page's own paths take GET only."""
    assert ask(monitor, "/api/v1/sessions")[0] == 0
    assert ask(monitor, "/-/reload", method="POST")[0] == 0
    assert ask(monitor, "/page/other.js")[0] == 0
    assert ask(monitor, "/", method="POST")[0] == 405
    assert ask(monitor, "/api/v1/events", method="HEAD")[0] == 405
    about = ask(monitor, "/api/v1/about")[1]
    assert about["trace_url"] == "https://t/{trace_id}"
    assert about["receivers"] == {"http": "127.0.0.1:4318"}
    assert (about["tls"], about["token"], about["show_arguments"]) == (False, False, False)
    assert ask(monitor, "/api/v1/trails/nobody")[0] == 404


def test_a_traces_id_leads_to_the_trails_of_its_sessions(monitor: Monitor) -> None:
    """A link that names the trace opens the session that its calls are in now."""

    def follow(trace: str, _namespace: str | None) -> list[SessionKey]:
        return [SessionKey("", "one")] if trace == "0af7" else []

    wanted = ask(monitor, "/api/v1/trails/one")
    assert wanted[0] == 200
    assert ask(monitor, "/api/v1/trails/0af7", follow=follow) == wanted
    _, found = ask(monitor, "/api/v1/sessions", "steps=0&q=0af7", follow=follow)
    assert [row["session"] for row in found["sessions"]] == ["one"]


def test_lists_are_shared_and_rest(monitor: Monitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred requests at once share one list. The next one waits and gets a newer list."""
    begun: list[float] = []
    took: list[float] = []

    async def slow(monitor: Monitor, wanted: SessionQuery, *_: Any) -> dict[str, Any]:
        begun.append(asyncio.get_running_loop().time())
        started = time.thread_time()
        while time.thread_time() - started < 0.02:
            pass
        took.append(asyncio.get_running_loop().time())
        return await ranked(monitor, wanted)

    async def ask_often() -> tuple[list[Any], Any]:
        lists, wanted = SessionLists(monitor), SessionQuery.read({"sort": "harm"})
        first = await asyncio.gather(*(lists.get(wanted) for _ in range(100)))
        play(monitor, "three", ("water",) * 3, 9)
        return first, await lists.get(wanted)

    monkeypatch.setattr(session_list, "ranked", slow)
    first, then = asyncio.run(ask_often())
    assert len(begun) == 2
    assert all(each is first[0] for each in first)
    assert begun[1] - took[0] >= REST * 0.02
    assert then["sessions"][0]["session"] == "three"
    assert then["live"] == first[0]["live"] + 1


def test_a_list_that_fails_fails_alone(
    monitor: Monitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All who wait for a list get its error. The next list is built as usual."""

    async def broken(*_: Any) -> dict[str, Any]:
        raise RuntimeError

    async def ask_twice() -> Any:
        lists, wanted = SessionLists(monitor), SessionQuery.read({})
        with monkeypatch.context() as patch:
            patch.setattr(session_list, "ranked", broken)
            with pytest.raises(RuntimeError):
                await lists.get(wanted)
        return await lists.get(wanted)

    assert len(asyncio.run(ask_twice())["sessions"]) == 3


def test_runbooks_are_served(monitor: Monitor) -> None:
    """Each alert's runbook is there as text, and no other file is reached by its path."""
    for file in (Path(__file__).parents[3] / "docs" / "runbooks").glob("*.md"):
        for name in (file.stem, file.name):
            assert ask(monitor, f"/runbooks/{name}") == (200, file.read_bytes())
    for name in ("Nothing", "", ".md", "../README.md", "..%2fREADME", "%2e%2e/README", "a\0"):
        status, answer = ask(monitor, f"/runbooks/{name}")
        assert (status, answer["error"]) == (404, "no such runbook")
    assert ask(monitor, "/runbooks/AgentSilent", method="POST")[0] == 405


@pytest.mark.parametrize("are_live", [False, True])
def test_a_session_that_ends_or_goes_on_meanwhile_is_listed_once(
    monkeypatch: pytest.MonkeyPatch, *, are_live: bool
) -> None:
    """Lists let other tasks run in between: what ends then is not looked at again, and what goes on is not missed."""
    monkeypatch.setattr("collector.api.session_list._LUMP", 2)
    monitor = Monitor(load_specs([SPECS]).specs, Limits())
    for number in range(1, 8):
        play(monitor, f"s{number}", ("unlock_safety",), number)
    end = 7_000_100 + monitor.limits.idle_ns
    later = 0 if are_live else 2 * end // 1_000_000
    if not are_live:
        monitor.tick(end)
    for number in range(8, 14):
        play(monitor, f"s{number}", ("unlock_safety",), later + number)

    async def listed() -> SessionPage:
        page = asyncio.create_task(paged(monitor, SessionQuery("recent", 100)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not page.done()
        if are_live:
            monitor.tick(end)
        else:
            play(monitor, "s1", ("move",), later + 20)
        assert {each.ended is None for each, _ in monitor.reader.named("s1")} == {not are_live}
        return await page

    page = asyncio.run(listed())
    assert sorted(entry.name.session for entry in page.sessions) == [
        f"s{number}" for number in sorted(range(1, 14), key=str)
    ]
    assert page.matching == 13
