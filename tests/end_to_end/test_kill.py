"""A service with a journal is killed under load, over gRPC and HTTP; its senders send again."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from functools import partial
from http.client import HTTPException
from pathlib import Path
from random import Random
from typing import Any

import grpc
import pytest

from tests.collector.state.life import body_of
from tests.end_to_end.loopback import free_port
from tests.end_to_end.service import Service, eventually, request
from tests.simulation.exporter import Road, deliver
from tests.simulation.world import World

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
SECOND = 1_000_000_000
RETRY_SECONDS = 0.05
GIVE_UP_SECONDS = 240
RECOVERED_SECONDS = 120
SESSIONS = {2: 15, 5: 40, 50: 40}
"""Begun in a round, by rounds."""
WINDOW_SECONDS = {2: 20, 5: 60, 50: 120}
"""By rounds: no restart takes as long, so that no call is late."""
SENDERS = ("grpc", "http", "grpc", "http")
SPEC = """
id: orders
kind: task
mode: page
match: {service.name: shop}
alphabet:
  look: {tool: look}
  pick: {tool: pick, arguments: {item: {any: true}}}
  pay: {tool: pay, arguments: {amount: {max: 10}}}
  pay_much: {tool: pay, arguments: {amount: {min: 11}}}
  approve: {tool: approve}
  ship: {tool: ship}
golden: [[pick, pay, ship], [pick, approve, pay_much, ship]]
reads: [look]
"""
COMPARED = (
    "offrails_harmful_calls_total",
    "offrails_sessions_started_total",
    "offrails_sessions_active",
    "offrails_harm_rate",
    "offrails_prefix_crit",
    "offrails_harmful_calls_per_session",
    "offrails_session_score_window_calls",
)
SUMMED = ("offrails_calls_total", "offrails_tool_calls_total")
"""Counted by what was known when a call came: by its first verdict, and its agent of then."""
OFTEN = "0.1"
"""Seconds between two snapshots."""
OWN = frozenset({"unless_began_before", "coverage"})
"""Of a judgement object: what depends on when the service started, and on how often spans were sent."""


class Senders:
    """Sends each body to a service that is never killed, and to one that is, until both have taken it.

    Args:
        services: their addresses, by transport.
    """

    def __init__(self, services: Sequence[dict[str, str]]) -> None:
        self._services = services
        self._bodies: queue.Queue[bytes] = queue.Queue()
        self.sent = 0
        self.retries = 0
        self.failed: list[str] = []
        self._threads = [
            threading.Thread(target=self._run, args=(name,), daemon=True) for name in SENDERS
        ]
        for thread in self._threads:
            thread.start()

    def send(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            self._bodies.put(body)

    def have_sent(self, count: int) -> bool:
        return self.sent >= count

    def wait(self) -> None:
        """Until all is acknowledged."""
        self._bodies.join()
        assert not self.failed

    def _run(self, transport: str) -> None:
        while True:
            body = self._bodies.get()
            for addresses in self._services:
                self._deliver(addresses[transport], transport, body)
            self.sent += 1
            self._bodies.task_done()

    def _deliver(self, address: str, transport: str, body: bytes) -> None:
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while not (_grpc if transport == "grpc" else _http)(address, body):
            self.retries += 1
            if time.monotonic() > deadline:
                self.failed.append(address)
                return
            time.sleep(RETRY_SECONDS)


def _http(address: str, body: bytes) -> bool:
    try:
        reply = request(
            address, "POST", "/v1/traces", body, {"content-type": "application/x-protobuf"}
        )
    except (OSError, HTTPException):
        return False
    return reply.status == 200


def _grpc(address: str, body: bytes) -> bool:
    with grpc.insecure_channel(address) as channel:
        try:
            channel.unary_unary(EXPORT, _as_it_is, _as_it_is)(body, timeout=10)
        except grpc.RpcError:
            return False
    return True


def _as_it_is(body: bytes) -> bytes:
    return body


class Killed:
    """A service with a journal that is killed and started again, at the same addresses."""

    def __init__(self, folder: Path, spec: Path, **variables: str) -> None:
        names = ("GRPC", "HTTP", "METRICS", "ADMIN")
        places = {f"OFFRAILS_{name}": f"127.0.0.1:{free_port()}" for name in names}
        self.variables = places | variables
        self._arguments = ("--specs", str(spec), "--state", str(folder))
        self.service = self._start()

    def _start(self) -> Service:
        service = Service(self._arguments, self.variables)
        try:
            return service.wait_ready(RECOVERED_SECONDS)
        except AssertionError:
            service.kill()
            raise

    def kill(self) -> None:
        """kill -9, and a new process."""
        self.service.kill()
        self.service = self._start()


def _bodies(chance: Random, number: int, sessions: int) -> list[bytes]:
    """Requests of some sessions that go on now."""
    world, now = World(chance), time.time_ns()
    spans = []
    for each in range(sessions):
        begin = now + chance.randrange(SECOND)  # after the start of both services
        spans += world.session(f"r{number}-s{each}", begin, "shop").spans
    road = Road(delay_ns=SECOND, batch_max=20)
    return [body_of(found.spans) for found in deliver(spans, road, chance)]


def _objects(service: Service) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (each["session"], each["spec"]): {k: v for k, v in each.items() if k not in OWN}
        for each in service.judgements()
    }


def _differs(found: dict[str, Any] | None, true: dict[str, Any]) -> dict[str, Any] | None:
    """What differs, by field; None if nothing does."""
    found = found or {}
    return {k: (found.get(k), true[k]) for k in true if found.get(k) != true[k]} or None


def _figures(service: Service) -> dict[Any, float]:
    found = service.metrics()
    sums = {name: sum(n for key, n in found.items() if key[0] == name) for name in SUMMED}
    # Which agents have a pair with nothing in it depends on the order of arrival, which differs.
    return {key: round(n, 12) for key, n in found.items() if key[0] in COMPARED and n} | sums


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    file = tmp_path / "orders.yaml"
    file.write_text(SPEC)
    return file


@pytest.mark.timeout(3000)
@pytest.mark.parametrize(
    ("rounds", "durability", "snapshots"),
    [
        (2, "process", OFTEN),
        pytest.param(2, "process", "60", marks=pytest.mark.long),
        pytest.param(50, "process", "0", marks=pytest.mark.long),
        pytest.param(50, "process", OFTEN, marks=pytest.mark.long),
        pytest.param(5, "power", "1", marks=pytest.mark.long),
    ],
)
def test_what_was_acknowledged_survives(
    rounds: int, durability: str, snapshots: str, spec: Path, tmp_path: Path
) -> None:
    """However often it is killed under load, its judgements and metrics are those of one that never was.

    With a snapshot every tenth of a second, it is also killed while one is written, and each second time behind one.
    """
    chance = Random(rounds)
    # The time since the start of a service, in which the two differ, changes nothing.
    times = {
        "OFFRAILS_SESSIONS_WINDOW_SECONDS": str(WINDOW_SECONDS[rounds]),
        "OFFRAILS_HISTORY": "complete",
    }
    undisturbed = Service(("--specs", str(spec)), times)
    killed = Killed(
        tmp_path / "state",
        spec,
        OFFRAILS_STATE_DURABILITY=durability,
        OFFRAILS_STATE_SNAPSHOT_SECONDS=snapshots,
        OFFRAILS_STATE_BRIDGED_SECONDS=str(GIVE_UP_SECONDS),
        **times,
    )
    undisturbed.wait_ready()
    senders = Senders([undisturbed.addresses, killed.service.addresses])
    try:
        for number in range(rounds):
            bodies = _bodies(chance, number, SESSIONS[rounds])
            until = senders.sent + chance.randrange(len(bodies) - 2 * len(SENDERS))
            senders.send(bodies)
            eventually(partial(senders.have_sent, until), GIVE_UP_SECONDS)
            if snapshots == OFTEN and number % 2:
                eventually(partial(_has_snapshot, killed.service))
            killed.kill()
            if snapshots == OFTEN and number % 2:
                [recovered] = killed.service.logged("state_recovered")
                assert recovered["snapshot"]
            senders.wait()
        assert senders.retries
        for service in (undisturbed, killed.service):
            eventually(partial(_is_settled, service), 3 * WINDOW_SECONDS[rounds])
        found, true = _objects(killed.service), _objects(undisturbed)
        differing = {key: diff for key in true if (diff := _differs(found.get(key), true[key]))}
        assert not differing, killed.service.events("state_recovered")
        assert found.keys() == true.keys()
        assert _figures(killed.service) == _figures(undisturbed)
    finally:
        killed.service.kill()
        undisturbed.kill()


def _has_snapshot(service: Service) -> bool:
    return service.metric("offrails_snapshots_total", result="ok") > 0


def _is_settled(service: Service) -> bool:
    """True once every verdict is final, also those on harmless calls, which no counter shows."""
    found = service.judgements()
    harmful: int = sum(each["harmful"] or 0 for each in found)
    return all(step["final"] for each in found for step in each["steps"]) and (
        service.metric("offrails_harmful_calls_total") == harmful
    )
