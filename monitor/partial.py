"""Arguments of which only some can be read."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["UNREAD", "Partial"]

UNREAD: Final = "[unreadable]"
"""What stands for a value that is there and cannot be read."""


class Partial(dict[str, Any]):
    """A call's arguments; some have `UNREAD` for a value, which may be any: see `unread`."""

    __slots__ = ("unread",)

    def __init__(self, known: dict[str, Any], unread: set[str]) -> None:
        super().__init__(known)
        self.unread = frozenset(unread)
        """The names of those."""
        self.update(dict.fromkeys(self.unread, UNREAD))
