"""Two monitors behind a real Collector with the configuration that is shipped: no session is torn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.end_to_end.alerting import Daemon
from tests.end_to_end.deploy_tools import built
from tests.end_to_end.loopback import free_port
from tests.end_to_end.service import Service, eventually, request
from tests.end_to_end.traffic import ROVER, Rover, as_proto

FILE = Path(__file__).parents[2] / "deploy" / "otelcol" / "route-by-session.yaml"
SESSIONS = 8
"""Of each kind: that all of them go to one of two monitors by chance happens once in 128 times, and
the ids are always the same."""
KEYS = ("session.id", "langfuse.session.id", "thread_id")


class Routed(NamedTuple):
    """The Collector's OTLP/HTTP address, and the monitors behind it."""

    address: str
    monitors: Sequence[Service]

    def send(self, made: Rover, *parts: slice, resource: dict[str, Any] | None = None) -> None:
        """Sends a session's spans, each part in a request of its own."""
        for part in parts:
            body = as_proto(made.spans[part], resource or ROVER)
            headers = {"content-type": "application/x-protobuf"}
            assert request(self.address, "POST", "/v1/traces", body, headers).status == 200

    def calls(self, session: str) -> list[int]:
        """How many calls of the session each monitor has."""
        return [
            sum(
                found["calls"]
                for found in monitor.judgements(session)
                if found["spec"] == "farm_rover"
            )
            for monitor in self.monitors
        ]

    def whole(self, session: str, calls: int) -> int:
        """Which monitor has the session with all its calls; the other has none."""

        def all_calls() -> list[int] | None:
            now = self.calls(session)
            return now if sum(now) >= calls else None

        found = eventually(all_calls)
        assert sorted(found) == [0, calls], session
        return found.index(calls)


@pytest.fixture(scope="module")
def routed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Routed]:
    program = built("otelcol")
    folder = tmp_path_factory.mktemp("routed")
    started = [Service(variables={"OFFRAILS_HISTORY": "complete"}) for _ in range(2)]
    try:
        monitors = [each.wait_ready() for each in started]
        config = yaml.safe_load(FILE.read_text())
        addresses = [each.addresses["grpc"] for each in monitors]
        address = f"127.0.0.1:{free_port()}"
        config["receivers"]["otlp"]["protocols"] = {"http": {"endpoint": address}}
        exporter = config["exporters"]["load_balancing"]
        exporter["resolver"] = {"static": {"hostnames": addresses}}
        config["service"]["telemetry"] = {"metrics": {"level": "none"}}
        file = folder / "route-by-session.yaml"
        file.write_text(yaml.safe_dump(config))
        log = folder / "collector.log"
        daemon = Daemon(program, log, f"--config={file}")
        try:
            eventually(lambda: "Everything is ready" in log.read_text(), 30)
            yield Routed(address, monitors)
        finally:
            daemon.stop()
    finally:
        for each in started:
            each.kill()


def test_an_id_on_the_root_alone_routes_the_trace(routed: Routed) -> None:
    """The tools' spans have no id and come in a request before their root's: one monitor has them all."""
    sessions = []
    for number in range(SESSIONS):
        made = (
            Rover(f"on-root-{number}", 100 + number, told_on="root")
            .calls("move", "scan")
            .root()
        )
        routed.send(made, slice(2), slice(2, None))
        sessions.append(made.session)
    assert {routed.whole(session, 2) for session in sessions} == {0, 1}


@pytest.mark.parametrize("key", KEYS)
def test_every_key_of_a_session_routes(routed: Routed, key: str) -> None:
    """Two turns of a session, each a trace, meet at one monitor by whatever key names it."""
    sessions = []
    for number in range(SESSIONS):
        session, turns = f"{key}-{number}", 1_000 * (KEYS.index(key) + 1) + 2 * number
        for turn in range(2):
            made = Rover(session, turns + turn, told_on="root")
            named: dict[str, Any] = {key: session}
            made.call("move", {}, **named).call("scan", {})
            routed.send(made, slice(None))
        sessions.append(session)
    assert {routed.whole(session, 4) for session in sessions} == {0, 1}


def test_the_id_of_a_process_routes_what_has_no_other(routed: Routed) -> None:
    """A span's own id takes precedence over its resource's; a masked id counts as none."""
    sessions = []
    hidden: dict[str, Any] = {"gen_ai.conversation.id": "__REDACTED__"}
    for number in range(SESSIONS):
        session = f"process-{number}"
        resource = {**ROVER, "session.id": session}
        for turn in range(2):
            made = Rover(session, 8_000 + 2 * number + turn, told_on="root")
            made.call("move", {}, **hidden)
            routed.send(made, slice(None), resource=resource)
        sessions.append(session)
    assert {routed.whole(session, 2) for session in sessions} == {0, 1}
