"""What is said of the first minutes after a start, in which a session may have begun before it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

__all__ = ["OFF_BY", "USUALLY", "first_minutes", "until"]

OFF_BY: Final = "OFFRAILS_HISTORY=complete"
"""Setting that turns the doubt off."""

USUALLY: Final = "for 30 minutes after a start (sessions.idle_seconds)"
"""How long it lasts, where no service is at hand to say."""


def until(joined_until_ns: int) -> str:
    """When a session can no longer have begun before the start: RFC 3339, in UTC."""
    moment = datetime.fromtimestamp(joined_until_ns / 1e9, UTC)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def first_minutes(when: str) -> str:
    """What it means for verdicts, in a sentence; `when` says how long it lasts."""
    return (
        f"offrails: {when}, a session may have begun before the start. Unless it is proven to be new, "
        f"what it leaves out is possible harm, not harm. {OFF_BY} turns this off."
    )
