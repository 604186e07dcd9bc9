"""Calls issued in parallel, from decoded spans to final verdicts."""

from __future__ import annotations

from itertools import permutations

import pytest

from collector.calls.pipeline import Pipeline
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, Verdict
from monitor.limits import SECOND
from monitor.spec.compiler.compile import compile_text
from tests.collector.conftest import BASE, Wire

POLICY = """
id: payments
kind: policy
alphabet: {approve: {tool: approve}, pay: {tool: pay}}
constraints: [{precedence: [approve, pay]}, {at_most: [pay, 1]}]
"""
"""Strict, as policies are unless they say otherwise."""

TIMES = {"together": (0, 2, 1, 3), "touching": (0, 1, 1, 2), "apart": (0, 1, 2, 3)}


def final(text: str, spans: list[object]) -> list[tuple[str, str | None]]:
    """(tool, constraint) of the harmful verdicts that became final."""
    spec, findings = compile_text(text, "payments.yaml")
    assert spec is not None, findings
    monitor, told = Monitor([spec], Limits(history_complete=True)), list[Verdict]()
    monitor.on_final(told.append)
    pipeline = Pipeline(monitor, Stats(), lambda _: None)
    for span in spans:
        pipeline.consume([span], BASE + 10 * SECOND, "test")  # type: ignore[list-item]
    monitor.tick(BASE + 21 * SECOND)
    return [(verdict.tool, verdict.constraint) for verdict in told]


@pytest.mark.parametrize("times", TIMES)
@pytest.mark.parametrize("concurrent", ["strict", "any_order"])
def test_approved_and_paid_at_once(times: str, concurrent: str) -> None:
    """A strict policy judges by the worst possible order of the calls, however they arrive."""
    wire, (start, end, later, last) = Wire(), TIMES[times]
    spans = [
        wire.tool("approve", parent="turn", start=start, end=end),
        wire.tool("pay", parent="turn", start=later, end=last),
        wire.span("turn", {}, id="turn", start=0, end=4),
    ]
    flagged = times == "together" and concurrent == "strict"
    wanted = [("pay", "precedence: [approve, pay]")] if flagged else []

    for order in permutations(spans):
        assert final(f"{POLICY}concurrent: {concurrent}\n", list(order)) == wanted


def test_two_payments_where_one_is_allowed() -> None:
    """Of two overlapping payments, one is harmful, in whichever order they arrive."""
    wire = Wire()
    spans = [
        wire.tool("approve", parent="turn", start=0, end=1),
        wire.tool("pay", id="one", parent="turn", start=2, end=5),
        wire.tool("pay", id="two", parent="turn", start=3, end=4),
        wire.span("turn", {}, id="turn", start=0, end=6),
    ]
    for order in permutations(spans):
        assert final(POLICY, list(order)) == [("pay", "at_most: [pay, 1]")]


@pytest.mark.parametrize("above", ["run job", "invoke_agent"])
def test_calls_below_workers_that_are_roots_of_one_trace_are_in_no_order(above: str) -> None:
    """A worker's span shows no context, so calls that overlap may be parallel ones; an agent's span shows the agent's own order."""
    wire = Wire()
    attributes = {"gen_ai.operation.name": above} if above == "invoke_agent" else {}
    spans = [
        wire.tool("pay", parent="one", start=1, end=3),
        wire.tool("approve", parent="other", start=2, end=4),
        wire.span(above, attributes, id="one", start=0, end=5),
        wire.span(above, attributes, id="other", start=0, end=5),
    ]
    wanted = [] if above == "run job" else [("pay", "precedence: [approve, pay]")]

    for order in permutations(spans):
        assert final(f"{POLICY}concurrent: any_order\n", list(order)) == wanted


def test_a_worker_that_is_sent_again_is_one_root() -> None:
    """Calls below different spans of one root have the order of their starts."""
    wire = Wire()
    job = wire.span("run job", {}, id="job", start=0, end=5)
    spans = [
        wire.tool("pay", parent="step", start=1, end=3),
        wire.tool("approve", parent="job", start=2, end=4),
        wire.span("step", {}, id="step", parent="job", start=0, end=4),
    ]

    assert final(f"{POLICY}concurrent: any_order\n", [*spans, job, job]) == [
        ("pay", "precedence: [approve, pay]")
    ]
