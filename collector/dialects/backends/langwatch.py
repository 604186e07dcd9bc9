"""LangWatch: each value is stored with its type."""

from __future__ import annotations

from typing import Any

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import Arguments, mapping

__all__ = ["LANGWATCH"]


def _typed(value: Any) -> Arguments:
    """`{"type": "json", "value": {...}}`."""
    found = mapping(value)
    if isinstance(found, dict) and found.keys() == {"type", "value"}:
        return mapping(found["value"])
    return found


LANGWATCH = Dialect(
    name="langwatch",
    when=("langwatch.span.type",),
    values={"langwatch.span.type": frozenset({"tool"})},
    span_name="(?P<tool>.+)",
    arguments=(ArgumentSource("langwatch.input", _typed),),
)
