"""One gRPC call as bare HTTP/2 frames, for messages that no gRPC library sends."""

from __future__ import annotations

import struct

from tests.conformance.target import TRACES, Target

__all__ = ["GONE", "PREFACE", "frame", "raw_call"]

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
INITIAL_WINDOW_SIZE = b"\0\4"
WINDOW = 65_535
FRAME_MAX = 16_384
GONE = b"the connection, or the call, was ended"


def frame(kind: int, payload: bytes = b"", flags: int = 0, stream: int = 0) -> bytes:
    """An HTTP/2 frame (RFC 9113 4.1)."""
    head = struct.pack(">I", len(payload))[1:] + bytes((kind, flags))
    return head + struct.pack(">I", stream) + payload


def _literal(name: str, value: str) -> bytes:
    """A header field that is neither indexed nor compressed (RFC 7541 6.2.2)."""
    assert len(name) < 127 > len(value)
    return b"\0" + b"".join(bytes([len(each)]) + each.encode() for each in (name, value))


def raw_call(target: Target, message: bytes, coding: str) -> bytes:
    """The header block that ends a call of one compressed message, or `GONE`.

    Args:
        target: where to.
        message: as it goes over the wire.
        coding: what it is said to be compressed with.
    """
    headers = {
        ":method": "POST",
        ":scheme": "https" if target.ca else "http",
        ":path": TRACES,
        ":authority": "localhost",
        "content-type": "application/grpc",
        "te": "trailers",
        "grpc-encoding": coding,
        **dict(target.metadata()),
    }
    block = b"".join(_literal(*each) for each in headers.items())
    body = b"\1" + struct.pack(">I", len(message)) + message
    with target.open(target.grpc, "h2") as connection:
        connection.sendall(PREFACE + frame(SETTINGS) + frame(HEADERS, block, END_HEADERS, 1))
        room = {0: WINDOW, 1: WINDOW}
        sent = 0
        stream = connection.makefile("rb")
        with stream:
            while True:
                size = min(*room.values(), FRAME_MAX, len(body) - sent)
                if size:
                    last = END_STREAM if sent + size == len(body) else 0
                    connection.sendall(frame(DATA, body[sent : sent + size], last, 1))
                    sent += size
                    room = {number: left - size for number, left in room.items()}
                    continue
                head = stream.read(9)
                if len(head) < 9:
                    return GONE
                payload = stream.read(int.from_bytes(head[:3], "big"))
                kind, flags, number = head[3], head[4], int.from_bytes(head[5:], "big")
                if kind == WINDOW_UPDATE:
                    room[number] = room.get(number, WINDOW) + int.from_bytes(payload, "big")
                elif kind == SETTINGS and not flags & ACK:
                    room[1] += _window(payload) - WINDOW
                    connection.sendall(frame(SETTINGS, b"", ACK))
                elif kind == PING and not flags & ACK:
                    connection.sendall(frame(PING, payload, ACK))
                elif kind == HEADERS and flags & END_STREAM:
                    return payload
                elif kind in (RST_STREAM, GOAWAY):
                    return GONE


def _window(settings: bytes) -> int:
    """The initial window of a stream that a SETTINGS frame gives."""
    pairs = [settings[at : at + 6] for at in range(0, len(settings), 6)]
    found = [
        int.from_bytes(pair[2:], "big") for pair in pairs if pair[:2] == INITIAL_WINDOW_SIZE
    ]
    return found[-1] if found else WINDOW
