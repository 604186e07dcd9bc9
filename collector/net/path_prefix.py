"""The path under which a proxy shows a listener: requests may come with it, or without.

Example: people reach the listener at `https://example.com/offrails`. A proxy that hands on `/offrails/api/v1/about` is answered
as one that strips the path and hands on `/api/v1/about`.
"""

from __future__ import annotations

from collector.net.asgi import Application, Receive, Scope, Send, path_of, send_status

__all__ = ["PathPrefix"]


class PathPrefix:
    """An application that is reached below a path, too.

    Args:
        inner: knows nothing of the path.
        prefix: the path, percent-encoded, without a slash at its end; not empty.
    """

    def __init__(self, inner: Application, prefix: str) -> None:
        self._inner = inner
        self._prefix = prefix.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = path_of(scope)
        if path == self._prefix:
            # Addresses within the page are relative: they need the slash.
            there = self._prefix + b"/"
            await send_status(send, 308, b"", b"text/plain", (b"location", there))
            return
        if path.startswith(self._prefix + b"/"):
            rest = path[len(self._prefix) :]
            scope = {**scope, "raw_path": rest, "path": rest.decode("latin-1")}
        await self._inner(scope, receive, send)
