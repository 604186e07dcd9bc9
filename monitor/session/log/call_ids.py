"""Call ids of a log's steps, one behind the other in bytes: span id, length, text.

As entries of a dictionary they take four times as much, which for a session of 64 calls is three
times its log. A log has few enough of them to be looked through when they are shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["added", "found", "packed", "without"]

_SPAN: Final = 8
_HEAD: Final = _SPAN + 1
_LENGTHS: Final = [bytes((length,)) for length in range(256)]
"""Made once: a text that is longer is not packed."""


def _in_c() -> Callable[[bytes, bytes, str], bytes | None] | None:
    """What `native.pyi` promises, where it was built."""
    try:
        from monitor.session.log import native
    except ImportError:
        return None
    return native.add_id


_add: Final = _in_c()
"""(ids, span id, call id) gives what `added` gives, in a quarter of the time; None of what is not plain."""


def added(ids: bytes, span_id: bytes, call_id: str) -> bytes:
    """The same ids and another one behind them; none where it does not fit."""
    if _add is not None:
        more = _add(ids, span_id, call_id)
        if more is not None:
            return more
    one = packed(span_id, call_id)
    return ids + one if one else ids


def packed(span_id: bytes, call_id: str) -> bytes:
    """A call id, to be put behind others; b"" where it is none, or its ids do not fit."""
    text = _encoded(call_id)
    if not text or len(text) >= len(_LENGTHS) or len(span_id) != _SPAN:
        return b""
    return span_id + _LENGTHS[len(text)] + text


def _encoded(text: str) -> bytes:
    return text.encode("ascii") if text.isascii() else text.encode("utf-8", "surrogatepass")


def found(ids: bytes, span_id: bytes) -> str:
    """The first call id of a span; "" where it has none."""
    at = _place(ids, span_id)
    if at < 0:
        return ""
    return ids[at + _HEAD : _next(ids, at)].decode("utf-8", "surrogatepass")


def without(ids: bytes, span_id: bytes) -> bytes:
    """The same ids but for the first of a span."""
    at = _place(ids, span_id)
    return ids if at < 0 else ids[:at] + ids[_next(ids, at) :]


def _place(ids: bytes, span_id: bytes) -> int:
    """Where the first id of a span begins; -1 where it has none."""
    if len(span_id) != _SPAN or ids.find(span_id) < 0:
        return -1
    at, size = 0, len(ids)
    while at < size:
        if ids[at : at + _SPAN] == span_id:
            return at
        at = _next(ids, at)
    return -1


def _next(ids: bytes, at: int) -> int:
    """Where the id behind one begins."""
    return at + _HEAD + ids[at + _SPAN]
