"""Test doubles of what is outside the monitor: the clock, the receiver of verdicts, a monitor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from monitor.engine import Monitor
from monitor.limits import SECOND, Limits
from monitor.records import ToolCall, Verdict
from monitor.spec.spec import MatchRules, Spec

__all__ = ["Clock", "FakeSink", "judge"]


class Clock:
    """A clock that stands still until it is advanced. Call it for Unix nanoseconds."""

    def __init__(self, now_ns: int = 1_700_000_000 * SECOND) -> None:
        self.now_ns = now_ns

    def __call__(self) -> int:
        return self.now_ns

    def advance(self, seconds: float) -> int:
        """Moves on and returns the new time."""
        self.now_ns += int(seconds * SECOND)
        return self.now_ns


class FakeSink:
    """Keeps the verdicts that are delivered to it."""

    def __init__(self) -> None:
        self.verdicts: list[Verdict] = []

    def deliver(self, verdicts: Sequence[Verdict]) -> None:
        """Takes verdicts, as a sink of the service does."""
        self.verdicts += verdicts


def judge(spec: Spec, calls: Iterable[ToolCall]) -> list[dict[str, Any]]:
    """Judgement objects of the calls' sessions, seen from their first call, under one spec.

    The spec judges them whatever its match rules say.
    """
    everyone = replace(spec, match=MatchRules((), without_rules=True))
    limits = Limits(history_complete=True, keep_arguments=True, fold=False)
    monitor = Monitor([everyone], limits)
    now = 0
    for call in calls:
        now = max(now, call.end_ns)
        monitor.observe(call, now)
    monitor.close(now)
    return list(monitor.judgements())
