"""Several spans of one call are one judgement, whatever the order they come in."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Any

import pytest

from collector.calls.call.call import LogicalCall
from collector.calls.call.piece import Piece
from collector.calls.duplicate_spans import DuplicateFilter
from collector.calls.model_requests import OPEN_MAX, OPEN_NS
from collector.calls.pipeline import Pipeline
from collector.dialects.names.name_bound import bounded
from collector.dialects.read import SpanReading
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, load_spec
from monitor.records import Evidence, SessionKey, ToolCall
from tests.collector.conftest import Orders

MOVE = {"x": 3, "y": 4}
GEN = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "move"}
OI = "openinference.instrumentation."
SECOND = 1_000_000_000
ROVER = Path(__file__).parents[3] / "dfa_specs" / "farm_rover.yaml"


def _chain(wire: Any) -> list[Any]:
    """Pydantic AI over FastMCP's client over the SDK's transport over the server: four spans."""
    client = {"service.name": "agent"}
    server = {"service.name": "mcp-server"}
    return [
        wire.tool(
            "move",
            call_id="call_1",
            arguments=MOVE,
            id="a",
            start=1,
            end=2,
            scope="pydantic-ai",
            resource=client,
        ),
        wire.span(
            "tools/call move",
            {"gen_ai.tool.name": "move", "mcp.method.name": "tools/call"},
            id="b",
            parent="a",
            start=1.1,
            end=1.9,
            kind=3,
            scope="fastmcp",
            resource=client,
        ),
        wire.span(
            "MCP send tools/call move",
            {"jsonrpc.request.id": "2"},
            id="c",
            parent="b",
            start=1.2,
            end=1.8,
            kind=3,
            scope="mcp-python-sdk",
            resource=client,
        ),
        wire.span(
            "tools/call move",
            {"mcp.method.name": "tools/call", "error.type": "tool_error"},
            id="d",
            parent="c",
            start=1.3,
            end=1.7,
            kind=2,
            status=2,
            scope="fastmcp",
            resource=server,
        ),
    ]


def test_a_chain_of_four_spans_is_one_call_in_any_order(wire: Any, bench: Any) -> None:
    """Name and start come from the outermost span, arguments from any that has them, an error from any."""
    for spans in permutations(_chain(wire)):
        (step,) = bench().send(*spans).steps()

        assert (step["tool"], step["arguments"], step["error"]) == ("move", MOVE, True)
        assert step["span_id"] == _chain(wire)[0].span_id.hex()
        assert (step["start_ns"], step["call_id"]) == (_chain(wire)[0].start_ns, "call_1")


def test_a_chain_with_a_plain_span_between_is_one_call(wire: Any, bench: Any) -> None:
    """A span between that is no tool call does not break the chain."""
    outer, inner = _chain(wire)[0], _chain(wire)[3].but(parent_span_id=b"between!")
    between = wire.span("send").but(span_id=b"between!", parent_span_id=outer.span_id)
    for spans in permutations((outer, between, inner)):
        assert bench().send(*spans).tools() == ["move"]


def test_two_services_bind_on_the_outermost(wire: Any, bench: Any) -> None:
    """The call is the agent's, not the MCP server's, also where the server's span comes first."""
    found = bench().send(*reversed(_chain(wire)))
    call = next(iter(found.pipeline.traces)).tree.node(_chain(wire)[0].span_id).call
    assert call.judged.attributes["service.name"] == "agent"


def test_two_instrumentations_of_one_call_are_one(wire: Any, bench: Any) -> None:
    """AutoGen's native span below OpenInference's: arguments of one, call id and error of other."""
    outer = wire.span(
        "rover.move",
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "move",
            "input.value": json.dumps(MOVE),
        },
        id="a",
        start=1,
        end=2,
        status=1,
        scope=OI + "autogen_agentchat",
    )
    inner = wire.span(
        "execute_tool move",
        {**GEN, "gen_ai.tool.call.id": "call_1"},
        id="b",
        parent="a",
        start=1.1,
        end=1.9,
        status=2,
        scope="autogen-core",
    )
    for spans in permutations((outer, inner)):
        (step,) = bench().send(*spans).steps()
        assert (step["arguments"], step["error"], step["call_id"]) == (MOVE, True, "call_1")


def test_spans_with_one_call_id_that_overlap_are_one(wire: Any, bench: Any) -> None:
    """Two spans with one call id that overlap are one call, though neither is above the other."""
    one = wire.tool("move", call_id="c", id="a", parent="x", start=1, end=2)
    two = wire.tool("move", call_id="c", arguments=MOVE, id="b", parent="y", start=1.5, end=2.5)
    for spans in permutations((one, two)):
        (step,) = bench().send(*spans).steps()
        assert (step["arguments"], step["span_id"]) == (MOVE, one.span_id.hex())


def test_a_connected_component_is_one_call(wire: Any, bench: Any) -> None:
    """Of three instrumentations, A overlaps B, and B overlaps C: one call, even where A and C do not meet."""
    spans = [
        wire.tool(
            "move",
            call_id="c",
            id=name,
            parent=f"p{name}",
            start=start,
            end=start + 1.5,
            scope=name,
        )
        for name, start in (("a", 1), ("b", 2), ("c", 3))
    ]
    for order in permutations(spans):
        assert bench().send(*order).tools() == ["move"]


def test_repeats_and_retries_stay(wire: Any, bench: Any) -> None:
    """Siblings with the same tool and arguments are separate calls, and so are retries."""
    siblings = [wire.tool("move", arguments=MOVE, parent="agent", start=n) for n in (1, 2)]
    overlapping = [
        wire.tool("move", arguments=MOVE, id=f"o{n}", parent="agent", start=5, end=6)
        for n in (1, 2)
    ]
    retried = [wire.tool("scan", call_id="c", parent="agent", start=n) for n in (7, 8)]
    agent = wire.span("run", id="agent", start=0, end=9)

    found = bench().send(*siblings, *overlapping, *retried, agent)
    assert found.tools() == ["move"] * 4 + ["scan"] * 2


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_begins_behind_the_end_of_the_call_above_is_another(
    wire: Any, bench: Any, order: tuple[int, int]
) -> None:
    """Semantic Kernel for Java leaves its context behind in threads: later calls seem to be inside earlier ones."""
    key = {"semantic_kernel.function.invocation.name": "scan"}
    name = "function_invocation rover-scan"
    spans = [
        wire.span(name, key, id="a", start=1, end=2),
        wire.span(name, key, id="b", parent="a", start=3, end=4),
    ]
    found = bench().send(*(spans[each] for each in order))

    assert found.tools() == ["rover-scan", "rover-scan"]


def test_an_agent_as_a_tool_is_no_chain(wire: Any, bench: Any) -> None:
    """A tool runs an agent, which calls a tool of the same name: these are two calls."""
    outer = wire.tool("ask", id="a", start=1, end=5)
    agent = wire.span(
        "invoke_agent sub",
        {"gen_ai.operation.name": "invoke_agent"},
        id="b",
        parent="a",
        start=1.5,
        end=4.5,
    )
    inner = wire.tool("ask", id="c", parent="b", start=2, end=3)
    other = wire.tool("water", id="d", parent="b", start=3, end=4)
    for spans in permutations((outer, agent, inner, other)):
        assert bench().send(*spans).tools() == ["ask", "ask", "water"]


def test_different_call_ids_are_different_calls(wire: Any, bench: Any) -> None:
    """A tool below one of the same name is another call if each has its own call id from the model."""
    outer = wire.tool("ask", call_id="1", id="a", start=1, end=5)
    inner = wire.tool("ask", call_id="2", id="b", parent="a", start=2, end=3)
    for spans in permutations((outer, inner)):
        assert bench().send(*spans).tools() == ["ask", "ask"]


def test_a_server_with_a_slow_clock_is_still_inside(wire: Any, bench: Any) -> None:
    """Ancestry decides which span is outermost; the clocks of two machines do not."""
    outer = wire.tool("move", arguments=MOVE, id="a", start=10, end=11)
    inner = wire.span(
        "tools/call move",
        {"mcp.method.name": "tools/call"},
        id="b",
        parent="a",
        start=3,
        end=4,
        kind=2,
        scope="mcp-python-sdk",
    )
    for spans in permutations((outer, inner)):
        (step,) = bench().send(*spans).steps()
        assert step["start_ns"] == outer.start_ns


def test_a_span_sent_again_is_a_duplicate(wire: Any, bench: Any) -> None:
    """A re-export is counted, and changes nothing."""
    span = wire.tool("move", arguments=MOVE)
    found = bench().send(span, span, span)

    assert found.tools() == ["move"]
    assert +Counter(found.stats.dropped) == {"duplicate": 2}


def _pending(wire: Any, **more: Any) -> Any:
    attributes = {
        **GEN,
        "gen_ai.tool.call.arguments": json.dumps(MOVE),
        "logfire.span_type": "pending_span",
        "logfire.pending_parent_id": "00000000000000aa",
    }
    return wire.span(
        "execute_tool move", attributes, id="p", parent="real", start=1, end=1, **more
    )


def test_a_pending_span_is_judged_and_then_completed(wire: Any, bench: Any) -> None:
    """Logfire sends a pending span when a call begins. The final span completes the same step."""
    real = wire.tool("move", id="real", start=1, end=3, status=2).but(
        parent_span_id=bytes(7) + b"\xaa"
    )
    found = bench().send(_pending(wire))
    (before,) = found.steps()
    (after,) = found.send(real).steps()

    assert (before["evidence"], before["error"]) == ("pending", False)
    assert (after["evidence"], after["error"]) == ("executed", True)
    assert before["span_id"] == after["span_id"] == real.span_id.hex()
    assert after["arguments"] == MOVE


def test_a_pending_span_after_the_real_one_is_a_duplicate(wire: Any, bench: Any) -> None:
    """A pending span that arrives after the final one changes nothing."""
    real = wire.tool("move", id="real", arguments=MOVE, start=1, end=3)
    found = bench().send(real, _pending(wire))

    assert [step["evidence"] for step in found.steps()] == ["executed"]


def test_a_span_without_an_end_is_pending(wire: Any, bench: Any) -> None:
    """A span sent at its start is a pending call until it comes with its end."""
    begun = wire.tool("move", id="a", start=1, end=0)
    ended = wire.tool("move", id="a", start=1, end=2)
    found = bench().send(begun)
    assert [step["evidence"] for step in found.steps()] == ["pending"]

    found.send(ended, ended)
    assert [step["evidence"] for step in found.steps()] == ["executed"]


def _llm(wire: Any, number: int, calls: list[tuple[str, str]], answered: list[str]) -> Any:
    """An LLM span of OpenInference with requested calls, in a trace of its own."""
    attributes: dict[str, Any] = {"openinference.span.kind": "LLM", "session.id": "s1"}
    for index, call_id in enumerate(answered):
        attributes[f"llm.input_messages.{index}.message.tool_call_id"] = call_id
    for index, (call_id, tool) in enumerate(calls):
        base = f"llm.output_messages.0.message.tool_calls.{index}.tool_call."
        attributes[base + "id"] = call_id
        attributes[base + "function.name"] = tool
        attributes[base + "function.arguments"] = json.dumps(MOVE)
    return wire.span("ChatCompletion", attributes, trace=f"t{number}", start=number)


def _dialogue(wire: Any) -> list[Any]:
    return [
        _llm(wire, 1, [("c1", "move")], []),
        _llm(wire, 2, [("c2", "scan"), ("c3", "scan")], ["c1"]),
        _llm(wire, 3, [], ["c1", "c2", "c3"]),
    ]


def test_requests_are_judged_where_tools_are_silent(wire: Any, bench: Any) -> None:
    """If an answer arrives without a tool span, the model's requests are judged as calls."""
    found = bench().send(*_dialogue(wire))
    steps = found.steps()

    assert [step["tool"] for step in steps] == ["move", "scan", "scan"]
    assert {step["evidence"] for step in steps} == {"requested"}
    assert [step["call_id"] for step in steps] == ["c1", "c2", "c3"]
    assert steps[0]["arguments"] == MOVE
    assert found.stats.counts["calls", "requested"] == 3


def test_requests_are_not_judged_where_tools_have_spans(wire: Any, bench: Any) -> None:
    """A tool span of the same service stops requests from being judged, and withdraws earlier ones."""
    tool = wire.tool("move", call_id="c1", start=1.5, attributes={"session.id": "s1"})
    one, two, three = _dialogue(wire)

    for spans in ((tool, one, two, three), (one, tool, two, three), (one, two, three, tool)):
        steps = bench().send(*spans).steps()
        assert [(s["tool"], s["evidence"]) for s in steps] == [("move", "executed")]


def test_requests_by_setting(wire: Any, bench: Any) -> None:
    """`always` judges the first request at once; `never` judges none."""
    first = _dialogue(wire)[0]

    assert bench(requested="always").send(first).tools() == ["move"]
    assert bench(requested="never").send(*_dialogue(wire)).tools() == []
    assert bench().send(first).tools() == []


def test_a_repeated_model_output_is_one_request(wire: Any, bench: Any) -> None:
    """An agent's span that repeats the model's output asks for nothing new."""
    first = _dialogue(wire)[0]
    again = first.but(span_id=b"another!")
    assert bench(requested="always").send(first, again).tools() == ["move"]


def test_models_that_number_their_calls_ask_in_each_conversation(wire: Any, bench: Any) -> None:
    """`call_1` of another conversation is another request."""
    one, other = (_llm(wire, turn, [("call_1", "move")], []) for turn in (1, 2))
    assert bench(requested="always").send(one, other).tools() == ["move", "move"]


def test_a_request_and_its_execution_are_one_call(wire: Any, bench: Any) -> None:
    """Where requests are judged always, the tool span with the same call id completes them."""
    asked = _dialogue(wire)[0]
    tool = wire.tool(
        "move",
        call_id="c1",
        trace="t1",
        start=1.5,
        arguments=MOVE,
        attributes={"session.id": "s1"},
    )
    for spans in permutations((asked, tool)):
        steps = bench(requested="always").send(*spans).steps()
        assert [(s["tool"], s["evidence"]) for s in steps] == [("move", "executed")]
        assert steps[0]["span_id"] == tool.span_id.hex()


def test_messages_with_tool_call_parts_are_requests(wire: Any, bench: Any) -> None:
    """Traceloop and the conventions write requests as parts of the output messages."""
    parts = [{"type": "tool_call", "id": "c1", "name": "move", "arguments": MOVE}]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}]),
    }
    (step,) = bench(requested="always").send(wire.span("openai.chat", attributes)).steps()
    assert (step["tool"], step["arguments"], step["call_id"]) == ("move", MOVE, "c1")


_GIVEN: dict[str, tuple[str, Any]] = {
    "openinference": ("llm.input_messages.2.message.tool_call_id", "c0"),
    "traceloop": ("gen_ai.prompt.2.tool_call_id", "c0"),
    "conventions": (
        "gen_ai.input.messages",
        [{"parts": [{"type": "tool_call_response", "id": "c0"}]}],
    ),
    "chat completions": ("input.value", {"messages": [{"role": "tool", "tool_call_id": "c0"}]}),
    "responses": ("input.value", [{"type": "function_call_output", "call_id": "c0"}]),
    "anthropic": ("input.value", {"messages": [{"content": [{"type": "tool_result"}]}]}),
    "ai sdk": ("ai.prompt.messages", [{"content": [{"type": "tool-result"}]}]),
    "langfuse": ("langfuse.observation.input", [{"role": "tool", "tool_call_id": "c0"}]),
    "bedrock": ("input.value", {"messages": [{"content": [{"toolResult": {"status": "ok"}}]}]}),
    "google": ("input.value", {"contents": [{"parts": [{"functionResponse": {"id": "c0"}}]}]}),
    "google in python": ("input.value", {"contents": [{"parts": [{"function_response": {}}]}]}),
    "a role": ("gen_ai.input.messages", [{"role": "tool", "parts": [{"type": "text"}]}]),
    "a role, close": ("gen_ai.input.messages", '[{"role":"tool","content":"done"}]'),
    "no text": ("gen_ai.input.messages", ({"role": "tool", "content": "done"},)),
}
_TOLD: dict[str, tuple[str, Any]] = {
    "nothing": ("input.value", ""),
    "a first request": ("input.value", {"messages": [{"role": "user", "content": "go"}]}),
    "a text like an answer": ("input.value", {"content": '{"tool_call_id": "c0"}'}),
    "a text alone": ("input.value", 'They answered {"tool_call_id": "c0"}, go on'),
    "another type": ("input.value", 7),
}


def _turn(wire: Any, key: str, value: Any, **more: Any) -> int:
    """The number of harmful calls of a model that requests a move, under a task that begins otherwise."""
    asked = {
        "openinference.span.kind": "LLM",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "move",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": json.dumps(
            MOVE
        ),
        key: value if isinstance(value, str | int | tuple) else json.dumps(value),
        **more.pop("attributes", {}),
    }
    monitor = Monitor([load_spec(ROVER)], Limits(idle_ns=1), started_ns=0)
    pipeline = Pipeline(monitor, Stats(), lambda _: None, requested="always")
    rover = {"service.name": "farm-rover", **more.pop("resource", {})}
    span = wire.span("ChatCompletion", asked, start=1, resource=rover, **more)
    pipeline.consume([span], span.end_ns + SECOND, "test")
    (found,) = [each for each in monitor.judgements() if each["spec"] == "farm_rover"]
    assert found["calls"] == 1
    return int(found["harmful"])


@pytest.mark.parametrize("given", _GIVEN.values(), ids=_GIVEN)
def test_a_turn_of_a_bare_model_is_not_paged_for_what_other_traces_hold(
    wire: Any, given: tuple[str, Any]
) -> None:
    """It was given answers of calls that its session cannot have: each turn is a trace, and no id."""
    assert _turn(wire, *given) == 0


@pytest.mark.parametrize("told", _TOLD.values(), ids=_TOLD)
def test_a_first_turn_of_a_bare_model_is_judged_from_the_beginning(
    wire: Any, told: tuple[str, Any]
) -> None:
    """The model was given no tool results, so no call was made before."""
    assert _turn(wire, *told) == 1


@pytest.mark.parametrize(
    "more",
    [
        {"attributes": {"session.id": "s1"}},
        {"resource": {"session.id": "s1"}},
    ],
)
def test_a_turn_that_was_given_results_which_its_session_lacks_is_not_paged(
    wire: Any, more: dict[str, Any]
) -> None:
    """A session id does not say that all turns share it: the calls behind these results are elsewhere."""
    assert _turn(wire, *_GIVEN["conventions"], **more) == 0
    assert _turn(wire, *_TOLD["a first request"], **more) == 1


def test_a_model_that_asks_for_nothing_more_confirms_what_was_asked(
    wire: Any, bench: Any
) -> None:
    """It was given the answer, and no tool has a span: the call was made, though no other follows."""
    key = "llm.output_messages.0.message.tool_calls.0.tool_call"
    asked = {
        "openinference.span.kind": "LLM",
        f"{key}.id": "c1",
        f"{key}.function.name": "move",
    }
    said = {
        "openinference.span.kind": "LLM",
        "input.value": json.dumps([{"role": "tool", "tool_call_id": "c1"}]),
        "output.value": "moved",
    }
    made = bench().send(wire.span("model", asked, start=1))
    assert made.tools() == []

    assert made.send(wire.span("model", said, start=2)).tools() == ["move"]


@pytest.mark.parametrize(
    ("asked", "given", "judged"),
    [
        ({}, {"llm.input_messages.2.message.role": "tool"}, True),
        ({}, {"gen_ai.prompt.2.role": "tool"}, True),
        ({}, {"input.value": '[{"role": "tool", "content": "moved"}]'}, True),
        ({}, {"llm.input_messages.2.message.role": "user"}, False),
        ({"id": "c1"}, {"gen_ai.prompt.2.role": "tool"}, True),
        ({"id": "c1"}, {"input.value": '[{"role": "tool", "tool_call_id": "c7"}]'}, False),
    ],
)
def test_an_answer_without_an_id_is_one_where_nothing_has_ids(
    wire: Any, bench: Any, asked: dict[str, str], given: dict[str, str], judged: bool
) -> None:
    """Some instrumentations leave the ids out, of requests or of answers."""
    key = "llm.output_messages.0.message.tool_calls.0.tool_call"
    llm = {"openinference.span.kind": "LLM"}
    told = {**llm, f"{key}.function.name": "move"} | {f"{key}.{k}": v for k, v in asked.items()}
    made = bench().send(wire.span("model", told, start=1), wire.span("m", llm | given, start=2))

    assert made.tools() == (["move"] if judged else [])
    late = bench().send(wire.span("model", told, start=2), wire.span("m", llm | given, start=1))
    assert late.tools() == []


def test_a_call_of_llama_stack_and_the_mcp_clients_below_are_one(wire: Any, bench: Any) -> None:
    """In newer versions the MCP client below writes a span, too. Both are one call."""
    scope = "llama_stack.providers.inline.responses.builtin.responses.tool_executor"
    made = bench().send(
        wire.span(
            "MCP send tools/call move", scope="mcp-python-sdk", parent="o", start=2, kind=3
        ),
        wire.span("invoke_mcp_tool", {"tool_name": "move"}, scope=scope, id="o", start=1),
    )
    assert made.tools() == ["move"]


def test_what_googles_client_has_executed_itself_is_judged_at_once(
    wire: Any, bench: Any
) -> None:
    """One model span holds both the requested calls and their results."""
    key = "message.tool_calls.{}.tool_call.function."
    told = {
        "openinference.span.kind": "LLM",
        key.format(0) + "name": "unlock_safety",
        key.format(1) + "name": "move",
        key.format(1) + "arguments": json.dumps(MOVE),
    }
    steps = bench().send(wire.span("GenerateContent", told, start=1)).steps()

    assert [(step["tool"], step["arguments"]) for step in steps] == [
        ("unlock_safety", {}),
        ("move", MOVE),
    ]


@pytest.mark.parametrize(
    ("told", "scope", "judged"),
    [
        (
            {"automatic_function_calling_history": [{"parts": [{"function_response": {}}]}]},
            "",
            True,
        ),
        ({"automatic_function_calling_history": [{"parts": [{"text": "go"}]}]}, "", False),
        (
            {"candidates": [{"automatic_function_calling_history": "function_response"}]},
            "",
            False,
        ),
        ({"automatic_function_calling_history": [{"function_response": {}}]}, "other", False),
    ],
)
def test_what_googles_client_has_executed_while_it_streamed_is_judged_at_once(
    wire: Any, bench: Any, told: dict[str, Any], scope: str, judged: bool
) -> None:
    """Only the client's output shows that the requests were executed."""
    key = "llm.output_messages.0.message.tool_calls.0.tool_call.function."
    streamed = {
        "openinference.span.kind": "LLM",
        key + "name": "move",
        key + "arguments": json.dumps(MOVE),
        "output.value": json.dumps(told),
    }
    scope = scope or "openinference.instrumentation.google_genai"
    made = bench().send(wire.span("GenerateContentStream", streamed, scope=scope))
    assert made.tools() == (["move"] if judged else [])


def test_a_deep_argument_does_not_hide_what_googles_client_has_executed(
    wire: Any, bench: Any
) -> None:
    """The results repeat the model's arguments, and are unreadable if those nest too deeply."""
    key = "llm.output_messages.0.message.tool_calls.0.tool_call.function."
    deep = "[" * 5_000 + "]" * 5_000
    streamed = {
        "openinference.span.kind": "LLM",
        key + "name": "move",
        key + "arguments": f'{{"x": 3, "note": {deep}}}',
        "output.value": f'{{"candidates": {deep}, "automatic_function_calling_history": []}}',
    }
    scope = "openinference.instrumentation.google_genai"
    (step,) = bench().send(wire.span("GenerateContentStream", streamed, scope=scope)).steps()
    assert (step["tool"], step["arguments"]["x"]) == ("move", 3)


def test_the_span_of_a_call_that_was_judged_as_requested_shows_that_tools_have_spans(
    wire: Any, bench: Any
) -> None:
    """Requests that were not executed are withdrawn, and later requests are not judged."""
    key = "llm.output_messages.0.message.tool_calls.0.tool_call"

    def model(number: int, tool: str) -> Any:
        told = {
            "openinference.span.kind": "LLM",
            f"{key}.id": f"c{number}",
            f"{key}.function.name": tool,
            "input.value": json.dumps([{"role": "tool", "tool_call_id": f"c{number - 1}"}]),
        }
        return wire.span("model", told, id=f"m{number}", start=number, parent="agent")

    made = bench().send(model(1, "no_tool"), model(2, "move"))
    assert made.tools() == ["no_tool", "move"]
    made.send(wire.tool("move", call_id="c2", start=2.5, parent="agent"), model(3, "scan"))

    assert [(step["tool"], step["evidence"]) for step in made.steps()] == [("move", "executed")]
    made.pipeline.finish()
    assert made.covered("requested_only") == 2


_FUNCTION = {"name": "move", "arguments": json.dumps(MOVE)}
_ASKED = {"role": "assistant", "tool_calls": [{"id": "c1", "function": _FUNCTION}]}
_LANGCHAIN = {"tool_calls": [{"id": "c1", "name": "move", "args": MOVE, "type": "tool_call"}]}
_RESPONSES = [
    {"type": "message"},
    {"type": "function_call", "id": "fc", "call_id": "c1", **_FUNCTION},
]


@pytest.mark.parametrize(
    ("output", "asks"),
    [
        (_ASKED, True),
        ([_ASKED], True),
        (_LANGCHAIN, True),
        (_RESPONSES, True),
        ({"content": "no tool_calls"}, False),
        ({"tool_calls": None}, False),
        ({"tool_calls": [7, {"function": 7}, {"function": {}}]}, False),
        ([7, "tool_calls"], False),
        ("function_call", False),
    ],
)
def test_a_generation_of_langfuse_holds_requests(
    wire: Any, bench: Any, output: Any, asks: bool
) -> None:
    """Requests are read from the response of the model's API. Other outputs hold none."""
    told = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.output": json.dumps(output),
    }
    steps = bench(requested="always").send(wire.span("OpenAI-generation", told)).steps()
    found = [(step["tool"], step["arguments"], step["call_id"]) for step in steps]
    assert found == ([("move", MOVE, "c1")] if asks else [])


@pytest.mark.parametrize("kind", ["tool", "span", "agent"])
def test_only_a_generation_of_langfuse_asks(wire: Any, bench: Any, kind: str) -> None:
    """Other observations may have a message as their output, too."""
    told = {
        "langfuse.observation.type": kind,
        "langfuse.observation.output": json.dumps(_ASKED),
    }
    found = bench(requested="always").send(wire.span("scan", told))
    assert found.tools() == (["scan"] if kind == "tool" else [])


def test_texts_of_requests_are_bounded(wire: Any, bench: Any) -> None:
    """Requested calls have the bounds of calls: long ids end with a digest, and a tool with too long a name is left out."""
    sent = [("i" * 9_000, "move"), ("c2", "m" * 9_000)]
    steps = bench(requested="always").send(_llm(wire, 1, sent, [])).steps()
    assert [(step["tool"], step["call_id"]) for step in steps] == [
        ("move", bounded("i" * 9_000))
    ]

    given = {"input_str": "{}", "inputs": MOVE, "kwargs": {"tool_call_id": "i" * 9_000}}
    entity = {"traceloop.span.kind": "tool", "traceloop.entity.name": "move"}
    entity["traceloop.entity.input"] = json.dumps(given)
    scope = "opentelemetry.instrumentation.langchain"
    (step,) = bench().send(wire.span("move.tool", entity, scope=scope)).steps()
    assert step["call_id"] == bounded("i" * 9_000)


def test_half_a_surrogate_pair_is_read_like_any_text(wire: Any, bench: Any) -> None:
    """It may be in names and ids of requests, and in nested arguments."""
    part = {"type": "tool_call", "id": "c\ud800", "name": "move\ud800", "arguments": "\ud800"}
    asked = {
        "gen_ai.operation.name": "chat",
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [part]}]),
    }
    (step,) = bench(requested="always").send(wire.span("openai.chat", asked)).steps()
    assert (step["tool"], step["call_id"]) == ("move\ud800", "c\ud800")

    for given, expected in (("{\ud800", None), ('{"a": "\ud800"}', {"a": "\ud800"})):
        done = {**GEN, "gen_ai.tool.call.arguments": json.dumps(given)}
        (step,) = bench().send(wire.span("execute_tool move", done)).steps()
        assert step["arguments"] == expected


def test_an_answer_under_the_other_id_of_its_call_is_an_answer(wire: Any, bench: Any) -> None:
    """OpenAI's Responses name a call `fc_1` in the output and `call_1` in the next input."""

    def turn(number: int, tool: str, history: list[Any]) -> Any:
        part = {"type": "tool_call", "id": f"fc_{number}", "name": tool, "arguments": MOVE}
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": json.dumps([{"role": "user", "parts": history}]),
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [part]}]),
        }
        return wire.span("openai.response", attributes, trace=f"t{number}", start=number)

    asked = {"type": "tool_call", "id": "call_1", "name": "move", "arguments": MOVE}
    answer = {"type": "tool_call_response", "id": "call_1", "response": "at 3,4"}
    first, second = turn(1, "move", []), turn(2, "scan", [asked, answer])

    assert bench().send(first, second).tools() == ["move", "scan"]
    assert bench().send(first, turn(2, "scan", [asked])).tools() == []


def test_a_request_that_was_never_executed_is_counted(wire: Any, bench: Any) -> None:
    """Requests less executions, by trace, once their time is over."""
    tool = wire.tool("move", trace="t1", start=1.5)
    asked = _llm(wire, 1, [("c1", "move"), ("c2", "water")], [])
    found = bench().send(tool, asked)
    assert found.covered("requested_only") == 0

    found.send(_llm(wire, 9, [], []), now=3600 + OPEN_NS / SECOND + 1)
    found.pipeline.finish()
    assert found.covered("requested_only") == 1


def test_each_request_is_awaited_for_its_own_time(wire: Any, bench: Any) -> None:
    """A younger request has its time still, whether the older one was executed or not."""
    life = OPEN_NS / SECOND
    for tools, counts in (((), [0, 1, 2]), (("move",), [0, 0, 1])):
        found = bench().send(_llm(wire, 1, [("c1", "move")], []), now=0)
        found.send(_llm(wire, 2, [("c2", "water")], []), now=life - 1)
        found.send(*(wire.tool(tool, trace="t1", start=1.5) for tool in tools), now=life - 1)
        seen = []
        for now in (life - 1, life, 2 * life - 1):
            found.send(wire.span("step", trace="other", start=now), now=now)
            seen.append(found.covered("requested_only"))

        assert seen == counts


@pytest.mark.parametrize("tool_first", [True, False])
@pytest.mark.parametrize("call_id", ["c1", ""])
def test_a_request_that_is_told_again_is_the_same_one(
    wire: Any, bench: Any, tool_first: bool, call_id: str
) -> None:
    """A repeated request counts once, whether or not tool spans were known at first."""
    tool = wire.tool("move", trace="t1", start=1.5)
    asked = _llm(wire, 1, [(call_id, "move")], [])
    again = _llm(wire, 1, [(call_id, "move")], [])
    found = bench().send(tool, asked) if tool_first else bench().send(asked, tool)
    found.send(again)
    found.send(again)
    found.pipeline.finish()

    assert found.covered("requested_only") == 0
    assert found.tools() == ["move"]


def test_requests_of_a_trace_wait_each_for_its_tool(wire: Any, bench: Any) -> None:
    """However many tools traces wait for, each execution ends one wait for its own tool."""
    requests = [(f"c{number}", tool) for number, tool in enumerate("abacb")]
    for order, left in (("abc", 3), ("cab", 3), ("aa", 4), ("aaa", 4), ("bcaab", 1), ("", 6)):
        found = bench().send(_llm(wire, 1, requests, []), _llm(wire, 2, [("c", "a")], []))
        for start, tool in enumerate(order, start=2):
            found.send(wire.tool(tool, trace="t1", start=start))
        found.pipeline.finish()

        assert found.covered("requested_only") == left


@pytest.mark.parametrize("tool_first", [True, False])
def test_requests_of_tools_with_too_long_names_are_counted(
    wire: Any, bench: Any, tool_first: bool
) -> None:
    """They are counted and not awaited; the requests beside them are read."""
    tool = wire.tool("move", trace="t1", start=1.5)
    asked = _llm(wire, 1, [("c1", "m" * 1_025), ("c2", "move"), ("c3", "w" * 1_024)], [])
    found = bench().send(tool, asked) if tool_first else bench().send(asked, tool)
    found.pipeline.finish()

    assert found.covered("over_bound") == 1
    assert found.covered("requested_only") == 1
    assert found.tools() == ["move"]


def test_requests_beyond_the_bound_are_counted(wire: Any, bench: Any) -> None:
    """Beyond the bound, the oldest requests are dropped a few at a time, and each is counted."""
    found, per_turn = bench(), 250
    turns = OPEN_MAX // per_turn + 1
    for number in range(turns):
        tools = [(f"c{number}-{index}", f"tool{index}") for index in range(per_turn)]
        parts = [{"type": "tool_call", "id": id_, "name": tool} for id_, tool in tools]
        output = {"gen_ai.output.messages": json.dumps([{"parts": parts}])}
        found.send(wire.span("chat", output, trace=f"t{number}", start=number))
    lost = found.covered("requested_only")
    found.pipeline.finish()

    assert 0 < lost <= OPEN_MAX // 8
    assert found.covered("requested_only") == turns * per_turn


def test_seen_forgets_after_two_periods() -> None:
    """A span is remembered for at least one period, and not for ever."""
    seen, key = DuplicateFilter(period_ns=10), b"a trace's bytes.span"
    assert not seen.is_repeat(key, 0)
    assert seen.is_repeat(key, 9)
    assert seen.is_repeat(key, 11)
    assert not seen.is_repeat(key, 40)


def test_seen_is_bounded_in_all_its_parts() -> None:
    """However many spans come, each is found again at once, and at most two bounds are kept."""
    seen = DuplicateFilter(bound=16 * 50)
    random = Random(1)
    keys = [random.randbytes(24) for _ in range(6_000)]
    for key in keys:
        assert not seen.is_repeat(key, 0)
        assert key in seen
        assert seen.is_repeat(key, 0)
    kept = sum(key in seen for key in keys)

    assert 16 * 50 <= kept <= 2 * 16 * 50


def test_a_duplicate_is_a_whole_id_of_the_same_trace() -> None:
    """Neither halves of two known ids nor an id of another tenant or trace are duplicates."""
    seen, trace = DuplicateFilter(), b"a trace's bytes."
    first, second = b"12345678", b"abcdefgh"
    assert not seen.is_repeat(trace + first, 0)
    assert not seen.is_repeat(trace + second, 0)
    assert not seen.is_repeat(trace + first[4:] + second[:4], 0)
    assert not seen.is_repeat(trace + first + b"a tenant", 0)
    assert not seen.is_repeat(trace[::-1] + first, 0)
    assert seen.is_repeat(trace + first, 0)
    assert seen.is_repeat(trace + first + b"a tenant", 0)


@pytest.mark.parametrize("ids_a_trace", [1, 5, 500])
def test_seen_is_bounded_in_bytes(ids_a_trace: int) -> None:
    """The remembered span ids of a trace stay below the bound in bytes. The latest id is always known."""
    seen = DuplicateFilter(bytes_max=1 << 20)
    random, trace = Random(1), b""
    for number in range(30_000):
        if number % ids_a_trace == 0:
            trace = random.randbytes(16)
        key = trace + random.randbytes(8)
        assert not seen.is_repeat(key, 0)
        assert key in seen
    assert 1 << 18 < seen.size() <= (1 << 20) + 16 * 20_000


@pytest.mark.parametrize("count", [1, 3, 64, 65, 200])
def test_a_duplicate_is_found_in_a_trace_of_any_length(count: int) -> None:
    """Each id is known once it was added, and judged anew once it is forgotten, whatever stands beside it."""
    seen, trace = DuplicateFilter(), b"a trace's bytes."
    keys = [trace + number.to_bytes(8, "big") for number in range(1, count + 1)]
    assert not any(seen.is_repeat(key, 0) for key in keys)
    assert all(seen.is_repeat(key, 0) for key in keys)
    for key in keys[::2]:
        seen.forget(key)
    assert [key in seen for key in keys] == [place % 2 == 1 for place in range(count)]
    assert not any(seen.is_repeat(key, 0) for key in keys[::2])


def _piece(
    span_id: bytes = b"1",
    start_ns: int = 5,
    end_ns: int = 6,
    *,
    arguments: Mapping[str, Any] | None = None,
    evidence: Evidence = Evidence.EXECUTED,
    attributes: Mapping[str, Any] | None = None,
) -> Piece:
    """A part of a call; fields that are not given do not matter."""
    reading = SpanReading("gen_ai", "move", arguments, call_id="c1")
    return Piece(span_id, b"0", reading, start_ns, end_ns, evidence, attributes or {})


def test_a_call_that_knows_nothing_new_is_the_same_call() -> None:
    """Without news the same object is returned; news gives a new one."""
    key, attributes = SessionKey("", "s"), {"service.name": "svc"}
    call = LogicalCall(_piece(evidence=Evidence.PENDING))

    def told(key: SessionKey = key, source: str = "trace", gaps: bool = False) -> ToolCall:
        return call.tool_call(b"t", key, source, attributes, gaps=gaps)

    first = told()
    call.look_up("", None, b"")
    assert told() is first
    assert told(SessionKey("", "s")) is first
    assert told(SessionKey("", "other")).session.id == "other"
    assert told(source="session.id").session_from == "session.id"
    assert told(gaps=True).gaps
    call.look_up("rover", None, b"")
    assert told().agent == "rover"
    call.look_up("rover", (), b"9")
    assert told().parent_span_id == b"9"
    call.add(_piece(arguments=MOVE))
    assert (told().arguments, told().evidence) == (MOVE, Evidence.EXECUTED)
    call.absorb(LogicalCall(_piece(b"2", start_ns=3)))
    assert (told().span_id, told().start_ns) == (b"2", 3)


@pytest.mark.parametrize(
    ("language", "start_ns", "end_ns", "told"),
    [
        ("nodejs", 81_000_000, 85_748_473, 85_000_000),
        ("webjs", 81_000_000, 81_300_000, 81_000_001),
        ("nodejs", 81_000_000, 81_000_000, 81_000_000),
        ("nodejs", 81_000_000, 0, 0),
        ("nodejs", 81_000_001, 85_748_473, 85_748_473),
        ("python", 81_000_000, 85_748_473, 85_748_473),
    ],
)
def test_an_end_is_told_no_finer_than_its_beginning(
    language: str, start_ns: int, end_ns: int, told: int
) -> None:
    """JavaScript's spans start at whole milliseconds, so ends are rounded, or the next call would overlap."""
    resource = {"telemetry.sdk.language": language}
    call = LogicalCall(_piece(start_ns=start_ns, end_ns=end_ns, attributes=resource))
    found = call.tool_call(b"t", SessionKey("", "s"), "trace", resource, gaps=False)
    assert found.end_ns == told


def test_another_tenant_cannot_send_a_span_first(wire: Any, bench: Any) -> None:
    """Who is called within a call knows its ids before it ends; a span of theirs is another's."""
    theirs = wire.tool(
        "noop", id="call", resource={"service.name": "a", "service.namespace": "b"}
    )
    found = bench().send(theirs, wire.tool("pay", id="call"), wire.tool("pay", id="call"))

    assert sorted(found.tools()) == ["noop", "pay"]
    assert found.covered("duplicate") == 1


def test_parallel_calls_of_one_id_are_as_many_as_they_have_arguments(
    wire: Any, bench: Any
) -> None:
    """Call ids that models write may repeat. One instrumentation reports each call once."""
    spans = [
        wire.tool("pay", call_id="pay:0", arguments={"amount": 1}, id="a", start=1, end=2),
        wire.tool("pay", call_id="pay:0", arguments={"amount": 9}, id="b", start=1.5, end=3),
    ]
    for order in permutations(spans):
        steps = bench().send(*order).steps()
        assert [step["arguments"] for step in steps] == [{"amount": 1}, {"amount": 9}]


def test_a_placeholder_for_an_unknown_id_is_no_id(wire: Any, bench: Any) -> None:
    """Google's ADK writes the same text for each call whose id it does not know."""
    attributes = {"gen_ai.tool.call.id": "<not specified>"}
    spans = [
        wire.tool("pay", attributes=attributes, id="a", start=1, end=2),
        wire.tool("pay", attributes=attributes, id="b", start=1.5, end=3),
    ]
    assert bench().send(*spans).tools() == ["pay", "pay"]


@pytest.mark.parametrize("last", ["well", "badly"])
def test_an_attempt_that_was_made_anew_does_not_tell_how_it_went(
    wire: Any, bench: Any, last: str
) -> None:
    """The result is that of the last attempt and the spans below it."""
    mcp = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "pay"}

    def attempt(name: str, start: float, status: int, parent: str = "call") -> Any:
        return wire.span(
            f"tools/call pay {name}",
            mcp,
            id=name,
            parent=parent,
            start=start,
            end=start + 1,
            status=status,
        )

    spans = [
        wire.tool("pay", id="call", start=1, end=9),
        attempt("first", 2, 2),
        attempt("server", 2, 2, parent="first"),
        attempt("second", 4, 2 if last == "badly" else 0),
    ]
    for order in permutations(spans):
        (step,) = bench().send(*order).steps()
        assert step["error"] is (last == "badly")


def test_a_piece_stays_with_the_call_above_it_where_an_id_is_used_twice(
    wire: Any, bench: Any, orders: Orders
) -> None:
    """The client's span failed below the second call: that one has the error, in any order."""
    client = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "move"}
    spans = [
        wire.tool("move", id="one", call_id="i", arguments={"n": 1}, start=1, end=5),
        wire.tool("move", id="two", call_id="i", arguments={"n": 2}, start=2, end=5),
        wire.tool("move", id="unread", call_id="i", start=3, end=5),
        wire.span("client", client, id="client", parent="two", start=2, end=3),
        wire.span("inner", client, id="inner", parent="client", start=3, end=4, status=2),
    ]
    for order in orders(spans):
        found = bench().send(*order).steps()
        failed = {step["arguments"]["n"]: step["error"] for step in found}
        assert failed == {1: False, 2: True}
