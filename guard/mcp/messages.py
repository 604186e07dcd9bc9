"""Messages of the Model Context Protocol: which are calls of tools, and what is answered to a denied one.

Only what is needed is read of a message. It goes on as the bytes that came, whatever its version of the
protocol.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from guard.decision import Decision, Outcome
from guard.question import Call

__all__ = [
    "Incoming",
    "ToolCall",
    "UnreadableMessageError",
    "answers",
    "outcomes",
    "read",
    "traceparent",
    "unreadable",
]

CALL: Final = "tools/call"

INVALID_REQUEST: Final = -32600
"""JSON-RPC's code of a request that is none."""

OTHER: Final = "Not made: another call of the same batch is denied. Send it again by itself."

Id = str | int | float


class UnreadableMessageError(ValueError):
    """The text is no JSON object, and no list of them."""


class ToolCall(NamedTuple):
    """One request to call a tool."""

    id: Id
    call: Call
    trace_id: str


class Incoming(NamedTuple):
    """What one text from a client holds."""

    calls: Sequence[ToolCall]
    requests: Sequence[Id]
    """Ids of all requests, calls included: each is owed an answer."""
    batch: bool

    @property
    def trace_id(self) -> str:
        """Of the first call that names one."""
        return next((each.trace_id for each in self.calls if each.trace_id), "")


def read(text: bytes) -> Incoming:
    """The calls of a text.

    Raises:
        UnreadableMessageError: it cannot be read, or a key is there twice, so that a server may read another call.
    """
    found = _parsed(text)
    messages = found if isinstance(found, list) else [found]
    if not all(isinstance(each, dict) for each in messages):
        raise UnreadableMessageError("a message is no object")
    requests = [each["id"] for each in messages if "method" in each and _is_id(each.get("id"))]
    calls = [
        _call(each)
        for each in messages
        if each.get("method") == CALL and _is_id(each.get("id"))
    ]
    return Incoming(calls, requests, isinstance(found, list))


def answers(incoming: Incoming, decisions: Sequence[Decision]) -> bytes:
    """The answer to a text of which a call is denied.

    A denied call gets a result that is an error, with the reason. Of a batch nothing is made: its
    other requests get an error that says so.
    """
    results = {
        each.id: _result(each.id, decision.message or OTHER)
        for each, decision in zip(incoming.calls, decisions, strict=True)
    }
    found = [results.get(id_) or _error(id_, OTHER) for id_ in incoming.requests]
    return _text(found if incoming.batch else found[0])


def unreadable(message: str) -> bytes:
    """The answer to a text that cannot be read."""
    return _text(_error(None, message))


def outcomes(text: bytes) -> list[tuple[Id, Outcome]]:
    """The calls that a text from a server answers, and what became of them; others than calls, too."""
    try:
        found = _parsed(text)
    except UnreadableMessageError:
        return []
    messages = found if isinstance(found, list) else [found]
    return [
        (each["id"], _outcome(each))
        for each in messages
        if isinstance(each, dict) and _is_id(each.get("id")) and "method" not in each
    ]


def _outcome(message: Mapping[str, Any]) -> Outcome:
    result = message.get("result")
    if not isinstance(result, dict) or result.get("isError") is True:
        return "failed"
    # The server asks for something first, and the call is made again with it.
    return "skipped" if result.get("resultType") == "input_required" else "ran"


def _call(message: Mapping[str, Any]) -> ToolCall:
    params = message.get("params")
    params = params if isinstance(params, dict) else {}
    name, arguments, meta = params.get("name"), params.get("arguments", {}), params.get("_meta")
    parent = meta.get("traceparent") if isinstance(meta, dict) else None
    trace_id, span_id = traceparent(parent if isinstance(parent, str) else "")
    call = Call(
        name if isinstance(name, str) else "",
        arguments if isinstance(arguments, dict) else None,
        parent_span_id=span_id,
    )
    return ToolCall(message["id"], call, trace_id)


def traceparent(text: str) -> tuple[str, str]:
    """Trace id and span id of W3C's header; "" where it names none."""
    parts = text.split("-")
    if len(parts) < 4 or len(parts[1]) != 32 or len(parts[2]) != 16:
        return "", ""
    digits = parts[1] + parts[2]
    if set(digits) - set("0123456789abcdef") or not parts[1].strip("0"):
        return "", ""
    return parts[1], parts[2] if parts[2].strip("0") else ""


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except (ValueError, RecursionError) as problem:
        raise UnreadableMessageError(str(problem)) from problem


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _is_id(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _result(id_: Id, message: str) -> dict[str, Any]:
    content = [{"type": "text", "text": message}]
    result = {"content": content, "isError": True, "resultType": "complete"}
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def _error(id_: Id | None, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "error": {"code": INVALID_REQUEST, "message": message}}


def _text(found: Any) -> bytes:
    return json.dumps(found, separators=(",", ":")).encode()
