"""A JSON object read member by member, where something in it keeps it from being read as a whole.

Nothing nests so deeply as to be an argument that somebody means; but a model can write it beside
those that matter, and what calls the tool may read it.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, Final

from monitor.partial import all_but

__all__ = ["NESTED_MAX", "cut", "is_deep", "lenient", "partly", "shallow"]

NESTED_MAX: Final = 100
"""Levels of a text that is read, as protobuf has it of messages. What is read will be compared, shown and
written, each by functions that call themselves for a level; how many Python allows is another number in
each version, and in each place."""

DIGITS_MAX: Final = 4_000
"""Python reads no integers that are much longer."""


def _integer(digits: str) -> int | float:
    """A longer one is what JavaScript makes of it: no double is so large."""
    if len(digits) <= DIGITS_MAX:
        return int(digits)
    return float("-inf") if digits[0] == "-" else float("inf")


lenient: Final = json.JSONDecoder(parse_int=_integer, strict=False)
"""Reads what some readers of JSON do, and others refuse: NaN, long integers, line breaks in texts."""

_SPACE: Final = re.compile(r"[ \t\n\r]*+")
_FLAT: Final = r'[^\[\]{}"]++|"(?:[^"\\]++|\\.)*+"?'
_SHALLOW: Final = rf"{_FLAT}|[\[{{](?:{_FLAT})*+[\]}}]"
_TOKEN: Final = re.compile(
    rf"(?:{_FLAT}|[\[{{](?:{_SHALLOW})*+[\]}}])++|([\[{{]++)|([\]}}]++)", re.DOTALL
)
"""Of a value that nests: what is in balance and shallow as a whole, or brackets that open, or close."""

TOKENS_MAX: Final = 20_000
"""Of one text, which take about ten milliseconds; what needs more is not read."""
MEMBER_TOKENS: Final = 5
"""What a member costs of these."""

AROUND_MAX: Final = 16
"""Levels that what holds arguments has around them."""
CUT_MAX: Final = 10 * TOKENS_MAX
"""Brackets side by side, and what is between them, of one text that is cut."""
_BRACKETS: Final = re.compile(rf"(?:{_FLAT})++|([\[{{]++)|([\]}}]++)", re.DOTALL)


def is_deep(value: Any, text: str | bytes, most: int = NESTED_MAX) -> bool:
    """Whether a value has more levels than may be; of a short text, or one with few brackets, none has.

    Args:
        value: as JSON is read.
        text: what it was read from.
        most: levels.
    """
    return len(text) > 2 * most and _brackets(text) > most and _nests(value, most)


def _nests(value: Any, most: int) -> bool:
    """Whether a value has more levels than may be."""
    inner = [value]
    for _ in range(most + 1):
        inner = [each for each in inner if type(each) is dict or type(each) is list]
        if not inner:
            return False
        inner = [
            part for each in inner for part in (each.values() if type(each) is dict else each)
        ]
    return True


def shallow(known: dict[str, Any]) -> dict[str, Any]:
    """An object's members, of which those are unread that nest too deeply: then it is `Partial`."""
    unread = {
        name
        for name, each in known.items()
        if (type(each) is dict or type(each) is list) and _nests(each, NESTED_MAX - 1)
    }
    return all_but(known, unread)


def cut(text: str) -> str | None:
    """A text of JSON without what nests too deeply to be told, even within what holds it; None where it has no end.

    What is left of arguments that were cut nests too deeply itself, so that they are seen to be unread.
    """
    most = NESTED_MAX + AROUND_MAX
    parts: list[str] = []
    depth, done, since = 0, 0, -1
    for token in islice(_BRACKETS.finditer(text), CUT_MAX):
        kind, begin = token.lastindex, token.start()
        if kind == 1:
            deeper = depth + token.end() - begin
            if since < 0 and deeper > most:
                since = begin + most - depth
            depth = deeper
        elif kind == 2:
            higher = depth - (token.end() - begin)
            if since >= 0 and higher <= most:
                parts += (text[done:since], "0")
                done, since = begin + depth - most, -1
            depth = higher
    if depth != 0:
        return None
    parts.append(text[done:])
    return "".join(parts)


def _brackets(text: str | bytes) -> int:
    if isinstance(text, str):
        return text.count("[") + text.count("{")
    return text.count(b"[") + text.count(b"{")


def partly(text: str) -> dict[str, Any] | None:
    """A JSON object, `Partial` where some cannot be read; None where it is none, or is broken."""
    try:
        return _object(text, _after(text, 0, "{"))
    except (ValueError, RecursionError):
        return None


def _object(text: str, at: int) -> dict[str, Any]:
    """The object whose first member is at a place, if it has one; else a ValueError."""
    known: dict[str, Any] = {}
    unread: set[str] = set()
    left = TOKENS_MAX
    while left > 0:
        name, at = lenient.raw_decode(text, _after(text, at, '"') - 1)
        at = _blank(text, _after(text, at, ":"))
        unread.discard(name)
        begin = at
        try:
            known[name], at = lenient.raw_decode(text, begin)
        except RecursionError:
            unread.add(name)
            at, left = _end(text, begin, left)
        else:
            if is_deep(known[name], text[begin:at], NESTED_MAX - 1):
                unread.add(name)
        left -= MEMBER_TOKENS
        at = _blank(text, at)
        if text.startswith("}", at) and _blank(text, at + 1) == len(text):
            return all_but(known, unread)
        at = _after(text, at, ",")
    raise ValueError("too many members")


def _blank(text: str, at: int) -> int:
    """Where the blanks end that begin at a place."""
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _after(text: str, at: int, mark: str) -> int:
    """The place behind a mark that blanks may precede; else a ValueError."""
    at = _blank(text, at)
    if not text.startswith(mark, at):
        raise ValueError(mark)
    return at + len(mark)


def _end(text: str, at: int, left: int) -> tuple[int, int]:
    """Where a nested value ends that begins at a place, and how many tokens are left; else a ValueError."""
    depth = 0
    for count, token in enumerate(islice(_TOKEN.finditer(text, at), left), 1):
        kind = token.lastindex
        if kind == 1:
            depth += token.end() - token.start()
        elif kind == 2:
            depth -= token.end() - token.start()
            if depth <= 0:
                return token.end() + depth, left - count
    raise ValueError("an end")
