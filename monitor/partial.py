"""Arguments and results of which only some can be read."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["UNREAD", "CutObject", "Partial", "PartialArguments", "all_but", "told_once"]

UNREAD: Final = "[unreadable]"
"""Text in place of a value that is there and cannot be read."""


class PartialArguments(dict[str, Any]):
    """A call's arguments; some have `UNREAD` for a value, which may be any: see `unread`."""

    __slots__ = ("unread",)

    def __init__(self, known: dict[str, Any], unread: set[str]) -> None:
        super().__init__(known)
        self.unread = frozenset(unread)
        """The names of those."""
        self.update(dict.fromkeys(self.unread, UNREAD))


class CutObject(dict[str, Any]):
    """An object that was cut: it may have had more members, of any value. A member that is one was cut, too."""

    __slots__ = ()


def all_but(known: dict[str, Any], unread: set[str]) -> dict[str, Any]:
    """These arguments, of which some are unread; the same where none is."""
    return PartialArguments(known, unread) if unread else known


def told_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The arguments with these names and values; a name with several values is unread."""
    known = dict(pairs)
    if len(known) == len(pairs):
        return known
    first: dict[str, Any] = {}
    twice = {name for name, each in pairs if repr(first.setdefault(name, each)) != repr(each)}
    return all_but(known, twice)


Partial = PartialArguments
"""Former name of `PartialArguments`."""
