"""How names of tools are compared where they are not equal: by what a reader sees, and without what stands before them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

__all__ = ["folded", "without_namespaces"]

_LETTERS: Final = str.maketrans("аԁеһіјӏоԛрѕԝсухαιονρκτ", "adehijloqpswcyxaiovpkt")
"""Cyrillic and Greek letters -> the Latin letters they look like."""

_NAMESPACE: Final = re.compile(r"[.:/]|__")
"""End of a namespace before a tool's name: `functions.`, `default_api:`, `mcp__bank__`."""

NAMESPACES_MAX: Final = 8
"""Namespaces that are looked behind, from the first one on."""


def folded(name: str) -> str:
    """A name as a reader sees it: equal for names that look alike."""
    plain = unicodedata.normalize("NFKD", name).casefold().translate(_LETTERS)
    return "".join(each for each in plain if each.isalnum())


def without_namespaces(name: str) -> Iterator[tuple[str, str]]:
    """The name without its first namespace, without its first two, and so on, each with what stands before it."""
    for count, found in enumerate(_NAMESPACE.finditer(name)):
        if count == NAMESPACES_MAX or found.end() == len(name):
            return
        yield name[found.end() :], name[: found.start()]
