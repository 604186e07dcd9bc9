"""The listener of decisions, over real sockets: paths, methods, guards, tokens, limits, hostile input."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from collector.calls.pipeline import Pipeline
from collector.decide.endpoint import DecideApp
from collector.decide.service import DecideService
from collector.net.host_guard import HostGuard
from collector.receive.admission import Admission
from collector.receive.bearer_tokens import Tokens
from collector.receive.listener.listener import Listener
from collector.receive.rate_limits import RateLimit, RateLimits
from collector.receive.status_codes import ExportStatus, Refusal
from collector.telemetry.clock import now_ns
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor
from tests.end_to_end.service import eventually

LIMIT = 64 << 10
ASK = {"session": "s", "tool": "pay", "arguments": {}}


class Server:
    """A listener with an event loop in its own thread."""

    def __init__(self, **admission: Any) -> None:
        self.stats = Stats()
        self.monitor = Monitor(limits=Limits(history_complete=True))
        self.pipeline = Pipeline(self.monitor, self.stats, lambda _: None)
        self.decisions = DecideService(self.pipeline, self.monitor, now_ns)
        self.faults: list[Exception] = []
        self.admission = Admission(4 * LIMIT, **admission)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        guard = HostGuard("127.0.0.1:0", setting="decide.names", addresses=True)
        self.app = DecideApp(
            self.decisions, self.stats, self._fault, LIMIT, self.admission, guard
        )
        self.listener = Listener(self.app, "127.0.0.1:0", name="decide")
        self.address: str = self.run(self.listener.start())

    def _fault(self, error: Exception) -> Refusal:
        self.faults.append(error)
        return Refusal(ExportStatus.INTERNAL, "internal error")

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    def call(self, work: Callable[[], Any]) -> Any:
        """Does something on the server's own thread."""

        async def do() -> Any:
            return work()

        return self.run(do())

    def ask(
        self,
        body: Any = None,
        path: str = "/api/v1/decide",
        method: str = "POST",
        **headers: str,
    ) -> tuple[int, dict[str, str], Any]:
        """Status, headers and JSON of one request on a connection of its own."""
        connection = http.client.HTTPConnection(self.address, timeout=20)
        sent = {"Content-Type": "application/json"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            text = answer.read()
            found = {name.lower(): value for name, value in answer.getheaders()}
            is_json = found.get("content-type") == "application/json"
            return answer.status, found, json.loads(text) if is_json and text else text
        finally:
            connection.close()

    def raw(self) -> socket.socket:
        """A connection to write bytes to."""
        host, port = self.address.rsplit(":", 1)
        made = socket.create_connection((host, int(port)), timeout=20)
        return made

    def close(self) -> None:
        self.run(self.listener.stop(2))
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.close()


@pytest.fixture
def serving() -> Iterator[Callable[..., Server]]:
    """Starts servers with admissions of their own."""
    running: list[Server] = []

    def start(**admission: Any) -> Server:
        running.append(Server(**admission))
        return running[-1]

    yield start
    for each in running:
        each.close()


def test_a_question_is_answered(server: Server) -> None:
    """A call without a spec is allowed, and committed under an id."""
    status, headers, found = server.ask(ASK)

    assert (status, headers["content-type"]) == (200, "application/json")
    assert (found["decision"], found["committed"], found["session"]) == ("allow", True, "s")
    assert found["decision_id"]


def test_an_outcome_is_taken(server: Server) -> None:
    """Known, unknown and contradicted decisions have statuses of their own."""
    decision_id = server.ask(ASK)[2]["decision_id"]

    def tell(outcome: str, of: str = decision_id) -> tuple[int, Any]:
        status, _, found = server.ask(
            {"decision_id": of, "outcome": outcome}, "/api/v1/outcome"
        )
        return status, found

    assert tell("ran") == (200, {"decision_id": decision_id, "outcome": "ran", "known": True})
    assert tell("ran")[0] == 200
    assert tell("skipped")[0] == 409
    assert tell("ran", decision_id + "0")[0] == 404
    assert tell("ran", "no id")[0] == 404
    assert tell("perhaps")[0] == 400


def test_late_outcomes_wait_for_each_other(server: Server) -> None:
    """An outcome that has other calls judged again waits for its turn; one that comes in order is taken at once."""
    group = {"session": "late", "calls": [{"tool": "a"}, {"tool": "b"}]}
    first, second = (each["decision_id"] for each in server.ask(group)[2]["decisions"])

    def tell(of: str) -> int:
        return server.ask({"decision_id": of, "outcome": "ran"}, "/api/v1/outcome")[0]

    server.run(server.app.large.acquire())
    with ThreadPoolExecutor(1) as other:
        assert tell(first) == 200
        waiting = other.submit(tell, second)
        for number in range(3):
            asked = {"session": f"in order {number % 2}", "tool": "pay"}
            assert tell(server.ask(asked)[2]["decision_id"]) == 200
        assert not waiting.done()
        server.call(server.app.large.release)
        assert waiting.result(20) == 200


def test_a_batch_is_answered_in_order(server: Server) -> None:
    """One decision for each call, each with an id of its own."""
    body = {"session": "batch", "calls": [{"tool": "a"}, {"tool": "b"}, {"tool": "c"}]}
    _, _, found = server.ask(body)

    ids = [each["decision_id"] for each in found["decisions"]]
    assert len(set(ids)) == 3
    assert ids == sorted(ids)


def test_a_question_without_commit_has_no_id(server: Server) -> None:
    """Nothing can be told of a call that was only asked about."""
    _, _, found = server.ask({**ASK, "commit": False})

    assert (found["decision_id"], found["committed"]) == ("", False)


def test_healthy(server: Server) -> None:
    """The listener says that it answers, to GET and HEAD."""
    status, headers, body = server.ask(None, "/-/healthy", "GET")

    assert (status, body, headers["content-type"].split(";")[0]) == (200, b"ok\n", "text/plain")
    assert server.ask(None, "/-/healthy", "HEAD")[0] == 200
    assert server.ask(ASK, "/-/healthy")[0] == 405


REFUSED: list[tuple[dict[str, Any], int]] = [
    ({"path": "/api/v1/other"}, 404),
    ({"path": "/v1/traces"}, 404),
    ({"method": "GET", "body": None}, 405),
    ({"method": "PUT"}, 405),
    ({"Content_Type": "text/plain"}, 415),
    ({"Content_Type": "application/x-protobuf"}, 415),
    ({"Content_Encoding": "gzip"}, 415),
    ({"Origin": "https://evil.example"}, 403),
    ({"Host": "evil.example"}, 403),
    ({"body": b"{"}, 400),
    ({"body": b"x" * (LIMIT + 1)}, 413),
]


@pytest.mark.parametrize(("sent", "status"), REFUSED)
def test_what_is_refused_says_why(server: Server, sent: dict[str, Any], status: int) -> None:
    """Every refusal is JSON with an error, and nothing of it is committed."""
    before = len(server.pipeline.decided)
    found, headers, body = server.ask(**{"body": ASK, **sent})

    assert (found, headers["content-type"]) == (status, "application/json")
    assert body["error"]
    assert len(server.pipeline.decided) == before
    if status == 405:
        assert headers["allow"] == "POST"


def test_a_media_type_may_have_parameters(server: Server) -> None:
    """`application/json; charset=utf-8` is JSON."""
    assert server.ask(ASK, Content_Type="Application/JSON; charset=utf-8")[0] == 200


def test_an_error_of_ours_is_answered_and_harms_no_other(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault while deciding is a 500 without its text; the next question is answered."""

    def broken(*_: Any, **__: Any) -> Any:
        raise KeyError("secret")

    monkeypatch.setattr("collector.decide.service.read_question", broken)  # never compiled
    status, _, found = server.ask(ASK)
    monkeypatch.undo()

    assert (status, found) == (500, {"error": "internal error"})
    assert [type(each) for each in server.faults] == [KeyError]
    assert server.ask(ASK)[0] == 200


def test_tokens_tell_tenants_apart(serving: Callable[..., Server], tmp_path: Path) -> None:
    """A token is needed; its name keeps decisions apart, whatever attribute a client gives."""
    file = tmp_path / "tokens"
    file.write_text("a: first\nb: second\n")
    server = serving(tokens=Tokens(file, "decide.auth.bearer.tokens_file"))
    assert server.ask(ASK)[0] == 401
    assert server.ask(ASK, Authorization="Bearer wrong")[0] == 401

    forged = {**ASK, "attributes": {"offrails.sender": "b"}}
    status, _, found = server.ask(forged, Authorization="Bearer first")
    told = {"decision_id": found["decision_id"], "outcome": "ran"}

    assert status == 200
    assert server.ask(told, "/api/v1/outcome", Authorization="Bearer second")[0] == 404
    assert server.ask(told, "/api/v1/outcome", Authorization="Bearer first")[0] == 200


def test_a_client_over_its_share_is_told_to_wait(
    serving: Callable[..., Server], tmp_path: Path
) -> None:
    """429 with Retry-After; the other client is answered."""
    file = tmp_path / "tokens"
    file.write_text("a: first\nb: second\n")
    stats = Stats()
    server = serving(
        tokens=Tokens(file, "decide.auth.bearer.tokens_file"),
        rate_limits=RateLimits(RateLimit(requests_per_second=1.0), stats.count),
    )
    answers = [server.ask(ASK, Authorization="Bearer first") for _ in range(4)]

    assert [status for status, _, _ in answers] == [200, 200, 429, 429]
    assert answers[-1][1]["retry-after"] == "1"
    assert server.ask(ASK, Authorization="Bearer second")[0] == 200


def test_a_full_service_answers_503(serving: Callable[..., Server]) -> None:
    """Where no request is let in any more, a client is told so at once."""
    server = serving(requests_max=1)
    half = server.raw()
    half.sendall(
        b"POST /api/v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: 100\r\n\r\n{"
    )
    eventually(lambda: server.call(lambda: server.admission.requests == 1))
    status, headers, found = server.ask(ASK)
    half.close()

    assert (status, headers["retry-after"]) == (503, "1")
    assert "try again" in found["error"]
    eventually(lambda: server.call(lambda: server.admission.requests == 0))
    assert server.ask(ASK)[0] == 200


def test_half_requests_hold_nothing(server: Server) -> None:
    """Clients that go in the middle of a question leave no place and no decided call."""
    before = len(server.pipeline.decided)
    for number in range(20):
        half = server.raw()
        half.sendall(
            b"POST /api/v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: 50\r\n\r\n" + b'{"session": "s"'[:number]
        )
        half.close()
    assert server.ask(b"{}")[0] == 400  # connections are taken in their order: all 20 were
    held = server.admission
    eventually(
        lambda: server.call(
            lambda: not (held.requests or held.bytes or server.listener.connections)
        )
    )

    assert len(server.pipeline.decided) == before


def test_requests_that_follow_at_once_are_answered_in_order(server: Server) -> None:
    """Fifty questions in one write: fifty answers, in their order."""
    body = b"".join(
        b"POST /api/v1/decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(each), each)
        for each in (
            json.dumps({"session": "line", "tool": f"t{number}"}).encode()
            for number in range(50)
        )
    )
    with server.raw() as line:
        line.sendall(body)
        found = b""
        while found.count(b'"session":"line"') < 50:
            piece = line.recv(65_536)
            assert piece
            found += piece
    ids = [part.split(b'"')[0] for part in found.split(b'"decision_id":"')[1:]]

    assert len(ids) == 50
    numbers = [int(each.split(b"-")[1], 16) for each in ids]
    assert numbers == sorted(numbers)


def test_metrics_count_what_was_answered(serving: Callable[..., Server]) -> None:
    """Decisions by spec, answers by status, and the time of those that were answered."""
    server = serving()
    server.ask(ASK)
    server.ask({**ASK, "tool": ""})
    server.ask(None, "/-/healthy", "GET")

    found = server.call(
        lambda: {each.name: dict(each.values) for each in server.decisions.readings()}
    )
    assert found["decisions"]["allow", ""] == 1
    assert found["decisions"]["deny", ""] == 0
    assert found["decision_requests"] == {("200",): 1, ("400",): 1, ("503",): 0}
    assert found["decision_seconds"][()].count == 1
    assert found["decided_calls"][()] == 1
