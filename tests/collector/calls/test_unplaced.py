"""Calls whose conversation is not known may be missing in others: what is harmful there, and for how long."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from collector.calls.pipeline import Pipeline
from collector.calls.sessions import unplaced_calls as unplaced
from collector.calls.sessions.orphans import WAIT_NS
from collector.calls.sessions.unplaced_calls import REVIEW_NS, SLOT_NS, SLOTS_MAX
from collector.decode.span import Span
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, Verdict, load_spec
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap
from tests.collector.conftest import BASE, SECOND, Wire

CONVERSATION = "gen_ai.conversation.id"
NOW = BASE + 60 * SECOND
DESK = """
id: desk
match: {service.name: svc}
alphabet: {look: {tool: look_up}, check: {tool: check}, pay: {tool: pay}}
golden: [[look, check, pay]]
"""


class Service:
    """A monitor with one task behind a pipeline, long after its start."""

    def __init__(self, folder: Any) -> None:
        path = folder / "desk.yaml"
        path.write_text(DESK)
        self.monitor = Monitor([load_spec(path)], Limits(), started_ns=1)
        self.verdicts: list[Verdict] = []
        self.stats = Stats()
        self.pipeline = Pipeline(self.monitor, self.stats, self.verdicts.extend)
        self.now = NOW

    def send(self, *spans: Span) -> Service:
        for span in spans:
            self.pipeline.consume([span], self.now, "test")
        return self

    def wait(self, nanoseconds: int) -> Service:
        """Time passes, second by second."""
        for _ in range(0, nanoseconds, SECOND):
            self.now += SECOND
            self.pipeline.tick(self.now)
            self.monitor.tick(self.now)
        return self

    def harms(self, session: str) -> list[tuple[str, str]]:
        """Tools of a session whose calls are harmful, and whether that is certain."""
        (found,) = self.monitor.find(session)
        return [
            (step["tool"], "possible" if step.get("possible") else "certain")
            for step in found["steps"]
            if step["kind"] == "harmful" or step.get("possible")
        ]

    def gaps(self) -> list[Gap]:
        return list(self.monitor.state.judging_state.ledger)


@pytest.fixture
def service(tmp_path: Any) -> Service:
    return Service(tmp_path)


def _turn(wire: Wire, tool: str, start: float, conversation: str) -> list[Span]:
    """A tool, and the agent's span above it, which has the id."""
    named = {"gen_ai.operation.name": "invoke_agent", CONVERSATION: conversation}
    return [
        wire.tool(tool, trace=tool, parent=tool, start=start),
        wire.span("invoke_agent", named, id=tool, trace=tool, start=start - 0.5, end=start + 1),
    ]


def test_a_call_that_may_be_elsewhere_may_be_here(service: Service, wire: Wire) -> None:
    """`pay` without `check` is certain harm once each `check` has its conversation."""
    service.send(*_turn(wire, "look_up", 1, "s1"))
    check, its_agent = _turn(wire, "check", 2, "s2")
    service.send(check, *_turn(wire, "pay", 3, "s1"))
    assert service.harms("s1") == [("pay", "possible")]

    service.send(its_agent).wait(2 * REVIEW_NS)
    assert (service.harms("s1"), service.gaps()) == ([("pay", "certain")], [])


def test_the_call_that_was_elsewhere_was_here(service: Service, wire: Wire) -> None:
    """Nobody is told of certain harm, whichever of the agents' spans comes first."""
    look, check, pay = (
        _turn(wire, tool, number, "s1")
        for number, tool in enumerate(("look_up", "check", "pay"), 1)
    )
    service.send(look[0], check[0], pay[0]).wait(SECOND)
    service.send(pay[1]).wait(SECOND).send(look[1]).wait(SECOND).send(check[1]).wait(SECOND)
    assert service.harms("s1") == []
    assert not [each for each in service.verdicts if each.kind == "harmful"]


def test_another_tools_call_explains_nothing(service: Service, wire: Wire) -> None:
    """`check` without `look_up` is harmful, whatever `pay` of an unknown conversation there is."""
    service.send(_turn(wire, "pay", 1, "s2")[0], *_turn(wire, "check", 2, "s1"))
    assert service.harms("s1") == [("check", "certain")]


def test_a_later_call_explains_nothing(service: Service, wire: Wire) -> None:
    """Calls are missing from the start of the first one on."""
    service.send(_turn(wire, "look_up", 5, "s2")[0], *_turn(wire, "check", 2, "s1"))
    assert service.harms("s1") == [("check", "certain")]


def test_another_services_call_explains_nothing(service: Service, wire: Wire) -> None:
    """Its conversations are others."""
    other = wire.tool("look_up", trace="o", parent="o", start=1, resource={"service.name": "b"})
    service.send(other, *_turn(wire, "check", 2, "s1"))
    assert service.harms("s1") == [("check", "certain")]


def test_what_never_finds_its_conversation_stays_possible(service: Service, wire: Wire) -> None:
    """Its agent's span was lost. Sessions that begin after it know nothing of it."""
    service.send(*_turn(wire, "pay", 0.5, "named"))
    service.send(_turn(wire, "look_up", 1, "s1")[0]).wait(2 * WAIT_NS)
    service.send(*_turn(wire, "check", 2, "s1")).wait(2 * REVIEW_NS)
    assert service.harms("s1") == [("check", "possible")]
    (gap,) = service.gaps()
    assert (gap.tool, gap.since_ns, gap.service) == ("look_up", BASE + SECOND, "svc")

    service.wait(service.monitor.limits.idle_ns)
    assert service.gaps() == []


def _new_conversation(wire: Wire, start: float) -> list[Span]:
    """A first turn without `check`: the model's request shows that nothing came before."""
    messages = [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}]
    chat = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(messages)}
    at: Any = {"trace": "new", "parent": "new"}
    named = {"gen_ai.operation.name": "invoke_agent", CONVERSATION: "new"}
    return [
        wire.span("chat", chat, start=start, scope="pydantic-ai", **at),
        wire.tool("look_up", id="l", start=start + 1, end=start + 2, **at),
        wire.tool("pay", id="p", start=start + 3, end=start + 4, **at),
        wire.span("run", named, id="new", trace="new", start=start - 0.5, end=start + 5),
    ]


def test_a_lost_span_leaves_a_gap_of_seconds(service: Service, wire: Wire) -> None:
    """Whatever other calls wait later: a conversation that is known to begin then is judged for certain."""
    service.send(*_turn(wire, "pay", 0.5, "named"), _turn(wire, "check", 1, "lost")[0])
    for number in range(6):
        at: Any = {"trace": f"t{number}", "parent": f"t{number}"}
        named = {"gen_ai.operation.name": "invoke_agent", CONVERSATION: f"c{number}"}
        start = 12 + 12 * number
        service.send(wire.tool("check", id=f"k{number}", start=start, **at)).wait(12 * SECOND)
        service.send(wire.span("run", named, id=at["parent"], trace=at["trace"], start=start))
    service.wait(REVIEW_NS).send(*_new_conversation(wire, 100))
    assert service.harms("new") == [("pay", "certain")]
    (gap,) = service.gaps()
    assert (gap.since_ns, gap.until_ns) == (BASE + SECOND, BASE - BASE % SLOT_NS + SLOT_NS)


def test_many_lost_spans_of_a_tool_are_few_gaps(service: Service, wire: Wire) -> None:
    """The oldest become one: what begins after them is not concerned, and all that they covered stays in doubt."""
    service.send(*_turn(wire, "pay", 0.5, "named"))
    starts = [1 + 20 * number for number in range(2 * SLOTS_MAX)]
    for start in reversed(starts):
        at: Any = {"trace": f"t{start}", "parent": f"t{start}"}
        service.send(wire.tool("check", id=f"k{start}", start=start, **at))
    found = [gap for gap in service.gaps() if gap.cause is Cause.UNPLACED]
    gaps = sorted(found, key=lambda gap: gap.since_ns)
    assert len(gaps) == SLOTS_MAX
    for start in starts:
        assert any(gap.since_ns <= BASE + start * SECOND < gap.until_ns for gap in gaps)
    assert all(one.until_ns <= other.since_ns for one, other in pairwise(gaps))
    assert gaps[-1].since_ns == BASE + starts[-1] * SECOND
    service.wait(service.monitor.limits.idle_ns + 2 * REVIEW_NS)
    assert service.gaps() == []


def test_calls_that_found_their_conversation_count_no_more(
    service: Service, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound is on orphans: one that waits is not given up for others that came and went, nor are these kept."""
    monkeypatch.setattr(unplaced, "CALLS_MAX", 2)
    check, its_agent = _turn(wire, "check", 2, "s2")
    service.send(check)
    for number in range(4):
        service.send(*_turn(wire, f"look{number}", 1, f"s{number + 3}"))
    assert len(service.pipeline.sessions.orphans.unplaced) == 1
    service.send(its_agent).wait(2 * REVIEW_NS)
    assert service.gaps() == []


@pytest.mark.plain
def test_gaps_are_bounded(
    service: Service, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the bound one gap stands for all tools of a service, and then for all services."""
    monkeypatch.setattr(unplaced, "TOOLS_MAX", 1)
    monkeypatch.setattr(unplaced, "SERVICES_MAX", 1)
    monkeypatch.setattr(unplaced, "CALLS_MAX", 2)
    for number, name in enumerate(("a", "a", "b", "c", "d")):
        call = wire.tool(
            f"t{number}",
            trace=f"{number}",
            parent="p",
            start=1,
            resource={"service.name": name},
        )
        service.send(call)
    found = {(each.namespace, each.service, each.tool) for each in service.gaps()}
    assert found == {("", "a", "t0"), ("", "a", ""), (None, "", "")}


@pytest.mark.parametrize("placed", [True, False])
def test_a_call_of_a_clock_that_is_hours_behind_may_be_missing(
    service: Service, wire: Wire, placed: bool
) -> None:
    """Its times are older than sessions live; the sessions of its service have the same clock, and go on until its conversation is known."""
    service.now = NOW + 7200 * SECOND
    service.send(*_turn(wire, "look_up", 55, "s1"))
    check, its_agent = _turn(wire, "check", 57, "s2")
    service.send(check).wait(2 * SECOND)
    service.send(*_turn(wire, "pay", 58, "s1")).wait(2 * SECOND)
    assert service.harms("s1") == [("pay", "possible")]

    if placed:
        service.send(its_agent).wait(2 * SECOND)
    assert service.harms("s1") == [("pay", "certain" if placed else "possible")]


def _without_times(span: Span) -> Span:
    span.start_ns = span.end_ns = 0
    return span


def test_a_call_without_times_may_have_been_made_until_its_receipt(
    service: Service, wire: Wire
) -> None:
    """`check` has no times and no conversation yet: it is missing about its receipt, not at the beginning of time."""
    service.send(*_turn(wire, "look_up", 55, "s1"))
    service.send(_without_times(_turn(wire, "check", 57, "s2")[0]))
    service.send(*_turn(wire, "pay", 58, "s1"))
    assert service.harms("s1") == [("pay", "possible")]

    [gap] = [each for each in service.gaps() if each.tool == "check"]
    assert gap.since_ns == NOW - service.monitor.limits.window_ns
    assert gap.until_ns > NOW


def test_a_call_without_times_keeps_its_receipt_when_it_moves(
    service: Service, wire: Wire
) -> None:
    """It is in its conversation where it was received first, whenever the agent's span comes: `pay` may be before it."""
    service.send(*_turn(wire, "look_up", 55, "s1"))
    check, its_agent = _turn(wire, "check", 57, "s1")
    service.send(_without_times(check))
    service.send(*_turn(wire, "pay", 58, "s1")).wait(20 * SECOND).send(its_agent)
    (found,) = service.monitor.find("s1")

    assert [each["tool"] for each in found["steps"]] == ["look_up", "pay", "check"]
    assert found["harmful"] == 0
