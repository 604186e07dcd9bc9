"""Patterns of span names, which remember what they found: agents' spans have a few dozen names."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

__all__ = ["SpanName", "span_name"]

NAMES_MAX: Final = 512
"""Names remembered by one pattern; beyond that it starts anew."""

_UNSEEN: Final = object()

LENGTH_MAX: Final = 128
"""Longer names do not recur: they hold a text of the agent's."""


class SpanName:
    """What a span's whole name must match; its group, if it has one, is what the name names.

    Args:
        pattern: a regular expression; of several groups at most one takes part in a match.
    """

    __slots__ = ("_known", "_pattern")

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern, re.DOTALL)
        self._known: dict[str, Any] = {}

    def find(self, name: str) -> str | None:
        """What the name names, "" where that is nothing; None where the name is another's."""
        known = self._known.get(name, _UNSEEN)
        if known is not _UNSEEN:
            return known  # type: ignore[no-any-return]
        found = self._search(name)
        if len(name) <= LENGTH_MAX:
            if len(self._known) >= NAMES_MAX:
                self._known.clear()
            self._known[name] = found
        return found

    def _search(self, name: str) -> str | None:
        match = self._pattern.fullmatch(name)
        if match is None:
            return None
        return match[match.lastindex] if match.lastindex else ""


@cache
def span_name(pattern: str) -> SpanName:
    """The one of a pattern; patterns are those of the dialects, so there are few."""
    return SpanName(pattern)
