"""Which session a call belongs to: ids from any source, late ids, ids of ancestors, tenants."""

from __future__ import annotations

from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest

from collector.calls.tree.session_claim import Claim
from collector.calls.tree.trace import Trace
from collector.calls.tree.trace_store import Traces
from collector.dialects.choose import SESSION_KEYS
from monitor.records import SessionKey
from monitor.spec.read import load_specs
from tests.collector.conftest import BASE, SECOND, Orders, hex_id
from tests.samples import sampled

CONVERSATION = "gen_ai.conversation.id"

BY_AGENT = """
id: by_agent
version: "1"
kind: task
scope: agent
match: {service.name: svc}
alphabet: {move: {tool: move}, water: {tool: water}}
initial: start
accepting: [start]
transitions: {start: {}}
reads: [move, water]
"""


def _agent(wire: Any, id_: str, conversation: str = "", name: str = "", **more: Any) -> Any:
    attributes = {"gen_ai.operation.name": "invoke_agent"}
    if conversation:
        attributes[CONVERSATION] = conversation
    if name:
        attributes["gen_ai.agent.name"] = name
    return wire.span("invoke_agent", attributes, id=id_, **more)


def _chat(wire: Any, id_: str, conversation: str, **more: Any) -> Any:
    attributes = {"gen_ai.operation.name": "chat", CONVERSATION: conversation}
    return wire.span("chat", attributes, id=id_, **more)


@pytest.mark.parametrize("key", SESSION_KEYS)
def test_every_rung_of_the_ladder_names_a_session(wire: Any, bench: Any, key: str) -> None:
    """The id is read from each attribute, and the session says which it was."""
    found = bench().send(wire.tool("move", attributes={key: "s1"}))
    (judgement,) = found.monitor.judgements()
    assert (judgement["session"], judgement["session_from"]) == ("s1", key)


def test_the_best_rung_wins(wire: Any, bench: Any) -> None:
    """Of several ids on one span, the conversation's takes precedence."""
    both = {"session.id": "two", CONVERSATION: "one"}
    assert list(bench().send(wire.tool("move", attributes=both)).sessions()) == ["one"]


WEB_FIRST = ("session.id", CONVERSATION)


def _two_names(wire: Any, web: str, below: str) -> list[Any]:
    """Three web requests of one user, who is named around the agent; the framework names each run."""
    spans = []
    for turn, tool in enumerate(("move", "scan", "water")):
        run = {below: f"run-{turn}"}
        at = {"trace": f"t{turn}", "start": 10 * turn + 2}
        spans += [
            wire.tool(tool, parent=f"run{turn}", attributes=run, **at),
            wire.span("invoke_agent", run, id=f"run{turn}", parent=f"web{turn}", **at),
            wire.span("POST /chat", {web: "user-1"}, id=f"web{turn}", kind=2, **at),
        ]
    return spans


@pytest.mark.parametrize(
    ("ladder", "web", "below"),
    [
        (WEB_FIRST, *WEB_FIRST),
        (SESSION_KEYS, CONVERSATION, "session.id"),
        (SESSION_KEYS, "session.id", "langsmith.metadata.thread_id"),
        (("app.user", "langfuse.session.id"), "app.user", "langfuse.session.id"),
    ],
)
def test_the_best_rung_wins_across_the_spans_of_a_trace(
    wire: Any, bench: Any, ladder: tuple[str, ...], web: str, below: str
) -> None:
    """Two attributes are two names of one conversation: the ladder's better one is used, in any order."""
    spans = _two_names(wire, web, below)
    turns = [list(permutations(spans[at : at + 3])) for at in (0, 3, 6)]
    for orders in zip(*turns, strict=True):
        sessions = bench(session_keys=ladder).send(*(each for turn in orders for each in turn))
        steps = sessions.sessions()["user-1"]
        assert [step["tool"] for step in steps] == ["move", "scan", "water"]


def test_a_better_name_beside_a_call_is_another_agents(wire: Any, bench: Any) -> None:
    """An agent of another service works below the same span, in a conversation of its own."""
    app = {"session.id": "user-1"}
    spans = [
        wire.tool("transfer", parent="a", start=1, attributes={CONVERSATION: "bank-1"}),
        wire.tool("move", parent="a", start=2, attributes=app),
        wire.span("agent", app, id="a", start=0, end=4),
    ]
    for order in permutations(spans):
        sessions = bench().send(*order).sessions()
        tools = {key: [step["tool"] for step in steps] for key, steps in sessions.items()}
        assert tools == {"bank-1": ["transfer"], "user-1": ["move"]}


def _tools(sessions: dict[str, Any]) -> dict[str, list[str]]:
    return {key: [step["tool"] for step in steps] for key, steps in sessions.items()}


LESSER = ("call", "agent", "web")
MODEL_SPANS: dict[str, tuple[str, dict[str, Any]]] = {
    "semconv": ("chat", {"gen_ai.operation.name": "chat"}),
    "google": ("generate_content", {"gen_ai.operation.name": "generate_content"}),
    "openinference": ("LLM", {"openinference.span.kind": "LLM"}),
    "traceloop": ("openai.chat", {"traceloop.span.kind": "llm"}),
    "vercel": ("doStream", {"ai.operationId": "ai.streamText.doStream"}),
    "langfuse": ("generation", {"langfuse.observation.type": "generation"}),
    "mlflow": ("model", {"mlflow.spanType": '"CHAT_MODEL"'}),
}


@pytest.mark.parametrize(
    ("kind", "lesser"),
    sampled(
        product(MODEL_SPANS, LESSER),
        [*product(MODEL_SPANS, LESSER[:1]), *product(["semconv"], LESSER)],
    ),
)
def test_a_better_name_on_a_model_beside_a_call_is_the_agents(
    wire: Any, bench: Any, kind: str, lesser: str
) -> None:
    """The agent above both asked the model and made the call, so the model's better id is the call's, in any order."""
    name, marks = MODEL_SPANS[kind]
    run = {"session.id": "run-1"}
    spans = [
        wire.span(name, {**marks, CONVERSATION: "user-1"}, id="m", parent="a", start=1),
        wire.tool("move", parent="a", start=2, attributes=run if lesser == "call" else {}),
        wire.span("step", run if lesser == "agent" else {}, id="a", parent="web", end=4),
        wire.span("POST", run if lesser == "web" else {}, id="web", kind=2, end=5),
    ]
    for order in permutations(spans):
        assert _tools(bench().send(*order).sessions()) == {"user-1": ["move"]}


def _beside(wire: Any, *others: Any, **above: Any) -> list[Any]:
    """A call with a lesser id, and what is beside it below one span."""
    run = {"session.id": "run-1"}
    call = wire.tool("move", parent="a", start=2, attributes=run)
    return [*others, call, wire.span("step", above, id="a", start=0, end=9)]


def test_a_model_of_another_agent_names_no_call_beside_that_agent(
    wire: Any, bench: Any
) -> None:
    """The id of a model below another agent's span, or of another service's model, stays that agent's."""
    nested = (_agent(wire, "b", parent="a"), _chat(wire, "m", "bank-1", parent="b", start=1))
    remote = {"service.name": "bank"}
    served = (_chat(wire, "m", "bank-1", parent="a", start=1, resource=remote),)
    agents = ("gen_ai.operation.name", "openinference.span.kind")
    marked = {agents[0]: "chat", agents[1]: "AGENT", CONVERSATION: "bank-1"}
    for others in (nested, served, (wire.span("b", marked, id="m", parent="a", start=1),)):
        for order in permutations(_beside(wire, *others)):
            assert _tools(bench().send(*order).sessions()) == {"run-1": ["move"]}


def test_a_model_above_the_agent_of_a_call_does_not_name_it(wire: Any, bench: Any) -> None:
    """A judge's or a router's model runs beside the agent, in a conversation of its own."""
    spans = [
        _chat(wire, "judge", "evaluation", parent="root", start=1),
        wire.tool("move", parent="b", start=2, attributes={"session.id": "run-1"}),
        _agent(wire, "b", parent="root", end=4),
        wire.span("eval", id="root", end=9),
    ]
    for order in permutations(spans):
        assert _tools(bench().send(*order).sessions()) == {"run-1": ["move"]}


def test_models_that_name_several_conversations_name_no_call(wire: Any, bench: Any) -> None:
    """Below one span run several conversations: the call keeps the id it has, in any order."""
    chats = [_chat(wire, f"m{n}", f"bank-{n}", parent="a", start=n) for n in (1, 3)]
    for order in permutations(_beside(wire, *chats)):
        assert _tools(bench().send(*order).sessions()) == {"run-1": ["move"]}


def test_a_span_above_a_call_has_its_say_before_models_beside_it(wire: Any, bench: Any) -> None:
    """Under one attribute a model names a turn, and the agent or the request the conversation."""
    chat = _chat(wire, "m", "turn-1", parent="a", start=1)
    for order in permutations(_beside(wire, chat, **{CONVERSATION: "user-1"})):
        assert _tools(bench().send(*order).sessions()) == {"user-1": ["move"]}


def test_a_model_beside_a_call_names_what_runs_inside_it(wire: Any, bench: Any) -> None:
    """The sub-agent's calls are of the conversation that their caller's model names, whenever it comes."""
    spans = [
        wire.tool("ask", id="call", parent="root", start=1, end=8),
        wire.tool(
            "move", parent="call", start=3, attributes={CONVERSATION: "of-the-sub-agent"}
        ),
        wire.span(
            "chat", {"gen_ai.operation.name": "chat", "session.id": "one"}, parent="root"
        ),
        wire.span("run", id="root", start=0, end=9),
    ]
    for order in permutations(spans):
        assert _tools(bench().send(*order).sessions()) == {"one": ["ask", "move"]}


def test_of_two_models_the_nearer_names_a_call(wire: Any, bench: Any, orders: Orders) -> None:
    """Under one attribute the model below the nearest span counts, in any order."""
    spans = [
        _chat(wire, "far", "two", parent="root", start=1),
        _chat(wire, "near", "one", parent="step", start=3),
        wire.tool("move", parent="step", start=4, attributes={"session.id": "run-1"}),
        wire.span("step", id="step", parent="root", start=2, end=8),
        wire.span("run", id="root", start=0, end=9),
    ]
    for order in orders(spans):
        assert _tools(bench().send(*order).sessions()) == {"one": ["move"]}


def test_a_better_name_inside_a_call_is_the_sub_agents_own(
    wire: Any, bench: Any, orders: Orders
) -> None:
    """A framework that names each run is used in a tool: the conversation is that of the tool's caller."""
    app = {"session.id": "thread-1"}
    spans = [
        wire.tool("irrigate", id="call", parent="a", start=1, end=8, attributes=app),
        _agent(wire, "sub", "run-7", parent="call", start=2, end=7),
        wire.tool("water", parent="sub", start=3, attributes={CONVERSATION: "run-7"}),
        wire.tool("move", parent="a", start=8.5, attributes=app),
        wire.span("agent", app, id="a", start=0, end=9),
    ]
    for order in orders(spans):
        sessions = bench().send(*order).sessions()
        tools = [step["tool"] for step in sessions.pop("thread-1")]
        assert (tools, sessions) == (["irrigate", "water", "move"], {})


@pytest.mark.parametrize("key", ["langsmith.trace.session_name", "mcp.session.id"])
def test_what_is_no_session_id_is_not_read(wire: Any, bench: Any, key: str) -> None:
    """A project's name, and an id that differs per request, name no conversation."""
    span = wire.tool("move", attributes={key: "default"})
    found = bench().send(span)
    assert list(found.sessions()) == [span.trace_id.hex()]
    assert found.covered("no_session_id") == 1


@pytest.mark.parametrize("value", ["", {"a": 1}, [1], None, True])
def test_a_value_that_is_no_id_is_passed_over(wire: Any, bench: Any, value: Any) -> None:
    """Empty and structured values leave the trace's own id."""
    span = wire.tool("move", attributes={CONVERSATION: value})
    assert list(bench().send(span).sessions()) == [span.trace_id.hex()]


def test_a_number_is_an_id(wire: Any, bench: Any) -> None:
    """Frameworks use numbers too."""
    assert list(bench().send(wire.tool("move", attributes={"session.id": 7})).sessions()) == [
        "7"
    ]


def test_an_id_told_late_moves_what_was_held(wire: Any, bench: Any) -> None:
    """Calls of a trace move to the session as soon as any span names it, in any order."""
    spans = [
        wire.tool("move", parent="root", start=1),
        wire.tool("scan", parent="root", start=2),
        _agent(wire, "root", "s1", start=0, end=3),
    ]
    for order in permutations(spans):
        sessions = bench().send(*order).sessions()
        assert [step["tool"] for step in sessions.pop("s1")] == ["move", "scan"]
        assert sessions == {}


def test_a_traces_id_leads_to_the_sessions_of_its_calls(wire: Any, bench: Any) -> None:
    """Also once its spans are forgotten, and to each conversation of a trace that has several."""
    found = bench()
    found.send(wire.tool("move", parent="root"), wire.tool("move", trace="lone"))
    sessions_of = found.pipeline.sessions_of
    trace, lone = hex_id("trace", 16), hex_id("lone", 16)
    assert sessions_of(trace) == [("", trace)]

    found.send(_agent(wire, "root", "s1", end=3))
    assert sessions_of(trace) == [("", "s1")]
    assert sessions_of(lone, "") == [("", lone)]
    for _ in range(3):  # periods, after which spans are forgotten
        found.pipeline.tick(BASE + 7_200 * SECOND)
        found.send(wire.span("tick", trace="other"), now=3600 + 600 * 3)
    assert sessions_of(trace, "") == [("", "s1")]

    several = bench().send(*_two_in_one_trace(wire)).pipeline.sessions_of(trace)
    assert sorted(each.id for each in several) == ["one", "two"]
    assert [sessions_of(each) for each in ("s1", "", "zz", hex_id("no", 16))] == [[]] * 4
    assert sessions_of(trace, "another tenant") == []


def test_several_traces_of_one_conversation_are_one_session(wire: Any, bench: Any) -> None:
    """A trace is a turn: the id joins the turns."""
    spans = [
        span
        for turn in (1, 2)
        for span in (
            wire.tool("move", trace=f"t{turn}", parent="root", start=turn),
            _agent(wire, "root", "s1", trace=f"t{turn}", start=turn - 0.5, end=turn + 0.5),
        )
    ]
    for order in permutations(spans):
        assert [step["tool"] for step in bench().send(*order).sessions()["s1"]] == ["move"] * 2


def _two_in_one_trace(wire: Any) -> list[Any]:
    return [
        wire.span("eval", id="root", start=0, end=9),
        _agent(wire, "a", "one", parent="root", start=1, end=4),
        wire.tool("move", parent="a", start=2),
        _agent(wire, "b", "two", parent="root", start=5, end=8),
        wire.tool("scan", parent="b", start=6),
    ]


def test_two_conversations_in_one_trace_stay_apart(
    wire: Any, bench: Any, orders: Orders
) -> None:
    """A call belongs to the conversation of its nearest ancestor that has one, in any order."""
    for order in orders(_two_in_one_trace(wire)):
        sessions = bench().send(*order).sessions()
        tools = {key: [step["tool"] for step in steps] for key, steps in sessions.items()}
        assert tools == {"one": ["move"], "two": ["scan"]}


def test_siblings_tell_where_no_ancestor_does(wire: Any, bench: Any) -> None:
    """Chat spans below the same agent carry the id that the tool and the agent do not."""
    spans = [
        _chat(wire, "c1", "one", parent="a", start=1),
        wire.tool("move", parent="a", start=2),
        _chat(wire, "c2", "two", parent="b", start=5),
        wire.tool("scan", parent="b", start=6),
    ]
    late = [_agent(wire, "a", parent="root", start=0, end=4)]
    late.append(_agent(wire, "b", parent="root", start=4, end=8))
    for order in permutations(spans):
        for more in permutations(late):
            sessions = bench().send(*order, *more).sessions()
            tools = {key: [step["tool"] for step in steps] for key, steps in sessions.items()}
            assert tools == {"one": ["move"], "two": ["scan"]}


def _sub_agent(wire: Any, **session: str) -> list[Any]:
    """A tool that runs another agent, which sets a conversation id of its own."""
    sub = {"gen_ai.conversation.id": "of-the-sub-agent"}
    return [
        _agent(wire, "outer", "one", start=0, end=9),
        wire.tool("irrigate", id="wrapper", parent="outer", start=1, end=8, attributes=session),
        _agent(wire, "inner", "of-the-sub-agent", parent="wrapper", start=2, end=7),
        wire.tool("water", parent="inner", start=3, attributes=sub if session else {}),
    ]


@pytest.mark.parametrize("session", [{}, {"gen_ai.conversation.id": "one"}])
def test_a_sub_agents_conversation_is_the_one_it_was_called_in(
    wire: Any, bench: Any, session: dict[str, str]
) -> None:
    """Spans below a tool call belong to the session of that call, in any order of arrival."""
    for order in permutations(_sub_agent(wire, **session)):
        sessions = bench().send(*order).sessions()
        tools = {key: [step["tool"] for step in steps] for key, steps in sessions.items()}
        assert tools == {"one": ["irrigate", "water"]}


def test_a_sub_agent_of_a_sub_agent_is_of_the_outermost_conversation(
    wire: Any, bench: Any
) -> None:
    """Conversations nest as deep as agents do."""
    spans = [
        *_sub_agent(wire)[:3],
        wire.tool("spray", id="deeper", parent="inner", start=3, end=6),
        _agent(wire, "innermost", "three", parent="deeper", start=4, end=5.5),
        wire.tool("water", parent="innermost", start=5),
    ]
    for order in (spans, spans[::-1], spans[::2] + spans[1::2], spans[3:] + spans[:3]):
        assert list(bench().send(*order).sessions()) == ["one"]


def test_a_tool_of_no_conversation_leaves_the_agent_its_own(wire: Any, bench: Any) -> None:
    """A server's tool that runs agents is in no conversation: each agent below it keeps its own."""
    spans = [
        wire.span(
            "tools/call evaluate", {"mcp.method.name": "tools/call"}, id="root", kind=2, end=9
        ),
        _agent(wire, "a", "one", parent="root", start=1, end=4),
        wire.tool("move", parent="a", start=2),
        _agent(wire, "b", "two", parent="root", start=5, end=8),
        wire.tool("scan", parent="b", start=6),
    ]
    for order in (spans, spans[::-1], spans[2:] + spans[:2]):
        sessions = bench().send(*order).sessions()
        tools = {key: {step["tool"] for step in steps} for key, steps in sessions.items()}
        assert tools["one"] >= {"move"}
        assert tools["two"] == {"scan"}


def test_many_conversations_in_one_trace(wire: Any, bench: Any) -> None:
    """A run of evaluations under one root: each conversation keeps its calls."""
    found = bench()
    for number in range(60):
        found.send(
            _chat(wire, f"c{number}", f"s{number}", parent=f"a{number}", start=number),
            wire.tool("move", parent=f"a{number}", start=number + 0.2),
            _agent(
                wire, f"a{number}", f"s{number}", parent="root", start=number, end=number + 1
            ),
        )
    sessions = found.sessions()
    assert {len(steps) for steps in sessions.values()} == {1}
    assert set(sessions) == {f"s{number}" for number in range(60)}


def test_two_tenants_session_1_never_meet(wire: Any, bench: Any) -> None:
    """The namespace is part of the session key and of the trace key."""
    spans = [
        wire.tool(
            "move",
            attributes={CONVERSATION: "1"},
            start=start,
            id=tenant,
            resource={"service.name": "svc", "service.namespace": tenant},
        )
        for start, tenant in enumerate(("acme", "umbrella"))
    ]
    judgements = list(bench().send(*spans).monitor.judgements())
    assert sorted((j["namespace"], j["session"], j["calls"]) for j in judgements) == [
        ("acme", "1", 1),
        ("umbrella", "1", 1),
    ]


def test_a_resource_may_name_the_session(wire: Any, bench: Any) -> None:
    """If each call has its own trace, an id of the process joins them. A better id takes precedence."""
    resource = {"service.name": "svc", "session.id": "run-7"}
    spans = [wire.tool("move", trace=f"t{n}", start=n, resource=resource) for n in (1, 2)]
    assert [len(steps) for steps in bench().send(*spans).sessions().values()] == [2]

    told = _agent(wire, "root", "s1", start=0, end=3, resource=resource)
    under = wire.tool("move", parent="root", start=1, resource=resource)
    for order in permutations((told, under)):
        assert list(bench().send(*order).sessions()) == ["s1"]


def _by_agent(tmp_path: Path) -> Any:
    file = tmp_path / "by_agent.yaml"
    file.write_text(BY_AGENT)
    loaded = load_specs([file])
    assert not loaded.refused
    return loaded.specs


def test_a_sub_agents_calls_are_its_own(wire: Any, bench: Any, tmp_path: Path) -> None:
    """With `scope: agent` a call is the nearest naming ancestor's, also where that comes last."""
    spans = [
        wire.tool("move", parent="a", start=1),
        wire.tool("water", parent="b", start=2.5),
        _agent(wire, "b", "s1", "irrigator", parent="a", start=2, end=3),
        _agent(wire, "a", "s1", "operator", start=0, end=4),
    ]
    for order in permutations(spans):
        found = bench(_by_agent(tmp_path)).send(*order)
        calls = {
            judgement["agent"]: [step["tool"] for step in judgement["steps"]]
            for judgement in found.monitor.judgements()
            if judgement["steps"]
        }
        assert calls == {"operator": ["move"], "irrigator": ["water"]}


AGENTS = {
    "attribute": ("invoke_agent x", "", {"gen_ai.agent.name": "rover"}),
    "openinference": (
        "rover",
        "openinference.instrumentation.openai_agents",
        {"openinference.span.kind": "AGENT", "agent.name": "rover"},
    ),
    "by-name": ("invoke_agent rover", "x", {"gen_ai.operation.name": "invoke_agent"}),
    "langgraph": (
        "agent",
        "openinference.instrumentation.langchain",
        {"openinference.span.kind": "CHAIN", "metadata": '{"lc_agent_name": "rover"}'},
    ),
    "traceloop-langchain": (
        "x",
        "",
        {"traceloop.association.properties.lc_agent_name": "rover"},
    ),
    "langsmith": ("x", "langsmith", {"langsmith.metadata.lc_agent_name": "rover"}),
    "traceloop": ("rover.agent", "", {"traceloop.span.kind": "agent"}),
    "respan": (
        "agent.rover",
        "respan.tracer",
        {"traceloop.span.kind": "agent", "traceloop.entity.name": "rover"},
    ),
    "crewai": ("rover._execute_core", "openinference.instrumentation.crewai", {"a": 1}),
    "crewai-without-a-crew": (
        "rover.kickoff",
        "openinference.instrumentation.crewai",
        {"openinference.span.kind": "AGENT", "graph.node.id": "rover"},
    ),
    "crewai-by-events": (
        "rover.water field 3.execute",
        "openinference.instrumentation.crewai._event_listener",
        {"openinference.span.kind": "AGENT", "graph.node.id": "rover"},
    ),
    "smolagents": (
        "rover.run",
        "openinference.instrumentation.smolagents",
        {"openinference.span.kind": "AGENT"},
    ),
    "agno": (
        "rover.arun",
        "openinference.instrumentation.agno",
        {"openinference.span.kind": "AGENT"},
    ),
    "adk-1.14": ("agent_run [rover]", "gcp.vertex.agent", {"a": 1}),
    "adk": ("invoke_agent rover", "gcp.vertex.agent", {"a": 1}),
    "vercel": ("ai.generateText", "ai", {"ai.telemetry.functionId": "rover"}),
    "langfuse": ("rover", "langfuse-sdk", {"langfuse.observation.type": "agent"}),
    "langfuse-langchain": (
        "PatchMiddleware.before_agent",
        "langfuse-sdk",
        {
            "langfuse.observation.type": "agent",
            "langfuse.observation.metadata.lc_agent_name": '"rover"',
            "langfuse.observation.metadata.langgraph_node": '"PatchMiddleware.before_agent"',
        },
    ),
    "langfuse-langchain-escaped": (
        "x",
        "langfuse-sdk",
        {"langfuse.observation.metadata.lc_agent_name": '"\\u0072over"'},
    ),
    "langfuse-langchain-plain": (
        "x",
        "langfuse-sdk",
        {"langfuse.observation.metadata.lc_agent_name": "rover"},
    ),
    "mlflow": ("rover", "mlflow.tracing.provider", {"mlflow.spanType": '"AGENT"'}),
    "mlflow-langchain": (
        "tools",
        "mlflow.tracing.provider",
        {"mlflow.spanType": '"CHAIN"', "metadata": '{"lc_agent_name": "rover"}'},
    ),
}


@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_is_named_where_its_framework_does(wire: Any, bench: Any, name: str) -> None:
    """The session's agent comes from whichever span of the trace names one."""
    span_name, scope, attributes = AGENTS[name]
    agent = wire.span(span_name, attributes, id="a", scope=scope, start=0, end=3)
    found = bench().send(wire.tool("move", parent="a", start=1), agent)
    (judgement,) = (j for j in found.monitor.judgements() if j["calls"])
    assert judgement["agent"] == "rover"


NOBODY = {
    "null": ("langfuse-sdk", {"langfuse.observation.metadata.lc_agent_name": "null"}),
    # It takes any node for an agent that has the word in its name.
    "route_to_active_agent": (
        "langfuse-sdk",
        {
            "langfuse.observation.type": "agent",
            "langfuse.observation.metadata.langgraph_node": '"__start__"',
        },
    ),
    # Of agents whose names MLflow does not know, the span is named after what was called.
    "AgentRunner.run": ("mlflow.tracing.provider", {"mlflow.spanType": '"AGENT"'}),
}


@pytest.mark.parametrize("name", NOBODY)
def test_a_span_that_is_named_after_code_names_nobody(wire: Any, bench: Any, name: str) -> None:
    """A LangGraph node under Langfuse, a method under MLflow and an empty name are no agent names."""
    scope, attributes = NOBODY[name]
    span = wire.span(name, attributes, id="a", scope=scope, start=0, end=3)
    found = bench().send(wire.tool("move", parent="a", start=1), span)
    (judgement,) = (j for j in found.monitor.judgements() if j["calls"])
    assert judgement["agent"] != name


NAMELESS = {
    "openinference": (
        "openinference.instrumentation.langchain",
        {"openinference.span.kind": "CHAIN", "metadata": '{"lc_agent_name": null, "a": 1}'},
    ),
    "traceloop": (
        "opentelemetry.instrumentation.langchain",
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "LangGraph"},
    ),
}


@pytest.mark.parametrize("name", NAMELESS)
def test_a_graph_without_a_name_is_its_services_agent(wire: Any, bench: Any, name: str) -> None:
    """The agent below it, which has a name, works for it."""
    scope, attributes = NAMELESS[name]
    spans = [
        wire.tool("move", parent="b", start=2),
        _agent(wire, "b", parent="a", name="helper", start=1, end=3),
        wire.span(
            "LangGraph",
            attributes,
            id="a",
            scope=scope,
            start=0,
            end=4,
            resource={"service.name": "rover"},
        ),
    ]
    (judgement,) = (j for j in bench().send(*spans).monitor.judgements() if j["calls"])
    assert judgement["agent"] == "rover"


def test_a_graph_that_is_no_agent_has_that_of_its_nodes(wire: Any, bench: Any) -> None:
    """If the root names no agent, the agent is taken from the nodes."""
    spans = [
        wire.tool("move", parent="b", start=2),
        _agent(wire, "b", parent="a", name="helper", start=1, end=3),
        wire.span(
            "LangGraph",
            {"openinference.span.kind": "CHAIN", "metadata": '{"ls_integration": "langgraph"}'},
            id="a",
            scope="openinference.instrumentation.langchain",
            start=0,
            end=4,
        ),
    ]
    (judgement,) = (j for j in bench().send(*spans).monitor.judgements() if j["calls"])
    assert judgement["agent"] == "helper"


def test_a_constant_name_names_nobody(wire: Any, bench: Any) -> None:
    """`OpenAI Agent` on every tool span is no agent name; the name on the agent's span is."""
    spans = [
        wire.tool(
            "move", parent="a", start=1, attributes={"gen_ai.agent.name": "OpenAI Agent"}
        ),
        _agent(wire, "a", name="rover", start=0, end=3),
    ]
    (judgement,) = (j for j in bench().send(*spans).monitor.judgements() if j["calls"])
    assert judgement["agent"] == "rover"


def test_a_service_name_that_is_no_text_names_no_service(wire: Any, bench: Any) -> None:
    """Its spans are those of an unknown service: an agent is named, and nothing fails."""
    odd = {"service.name": ["a", "b"]}
    found = bench().send(
        wire.tool("move", parent="a", start=1, resource=odd),
        wire.span(
            "invoke_agent rover", {"gen_ai.agent.name": "rover"}, id="a", end=3, resource=odd
        ),
    )
    (seen,) = found.pipeline.inventory
    assert (seen.service, list(seen.agents)) == ("unknown", ["rover"])


def test_memory_is_bounded_in_spans_and_time(wire: Any) -> None:
    """Trees are forgotten after a period or at their bound; whose trace it is, is not."""
    traces = Traces(traces_max=3, spans_max=10, period_ns=100)
    first = traces.of("", b"1")
    traces.grow(first, now=1_000).put(b"a", b"")
    traces.grow(traces.of("", b"2"), now=1_200).put(b"b", b"")
    traces.grow(traces.of("", b"2"), now=1_400).put(b"c", b"")
    assert first.tree is None
    assert traces.of("", b"1") is first

    for name in (b"3", b"4", b"5"):
        traces.of("", name)
    assert traces.of("", b"1") is not first


def test_calls_move_from_a_traces_own_session_once_it_was_asked_for() -> None:
    """Calls move only once the trace's own session has been read."""
    told = Claim(0, SessionKey("tenant", "s1"), "session.id")
    fresh, asked = Trace("tenant", b"\1\2"), Trace("tenant", b"\1\2")
    own = SessionKey("tenant", "0102")

    assert asked.key == own
    assert (fresh.belong(told), asked.belong(told)) == (None, own)
    assert (fresh.key, asked.key) == (told.key, told.key)
    assert fresh.session_from == "session.id"


def test_a_long_trace_forgets_its_older_half(wire: Any, bench: Any) -> None:
    """More spans than a tree may hold: the newer ones still find their ancestors."""
    found = bench()
    for number in range(5_000):
        found.send(wire.span("step", id=f"n{number}", start=number))
    found.send(
        _agent(wire, "late", "s9", start=6_000, end=6_003),
        wire.tool("move", parent="late", start=6_001),
    )
    assert list(found.sessions()) == ["s9"]


@pytest.mark.parametrize(
    "hidden", ["[Scrubbed due to 'session']", "__REDACTED__", "[no_session_id]"]
)
def test_a_hidden_session_id_names_no_session(wire: Any, bench: Any, hidden: str) -> None:
    """A masked id would join all conversations. The next best id counts, or the trace."""
    told = bench().send(
        wire.tool("move", trace="1", attributes={"session.id": hidden}),
        wire.tool("move", trace="2", attributes={"session.id": hidden, "thread_id": "t2"}),
    )
    assert sorted(told.sessions()) == sorted([wire.tool("x", trace="1").trace_id.hex(), "t2"])


PLAIN = ["thread_id", "session_id", "conversation_id"]


@pytest.mark.parametrize("key", PLAIN)
def test_an_argument_of_a_call_names_no_session(
    wire: Any, bench: Any, key: str, orders: Orders
) -> None:
    """Attributes of spans below a call may be chosen by the model, so they name no session."""
    spans = [
        wire.tool("get_mail", id="call", parent="agent", start=1, end=4),
        wire.span("handle", {key: "victim"}, id="body", parent="call", start=1.5, end=3),
        wire.span("read", {key: "other"}, parent="body", start=2, end=2.5),
        wire.tool("pay", parent="agent", start=5, end=6),
        wire.span(
            "agent", {"gen_ai.operation.name": "invoke_agent"}, id="agent", start=0, end=9
        ),
    ]
    for order in orders(spans):
        (session,) = bench().send(*order).sessions()
        assert session == hex_id("trace", 16)


@pytest.mark.parametrize("kind", [1, 2, 5])
@pytest.mark.parametrize("key", PLAIN)
def test_a_span_around_the_agent_may_name_its_session_plainly(
    wire: Any, bench: Any, key: str, kind: int, orders: Orders
) -> None:
    """Such a span is the application's own: a root, or below its server span."""
    spans = [
        wire.span(
            "POST /chat", {}, id="server", parent="far" if kind > 1 else "", kind=kind, end=9
        ),
        wire.span("chat", {key: "s1"}, id="chat", parent="server", end=8),
        wire.span(
            "agent", {"gen_ai.operation.name": "invoke_agent"}, id="agent", parent="chat"
        ),
        wire.tool("move", parent="agent", start=1, end=2),
        wire.tool("scan", parent="agent", start=3, end=4),
    ]
    for order in orders(spans):
        assert list(bench().send(*order).sessions()) == ["s1"]


def test_a_plain_name_that_is_nobodys_waits(wire: Any, bench: Any) -> None:
    """An id under a plain name waits until the spans above it are known."""
    spans = [
        wire.span("chat", {"thread_id": "s1"}, id="chat", parent="far", end=8),
        wire.tool("move", parent="chat", start=1, end=2),
    ]
    for order in permutations(spans):
        (session,) = bench().send(*order).sessions()
        assert session == hex_id("trace", 16)


def test_a_sub_agent_below_a_call_is_part_of_its_conversation(wire: Any, bench: Any) -> None:
    """This holds even if the function that runs the sub-agent writes its arguments."""
    spans = [
        wire.tool("ask", id="call", parent="agent", start=1, end=8),
        wire.span("ask", {"thread_id": "other"}, id="body", parent="call", start=2, end=7),
        wire.tool("pay", parent="body", start=3, end=4),
        wire.span("agent", {"session.id": "s1"}, id="agent", start=0, end=9),
    ]
    for order in permutations(spans):
        assert list(bench().send(*order).sessions()) == ["s1"]
