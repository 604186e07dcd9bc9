"""A small real HTTP server that speaks the contract of deciding, and fails in the ways a service can."""

from __future__ import annotations

import json
import queue
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["DENIED", "Double", "Mode", "running"]

Mode = str
"""decide | hang | garbage | half | no_decision | arguments_unreadable | result_unreadable | an HTTP status"""

DENIED = (
    "water is out of order here: open_valve was skipped. Allowed now: scan, open_valve, log."
)

Rule = Callable[[dict[str, Any]], dict[str, Any]]


class Seen(NamedTuple):
    """One request, as it came."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


class Double:
    """What it does with requests, and what it has seen of them.

    A call of the tool `water` is denied, one of `advise` would be, one of `what` is unknown; all others are allowed.
    """

    def __init__(self) -> None:
        self.mode: Mode = "decide"
        self.token = ""
        """Required where it is set."""
        self.turn_seconds = 0.0
        """How long each question takes; one is answered after the other."""
        self.matched = True
        """False: no spec matches any agent."""
        self.specs: list[dict[str, Any]] = []
        """What each spec says, in every answer."""
        self.decisions: queue.Queue[Seen] = queue.Queue()
        self.outcomes: queue.Queue[tuple[str, str]] = queue.Queue()
        self.results: list[Any] = []
        """What outcomes tell that calls returned."""
        self.connections = 0
        self.resume = threading.Event()
        """Set: requests that hang go on."""
        self.url = ""
        self._number = 0
        self._lock = threading.Lock()
        self.turn = threading.Lock()

    def outcome(self) -> tuple[str, str]:
        """The next outcome that comes: the id of the decision, and the word."""
        return self.outcomes.get(timeout=20)

    def asked(self) -> dict[str, Any]:
        """The body of the next question that came."""
        return self.decisions.get(timeout=20).body

    def decide(self, asked: dict[str, Any]) -> dict[str, Any]:
        if "calls" not in asked:
            return self._one(asked)
        return {"decisions": [self._one(each) for each in asked["calls"]]}

    def _one(self, call: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            self._number += 1
            id_ = f"d{self._number}"
        word = {"water": "deny", "what": "unknown"}.get(call["tool"], "allow")
        return {
            "decision_id": id_,
            "decision": word,
            "would_deny": call["tool"] == "advise",
            "answer": "deny" if call["tool"] in ("water", "advise") else word,
            "message": DENIED if word == "deny" else "",
            "matched": self.matched,
            "committed": word != "deny",
            "specs": self.specs,
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave together
    double: Double

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Says nothing."""

    def address_string(self) -> str:
        return "peer"  # a Unix socket has none

    def setup(self) -> None:
        super().setup()
        self.double.connections += 1

    def do_GET(self) -> None:
        self._answer(200, b"ok")

    def do_POST(self) -> None:
        double = self.double
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        headers = {name.lower(): value for name, value in self.headers.items()}
        if double.token and headers.get("authorization") != f"Bearer {double.token}":
            self._error(401)
        elif self.path == "/api/v1/outcome":
            if "result" in asked and double.mode == "result_unreadable":
                self._error(400)
                return
            double.results += [asked["result"]] if "result" in asked else []
            self._answer(200, json.dumps({**asked, "known": True}).encode())
            double.outcomes.put((asked["decision_id"], asked["outcome"]))
        else:
            mode = double.mode
            double.decisions.put(Seen(self.path, headers, asked))
            self._decide(mode, asked)

    def _decide(self, mode: Mode, asked: dict[str, Any]) -> None:
        body = json.dumps(self.double.decide(asked)).encode()
        if self.double.turn_seconds:
            with self.double.turn:
                time.sleep(self.double.turn_seconds)
        if mode == "hang":
            self.double.resume.wait(20)
            self._answer(200, body)
        elif mode == "half":
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
        elif mode == "garbage":
            self._answer(200, b"\x00 no JSON")
        elif mode == "no_decision":
            self._answer(200, b'{"decision": "perhaps"}')
        elif mode == "arguments_unreadable" and any(
            "arguments" in each for each in _calls(asked)
        ):
            self._error(400)
        elif mode.isdigit():
            self._error(int(mode))
        else:
            self._answer(200, body)

    def _error(self, status: int) -> None:
        self._answer(status, b'{"error": "no"}')

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _calls(asked: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = asked.get("calls", [asked])
    return found


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients leave when they like."""


class _UnixServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


@contextmanager
def running(
    socket_path: Path | None = None,
    port: int = 0,
    double: Double | None = None,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Double]:
    """A double on a free port of the loopback, with or without TLS, or on a Unix socket."""
    double = double or Double()
    handler = type("Handler", (_Handler,), {"double": double})
    server: socketserver.BaseServer
    if socket_path is not None:
        server = _UnixServer(str(socket_path), handler)
        double.url = f"unix:{socket_path}"
    else:
        server = _Server(("127.0.0.1", port), handler)
        double.url = f"http://127.0.0.1:{server.server_port}"
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
        double.url = double.url.replace("http:", "https:")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield double
    finally:
        double.resume.set()
        server.shutdown()
        server.server_close()
        thread.join()
