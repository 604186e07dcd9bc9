"""Requests over one HTTP connection, ready made: what a sender costs is not what is measured."""

from __future__ import annotations

import re
import socket

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

__all__ = ["Sender", "prepared"]

_HEAD = "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


def prepared(
    body: bytes, path: str = "/v1/traces", media_type: str = "application/x-protobuf"
) -> bytes:
    """A request as it goes over the wire."""
    return (_HEAD % (path, media_type, len(body))).encode() + body


class Sender:
    """One connection that is kept.

    Args:
        port: on loopback.
    """

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def fileno(self) -> int:
        """For a selector that waits for responses."""
        return self._socket.fileno()

    def post(self, request: bytes) -> None:
        """Sends a prepared request and awaits its answer."""
        self.send(request)
        self.answer()

    def send(self, request: bytes) -> None:
        """Sends a prepared request."""
        self._socket.sendall(request)

    def answer(self) -> None:
        """Waits for a response, which must say that all spans were accepted."""
        told = ExportTraceServiceResponse.FromString(self.receive())
        assert not told.partial_success.rejected_spans, told

    def receive(self) -> bytes:
        """Waits for a response, which must have status 200; returns its body."""
        answer = self._more(b"")
        while (end := answer.find(b"\r\n\r\n")) < 0:
            answer = self._more(answer)
        assert b" 200 " in answer[:15], answer
        length = _LENGTH.search(answer)
        assert length is not None, answer
        while len(answer) < end + 4 + int(length[1]):
            answer = self._more(answer)
        return answer[end + 4 :]

    def _more(self, answer: bytes) -> bytes:
        part = self._socket.recv(65_536)
        assert part, f"closed after {answer!r}"
        return answer + part

    def close(self) -> None:
        """Ends the connection."""
        self._socket.close()
