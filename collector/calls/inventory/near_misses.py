"""Finds near misses: a tool's name spelt otherwise or with a namespace before it, or a number written as something else.

Specs match names and values exactly. A call with such a name may be the tool's, or another's (`Alphabet.match`), and one with
such a number is judged as another call. It is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from collector.decode.memo import Memo
from monitor.alphabet.call_facts import is_fact
from monitor.alphabet.pattern import Pattern, number_in
from monitor.alphabet.spelling import folded, without_namespaces
from monitor.engine import Monitor
from monitor.partial import UNREAD
from monitor.records import ToolCall
from monitor.session.judge.judge import Judge
from monitor.weights import text_bytes

__all__ = ["NAMES_BYTES_MAX", "NearMisses"]

NAMES_BYTES_MAX: Final = 1 << 20
"""Approximate bytes of names of tools that are remembered: those that are no near miss, and those that may be one. At the bound,
all are forgotten and compared anew."""

_OF_MODELS: Final = frozenset(
    {"api", "defaultapi", "function", "functions", "multitooluse", "tool", "tools"}
)
"""Namespaces that models add to the names of the tools they are given, folded."""


class NearMisses:
    """Finds calls that nearly match what the specs of their session name.

    Args:
        monitor: has the specs.
    """

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._known: Memo[str, tuple[str, ...]] = Memo(NAMES_BYTES_MAX)
        """Tools that are no near miss -> their arguments that specs compare as numbers."""
        self._variants: Memo[str, tuple[str, str]] = Memo(NAMES_BYTES_MAX)
        """Tools that may be near misses -> the folded name of a spec's tools, and the reason."""
        self._named: set[str] = set()
        """Tools of all specs."""
        self._spelt: dict[str, set[str]] = {}
        """Tool names by their folded form."""
        self._numbers: dict[str, tuple[str, ...]] = {}
        self._detailed: set[str] = set()
        """Tools of which a spec names arguments."""
        self.specs_changed()

    def is_named(self, tool: str) -> bool:
        """True if a spec names the tool."""
        return tool in self._named

    def has_arguments(self, tool: str) -> bool:
        """True if a spec names arguments of the tool."""
        return tool in self._detailed

    def specs_changed(self) -> None:
        """The monitor has other specs."""
        self._known = Memo(NAMES_BYTES_MAX)
        self._variants = Memo(NAMES_BYTES_MAX)
        self._named.clear()
        self._spelt.clear()
        self._detailed.clear()
        numbers: dict[str, set[str]] = {}
        for judge in self._monitor.binder.judges.values():
            for tool, patterns in _symbols(judge):
                self._named.add(tool)
                self._spelt.setdefault(folded(tool), set()).add(tool)
                if patterns:
                    self._detailed.add(tool)
                found = [
                    name
                    for name, each in patterns.items()
                    if _is_numeric(each) and not is_fact(name)
                ]
                if found:
                    numbers.setdefault(tool, set()).update(found)
        self._numbers = {tool: tuple(sorted(names)) for tool, names in numbers.items()}

    def reason(self, call: ToolCall) -> str:
        """The reason of `coverage` if a call nearly matches what a spec names; else ""."""
        numbers = self._known.entries.get(call.tool)
        if numbers is None:
            found = self._variant(call)
            if found:
                return found
            numbers = self._numbers.get(call.tool, ())
        if not numbers or call.arguments is None:
            return ""
        return self._odd_number(call, numbers)

    def _variant(self, call: ToolCall) -> str:
        tool = call.tool
        near = self._variants.entries.get(tool)
        if near is None:
            name, reason = folded(tool), "name_variant"
            if name not in self._spelt:
                name, reason = self._behind(tool) or (name, reason)
            if not name or name not in self._spelt or self._spelt[name] == {tool}:
                if not name and not tool.strip():
                    return "unnamed_tool"
                self._known.put(tool, self._numbers.get(tool, ()), text_bytes(tool))
                return ""
            size = text_bytes(tool) + text_bytes(name)
            near = self._variants.put(tool, (name, reason), size)
        name, reason = near
        for judge in self._bound(call):
            tools = judge.spec.alphabet.tools
            if tool not in tools and not self._spelt[name].isdisjoint(tools):
                return reason
        return ""

    def _behind(self, tool: str) -> tuple[str, str] | None:
        """The folded name of a spec's tool that stands behind namespaces, and the reason."""
        for name, before in without_namespaces(tool):
            found = folded(name)
            if found in self._spelt:
                is_of_models = folded(before) in _OF_MODELS
                return found, "name_variant" if is_of_models else "name_prefixed"
        return None

    def _odd_number(self, call: ToolCall, names: Iterable[str]) -> str:
        arguments = call.arguments or {}
        odd = [name for name in names if not _is_plain(arguments.get(name))]
        if not odd:
            return ""
        for judge in self._bound(call):
            for tool, patterns in _symbols(judge):
                if tool == call.tool and any(
                    _is_odd(patterns[name], arguments[name]) for name in odd if name in patterns
                ):
                    return "odd_number"
        return ""

    def _bound(self, call: ToolCall) -> tuple[Judge, ...]:
        """The judges of the call, as far as the call itself tells."""
        return self._monitor.binder.bind(call.attributes, call.agent)


def _symbols(judge: Judge) -> Iterable[tuple[str, Mapping[str, Pattern]]]:
    """The tools of a spec's symbols, with their patterns."""
    alphabet = judge.spec.alphabet
    for tool, patterns in zip(alphabet.tools, alphabet.patterns, strict=True):
        yield tool, patterns or {}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_numeric(pattern: Pattern) -> bool:
    """True for a pattern that matches numbers."""
    if pattern.kind == "type":
        return pattern.operand in ("integer", "number")
    if pattern.kind == "one_of":
        return any(map(_is_number, pattern.operand))
    return pattern.kind == "range" or (pattern.kind == "exact" and _is_number(pattern.operand))


def _is_plain(value: Any) -> bool:
    """True for a number, and for a value that is missing or unreadable."""
    return value is None or value == UNREAD or _is_number(value)


def _is_odd(pattern: Pattern, value: Any) -> bool:
    """True for a value that a tool may accept as a number, and the pattern does not."""
    if not _is_numeric(pattern) or pattern.matches(value):
        return False
    number = number_in(value) if isinstance(value, str) else None
    return number is None if pattern.kind == "range" else number is not None
