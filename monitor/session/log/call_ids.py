"""Call ids of a log's steps, packed one after another: span id (8 bytes), length (1 byte), text.

In a dictionary they would take four times as much memory: for a session of 64 calls, three times
the size of its log. A log has few ids, and they are read only when they are shown. So a lookup
searches them one by one.

Example: two spans with the ids `c1` and `c22` take 8 + 1 + 2 and 8 + 1 + 3 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["added", "found", "packed", "without"]

_SPAN: Final = 8
_HEAD: Final = _SPAN + 1
_LENGTHS: Final = [bytes((length,)) for length in range(256)]
"""The lengths as bytes, made once. A longer text is not packed."""


def _in_c() -> Callable[[bytes, bytes, str], bytes | None] | None:
    """The C function of `native.pyi`, if it was built."""
    try:
        from monitor.session.log import native
    except ImportError:
        return None
    return native.add_id


_add: Final = _in_c()
"""(ids, span id, call id): `added` in a quarter of the time; None if it cannot pack the call id."""


def added(ids: bytes, span_id: bytes, call_id: str) -> bytes:
    """The ids with one more at the end; the ids unchanged if it cannot be packed."""
    if _add is not None:
        more = _add(ids, span_id, call_id)
        if more is not None:
            return more
    one = packed(span_id, call_id)
    return ids + one if one else ids


def packed(span_id: bytes, call_id: str) -> bytes:
    """One packed call id; b"" if it is empty or too long, or if the span id is not of 8 bytes."""
    text = _encoded(call_id)
    if not text or len(text) >= len(_LENGTHS) or len(span_id) != _SPAN:
        return b""
    return span_id + _LENGTHS[len(text)] + text


def _encoded(text: str) -> bytes:
    return text.encode("ascii") if text.isascii() else text.encode("utf-8", "surrogatepass")


def found(ids: bytes, span_id: bytes) -> str:
    """The first call id of a span; "" if it has none."""
    at = _place(ids, span_id)
    if at < 0:
        return ""
    return ids[at + _HEAD : _next(ids, at)].decode("utf-8", "surrogatepass")


def without(ids: bytes, span_id: bytes) -> bytes:
    """The ids without the first one of a span."""
    at = _place(ids, span_id)
    return ids if at < 0 else ids[:at] + ids[_next(ids, at) :]


def _place(ids: bytes, span_id: bytes) -> int:
    """The offset of the first id of a span; -1 if it has none."""
    if len(span_id) != _SPAN or ids.find(span_id) < 0:
        return -1
    at, size = 0, len(ids)
    while at < size:
        if ids[at : at + _SPAN] == span_id:
            return at
        at = _next(ids, at)
    return -1


def _next(ids: bytes, at: int) -> int:
    """The offset of the next id."""
    return at + _HEAD + ids[at + _SPAN]
