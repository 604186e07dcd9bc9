"""`POST /-/reload`: specs are read anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from collector.api.access import access_of
from collector.api.query_string import check_names, parameters
from collector.config.spec_reload import PATH, Reloader
from collector.net.asgi import Receive, Scope, Send, is_refused, path_of, send_json

__all__ = ["ReloadEndpoint"]

_SESSIONS: Final = ("keep", "rejudge")


class ReloadEndpoint:
    """The admin application, and `POST /-/reload`: 200 when the specs are taken, 422 if not.

    `?sessions=rejudge` has running sessions judged again under the specs in use; `keep`, the default, leaves them under
    the versions with which they began. The answer says how many there are of both.
    """

    def __init__(self, inner: Any, reloader: Reloader) -> None:
        self._inner = inner
        self._reloader = reloader

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = path_of(scope)
        if path != PATH:
            await self._inner(scope, receive, send)
        elif await is_refused(scope, send):
            return
        elif access_of(scope).namespaces is not None:
            problem = "this needs the role operator of all namespaces: specs judge all of them"
            await send_json(send, 403, {"error": problem, "role": "operator"})
        else:
            await self._reload(scope, send)

    async def _reload(self, scope: Scope, send: Send) -> None:
        try:
            sessions = _sessions(parameters(scope))
        except ValueError as problem:
            await send_json(send, 400, {"error": str(problem)})
            return
        who = access_of(scope).who or "unknown"
        done = await self._reloader.reload("request", who, rejudge=sessions == "rejudge")
        await send_json(send, 200 if done.success else 422, done.as_json())


def _sessions(query: Mapping[str, str]) -> str:
    """What is to become of running sessions.

    Raises:
        ValueError: a sentence.
    """
    check_names(query, ("sessions",))
    found = query.get("sessions", "keep")
    if found not in _SESSIONS:
        raise ValueError(f"sessions must be one of {', '.join(_SESSIONS)}")
    return found
