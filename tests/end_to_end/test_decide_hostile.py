"""Hostile clients of the listener for decisions, while a good agent is answered and its spans are counted.

How long the agent waits is measured in CPU time of the service, which is busy all the while: what else runs on the
machine does not count.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.conformance.target import JSON, Target
from tests.end_to_end.certificates import authority, have_openssl, issue
from tests.end_to_end.decide_floods import BAD, CHAIN, FLOODS, GOOD, SPECS, head, whole
from tests.end_to_end.service import eventually
from tests.end_to_end.test_connection_floods import beside, connect, sending
from tests.end_to_end.traffic import Sent, as_json

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve
    from tests.end_to_end.service import Service

CALLS: Final = 2
"""Of the good agent, each with three requests."""
LONGEST_SECONDS: Final = 0.3
"""CPU time of the service between a request and its answer."""
HOSTILE: Final = 4
"""Clients at a time."""
SETTLING: Final = 24
"""Clients that tell outcomes."""
OUTCOMES: Final = 4 * SETTLING
"""Told before the good agent begins."""
SLOW: Final = 60
"""Connections whose bodies do not come, or come slowly."""


@pytest.fixture
def service(serve: Serve, tmp_path: Path) -> Service:
    """A service with two tenants, `good` and `bad`."""
    for name, text in SPECS.items():
        (tmp_path / name).write_text(text)
    tokens = tmp_path / "tokens"
    tokens.write_text(f"good: {GOOD}\nbad: {BAD}\n")
    return serve(
        "--specs",
        str(tmp_path),
        OFFRAILS_HISTORY="complete",
        OFFRAILS_RECEIVER_AUTH_BEARER_TOKENS_FILE=str(tokens),
    )


# --- the good agent -------------------------------------------------------------------------------


class Agent:
    """Asks before each call, tells what became of it, and exports its span.

    Args:
        service: answers.
    """

    def __init__(self, service: Service) -> None:
        self.calls = 0
        self.longest = 0.0
        self._pid = service.process.pid
        self._decide = Target(http=service.addresses["decide"], token=GOOD)
        self._receiver = Target(http=service.addresses["http"], token=GOOD)

    def work(self) -> None:
        """Makes its calls; then it asks for one that is harmful."""
        asking = self._decide.connection()

        def ask(path: str, body: Any) -> dict[str, Any]:
            began = cpu_seconds(self._pid)
            reply = self._decide.request(
                json.dumps(body).encode(), JSON, path=path, connection=asking
            )
            self._took(began)
            assert reply.status == 200, reply
            found: dict[str, Any] = json.loads(reply.body)
            return found

        for _ in range(CALLS):
            self.calls += 1
            call = {"tool": "look", "arguments": {"n": self.calls}, "call_id": f"c{self.calls}"}
            found = ask("/api/v1/decide", {"session": "s", "service": "shop", **call})
            assert (found["decision"], found["committed"]) == ("allow", True)
            ask("/api/v1/outcome", {"decision_id": found["decision_id"], "outcome": "ran"})
            began = cpu_seconds(self._pid)
            reply = self._receiver.request(self._span(), JSON)
            self._took(began)
            assert reply.status == 200, reply
        denied = ask("/api/v1/decide", {"session": "s", "service": "shop", "tool": "pay"})
        assert (denied["decision"], denied["skipped"]) == ("deny", ["approve"])
        asking.close()

    def _took(self, began: float) -> None:
        self.longest = max(self.longest, cpu_seconds(self._pid) - began)

    def _span(self) -> bytes:
        now = time.time_ns()
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "look",
            "gen_ai.tool.call.id": f"c{self.calls}",
            "gen_ai.tool.call.arguments": json.dumps({"n": self.calls}),
            "gen_ai.conversation.id": "s",
        }
        span = Sent(
            os.urandom(16), os.urandom(8), "execute_tool look", now, now + 1, attributes
        )
        return as_json([span], resource={"service.name": "shop"})


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def check(service: Service, agent: Agent) -> None:
    """It was answered in time; its calls and nobody else's are in its session, each once."""
    assert agent.longest < LONGEST_SECONDS
    (judgement,) = service.judgements("s", namespace="good")
    assert (judgement["calls"], judgement["harmful"]) == (agent.calls, 0)
    assert service.metric("offrails_internal_errors_total") == 0


# --- hostile clients ------------------------------------------------------------------------------


SAMPLE: Final = (
    "wrong tokens",
    "many arguments",
    "deep JSON",
    "chained calls that go ahead",
)
"""Refused at the door, read and kept, refused as it is read, and judged; all floods are in `make test-long`."""


@pytest.mark.parametrize(
    "name",
    [each if each in SAMPLE else pytest.param(each, marks=pytest.mark.long) for each in FLOODS],
)
def test_a_flood_of_questions_holds_nobody_up(service: Service, name: str) -> None:
    """While four clients send one as fast as they can, a good agent is answered within 300 ms of work."""
    flood, code = FLOODS[name]
    agent = Agent(service)
    with beside(sending(service.addresses["decide"], flood), HOSTILE):
        eventually(lambda: service.metric("offrails_decision_requests_total", code=code) > 0)
        agent.work()
    check(service, agent)


# --- outcomes -------------------------------------------------------------------------------------


def settling(address: str, settled: Counter[int]) -> Callable[[threading.Event], None]:
    """Asks about a group of parallel calls of its own session, then says of each call that it ran, all in one go; and so on."""
    numbers = count()

    def work(stop: threading.Event) -> None:
        session, asking = f"x{next(numbers)}", Target(http=address, token=BAD).connection()
        while not stop.is_set():
            asking.request("POST", "/api/v1/decide", _group(session), _JSON)
            found = json.loads(asking.getresponse().read())["decisions"]
            told = [each["decision_id"] for each in found if each["committed"]]
            with connect(address) as connection:
                connection.sendall(b"".join(map(_ran, told)))
                _read_answers(connection, len(told), settled, stop)
        asking.close()

    return work


_JSON: Final = {"Content-Type": "application/json", "Authorization": f"Bearer {BAD}"}


def _group(session: str) -> bytes:
    """64 parallel calls of tools that depend on each other, in any order."""
    tools = [f"t{random.randrange(CHAIN)}" for _ in range(64)]
    calls = [{"tool": tool, "arguments": {"n": place}} for place, tool in enumerate(tools)]
    return json.dumps({"session": session, "service": "chain", "calls": calls}).encode()


def _ran(decision_id: str) -> bytes:
    body = json.dumps({"decision_id": decision_id, "outcome": "ran"}).encode()
    return whole(body, path="/api/v1/outcome")


def _read_answers(
    connection: socket.socket, number: int, settled: Counter[int], stop: threading.Event
) -> None:
    connection.settimeout(0.2)
    found, answers = bytearray(), 0
    while answers < number and not stop.is_set():
        with contextlib.suppress(TimeoutError):
            found += connection.recv(1 << 16)
        before, answers = answers, found.count(b"HTTP/1.1 200")
        settled[200] += answers - before


@pytest.mark.timeout(120)
def test_a_flood_of_outcomes_holds_nobody_up(service: Service) -> None:
    """While many clients say of parallel calls that they ran, a good agent is answered as quickly."""
    agent, settled = Agent(service), Counter[int]()
    with beside(settling(service.addresses["decide"], settled), SETTLING):
        eventually(lambda: settled[200] > OUTCOMES)
        agent.work()
    check(service, agent)


@contextlib.contextmanager
def half_requests(address: str) -> Iterator[None]:
    """Connections with a head, and a body that does not come."""
    with contextlib.ExitStack() as stack:
        for _ in range(SLOW):
            stack.enter_context(connect(address)).sendall(head(100) + b'{"session":')
        yield


@contextlib.contextmanager
def slow_bodies(address: str) -> Iterator[None]:
    """Connections with a body that comes byte by byte."""

    def drip(stop: threading.Event, connections: list[socket.socket]) -> None:
        while not stop.wait(0.02):
            for each in connections:
                with contextlib.suppress(OSError):
                    each.sendall(b" ")

    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connect(address)) for _ in range(SLOW)]
        for each in connections:
            each.sendall(head(1_000_000))
        with beside(lambda stop: drip(stop, connections), 1):
            yield


@contextlib.contextmanager
def gone_clients(address: str) -> Iterator[None]:
    """Clients that reset their connection in the middle of a question, one after the other."""

    def work(stop: threading.Event) -> None:
        while not stop.is_set():
            with connect(address) as connection:
                linger = b"\x01\0\0\0\0\0\0\0"  # on, for no time: a reset
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                connection.sendall(head(100) + b'{"session":')

    with beside(work, HOSTILE):
        yield


@pytest.mark.parametrize("hostile", [half_requests, slow_bodies, gone_clients])
def test_questions_that_do_not_end_hold_nobody_up(
    service: Service, hostile: Callable[[str], contextlib.AbstractContextManager[None]]
) -> None:
    """Beside questions that never end, a good agent is answered at once; nothing of them is decided."""
    agent = Agent(service)
    with hostile(service.addresses["decide"]):
        agent.work()
    check(service, agent)
    assert service.metric("offrails_decisions_total") == agent.calls + 1


# --- certificates ---------------------------------------------------------------------------------


def test_only_clients_with_a_certificate_decide(serve: Serve, tmp_path: Path) -> None:
    """With a client authority, strangers, clients without a certificate and plain text get no answer."""
    if not have_openssl():
        pytest.skip("the openssl program makes the certificates")
    signer = authority(tmp_path)
    server, client = issue(signer, tmp_path, "server"), issue(signer, tmp_path, "client")
    stranger = issue(authority(tmp_path, "other"), tmp_path, "stranger")
    spec = tmp_path / "shop.yaml"
    spec.write_text(SPECS["shop.yaml"])
    service = serve(
        "--specs",
        str(spec),
        OFFRAILS_HISTORY="complete",
        OFFRAILS_DECIDE_TLS_CERT=str(server.cert),
        OFFRAILS_DECIDE_TLS_KEY=str(server.key),
        OFFRAILS_DECIDE_TLS_CLIENT_CA=str(signer.cert),
    )
    address = service.addresses["decide"]
    body = json.dumps({"session": "s", "service": "shop", "tool": "pay"}).encode()

    def ask(target: Target) -> dict[str, Any]:
        reply = target.request(body, JSON, path="/api/v1/decide")
        assert reply.status == 200, reply
        found: dict[str, Any] = json.loads(reply.body)
        return found

    known = Target(http=address, ca=signer.cert, cert=client.together())
    for cert in (None, stranger.together()):
        with pytest.raises(OSError):  # noqa: PT011 - an alert of TLS, a reset or an end
            ask(Target(http=address, ca=signer.cert, cert=cert))
    with pytest.raises((OSError, AssertionError)):
        ask(Target(http=address))
    assert service.metric("offrails_decisions_total") == 0
    assert ask(known)["decision"] == "deny"
    assert Target(http=service.addresses["http"]).request(b"{}", JSON).status == 200
