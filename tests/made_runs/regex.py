"""Texts that match a regular expression of RE2: its syntax read, one way through it taken.

Simple on purpose: what it cannot read (Unicode classes, for one) it says, and whoever asks tries
the text on the real matcher anyway.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from random import Random
from typing import Final

from monitor.errors import OffrailsError

__all__ = ["RegexSyntaxError", "text_for"]

_PRINTED: Final = string.ascii_letters + string.digits + "_-. !#%&,/:;=@~\"'<>`$*+?()[]{}|\\^"
_CLASSES: Final[dict[str, Callable[[str], bool]]] = {
    "d": str.isdigit,
    "w": lambda c: c.isalnum() or c == "_",
    "s": lambda c: c in " \t\n\r\f",
}
_NAMED: Final = {
    "alpha": string.ascii_letters, "digit": string.digits, "upper": string.ascii_uppercase,
    "lower": string.ascii_lowercase, "alnum": string.ascii_letters + string.digits,
    "word": string.ascii_letters + string.digits + "_", "space": " ", "blank": " ",
    "punct": string.punctuation, "xdigit": string.hexdigits, "print": _PRINTED,
    "graph": _PRINTED.replace(" ", ""), "ascii": _PRINTED,
}  # fmt: skip
_CONTROL: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_ANCHORS: Final = frozenset("AzbB")
_MORE_MAX: Final = 3
"""So many repetitions more than the least are made up at most."""


class RegexSyntaxError(OffrailsError):
    """The expression uses syntax this module does not know."""


def text_for(expression: str, chance: Random) -> str:
    """A text the expression probably matches.

    Raises:
        RegexSyntaxError: no text can be made up.
    """
    reader = _Reader(expression, chance)
    text = reader.alternatives()
    if reader.rest:
        raise RegexSyntaxError(f"unexpected {reader.rest[:1]!r} in {expression!r}")
    return text


class _Reader:
    """Reads an expression from left to right and makes up the text as it goes."""

    def __init__(self, expression: str, chance: Random) -> None:
        self.rest = expression
        self._chance = chance

    def alternatives(self) -> str:
        found = [self._sequence()]
        while self._took("|"):
            found.append(self._sequence())
        return self._chance.choice(found)

    def _sequence(self) -> str:
        text = ""
        while self.rest and self.rest[0] not in "|)":
            before = self.rest
            self.atom()
            atom = before[: len(before) - len(self.rest)]
            least, most = self._repetitions()
            count = self._chance.randint(least, min(most, least + _MORE_MAX))
            # Each repetition makes its own choices.
            text += "".join(_Reader(atom, self._chance).atom() for _ in range(count))
        return text

    def _took(self, prefix: str) -> bool:
        if not self.rest.startswith(prefix):
            return False
        self.rest = self.rest[len(prefix) :]
        return True

    def _next(self) -> str:
        if not self.rest:
            raise RegexSyntaxError("the expression ends too early")
        first, self.rest = self.rest[0], self.rest[1:]
        return first

    def _until(self, end: str) -> str:
        text, found, self.rest = self.rest.partition(end)
        if not found:
            raise RegexSyntaxError(f"{end!r} is missing")
        return text

    def _repetitions(self) -> tuple[int, int]:
        least, most = 1, 1
        if self._took("*"):
            least, most = 0, 1_000
        elif self._took("+"):
            least, most = 1, 1_000
        elif self._took("?"):
            least, most = 0, 1
        elif self.rest.startswith("{") and self.rest[1:2].isdigit():
            low, comma, high = self._until("}")[1:].partition(",")
            least = int(low)
            most = int(high) if high else 1_000 if comma else least
        else:
            return least, most
        self._took("?")  # lazy or greedy, the same texts match
        return least, most

    def atom(self) -> str:
        first = self._next()
        if first == "(":
            return self._group()
        if first == "[":
            return self._one_of(self._set())
        if first == "\\":
            return self._escape()
        if first == ".":
            return self._one_of(_PRINTED)
        return "" if first in "^$" else first

    def _one_of(self, characters: str) -> str:
        if not characters:
            raise RegexSyntaxError("a class holds no printable character")
        return self._chance.choice(characters)

    def _group(self) -> str:
        if self._took("?P<") or self._took("?<"):
            self._until(">")
        elif self._took("?"):
            while self.rest and self.rest[0] not in ":)":
                self._next()  # flags
            if self._took(")"):
                return ""
            self._took(":")
        text = self.alternatives()
        if not self._took(")"):
            raise RegexSyntaxError("')' is missing")
        return text

    def _escape(self) -> str:
        kind = self._next()
        if kind in _ANCHORS:
            return ""
        if kind == "Q":
            text, _, self.rest = self.rest.partition("\\E")
            return text
        if kind.lower() in _CLASSES:
            return self._one_of(_of_class(kind))
        return self._character(kind)

    def _character(self, kind: str) -> str:
        """The one character an escape stands for."""
        if kind == "x":
            digits = (
                self._until("}")[1:]
                if self.rest.startswith("{")
                else self._next() + self._next()
            )
            return chr(int(digits, 16))
        if kind in _CONTROL:
            return _CONTROL[kind]
        if kind.isalnum():
            raise RegexSyntaxError(f"the escape \\{kind} is not known")
        return kind

    def _set(self) -> str:
        """The characters of a [class], the printed ones for a negated class."""
        negated = self._took("^")
        kept = self._next() if self.rest.startswith("]") else ""
        while not self._took("]"):
            kept += self._member()
        return "".join(c for c in _PRINTED if c not in kept) if negated else kept

    def _member(self) -> str:
        if self._took("[:"):
            inverted, name = self._took("^"), self._until(":]")
            known = _NAMED.get(name, "")
            return "".join(c for c in _PRINTED if c not in known) if inverted else known
        first = self._next()
        if first == "\\":
            kind = self._next()
            if kind.lower() in _CLASSES:
                return _of_class(kind)
            first = self._character(kind)
        if not self.rest.startswith("-") or self.rest.startswith("-]"):
            return first
        self._next()
        last = self._next()
        if last == "\\":
            last = self._character(self._next())
        end = min(ord(last), ord(first) + 255)  # a few hundred characters are choice enough
        return "".join(map(chr, range(ord(first), end + 1)))


def _of_class(kind: str) -> str:
    member = _CLASSES[kind.lower()]
    return "".join(c for c in _PRINTED if member(c) is kind.islower())
