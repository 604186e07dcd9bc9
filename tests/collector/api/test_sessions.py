"""The admin application on its own, without a socket."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

import pytest

from collector.api.session_query import Follow, follow_nothing
from collector.api.sessions import Admin
from collector.calls.inventory.inventory import Inventory
from collector.net.health import Health
from monitor.engine import Monitor
from monitor.limits import Limits
from monitor.records import Evidence, SessionKey, ToolCall


class Answer(NamedTuple):
    status: int
    headers: dict[bytes, bytes]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def call(session: str, namespace: str = "", number: int = 0) -> ToolCall:
    return ToolCall(
        session=SessionKey(namespace, session),
        agent="",
        tool="t",
        arguments=None,
        error=False,
        start_ns=number + 1,
        end_ns=number + 2,
        trace_id=bytes(15) + b"\1",
        span_id=(number + 1).to_bytes(8, "big"),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes={},
    )


def ask(
    monitor: Monitor,
    path: bytes,
    query: bytes = b"",
    method: str = "GET",
    ready: bool = True,
    follow: Follow = follow_nothing,
) -> Answer:
    health = Health()
    health.ready = ready
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path.decode("latin-1"),
        "raw_path": path,
        "query_string": query,
        "headers": [],
    }
    asyncio.run(Admin(monitor, Inventory(), health, follow=follow)(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent)
    return Answer(sent[0]["status"], dict(sent[0]["headers"]), body)


def filled(*names: str) -> Monitor:
    monitor = Monitor()
    for number, name in enumerate(names):
        monitor.observe(call(name, number=number), 5)
    return monitor


def names(answer: Answer) -> list[str]:
    assert answer.status == 200
    return [each["session"] for each in answer.json()["sessions"]]


def test_no_sessions() -> None:
    """An empty list, not an error."""
    assert ask(Monitor(), b"/api/v1/sessions").json() == {
        "sessions": [],
        "matching": 0,
        "live": 0,
        "next": None,
    }


def test_the_newest_comes_first_and_limit_cuts() -> None:
    """The order and the limit hold over several chunks, too."""
    monitor = filled(*(f"s{number}" for number in range(120)))

    assert names(ask(monitor, b"/api/v1/sessions"))[:2] == ["s119", "s118"]
    assert len(names(ask(monitor, b"/api/v1/sessions"))) == 120
    assert names(ask(monitor, b"/api/v1/sessions", b"limit=3")) == ["s119", "s118", "s117"]
    assert names(ask(monitor, b"/api/v1/sessions", b"limit=0")) == []


@pytest.mark.parametrize("limit", [b"-1", b"x", b"1.5", b"\xc2\xb2", b"%C2%B2"])
def test_a_wrong_limit(limit: bytes) -> None:
    """400 with a sentence."""
    answer = ask(filled("a"), b"/api/v1/sessions", b"limit=" + limit)

    assert (answer.status, answer.json()) == (400, {"error": "limit must be a whole number"})


def test_a_limit_of_thousands_of_digits_is_no_limit() -> None:
    """The list is whole, though Python alone would not read such a number."""
    answer = ask(filled("a"), b"/api/v1/sessions", b"limit=" + b"9" * 5_000)

    assert (answer.status, names(answer)) == (200, ["a"])


def test_one_session_in_every_namespace() -> None:
    """An id may be known in two namespaces; `namespace` asks for one, also the empty one."""
    monitor = filled("s")
    monitor.observe(call("s", "tenant", 1), 5)
    path = b"/api/v1/sessions/s"

    found = {each["namespace"] for each in ask(monitor, path).json()["sessions"]}
    assert found == {"", "tenant"}
    (one,) = ask(monitor, path, b"namespace=tenant").json()["sessions"]
    assert one["namespace"] == "tenant"
    (other,) = ask(monitor, path, b"namespace=").json()["sessions"]
    assert other["namespace"] == ""


@pytest.mark.parametrize(
    ("path", "session"),
    [
        (b"a%2Fb", "a/b"),
        (b"a/b", "a/b"),
        (b"%C3%BC", "ü"),
        (b"a%20b", "a b"),
        (b"a+b", "a+b"),
        (b"%252F", "%2F"),
        (b"%2F", "/"),
        (b"%2F%2Fa%2F", "//a/"),
    ],
)
def test_ids_are_unquoted_once(path: bytes, session: str) -> None:
    """An id is shown as its sender wrote it: slashes, spaces, percent signs."""
    assert names(ask(filled(session), b"/api/v1/sessions/" + path)) == [session]


def test_an_unknown_session() -> None:
    """404, with the id as it was understood; bytes that are no UTF-8 do no harm."""
    assert ask(filled("a"), b"/api/v1/sessions/b%2Fc").json() == {
        "error": "no such session",
        "session": "b/c",
    }
    assert ask(filled("a"), b"/api/v1/sessions/%FF").status == 404


def test_other_paths_and_methods() -> None:
    """404 and 405; HEAD is GET without a body, which the server takes off."""
    assert ask(Monitor(), b"/").status == 404
    assert ask(Monitor(), b"/api/v1/sessionsx").status == 404
    answer = ask(Monitor(), b"/api/v1/sessions", method="DELETE")
    assert (answer.status, answer.headers[b"allow"]) == (405, b"GET, HEAD")
    assert ask(Monitor(), b"/api/v1/sessions", method="HEAD").status == 200


def test_health_before_and_after() -> None:
    """Healthy all the time, ready only while spans are taken."""
    assert ask(Monitor(), b"/-/healthy", ready=False).status == 200
    assert ask(Monitor(), b"/-/ready", ready=False).status == 503
    assert ask(Monitor(), b"/-/ready").status == 200


def test_texts_that_are_no_unicode() -> None:
    """Half a surrogate pair in an argument does not hide the other sessions."""
    monitor = Monitor(limits=Limits(keep_arguments=True))
    monitor.observe(call("good"), 5)
    said = {"half": "\ud800", "real": float("nan")}
    monitor.observe(call("bad", number=1)._replace(arguments=said), 5)

    assert names(ask(monitor, b"/api/v1/sessions")) == ["bad", "good"]
    (found,) = ask(monitor, b"/api/v1/sessions/bad").json()["sessions"]
    assert found["steps"][0]["arguments"] == {"half": "?", "real": None}


def test_hostile_text_stays_data() -> None:
    """JSON that no browser takes for a page, and caches do not keep."""
    answer = ask(filled("<script>alert(1)</script>\x1b"), b"/api/v1/sessions")

    assert answer.headers[b"content-type"] == b"application/json"
    assert answer.headers[b"x-content-type-options"] == b"nosniff"
    assert answer.headers[b"cache-control"] == b"no-store"
    assert b"\x1b" not in answer.body


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (b"tool=TWO", ["b"]),
        (b"q=two", ["b"]),
        (b"agent=first", ["a"]),
        (b"since=500", ["c"]),
        (b"until=200", ["a"]),
        (b"only=ended", []),
        (b"reason=forbidden", []),
        (b"mode=page", []),
        (b"steps=1&agent=", ["c", "b", "a"]),
    ],
)
def test_judgements_are_filtered_as_summaries_are(query: bytes, found: list[str]) -> None:
    """The list of whole judgements takes the filters of the list of summaries."""
    monitor = Monitor()
    for number, (session, tool) in enumerate((("a", "one"), ("b", "two"), ("c", "one"))):
        made = call(session, number=number * 300 + 100)
        monitor.observe(made._replace(tool=tool, agent="first" if session == "a" else ""), 5)

    assert names(ask(monitor, b"/api/v1/sessions", query)) == found


@pytest.mark.parametrize(
    ("path", "query", "problem"),
    [
        (b"/api/v1/sessions", b"limt=3", "unknown parameter `limt`: did you mean `limit`?"),
        (b"/api/v1/sessions", b"order=harm", "unknown parameter `order`"),
        (b"/api/v1/sessions", b"steps=2", "steps must be 0 or 1"),
        (b"/api/v1/sessions", b"mode=pages", "mode must be one of shadow, page"),
        (b"/api/v1/sessions/a", b"name_space=x", "did you mean `namespace`?"),
        (b"/api/v1/seen", b"agent=a", "unknown parameter `agent`: this path takes none"),
    ],
)
def test_an_unknown_parameter_is_refused(path: bytes, query: bytes, problem: str) -> None:
    """400 names the parameter, and the one that was probably meant."""
    answer = ask(filled("a"), path, query)

    assert answer.status == 400
    assert problem in answer.json()["error"]


def test_an_unknown_parameter_is_repeated_in_part() -> None:
    """A name of a thousand letters makes no long answer."""
    answer = ask(filled("a"), b"/api/v1/seen", b"x" * 1_000 + b"=1")

    assert answer.status == 400
    assert len(answer.body) < 200


def test_a_traces_id_leads_to_its_sessions() -> None:
    """By its path and in a search, but for a session that has this id itself."""

    def follow(trace: str, namespace: str | None) -> list[SessionKey]:
        known = [SessionKey("", "one"), SessionKey("", "two")]
        return known if trace in ("0af7", "three") and not namespace else []

    monitor = filled("one", "two", "three")
    sessions = b"/api/v1/sessions"
    assert names(ask(monitor, sessions + b"/0af7", follow=follow)) == ["one", "two"]
    assert names(ask(monitor, sessions + b"/three", follow=follow)) == ["three"]
    assert names(ask(monitor, sessions, b"q=0AF7", follow=follow)) == ["two", "one"]
    assert ask(monitor, sessions + b"/0af7", b"namespace=acme", follow=follow).status == 404
    assert ask(monitor, sessions + b"/0af7").status == 404
