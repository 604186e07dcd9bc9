"""Decompresses bodies, never beyond a bound on their size nor beyond the free capacity."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any, Final

from collector.receive.status_codes import ExportStatus, Refusal

__all__ = ["ACCEPTED", "INLINE_BYTES_MAX", "LUMP_BYTES", "inflate", "inflate_beside"]

_WINDOW_BITS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""RFC 9110 8.4.1: deflate is the zlib format; x-gzip is equivalent to gzip."""
_CODINGS: Final = {*_WINDOW_BITS, "zstd"}
ACCEPTED: Final = "gzip, deflate, zstd, identity"
"""Value of Accept-Encoding in a response (RFC 9110 12.5.3)."""
INLINE_BYTES_MAX: Final = 8 << 10
"""Compressed bodies up to this size are inflated at once, because a thread would take longer. Larger ones
would block the event loop: a decompression bomb for 0.1 s."""
LUMP_BYTES: Final = 1 << 20
"""Bytes inflated at a time. Capacity for them is reserved before."""
PIECE_BYTES: Final = 64 << 10
MEMBERS_MAX: Final = 4096
"""Greatest number of members of a gzip body. Senders write one; each costs a copy of the piece it ends in."""
ZSTD_PIECE_BYTES: Final = 512
"""Compressed bytes of zstd inflated at a time. Four bytes may stand for 128 KiB, so a piece becomes 16 MiB at most."""
ZSTD_WINDOW_BYTES_MAX: Final = 8 << 20
"""Greatest window of zstd: a decoder should support it, and need not support more (RFC 8878 3.1.1.1.2)."""


def inflate(body: bytes, coding: str, bytes_max: int) -> bytes:
    """Decompresses a body by its Content-Encoding header, in any letter case.

    Raises:
        Refusal: an unknown coding, broken or cut off data, more than `bytes_max` bytes.
    """
    name = _coding(coding)
    return body if not name else b"".join(_pieces(body, name, bytes_max))


async def inflate_beside(
    body: bytes, coding: str, bytes_max: int, beside: Executor, hold: Callable[[int], None]
) -> bytes:
    """The same in a thread, a piece at a time. Capacity for each piece is reserved before it is inflated.

    Args:
        body: as it was sent.
        coding: the header.
        bytes_max: of what it becomes.
        beside: runs what takes long.
        hold: holds so many bytes more (or less, below 0), or raises the answer for the sender.

    Raises:
        Refusal: as `inflate` and `hold` do.
    """
    name = _coding(coding)
    if not name:
        return body
    loop = asyncio.get_running_loop()
    steps = _pieces(body, name, bytes_max)
    pieces: list[bytes] = []
    is_over = False
    while not is_over:
        hold(LUMP_BYTES)
        found, is_over = await loop.run_in_executor(beside, _lump, steps)
        hold(sum(map(len, found)) - LUMP_BYTES)
        pieces += found
    return await loop.run_in_executor(beside, b"".join, pieces)


def _lump(steps: Iterator[bytes]) -> tuple[list[bytes], bool]:
    """The next pieces, about `LUMP_BYTES` together, and whether they are the last."""
    found: list[bytes] = []
    room = LUMP_BYTES
    for piece in steps:
        found.append(piece)
        room -= len(piece)
        if room <= 0:
            return found, False
    return found, True


def _coding(header: str) -> str:
    """The coding that a header names; "" for identity."""
    names = [name.strip().lower() for name in header.split(",")]
    names = [name for name in names if name not in {"", "identity"}]
    if not names:
        return ""
    if len(names) > 1 or names[0] not in _CODINGS:
        message = f"Content-Encoding {header[:80]!r} is not supported; use {ACCEPTED}"
        raise Refusal(ExportStatus.UNSUPPORTED_MEDIA, message)
    return names[0]


def _pieces(body: bytes, name: str, bytes_max: int) -> Iterator[bytes]:
    """The inflated body, piece by piece."""
    return _zstd(body, bytes_max) if name == "zstd" else _zlib(body, name, bytes_max)


def _zlib(body: bytes, name: str, bytes_max: int) -> Iterator[bytes]:
    try:
        yield from _members(body, name, bytes_max)
    except zlib.error as error:
        raise Refusal(ExportStatus.MALFORMED, f"the body is not {name}: {error}") from error


def _members(body: bytes, name: str, bytes_max: int) -> Iterator[bytes]:
    """Inflates short pieces, because the rest of a piece is copied after the end of a member."""
    room = bytes_max
    members = 1
    stream = zlib.decompressobj(_WINDOW_BITS[name])
    for at in range(0, len(body), PIECE_BYTES):
        rest = body[at : at + PIECE_BYTES]
        while rest:
            if stream.eof:
                # RFC 1952 2.2: members may follow each other. Zeros may pad the end, as on tapes.
                rest = rest.lstrip(b"\0")
                if not rest:
                    break
                members += 1
                if name == "deflate" or members > MEMBERS_MAX:
                    raise Refusal(
                        ExportStatus.MALFORMED, f"data after the end of the {name} body"
                    )
                stream = zlib.decompressobj(_WINDOW_BITS[name])
            piece = stream.decompress(rest, min(room + 1, LUMP_BYTES))
            room -= len(piece)
            if room < 0:
                raise _too_large(bytes_max)
            yield piece
            rest = stream.unused_data if stream.eof else stream.unconsumed_tail
    while not stream.eof and (piece := stream.decompress(b"", min(room + 1, LUMP_BYTES))):
        room -= len(piece)
        if room < 0:
            raise _too_large(bytes_max)
        yield piece
    if not stream.eof:
        raise Refusal(ExportStatus.MALFORMED, f"the {name} body is cut off")


def _zstd(body: bytes, bytes_max: int) -> Iterator[bytes]:
    import zstandard  # imported with the first such body: most senders use gzip

    try:
        yield from _frames(zstandard, body, bytes_max)
    except zstandard.ZstdError as error:
        raise Refusal(ExportStatus.MALFORMED, f"the body is not zstd: {error}") from error


def _frames(zstandard: Any, body: bytes, bytes_max: int) -> Iterator[bytes]:
    """Inflates frame after frame (RFC 8878 3.1: they may follow each other)."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
    room = bytes_max
    stream = decompressor.decompressobj()
    frames = 1
    for at in range(0, len(body), ZSTD_PIECE_BYTES):
        rest = body[at : at + ZSTD_PIECE_BYTES]
        while rest:
            if stream.eof:
                frames += 1
                if frames > MEMBERS_MAX:
                    raise Refusal(ExportStatus.MALFORMED, "too many zstd frames")
                stream = decompressor.decompressobj()
            piece = stream.decompress(rest)
            room -= len(piece)
            if room < 0:
                raise _too_large(bytes_max)
            yield piece
            rest = stream.unused_data if stream.eof else b""
    if not stream.eof:
        raise Refusal(ExportStatus.MALFORMED, "the zstd body is cut off")


def _too_large(bytes_max: int) -> Refusal:
    message = f"the body has more than {bytes_max} bytes when decompressed"
    return Refusal(ExportStatus.TOO_LARGE, message)
