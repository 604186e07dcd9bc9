"""Folding old calls into the checkpoint changes no number, inside the window."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor import Limits, Monitor, SessionKey, ToolCall
from monitor.limits import SECOND
from monitor.records import Evidence
from monitor.session.judge.judge import Judge
from monitor.session.judge.run import AutomatonRun
from monitor.session.judgement.fold_log import FOLD_AFTER, LOG_MAX
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.costly import COSTLY

SPEC = """
id: round
kind: task
match: {service.name: shop}
alphabet:
  a: {tool: a}
  b: {tool: b}
  c: {tool: c}
  r: {tool: r}
initial: s
accepting: [t, u]
transitions: {s: {a: t}, t: {b: u, c: s}, u: {c: t}}
reads: [r]
"""
START = 1_700_000_000 * SECOND
SUMMARY = [
    "calls",
    "substantive",
    "harmful",
    "harm_rate",
    "prefix_crit",
    "pc",
    "pc_ktc",
    "pc_hlr",
    "efficiency",
    "accepting",
    "state",
]


def spec() -> Spec:
    found, findings = compile_text(SPEC, "round.yaml")
    assert found is not None, findings
    return found


def call(number: int, tool: str, start_ns: int) -> ToolCall:
    return ToolCall(
        session=SessionKey("", "long"),
        agent="",
        tool=tool,
        arguments={},
        error=False,
        start_ns=start_ns,
        end_ns=start_ns + 1000,
        trace_id=b"t" * 16,
        span_id=(number + 1).to_bytes(8, "big"),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes={"service.name": "shop"},
    )


def run(arrivals: list[tuple[int, ToolCall]], *, fold: bool) -> tuple[Monitor, dict[str, Any]]:
    """Plays (time of receipt, call) with a tick a second."""
    monitor = Monitor([spec()], Limits(history_complete=True, fold=fold))
    tick = START
    for now, each in arrivals:
        while tick < now:
            monitor.tick(tick)
            tick += SECOND
        monitor.observe(each, now)
    monitor.tick(tick + 30 * SECOND)
    return monitor, monitor.find("long")[0]


def jittered(seed: int, count: int) -> list[tuple[int, ToolCall]]:
    """One call a second, each received up to nine seconds late, so calls overtake each other."""
    chance = random.Random(seed)
    arrivals = []
    for number in range(count):
        start = START + number * SECOND
        tool = chance.choices("abcrx", weights=(4, 3, 4, 3, 1))[0]
        arrivals.append((start + chance.randrange(9 * SECOND), call(number, tool, start)))
    return sorted(arrivals, key=lambda arrival: arrival[0])


@COSTLY
@given(st.integers(0, 2**32), st.integers(90, 260))
def test_folding_changes_no_number(seed: int, count: int) -> None:
    """A session with overtaking calls has the same scores and final counters, folded or not."""
    arrivals = jittered(seed, count)
    kept, expected = run(arrivals, fold=False)
    folded, found = run(arrivals, fold=True)

    assert {key: found[key] for key in SUMMARY} == pytest.approx(
        {key: expected[key] for key in SUMMARY}, abs=1e-12
    )
    assert found["steps_folded"] + len(found["steps"]) == count
    assert found["late_calls"] == 0
    assert found["steps"] == expected["steps"][found["steps_folded"] :]
    pair, other = (m.totals.pairs["shop", "round"] for m in (folded, kept))
    assert pair.final == other.final


def test_a_folded_session_keeps_few_steps() -> None:
    """A long quiet session keeps only its recent steps."""
    _, found = run(jittered(1, 600), fold=True)

    assert FOLD_AFTER <= len(found["steps"]) < 2 * FOLD_AFTER


def test_a_burst_stays_bounded_and_counted() -> None:
    """Ten thousand calls within the window keep the log within its bound, and lose no count."""
    monitor = Monitor([spec()], Limits(history_complete=True))
    chance = random.Random(7)
    for number in range(10_000):
        tool = chance.choice("abcrx")
        monitor.observe(call(number, tool, START + number * 1_000_000), START + 10 * SECOND)
    found = monitor.find("long")[0]

    assert len(found["steps"]) <= LOG_MAX + 64
    assert found["calls"] == 10_000
    assert monitor.counters.folded_young >= 10_000 - LOG_MAX - 64
    monitor.tick(START + 60 * SECOND)
    final = sum(monitor.totals.pairs["shop", "round"].final.values())
    assert final == found["harmful"]


def test_an_overtaking_burst_costs_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """At 1,000 calls a second, out of order by 50 ms, each call steps again only those that overtook it."""
    count, stepped = 4_000, 0
    step = AutomatonRun.step

    def counting(self: AutomatonRun, judge: Judge, token: int) -> int:
        nonlocal stepped
        stepped += 1
        return step(self, judge, token)

    monkeypatch.setattr(AutomatonRun, "step", counting)
    chance = random.Random(7)
    made = [call(n, chance.choice("abcrx"), START + n * 1_000_000) for n in range(count)]
    arrived = sorted(made, key=lambda each: each.start_ns + chance.randrange(50_000_000))
    ends = []
    for order in (made, arrived):
        stepped = 0
        monitor = Monitor([spec()], Limits(history_complete=True))
        for each in order:
            monitor.observe(each, each.start_ns + 100_000_000, quiet=True)
        monitor.tick(START + 60 * SECOND)
        (found,) = monitor.find("long")
        ends.append({key: found[key] for key in (*SUMMARY, "late_calls", "steps")})

    assert stepped < 150 * count
    assert ends[0] == ends[1]


def test_a_call_whose_place_is_folded_is_judged_from_the_present() -> None:
    """A call that comes minutes late is judged where the session is now, and counted as late."""
    arrivals = jittered(3, 200)
    late = call(999, "x", START)
    monitor, found = run([*arrivals, (START + 300 * SECOND, late)], fold=True)

    assert found["late_calls"] == 1
    assert found["steps"][-1]["tool"] == "x"
    assert found["calls"] == 201
    assert monitor.totals.pairs["shop", "round"].late == 1
