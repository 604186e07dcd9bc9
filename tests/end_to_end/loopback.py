"""Servers that tests talk to, on free ports of this machine alone."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Loopback", "Quiet", "free_port"]


class Quiet:
    """Makes a handler log nothing."""

    def log_message(self, *_: Any) -> None:
        pass


class Loopback:
    """An HTTP server in a thread of its own, from now until it is closed."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


PORTS = range(20_000, 32_000)
"""Below those that a kernel gives to whoever asks for any: nobody gets one before it is used."""
_given: set[int] = set()


def free_port() -> int:
    """A port that no process listens on; never the same one twice."""
    while True:
        port = random.SystemRandom().choice(PORTS)  # tests seed the other one
        if port in _given:
            continue
        _given.add(port)
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port
