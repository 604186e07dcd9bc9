"""Names that are nearly those of a spec's tools: spelt otherwise, or with a namespace before them.

Agents call by few names, so what was found of a name is remembered. Models can invent names without end, so what is
remembered is bounded in bytes: a spec has a memory of its own, and there may be hundreds of specs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from monitor.alphabet.spelling import folded, without_namespaces
from monitor.weights import ITEM_BYTES, text_bytes

__all__ = ["NAMES_BYTES_MAX", "NearNames", "ToolsAlike"]

NAMES_BYTES_MAX: Final = 64 << 10
"""Approximate bytes of the names that one spec remembers, some 400. At the bound, all are forgotten and compared anew."""


@dataclass(frozen=True, slots=True)
class ToolsAlike:
    """Tools whose names look alike."""

    tools: tuple[str, ...]
    token: int
    """Token of a call with a name that is nearly theirs."""


class NearNames:
    """Which tools a name is nearly the name of.

    Args:
        tools: by the folded form of their names.
    """

    __slots__ = ("_known", "_known_bytes", "_tools")

    def __init__(self, tools: Mapping[str, ToolsAlike]) -> None:
        self._tools = tools
        self._known: dict[str, ToolsAlike | None] = {}
        """What was found of names that no tool has."""
        self._known_bytes = 0

    def tools_of(self, name: str) -> ToolsAlike | None:
        """The tools that a name, which no tool has, is nearly the name of; None if there are none."""
        if name in self._known:
            return self._known[name]
        found = self._search(name)
        size = ITEM_BYTES + text_bytes(name)
        if self._known_bytes + size > NAMES_BYTES_MAX:
            self._known.clear()
            self._known_bytes = 0
        self._known[name] = found
        self._known_bytes += size
        return found

    def _search(self, name: str) -> ToolsAlike | None:
        found = self._tools.get(folded(name))
        if found is None:
            for behind, _ in without_namespaces(name):
                found = self._tools.get(folded(behind))
                if found is not None:
                    break
        return found
