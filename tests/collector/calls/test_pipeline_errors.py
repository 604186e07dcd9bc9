"""An error of ours in the middle of a request: nothing that was judged is lost, nothing is swallowed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from collector.calls import pipeline as pipeline_module
from collector.calls.pipeline import TOGETHER, Pipeline
from collector.decode.protobuf import otlp_proto
from collector.decode.protobuf.slices import LARGE_BYTES
from collector.decode.span import Span, UnjudgedSpansError
from collector.dialects.read import read
from collector.receive.export import Export
from collector.receive.status_codes import ExportStatus, Refusal
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, Verdict
from monitor.spec.read import load_spec
from monitor.visibility.cause import Cause
from tests.bench import traffic
from tests.bench.traffic import ROVER, SECOND, generate
from tests.collector.conftest import BASE, Wire
from tests.costly import COSTLY

pytestmark = pytest.mark.plain

NOW = 1_800_000_000 * SECOND

STAGES = (
    *("_plans.of", "_session_ids.owner", "_session_ids.claim_of", "_session_ids.learn"),
    *("traces.of", "correlation.call_merge.place", "correlation.call_merge.rise"),
    *("correlation.call_merge._join_by_id", "correlation.call_merge._merge"),
    *("_requests.read", "_requests.executed", "inventory.record"),
    *("correlation.update", "_take", "_requested_calls._judge"),
    *(
        "monitor.observe",
        "monitor.corrections.amend",
        "monitor.corrections.rekey",
        "monitor.corrections.learn",
        "monitor.corrections.doubt",
    ),
    *(
        "monitor.state.judging.calls.take",
        "monitor.state.judging.calls.under",
        "monitor.state.judging.binder.bind",
        "monitor._lifecycle.queue",
    ),
    *("monitor.state.accounting.count", "monitor.corrections.saw", "read"),
)
"""Where a span goes through: each of them may fail, before it has done its work."""


class Service:
    """A pipeline, what it delivered, and a sender that sends again what was refused."""

    def __init__(self) -> None:
        limits = Limits(history_complete=True, keep_arguments=True, fold=False)
        self.monitor, self.stats = Monitor([load_spec(ROVER)], limits), Stats()
        self.last: dict[tuple[Any, ...], Any] = {}
        self.pipeline = Pipeline(self.monitor, self.stats, self._deliver)
        self.refused = 0

    def _deliver(self, verdicts: Any) -> None:
        for each in verdicts:
            # Not by session: a trace's calls move to their session when its id arrives.
            self.last[each.spec, each.trace_id, each.span_id] = each.kind

    def send(self, spans: list[Span]) -> None:
        for _ in range(3):
            try:
                self.pipeline.consume(spans, NOW, "test")
            except UnjudgedSpansError:
                self.refused += 1
            else:
                return
        raise AssertionError("refused for ever")

    @property
    def state(self) -> tuple[Any, ...]:
        """The judgements of all sessions, and the last event on each harm.

        But for `coverage`, which counts spans as often as they came, and `started`, which keeps the time
        of a request that was judged before its execution came.
        """
        judgements = sorted(self.monitor.judgements(), key=lambda each: each["session"])
        for each in judgements:
            del each["coverage"], each["started"]
        harms = {key: kind for key, kind in self.last.items() if kind == "harmful"}
        return judgements, harms


@contextmanager
def failing(service: Service, stage: str, number: int) -> Iterator[None]:
    """Has a stage fail once, the `number`-th time."""
    if stage == "read":
        holder, name = pipeline_module, stage
    else:
        path = ("pipeline." + stage).replace("pipeline.monitor", "monitor")
        where, _, name = path.rpartition(".")
        holder = attrgetter(where)(service)
    inner: Callable[..., Any] = getattr(holder, name)
    left = number

    def fail(*given: Any, **more: Any) -> Any:
        nonlocal left
        left -= 1
        if left == 0:
            raise ZeroDivisionError
        return inner(*given, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(holder, name, fail)
        yield


def requests_of(seed: int, late: float, size: int) -> list[list[Span]]:
    """Of a few sessions at a time, of four instrumentations, some spans later than their parents."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(traffic, "IN_FLIGHT", 6)
        (body,) = generate(150, 1, seed=seed, late=late, cut=True).requests
    spans = otlp_proto.decode(body).spans
    return [spans[first : first + size] for first in range(0, len(spans), size)]


@settings(COSTLY, suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 5),
    late=st.sampled_from([0.0, 0.3]),
    size=st.sampled_from([1, 7, TOGETHER + 9, 150]),
    stage=st.sampled_from(STAGES),
    number=st.integers(1, 160),
)
@example(seed=4, late=0.0, size=7, stage="monitor.corrections.amend", number=8)
def test_what_is_sent_again_ends_as_if_nothing_had_failed(
    seed: int, late: float, size: int, stage: str, number: int
) -> None:
    """Whatever stage fails for whatever span: sent again, all is as in a service that never failed."""
    requests = requests_of(seed, late, size)
    good, bad = Service(), Service()
    for request in requests:
        good.send(request)
    with failing(bad, stage, number):
        for request in requests:
            bad.send(request)

    assert bad.state == good.state
    bad.pipeline.consume([], NOW, "test")  # no error is left over


def test_the_other_calls_of_the_request_are_judged_and_delivered() -> None:
    """If one of three calls raises, the others are judged at once, and it is judged on a retry."""
    wire = Wire()
    rover = {"service.name": "farm-rover"}
    spans = [wire.tool("water", start=at, end=at + 1, resource=rover) for at in (0, 2, 4)]
    service = Service()
    with (
        failing(service, "monitor.state.judging.calls.under", 2),
        pytest.raises(UnjudgedSpansError) as failed,
    ):
        service.pipeline.consume(spans, BASE + 10 * SECOND, "test")

    assert (failed.value.spans, failed.value.errors) == (1, {"ZeroDivisionError": 1})
    assert sum(kind == "harmful" for kind in service.last.values()) >= 1
    assert service.stats.counts["calls", "executed"] == 2
    service.send(spans)
    assert service.stats.counts["calls", "executed"] == 3
    (shown,) = [each for each in service.monitor.judgements() if each["spec"]]
    assert shown["calls"] == 3


def test_an_error_that_stays_stops_no_other_update() -> None:
    """Of two known calls that could not be updated, the second is, though the first fails once more."""
    wire = Wire()
    calls = [wire.tool("water", id=name, trace=name, parent=f"{name}'s agent") for name in "ab"]
    agents = [
        wire.span(
            "invoke_agent",
            {"gen_ai.operation.name": "invoke_agent"},
            id=f"{name}'s agent",
            trace=name,
        )
        for name in "ab"
    ]
    service = Service()
    service.send(calls)
    amend, failures = service.monitor.corrections.amend, iter(range(3))

    def failing(*given: Any) -> Any:
        if next(failures, None) is not None:
            raise ZeroDivisionError
        return amend(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service.monitor.corrections, "amend", failing)
        with pytest.raises(UnjudgedSpansError):
            service.pipeline.consume(agents, NOW, "test")
    trees = [trace.tree for trace in service.pipeline.traces if trace.tree is not None]
    told = [
        node.call.judged for tree in trees for node in tree.calls() if node.call is not None
    ]
    doubts = [each.doubts for each in told if each is not None]
    assert doubts == [(Cause.ORPHAN,), ()]


def test_a_span_that_always_fails_stops_no_other() -> None:
    """Each retry counts its error, and the other spans are duplicates."""
    wire = Wire()
    spans = [wire.tool("water", start=at, end=at + 1) for at in (0, 2)]
    service = Service()
    with pytest.MonkeyPatch.context() as patch:

        def broken(span: Span, *more: Any) -> Any:
            if span is spans[0]:
                raise ZeroDivisionError
            return read(span, *more)

        patch.setattr(pipeline_module, "read", broken)
        for _ in range(3):
            with pytest.raises(UnjudgedSpansError):
                service.pipeline.consume(spans, BASE + 10 * SECOND, "test")

    assert +Counter(service.stats.dropped) == {"duplicate": 2}
    assert service.stats.counts["calls", "executed"] == 1


def test_a_failing_request_is_counted_by_its_spans_and_errors() -> None:
    """The sender gets INTERNAL. Judged spans count as accepted, the others as dropped."""
    (body,) = generate(20, 1, seed=1, cut=True).requests
    service = Service()
    export = Export(service.pipeline.consume, service.stats, lambda: NOW)
    with failing(service, "_take", 5), pytest.raises(Refusal) as refusal:
        export.ingest_now("traces", body, "proto", "grpc")

    assert refusal.value.status is ExportStatus.INTERNAL
    assert +Counter(service.stats.dropped) == {"internal_error": 1}
    assert service.stats.spans == {("grpc", "accepted"): 19}
    assert service.stats.counts["internal_errors", "ZeroDivisionError"] == 1


def test_an_error_after_the_last_span_refuses_nothing() -> None:
    """All spans were judged, so the request is accepted, and the error is counted."""
    (body,) = generate(20, 1, seed=1, cut=True).requests
    service = Service()
    export = Export(service.pipeline.consume, service.stats, lambda: NOW)
    with failing(service, "monitor.corrections.saw", 1):
        export.ingest_now("traces", body, "proto", "grpc")

    assert +Counter(service.stats.dropped) == {}
    assert service.stats.spans == {("grpc", "accepted"): 20}
    assert service.stats.counts["internal_errors", "ZeroDivisionError"] == 1


def test_a_sink_that_fails_leaves_nothing_behind() -> None:
    """The caller gets the sink's error. The next request is taken as usual."""
    wire = Wire()
    told: list[Verdict] = []
    monitor = Monitor([load_spec(ROVER)], Limits(history_complete=True))

    def deliver(verdicts: Any) -> None:
        if not told:
            told.extend(verdicts)
            raise ZeroDivisionError
        told.extend(verdicts)

    pipeline, rover = Pipeline(monitor, Stats(), deliver), {"service.name": "farm-rover"}
    with pytest.raises(ZeroDivisionError):
        pipeline.consume(
            [wire.tool("water", start=0, end=1, resource=rover)], BASE + SECOND, "test"
        )
    pipeline.consume(
        [wire.tool("water", start=2, end=3, resource=rover)], BASE + SECOND, "test"
    )
    assert len({verdict.span_id for verdict in told}) == 2


def test_a_large_request_goes_on_behind_an_error() -> None:
    """It is judged in parts: those behind the one that failed are judged as well."""
    (body,) = generate(800, 1, seed=1, cut=True).requests
    count = len(otlp_proto.decode(body).spans)
    assert len(body) > LARGE_BYTES
    service = Service()
    export = Export(service.pipeline.consume, service.stats, lambda: NOW)
    with failing(service, "_take", 5), pytest.raises(Refusal) as refusal:
        asyncio.run(export.ingest("traces", body, "proto", "grpc"))

    assert refusal.value.status is ExportStatus.INTERNAL
    assert +Counter(service.stats.dropped) == {"internal_error": 1}
    assert service.stats.spans == {("grpc", "accepted"): count - 1}


ODD = ("ambiguous_tool", "id_reused", "truncated_attributes", "control", "look_alike")


def odd_spans(wire: Wire) -> list[Span]:
    """Spans with a repeated name, repeated ids, dropped attributes, and a framework's own tool."""
    rover = {"service.name": "farm-rover"}
    tool, name = ("gen_ai.operation.name", "execute_tool"), "gen_ai.tool.name"
    return [
        wire.span("span", [tool, (name, "water"), (name, "open")], start=0, resource=rover),
        wire.tool("water", id="a", start=2, end=3, resource=rover),
        wire.tool("open", id="a", start=2, end=3, resource=rover),
        wire.tool("water", id="b", start=4, end=5, resource=rover, dropped=1),
        wire.tool("transfer_to_agent", id="c", start=6, end=7, resource=rover),
        wire.span("span", [tool, (name, "")], id="d", start=8, resource=rover),
    ]


@pytest.mark.parametrize("number", range(1, 8))
@pytest.mark.parametrize(
    "stage",
    [
        "correlation.rise",
        "correlation.update",
        "monitor.observe",
        "monitor.state.judging.calls.take",
    ],
)
def test_a_reason_is_counted_once_though_its_span_is_sent_again(
    stage: str, number: int
) -> None:
    """A reason counted before an error is not counted again when the span is sent again."""
    spans = odd_spans(Wire())
    good, bad = Service(), Service()
    good.send(spans)
    with failing(bad, stage, number):
        bad.send(spans)
    counted = [
        {
            key: count
            for key, count in service.stats.counts.items()
            if key[0] in ("coverage", "arguments_unreadable") and key[1] != "duplicate"
        }
        for service in (good, bad)
    ]

    assert counted[0]["coverage", "id_reused"] == 1
    assert counted[0]["coverage", "ambiguous_tool"] == 1
    assert counted[1] == counted[0]
