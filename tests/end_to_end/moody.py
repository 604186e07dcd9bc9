"""A webhook that hangs, refuses or answers garbage as the test says, and a load meanwhile."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tests.end_to_end.service import SPECS, Service, eventually
from tests.end_to_end.traffic import Rover, send

__all__ = ["QUEUE", "TROUBLES", "BadTime", "Endured", "Mood", "Moody", "endure"]

Mood = Literal["well", "hangs", "refuses", "garbage"]
TROUBLES: tuple[Mood, ...] = ("hangs", "garbage", "refuses")
WELL = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
GARBAGE = b"\x00\xff\x16\x03 this is no HTTP " * 4_000

CALLS_A_SECOND = 20
QUEUE = 40
"""Messages that may wait for a sink of the service."""


class Moody:
    """A receiver of pages on one port of the loopback."""

    def __init__(self, mood: Mood = "well") -> None:
        self.sessions: dict[str, int] = {}
        """Firing pages that were answered well, by session."""
        self.met = dict.fromkeys(TROUBLES, 0)
        """Requests that met with trouble (who is refused never comes in)."""
        self._listener: socket.socket | None = None
        self._port = 0
        self._hung: list[socket.socket] = []
        self._lock = threading.Lock()
        self.mood: Mood = mood
        self.become(mood)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def become(self, mood: Mood) -> None:
        """From now on it is like this; what hung is let go."""
        with self._lock:
            self.mood = mood
            while self._hung:
                self._hung.pop().close()
        if self._listener is None:
            self._listen()
        if mood == "refuses":
            self.close()

    def close(self) -> None:
        """Who connects from now on is refused."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def _listen(self) -> None:
        listener = socket.create_server(("127.0.0.1", self._port), backlog=128)
        self._port = listener.getsockname()[1]
        self._listener = listener
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            try:
                self._take(connection)
            except (OSError, ValueError):
                connection.close()

    def _take(self, connection: socket.socket) -> None:
        connection.settimeout(5)
        body = _body(connection)
        with self._lock:
            mood = self.mood
            if mood == "hangs":
                self._hung.append(connection)
                self.met[mood] += 1
                return
        with connection:
            if mood == "garbage":
                self.met[mood] += 1
                connection.sendall(GARBAGE)
                return
            self._note(json.loads(body))
            connection.sendall(WELL)

    def _note(self, payload: Any) -> None:
        alerts = payload["alerts"] if isinstance(payload, dict) else payload
        for alert in alerts:
            if alert.get("status", "firing") == "firing":
                session = alert["labels"].get("session") or alert["annotations"]["session"]
                self.sessions[session] = self.sessions.get(session, 0) + 1


def _body(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65_536)
        if not part:
            raise ValueError("gone")
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].split()[0])
    while len(body) < length:
        body += connection.recv(65_536)
    return body


class Endured(NamedTuple):
    """Measurements of a time with a bad webhook."""

    sessions: int
    """Harmful sessions sent: each is one page."""
    took: list[float]
    """Seconds that each request took, ascending."""
    grown_bytes: float
    """Resident memory at the end, less that at a third of the time."""
    recovered_seconds: float
    """From the receiver's recovery to the page of a session sent after it."""


def endure(service: Service, hook: Moody, seconds: float) -> Endured:
    """Sends harm at a steady rate while the hook is bad in each way, then well again."""
    took: list[float] = []
    number = 0

    def harm() -> str:
        nonlocal number
        number += 1
        session = f"endured-{number}"
        began = time.monotonic()
        send(service, Rover(session, number).calls("made_up_tool").spans, "http_proto")
        took.append(time.monotonic() - began)
        return session

    memory: list[float] = []
    for mood in TROUBLES:
        hook.become(mood)
        _steadily(harm, seconds / len(TROUBLES))
        memory.append(service.metric("process_resident_memory_bytes"))
    hook.become("well")
    began = time.monotonic()
    last = harm()
    eventually(lambda: last in hook.sessions, 40)
    recovered = time.monotonic() - began
    return Endured(number, sorted(took), memory[-1] - memory[0], recovered)


def _steadily(act: Callable[[], object], seconds: float) -> None:
    began = time.monotonic()
    for turn in range(int(seconds * CALLS_A_SECOND)):
        time.sleep(max(0.0, began + turn / CALLS_A_SECOND - time.monotonic()))
        act()


class BadTime:
    """A service with a bad webhook and a good Alertmanager, under load, in a thread of its own."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.hook, self.good = Moody(), Moody()
        specs = folder / "farm_rover.yaml"
        text = (SPECS / "farm_rover.yaml").read_text()
        specs.write_text(text.replace("mode: shadow", "mode: page"))
        variables = {
            "HISTORY": "complete",
            "ALERTS_WEBHOOK_URL": self.hook.url,
            "ALERTS_ALERTMANAGER": self.good.url,
            "ALERTS_GROUP_BY": "session",
            "ALERTS_QUEUE": str(QUEUE),
            "ALERTS_TIMEOUT_SECONDS": "1",
            "ALERTS_PAGES_PER_MINUTE": "1000000",
            "SESSIONS_MAX": "200",
            "SESSIONS_HOLD_SECONDS": "5",
        }
        self.service = Service(
            ("--specs", str(specs)),
            {f"OFFRAILS_{name}": value for name, value in variables.items()},
        )
        self._seconds = seconds
        self._found: list[Endured] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._found.append(endure(self.service.wait_ready(), self.hook, self._seconds))

    def result(self) -> Endured:
        """The measurements, once it is over."""
        self._thread.join(self._seconds + 100)
        assert self._found, "it did not come to its end"
        return self._found[0]

    def close(self) -> None:
        self.service.kill()
        self.hook.close()
        self.good.close()
