"""Calls that stand alone in a trace: when they may be another trace's call, told once more."""

from __future__ import annotations

import re
from itertools import permutations
from typing import Any

import pytest

from collector.calls.correlation import lone_echoes
from collector.calls.pipeline import Pipeline
from collector.decode.span import Span
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor
from monitor.visibility.cause import Cause
from tests.collector.conftest import BASE, SECOND, Wire
from tests.written import written

NOW = BASE + 3600 * SECOND
IN = {"gen_ai.conversation.id": "s"}
ECHO = (Cause.ORPHAN, Cause.TOLD_TWICE)
LONE = (Cause.ORPHAN,)


class Service:
    """A monitor behind a pipeline, long after its start."""

    def __init__(self) -> None:
        self.stats = Stats()
        monitor = Monitor([], Limits(), started_ns=1)
        self.pipeline = Pipeline(monitor, self.stats, lambda _: None)

    def send(self, *spans: Span) -> Service:
        """Sends each span in a request of its own."""
        for span in spans:
            self.pipeline.consume([span], NOW, "test")
        return self

    def doubts(self) -> dict[str, tuple[Cause, ...]]:
        """The doubts of each trace's call."""
        names = {bytes.fromhex(_id(name)): name for name in ("agent", "own", "other")}
        return {
            names[trace.trace_id]: node.call.judged.doubts
            for trace in self.pipeline.traces
            for node in (trace.tree.calls() if trace.tree is not None else ())
            if node.call is not None and node.call.judged is not None
        }


def _id(name: str) -> str:
    return Wire().span("x", trace=name).trace_id.hex()


def _pay(wire: Wire, trace: str, start: float, end: float, **more: Any) -> Span:
    return wire.tool(
        "pay", **{"trace": trace, "start": start, "end": end, "arguments": {"n": 5}, **more}
    )


def test_a_span_of_its_own_beside_the_frameworks_may_tell_of_the_same_call(wire: Wire) -> None:
    """In any order of arrival, the one that stands alone is in doubt; the framework's is not."""
    spans = [
        _pay(wire, "agent", 10, 12, parent="run", call_id="c1", attributes=IN),
        wire.span("run", {"gen_ai.operation.name": "invoke_agent"}, id="run", trace="agent"),
        _pay(wire, "own", 10.1, 11.9),
    ]
    for order in permutations(spans):
        service = Service().send(*order)
        assert service.doubts() == {"agent": (), "own": ECHO}
        assert service.stats.counts["coverage", "told_twice"] == 1


@pytest.mark.parametrize(
    "more",
    [
        {"arguments": {"n": 6}},
        {"start": 12.1, "end": 13},
        {"resource": {"service.name": "another"}},
        {"call_id": "c2"},
        {"attributes": {"gen_ai.conversation.id": "t"}},
    ],
)
def test_what_tells_two_calls_apart(wire: Wire, more: Any) -> None:
    """Other arguments, another time, service, call id or conversation: it is a call of its own."""
    agents = _pay(wire, "agent", 10, 12, call_id="c1", attributes=IN)
    own = (
        _pay(wire, "own", 10.1, 11.9, **more)
        if "start" not in more
        else _pay(wire, "own", **more)
    )
    for order in permutations([agents, own]):
        assert Cause.TOLD_TWICE not in Service().send(*order).doubts()["own"]


def test_of_two_that_stand_alone_the_later_one_is_in_doubt(wire: Wire) -> None:
    """In any order of arrival: one of the two is a call."""
    for order in permutations([_pay(wire, "own", 1, 3), _pay(wire, "other", 2, 4)]):
        assert Service().send(*order).doubts() == {"own": LONE, "other": ECHO}


def test_of_two_below_workers_of_their_own_one_is_in_doubt(wire: Wire) -> None:
    """The workers' spans end after the calls: that these stand alone is known only then, in any order."""
    spans = [
        _pay(wire, "own", 1, 3, parent="job", call_id="c"),
        wire.span("run job", id="job", trace="own", start=0.9, end=3.1),
        _pay(wire, "other", 1, 3, parent="job", call_id="c"),
        wire.span("run job", id="job", trace="other", start=0.9, end=3.1),
    ]
    for order in permutations(spans):
        assert sorted(Service().send(*order).doubts().values()) == [LONE, ECHO]


def test_a_copy_of_a_call_does_not_make_its_trace_a_conversation(wire: Wire) -> None:
    """Two spans below one worker that differ in their ids alone: one call that stands alone, or two."""
    spans = [
        _pay(wire, "own", 1, 3, parent="job", call_id="c"),
        _pay(wire, "own", 1, 3, parent="job", call_id="c", id="copy"),
        wire.span("run job", id="job", trace="own", start=0.9, end=3.1),
    ]
    for order in permutations(spans):
        service = Service().send(*order)
        (trace,) = service.pipeline.traces
        assert trace.tree is not None
        found = [node.call.judged for node in trace.tree.calls() if node.call is not None]
        assert sorted(each.doubts for each in found if each is not None) == [LONE, ECHO]


def test_arguments_that_come_later_tell_two_calls_apart(wire: Wire) -> None:
    """A span without arguments may tell of any call of its tool, until a fuller copy comes."""
    bare = _pay(wire, "agent", 10, 12, arguments=None, attributes=IN)
    fuller = _pay(wire, "agent", 10, 12, arguments={"n": 6}, attributes=IN)
    service = Service().send(bare, _pay(wire, "own", 10.1, 11.9))
    assert service.doubts()["own"] == ECHO
    assert service.send(fuller).doubts()["own"] == LONE


def test_a_trace_that_turns_out_to_be_more_is_no_echo(wire: Wire) -> None:
    """An agent's span comes above the call, or its conversation is named."""
    more = [
        wire.span("run", {"gen_ai.operation.name": "invoke_agent"}, trace="own", id="r"),
        wire.span("x", IN, trace="own", id="y"),
    ]
    for each in more:
        spans = [_pay(wire, "agent", 10, 12, attributes=IN), _pay(wire, "own", 10.1, 11.9)]
        for order in permutations([*spans, each]):
            assert Service().send(*order).doubts()["own"] == ()


@pytest.mark.plain
def test_what_is_remembered_is_bounded(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest services are remembered."""
    monkeypatch.setattr(lone_echoes, "SERVICES_MAX", 2)
    service = Service()
    for number in range(200):
        resource = {"service.name": f"svc{number % 5}"}
        service.send(wire.tool("pay", trace=f"t{number}", start=number, resource=resource))
    kept = written(service.pipeline.correlation.echoes)
    assert set(re.findall(rb"svc\d", kept)) == {b"svc3", b"svc4"}


@pytest.mark.plain
def test_the_latest_calls_of_a_service_are_remembered(wire: Wire) -> None:
    """So many, however many there were."""
    service = Service()
    for number in range(3 * lone_echoes.CALLS_MAX):
        service.send(wire.tool("pay", trace=f"t{number}", start=number))
    kept = written(service.pipeline.correlation.echoes)
    times = [trace.trace_id in kept for trace in service.pipeline.traces]
    assert times == [False] * (2 * lone_echoes.CALLS_MAX) + [True] * lone_echoes.CALLS_MAX
