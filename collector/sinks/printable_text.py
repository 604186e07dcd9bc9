"""Texts and times as people read them: in an alert, an event, and on a terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

__all__ = ["clock_time", "printable", "stamp"]

TEXT_MAX: Final = 256
"""Characters of a text, unless it is said otherwise."""


def printable(text: str, most: int = TEXT_MAX) -> str:
    """Text with everything escaped that is not printable, and cut."""
    cut = text if len(text) <= most else text[: most - 1] + "…"
    if cut.isprintable():
        return cut
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in cut
    )


def stamp(at_ns: int) -> str:
    """A time as RFC 3339, in UTC."""
    moment = datetime.fromtimestamp(at_ns / 1e9, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def clock_time(at_ns: int) -> str:
    """A time of the day, in UTC, for sentences."""
    return f"{datetime.fromtimestamp(at_ns / 1e9, UTC):%H:%M:%S} UTC"
