"""Patterns of span names. Results are cached, since agents' spans have only a few dozen names."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

__all__ = ["LENGTH_MAX", "SpanName", "span_name"]

NAMES_MAX: Final = 512
"""Names remembered by one pattern; beyond that it starts anew."""

_UNSEEN: Final = object()

LENGTH_MAX: Final = 128
"""Longer names do not recur: they hold a text of the agent's."""


class SpanName:
    """A pattern for a span's whole name. Its group, if any, holds the name of a tool or an agent.

    Args:
        pattern: a regular expression; of several groups at most one takes part in a match.
    """

    __slots__ = ("_known", "_pattern")

    def __init__(self, pattern: str) -> None:
        self._pattern = re.compile(pattern, re.DOTALL)
        self._known: dict[str, Any] = {}

    def find(self, name: str) -> str | None:
        """The text of the group, "" if it is empty or there is none; None if the span's name does not match."""
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
    """The one object of a pattern. Only dialects have patterns, so there are few."""
    return SpanName(pattern)
