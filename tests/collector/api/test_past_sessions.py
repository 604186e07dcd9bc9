"""Sessions of the monitor and of the archive in one list: what a question costs, and by which names it is asked."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from collector.api.access import ANYBODY
from collector.api.archive.archive_feed import archived
from collector.api.archive.label_endpoint import LabelEndpoint
from collector.api.archive.past_sessions import PastSessions
from collector.api.session_list import OffsetTooFarError, paged
from collector.api.session_query import SessionQuery
from collector.archive.reader import ArchiveReader, FoundPage
from collector.archive.record import ArchiveUnreadError, Label, SessionName
from collector.archive.store import ArchiveStore
from collector.calls.decisions.prevented_calls import PreventedCalls
from collector.telemetry.redaction import Redaction, rules
from monitor.engine import Monitor
from monitor.limits import Limits
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.spec.compiler.compile import compile_text
from monitor.spec.read import load_specs
from tests.collector.api.test_session_list import SPECS, play
from tests.collector.archive.sessions import made


def test_a_list_asks_the_archive_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of its first sessions the monitor still has: these are passed over, and the page is whole."""
    monitor = Monitor(load_specs([SPECS]).specs, Limits())
    for number in range(1, 101):
        play(monitor, f"s{number}", ("unlock_safety",), number)
    monitor.tick(101 * 1_000_000 + monitor.limits.idle_ns)
    ended = {session.key.id: session for session, _ in monitor.reader.open_judgements()}
    store = ArchiveStore(tmp_path)
    store.write(
        made(name, begun=each.started_ns, last=each.last_ns, touched=each.touched_ns)
        for name, each in ended.items()
    )
    store.write(made(f"before{number}", begun=number) for number in range(20))
    store.close()
    asked: list[int] = []
    ask = ArchiveReader.page

    def counted(self: ArchiveReader, *given: Any, **more: Any) -> Any:
        found = ask(self, *given, **more)
        asked.append(len(found.sessions))
        return found

    monkeypatch.setattr(ArchiveReader, "page", counted)
    past = PastSessions(ArchiveReader(tmp_path), monitor, Redaction())
    page = asyncio.run(paged(monitor, SessionQuery("recent", 110), past=past))
    names = [entry.name.session for entry in page.sessions]
    here = [f"s{number}" for number in range(100, 0, -1)]
    assert names == [*here, *(f"before{number}" for number in range(19, 9, -1))]
    assert (page.matching, asked) == (120, [20])


@pytest.mark.parametrize("limit", [2, 100])
@pytest.mark.parametrize("are_live", [False, True])
def test_a_session_that_is_forgotten_meanwhile_is_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, *, are_live: bool
) -> None:
    """Ended or live as the list is asked for, and ended, written and forgotten before the archive has answered."""
    monitor = Monitor(load_specs([SPECS]).specs, Limits(idle_ns=100_000_000))
    for number in range(1, 8):
        play(monitor, f"s{number}", ("unlock_safety",), number)
    if not are_live:
        monitor.tick(7_000_100 + monitor.limits.idle_ns)
    had = {session.key.id: session for session, _ in monitor.reader.open_judgements()}
    assert {session.ended is None for session in had.values()} == {are_live}
    store = ArchiveStore(tmp_path)
    store.write(
        made(name, begun=each.started_ns, last=each.last_ns, touched=each.touched_ns)
        for name, each in had.items()
    )
    store.write(made(f"before{number}", begun=number) for number in range(1, 4))
    store.write([made("s7", begun=20)])  # another session, of the same id
    store.close()

    ask = ArchiveReader.page

    def asked(self: ArchiveReader, *given: Any, **more: Any) -> FoundPage:
        for seconds in (10, 20):
            monitor.tick(seconds * 1_000_000_000)
        assert not list(monitor.reader.open_judgements())
        return ask(self, *given, **more)

    monkeypatch.setattr(ArchiveReader, "page", asked)
    past = PastSessions(ArchiveReader(tmp_path), monitor, Redaction())
    page = asyncio.run(paged(monitor, SessionQuery("recent", limit), past=past))
    names = [entry.name.session for entry in page.sessions]
    assert (
        names
        == ["s7", "s6", "s5", "s4", "s3", "s2", "s1", "s7", "before3", "before2", "before1"][
            :limit
        ]
    )
    assert page.matching == 11


@pytest.mark.parametrize("limit", [4, 9, 10, 11])
def test_a_page_and_its_count_are_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Whether all that match are on the page or not: each filter is run once, and each session that may match is looked at once."""
    store = ArchiveStore(tmp_path)
    store.write(made(f"before{number}", begun=number) for number in range(1, 11))
    store.close()
    statements: list[str] = []
    connect = sqlite3.connect

    def traced(*given: Any, **more: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*given, **more)
        connection.set_trace_callback(statements.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    monitor = Monitor(load_specs([SPECS]).specs, Limits())
    past = PastSessions(ArchiveReader(tmp_path), monitor, Redaction())
    query = SessionQuery("recent", limit, agent="rover")
    page = asyncio.run(paged(monitor, query, past=past))
    assert (len(page.sessions), page.matching) == (min(limit, 10), 10)
    filters = [each for each in statements if each.startswith("SELECT DISTINCT j.sid FROM")]
    looks = [each for each in statements if " FROM sessions s " in each]
    assert (len(filters), len(looks)) == (1, 1)


def test_an_archive_that_cannot_be_read_denies_no_session(tmp_path: Path) -> None:
    """Nobody knows whether there is such a session: that is no 404, which says that there is none."""
    past = PastSessions(ArchiveReader(tmp_path / "gone"), Monitor(()), Redaction())
    for ask in (past.find, past.latest):
        with pytest.raises(ArchiveUnreadError, match="cannot be read"):
            asyncio.run(ask("chat", None, None, ANYBODY))

    async def sent(app: Any, method: str, path: str) -> int:
        found: list[dict[str, Any]] = []
        headers = [(b"host", b"localhost")]
        scope = {"type": "http", "method": method, "path": path, "headers": headers}

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b'{"label": "right"}'}

        async def send(message: dict[str, Any]) -> None:
            found.append(message)

        await app({**scope, "query_string": b"", "client": ("127.0.0.1", 1)}, receive, send)
        return int(found[0]["status"])

    label = LabelEndpoint(None, past, lambda _label: 1, lambda: 5)
    assert asyncio.run(sent(label, "POST", "/api/v1/sessions/chat/label")) == 503


def test_an_offset_that_is_too_far_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the time is up before all that it skips was looked at; the page before has a cursor that leads on."""
    monkeypatch.setattr("collector.archive.reader.LOOKED_AT_MAX", 0)
    monkeypatch.setattr("collector.archive.page_search.STRETCH", 2)
    monkeypatch.setattr("collector.api.archive.past_sessions.OFFSET_SECONDS", 0.0)
    store = ArchiveStore(tmp_path)
    store.write(made(f"s{number}", harmful=number % 7 // 6) for number in range(30))
    store.close()
    monitor = Monitor(load_specs([SPECS]).specs, Limits())
    past = PastSessions(ArchiveReader(tmp_path), monitor, Redaction())
    query = SessionQuery("recent", 2, agent="rover", only="harmful", offset=2)
    with pytest.raises(OffsetTooFarError, match="go on by cursor"):
        asyncio.run(paged(monitor, query, past=past))
    assert asyncio.run(paged(monitor, query._replace(offset=0), past=past)).next


def test_a_past_session_is_found_by_the_name_that_it_was_sent_with(tmp_path: Path) -> None:
    """Where names are redacted: by what is shown, and by what the agent sent, as while the monitor had it."""
    redaction = Redaction(rules(("ana@[a-z.]+",), ()))
    shown = redaction.name("chat-ana@example.org")
    assert "ana" not in shown
    store = ArchiveStore(tmp_path)
    store.write([made(shown)])
    store.close()
    past = PastSessions(ArchiveReader(tmp_path), Monitor(()), redaction)
    for name in (shown, "chat-ana@example.org"):
        assert len(asyncio.run(past.find(name, None, None, ANYBODY))) == 1
        assert asyncio.run(past.latest(name, None, None, ANYBODY)) is not None


def test_one_of_many_sessions_of_an_id_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where agents have the same id again and again: the latest in each namespace is read, and nothing for a label."""
    store = ArchiveStore(tmp_path)
    store.write(
        made("chat", namespace=space, begun=number * 20, text=f"{space}{number}")
        for space in ("", "a")
        for number in range(1, 101)
    )
    store.close()
    asked: list[SessionName] = []
    session = ArchiveReader.session

    def counted(self: ArchiveReader, *given: Any) -> Any:
        found = session(self, *given)
        asked.extend(name for name, _ in found)
        return found

    monkeypatch.setattr(ArchiveReader, "session", counted)
    past = PastSessions(ArchiveReader(tmp_path), Monitor(()), Redaction())
    found = asyncio.run(past.find("chat", None, None, ANYBODY))
    assert {each["text"] for each in found} == {"100", "a100"}
    assert len(asked) == 2
    [found_one] = asyncio.run(past.find("chat", "a", 40, ANYBODY))
    assert found_one["text"] == "a2"
    assert asyncio.run(past.latest("chat", "a", None, ANYBODY)) == SessionName(
        "a", "chat", 2_000
    )
    assert len(asked) == 3


SHOP = """id: shop
match: {}
kind: policy
each: {order: {refund: id}}
alphabet:
  refund: {tool: refund}
  look: {tool: look}
constraints: [{precedence: [look, refund]}]
"""


def shop(*, keep_arguments: bool) -> Monitor:
    """Two sessions: refunds of orders A1 and 7, of which the first is hidden by redaction; and a refund of no order."""
    spec, found = compile_text(SHOP, "shop.yaml")
    assert spec is not None, found
    monitor = Monitor((spec,), Limits(keep_arguments=keep_arguments))
    plain = ToolCall(
        session=SessionKey("", "one"),
        agent="clerk",
        tool="refund",
        error=False,
        start_ns=10,
        end_ns=15,
        trace_id=bytes(16),
        span_id=bytes(8),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        arguments={},
        attributes={},
    )
    given: list[tuple[str, dict[str, object]]] = [
        ("one", {"id": "B 7"}),
        ("one", {"id": 7}),
        ("one", {"id": "ana@example.org"}),
        ("two", {}),
    ]
    for number, (session, arguments) in enumerate(given, 1):
        call = plain._replace(
            session=SessionKey("", session),
            arguments=arguments,
            start_ns=number * 10,
            end_ns=number * 10 + 5,
            span_id=number.to_bytes(8, "big"),
        )
        monitor.observe(call, number * 10 + 6)
    return monitor


@pytest.mark.parametrize("keep_arguments", [True, False])
def test_a_thing_leads_to_its_sessions(tmp_path: Path, *, keep_arguments: bool) -> None:
    """Live and past, by what is shown of it: its value, or the digest where values are not shown; and by nothing that is hidden."""
    monitor = shop(keep_arguments=keep_arguments)
    redaction = Redaction(rules(("ana@[a-z.]+",), ()))
    store = ArchiveStore(tmp_path)
    ended = {
        session.key: archived(session, monitor, redaction, PreventedCalls())._replace(
            ended="idle"
        )
        for session, _ in monitor.reader.open_judgements()
    }
    store.write(ended.values())
    store.close()
    past = PastSessions(ArchiveReader(tmp_path), Monitor(()), redaction)

    def found(thing: str) -> list[str]:
        query = SessionQuery.read({"thing": thing})
        live = asyncio.run(paged(monitor, query, redaction.name))
        before = asyncio.run(paged(Monitor(()), query, redaction.name, past=past))
        names = [entry.name.session for entry in live.sessions]
        assert [entry.name.session for entry in before.sessions] == names
        assert live.matching == before.matching == len(names)
        return names

    assert found("none") == found("order none") == ["two"]
    for thing in ("B 7", "order B 7", "7", "order 7"):
        assert found(thing) == (["one"] if keep_arguments else []), thing
    for thing in ("ana@example.org", "order ana@example.org", "b 7", "B", "customer 7"):
        assert found(thing) == [], thing
    [session] = monitor.find("one")
    for each in session["things"]:
        if "digest" in each:
            assert found(each["digest"]) == found(f"order {each['digest']}") == ["one"]


def test_labels_that_are_left_out_are_told_of(tmp_path: Path) -> None:
    """Of more than a hundred labels of one session the latest hundred are shown, and the number of the others."""
    name = SessionName("", "s", 5)
    store = ArchiveStore(tmp_path)
    store.write([made("s"), *(Label(name, None, "right", "", "ana", at) for at in range(103))])
    store.close()
    past = PastSessions(ArchiveReader(tmp_path), Monitor(()), Redaction())
    found = asyncio.run(past.labels([{"namespace": "", "session": "s", "started": 5}]))
    assert [each["at"] for each in found["labels"]] == [*range(102, 2, -1)]
    assert found["labels_more"] == 3
