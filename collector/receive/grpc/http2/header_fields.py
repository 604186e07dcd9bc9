"""Field sections of HTTP/2 (RFC 9113 8): what a request's headers and trailers may hold."""

from __future__ import annotations

import re
from typing import Any, Final

from collector.receive.grpc.http2.hpack import Header

__all__ = ["Section"]

PSEUDO: Final = frozenset((b":method", b":scheme", b":authority", b":path"))
"""Pseudo-header fields of requests (8.3.1)."""
OF_CONNECTIONS: Final = frozenset(
    (b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade")
)
"""Fields of HTTP/1.1 that are of one connection (8.2.2)."""
LENGTH_DIGITS_MAX: Final = 18
_NAME: Final = re.compile(rb":?[^\x00-\x20A-Z:\x7f-\xff]+")
_NO_VALUE: Final = re.compile(rb"[\0\r\n]|\A[ \t]|[ \t]\Z")
"""8.2.1."""


class Section:
    """The fields of a header block, and what is wrong with them.

    Args:
        fields: as they came.
    """

    __slots__ = ("fields", "head", "length", "request_fault", "trailers_fault")

    def __init__(self, fields: list[Header]) -> None:
        self.fields = fields
        self.head: Any = None
        """What the server makes of the fields, once it has."""
        self.length = -1
        """Length of the body by content-length; -1 without one."""
        fault = self._fault()
        self.request_fault = fault or _pseudo_fault(fields)
        """Why it is no request; empty: it is one."""
        self.trailers_fault = fault
        """Why these are no trailers."""
        if not fault and any(name[:1] == b":" for name, _ in fields):
            self.trailers_fault = "a pseudo-header field in trailers"

    def _fault(self) -> str:
        """What may be in no section."""
        for name, value in self.fields:
            if _NAME.fullmatch(name) is None or _NO_VALUE.search(value) is not None:
                return "a field that is not allowed"
            if name in OF_CONNECTIONS or (name == b"te" and value.lower() != b"trailers"):
                return "a field of the connection"
            if name == b"content-length":
                if not value.isdigit() or len(value) > LENGTH_DIGITS_MAX:
                    return "a content-length that is no number"
                length = int(value)
                if self.length not in (-1, length):
                    return "two lengths"
                self.length = length
        return ""


def _pseudo_fault(fields: list[Header]) -> str:
    """What is wrong with a request's pseudo-header fields."""
    found: dict[bytes, bytes] = {}
    is_behind = False
    for name, value in fields:
        if name[:1] != b":":
            is_behind = True
        elif is_behind or name in found or name not in PSEUDO:
            return "a pseudo-header field that is unknown, repeated or out of place"
        else:
            found[name] = value
    method, path = found.get(b":method", b""), found.get(b":path", b"")
    if method == b"CONNECT":  # 8.5
        is_whole = b":scheme" not in found and b":path" not in found and b":authority" in found
    else:
        is_path = path[:1] == b"/" or (path == b"*" and method == b"OPTIONS")
        is_whole = bool(method and found.get(b":scheme")) and is_path
    return "" if is_whole else "a pseudo-header field is missing, or is not what it may be"
