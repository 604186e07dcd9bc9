"""The benchmarks' traffic has the outcome that its generator states."""

from __future__ import annotations

from itertools import product

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.calls.pipeline import Pipeline
from collector.metrics.service import Families
from collector.metrics.text_format import lines
from collector.receive.export import Export
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, load_spec
from tests.bench import bounds
from tests.bench.bounds import Bound
from tests.bench.live_sessions import bodies
from tests.bench.outcome import Outcome, of_metrics, of_monitor, sent
from tests.bench.traffic import ROVER, SECOND, Traffic, generate, harms

NOW = 1_800_000_000 * SECOND
SIZES = {1: 1_000, 50: 20, 512: 2}


def judged(traffic: Traffic) -> Monitor:
    """The outcome of the traffic in a service."""
    monitor, stats = Monitor([load_spec(ROVER)], Limits(history_complete=True)), Stats()
    export = Export(Pipeline(monitor, stats, lambda _: None).consume, stats, lambda: NOW)
    for body in traffic.requests:
        export.ingest_now("traces", body, "proto", "grpc")
    return monitor


SAMPLE = {(1, 50, 0.08)}
"""Seed, size of requests and disorder; `make test-long` takes each with each."""


@pytest.mark.parametrize(
    ("seed", "size", "late"),
    [
        pytest.param(*each, marks=() if each in SAMPLE else pytest.mark.long)
        for each in product((1, 2, 3), SIZES, (0.0, 0.08, 0.3))
    ],
)
def test_exactly_the_calls_and_harms_of_generated_traffic_are_found(
    seed: int, size: int, late: float
) -> None:
    """Whatever the seed, the size of requests and the disorder."""
    traffic = generate(size, SIZES[size], seed=seed, late=late)

    assert of_monitor(judged(traffic)) == sent(traffic)
    assert traffic.calls > 200
    assert traffic.harmful


def test_copied_sessions_are_sessions_of_their_own() -> None:
    """Each has its five calls and its harm, whatever it was copied from."""
    monitor, stats = Monitor([load_spec(ROVER)], Limits(history_complete=True)), Stats()
    export = Export(Pipeline(monitor, stats, lambda _: None).consume, stats, lambda: NOW)
    calls = harmful = 0
    for body, begun, harm in bodies(100, NOW):
        export.ingest_now("traces", body, "proto", "grpc")
        calls, harmful = calls + begun, harmful + harm

    assert of_monitor(monitor) == Outcome(calls, harmful)
    assert (monitor.sessions, calls) == (100, 500)
    assert harmful >= 100 // 4


def test_all_four_dialects_are_read_and_bound() -> None:
    """The sessions of each scope come out as sessions of the rover, by its own way to name them."""
    traffic = generate(50, 12, late=0.0)
    monitor = judged(traffic)

    scopes = {
        spans.scope.name
        for body in traffic.requests
        for group in ExportTraceServiceRequest.FromString(body).resource_spans
        for spans in group.scope_spans
    }
    assert len(scopes) == 4
    assert {spec for _, spec in monitor.totals.pairs} == {"farm_rover"}
    assert monitor.sessions <= 200 + traffic.spans // 15, "a trace was taken for a session"


def test_requests_are_what_an_exporter_would_send() -> None:
    """The protobuf runtime reads them and writes the same bytes again; spans have about 3 KB."""
    traffic = generate(50, 12)

    for body in traffic.requests:
        assert ExportTraceServiceRequest.FromString(body).SerializeToString() == body
    assert 2_700 < sum(map(len, traffic.requests)) / traffic.spans < 3_600


def test_the_same_arguments_give_the_same_traffic() -> None:
    """And another seed gives another."""
    assert generate(10, 5, seed=4) == generate(10, 5, seed=4)
    assert generate(10, 5, seed=4).requests != generate(10, 5, seed=5).requests


def test_one_span_in_twenty_comes_late_unless_told_otherwise() -> None:
    """Late spans exist and revise verdicts: in order of arrival, verdicts would differ."""
    traffic = generate(50, 25)
    ordered = generate(50, 25, late=0.0)
    pairs = judged(traffic).totals.pairs.values()

    assert 0.04 < traffic.late / traffic.spans < 0.07
    assert ordered.late == 0
    assert sum(pair.revisions.total() for pair in pairs) > 10


def test_harms_follow_the_table_of_the_spec() -> None:
    """A run on the golden path has no harm; watering early and watering twice have one each."""
    assert harms(["unlock_safety", "move", "scan", "open_valve", "water", "log"]) == 0
    assert harms(["unlock_safety", "move", "water", "scan", "open_valve", "water"]) == 1
    assert harms(["unlock_safety", "move", "scan", "open_valve", "water", "water"]) == 1


def test_the_outcome_is_the_same_by_the_counters_and_by_what_is_scraped() -> None:
    """So a service is held to the same figures as a monitor in the same process."""
    traffic = generate(50, 20)
    monitor = judged(traffic)

    text = "".join(lines(Families(monitor, Stats()).collect(), open_metrics=False))
    assert of_metrics(text) == of_monitor(monitor) == sent(traffic)


def test_whether_a_bound_is_kept_is_said_beside_the_figure() -> None:
    """By the figure alone, in a line and in a table."""
    within, beyond = Bound("one", 0.5, 0.5, "x"), Bound("other", 2.01, 2.0, "ms")

    assert bounds.lines([within, beyond]).splitlines() == [
        "check: one: 0.5x of at most 0.5x: kept",
        "check: other: 2.01 ms of at most 2 ms: NOT KEPT",
    ]
    assert bounds.table([within, beyond]).splitlines()[2:] == [
        "| one | 0.5x | 0.5x | yes |",
        "| other | 2.01 ms | 2 ms | **no** |",
    ]


def test_the_outcome_of_traffic_is_taken_net_of_revisions() -> None:
    """The outcomes add up, and earlier traffic is not counted again."""
    first, second = Traffic([], 5, 3, 1, 0), Traffic([], 5, 2, 1, 0)

    assert sent(first, second) == Outcome(5, 2)
    assert sent(first, second).since(sent(first)) == sent(second)
