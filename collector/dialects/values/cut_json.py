"""JSON objects that were cut, as exporters cut long attributes: the members before the cut.

A member counts if something stands behind its value, so that the value is whole. Of a member that was cut itself, if it is
an object, the members before the cut are known.

Example: `{"status": "approved", "by": {"id": 7, "na` is `CutObject(status="approved", by=CutObject(id=7))`.
"""

from __future__ import annotations

import json
from typing import Any, Final

from monitor.partial import CutObject

__all__ = ["read_cut"]

DEPTH_MAX: Final = 16
"""Objects in each other. Of those below, nothing is known."""

_SPACE: Final = " \t\r\n"
_value: Final = json.JSONDecoder().raw_decode


def read_cut(text: str) -> tuple[Any, ...]:
    """What is known of an object, as the only item; () if the text begins otherwise."""
    return (_members(text, 1, DEPTH_MAX),) if text.startswith("{") else ()


def _members(text: str, at: int, depth: int) -> CutObject:
    """The members before the cut, behind an opening brace."""
    found = CutObject()
    try:
        while True:
            name, at = _value(text, _next(text, at))
            begins = _next(text, _next(text, at) + 1)
            try:
                value, at = _value(text, begins)
                at = _next(text, at)
            except (ValueError, IndexError):
                if text[begins] == "{" and depth > 1:
                    found[name] = _members(text, begins + 1, depth - 1)
                return found
            found[name] = value
            if text[at] != ",":
                return found
            at += 1
    except (ValueError, IndexError, RecursionError):
        return found


def _next(text: str, at: int) -> int:
    """The next character that is no space.

    Raises:
        IndexError: the text ends before it.
    """
    while text[at] in _SPACE:
        at += 1
    return at
