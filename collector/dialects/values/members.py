"""Reads a JSON object in which some members cannot be read: they nest too deeply, or come twice.

No real argument nests more than `NESTED_MAX` levels. But a model may add such an argument to hide the
others from offrails, while the tool's own parser accepts them. So only the deep member is unread. Of two
members with one name some parsers take the first and some the last, so its value is unread, too.

Examples: `{"amount": 9, "x": [[[...]]]}` with 200 levels is `PartialArguments`: `amount` is known, `x` is unread.
In `{"to": "a", "amount": 500, "amount": 5}`, `amount` is unread.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, Final

from monitor.partial import PartialArguments, all_but, told_once

__all__ = [
    "NESTED_MAX",
    "cut",
    "is_deep",
    "is_single",
    "lenient",
    "paired",
    "partly",
    "shallow",
]

NESTED_MAX: Final = 100
"""Levels of a value that is read: protobuf's limit for messages. Comparing, showing and writing a value recurse once
per level, and Python's own recursion limit differs by version and place."""

DIGITS_MAX: Final = 4_000
"""Python refuses to parse integers that are much longer."""


def _integer(digits: str) -> int | float:
    """An integer; a longer one is infinity, as in JavaScript."""
    if len(digits) <= DIGITS_MAX:
        return int(digits)
    return float("-inf") if digits[0] == "-" else float("inf")


lenient: Final = json.JSONDecoder(parse_int=_integer, strict=False)
"""Accepts what only some JSON parsers accept: NaN, long integers, line breaks in texts."""

_paired: Final = json.JSONDecoder(parse_int=_integer, strict=False, object_pairs_hook=told_once)
"""The same, with every member of an object looked at."""

_SPACED: Final = re.compile(r'"[ \t\n\r]+:')
"""A name, not followed at once by its colon."""

_SPACE: Final = re.compile(r"[ \t\n\r]*+")
_FLAT: Final = r'[^\[\]{}"]++|"(?:[^"\\]++|\\.)*+"?'
_SHALLOW: Final = rf"{_FLAT}|[\[{{](?:{_FLAT})*+[\]}}]"
_TOKEN: Final = re.compile(
    rf"(?:{_FLAT}|[\[{{](?:{_SHALLOW})*+[\]}}])++|([\[{{]++)|([\]}}]++)", re.DOTALL
)
"""A token of a nested value: a balanced, shallow part as a whole; or opening brackets; or closing ones."""

TOKENS_MAX: Final = 20_000
"""Tokens that are read of one text, in about 10 ms; a text with more is not read."""
MEMBER_TOKENS: Final = 5
"""Each member costs this many tokens."""

AROUND_MAX: Final = 16
"""Levels that a dialect may have around the arguments."""
CUT_MAX: Final = 10 * TOKENS_MAX
"""Tokens of one text that is cut: runs of brackets, and what is between them."""
_BRACKETS: Final = re.compile(rf"(?:{_FLAT})++|([\[{{]++)|([\]}}]++)", re.DOTALL)


def is_deep(value: Any, text: str | bytes, most: int = NESTED_MAX) -> bool:
    """True if a value has more than `most` levels. The brackets of its text are counted first, which is cheap.

    Args:
        value: a JSON value.
        text: the JSON text it was read from.
        most: levels.
    """
    return len(text) > 2 * most and _brackets(text) > most and _nests(value, most)


def _nests(value: Any, most: int) -> bool:
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
    """An object; if some of its members nest too deeply, a `PartialArguments` in which these are unread."""
    unread = {
        name
        for name, each in known.items()
        if isinstance(each, dict | list)
        and (_nests(each, NESTED_MAX - 1) or _is_unread(each, NESTED_MAX))
    }
    if type(known) is PartialArguments:
        unread |= known.unread
    return all_but(known, unread)


def _is_unread(value: Any, most: int) -> bool:
    """True if an object within a value has unread members."""
    if type(value) is PartialArguments:
        return True
    inner: Any = value.values() if type(value) is dict else value if type(value) is list else ()
    return most > 0 and any(_is_unread(each, most - 1) for each in inner)


def is_single(text: str, known: dict[str, Any]) -> bool:
    """True if no object in a JSON text has two members of one name; False if that takes a closer look.

    Each member has a colon behind its name, so a text with no more colons than members has no member twice. Most
    other colons stand within texts, not behind a quote; an escaped quote before one only makes for a closer look.
    """
    colons = text.count(":")
    if colons == len(known):
        return True
    count = _members_in(known)
    if colons == count:
        return True
    return text.count('":') == count and _SPACED.search(text) is None


def _members_in(value: Any) -> int:
    """The number of members of all objects in a value."""
    if type(value) is dict:
        count, inner = len(value), value.values()
    else:
        count, inner = 0, value
    for each in inner:
        if type(each) is dict or type(each) is list:
            count += _members_in(each)
    return count


def paired(text: str) -> Any:
    """A JSON value in which objects with members that come twice are `PartialArguments`; ValueError if it cannot be read."""
    return _paired.decode(text)


def cut(text: str) -> str | None:
    """A JSON text in which 0 replaces all below `NESTED_MAX + AROUND_MAX` levels; None if its brackets do not match.

    Arguments that were cut still nest too deeply, so `shallow` finds them unread.
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
    """A JSON object, `PartialArguments` if some members cannot be read; None if it is no object or is broken."""
    try:
        return _object(text, _after(text, 0, "{"))
    except (ValueError, RecursionError):
        return None


def _object(text: str, at: int) -> dict[str, Any]:
    """The object whose first member begins at `at`; ValueError if there is none."""
    known: dict[str, Any] = {}
    unread: set[str] = set()
    left = TOKENS_MAX
    while left > 0:
        name, at = lenient.raw_decode(text, _after(text, at, '"') - 1)
        at = _blank(text, _after(text, at, ":"))
        again, earlier = name in known or name in unread, known.get(name)
        begin = at
        try:
            known[name], at = lenient.raw_decode(text, begin)
        except RecursionError:
            unread.add(name)
            at, left = _end(text, begin, left)
        else:
            if is_deep(known[name], text[begin:at], NESTED_MAX - 1) or (
                again and repr(known[name]) != repr(earlier)
            ):
                unread.add(name)
        left -= MEMBER_TOKENS
        at = _blank(text, at)
        if text.startswith("}", at) and _blank(text, at + 1) == len(text):
            return all_but(known, unread)
        at = _after(text, at, ",")
    raise ValueError("too many members")


def _blank(text: str, at: int) -> int:
    """The end of the blanks that begin at `at`."""
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _after(text: str, at: int, mark: str) -> int:
    """The end of `mark`, which blanks may precede; ValueError if it is not there."""
    at = _blank(text, at)
    if not text.startswith(mark, at):
        raise ValueError(mark)
    return at + len(mark)


def _end(text: str, at: int, left: int) -> tuple[int, int]:
    """The end of the nested value that begins at `at`, and the number of tokens left; ValueError if it has no end."""
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
