"""Fences around hostile texts: heads carry a nonce, and each line of a text is indented.

A text cannot close its fence: it does not hold the nonce, which is drawn after the text is known, and no line
of it begins at the margin, where fences are.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from typing import Final

__all__ = ["NONCE_LETTERS", "PLACEHOLDER", "clean", "fenced", "indented", "nonce_outside"]

NONCE_LETTERS: Final = 16
"""Hex digits of a nonce: 64 bits."""

PLACEHOLDER: Final = "0" * NONCE_LETTERS
"""Stand-in for the nonce where a text is measured, or is the key of a cache."""

_DRAWS_MAX: Final = 64
_KEPT: Final = frozenset("\n\t")
_HIDDEN: Final = frozenset({"Cc", "Cs", "Co"})
"""Unicode categories that a terminal or a tokenizer may take for something else than text."""


def nonce_outside(texts: Iterable[str], draw: Callable[[], str]) -> str:
    """A nonce that occurs in none of the texts, as they are or as Unicode folds them.

    Args:
        texts: all texts that will stand beside it.
        draw: gives another random nonce of `NONCE_LETTERS` each time.

    Raises:
        ValueError: many draws in a row occur in the texts, so they are not random.
    """
    folded = [_folded(clean(text)) for text in texts]
    for _ in range(_DRAWS_MAX):
        nonce = draw()
        if not any(nonce in text for text in folded):
            return nonce
    raise ValueError("every nonce that was drawn occurs in the data")


def _folded(text: str) -> str:
    if text.isascii():
        return text.casefold()
    found = unicodedata.normalize("NFKC", text).casefold()
    return "".join(letter for letter in found if unicodedata.category(letter) != "Cf")


def clean(text: str) -> str:
    """The text with control characters written as escapes; all kinds of line ends become one."""
    lines = "\n".join(text.splitlines())
    if lines.isprintable() or (lines.isascii() and lines.replace("\n", "").isprintable()):
        return lines
    return "".join(
        letter
        if letter in _KEPT or unicodedata.category(letter) not in _HIDDEN
        else letter.encode("unicode_escape").decode()
        for letter in lines
    )


def indented(text: str, by: str = "  ") -> str:
    """Each line of the text, with a margin before it."""
    return "\n".join(by + line for line in clean(text).split("\n"))


def fenced(what: str, nonce: str, body: str) -> str:
    """A body between two lines that carry the nonce. The body's lines are indented already."""
    return f"<<{what} {nonce}>>\n{body}\n<</{what.partition(' ')[0]} {nonce}>>"
