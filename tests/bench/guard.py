"""What a check of a guard in process costs, and what the outcome of its call.

CPU microseconds, the least of several rounds. Each round is of sessions of the farm rover, which waters too early once and
reads why not; its work is proven: every task is finished without harm, and one check of each session is denied.
"""

from __future__ import annotations

import gc
import time
from pathlib import Path
from typing import NamedTuple

from monitor import Limits, Monitor
from monitor.spec.compiler.compile import compile_text
from offrails_guard import LocalGuard
from tests.bench import bounds
from tests.bench.bounds import Bound

SESSIONS = 300
ROUNDS = 5
CHECK_US = 150.0
"""The promise, of plain Python."""

SPEC = Path(__file__).parents[2] / "dfa_specs" / "farm_rover.yaml"
RUN = ("unlock_safety", "move", "scan", "water", "open_valve", "water", "log")
"""The first `water` is denied."""
ARGUMENTS = {"field": 3, "liters": 10, "note": "field 3"}


class Cost(NamedTuple):
    """Microseconds of CPU time for one."""

    check: float
    outcome: float


def cost() -> Cost:
    """Of one round, in its order; who asks says at once what became of the call."""
    spec, findings = compile_text(
        SPEC.read_text().replace("mode: shadow", "mode: shadow\nenforce: block"), SPEC.name
    )
    assert spec is not None, findings
    monitor = Monitor([spec], Limits(history_complete=True))
    guard = LocalGuard(monitor, agent="rover", service="farm-rover")
    sessions = [f"s{number}" for number in range(SESSIONS)]
    checks = outcomes = 0
    gc.collect()
    now = time.process_time_ns
    for session in sessions:
        for tool in RUN:
            began = now()
            decision = guard.check(tool, ARGUMENTS, session=session)
            decided = now()
            guard.outcome(decision.decision_id, "ran" if decision.allowed else "skipped")
            checks += decided - began
            outcomes += now() - decided
    _prove(guard)
    calls = SESSIONS * len(RUN)
    return Cost(checks / calls / 1000, outcomes / calls / 1000)


def _prove(guard: LocalGuard) -> None:
    counts = guard.counts()
    assert counts == {"allow": SESSIONS * (len(RUN) - 1), "deny": SESSIONS}, counts
    found = [(each["harmful"], each["accepting"]) for each in guard.monitor.judgements()]
    assert found == [(0, True)] * SESSIONS


def main() -> None:
    rounds = [cost() for _ in range(ROUNDS)]
    check = min(each.check for each in rounds)
    outcome = min(each.outcome for each in rounds)
    print(
        f"us of CPU time: {check:.1f} a check of a guard in process, {outcome:.1f} an outcome"
    )
    print(bounds.lines([Bound("a check of a guard in process", check, CHECK_US, "us")]))


if __name__ == "__main__":
    main()
