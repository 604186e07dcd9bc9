from collections.abc import Sequence
from typing import Any

def members(text: str | bytes, /, *names: str) -> tuple[str | bytes | None, ...] | None:
    """What the object that a JSON text is has of the members with these names.

    A text where it is a string without escapes; None where it is absent or null; all others as they
    are written. Bytes are a piece of such a text. None where the text is to be read in full: it is
    written oddly, or is no such object.
    """

def listed(
    text: str | bytes, within: str, wanted: str, kind: str, /, *names: str
) -> list[tuple[str | bytes | None, ...]] | None:
    """The same of each object in the lists `within` that the objects of a list have, in order.

    Of those alone whose member `kind` is the `wanted` text.
    """

def members_at(
    values: Sequence[Any], index: int, /, *names: str
) -> tuple[str | bytes | None, ...] | None:
    """`members` of the text of a span's value, which is not made a text of Python's for it.

    None also where the value is no text, is long, is not ASCII, or was not read in C.
    """

def listed_at(
    values: Sequence[Any], index: int, within: str, wanted: str, kind: str, /, *names: str
) -> list[tuple[str | bytes | None, ...]] | None:
    """`listed` likewise."""

def lacks_at(values: Sequence[Any], index: int, sign: str, /) -> bool:
    """True where a span's value is certainly a text without `sign` in it, which has two bytes or more.

    False also where the value is long or was not read in C.
    """
