"""Checkers of whole trajectories: what one check costs, in microseconds, for some lengths.

Run by the interpreter that has them, not by ours: `.peers/bin/python checkers.py 6 50`. Prints one
JSON object of checker -> {length: microseconds, or null where it refuses so long a run}.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

SECONDS = 1.0


def _messages(length: int) -> list[dict[str, Any]]:
    """A run of `length` tool calls as chat messages."""
    found: list[dict[str, Any]] = [{"role": "user", "content": "drive"}]
    for number in range(length):
        function = {"name": f"tool_{number}", "arguments": json.dumps({"x": number, "y": 4})}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        found.append({"role": "assistant", "content": "", "tool_calls": [call]})
        found.append({"role": "tool", "tool_call_id": f"call_{number}", "content": "ok"})
    return found


def _agentevals(length: int) -> Callable[[], None]:
    from agentevals.trajectory.match import create_trajectory_match_evaluator

    check = create_trajectory_match_evaluator(trajectory_match_mode="strict")
    run = _messages(length)

    def once() -> None:
        assert check(outputs=run, reference_outputs=run)["score"]

    return once


def _invariant(length: int) -> Callable[[], None]:
    from invariant.analyzer import LocalPolicy

    rule = 'raise "out of order" if:\n  (one: ToolCall) -> (two: ToolCall)\n'
    rule += "  one is tool:tool_1\n  two is tool:tool_0\n"
    policy = LocalPolicy.from_string(rule)
    run = _messages(length)

    def once() -> None:
        assert not policy.analyze(run).errors

    return once


def _least(once: Callable[[], None]) -> float:
    """The least time of one check over a second of them."""
    least, end = float("inf"), time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        begin = time.perf_counter()
        once()
        least = min(least, time.perf_counter() - begin)
    return least * 1e6


def main() -> None:
    """Measures what is installed."""
    found: dict[str, dict[str, float | None]] = {}
    for name, make in (("agentevals strict", _agentevals), ("invariant", _invariant)):
        for length in map(int, sys.argv[1:]):
            try:
                cost: float | None = _least(make(length))
            except ImportError:
                break
            except RuntimeError:
                cost = None
            found.setdefault(name, {})[str(length)] = cost
    print(json.dumps(found))


if __name__ == "__main__":
    main()
