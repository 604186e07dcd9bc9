"""The cost of policies for a call whose tool they do not name, and of limits for a call of a spec that has some.

CPU microseconds a call above the task alone, the least of several rotating rounds, each of which
proves its calls.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence

from monitor import Limits, Monitor, SessionKey, ToolCall
from monitor.records import Evidence
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.bench import bounds
from tests.bench.bounds import Bound
from tests.bench.outcome import Outcome, of_monitor

CALLS = 20_000
ROUNDS = 7
POLICIES = 5
PER_POLICY_US = 1.0
"""The promise: a policy that matches every session, where its tools do not occur."""

TASK = """
id: task
match: {service.name: shop}
alphabet: {look: {tool: look}, pay: {tool: pay}}
golden: [[look, pay]]
reads: [look]
"""
LIMITS = "deadlines: [{from: look, to: pay, within: 10m}]\nidle: 1h\n"
POLICY = """
id: policyN
kind: policy
alphabet:
  ask: {tool: askN}
  act: {tool: actN, arguments: {amount: {max: 3}}}
constraints: [{precedence: [ask, act]}, {at_most: [act, 3]}]
"""


def _compiled(text: str) -> Spec:
    spec, findings = compile_text(text, "bench.yaml")
    assert spec is not None, findings
    return spec


def _calls() -> list[ToolCall]:
    return [
        ToolCall(
            session=SessionKey("", f"s{number // 50}"),
            agent="",
            tool="look",
            arguments={},
            error=False,
            start_ns=1_000 + number,
            end_ns=1_001 + number,
            trace_id=b"t" * 16,
            span_id=number.to_bytes(8, "big"),
            parent_span_id=b"p" * 8,
            call_id="",
            evidence=Evidence.EXECUTED,
            attributes=ATTRIBUTES,
        )
        for number in range(CALLS)
    ]


ATTRIBUTES = {"service.name": "shop"}


def microseconds(specs: Sequence[Spec], calls: Sequence[ToolCall]) -> float:
    """CPU a call of one run."""
    monitor = Monitor(specs, Limits(history_complete=True))
    gc.collect()
    start = time.process_time()
    for call in calls:
        monitor.observe(call, call.start_ns, quiet=True)
    spent = time.process_time() - start
    assert of_monitor(monitor) == Outcome(len(calls), 0)
    return spent / len(calls) * 1e6


def main() -> None:
    task, calls = _compiled(TASK), _calls()
    policies = [_compiled(POLICY.replace("N", str(number))) for number in range(POLICIES)]
    cases = {
        "task": [task],
        "task, policies": [task, *policies],
        "task with limits": [_compiled(TASK + LIMITS)],
    }
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(ROUNDS):
        for name, specs in cases.items():
            best[name] = min(best[name], microseconds(specs, calls))
    each = (best["task, policies"] - best["task"]) / POLICIES
    limits = best["task with limits"] - best["task"]
    print(
        f"us a call: deadlines and an idle limit {limits:.2f} more than the task alone, which"
    )
    print(f"takes {best['task']:.2f}")
    what = "a policy that names no tool of the call"
    print(bounds.lines([Bound(what, each, PER_POLICY_US, "us")]))


if __name__ == "__main__":
    main()
