"""Detects, by the first bytes, a client that speaks another protocol than its listener."""

from __future__ import annotations

from typing import Final, Literal

__all__ = ["PREFACE", "Spoken", "is_short", "protocol_of", "sentence"]

Spoken = Literal["gRPC", "HTTP"]
"""The protocol of a listener."""

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""RFC 9113 3.4."""
METHODS: Final = b"GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH".split()
"""RFC 9110 9.3, and PATCH."""
BEGINNINGS: Final = {
    PREFACE[:12]: "http2",
    b"\x16\x03": "tls",
    **{method + b" ": "http1" for method in METHODS},
}
"""First bytes -> protocol, as named in the counter of clients on a wrong port."""
OWN: Final = {"gRPC": "http2", "HTTP": "http1"}
SENTENCES: Final = {
    "http1": "HTTP/1.1 was spoken on the {} port; OTLP over HTTP goes to receiver.http",
    "http2": "HTTP/2 or gRPC was spoken on the {} port; OTLP over gRPC goes to receiver.grpc",
    "tls": "TLS was spoken on the {} port, which has no TLS",
    "other": "something that is not {1} was spoken on the {0} port",
}
NO_GRPC: Final = (
    "HTTP/2 without gRPC was spoken on the gRPC port; OTLP over HTTP goes to receiver.http"
)


def protocol_of(beginning: bytes, here: Spoken) -> str:
    """The protocol that begins with these bytes. Malformed input of the listener's own protocol is `other`."""
    found = (name for known, name in BEGINNINGS.items() if beginning.startswith(known))
    name = next(found, "other")
    return "other" if name == OWN[here] else name


def is_short(beginning: bytes) -> bool:
    """True if the bytes are too few to tell: more of them may make a known beginning."""
    return PREFACE.startswith(beginning) or any(
        known.startswith(beginning) for known in BEGINNINGS
    )


def sentence(name: str, here: Spoken, port: str = "") -> str:
    """The message for a client that speaks protocol `name` on a listener of `here`, which it calls `port`."""
    if (name, here) == ("http2", "gRPC"):
        return NO_GRPC
    return SENTENCES[name].format(port or here, here)
