"""The result is the same for any order of arrival and for duplicates."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.decode.span import Span
from monitor import Limits, Monitor, SessionKey, ToolCall
from monitor.limits import SECOND
from monitor.records import Evidence
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.costly import COSTLY
from tests.simulation.ends import Service, State
from tests.simulation.world import SPECS as WORLD_SPECS
from tests.simulation.world import World

TASK = """
id: task
kind: task
match: {service.name: shop}
severity: {default: warning, tools: {pay: critical}}
alphabet:
  look: {tool: look}
  pick: {tool: pick, arguments: {item: {any: true}}}
  pay: {tool: pay, arguments: {amount: {max: 10}}}
  pay_much: {tool: pay, arguments: {amount: {min: 11}}}
  ship: {tool: ship}
golden: [[pick, pay, ship], [pick, pay_much, look, ship]]
reads: [look]
"""
POLICY = """
id: policy
kind: policy
alphabet:
  pick: {tool: pick}
  pay: {tool: pay}
constraints: [{precedence: [pick, pay]}, {at_most: [pay, 2]}]
"""
AGENTS = """
id: by_agent
kind: task
scope: agent
match: {service.name: shop}
alphabet: {pick: {tool: pick}, pay: {tool: pay}, ship: {tool: ship}}
golden: [[pick, pay], [ship]]
"""

START = 1_700_000_000 * SECOND


def compiled(*texts: str) -> list[Spec]:
    specs = []
    for text in texts:
        spec, findings = compile_text(text, "spec.yaml")
        assert spec is not None, findings
        specs.append(spec)
    return specs


SPECS = compiled(TASK, POLICY, AGENTS)
ATTRIBUTES = {"service.name": "shop"}


@st.composite
def calls(draw: st.DrawFn, most: int = 24) -> list[ToolCall]:
    count = draw(st.integers(0, most))
    found = []
    for number in range(count):
        tool = draw(st.sampled_from(["look", "pick", "pay", "ship", "dig"]))
        arguments: dict[str, Any] | None = draw(
            st.sampled_from([{"item": 1, "amount": 5}, {"item": "x", "amount": 20}, {}, None])
        )
        start = START + draw(st.integers(0, 30)) * SECOND
        found.append(
            ToolCall(
                session=SessionKey("", draw(st.sampled_from(["one", "two"]))),
                agent=draw(st.sampled_from(["", "buyer", "clerk"])),
                tool=tool,
                arguments=arguments,
                error=draw(st.booleans()) and draw(st.booleans()),
                start_ns=start,
                end_ns=start + draw(st.integers(0, 3)) * SECOND,
                trace_id=bytes([draw(st.integers(1, 2))]) * 16,
                span_id=(number + 1).to_bytes(8, "big"),
                parent_span_id=b"",
                call_id=f"call-{number}",
                evidence=Evidence.EXECUTED,
                attributes=ATTRIBUTES,
                source="test",
                session_from="trace",
            )
        )
    return found


def judged(
    arrived: Sequence[ToolCall], *, close: bool = False
) -> tuple[list[dict[str, Any]], dict[tuple[str, ...], Any]]:
    """All objects, and the final counters, once every verdict is final."""
    monitor = Monitor(SPECS, Limits(history_complete=True, keep_arguments=True))
    now = START + 60 * SECOND
    for call in arrived:
        monitor.observe(call, now)
    monitor.tick(now + 11 * SECOND)
    if close:
        monitor.close(now + 12 * SECOND)
    objects = sorted(
        monitor.judgements(), key=lambda o: (o["session"], o["spec"] or "", o["agent"])
    )
    finals = {key: +pair.final for key, pair in monitor.totals.pairs.items() if +pair.final}
    return objects, finals


@given(calls(), st.randoms(use_true_random=False))
def test_any_order_of_arrival_ends_alike(
    arrived: list[ToolCall], chance: random.Random
) -> None:
    """A permutation of the same calls gives the same objects and the same final counters."""
    shuffled = list(arrived)
    chance.shuffle(shuffled)

    assert judged(shuffled) == judged(sorted(arrived, key=lambda call: call.start_ns))


@st.composite
def parallel(draw: st.DrawFn) -> list[ToolCall]:
    """Calls of one turn that a model issued at once, or nearly."""
    tools = st.sampled_from(["look", "pick", "pay", "ship", "dig"])
    times = st.tuples(st.integers(0, draw(st.sampled_from([0, 3, 12]))), st.integers(1, 9))
    made = draw(st.lists(st.tuples(tools, times, st.booleans()), min_size=7, max_size=16))
    return [
        ToolCall(
            session=SessionKey("", "one"),
            agent="",
            tool=tool,
            arguments={"item": 1, "amount": 5} if named else None,
            error=False,
            start_ns=START + start * SECOND,
            end_ns=START + (start + length) * SECOND,
            trace_id=b"t" * 16,
            span_id=(number + 1).to_bytes(8, "big"),
            parent_span_id=b"",
            call_id="",
            evidence=Evidence.EXECUTED,
            attributes=ATTRIBUTES,
        )
        for number, (tool, (start, length), named) in enumerate(made)
    ]


@COSTLY
@given(parallel(), st.randoms(use_true_random=False))
def test_parallel_calls_are_at_any_moment_what_their_order_would_give(
    arrived: list[ToolCall], chance: random.Random
) -> None:
    """After each call, the judgements equal those of the calls sorted by start."""
    chance.shuffle(arrived)
    monitor = Monitor(SPECS, Limits(history_complete=True, keep_arguments=True))
    now = START + 60 * SECOND
    for count, call in enumerate(arrived, start=1):
        monitor.observe(call, now)
        fresh = Monitor(SPECS, Limits(history_complete=True, keep_arguments=True))
        for each in sorted(arrived[:count], key=lambda call: call.start_ns):
            fresh.observe(each, now)

        assert list(monitor.judgements()) == list(fresh.judgements())
    assert judged(arrived) == judged(sorted(arrived, key=lambda call: call.start_ns))


@given(calls())
def test_live_sums_equal_the_sessions(arrived: list[ToolCall]) -> None:
    """After any call, the sums behind the gauges equal a sum over all sessions."""
    monitor = Monitor(SPECS, Limits(history_complete=True))
    for call in arrived:
        monitor.observe(call, START + 60 * SECOND)

        _sums_are_walked(monitor)
    monitor.close(START + 60 * SECOND)
    _sums_are_walked(monitor)
    monitor.tick(START + 10**6 * SECOND)
    assert {pair.scored_calls for pair in monitor.totals.pairs.values()} <= {0}


def _sums_are_walked(monitor: Monitor) -> None:
    walked: dict[tuple[str, ...], list[tuple[float, int]]] = {}
    for judgement in monitor.judgements():
        if judgement["harm_rate"] is not None:
            key: tuple[str, ...] = (judgement["agent"], judgement["spec"])
            walked.setdefault(key, []).append((judgement["harm_rate"], judgement["calls"]))
    for key, pair in monitor.totals.pairs.items():
        found = walked.get(key, [])
        assert pair.sessions == len(found)
        assert pair.scored_calls == sum(calls for _, calls in found)
        rates = sum(rate for rate, _ in found)
        assert pair.harm_rate / 2**60 == pytest.approx(rates, abs=1e-12)


@given(calls(), st.data())
def test_an_amended_call_is_as_if_it_had_come_so(
    arrived: list[ToolCall], data: st.DataObject
) -> None:
    """A call whose arguments arrive later ends like one that arrived complete."""
    if not arrived:
        return
    place = data.draw(st.integers(0, len(arrived) - 1))
    whole = arrived[place]
    bare = whole._replace(arguments=None, error=False, tool="look")
    monitor = Monitor(SPECS, Limits(history_complete=True, keep_arguments=True))
    now = START + 60 * SECOND
    for index, call in enumerate(arrived):
        monitor.observe(bare if index == place else call, now)
    monitor.corrections.amend(bare, whole, now)
    monitor.tick(now + 11 * SECOND)
    objects = sorted(
        monitor.judgements(), key=lambda o: (o["session"], o["spec"] or "", o["agent"])
    )

    expected, _ = judged(arrived)
    for found in (*objects, *expected):
        found.pop("coverage")
    assert objects == expected


@given(calls(), st.data())
def test_a_retracted_call_is_as_if_it_had_never_come(
    arrived: list[ToolCall], data: st.DataObject
) -> None:
    """A step that turned out to be no call leaves no trace in kinds, states and scores."""
    if not arrived:
        return
    place = data.draw(st.integers(0, len(arrived) - 1))
    gone = arrived[place]
    rest = [call for index, call in enumerate(arrived) if index != place]
    monitor = Monitor(SPECS, Limits(history_complete=True))
    for call in arrived:
        monitor.observe(call, START + 60 * SECOND)
    monitor.corrections.retract(gone)

    def steps(objects: list[dict[str, Any]]) -> list[list[tuple[Any, ...]]]:
        told = [
            [
                (step["span_id"], step["kind"], step["reason"], step["state"])
                for step in o["steps"]
            ]
            for o in objects
        ]
        return sorted((each for each in told if each), key=str)

    assert steps(list(monitor.judgements())) == steps(judged(rest)[0])


# --- through the pipeline ------------------------------------------------------------------------


def ended(requests: Sequence[Sequence[Span]]) -> State:
    """The state of a service once every verdict is final."""
    service, now = Service(WORLD_SPECS), START + 60 * SECOND
    for number, request in enumerate(requests):
        service.send(request, now + number)
    service.monitor.tick(now + 11 * SECOND)
    return service.state()


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 12))
def test_any_requests_end_alike(seed: int, sessions: int, most: int) -> None:
    """Spans that are shuffled, repeated, split and merged over requests give one result."""
    chance = random.Random(seed)
    world = World(chance)
    spans = [
        span
        for number in range(sessions)
        for span in world.session(f"s{number}", START + chance.randrange(5 * SECOND)).spans
    ]
    shuffled = spans + chance.sample(spans, chance.randrange(len(spans) + 1))
    chance.shuffle(shuffled)
    requests = []
    while shuffled:
        size = chance.randint(1, most)
        requests.append(shuffled[:size])
        del shuffled[:size]

    assert ended(requests) == ended([sorted(spans, key=lambda span: span.start_ns)])
