"""JSON as lenient readers take it: what cannot be read is marked, and all around it is read.

A model writes the arguments of its calls, and some of what it may write, Python's reader refuses: values that nest too
deeply, integers of thousands of digits, control characters, a key that is there twice. Others read it, and make the
call. So who the message is from, and what it is about, is read here all the same.

    {"name": "wipe", "arguments": {"n": [[[...]]]}}     ->  {"name": "wipe", "arguments": {"n": UNREAD}}

Only the structure must be that of JSON: without it nobody knows where a value ends. The work grows with the length of
the text alone: nothing here calls itself.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final, NamedTuple

__all__ = ["NESTED_MAX", "TEXT_MAX", "UNREAD", "Text", "has_unread", "read"]

TEXT_MAX: Final = 4 << 20
"""Characters that are read leniently, which takes about a second; a longer text is not whole."""

NESTED_MAX: Final = 100
"""Levels; what nests more deeply is unread. The service's own bound."""

DIGITS_MAX: Final = 1_000
"""Digits of a number."""


class _Unread:
    """The one value of its class."""

    def __repr__(self) -> str:
        return "UNREAD"


UNREAD: Final = _Unread()
"""Stands for a value that is there and cannot be read."""


class Text(NamedTuple):
    """What a text holds."""

    values: list[Any]
    """One value, or several that stand one behind the other."""
    is_whole: bool
    """False if its structure is not that of JSON: `values` is what was read up to there."""
    is_strict: bool = False
    """True if Python's own reader reads it, and no key is there twice."""


_TOKEN: Final = re.compile(
    r'[ \t\n\r]*(?:([{}\[\],:])|"([^"\\]*(?:\\.[^"\\]*)*)"|([^ \t\n\r{}\[\],:"]+))', re.DOTALL
)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?")
_NOT_TEXT: Final = re.compile("[\x00-\x1f\ud800-\udfff]")
_WORDS: Final = {"true": True, "false": False, "null": None}
_CLOSES: Final = {"{": "}", "[": "]"}


def read(text: bytes) -> Text:
    """What a text holds, as far as it can be read.

    Strict JSON is read as it is; in any other text, a value is `UNREAD` that Python's reader refuses, and so is an
    object with a key that cannot be read, and the value of a key that is there twice with different values.
    """
    encoding = json.detect_encoding(text)
    try:
        found = json.loads(text.decode(encoding), object_pairs_hook=_once)
        return Text([found], is_whole=True, is_strict=True)
    except (ValueError, RecursionError):
        return _read_leniently(text, encoding)


def _read_leniently(text: bytes, encoding: str) -> Text:
    try:
        # Bytes that are no UTF-8 become half surrogate pairs, which make a text unread.
        decoded = text.decode(encoding, errors="surrogateescape")
    except ValueError:
        return Text([], is_whole=False)
    if len(decoded) > TEXT_MAX:
        return Text([], is_whole=False)
    return _Reader(decoded).read()


def has_unread(value: Any) -> bool:
    """True if a part of a value is unread."""
    inner = [value]
    while inner:
        each = inner.pop()
        if each is UNREAD:
            return True
        if isinstance(each, dict):
            inner.extend(each.values())
        elif isinstance(each, list):
            inner.extend(each)
    return False


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


class _Open:
    """An object or a list that is not closed yet."""

    def __init__(self, bracket: str) -> None:
        self.bracket = bracket
        self.items: list[Any] = []
        self.members: dict[str, Any] = {}
        self.key: Any = None
        """Key of the member that is read."""
        self.expects = "key" if bracket == "{" else "value"
        """key | colon | value | comma: what comes next, or the end where that is allowed."""
        self.is_unread = False

    def add(self, value: Any) -> None:
        if self.bracket == "[":
            self.items.append(value)
        elif self.key in self.members and not _same(self.members[self.key], value):
            self.members[self.key] = UNREAD
        else:
            self.members[self.key] = value
        self.expects = "comma"

    def may_close(self, bracket: str) -> bool:
        is_empty = not self.items and not self.members and not self.is_unread
        first = "key" if self.bracket == "{" else "value"
        return bracket == _CLOSES[self.bracket] and (
            self.expects == "comma" or (is_empty and self.expects == first)
        )

    @property
    def value(self) -> Any:
        if self.is_unread:
            return UNREAD
        return self.members if self.bracket == "{" else self.items


class _Reader:
    """Reads one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[_Open] = []
        self._deep: list[str] = []
        """What closes the levels below `NESTED_MAX` that are open: of these no more is kept."""
        self._values: list[Any] = []

    def read(self) -> Text:
        at, end = 0, len(self._text.rstrip(" \t\n\r"))
        while at < end:
            token = _TOKEN.match(self._text, at)
            if token is None or not self._take(token):
                return self._broken()
            at = token.end()
        return self._broken() if self._open else Text(self._values, is_whole=True)

    def _broken(self) -> Text:
        """What was read: the outermost value ends here, and what is open within it is unread, as nobody knows its rest."""
        while len(self._open) > 1:
            self._open.pop()
            self._open[-1].add(UNREAD)
        if self._open:
            self._close()
        return Text(self._values, is_whole=False)

    def _take(self, token: re.Match[str]) -> bool:
        """False where the token is not one that may stand here."""
        mark, text, word = token.groups()
        if self._deep:
            return self._skip(mark)
        if mark == "{" or mark == "[":
            return self._begin(mark)
        if mark is not None:
            return self._punctuate(mark)
        if self._open and self._open[-1].expects == "key":
            return text is not None and self._name(_text(text))
        return self._add(_text(text) if text is not None else _word(word))

    def _begin(self, bracket: str) -> bool:
        if self._open and self._open[-1].expects != "value":
            return False
        if len(self._open) < NESTED_MAX:
            self._open.append(_Open(bracket))
        else:
            self._deep.append(_CLOSES[bracket])
        return True

    def _skip(self, mark: str | None) -> bool:
        """A token below `NESTED_MAX`."""
        if mark is not None and mark in "{[":
            self._deep.append(_CLOSES[mark])
        elif mark is not None and mark in "}]":
            if self._deep.pop() != mark:
                return False
            if not self._deep:
                self._open[-1].add(UNREAD)
        return True

    def _punctuate(self, mark: str) -> bool:
        if not self._open:
            return False
        top = self._open[-1]
        if mark in "}]":
            closes = top.may_close(mark)
            if closes:
                self._close()
            return closes
        if top.expects != {",": "comma", ":": "colon"}[mark]:
            return False
        top.expects = "key" if mark == "," and top.bracket == "{" else "value"
        return True

    def _close(self) -> None:
        self._add(self._open.pop().value)

    def _name(self, key: Any) -> bool:
        top = self._open[-1]
        top.is_unread = top.is_unread or key is UNREAD
        top.key, top.expects = key, "colon"
        return True

    def _add(self, value: Any) -> bool:
        if not self._open:
            self._values.append(value)
            return True
        top = self._open[-1]
        if top.expects != "value":
            return False
        top.add(value)
        return True


def _text(inner: str) -> Any:
    """A text between its quotes."""
    if _NOT_TEXT.search(inner):
        return UNREAD
    try:
        return json.loads(f'"{inner}"')
    except ValueError:
        return UNREAD


def _word(word: str) -> Any:
    """What is written without quotes."""
    if word in _WORDS:
        return _WORDS[word]
    if len(word) > DIGITS_MAX or _NUMBER.fullmatch(word) is None:
        return UNREAD
    return json.loads(word)


def _same(one: Any, other: Any) -> bool:
    """True if two values of one key are equal; two that hold others are taken to differ."""
    return type(one) is type(other) and isinstance(one, str | int | float) and one == other
