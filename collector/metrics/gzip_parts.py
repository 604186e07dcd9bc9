"""Gzip for a response in parts: each part is compressed in the turn that rendered it, so a slice stays short."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from typing import Final

__all__ = ["GZIP_HEADERS", "accepts_gzip", "gzipped"]

GZIP_HEADERS: Final = ((b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"))
_LEVEL: Final = 1
"""Series repeat themselves: the fastest level leaves a fifteenth of them."""
_WITH_GZIP_HEADER: Final = 16 + zlib.MAX_WBITS


def accepts_gzip(accepted: str) -> bool:
    """True if an Accept-Encoding header (RFC 9110, 12.5.3) names gzip, or anything, with a quality above 0."""
    found = {}
    for part in accepted.lower().split(","):
        coding, _, parameter = part.partition(";")
        found[coding.strip()] = _quality(parameter)
    return found.get("gzip", found.get("*", 0.0)) > 0


def _quality(parameter: str) -> float:
    name, _, value = parameter.partition("=")
    try:
        return float(value) if name.strip() == "q" else 1.0
    except ValueError:
        return 0.0


async def gzipped(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The parts as one gzip stream; a part may be empty if the compressor waits for more."""
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WITH_GZIP_HEADER)
    async for part in parts:
        yield compressor.compress(part)
    yield compressor.flush()
