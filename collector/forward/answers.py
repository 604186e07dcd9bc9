"""Answers of next hops: partial success and error messages, in protobuf and in JSON.

What cannot be read says nothing: the status of the answer alone decides what becomes of the request.
"""

from __future__ import annotations

import json
from typing import Any, Final

from google.protobuf.message import DecodeError

from collector.decode.protobuf.messages import TraceResponse

__all__ = ["json_answer", "json_message", "proto_answer"]

REJECTED: Final = ("rejectedSpans", "rejectedDataPoints", "rejectedLogRecords")
COUNT_MAX: Final = 10**9
"""A next hop that claims more is not believed: counters would jump."""


def proto_answer(body: bytes) -> tuple[int, str]:
    """Rejected items and message of an export response; its three signals have the same fields."""
    if not body:
        return 0, ""
    try:
        found = TraceResponse.FromString(body).partial_success
    except DecodeError:
        return 0, ""
    return _count(found.rejected_spans), found.error_message


def json_answer(body: bytes) -> tuple[int, str]:
    """The same in JSON, where 64-bit integers are texts."""
    partial = _object(_loaded(body), "partialSuccess")
    found = next((partial[key] for key in REJECTED if key in partial), 0)
    try:
        count = _count(int(found))
    except (TypeError, ValueError, OverflowError):
        count = 0
    return count, _text(partial.get("errorMessage"))


def json_message(body: bytes) -> str:
    """The message of a google.rpc.Status in JSON; "" if it is none."""
    found = _loaded(body)
    return _text(found.get("message")) if isinstance(found, dict) else ""


def _loaded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _object(found: Any, key: str) -> dict[str, Any]:
    inner = found.get(key) if isinstance(found, dict) else None
    return inner if isinstance(inner, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _count(value: int) -> int:
    return min(max(value, 0), COUNT_MAX)
