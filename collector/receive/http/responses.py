"""Texts of HTTP/1.1: the heads of answers, and errors."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

__all__ = ["error_response", "head_of"]

STATUS_LINES: Final = {
    each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus
}


def head_of(status: int, headers: list[tuple[bytes, bytes]]) -> bytes:
    """The head of an answer, but for its last, empty line."""
    lines = [b"%b: %b\r\n" % header for header in headers]
    return STATUS_LINES[status] + b"".join(lines)


def error_response(status: int, code: int, message: str) -> bytes:
    """A whole answer before the connection closes; the body is a google.rpc.Status in JSON."""
    body = b'{"code": %d, "message": "%b"}' % (code, message.encode())
    headers = [
        (b"content-type", b"application/json"),
        (b"connection", b"close"),
        (b"content-length", b"%d" % len(body)),
    ]
    return head_of(status, headers) + b"\r\n" + body
