"""Digests of values: what a session remembers of a result, without the result.

Idea: to tell whether a value was seen before, no more than its digest is needed. So of a result of any size a session keeps
eight bytes a leaf, and no text of an agent's world.

Invariants:

- Two JSON values have one digest if and only if they are equal as patterns compare them (`pattern.same`), but for
  collisions of 64 bits: 5 and 5.0 have, 5 and "5" have not.
- Read as texts, two values have one digest if their texts are equal, case and outer space folded.

Example: of `{"to": "Ann", "ids": [7, null, ""]}` the leaves are "Ann" and 7.

A text is also kept as the digests of its words (`words_of`), one behind the other, where a spec asks for parts of it: a part
that begins and ends with whole words is then a run of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final

from monitor.partial import CutObject

__all__ = [
    "CARRIED_LENGTH_MIN",
    "DIGEST_BYTES",
    "PART_LENGTH_MIN",
    "as_text",
    "digest_of",
    "has_part",
    "is_cut",
    "leaves_of",
    "numbers_in",
    "text_digest",
    "text_digest_bytes",
    "words_of",
]

DIGEST_BYTES: Final = 8

PART_LENGTH_MIN: Final = 6
"""Characters of the shortest text that counts as a part of another one."""

CARRIED_LENGTH_MIN: Final = 3
"""Characters of the shortest value that tells that a write carries what a result said: shorter ones stand there by chance."""

_WORD: Final = re.compile(r"\w+|[^\w\s]")
"""A word, or a sign. Space parts words, and is left out."""

_NUMBERS: Final = (int, float)
_LISTS: Final = (list, tuple)

_KNOWN_MAX: Final = 4_096
_KNOWN_LENGTH_MAX: Final = 32
_chunk_digests: Final[dict[str, bytes]] = {}
"""Digests of the words of what stands between two spaces: a text has mostly what others had, too."""

_text_digests: Final[dict[str, bytes]] = {}
"""Digests of short folded texts: ids and names go from results to arguments. Each of the two has less than a megabyte."""

_NUMBER: Final = re.compile(r"(?<![\w.])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\w)")
"""A number in a sentence, as people write it."""

_NUMBER_LENGTH_MAX: Final = 64
"""Characters of a number in a sentence; longer ones are texts alone."""


def _hashed(kind: bytes, text: str) -> bytes:
    return blake2b(
        kind + text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES
    ).digest()


def digest_of(value: Any) -> int:
    """The digest of a JSON value. Values too deep for the stack share one."""
    try:
        return int.from_bytes(_digest(value), "big")
    except RecursionError:
        return 0


def _digest(value: Any) -> bytes:
    if isinstance(value, str):
        return _hashed(b"s", value)
    if value is None or isinstance(value, bool):
        return _hashed(b"c", str(value))
    if isinstance(value, int | float):
        return _hashed(b"n", _number(value))
    if isinstance(value, Mapping):
        members = sorted(_hashed(b"k", str(key)) + _digest(each) for key, each in value.items())
        return blake2b(b"m" + b"".join(members), digest_size=DIGEST_BYTES).digest()
    items = [_digest(each) for each in value]
    return blake2b(b"l" + b"".join(items), digest_size=DIGEST_BYTES).digest()


def _number(value: int | float) -> str:
    """A number as a text that equal numbers share."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return hex(value) if isinstance(value, int) else repr(value)  # hex: decimals are bounded


def as_text(value: Any) -> str:
    """A scalar as a text, case and outer space folded."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return str(value).strip().casefold()
    except ValueError:  # an integer of thousands of digits
        return hex(value)


def text_digest(value: Any) -> int:
    """The digest of a value that is read as a text; of a list or mapping, as it is."""
    return int.from_bytes(text_digest_bytes(value), "big")


def text_digest_bytes(value: Any) -> bytes:
    """The same, as it is packed."""
    if isinstance(value, str):  # first, for most leaves are texts
        text = value.strip().casefold()
    elif isinstance(value, _NUMBERS):
        text = as_text(value)
    else:
        return digest_of(value).to_bytes(DIGEST_BYTES, "big")
    return _text_digests.get(text) or _kept(_text_digests, text, _hashed(b"t", text))


def _kept(known: dict[str, bytes], text: str, digest: bytes) -> bytes:
    """The digest, which is kept for the next time if the text is short."""
    if len(text) <= _KNOWN_LENGTH_MAX:
        if len(known) >= _KNOWN_MAX:
            known.clear()
        known[text] = digest
    return digest


def leaves_of(value: Any) -> Iterator[str | int | float]:
    """The leaves of a value: scalars but null, booleans and the empty text. Keys of mappings are none."""
    waiting: list[Any] = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):  # first, for most leaves are texts
            if each:
                yield each
        elif isinstance(each, _NUMBERS):
            if each is not True and each is not False:
                yield each
        elif isinstance(each, _LISTS):
            waiting.extend(each)
        elif isinstance(each, dict) or isinstance(each, Mapping):  # noqa: SIM101 - a dict is quickly told
            waiting.extend(each.values())


def is_cut(value: Any) -> bool:
    """True if a part of a value was cut off. Only the last member of a cut object may be cut itself."""
    while isinstance(value, Mapping):
        if isinstance(value, CutObject):
            return True
        value = next((each for each in value.values() if isinstance(each, CutObject)), None)
    return False


def words_of(text: str, *, folded: bool = False) -> bytes:
    """The digests of the words and signs of a text, one behind the other."""
    chunks = (text.casefold() if folded else text).split()
    try:  # mostly each of them was met
        return b"".join(map(_chunk_digests.__getitem__, chunks))
    except KeyError:
        return b"".join([_chunk_digests.get(each) or _chunk(each) for each in chunks])


def _chunk(text: str) -> bytes:
    words = _WORD.findall(text)
    if len(words) == 1:  # the digest of a word is that of a chunk of this word alone
        return _kept(_chunk_digests, text, _hashed(b"w", text))
    digests = [_chunk_digests.get(each) or _chunk(each) for each in words]
    return _kept(_chunk_digests, text, b"".join(digests))


def has_part(words: bytes, part: bytes) -> bool:
    """True if a text has a part, both as `words_of` gives them. Nothing is a part of every text but of none that counts."""
    found = words.find(part) if part else -1
    while found >= 0 and found % DIGEST_BYTES:
        found = words.find(part, found + 1)
    return found >= 0


def numbers_in(text: str) -> list[int]:
    """The digests of the numbers in a sentence: 1,000 and 1000.0 are 1000."""
    found = _NUMBER.findall(text)
    return [digest_of(_read(each)) for each in found if len(each) <= _NUMBER_LENGTH_MAX]


def _read(text: str) -> int | float:
    plain = text.replace(",", "")
    return float(plain) if "." in plain else int(plain)
