"""Messages of the Model Context Protocol: which are calls of tools, and what is answered to a denied one.

Only what is needed is read of a message, and as lenient servers read it. It goes on as the bytes that came, whatever its
version of the protocol.

    a request of tools/call       asked for; its arguments are unknown where they cannot be read
    the same without an id, or    asked for: some servers make it
    with an id of another kind
    what may be a call, and names refused: it has no tool, or two, keys in another case, or its structure is not
    no tool                       that of JSON
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from offrails_guard.decision import Decision, Outcome
from offrails_guard.lenient_json import UNREAD, Text, has_unread, read
from offrails_guard.question import Call

__all__ = [
    "ClientMessages",
    "McpCall",
    "answers",
    "key_of",
    "outcomes",
    "read_incoming",
    "refusal",
    "traceparent",
]

CALL: Final = "tools/call"
CANCELLED: Final = "notifications/cancelled"

OF_A_MESSAGE: Final = ("jsonrpc", "id", "method", "params")
OF_A_CALL: Final = ("name", "arguments", "_meta")

INVALID_REQUEST: Final = -32600
"""JSON-RPC's code of a request that is none."""

OTHER: Final = "Not made: another call of the same batch is denied. Send it again by itself."
UNREADABLE: Final = "Not made: the message cannot be read, so nobody knows which tool it calls."

_ABSENT: Final = object()


class McpCall(NamedTuple):
    """One call of a tool."""

    id: Any
    """Id as received: a text or a number, if the client follows the protocol."""
    key: str
    """What names the call among those of its client; "" where nothing will answer it."""
    call: Call
    trace_id: str


class ClientMessages(NamedTuple):
    """What one text from a client holds."""

    calls: Sequence[McpCall] = ()
    owed: Sequence[Any] = ()
    """Ids of all requests, calls included: each is owed an answer."""
    cancelled: Sequence[str] = ()
    """Keys of calls that the client gives up."""
    batch: bool = False
    is_read: bool = True
    """False for what a strict reader refuses."""
    may_call: bool = False
    """True if what cannot be read may be a call."""

    @property
    def trace_id(self) -> str:
        """Of the first call that names one."""
        return next((each.trace_id for each in self.calls if each.trace_id), "")


def read_incoming(text: bytes) -> ClientMessages:
    """What a client's text holds."""
    found = read(text)
    messages = _messages(found)
    calls = [_call(each) for each in messages if _is_call(each)]
    unclear = not found.is_whole or any(_is_unclear(each) for each in messages)
    return ClientMessages(
        [each for each in calls if each is not None],
        [each["id"] for each in messages if _is_owed(each)],
        [key for each in messages for key in _cancelled(each)],
        len(found.values) > 1 or any(isinstance(each, list) for each in found.values),
        found.is_strict and all(isinstance(each, dict) for each in messages),
        None in calls or (unclear and (b"{" in text or b"[" in text)),
    )


def answers(incoming: ClientMessages, decisions: Sequence[Decision]) -> bytes:
    """The answer to a text of which a call is denied; b"" where none is owed.

    A denied call gets a result that is an error, with the reason. Of a batch nothing is made: its
    other requests get an error that says so.
    """
    results = {
        each.key: _result(each.id, decision.message or OTHER)
        for each, decision in zip(incoming.calls, decisions, strict=True)
        if each.key
    }
    return _text(
        incoming, [results.get(key_of(id_)) or _error(id_, OTHER) for id_ in incoming.owed]
    )


def refusal(incoming: ClientMessages, message: str) -> bytes:
    """The answer to a text that is not passed on since it cannot be read."""
    owed = [*incoming.owed] or [None]
    return _text(incoming, [_error(id_, message) for id_ in owed])


def outcomes(text: bytes) -> list[tuple[str, Outcome]]:
    """The keys of calls that a text from a server answers, and what became of them; others than calls, too."""
    return [
        (key_of(each["id"]), _outcome(each))
        for each in _messages(read(text))
        if isinstance(each, dict) and "id" in each and "method" not in each
    ]


def key_of(id_: Any) -> str:
    """What names a request by its id; "" for an id that no answer has."""
    if id_ is UNREAD or has_unread(id_):
        return ""
    is_whole = isinstance(id_, float) and id_.is_integer()
    return json.dumps(int(id_) if is_whole else id_, sort_keys=True)


def _messages(text: Text) -> list[Any]:
    """Those of a text: it is one, or a batch of them, or several texts in one line."""
    return [
        each
        for value in text.values
        for each in (value if isinstance(value, list) else [value])
    ]


def _is_call(message: Any) -> bool:
    return isinstance(message, dict) and message.get("method") == CALL


def _is_unclear(message: Any) -> bool:
    """True for what may be a call, by what cannot be read of it."""
    if isinstance(message, dict):
        return message.get("method") is UNREAD or _has_other_case(message, OF_A_MESSAGE)
    return message is UNREAD or isinstance(
        message, list
    )  # a list in a list is no batch, but who knows


def _has_other_case(found: Mapping[str, Any], names: Collection[str]) -> bool:
    """True if a key is one of these but for upper and lower case: some readers take it for that one."""
    return any(key not in names and key.casefold() in names for key in found)


def _is_owed(message: Any) -> bool:
    return isinstance(message, dict) and "method" in message and bool(_known_id(message))


def _known_id(message: Mapping[str, Any]) -> bool:
    return "id" in message and key_of(message["id"]) != ""


def _cancelled(message: Any) -> Iterable[str]:
    if not isinstance(message, dict) or message.get("method") != CANCELLED:
        return ()
    params = message.get("params")
    if not isinstance(params, dict) or "requestId" not in params:
        return ()
    return (key_of(params["requestId"]),)


def _outcome(message: Mapping[str, Any]) -> Outcome:
    result = message.get("result")
    if not isinstance(result, dict) or result.get("isError") is True:
        return "failed"
    # The server asks for something first, and the call is made again with it.
    return "skipped" if result.get("resultType") == "input_required" else "ran"


def _call(message: Mapping[str, Any]) -> McpCall | None:
    """None where it names no tool."""
    params = message.get("params")
    if not isinstance(params, dict):
        return None
    name, arguments, meta = params.get("name"), params.get("arguments", {}), params.get("_meta")
    if not isinstance(name, str) or not name or _has_other_case(params, OF_A_CALL):
        return None
    parent = meta.get("traceparent") if isinstance(meta, dict) else None
    trace_id, span_id = traceparent(parent if isinstance(parent, str) else "")
    known = arguments if isinstance(arguments, dict) else None
    call = Call(name, known, parent_span_id=span_id)
    id_ = message.get("id", _ABSENT)
    return McpCall(id_, "" if id_ is _ABSENT else key_of(id_), call, trace_id)


def traceparent(text: str) -> tuple[str, str]:
    """Trace id and span id of W3C's header; "" where it names none."""
    parts = text.split("-")
    if len(parts) < 4 or len(parts[1]) != 32 or len(parts[2]) != 16:
        return "", ""
    digits = parts[1] + parts[2]
    if set(digits) - set("0123456789abcdef") or not parts[1].strip("0"):
        return "", ""
    return parts[1], parts[2] if parts[2].strip("0") else ""


def _result(id_: Any, message: str) -> dict[str, Any]:
    content = [{"type": "text", "text": message}]
    result = {"content": content, "isError": True, "resultType": "complete"}
    return {"jsonrpc": "2.0", "id": _echoed(id_), "result": result}


def _error(id_: Any, message: str) -> dict[str, Any]:
    error = {"code": INVALID_REQUEST, "message": message}
    return {"jsonrpc": "2.0", "id": _echoed(id_), "error": error}


def _echoed(id_: Any) -> Any:
    """The id of an answer; null where JSON has no such number: `1e400` is read as infinity."""
    try:
        json.dumps(id_, allow_nan=False)
    except ValueError:
        return None
    return id_


def _text(incoming: ClientMessages, found: list[dict[str, Any]]) -> bytes:
    if not found:
        return b""
    return json.dumps(found if incoming.batch else found[0], separators=(",", ":")).encode()
