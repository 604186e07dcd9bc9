"""Content codings of HTTP bodies: inflated up to a bound, never beyond it."""

from __future__ import annotations

import zlib
from typing import Any, Final

from collector.receivers.status import Outcome, Refusal

__all__ = ["ACCEPTED", "INLINE_BYTES_MAX", "inflate"]

_WINDOW_BITS: Final = {"gzip": 31, "x-gzip": 31, "deflate": 15}
"""RFC 9110 8.4.1: deflate is the zlib format; x-gzip is equivalent to gzip."""
_CODINGS: Final = {*_WINDOW_BITS, "zstd"}
ACCEPTED: Final = "gzip, deflate, zstd, identity"
"""For Accept-Encoding in an answer (RFC 9110 12.5.3)."""
INLINE_BYTES_MAX: Final = 8 << 10
"""Compressed bodies up to this are inflated at once: a thread would take longer. Larger ones would
hold up everyone else, a bomb for a tenth of a second."""
PIECE_BYTES: Final = 64 << 10
MEMBERS_MAX: Final = 4096
"""Members of one gzip body. Real ones have one; each costs a copy of the piece it ends in."""
ZSTD_PIECE_BYTES: Final = 512
"""Four bytes can stand for a block of 128 KiB, and a piece is inflated as a whole: 16 MiB."""
ZSTD_WINDOW_BYTES_MAX: Final = 8 << 20
"""RFC 8878 3.1.1.1.2: what a decoder should support, and need not exceed."""


def inflate(body: bytes, coding: str, bytes_max: int) -> bytes:
    """Undo a Content-Encoding header, of any letter case.

    Raises:
        Refusal: an unknown coding, broken or cut off data, more than `bytes_max` bytes.
    """
    names = [name.strip().lower() for name in coding.split(",")]
    names = [name for name in names if name not in {"", "identity"}]
    if not names:
        return body
    if len(names) > 1 or names[0] not in _CODINGS:
        message = f"Content-Encoding {coding[:80]!r} is not supported; use {ACCEPTED}"
        raise Refusal(Outcome.UNSUPPORTED_MEDIA, message)
    if names[0] == "zstd":
        return _inflate_zstd(body, bytes_max)
    try:
        return _inflate(body, names[0], bytes_max)
    except zlib.error as error:
        raise Refusal(Outcome.MALFORMED, f"the body is not {names[0]}: {error}") from error


def _inflate(body: bytes, name: str, bytes_max: int) -> bytes:
    """Inflate piece by piece: what follows the end of a member is copied, so keep it short."""
    pieces: list[bytes] = []
    room = bytes_max
    members = 1
    stream = zlib.decompressobj(_WINDOW_BITS[name])
    for at in range(0, len(body), PIECE_BYTES):
        rest = body[at : at + PIECE_BYTES]
        while rest:
            if stream.eof:
                # RFC 1952 2.2: members may follow each other; writers of tapes pad with zeros.
                rest = rest.lstrip(b"\0")
                if not rest:
                    break
                members += 1
                if name == "deflate" or members > MEMBERS_MAX:
                    raise Refusal(Outcome.MALFORMED, f"data after the end of the {name} body")
                stream = zlib.decompressobj(_WINDOW_BITS[name])
            piece = stream.decompress(rest, room + 1)
            room -= len(piece)
            if room < 0:
                raise _too_large(bytes_max)
            pieces.append(piece)
            rest = stream.unused_data if stream.eof else b""
    if not stream.eof:
        raise Refusal(Outcome.MALFORMED, f"the {name} body is cut off")
    return b"".join(pieces)


def _inflate_zstd(body: bytes, bytes_max: int) -> bytes:
    import zstandard  # loaded with the first such body: most senders know gzip alone

    try:
        return _inflate_frames(zstandard, body, bytes_max)
    except zstandard.ZstdError as error:
        raise Refusal(Outcome.MALFORMED, f"the body is not zstd: {error}") from error


def _inflate_frames(zstandard: Any, body: bytes, bytes_max: int) -> bytes:
    """Inflate frame after frame (RFC 8878 3.1: they may follow each other)."""
    decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES_MAX)
    pieces: list[bytes] = []
    room = bytes_max
    stream = decompressor.decompressobj()
    frames = 1
    for at in range(0, len(body), ZSTD_PIECE_BYTES):
        rest = body[at : at + ZSTD_PIECE_BYTES]
        while rest:
            if stream.eof:
                frames += 1
                if frames > MEMBERS_MAX:
                    raise Refusal(Outcome.MALFORMED, "too many zstd frames")
                stream = decompressor.decompressobj()
            piece = stream.decompress(rest)
            room -= len(piece)
            if room < 0:
                raise _too_large(bytes_max)
            pieces.append(piece)
            rest = stream.unused_data if stream.eof else b""
    if not stream.eof:
        raise Refusal(Outcome.MALFORMED, "the zstd body is cut off")
    return b"".join(pieces)


def _too_large(bytes_max: int) -> Refusal:
    message = f"the body has more than {bytes_max} bytes when decompressed"
    return Refusal(Outcome.TOO_LARGE, message)
