"""ASGI helpers of the small web applications."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any

from collector.telemetry.json_text import as_json

__all__ = [
    "Application",
    "Receive",
    "Scope",
    "Send",
    "begin_stream",
    "end_stream",
    "is_refused",
    "path_of",
    "reader_gone",
    "send_json",
    "send_part",
    "send_status",
    "send_stream",
]

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_SAFE = ((b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"))


def path_of(scope: Scope) -> bytes:
    """A request's path as it came, percent signs and all."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    return path


async def reader_gone(receive: Receive) -> None:
    """Returns when the reader of a response has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_status(
    send: Send, status: int, body: bytes, content_type: bytes, *headers: tuple[bytes, bytes]
) -> None:
    """Sends a whole response."""
    length = (b"content-length", str(len(body)).encode())
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [(b"content-type", content_type), length, *_SAFE, *headers],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def send_json(send: Send, status: int, value: Any, *headers: tuple[bytes, bytes]) -> None:
    """Sends a value as JSON."""
    body = as_json(value)
    await send_status(send, status, body, b"application/json", *headers)


async def is_refused(scope: Scope, send: Send, *, own_page: bool = False) -> bool:
    """Refuses a request that may not change anything: it is no POST, or comes from a web page.

    The loopback is open to every page in somebody's browser, which is not the operator. With `own_page` the session
    view may: `HostGuard` stands before it, and has refused the pages of other sites.
    """
    if scope["method"] != "POST":
        await send_json(send, 405, {"error": "use POST"}, (b"allow", b"POST"))
        return True
    if not own_page and any(name == b"origin" for name, _ in scope["headers"]):
        await send_json(send, 403, {"error": "not from a web page"})
        return True
    return False


async def send_stream(send: Send, content_type: bytes, parts: AsyncIterator[bytes]) -> None:
    """Sends a response in parts, so that a long one never blocks the process."""
    await begin_stream(send, content_type)
    async for part in parts:
        await send_part(send, part)
    await end_stream(send)


async def begin_stream(send: Send, content_type: bytes, *more: tuple[bytes, bytes]) -> None:
    """Sends the head of a response in parts."""
    headers = [(b"content-type", content_type), *_SAFE, *more]
    await send({"type": "http.response.start", "status": 200, "headers": headers})


async def send_part(send: Send, part: bytes) -> None:
    """Sends one part."""
    await send({"type": "http.response.body", "body": part, "more_body": True})


async def end_stream(send: Send) -> None:
    """Ends the response."""
    await send({"type": "http.response.body", "body": b""})
