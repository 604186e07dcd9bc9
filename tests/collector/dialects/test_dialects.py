"""Calls that an instrumentation writes over several spans, and misleading spans. Single spans are in `tables/`."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest

from tests.collector.conftest import Orders

MOVE = {"x": 3, "y": 4}
AS_JSON = json.dumps(MOVE)
OI = "openinference.instrumentation."
OI_JS = "@arizeai/openinference-instrumentation-"
OI_TOOL = {"tool.name": "move", "openinference.span.kind": "TOOL"}
GEN = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "move"}
UPSONIC = {"upsonic.tool.name": "move", "upsonic.tool.call_id": "call_1"}
EINO = "github.com/cloudwego/eino-ext/callbacks/apmplus"
DAPR = "dapr_agents.observability.instrumentor"
DAPR_TOOL = {
    **GEN,
    **OI_TOOL,
    "agent.name": "AgentToolExecutor",
    "input.value": json.dumps({"tool_name": "move", "args": [], "kwargs": MOVE}),
}
NEMO_FUNCTION = {
    "openinference.span.kind": "CHAIN",
    "nat.event_type": "FUNCTION_START",
    "nat.framework": "unknown",
    "nat.function.name": "move",
    "nat.function.parent_id": "a31d",
    "nat.subspan.name": "move",
    "input.value": AS_JSON,
    "input.mime_type": "application/json",
}
NEMO_RETURNED = {**NEMO_FUNCTION, "output.value": "at 3,4"}
NEMO_TOOL = {
    "openinference.span.kind": "TOOL",
    "nat.event_type": "TOOL_START",
    "nat.framework": "langchain",
    "nat.function.name": "<workflow>",
    "nat.subspan.name": "move",
    "input.value": str(MOVE),
    "output.value": "at 3,4",
}
ARGS = {"gen_ai.tool.call.arguments": AS_JSON}


def test_a_prompt_of_semantic_kernel_for_java_is_a_control_call(wire: Any, bench: Any) -> None:
    """A prompt belongs to no plugin, so the program called it and not the model."""
    key = {"semantic_kernel.function.invocation.name": "ask"}
    found = bench().send(wire.span("function_invocation null-ask", key, scope="SemanticKernel"))

    assert found.tools() == ["null-ask"]
    assert found.covered("control") == 1


def test_a_transfer_is_an_ordinary_tool_elsewhere(wire: Any, bench: Any) -> None:
    """`transfer_to_savings` of a bank's own agent is judged like any other tool."""
    found = bench().send(wire.tool("transfer_to_savings"))
    assert found.covered("control") == 0


UNREADABLE = ['{"x": 3, "y"', "[1, 2]", "3", '"move"', "not json", [1], 7, True, 1.5]


@pytest.mark.parametrize("value", UNREADABLE, ids=repr)
def test_unreadable_arguments_are_none_and_counted(wire: Any, bench: Any, value: Any) -> None:
    """Unreadable arguments are unknown and counted, never guessed."""
    span = wire.span("execute_tool move", {**GEN, "gen_ai.tool.call.arguments": value})
    found = bench().send(span)

    assert found.steps()[0]["arguments"] is None
    assert found.covered("arguments_unreadable") == 1


DATADOG = {"_dd.llmobs.artificial_gen_ai_tags": "true", "gen_ai.operation.name": "tool"}


@pytest.mark.parametrize("value", [b"", b"\xc1", b"\x81\xa4meta\x05", "text", 7], ids=repr)
def test_what_is_not_packed_as_datadog_does_is_unknown(
    wire: Any, bench: Any, value: Any
) -> None:
    """Bytes that were cut off, and values of other types."""
    found = bench().send(wire.span("move", {**DATADOG, "_llmobs": value}))
    assert found.steps()[0]["arguments"] is None
    assert found.covered("arguments_unreadable") == 1


def test_a_tool_of_nemo_is_one_call_with_the_function_below_it(wire: Any, bench: Any) -> None:
    """If the tool raised, only the function's span is sent; its parent never arrives."""
    found = bench().send(
        wire.span("move", NEMO_RETURNED, id="function", parent="tool", start=1),
        wire.span("move", NEMO_TOOL, id="tool", parent="root", end=1.5),
        wire.span("dig", NEMO_FUNCTION | {"nat.function.name": "dig"}, parent="lost", start=2),
    )
    assert found.tools() == ["move", "dig"]
    assert [step["arguments"] for step in found.steps()] == [MOVE, MOVE]
    assert [step["error"] for step in found.steps()] == [False, True]


def test_what_dapr_calls_its_parts_names_no_agent(wire: Any, bench: Any) -> None:
    """The agent is named by the step of its workflow, where there is one."""
    step = {"openinference.span.kind": "TOOL", "agent.name": "rover"}
    alone = wire.span("execute_tool move", DAPR_TOOL, scope=DAPR, trace="alone")
    below = wire.span("execute_tool move", DAPR_TOOL, scope=DAPR, parent="step", start=1)
    found = bench().send(alone, below, wire.span("rover.run_tool", step, id="step", scope=DAPR))
    assert found.tools() == ["move", "move"]
    agents = {judgement["agent"] for judgement in found.monitor.judgements()}
    assert agents == {"svc", "rover"}


def test_an_agent_of_datadog_is_named_by_its_span(wire: Any, bench: Any) -> None:
    """Models' spans and the workflow's span are no calls and name no agent."""
    spans = [
        wire.span(
            name,
            {**DATADOG, "gen_ai.operation.name": operation},
            id=name,
            parent=parent,
            start=start,
        )
        for start, (name, operation, parent) in enumerate(
            [
                ("flow", "workflow", ""),
                ("rover", "agent", "flow"),
                ("ask", "llm", "rover"),
                ("move", "tool", "rover"),
            ]
        )
    ]
    found = bench().send(*spans)
    assert [step["tool"] for step in found.steps()] == ["move"]
    assert {each["agent"] for each in found.monitor.judgements()} == {"rover"}


OPENCODES = {"tool.name": "move", "tool.call_id": "call_1", "message.id": "msg_1"}


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ({"openinference.span.kind": "TOOL", "input.value": AS_JSON}, [MOVE]),
        ({"input.value": AS_JSON}, [MOVE]),
        ({**GEN, **ARGS}, [MOVE]),
        ({"openinference.span.kind": "LLM"}, []),
        ({"gen_ai.operation.name": "chat"}, []),
    ],
)
def test_keys_that_anybody_may_write_hide_no_convention(
    wire: Any, bench: Any, says: dict[str, Any], told: list[Any]
) -> None:
    """OpenCode's keys may be custom attributes elsewhere, and then hide no other convention."""
    found = bench().send(wire.span("move", {**OPENCODES, **says}, scope="my.app"))
    assert [step["arguments"] for step in found.steps()] == told


@pytest.mark.parametrize("value", ["[]", "{}", '[{"role": "tool"}, {}]', '["{}"]', "no json"])
def test_arguments_in_messages_to_the_tool_are_of_one_message(
    wire: Any, bench: Any, value: str
) -> None:
    """With several messages, the arguments are unknown: any of them might be meant."""
    told = {"tanstack.ai.tool.outcome": "success", "gen_ai.input.messages": value}
    found = bench().send(wire.span("move", {"gen_ai.tool.name": "move", **told}))

    assert found.steps()[0]["arguments"] is None
    assert found.covered("arguments_unreadable") == 1


def test_arguments_encoded_twice_are_read(wire: Any, bench: Any) -> None:
    """A JSON text inside a JSON text is still the same arguments."""
    span = wire.span(
        "execute_tool move", {**GEN, "gen_ai.tool.call.arguments": json.dumps(AS_JSON)}
    )
    assert bench().send(span).steps()[0]["arguments"] == MOVE


def test_the_node_around_a_bare_argument_tells_its_name(wire: Any, bench: Any) -> None:
    """LangGraph's node lists the call as the model made it: name, id and arguments come from it."""
    tool = wire.span(
        "scan",
        {**OI_TOOL, "tool.name": "scan", "input.value": "field 3"},
        parent="node",
        scope=OI + "langchain",
    )
    listed = [
        {"name": "scan", "args": {"area": "field 3"}, "id": "call_1", "type": "tool_call"}
    ]
    node = wire.span(
        "tools",
        {"openinference.span.kind": "CHAIN", "input.value": json.dumps(listed)},
        id="node",
        parent="root",
        scope=OI + "langchain",
    )
    for spans in ((tool, node), (node, tool)):
        (step,) = bench().send(*spans).steps()
        assert step["arguments"] == {"area": "field 3"}
        assert step["call_id"] == "call_1"


_SCAN = {"name": "scan", "args": {"area": "field 3"}, "id": "call_1", "type": "tool_call"}


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        ({"messages": [], "lg_tool_call": _SCAN}, {"area": "field 3"}),
        ({"messages": [{}, {"kwargs": {"tool_calls": [_SCAN]}}]}, {"area": "field 3"}),
        ({"messages": [{"kwargs": {"tool_calls": [_SCAN]}}, {}]}, None),
        ({"messages": [{"kwargs": {"tool_calls": [_SCAN]}}, {"id": ["ToolMessage"]}]}, None),
        ({"messages": [7]}, None),
        ({"messages": {}}, None),
        ([_SCAN], None),
        ("{", None),
    ],
)
def test_a_node_in_javascript_is_given_the_conversation(
    wire: Any, bench: Any, given: Any, arguments: Any
) -> None:
    """The call is beside the state or in its last message. Anything else names no call."""
    text = given if isinstance(given, str) else json.dumps(given, separators=(",", ":"))
    tool = wire.span(
        "scan",
        {
            **OI_TOOL,
            "tool.name": "scan",
            "input.value": "field 3",
            "input.mime_type": "text/plain",
        },
        parent="node",
        scope=OI_JS + "langchain",
    )
    node = wire.span(
        "act",
        {"openinference.span.kind": "CHAIN", "input.value": text},
        id="node",
        scope=OI_JS + "langchain",
    )
    for spans in ((tool, node), (node, tool)):
        (step,) = bench().send(*spans).steps()
        assert step["arguments"] == arguments


def _message(kind: str, **parts: Any) -> dict[str, Any]:
    return {"type": kind, "data": {"content": "", "type": kind, **parts}}


_ASKS = _message("ai", tool_calls=[_SCAN], invalid_tool_calls=[])
_ANSWERS = _message("tool", tool_call_id="call_1", artifact={"tool_calls": [_SCAN]})
_SAYS = _message("human", content=json.dumps({"tool_calls": [_SCAN]}))


@pytest.mark.parametrize(
    ("messages", "value", "told"),
    [
        ([_SAYS, _ASKS], "field 3", True),
        ([_ANSWERS, _ASKS], "field 3", True),
        ([_ASKS], "field 9", False),
        ([_ASKS, _ANSWERS], "field 3", False),
        ([_SAYS], "field 3", False),
        ([_message("ai", tool_calls=[{**_SCAN, "name": "move"}])], "field 3", False),
        ([_message("ai", tool_calls=[{**_SCAN, "args": {"area": "field 3", "deep": 1}}])], "field 3", False),
        ([_message("ai", tool_calls=[_SCAN, {**_SCAN, "id": "call_2"}])], "field 3", True),
        ([_message("ai", tool_calls=[7])], "field 3", False),
        ([_message("ai", tool_calls=[_SCAN], usage="x" * 16_384)], "field 3", True),
        ([_message("ai", tool_calls=[_SCAN], usage="x" * 2**20)], "field 3", False),
    ],
)  # fmt: skip
def test_a_node_in_python_is_given_the_state(
    wire: Any, bench: Any, messages: Any, value: str, told: bool
) -> None:
    """The last message may request the call. Its arguments count only if they equal the tool's input."""
    tool = {**OI_TOOL, "tool.name": "scan", "input.value": value}
    state = {
        "openinference.span.kind": "CHAIN",
        "input.value": json.dumps({"messages": messages}),
    }
    spans = [
        wire.span("scan", tool, parent="node", scope=OI + "langchain"),
        wire.span("act", state, id="node", parent="root", scope=OI + "langchain"),
    ]
    for order in permutations(spans):
        (step,) = bench().send(*order).steps()
        assert step["arguments"] == ({"area": "field 3"} if told else None)


@pytest.mark.parametrize("end", ["", "[", "[{", "[" * 10_000])
def test_a_state_that_is_cut_off_tells_nothing(wire: Any, bench: Any, end: str) -> None:
    """A state that was cut by an exporter's length limit names no call."""
    cut = '{"messages": [{"data": {"tool_calls": [' + end
    tool = {**OI_TOOL, "tool.name": "scan", "input.value": "field 3"}
    state = {"openinference.span.kind": "CHAIN", "input.value": cut}
    found = bench().send(
        wire.span("scan", tool, parent="node", scope=OI + "langchain"),
        wire.span("act", state, id="node", scope=OI + "langchain"),
    )
    assert found.steps()[0]["arguments"] is None


@pytest.mark.parametrize("workflow", ["Agent workflow", "farm work"])
def test_an_agent_in_javascript_is_named_by_its_node(
    wire: Any, bench: Any, workflow: str
) -> None:
    """The workflow around the node is no agent, whatever its name."""
    kind = {"openinference.span.kind": "AGENT"}
    node = {**kind, "graph.node.id": "farm_rover"}
    scope = OI_JS + "openai-agents"
    found = bench().send(
        wire.span(workflow, kind, id="root", scope=scope),
        wire.span("farm_rover", node, id="agent", parent="root", scope=scope),
        wire.span("move", OI_TOOL, id="tool", parent="agent", scope=scope),
    )
    assert {each["agent"] for each in found.monitor.judgements()} == {"farm_rover"}


@pytest.mark.parametrize(
    ("language", "error"), [("python", False), ("nodejs", True), (1, True)]
)
def test_a_span_of_adk_that_has_a_name_alone_failed_but_in_python(
    wire: Any, bench: Any, language: Any, error: bool
) -> None:
    """In Python it may also be a long-running tool without a result yet."""
    resource = {"service.name": "svc", "telemetry.sdk.language": language}
    span = wire.span("execute_tool move", scope="gcp.vertex.agent", resource=resource)

    assert [step["error"] for step in bench().send(span).steps()] == [error]


def test_an_agent_of_upsonic_is_named_by_its_run(wire: Any, bench: Any) -> None:
    """The name is in a key of its own, on a server span."""
    found = bench().send(
        wire.span("tool.execute", UPSONIC, scope="upsonic", parent="run", start=2),
        wire.span(
            "agent.run",
            {"upsonic.agent.name": "rover", "session.id": "s1"},
            id="run",
            kind=2,
            scope="upsonic",
            start=1,
        ),
    )
    assert list(found.sessions()) == ["s1"]
    assert [each["agent"] for each in found.monitor.judgements()] == ["rover"]


def test_an_agent_of_voltagent_is_named_on_its_spans(wire: Any, bench: Any) -> None:
    """Other spans with a name, such as a workflow's, name no agent."""
    scope, call = "@voltagent/core", {"tool.name": "move", "tool.call.id": "call_1"}
    agent = {"entity.type": "agent", "entity.name": "farm_rover"}
    flow = {"entity.type": "workflow", "entity.name": "farm work"}
    found = bench().send(
        wire.span("farm work", flow, id="root", scope=scope),
        wire.span("farm_rover", agent, id="agent", parent="root", scope=scope),
        wire.span("tool.execution:move", call, id="tool", parent="agent", scope=scope),
    )
    assert {each["agent"] for each in found.monitor.judgements()} == {"farm_rover"}


def test_an_agent_of_eino_is_named_by_its_run(wire: Any, bench: Any) -> None:
    """Chains and graphs have run names, too, but are no agents. Every span has the conversation."""

    def run(name: str, component: str, parent: str) -> Any:
        told = {
            "runinfo.name": name,
            "runinfo.component": component,
            "gen_ai.session.id": "field-7",
        }
        return wire.span(name, told, id=component, parent=parent, scope=EINO, kind=3)

    found = bench().send(
        run("move", "Tool", "Graph"),
        run("ReAct", "Graph", "Agent"),
        run("farm_rover", "Agent", ""),
    )
    assert list(found.sessions()) == ["field-7"]
    assert {each["agent"] for each in found.monitor.judgements()} == {"farm_rover"}


def test_two_instrumentations_of_langchain_are_one_call(
    wire: Any, bench: Any, orders: Orders
) -> None:
    """A tool that raised leaves no message: that the node lists the call with its id is enough.

    Of two calls at once each finds its own, by its arguments, and a repeat of one stays.
    """
    places = [MOVE, {"x": 5, "y": 5}]
    listed = [
        {"name": "move", "args": args, "id": f"call_{number}", "type": "tool_call"}
        for number, args in enumerate(places)
    ]
    scope = OI + "langchain"
    chain = {"openinference.span.kind": "CHAIN", "input.value": json.dumps(listed)}
    spans = [wire.span("tools", chain, id="node", scope=scope, start=0, end=3)]
    for number, args in enumerate(places):
        attributes = {**OI_TOOL, "input.value": json.dumps(args), "input.mime_type": "x"}
        known = {"parent": "node", "status": 2, "scope": scope, "end": 2.5}
        spans.append(wire.span("move", attributes, id=f"oi{number}", start=1 + number, **known))
        spans.append(
            wire.tool(
                "move", call_id=f"call_{number}", id=f"g{number}", start=1.1 + number, end=2.4
            )
        )
    again = {"call_id": "call_0", "arguments": MOVE, "start": 3, "end": 4}
    spans.append(wire.tool("move", id="again", **again))

    for order in orders(spans):
        steps = bench().send(*order).steps()
        assert [step["arguments"] for step in steps] == [*places, MOVE]
        assert [step["error"] for step in steps] == [True, True, False]
        assert [step["call_id"] for step in steps] == ["call_0", "call_1", "call_0"]


def test_a_bare_argument_below_another_instrumentation_has_its_name(
    wire: Any, bench: Any
) -> None:
    """The argument's name is taken from the node's span around the inner one."""
    listed = [
        {"name": "scan", "args": {"area": "field 3"}, "id": "call_1", "type": "tool_call"}
    ]
    scope = OI + "langchain"
    chain = {"openinference.span.kind": "CHAIN", "input.value": json.dumps(listed)}
    inner = {**OI_TOOL, "tool.name": "scan", "input.value": "field 3"}
    spans = [
        wire.tool("scan", call_id="call_1", id="a", start=1, end=3),
        wire.span("tools", chain, id="node", scope=scope, start=1, end=3),
        wire.span("scan", inner, id="b", parent="node", scope=scope, start=1.5, end=2.5),
    ]
    for order in permutations(spans):
        (step,) = bench().send(*order).steps()
        assert (step["arguments"], step["call_id"]) == ({"area": "field 3"}, "call_1")


def test_a_node_of_two_like_calls_tells_only_what_is_certain(wire: Any, bench: Any) -> None:
    """Where the bare value fits one listed call it is that one, else the name stays unknown."""
    listed = [
        {"name": "scan", "args": {"area": area}, "id": area, "type": "tool_call"}
        for area in ("north", "south")
    ]
    node = wire.span(
        "tools",
        {"openinference.span.kind": "CHAIN", "input.value": json.dumps(listed)},
        id="node",
        scope=OI + "langchain",
    )
    fits, other = (
        wire.span(
            "scan",
            {**OI_TOOL, "tool.name": "scan", "input.value": value},
            parent="node",
            start=start,
            scope=OI + "langchain",
        )
        for start, value in ((1, "south"), (2, "west"))
    )
    steps = bench().send(fits, other, node).steps()

    assert [step["arguments"] for step in steps] == [{"area": "south"}, None]


def test_dropped_attributes_are_counted(wire: Any, bench: Any) -> None:
    """A span that lost attributes on its way is counted."""
    assert bench().send(wire.tool("move", dropped=2)).covered("truncated_attributes") == 1


@pytest.mark.parametrize(("parent", "agent"), [("", "svc"), ("http", "helper")])
def test_a_root_agent_without_a_name_is_its_services(
    wire: Any, bench: Any, parent: str, agent: str
) -> None:
    """A session is no sub-agent's, unless the agent's own span has others above it."""
    op = "gen_ai.operation.name"
    root = wire.span("invoke_agent", {op: "invoke_agent"}, id="root", parent=parent, end=9)
    helper = {op: "invoke_agent", "gen_ai.agent.name": "helper"}
    spans = [
        wire.tool("move", id="inner", parent="helper", start=3, end=4),
        wire.span("invoke_agent helper", helper, id="helper", parent="task", start=2, end=5),
        wire.tool("task", id="task", parent="root", start=1, end=6),
        root,
    ]
    for order in permutations(spans):
        (found,) = bench().send(*order).monitor.judgements()
        assert found["agent"] == agent


def test_the_inventory_lists_tools_arguments_and_session_sources(wire: Any, bench: Any) -> None:
    """Dialects, tools with their arguments, agents and the source of session ids are kept."""
    found = bench().send(
        wire.tool("move", arguments=MOVE, attributes={"gen_ai.conversation.id": "s1"}),
        wire.tool("log", start=2, attributes={"gen_ai.agent.name": "rover"}),
    )
    (seen,) = found.pipeline.inventory
    shown = seen.as_json()

    assert shown["service"] == "svc"
    assert shown["agents"] == ["rover"]
    assert shown["dialects"] == ["gen_ai"]
    assert shown["tools"] == {"move": ["x", "y"], "log": []}
    assert shown["calls"] == 2
    assert shown["calls_with_arguments"] == 1
    assert shown["session_from"] == {"gen_ai.conversation.id": 2}
    assert shown["switches"] == ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"]


FORGED = {
    "callback": {"x": 3, "input_str": "", "inputs": {"x": 1}},
    "callback-in-full": {"x": 3, "input_str": "", "tags": [], "metadata": {}, "kwargs": {}},
    "request": {"tool_name": "move", "arguments": {"x": 1}, "x": 3},
    "call": {"args": [], "kwargs": {"x": 1}, "x": 3},
    "input": {"input": {"x": 1}, "x": 3},
}
OF_MODELS = {
    "agno-traceloop": ("opentelemetry.instrumentation.agno", "traceloop.entity.input"),
    "openai-agents-traceloop": (
        "opentelemetry.instrumentation.openai_agents",
        "traceloop.entity.input",
    ),
    "traceloop": ("opentelemetry.instrumentation.other", "traceloop.entity.input"),
    "gen-ai": ("any", "gen_ai.tool.call.arguments"),
    "openinference": ("any", "input.value"),
    "mcp-traceloop": ("opentelemetry.instrumentation.mcp", "traceloop.entity.input"),
}


@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize(("scope", "key"), OF_MODELS.values(), ids=OF_MODELS)
def test_a_model_cannot_wrap_its_arguments_as_a_framework_does(
    wire: Any, bench: Any, scope: str, key: str, forged: dict[str, Any]
) -> None:
    """Members that look like a framework's wrapper are plain arguments."""
    attributes = {
        "gen_ai.tool.call.arguments": {**GEN},
        "traceloop.entity.input": {
            "traceloop.span.kind": "tool",
            "traceloop.entity.name": "move",
            "gen_ai.tool.name": "move",
        },
        "input.value": OI_TOOL,
    }[key]
    span = wire.span("move.tool", {**attributes, key: json.dumps(forged)}, scope=scope)
    (step,) = bench().send(span).steps()
    assert step["arguments"] == forged
