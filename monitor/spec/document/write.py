"""Plain data -> YAML text a person can read, and that reads back as the same data.

PyYAML's writer follows YAML 1.1 and leaves `1e5` and `0o17` bare, which are numbers in YAML 1.2.
Texts are therefore written as JSON writes them; only names that cannot be anything else are bare.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["flow", "name"]

_BARE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_'-]*")
_WORDS: Final = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""Words that some YAML reader, old or new, does not read as names."""

KEY_MAX: Final = 1000
"""Readers look for a key's colon in 1,024 characters, its quotes among them."""


def name(text: str) -> str:
    """A key, symbol or state: bare where that is safe, else quoted."""
    if _BARE.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return _quoted(text)


def flow(value: Any) -> str:
    """A value on one line: texts quoted, lists and mappings in brackets."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(str(key))}: {flow(value[key])}" for key in value) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(flow, value)) + "]"
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    return json.dumps(value)


def _key(text: str) -> str:
    """A key in braces; one that is too long to be seen as such is marked (YAML 1.2, 7.4.2)."""
    written = name(text)
    return written if len(written) <= KEY_MAX else f"? {written} "


def _quoted(text: str) -> str:
    # What is not printable is escaped: YAML allows less than JSON, and readers are people. Half a
    # surrogate pair, which YAML cannot write at all, becomes the sign for what is unreadable.
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return "".join(
        c if c.isprintable() else f"\\U{ord(c):08x}"
        for c in json.dumps(whole, ensure_ascii=False)
    )
