"""The outcome of the traffic, by the monitor's own counters: the proof of every row."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from monitor import Monitor
from monitor.records import Kind
from tests.bench.traffic import Traffic

__all__ = ["NOTHING", "Outcome", "of_metrics", "of_monitor", "sent"]

_LINE = re.compile(r"offrails_(\w+)_total\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_HARMFUL = Kind.HARMFUL.value


class Outcome(NamedTuple):
    """Counters of calls."""

    calls: int
    """Those that were judged."""
    harmful: int
    """Harmful verdicts, those that were revised counted as what they became."""

    def since(self, before: Outcome) -> Outcome:
        """The difference to an earlier outcome."""
        return Outcome(*(now - then for now, then in zip(self, before, strict=True)))


NOTHING = Outcome(0, 0)


def sent(*all_of: Traffic) -> Outcome:
    """The outcome that traffic must have."""
    calls = sum(traffic.calls for traffic in all_of)
    return Outcome(calls, sum(traffic.harmful for traffic in all_of))


def of_monitor(monitor: Monitor) -> Outcome:
    """Of a monitor in this process."""
    first: Counter[str] = Counter()
    revised: Counter[tuple[str, str]] = Counter()
    for pair in monitor.totals.pairs.values():
        first.update({kind.value: count for kind, count in pair.calls.items()})
        for (old, new), count in pair.revisions.items():
            revised[old.value, new.value] += count
    return _net(first, revised)


def of_metrics(text: str) -> Outcome:
    """Of a service, by its `/metrics`."""
    first: Counter[str] = Counter()
    revised: Counter[tuple[str, str]] = Counter()
    for name, given, value in _LINE.findall(text):
        labels, count = dict(_LABEL.findall(given)), int(float(value))
        if name == "calls":
            first[labels["verdict"]] += count
        elif name == "verdict_revisions":
            revised[labels["from"], labels["to"]] += count
    return _net(first, revised)


def _net(first: Counter[str], revised: Counter[tuple[str, str]]) -> Outcome:
    """By first verdicts, and what became of them."""
    harmful = first[_HARMFUL]
    for (old, new), count in revised.items():
        harmful += count * ((new == _HARMFUL) - (old == _HARMFUL))
    return Outcome(first.total(), harmful)
