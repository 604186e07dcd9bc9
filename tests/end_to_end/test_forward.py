"""Next hops of a real process: what it does when it is told to stop, and when it is killed."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from tests.end_to_end.service import SPECS, Service, eventually, request
from tests.end_to_end.test_kill import GIVE_UP_SECONDS, SENDERS, Killed, Senders


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        self.connections: set[Any] = set()
        """Those that are open."""

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self.connections.discard(request)

    def handle_error(self, *_: Any) -> None:
        """A process that was killed leaves connections behind."""


class Hop:
    """A next hop over HTTP that takes requests, refuses them for now, or lets them wait, as the test says."""

    def __init__(self) -> None:
        self.got: list[bytes] = []
        """Bodies that were taken."""
        self.is_busy = False
        self.asked = 0
        self.free = threading.Event()
        """Answers wait until it is set."""
        self.free.set()
        self._server = _Server(self._handler())
        self._address = f"127.0.0.1:{self._server.server_address[1]}"
        self.url = f"http://{self._address}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def settle(self) -> None:
        """Waits until what a process that was killed had sent has its answer."""
        # Connections are accepted in turn: once this one is, no older one waits for that.
        assert request(self._address, "POST", "/", b"", {"connection": "close"}).status
        eventually(lambda: not self._server.connections)

    def close(self) -> None:
        self.free.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hop = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                hop.asked += 1
                hop.free.wait()
                is_busy = hop.is_busy
                if not is_busy:
                    hop.got.append(body)
                self.send_response(503 if is_busy else 200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


@pytest.fixture
def hop() -> Iterator[Hop]:
    made = Hop()
    yield made
    made.close()


def settings(folder: Path, **found: Any) -> Path:
    file = folder / "settings.yaml"
    file.write_text(yaml.safe_dump(found))
    return file


def body(number: int) -> bytes:
    return json.dumps({"resourceLogs": [], "number": number}).encode()


def start(folder: Path, hop: Hop, **more: Any) -> Service:
    given = {"forward": [{"endpoint": hop.url, "name": "hop"}], **more}
    config = settings(folder, specs=[str(SPECS)], **given)
    return Service(("--config", str(config))).wait_ready()


# --- SIGTERM -------------------------------------------------------------------------------------


def test_a_service_that_is_told_to_stop_sends_what_waits(tmp_path: Path, hop: Hop) -> None:
    """On SIGTERM the queue is sent within the grace, and nothing is lost."""
    hop.free.clear()
    service = start(tmp_path, hop)
    try:
        for number in range(100):
            assert service.post(body(number), path="/v1/logs").status == 200
        eventually(lambda: hop.asked)
        service.terminate()
        eventually(lambda: not _takes(service))
        hop.free.set()
        assert service.wait() == 0
        assert sorted(hop.got) == sorted(body(number) for number in range(100))
        assert not service.events("forward_undelivered")
    finally:
        service.kill()


def _takes(service: Service) -> bool:
    """True as long as it takes connections."""
    host, port = service.addresses["http"].split(":")
    try:
        socket.create_connection((host, int(port)), 5).close()
    except OSError:
        return False
    return True


def test_what_the_grace_does_not_suffice_for_is_logged(tmp_path: Path, hop: Hop) -> None:
    """A next hop that hangs holds up the end of the service no longer than `drain_seconds`; the log says what is lost."""
    hop.free.clear()
    service = start(tmp_path, hop, drain_seconds=0.5)
    try:
        for number in range(20):
            assert service.post(body(number), path="/v1/logs").status == 200
        assert service.stop() == 0
        (line,) = service.events("forward_undelivered")
        assert (line["destination"], line["requests"]) == ("hop", 20)
    finally:
        service.kill()


@pytest.mark.timeout(300)
def test_with_a_journal_the_next_process_sends_the_rest(tmp_path: Path, hop: Hop) -> None:
    """With `state`, what the grace does not suffice for is lost neither by SIGTERM nor by the start that follows."""
    hop.is_busy = True
    given = {"drain_seconds": 0.2, "state": {"dir": str(tmp_path / "state")}}
    service = start(tmp_path, hop, **given)
    try:
        for number in range(20):
            assert service.post(body(number), path="/v1/logs").status == 200
        assert service.stop() == 0
        assert not service.events("forward_undelivered")
        (line,) = service.events("forward_kept")
        assert line["requests"] == 20
        hop.is_busy = False
        service = start(tmp_path, hop, **given)
        eventually(lambda: len(hop.got) == 20, GIVE_UP_SECONDS)
        assert sorted(hop.got) == sorted(body(number) for number in range(20))
        assert service.stop() == 0
    finally:
        service.kill()


# --- kill -9 -------------------------------------------------------------------------------------


class Log:
    """Requests for logs, each like no other, sent until they are acknowledged."""

    def __init__(self, service: Killed) -> None:
        self._service = service
        self.sent = 0

    def send(self, count: int) -> None:
        for _ in range(count):
            reply = self._service.service.post(body(self.sent), path="/v1/logs")
            assert reply.status == 200
            self.sent += 1


def _killed(folder: Path, hops: Sequence[dict[str, Any]]) -> Killed:
    config = settings(folder, forward=list(hops))
    return Killed(
        folder / "state",
        SPECS / "farm_rover.yaml",
        OFFRAILS_CONFIG=str(config),
        OFFRAILS_STATE_BRIDGED_SECONDS=str(GIVE_UP_SECONDS),
    )


@pytest.mark.timeout(300)
def test_a_next_hop_that_was_down_gets_all_after_kills(tmp_path: Path, hop: Hop) -> None:
    """What was acknowledged while the next hop was down arrives after two kills; what was confirmed does not come again."""
    killed = _killed(tmp_path, [{"endpoint": hop.url, "name": "hop"}])
    log = Log(killed)
    try:
        log.send(50)
        eventually(lambda: len(hop.got) == 50)
        eventually(partial(_is_confirmed, killed, 50))
        hop.is_busy = True
        for _ in range(2):
            log.send(50)
            killed.kill()
        log.send(50)
        killed.service.kill()
        hop.settle()
        hop.is_busy = False
        killed.kill()
        eventually(lambda: len(hop.got) >= 200, GIVE_UP_SECONDS)
        eventually(partial(_is_confirmed, killed, 200))
        found = Counter(hop.got)
        assert set(found) == {body(number) for number in range(200)}
        assert set(found.values()) == {1}
    finally:
        killed.service.kill()


def _is_confirmed(killed: Killed, count: int) -> bool:
    found = killed.service.metric(
        "offrails_forward_requests_total", destination="hop", signal="logs", outcome="ok"
    )
    return found == count


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rounds", [2, pytest.param(50, marks=pytest.mark.long)])
def test_all_that_was_acknowledged_reaches_next_hops(
    rounds: int, tmp_path: Path, hop: Hop
) -> None:
    """However often it is killed under load, over both protocols, each acknowledged request reaches a next hop that is busy at times."""
    chance = Random(rounds)
    quick = Hop()
    killed = _killed(
        tmp_path,
        [{"endpoint": hop.url, "name": "hop"}, {"endpoint": quick.url, "name": "quick"}],
    )
    senders = Senders([killed.service.addresses])
    sent: set[bytes] = set()
    try:
        for number in range(rounds):
            bodies = [_span(1 + 1_000 * number + each) for each in range(200)]
            sent.update(bodies)
            until = senders.sent + chance.randrange(len(bodies) - 2 * len(SENDERS))
            hop.is_busy = chance.random() < 0.5
            senders.send(bodies)
            eventually(partial(senders.have_sent, until), GIVE_UP_SECONDS)
            killed.kill()
            senders.wait()
        hop.is_busy = False
        for each in (hop, quick):
            eventually(partial(_has, each, sent), 2 * GIVE_UP_SECONDS)
        assert not killed.service.metric("offrails_forward_dropped_total")
        # Twice comes what was on its way when a process ended, and what a sender sent again.
        repeated = sum(Counter(quick.got).values()) - len(sent)
        assert repeated <= senders.retries + rounds * (8 + len(SENDERS))
    finally:
        killed.service.kill()
        quick.close()


def _has(hop: Hop, sent: set[bytes]) -> bool:
    return sent <= set(hop.got)


def _span(number: int) -> bytes:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
        ExportTraceServiceRequest,
    )

    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    scope.spans.add(
        trace_id=number.to_bytes(16, "big"), span_id=number.to_bytes(8, "big"), name="chat"
    )
    return request.SerializeToString()
