"""`GET /api/v1/verdicts`: live verdicts as JSON lines, for `offrails tail` and for scripts."""

from __future__ import annotations

import asyncio
from typing import Any

from collector.api.access import Access, access_of
from collector.api.query_string import check_names, parameters
from collector.api.streams.verdict_feed import VerdictFeed
from collector.net.asgi import (
    Receive,
    Scope,
    Send,
    path_of,
    reader_gone,
    send_json,
    send_stream,
)

__all__ = ["PATH", "VerdictStream"]

PATH = b"/api/v1/verdicts"


class VerdictStream:
    """The admin application, and the stream of verdicts."""

    def __init__(self, inner: Any, feed: VerdictFeed) -> None:
        self._inner = inner
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = path_of(scope)
        if path != PATH:
            await self._inner(scope, receive, send)
        elif scope["method"] != "GET":
            await send_json(send, 405, {"error": "use GET"}, (b"allow", b"GET"))
        else:
            try:
                check_names(parameters(scope))
            except ValueError as problem:
                await send_json(send, 400, {"error": str(problem)})
                return
            if self._feed.full:
                await send_json(send, 503, {"error": "too many open streams"})
            else:
                await self._stream(receive, send, access_of(scope))

    async def _stream(self, receive: Receive, send: Send, access: Access) -> None:
        """Streams until the service stops or the reader goes."""
        lines = self._feed.lines(access)
        stream = asyncio.create_task(send_stream(send, b"application/x-ndjson", lines))
        gone = asyncio.create_task(reader_gone(receive))
        try:
            await asyncio.wait((stream, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (stream, gone):
                task.cancel()
            await asyncio.gather(stream, gone, return_exceptions=True)
