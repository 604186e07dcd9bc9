"""`POST /-/reload`: specs are read anew."""

from __future__ import annotations

from typing import Any

from collector.api.token_guard import WHO
from collector.config.spec_reload import PATH, Reloader
from collector.net.asgi import Receive, Scope, Send, send_json

__all__ = ["ReloadEndpoint"]


class ReloadEndpoint:
    """The admin application, and `POST /-/reload`: 200 when the specs are taken, 422 if not."""

    def __init__(self, inner: Any, reloader: Reloader) -> None:
        self._inner = inner
        self._reloader = reloader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: bytes = scope.get("raw_path") or scope["path"].encode()
        if path != PATH:
            await self._inner(scope, receive, send)
        elif scope["method"] != "POST":
            await send_json(send, 405, {"error": "use POST"}, (b"allow", b"POST"))
        elif any(name == b"origin" for name, _ in scope["headers"]):
            # A web page in somebody's browser: it may reach the loopback, but it is not the operator.
            await send_json(send, 403, {"error": "not from a web page"})
        else:
            done = await self._reloader.reload("request", _who(scope))
            await send_json(send, 200 if done.success else 422, done.as_json())


def _who(scope: Scope) -> str:
    """The name of the token's holder; else the client's address, if it has one."""
    client = scope.get("client")
    return scope.get(WHO) or (str(client[0] or "") if client else "") or "unknown"
