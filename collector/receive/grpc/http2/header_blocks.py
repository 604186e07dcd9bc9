"""Header blocks of HTTP/2: one HEADERS frame and its CONTINUATION frames are one block (RFC 9113 4.3).

Invariant: every block that is whole is decoded, whatever becomes of its stream, because HPACK's table is
the connection's: a block that is skipped would make all later ones unreadable.
"""

from __future__ import annotations

from typing import Final

from collector.receive.grpc.http2.frames import (
    BLOCK_BYTES_MAX,
    CONTINUATION,
    END_HEADERS,
    ENHANCE_YOUR_CALM,
    FRAME_SIZE_ERROR,
    PADDED,
    PRIORITISED,
    PRIORITY_BYTES,
    PROTOCOL_ERROR,
    ConnectionFault,
    depends_on_itself,
    unpadded,
)
from collector.receive.grpc.http2.header_fields import Section
from collector.receive.grpc.http2.hpack import Decoder

__all__ = ["HeaderBlocks"]

NO_STREAM: Final = 0


class HeaderBlocks:
    """Joins the header blocks of one connection, and has their decoder."""

    __slots__ = ("_block", "decoder", "flags", "number")

    def __init__(self) -> None:
        self.decoder: Decoder[Section] = Decoder(Section)
        """Reads every block that is whole."""
        self._block = b""
        self.number = NO_STREAM
        """The stream of the block that is not whole; 0: there is none."""
        self.flags = 0
        """Flags of the block's HEADERS frame."""

    def begin(self, flags: int, number: int, payload: bytes) -> bytes | None:
        """Takes a HEADERS frame; returns its block, None if CONTINUATION follows.

        Raises:
            ConnectionFault: it is none that a client may send.
        """
        if not number & 1:
            raise ConnectionFault(PROTOCOL_ERROR, "a stream of no client")
        if flags & PADDED:
            payload = unpadded(payload)
        if flags & PRIORITISED:
            if len(payload) < PRIORITY_BYTES:
                raise ConnectionFault(FRAME_SIZE_ERROR, "a priority that is too short")
            if depends_on_itself(number, payload):
                raise ConnectionFault(PROTOCOL_ERROR, "a stream that depends on itself")
            payload = payload[PRIORITY_BYTES:]
        if flags & END_HEADERS:
            return payload
        self.number, self.flags = number, flags
        self._block = payload
        return None

    def go_on(self, flags: int, payload: bytes) -> bytes | None:
        """Takes a CONTINUATION frame; returns the block where that ends it.

        Raises:
            ConnectionFault: nothing is to be continued, or the block is too large.
        """
        if self.number == NO_STREAM:
            raise ConnectionFault(PROTOCOL_ERROR, "nothing is to be continued")
        self._block += payload
        if len(self._block) > BLOCK_BYTES_MAX:
            raise ConnectionFault(ENHANCE_YOUR_CALM, "the headers are too large")
        if not flags & END_HEADERS:
            return None
        block, self._block = self._block, b""
        self.number = NO_STREAM
        return block

    def check_order(self, kind: int, number: int) -> None:
        """Nothing comes between the frames of a block.

        Raises:
            ConnectionFault: this frame does.
        """
        if self.number != NO_STREAM and (kind != CONTINUATION or number != self.number):
            raise ConnectionFault(PROTOCOL_ERROR, "headers are not continued")

    def forget(self) -> None:
        """Lets go of a block that is not whole."""
        self._block = b""
