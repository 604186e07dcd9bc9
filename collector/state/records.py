"""What the journal's records hold: a kind for each, and how its payload is written and read.

A request's payload is a short head and the body as it was judged, after decompression. All others are MessagePack,
and read by their types: fields that a later version adds have defaults, and those it drops are passed over.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec

from collector.receive.request import Encoding

__all__ = [
    "ConfirmationRecord",
    "DeliveryRecord",
    "ForwardRecord",
    "KnownSessionsRecord",
    "OpeningRecord",
    "OperatorRecord",
    "QuestionRecord",
    "RecordKind",
    "RequestRecord",
    "SpecsRecord",
    "UnwrittenRecord",
    "decoded",
    "encoded",
    "request_head",
    "request_of",
]

T = TypeVar("T")


class RecordKind(IntEnum):
    """What a record is. Numbers are on disk, and never change. Another one makes another format of the file (`segment.FORMATS`)."""

    OPENED = 1
    """A process began to write."""
    REQUEST = 2
    """A trace request was accepted."""
    TICK = 3
    """Time went on. No payload."""
    CLOCK = 4
    """The wall clock was set."""
    SPECS = 5
    """The specs in use from here on."""
    COUNTERS = 6
    """The process's counters."""
    PAIR = 7
    """The counters of one agent under one spec."""
    KNOWN = 8
    """Sessions that were known when the file was begun."""
    WHOLE = 9
    """The file has all that a replay needs which begins with it. No payload."""
    DELIVERED = 10
    """Messages arrived at a sink, or were given up."""
    GAP = 11
    """Requests were judged that could not be written."""
    CLOSED = 12
    """The process stopped of its own accord. No payload."""
    SETTLED = 13
    """Calls that settled were due to page. No payload."""
    QUESTION = 14
    """A client asked about calls, and those that were not denied went ahead."""
    OUTCOME = 15
    """A client reported the outcome of a decided call."""
    FORWARDED = 16
    """A request goes on to next hops."""
    CONFIRMED = 17
    """A next hop need not be sent some requests any more."""
    OPERATED = 18
    """An operator ended a session, or had sessions judged under the specs in use."""


class OpeningRecord(msgspec.Struct, array_like=True):
    """Who writes."""

    program: str
    """Version of the program."""
    missed_ns: int = -1
    """Start of the time in which spans may have been missed, Unix nanoseconds; -1 if none were."""


class RequestRecord(msgspec.Struct):
    """An accepted request."""

    transport: str
    encoding: Encoding
    sender: str | None
    """The name of the sender's token; None if no token was required."""
    body: bytes


class QuestionRecord(msgspec.Struct, array_like=True):
    """What a client asked, or said of a decided call."""

    sender: str | None
    """The name of the client's token; None if no token was required."""
    body: bytes


class OperatorRecord(msgspec.Struct, array_like=True):
    """What an operator did with sessions."""

    action: str
    """`rejudge`: all under the specs in use; `end`: one."""
    session: str = ""
    namespace: str = ""


class SpecsRecord(msgspec.Struct):
    """The specs in use: the texts of their files."""

    digest: bytes
    texts: list[tuple[str, bytes]] | None
    """(file, text) of each; None if they are too large to be written again and again."""


class KnownSessionsRecord(msgspec.Struct, array_like=True):
    """Sessions by `monitor.session.dropped_sessions.mark_of`, eight bytes each, little-endian."""

    marks: bytes


class DeliveryRecord(msgspec.Struct, array_like=True):
    """Messages of one sink that need not be sent again."""

    sink: str
    keys: list[bytes]


class UnwrittenRecord(msgspec.Struct, array_like=True):
    """Requests that were judged and not written."""

    since_ns: int
    requests: int


class ForwardRecord(msgspec.Struct, array_like=True):
    """A request that goes on to next hops."""

    request: int
    """The place of its record; 0 if its body is here."""
    hops: list[str]
    """Names of the next hops."""
    signal: str
    encoding: Encoding
    metadata: list[tuple[bytes, bytes]]
    """Headers of its sender."""
    marks: list[tuple[bytes, str, str, str, float | None, bool]]
    """Verdicts on its spans: trace id and span id, verdict, reason, spec, HarmRate, possible harm."""
    body: bytes = b""


class ConfirmationRecord(msgspec.Struct, array_like=True):
    """Requests that one next hop has got, or will never get."""

    hop: str
    places: list[int]
    """Places of the records `FORWARDED`."""
    counts: list[tuple[str, str, str, int]] = []
    """Results of requests: signal, result, reason for which they were dropped, and their number."""


_HEAD: Final = struct.Struct("<BHHB")
"""Encoding, lengths of transport and sender, and whether there is a sender."""
_ENCODINGS: Final[tuple[Encoding, ...]] = ("proto", "json")
_NAME_MAX: Final = 65_535
HEADS_MAX: Final = 256
"""Heads of requests that are remembered: senders have names of tokens, which are few."""
_ENCODER: Final = msgspec.msgpack.Encoder()


@lru_cache(HEADS_MAX)
def request_head(transport: str, encoding: Encoding, sender: str | None) -> bytes:
    """What stands before the body of a request."""
    name = b"" if sender is None else sender.encode()
    word = transport.encode()
    if len(name) > _NAME_MAX or len(word) > _NAME_MAX:
        raise ValueError("names of senders have at most 65,535 bytes")
    place = _ENCODINGS.index(encoding)
    return _HEAD.pack(place, len(word), len(name), sender is not None) + word + name


def request_of(payload: bytes) -> RequestRecord:
    """The request in a payload.

    Raises:
        ValueError: it holds none.
    """
    try:
        place, word, name, has_sender = _HEAD.unpack_from(payload)
        encoding = _ENCODINGS[place]
    except (struct.error, IndexError) as problem:
        raise ValueError(str(problem)) from None
    middle = _HEAD.size + word
    end = middle + name
    if end > len(payload):
        raise ValueError("its head is longer than the record")
    transport = payload[_HEAD.size : middle].decode()
    sender = payload[middle:end].decode() if has_sender else None
    return RequestRecord(transport, encoding, sender, payload[end:])


def encoded(what: Any) -> bytes:
    """A payload of any other kind."""
    found: bytes = _ENCODER.encode(what)
    return found


def decoded(payload: bytes, kind: type[T]) -> T:
    """What a payload holds.

    Raises:
        ValueError: it holds something else.
    """
    try:
        found: T = msgspec.msgpack.decode(payload, type=kind)
    except (msgspec.MsgspecError, RecursionError) as problem:
        raise ValueError(str(problem)) from None
    return found
