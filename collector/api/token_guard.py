"""Asks for a token before the API, the session view and reload; health is for anybody.

Programs send `Authorization: Bearer TOKEN`. Browsers ask their user themselves: the token is the password of
basic authentication, and they send it with every request of the page, its stream of changes too.
"""

from __future__ import annotations

import base64
import binascii
from typing import Final

from collector.net.asgi import Application, Receive, Scope, Send, send_json
from collector.net.host_guard import Guard
from collector.receive.bearer_tokens import Tokens
from collector.receive.status import Refusal

__all__ = ["WHO", "TokenGuard"]

WHO: Final = "offrails.who"
"""Key of the request's scope that has the name of the token's holder."""
_OPEN: Final = ("/-/healthy", "/-/ready")
_CHALLENGES: Final = (
    (b"www-authenticate", b'Bearer realm="offrails"'),
    (b"www-authenticate", b'Basic realm="offrails: the token is the password"'),
)


class TokenGuard:
    """An ASGI application in front of the admin application.

    Args:
        inner: the admin application.
        tokens: who may ask.
        guard: the names accepted as Host: no token is asked for under another's name.
    """

    def __init__(self, inner: Application, tokens: Tokens, guard: Guard) -> None:
        self._inner = inner
        self._tokens = tokens
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] not in _OPEN and self._guard.refuses(scope) is None:
            try:
                scope[WHO] = self._tokens.sender(_bearer(scope))
            except Refusal as refusal:
                await send_json(send, 401, {"error": str(refusal)}, *_CHALLENGES)
                return
        await self._inner(scope, receive, send)


def _bearer(scope: Scope) -> str:
    """The request's authorization; a password of basic authentication is read as a token."""
    headers: dict[bytes, bytes] = dict(scope["headers"])
    given = headers.get(b"authorization", b"").decode("latin-1")
    scheme, _, encoded = given.partition(" ")
    if scheme.lower() != "basic":
        return given
    try:
        found = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return f"Bearer {found.partition(':')[2]}"
