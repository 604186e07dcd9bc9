"""`POST /api/v1/sessions/{session}/label`: somebody says whether the verdict on a session is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from collector.api.access import Access, access_of
from collector.api.query_string import check_names, parameters, session_to
from collector.api.session_query import whole_number
from collector.archive.record import ArchiveUnreadError, Label, SessionName
from collector.net.asgi import Receive, Scope, Send, is_refused, send_json
from collector.telemetry.logs import log

if TYPE_CHECKING:
    from collector.api.archive.past_sessions import PastSessions

__all__ = ["LabelEndpoint", "LabelRequest"]

BODY_MAX: Final = 16 << 10
"""Bytes of a request's body."""
NOTE_MAX: Final = 2_000
"""Characters of a note."""


class LabelRequest(msgspec.Struct, forbid_unknown_fields=True):
    """What the body of a request says."""

    label: Literal["right", "wrong"] | None
    note: str = ""
    spec: str | None = None


class LabelEndpoint:
    """The admin application, and the path that labels sessions: 200 with the label that was taken.

    400 for a body that is none, 404 where no session has this id, 409 where no archive is kept, and 503 where its queue is full, or it cannot be read.

    Args:
        inner: the admin application.
        past: finds sessions of now and of before; None if there is no archive.
        put: takes a label for the archive; 0 if there is no room.
        clock: Unix nanoseconds.
    """

    def __init__(
        self,
        inner: Any,
        past: PastSessions | None,
        put: Callable[[Label], int],
        clock: Callable[[], int],
    ) -> None:
        self._inner = inner
        self._past = past
        self._put = put
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = session_to(b"label", scope)
        if session is None:
            await self._inner(scope, receive, send)
        elif not await is_refused(scope, send, own_page=True):
            status, said = await self._label(session, scope, receive)
            await send_json(send, status, said)

    async def _label(
        self, session: str, scope: Scope, receive: Receive
    ) -> tuple[int, dict[str, Any]]:
        query, access = parameters(scope), access_of(scope)
        try:
            check_names(query, ("namespace", "begun"))
            begun = whole_number(query["begun"], "begun") if "begun" in query else None
            asked = _asked(await _body(receive))
        except (ValueError, msgspec.DecodeError) as problem:
            return 400, {"error": str(problem)}
        if self._past is None:
            return 409, {
                "error": "labels are kept in the archive: set archive.dir or archive.url"
            }
        try:
            found = await self._past.latest(session, query.get("namespace"), begun, access)
        except ArchiveUnreadError as problem:
            return 503, {"error": str(problem)}
        if found is None:
            return 404, {"error": "no such session", "session": session}
        return self._keep(found, asked, access)

    def _keep(
        self, name: SessionName, asked: LabelRequest, access: Access
    ) -> tuple[int, dict[str, Any]]:
        label = Label(name, asked.spec, asked.label, asked.note, access.who, self._clock())
        if not self._put(label):
            return 503, {"error": "the archive's queue is full"}
        log.info(
            "audit", action="label", who=label.who, session=name.session, label=label.label
        )
        return 200, label.as_json()


def _asked(body: bytes) -> LabelRequest:
    """Reads a body.

    Raises:
        ValueError: it is none; msgspec's own errors are such.
    """
    found = msgspec.json.decode(body, type=LabelRequest)
    if len(found.note) > NOTE_MAX:
        raise ValueError(f"note has more than {NOTE_MAX} characters")
    return found


async def _body(receive: Receive) -> bytes:
    """The body of a request.

    Raises:
        ValueError: it is too long.
    """
    body: bytes = b""
    while True:
        message = await receive()
        part: bytes = message.get("body", b"")
        body += part
        if len(body) > BODY_MAX:
            raise ValueError(f"the body has more than {BODY_MAX} bytes")
        if not message.get("more_body"):
            return body
