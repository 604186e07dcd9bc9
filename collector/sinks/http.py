"""One HTTP request of ours, bounded in time and size, without a thread.

`urllib` cannot be told how long a whole answer may take, and a receiver that sends a byte a second
would keep a thread for ever. So this is written on asyncio streams: one request a connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

__all__ = ["DeliveryError", "post"]

ANSWER_BYTES_MAX = 64 * 1024
REST_SECONDS = 0.5
RETRY_CODES = frozenset({408, 425, 429})


class DeliveryError(Exception):
    """It did not arrive. `again` False: the receiver has refused it for good."""

    def __init__(self, message: str, *, again: bool = True) -> None:
        super().__init__(message)
        self.again = again


async def post(
    url: str, body: bytes, headers: Mapping[str, str], timeout_seconds: float
) -> None:
    """Posts a body and waits for the answer's status.

    Raises:
        DeliveryError: no connection, no answer in time, or an answer that is not 2xx.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            status = await _status(url, body, headers)
    except TimeoutError:
        raise DeliveryError("no answer in time") from None
    except (OSError, ValueError, asyncio.IncompleteReadError) as problem:
        raise DeliveryError(str(problem) or type(problem).__name__) from None
    if not 200 <= status < 300:
        again = status >= 500 or status in RETRY_CODES
        raise DeliveryError(f"status {status}", again=again)


async def _status(url: str, body: bytes, headers: Mapping[str, str]) -> int:
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    reader, writer = await asyncio.open_connection(
        parts.hostname,
        parts.port or (443 if secure else 80),
        ssl=ssl.create_default_context() if secure else None,
        limit=ANSWER_BYTES_MAX,
    )
    try:
        writer.write(_head(url, len(body), headers) + body)
        await writer.drain()
        line = await reader.readline()
        with contextlib.suppress(
            OSError, TimeoutError, ValueError, asyncio.IncompleteReadError
        ):
            async with asyncio.timeout(REST_SECONDS):
                await _rest(reader)
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            writer.transport.abort()
    words = line.split()
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise ValueError("the answer is not HTTP")
    return int(words[1])


async def _rest(reader: asyncio.StreamReader) -> None:
    """Reads on so that the receiver may finish its answer; what it says is not used.

    Some keep the connection, whatever they are asked: their answer has the length it says.
    """
    length = ANSWER_BYTES_MAX
    while (line := await reader.readline()).strip():
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = min(int(value), ANSWER_BYTES_MAX)
    await reader.readexactly(length)


def _head(url: str, length: int, headers: Mapping[str, str]) -> bytes:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    host = parts.netloc.rpartition("@")[2]
    lines = [
        f"POST {target} HTTP/1.1",
        f"host: {host}",
        "connection: close",
        "user-agent: offrails",
        f"content-length: {length}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
