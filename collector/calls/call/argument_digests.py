"""What is kept of a call's arguments once they are freed: enough to tell another call by.

Idea: digests. A digest of all arguments tells calls of one instrumentation apart, which writes them the same way
each time. Of two instrumentations, one may write values as text or under other names, or add some: there the
digests of the values are compared. Of many values, those with the smallest digests are kept: of another call's
values, any with a digest below the greatest kept one would be among them.

Invariant: calls whose arguments agree before one is freed agree after. What is not kept contradicts nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

from mypy_extensions import mypyc_attr

from collector.dialects.values.arguments import UNREADABLE, parsed
from monitor.partial import PartialArguments

__all__ = ["KEPT", "ArgumentDigests", "freed"]

KEPT: Final = 32
"""Values of one call whose digests are kept."""

_WORDS: Final = (("'", '"'), ("True", "true"), ("False", "false"), ("None", "null"))
"""Words that Python writes differently from JSON."""
_WORDS_MAX: Final = 4_096
"""Characters of a text that is read as Python writes it."""

_encode: Final = json.JSONEncoder(sort_keys=True, default=repr).encode
"""`json.dumps` with these arguments, which makes an encoder each time."""


@mypyc_attr(acyclic=True)
class ArgumentDigests:
    """Digests of the arguments that one span told."""

    __slots__ = ("bare", "digest", "many", "values", "whole")

    def __init__(self) -> None:
        self.whole = False
        """True if all arguments were known."""
        self.many = False
        """True if some values are not kept."""
        self.digest = 0
        """Digest of all arguments; 0 if they were not known."""
        self.bare = 0
        """Digest of a value without a name; 0 without one."""
        self.values: dict[int, int] = {}
        """Digests of values by those of their names."""

    def agrees(
        self, arguments: Mapping[str, Any] | None, bare: Any, *, one_source: bool
    ) -> bool:
        """False if a span's arguments, or its value without a name, show that it tells another call."""
        if arguments is not None:
            if self.bare:
                return _may_hold(arguments, self.bare)
            if type(arguments) is PartialArguments or not self.whole:
                return self._agrees_by_name(arguments)
            if one_source:
                return self.digest == _digest(arguments)
            if not self._agrees_in_common(arguments):
                return False
            return self._agrees_by_value({_hash(_text(each)) for each in arguments.values()})
        if bare is not None:
            return self._agrees_with_bare(bare.value)
        return True

    def is_of(self, arguments: Mapping[str, Any]) -> bool:
        """True if all arguments were known, and were these."""
        known = self.whole and type(arguments) is not PartialArguments
        return known and self.digest == _digest(arguments)

    def _agrees_by_name(self, arguments: Mapping[str, Any]) -> bool:
        """Some arguments are unread here or there: those that are known in both are compared."""
        for name, digest in _values(arguments).items():
            if self.values.get(name, digest) != digest:
                return False
        return True

    def _agrees_in_common(self, arguments: Mapping[str, Any]) -> bool:
        """False if an argument of one name has two values: values belong to their names."""
        for name, value in arguments.items():
            digest = self.values.get(_hash(name))
            if digest is not None and digest not in _alike(value):
                return False
        return True

    def _agrees_by_value(self, others: set[int]) -> bool:
        mine = set(self.values.values())
        if not mine or not others or mine <= others:
            return True
        if self.many:
            most = max(mine)
            others = {each for each in others if each <= most}
        return others <= mine

    def _agrees_with_bare(self, value: Any) -> bool:
        if self.bare:
            return self.bare in _alike(value)
        if not self.whole or self.many or isinstance(value, list | dict):
            return True
        return not _alike(value).isdisjoint(self.values.values())


def freed(arguments: Mapping[str, Any] | None, bare: Any) -> ArgumentDigests | None:
    """What is kept of arguments, or of a value without a name; None if nothing is known."""
    made = ArgumentDigests()
    if arguments is not None:
        made.whole = type(arguments) is not PartialArguments
        found = _values(arguments)
        made.many = len(found) > KEPT
        if made.many:
            kept = sorted(found.values())[:KEPT]
            found = {name: digest for name, digest in found.items() if digest <= kept[-1]}
        made.values = found
        if made.whole:
            made.digest = _digest(arguments)
        return made if made.whole or found else None
    if bare is None or isinstance(bare.value, list | dict):
        return None
    made.bare = _hash(_text(bare.value))
    return made


def _digest(arguments: Mapping[str, Any]) -> int:
    """The same for equal arguments in any order."""
    return _hash({name: _text(value) for name, value in arguments.items()})


def _values(arguments: Mapping[str, Any]) -> dict[int, int]:
    """Digests of the values that are known, by those of their names."""
    unread = arguments.unread if isinstance(arguments, PartialArguments) else ()
    return {
        _hash(name): _hash(_text(value))
        for name, value in arguments.items()
        if name not in unread
    }


def _may_hold(arguments: Mapping[str, Any], bare: int) -> bool:
    """True if one of the arguments may be the value with this digest."""
    if isinstance(arguments, PartialArguments) and arguments.unread:
        return True
    if bare in _alike(dict(arguments)):
        return True
    return any(bare in _alike(value) for value in arguments.values())


def _alike(value: Any) -> set[int]:
    """Digests of a value and of its text."""
    return {_hash(_text(value)), _hash(str(value))}


def _text(value: Any) -> Any:
    """The same for a value and its text, as JSON or as Python writes it, and for equal numbers."""
    if isinstance(value, str):
        known = parsed(value)
        if (known is UNREADABLE or known is value or known == value) and len(
            value
        ) <= _WORDS_MAX:
            text = value
            for word, json_word in _WORDS:
                text = text.replace(word, json_word)
            if text != value:
                known = parsed(text)
                if isinstance(known, str) and known == text:
                    known = value
        value = value if known is UNREADABLE else known
    return _plain(value)


def _plain(value: Any) -> Any:
    """The same for equal numbers of any type."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value


def _hash(value: Any) -> int:
    text = _encode(value)
    return int.from_bytes(blake2b(text.encode(), digest_size=7).digest()) + 1
