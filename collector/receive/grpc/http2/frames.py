"""Frames of HTTP/2 (RFC 9113 4, 6 and 7): their numbers, how one is written, and what one may look like."""

from __future__ import annotations

from struct import Struct
from typing import Final

__all__ = [
    "ConnectionFault",
    "check_frame",
    "depends_on_itself",
    "error_name",
    "frame",
    "number_of",
    "settings_of",
    "unpadded",
]

DATA: Final = 0
HEADERS: Final = 1
PRIORITY: Final = 2
RST_STREAM: Final = 3
SETTINGS: Final = 4
PUSH_PROMISE: Final = 5
PING: Final = 6
GOAWAY: Final = 7
WINDOW_UPDATE: Final = 8
CONTINUATION: Final = 9
"""Kinds of frames (6)."""
ACK: Final = 0x1
END_STREAM: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
PRIORITISED: Final = 0x20
"""Flags of frames."""
NO_ERROR: Final = 0
PROTOCOL_ERROR: Final = 1
FLOW_CONTROL_ERROR: Final = 3
STREAM_CLOSED: Final = 5
FRAME_SIZE_ERROR: Final = 6
REFUSED_STREAM: Final = 7
COMPRESSION_ERROR: Final = 9
ENHANCE_YOUR_CALM: Final = 11
"""Errors (7)."""
_ERROR_NAMES: Final = {
    PROTOCOL_ERROR: "protocol_error",
    FLOW_CONTROL_ERROR: "flow_control_error",
    STREAM_CLOSED: "stream_closed",
    FRAME_SIZE_ERROR: "frame_size_error",
    REFUSED_STREAM: "refused_stream",
    COMPRESSION_ERROR: "compression_error",
    ENHANCE_YOUR_CALM: "enhance_your_calm",
}
ENABLE_PUSH: Final = 2
MAX_CONCURRENT_STREAMS: Final = 3
INITIAL_WINDOW_SIZE: Final = 4
MAX_FRAME_SIZE: Final = 5
MAX_HEADER_LIST_SIZE: Final = 6
ENABLE_CONNECT_PROTOCOL: Final = 8
NO_RFC7540_PRIORITIES: Final = 9
"""Settings (6.5.2, RFC 8441, RFC 9218)."""

FRAME_HEAD: Final = Struct(">BHBBI")
HEAD_BYTES: Final = FRAME_HEAD.size
NUMBER_BYTES: Final = 4
NUMBER_MASK: Final = 0x7FFF_FFFF
WINDOW_MAX: Final = 2**31 - 1
FRAME_BYTES_LEAST: Final = 1 << 14
FRAME_BYTES_MOST: Final = (1 << 24) - 1
"""Bounds on SETTINGS_MAX_FRAME_SIZE."""
DATA_BYTES_MAX: Final = 1 << 20
"""Bytes of a data payload. It is read as it arrives, in parts if need be: fewer frames cost less."""
BLOCK_BYTES_MAX: Final = 16 << 10
"""Bytes of a header block, over all its frames. SETTINGS declares it to clients as the bound on all
fields, so none has a reason to write more, in a frame that is larger than anyone has to take."""
PAYLOAD_BYTES_MAX: Final = 64 << 10
"""Bytes of any other payload."""

_SETTING: Final = Struct(">HI")
SETTING_BYTES: Final = _SETTING.size
GOAWAY_BYTES_MIN: Final = 8
PRIORITY_BYTES: Final = 5
_SIZES: Final = {RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}
"""Sizes of payloads that have one size."""


class ConnectionFault(Exception):  # noqa: N818 - the peer's
    """The connection cannot go on (5.4.1).

    Args:
        code: of RFC 9113 7.
        text: for the other side's log.
    """

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def frame(kind: int, flags: int, number: int, payload: bytes = b"") -> bytes:
    """A frame (4.1)."""
    size = len(payload)
    return FRAME_HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, number) + payload


def number_of(value: int) -> bytes:
    """A number as payloads hold it."""
    return value.to_bytes(NUMBER_BYTES, "big")


def setting(name: int, value: int) -> bytes:
    """One setting of a SETTINGS frame."""
    return _SETTING.pack(name, value)


def error_name(code: int) -> str:
    """What the metrics call an error of ours."""
    return _ERROR_NAMES.get(code, "other")


def check_frame(kind: int, flags: int, number: int, length: int) -> None:
    """Whether a frame may have that stream and that size, by what stands before its payload.

    Raises:
        ConnectionFault: it may not.
    """
    if kind == DATA:
        most = DATA_BYTES_MAX
    elif kind in (HEADERS, CONTINUATION):
        most = BLOCK_BYTES_MAX
    else:
        most = PAYLOAD_BYTES_MAX
    if length > most:
        raise ConnectionFault(FRAME_SIZE_ERROR, "a frame is too large")
    if length != _SIZES.get(kind, length) or (kind == DATA and flags & PADDED and not length):
        raise ConnectionFault(FRAME_SIZE_ERROR, "a frame of another size than its kind has")
    if kind == SETTINGS and (length % SETTING_BYTES or (flags & ACK and length)):
        raise ConnectionFault(FRAME_SIZE_ERROR, "settings that are not whole, or in an answer")
    if kind == GOAWAY and length < GOAWAY_BYTES_MIN:
        raise ConnectionFault(FRAME_SIZE_ERROR, "a GOAWAY that is too short")
    if kind <= RST_STREAM or kind == CONTINUATION:
        if not number:
            raise ConnectionFault(PROTOCOL_ERROR, "a frame of a stream without a stream")
    elif kind in (SETTINGS, PING, GOAWAY) and number:
        raise ConnectionFault(PROTOCOL_ERROR, "a frame of the connection on a stream")


def settings_of(payload: bytes) -> dict[int, int]:
    """The settings of a frame; of one that is repeated, the last value, which alone lasts.

    Raises:
        ConnectionFault: a value is out of range.
    """
    found: dict[int, int] = {}
    name: int  # what is unpacked is of any type, unless it is declared
    value: int
    for name, value in _SETTING.iter_unpack(payload):
        if name == INITIAL_WINDOW_SIZE:
            if value > WINDOW_MAX:
                raise ConnectionFault(FLOW_CONTROL_ERROR, "the window is too large")
        elif name == MAX_FRAME_SIZE:
            if not FRAME_BYTES_LEAST <= value <= FRAME_BYTES_MOST:
                raise ConnectionFault(PROTOCOL_ERROR, "no size that frames may have")
        elif (
            name in (ENABLE_PUSH, ENABLE_CONNECT_PROTOCOL, NO_RFC7540_PRIORITIES) and value > 1
        ):
            raise ConnectionFault(PROTOCOL_ERROR, "a setting that is neither 0 nor 1")
        found[name] = value
    return found


def unpadded(payload: bytes) -> bytes:
    """The payload of a padded frame without what surrounds it.

    Raises:
        ConnectionFault: there is more padding than payload.
    """
    if not payload or payload[0] >= len(payload):
        raise ConnectionFault(PROTOCOL_ERROR, "more padding than there is")
    return payload[1 : len(payload) - payload[0]]


def depends_on_itself(number: int, payload: bytes) -> bool:
    """A stream's priority names the stream itself (RFC 7540 5.3.1).

    Args:
        number: of the stream.
        payload: begins with the priority.
    """
    return int.from_bytes(payload[:NUMBER_BYTES], "big") & NUMBER_MASK == number
