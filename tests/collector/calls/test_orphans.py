"""Calls that may belong to another conversation than the one they are filed under: when they are doubted, and until when."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.calls.pipeline import Pipeline
from collector.calls.sessions import orphans
from collector.calls.sessions.orphans import WAIT_NS
from collector.decode.span import Span
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor
from monitor.visibility.cause import Cause
from tests.collector.conftest import BASE, SECOND, Wire
from tests.monitor.test_engine import specs

CONVERSATION = "gen_ai.conversation.id"
NOW = BASE + 3600 * SECOND
ORPHAN = (Cause.ORPHAN,)


class Service:
    """A monitor behind a pipeline, long after its start."""

    def __init__(self, *, complete: bool = False, started_ns: int = 1) -> None:
        self.monitor = Monitor([], Limits(history_complete=complete), started_ns=started_ns)
        self.stats = Stats()
        self.pipeline = Pipeline(self.monitor, self.stats, lambda _: None)

    def send(self, *spans: Span, now: int = NOW) -> Service:
        """Sends each span in a request of its own."""
        for span in spans:
            self.pipeline.consume([span], now, "test")
        return self

    def calls(self) -> dict[str, tuple[str, bool]]:
        """Tool -> its session, and whether the monitor doubts that it is of that session."""
        trees = [trace.tree for trace in self.pipeline.traces if trace.tree is not None]
        calls = [node.call for tree in trees for node in tree.calls()]
        judged = [call.judged for call in calls if call is not None]
        assert all(each.doubts in ((), ORPHAN) for each in judged if each is not None)
        return {
            each.tool: (each.session.id, each.doubts == ORPHAN)
            for each in judged
            if each is not None
        }

    def doubted(self) -> set[str]:
        return {tool for tool, (_, doubted) in self.calls().items() if doubted}


def _agent(wire: Wire, id_: str, conversation: str = "", **more: Any) -> Span:
    attributes = {"gen_ai.operation.name": "invoke_agent"}
    if conversation:
        attributes[CONVERSATION] = conversation
    return wire.span("invoke_agent", attributes, id=id_, **more)


def _turn(wire: Wire, trace: str, conversation: str = "", *tools: str) -> list[Span]:
    """A trace: tools, then the agent's span above them."""
    return [
        *(wire.tool(tool, parent=trace, trace=trace, start=1) for tool in tools or (trace,)),
        _agent(wire, trace, conversation, trace=trace, start=0, end=2),
    ]


def test_a_call_is_doubted_until_the_spans_above_it_are_there(wire: Wire) -> None:
    """They name its conversation, in any order of arrival."""
    spans = [
        wire.tool("move", parent="a", start=2),
        _agent(wire, "a", parent="flow", start=1, end=8),
        _agent(wire, "flow", "s1", start=0, end=9),
    ]
    for order in permutations(spans):
        service = Service()
        for number, span in enumerate(order):
            service.send(span)
            if "move" in service.calls():
                named = spans[2] in order[: number + 1]
                assert service.doubted() == (set() if named else {"move"})
        assert service.calls() == {"move": ("s1", False)}


ORDER = """
id: order
kind: policy
alphabet: {check: {tool: check}, pay: {tool: pay}}
constraints: [{precedence: [check, pay]}]
"""


@pytest.mark.parametrize("conversation", ["", "s1"])
@pytest.mark.parametrize("tools", [("pay",), ("check", "pay")])
def test_harm_below_a_long_run_is_in_the_final_counters(
    conversation: str, tools: tuple[str, ...], wire: Wire
) -> None:
    """The agent's span comes when its run ends, long after the verdict on its call was final: the harm counts then."""
    service = Service(started_ns=1)
    service.monitor.use(specs(ORDER))
    for number, tool in enumerate(tools, 1):
        service.send(wire.tool(tool, parent="run", start=2 * number, end=2 * number + 1))
    agent = _agent(wire, "run", conversation, start=0, end=9)
    service.monitor.tick(NOW + 15 * SECOND)
    pairs = service.monitor.totals.pairs
    assert sum(pair.final.total() for pair in pairs.values()) == 0
    service.send(agent, now=NOW + 15 * SECOND)
    service.monitor.tick(NOW + 26 * SECOND)
    assert sum(pair.final.total() for pair in pairs.values()) == (tools == ("pay",))


def test_a_span_beside_a_call_names_its_conversation(wire: Wire) -> None:
    """The model's span has the id, and ends before the agent's, which may name another one until it is there."""
    chat = {"gen_ai.operation.name": "chat", CONVERSATION: "s1"}
    service = Service().send(wire.tool("move", parent="a", start=2))
    assert service.doubted() == {"move"}
    service.send(wire.span("chat", chat, parent="a", start=1))
    assert service.calls() == {"move": ("s1", True)}
    service.send(_agent(wire, "a", start=0, end=9))
    assert service.calls() == {"move": ("s1", False)}


def test_a_call_that_names_its_conversation_is_not_doubted(wire: Wire) -> None:
    """Whatever is above it, while no better name is known to come from there."""
    for key in (CONVERSATION, "session.id"):
        call = wire.tool("move", parent="a", attributes={key: "s1"})
        assert Service().send(call).calls() == {"move": ("s1", False)}


def test_a_service_that_names_nothing_is_waited_for_once(wire: Wire) -> None:
    """Its first whole trace shows it: what waits is settled, and later calls are certain at once."""
    service = Service().send(*_turn(wire, "one")[:-1], *_turn(wire, "two")[:-1])
    assert service.doubted() == {"one", "two"}
    service.send(_turn(wire, "one")[-1])
    assert service.doubted() == set()
    assert service.send(*_turn(wire, "three")[:-1]).doubted() == set()


def test_a_service_that_names_from_above_is_waited_for_always(wire: Wire) -> None:
    """Also where some of its traces have no conversation, and for calls that were certain by then."""
    service = Service().send(*_turn(wire, "one"), *_turn(wire, "two")[:-1])
    assert service.doubted() == set()
    service.send(*_turn(wire, "three", "s1"))
    assert service.doubted() == {"two"}
    service.send(*_turn(wire, "four", "s1")[:-1])
    assert service.doubted() == {"two", "four"}
    service.send(_turn(wire, "two")[-1], _turn(wire, "four", "s1")[-1])
    assert service.calls()["four"] == ("s1", False)
    assert service.doubted() == set()


def test_services_are_learnt_each_by_itself(wire: Wire) -> None:
    """Another service, or another tenant's of the same name, shows nothing of this one."""
    service = Service().send(*_turn(wire, "one"))
    others = ({"service.name": "b"}, {"service.name": "svc", "service.namespace": "acme"})
    for number, resource in enumerate(others):
        call = wire.tool(f"t{number}", parent="p", trace=f"t{number}", resource=resource)
        assert service.send(call).doubted() == {f"t{each}" for each in range(number + 1)}


def test_a_better_name_that_comes_from_above_is_waited_for(wire: Wire) -> None:
    """The tools have the application's session, the agent the conversation, which is the better name."""
    app = {"session.id": "user-1"}

    def turn(tool: str) -> list[Span]:
        call = wire.tool(tool, parent=tool, trace=tool, start=1, attributes=app)
        return [call, _agent(wire, tool, f"c-{tool}", trace=tool, start=0, end=2)]

    service = Service().send(*turn("move"), turn("scan")[0])
    assert service.calls() == {"move": ("c-move", False), "scan": ("user-1", True)}
    assert service.send(turn("scan")[1]).calls()["scan"] == ("c-scan", False)


def _chat(wire: Wire, trace: str, conversation: str) -> Span:
    """A model's span beside the tools of a turn."""
    attributes = {"gen_ai.operation.name": "chat", CONVERSATION: conversation}
    return wire.span("chat", attributes, parent=trace, trace=trace, start=1)


def test_a_name_beside_a_call_may_be_that_of_a_turn(wire: Wire) -> None:
    """VS Code's models name the request, its agent the conversation: what is above names it, for as long as it takes."""
    turns = {name: [_chat(wire, name, f"r-{name}"), *_turn(wire, name, "s1")] for name in "abc"}
    service = Service().send(*turns["a"][:-1])
    assert service.calls() == {"a": ("r-a", True)}
    assert service.send(turns["a"][-1]).calls() == {"a": ("s1", False)}
    service.send(*turns["b"][:-1])
    service.pipeline.tick(NOW + 2 * WAIT_NS)
    assert service.calls()["b"] == ("r-b", True)
    service.send(turns["b"][-1], *turns["c"])
    assert service.calls() == dict.fromkeys("abc", ("s1", False))


def test_a_name_beside_a_call_is_believed_once_it_was_borne_out(wire: Wire) -> None:
    """A turn was seen whole in which the spans above named no other conversation; or one was waited for in vain."""
    for above in ("s1", ""):
        service = Service().send(_chat(wire, "one", "s1"), *_turn(wire, "one", above))
        service.send(_chat(wire, "two", "s2"), _turn(wire, "two")[0])
        assert service.calls() == {"one": ("s1", False), "two": ("s2", False)}
    service = Service().send(_chat(wire, "one", "s1"), _turn(wire, "one")[0])
    assert service.doubted() == {"one"}
    service.pipeline.tick(NOW + WAIT_NS)
    assert service.doubted() == set()
    service.send(_chat(wire, "two", "s2"), _turn(wire, "two")[0])
    assert service.doubted() == set()


def test_what_never_comes_is_awaited_for_a_minute(wire: Wire) -> None:
    """Then nothing is known to name conversations from above. Where something is, the doubt stays."""
    lost = _turn(wire, "one")[0]
    service = Service().send(lost)
    service.pipeline.tick(NOW + WAIT_NS - 1)
    assert service.doubted() == {"one"}
    service.pipeline.tick(NOW + WAIT_NS)
    assert service.doubted() == set()
    assert service.send(_turn(wire, "two")[0], now=NOW + WAIT_NS).doubted() == set()

    service = Service().send(*_turn(wire, "named", "s1"), lost)
    service.pipeline.tick(NOW + 2 * WAIT_NS)
    assert service.doubted() == {"one"}


@pytest.mark.parametrize("beside", ["a call", "a model's span"])
def test_a_call_without_a_parent_says_nothing_while_spans_of_its_trace_are_missing(
    wire: Wire, beside: str
) -> None:
    """A call has lost its parent: the agent's span, which is to come, names its conversation, and those of later traces."""
    lost = wire.tool("lost", trace="one", start=1)
    chat = {"gen_ai.operation.name": "chat"}
    other = wire.span("chat", chat, parent="one", trace="one")
    if beside == "a call":
        other = wire.tool("one", parent="one", trace="one", start=1)
    service = Service().send(other, lost, wire.tool("two", parent="two", trace="two"))
    assert {"lost", "two"} <= service.doubted()
    service.send(_agent(wire, "one", "s1", trace="one", start=0, end=2))
    assert service.doubted() == {"two"}

    service = Service().send(other, lost, wire.tool("two", parent="two", trace="two"))
    service.send(_agent(wire, "one", trace="one", start=0, end=2))
    assert service.doubted() == set()


@pytest.mark.parametrize("cause", [Cause.OUTAGE, Cause.REFUSED, Cause.LOST])
def test_a_wait_in_which_spans_may_not_have_been_taken_tells_nothing(
    wire: Wire, cause: Cause
) -> None:
    """The span above may have been sent then. A later trace that waits in vain tells that none names a conversation."""
    service = Service().send(_turn(wire, "one")[0])
    service.monitor.gaps.missed(NOW + 20 * SECOND, NOW + 21 * SECOND, cause)
    service.pipeline.tick(NOW + WAIT_NS)
    assert service.doubted() == {"one"}
    service.send(_turn(wire, "two")[0], now=NOW + WAIT_NS)
    assert service.doubted() == {"one", "two"}
    service.pipeline.tick(NOW + 2 * WAIT_NS)
    assert service.doubted() == {"one"}


def _doubts(service: Service) -> dict[bytes, set[Cause]]:
    """Trace -> why its call is in doubt, but for its conversation."""
    trees = [trace.tree for trace in service.pipeline.traces if trace.tree is not None]
    calls = [
        node.call.judged for tree in trees for node in tree.calls() if node.call is not None
    ]
    return {each.trace_id: set(each.doubts) - set(ORPHAN) for each in calls if each is not None}


def _again(wire: Wire, *conversations: str, **more: Any) -> list[Span]:
    """A turn whose spans are written again in a trace of its own: both calls, and the spans above them."""
    one, two = (
        wire.tool("pay", parent=each, trace=each, start=at, call_id="c1", **given)
        for each, at, given in (("one", 1, {}), ("two", 5, more))
    )
    names = zip(("one", "two"), (0, 4), conversations, strict=False)
    return [one, two, *(_agent(wire, t, name, trace=t, start=at) for t, at, name in names)]


@pytest.mark.parametrize(
    ("conversations", "doubt"), [(("s1", "s1"), {Cause.REPLAYED}), (("s1", "s2"), set())]
)
def test_a_call_that_waits_may_be_one_of_another_trace(
    wire: Wire, conversations: tuple[str, str], doubt: set[Cause]
) -> None:
    """Equal ids are two calls for certain once both conversations are known to be two, in any order of arrival.

    The service has had a call that waited, and so the ids of its later calls are remembered across sessions.
    """
    spans = _again(wire, *conversations)
    first, later = (each.trace_id for each in spans[:2])
    for order in permutations(spans):
        service = Service().send(*_turn(wire, "before", "s0"))
        for number, span in enumerate(order):
            service.send(span)
            known = order[: number + 1]
            found = _doubts(service)
            assert not found.get(first)
            if first in found and later in found and len(known) < len(spans):
                assert found[later] == {Cause.REPLAYED}
        assert (found[first], found[later]) == (set(), doubt)


def test_a_call_whose_conversation_is_never_known_may_be_one_of_another_trace(
    wire: Wire,
) -> None:
    """The wait for the spans above it ends, and nobody has named its conversation: nothing shows that it is another one's."""
    spans = _again(wire, "s1")
    service = Service().send(*spans)
    service.pipeline.tick(NOW + 2 * WAIT_NS)
    assert _doubts(service)[spans[1].trace_id] == {Cause.REPLAYED}


@pytest.mark.parametrize(
    "more",
    [
        {"call_id": "c2"},
        {"arguments": {"amount": 2}},
        {"status": 2},
        {"resource": {"service.name": "other"}},
    ],
)
def test_a_call_that_waits_is_another_one_if_something_differs(
    wire: Wire, more: dict[str, Any]
) -> None:
    """Its id, its arguments, its outcome, or its service."""
    given: dict[str, Any] = {"arguments": {"amount": 1}, "call_id": "c1"}
    service = Service().send(
        wire.tool("pay", parent="one", trace="one", start=1, **given),
        wire.tool("pay", parent="two", trace="two", start=5, **{**given, **more}),
    )
    assert list(_doubts(service).values()) == [set(), set()]


WRAPPERS: dict[str, tuple[Any, ...]] = {
    "a root": (),
    "below a wrapper": (("run_tool", {"traceloop.span.kind": "task"}),),
    "below two": (("chain", {"openinference.span.kind": "CHAIN"}), ("node", {})),
}


def _lone(wire: Wire, tool: str, wrappers: tuple[Any, ...]) -> list[Span]:
    """A tool whose trace has no agent and no model: its context was lost."""
    spans, parent = [], ""
    for number, (name, attributes) in enumerate(wrappers):
        spans.append(
            wire.span(name, attributes, id=name, parent=parent, trace=tool, start=number, end=9)
        )
        parent = name
    return [wire.tool(tool, parent=parent, trace=tool, start=5), *reversed(spans)]


@pytest.mark.parametrize("name", WRAPPERS)
def test_a_tool_without_its_agents_context_belongs_to_nobody_knows_what(
    wire: Wire, name: str
) -> None:
    """It stays in doubt, however long the monitor runs, unless every session is promised to be whole."""
    spans = _lone(wire, "pay", WRAPPERS[name])
    for order in permutations(spans):
        assert Service().send(*order).doubted() == {"pay"}
        assert Service(complete=True).send(*order).doubted() == set()
    service = Service().send(*spans)
    service.pipeline.tick(NOW + 2 * WAIT_NS)
    assert service.doubted() == {"pay"}
    assert service.send(_turn(wire, "other")[0]).doubted() == {
        "pay",
        "other",
    }  # not learnt by it


@pytest.mark.parametrize("call_id", ["", "c1"])
def test_a_call_that_is_told_again_is_no_other_call(wire: Wire, call_id: str) -> None:
    """The same ids with a later start: it may be the same call, so that nobody knows of a conversation either."""
    early = wire.tool("pay", start=1, end=2, call_id=call_id, arguments={"n": 1})
    again = wire.tool("pay", id="pay", start=3, end=4, call_id=call_id, arguments={"n": 1})
    early = early.but(span_id=again.span_id)
    for spans in ((early, again), (again, early)):
        service = Service().send(*spans)
        trees = [trace.tree for trace in service.pipeline.traces if trace.tree is not None]
        calls = [node.call for tree in trees for node in tree.calls() if node.call is not None]
        found = [each.judged.doubts for each in calls if each.judged is not None]
        assert sorted(found) == [ORPHAN, (Cause.ORPHAN, Cause.REPLAYED)]


@pytest.mark.parametrize("what", ["a call", "a model", "an agent", "a conversation"])
def test_a_trace_that_is_more_than_one_call_is_a_whole(wire: Wire, what: str) -> None:
    """Another call, an agent's or a model's span, or an id ends the doubt, in any order."""
    more = {
        "a call": lambda: wire.tool("scan", parent="node", trace="pay", start=6),
        "a model": lambda: wire.span(
            "chat", {"gen_ai.operation.name": "chat"}, parent="node", trace="pay", start=3
        ),
        "an agent": lambda: _agent(wire, "a", parent="node", trace="pay", start=3),
        "a conversation": lambda: wire.span("x", {"session.id": "s1"}, trace="pay", start=3),
    }[what]()
    for order in permutations([*_lone(wire, "pay", (("node", {}),)), more]):
        assert Service().send(*order).doubted() == set()


def test_a_conversation_that_begins_in_its_trace_has_no_call_elsewhere(wire: Wire) -> None:
    """The first model request shows it, until an earlier one shows otherwise."""

    def chat(start: float, *roles: str) -> Span:
        messages = [{"role": each, "parts": []} for each in roles]
        asked = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps(messages),
        }
        return wire.span("chat", asked, parent="a", start=start, scope="pydantic-ai")

    service = Service(started_ns=BASE)
    call = wire.tool("move", parent="a", start=2)
    service.pipeline.consume([chat(1, "user"), call], BASE + 3 * SECOND, "test")
    assert service.doubted() == set()
    service.pipeline.consume(
        [chat(0.5, "user", "assistant", "user")], BASE + 4 * SECOND, "test"
    )
    assert service.doubted() == {"move"}


@pytest.mark.plain
def test_a_request_is_looked_at_whole(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans above a call that come with it leave no doubt, in whatever order the request has them."""
    spans = [
        *_turn(wire, "one", "s1", "move", "scan"),
        _agent(wire, "flow", trace="one", start=0, end=9),
    ]
    for order in permutations(spans):
        service = Service()
        seen: list[tuple[str, tuple[Cause, ...]]] = []
        observe = service.monitor.observe
        monkeypatch.setattr(
            service.monitor,
            "observe",
            lambda call, *more, seen=seen, observe=observe, **options: (
                seen.append((call.session.id, call.doubts)),
                observe(call, *more, **options),
            )[1],
        )
        service.pipeline.consume(list(order), NOW, "test")
        assert seen == [("s1", ())] * 2


def test_parts_of_one_call_are_no_orphans_of_their_own(wire: Wire) -> None:
    """A call that is several spans is doubted as one, and settled as one."""
    spans = [
        wire.tool("move", id="inner", parent="outer", start=2, end=3),
        wire.tool("move", id="outer", parent="a", start=1, end=4),
        _agent(wire, "a", "s1", start=0, end=5),
    ]
    for order in permutations(spans):
        assert Service().send(*order).calls() == {"move": ("s1", False)}


@pytest.mark.plain
def test_what_waits_is_bounded(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trace that has waited longest keeps its doubt, and is counted; services are learnt anew."""
    monkeypatch.setattr(orphans, "WAITING_MAX", 2)
    service = Service()
    for name in ("one", "two", "three"):
        service.send(_turn(wire, name)[0])
    assert service.stats.counts["coverage", "over_bound"] == 1
    service.send(_turn(wire, "two")[1])
    assert service.doubted() == {"one"}

    monkeypatch.setattr(orphans, "SERVICES_MAX", 1)
    far = {"service.name": "far"}
    service.send(wire.tool("x", parent="p", trace="x", resource=far))
    service.send(_turn(wire, "four")[0])
    assert service.doubted() == {"one", "x", "four"}


TURNS = st.tuples(
    st.sampled_from(["", "s1", "s2"]),
    st.sampled_from(["whole", "without its root", "a lone tool"]),
    st.sampled_from(["", "session.id", CONVERSATION]),
)


@given(turns=st.lists(TURNS, min_size=1, max_size=4), data=st.data())
def test_any_order_ends_in_the_same_doubts(turns: list[Any], data: st.DataObject) -> None:
    """Whether conversations have ids, on which spans, and whether the spans above ever come."""
    wire, spans = Wire(), []
    for number, (conversation, kind, own) in enumerate(turns):
        found = _turn(wire, f"t{number}", conversation, f"t{number}", f"u{number}")
        if own:
            named = {"gen_ai.operation.name": "chat", own: "app"}
            found.insert(0, wire.span("chat", named, trace=f"t{number}", parent=f"t{number}"))
        if kind == "without its root":
            found = found[:-1]
        elif kind == "a lone tool":
            found = [wire.tool(f"t{number}", trace=f"t{number}")]
        spans += found
    wanted = Service().send(*spans).calls()
    order = data.draw(st.permutations(spans))
    assert Service().send(*order).calls() == wanted
    size = data.draw(st.integers(1, len(order)))
    together = Service()
    for first in range(0, len(order), size):
        together.pipeline.consume(order[first : first + size], NOW, "test")
    assert together.calls() == wanted
