"""Rules that ask for results which no recorded run has: they can claim nothing.

Idea: a call whose result is asked for and is not known has no symbol. Where that is so of every call of a tool, results are
not captured, and what reads the calls says which setting of the framework turns them on.

Example: `approved: {tool: ask, result: {status: approved}}` over runs whose spans have arguments alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from collector.dialects.registry import DIALECTS
from collector.offline.tables import printable
from monitor.alphabet.call_facts import is_result
from monitor.spec.spec import Spec

__all__ = ["ResultHints", "result_switch"]

_OF_RESULTS: Final = (
    ("INPUT", "OUTPUT"),
    ("Input", "Output"),
    ("input", "output"),
    ("tool-arguments", "tool-result"),
)
"""How settings that turn arguments on are called where they turn results on."""


class ResultHints:
    """Counts calls without a known result under one spec."""

    def __init__(self, spec: Spec | None = None) -> None:
        alphabet = spec.alphabet if spec is not None else None
        patterns = zip(alphabet.tools, alphabet.patterns, strict=True) if alphabet else ()
        self._asked = {
            tool for tool, asked in patterns if asked is not None and any(map(is_result, asked))
        }
        """Tools whose own results are asked for."""
        data = spec.data if spec is not None else None
        self._sources = (
            {tool for tool, needs in data.sources.items() if needs.paths} if data else set()
        )
        """Tools whose results other calls are compared with."""
        is_heard = data is not None and data.hears  # then it may be the user who is not known
        self._compared = (
            set(data.conditions) if data and self._sources and not is_heard else set()
        )
        """Tools whose calls are compared with them."""
        self._calls: Counter[str] = Counter()
        self._unknown: Counter[str] = Counter()
        self._dialects: dict[str, None] = {}

    def take(self, judged: Mapping[str, Any]) -> None:
        """Takes a judgement object."""
        if not (self._asked or self._compared):
            return
        self._dialects.update(dict.fromkeys(judged["source"].split(", ")))
        for step in judged["steps"]:
            if not step["error"] and step["arguments"] is not None:
                self._calls[step["tool"]] += 1
                self._unknown[step["tool"]] += not step["symbol"] and not step["reason"]

    def lines(self) -> Iterator[str]:
        """The hints, each with its code first."""
        for tool in sorted(self._asked):
            if self._is_unknown(tool):
                count = self._calls[tool]
                yield (
                    f"results_not_captured: no call of {printable(tool)} ({count} of {count}) has a result, "
                    f"which its symbols ask for: {self._remedy()}"
                )
        called = [tool for tool in sorted(self._sources) if self._calls[tool]]
        for tool in sorted(self._compared - self._asked):
            if called and self._is_unknown(tool):
                names = ", ".join(map(printable, called))
                yield (
                    f"results_not_captured: no call of {printable(tool)} can be compared with results of "
                    f"{names}, which are not known: {self._remedy()}"
                )

    def _is_unknown(self, tool: str) -> bool:
        return 0 < self._calls[tool] == self._unknown[tool]

    def _remedy(self) -> str:
        found = dict.fromkeys(filter(None, map(result_switch, self._dialects)))
        if found:
            return f"set {' or '.join(found)}"
        return "write `result` beside each call, or see docs/frameworks.md for what turns results on"


def result_switch(dialect: str) -> str:
    """The setting that puts results on the wire, where a dialect names one for arguments; else ""."""
    for text in _switches(dialect):
        found = text
        for of_arguments, of_results in _OF_RESULTS:
            found = found.replace(of_arguments, of_results)
        return found
    return ""


def _switches(name: str) -> Iterable[str]:
    return (each.switch for each in DIALECTS if each.name == name and each.switch)
