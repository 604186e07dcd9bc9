"""Calls that only models' requests report: none is lost, and none hides another."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest

from collector.calls.model_requests import AGENTS_MAX, HELD_MAX
from collector.decode.span import Span
from tests.collector.conftest import Wire

Asked = tuple[str, str, dict[str, Any]]
"""(id, tool, arguments)"""

ASKED_MAX = 256
"""Requests of one span that are judged."""

OUTPUTS = {
    "genai": (
        "gen_ai.output.messages",
        '{"type": "tool_call", "id": "%s", "name": "%s", "arguments": %s}',
        '[{"role": "assistant", "parts": [%s]}]',
        {"gen_ai.operation.name": "chat"},
    ),
    "vercel": (
        "ai.response.toolCalls",
        '{"toolCallId": "%s", "toolName": "%s", "input": %s}',
        "[%s]",
        {"ai.operationId": "ai.generateText.doGenerate"},
    ),
    "langfuse": (
        "langfuse.observation.output",
        '{"id": "%s", "name": "%s", "args": %s}',
        '{"role": "assistant", "tool_calls": [%s]}',
        {"langfuse.observation.type": "generation"},
    ),
}
"""Key, form of a request, what is around all, and what says that it is a model's."""


def model(wire: Wire, asked: list[Asked], answered: tuple[str, ...] = (), **more: Any) -> Span:
    """A model's span, as OpenInference writes it."""
    attributes: dict[str, Any] = {"openinference.span.kind": "LLM"}
    for index, (call_id, tool, arguments) in enumerate(asked):
        place = f"llm.output_messages.0.message.tool_calls.{index}.tool_call."
        attributes[place + "id"] = call_id
        attributes[place + "function.name"] = tool
        attributes[place + "function.arguments"] = json.dumps(arguments)
    for index, call_id in enumerate(answered):
        attributes[f"llm.input_messages.{index}.message.tool_call_id"] = call_id
    return wire.span("llm", attributes, **more)


def mcp(wire: Wire, tool: str, **more: Any) -> Span:
    """A span of an MCP client."""
    attributes = {"mcp.method.name": "tools/call", "gen_ai.tool.name": tool}
    return wire.span(f"tools/call {tool}", attributes, scope="mcp-python-sdk", **more)


def paid(found: Any) -> list[Any]:
    """The amounts of the payments."""
    return [step["arguments"]["amount"] for step in found.steps() if step["tool"] == "pay"]


@pytest.mark.parametrize("levels", [100, 5_000])
@pytest.mark.parametrize("form", ["genai", "vercel", "langfuse"])
def test_a_deep_argument_hides_no_other_request(
    wire: Any, bench: Any, form: str, levels: int
) -> None:
    """An unreadable argument of one requested call leaves the calls beside it readable."""
    given = [
        ("1", "pay", '{"amount": 5}'),
        ("2", "log", f'{{"x": {"[" * levels + "]" * levels}}}'),
    ]
    key, one, around, kind = OUTPUTS[form]
    said = ",".join([one % call for call in given])
    answers = [{"role": "tool", "tool_call_id": each, "content": "ok"} for each, _, _ in given]
    found = bench().send(
        wire.span("llm", {**kind, key: around % said}, start=1, end=2),
        wire.span(
            "llm", {**kind, "input.value": json.dumps(answers), key: "[]"}, start=4, end=5
        ),
    )
    assert (found.tools(), paid(found)) == (["pay", "log"], [5])


def test_spans_that_name_a_class_leave_the_requests_to_be_judged(wire: Any, bench: Any) -> None:
    """Only the model's spans name the tool."""
    named = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "DynamicTool"}
    scope = "@openlit/instrumentation-langchain"
    found = bench().send(
        model(wire, [("1", "pay", {"amount": 5})], start=1, end=2),
        wire.span("execute_tool DynamicTool", named, scope=scope, start=3),
        model(wire, [], ("1",), start=4, end=5),
    )
    assert (found.tools(), paid(found)) == (["pay"], [5])


def test_tools_of_mcp_say_nothing_of_the_agents_others(wire: Any, bench: Any) -> None:
    """A tool with spans hides no request of a tool without, in this conversation or the next."""
    found = bench().send(
        model(wire, [("1", "pay", {"amount": 5})], start=1, end=2),
        model(wire, [("2", "look", {})], ("1",), start=3, end=4),
        mcp(wire, "look", start=5),
        model(wire, [("3", "pay", {"amount": 6})], ("2",), start=6, end=7),
        model(wire, [], ("3",), start=8, end=9),
        model(wire, [("4", "look", {})], start=1, end=2, trace="other", id="a"),
        mcp(wire, "look", start=3, trace="other", id="b"),
        model(
            wire, [("5", "pay", {"amount": 7})], ("4",), start=4, end=5, trace="other", id="c"
        ),
        model(wire, [], ("5",), start=6, end=7, trace="other", id="d"),
    )
    assert sorted(paid(found)) == [5, 6, 7]
    assert found.tools().count("look") == 2


def test_a_request_is_told_once_by_mcp_in_any_order(wire: Any, bench: Any) -> None:
    """A call with an MCP span is not judged again as a request."""
    spans = [
        model(wire, [("1", "look", {})], start=1, end=2),
        mcp(wire, "look", start=3),
        model(wire, [], ("1",), start=4, end=5),
    ]
    for order in permutations(spans):
        assert bench().send(*order).tools() == ["look"]


def test_a_call_of_fast_agent_is_told_once_in_any_order(wire: Any, bench: Any) -> None:
    """Its span has the name that the model knows, MCP's below it the server's; its own functions have no spans."""
    named = {"tool_name": "look", "namespaced_tool_name": "farm__look"}
    spans = [
        model(wire, [("1", "farm__look", {}), ("2", "pay", {"amount": 5})], start=1, end=2),
        wire.span(
            "MCP Tool: farm__look",
            named,
            id="tool",
            start=3,
            scope="fast_agent.mcp.mcp_aggregator",
        ),
        mcp(wire, "look", id="send", parent="tool", start=3.01),
        model(wire, [], ("1", "2"), start=4, end=5),
    ]
    first, last = spans[0], spans[-1]
    for order in permutations(spans):
        if order.index(first) < order.index(last):
            found = bench().send(*order)
            assert sorted(found.tools()) == ["farm__look", "pay"]
            assert paid(found) == [5]


def test_what_a_server_of_fast_agent_calls_in_turn_is_a_call(wire: Any, bench: Any) -> None:
    """A server's own call of another tool is not its agent's."""
    spans = [
        wire.span(
            "MCP Tool: farm__look",
            {"namespaced_tool_name": "farm__look"},
            id="tool",
            end=1,
            scope="fast_agent.mcp.mcp_aggregator",
        ),
        mcp(wire, "look", id="send", parent="tool", end=1),
        mcp(wire, "pay", id="other", parent="send", start=0.1),
    ]
    for order in permutations(spans):
        assert bench().send(*order).tools() == ["farm__look", "pay"]


def test_a_tool_span_of_a_framework_tells_of_all(wire: Any, bench: Any) -> None:
    """Where a framework writes tools' spans, a request without one was not carried out."""
    found = bench().send(
        model(wire, [("1", "look", {}), ("2", "nosuch", {})], start=1, end=2),
        wire.tool("look", call_id="1", start=3),
        model(wire, [], ("1", "2"), start=4, end=5),
    )
    assert found.tools() == ["look"]


@pytest.mark.parametrize("over", [0, 40])
def test_requests_that_are_held_are_lost_to_none_in_silence(
    wire: Any, bench: Any, over: int
) -> None:
    """Held requests beyond the bound are counted."""
    turn = HELD_MAX // 4
    spans = [
        model(wire, [(f"{i}-{j}", "pay", {"amount": j}) for j in range(turn)], start=i)
        for i in range(4)
    ]
    more = [(f"x{i}", "pay", {"amount": i}) for i in range(over)]
    found = bench().send(*spans, model(wire, more, start=5), model(wire, [], ("3-0",), start=6))

    assert len(found.tools()) == HELD_MAX
    assert found.covered("over_bound") == over


def test_requests_beyond_the_bound_of_a_span_are_counted(wire: Any, bench: Any) -> None:
    """Requests of one span beyond the bound are counted."""
    asked = [(f"{i}", "pay", {"amount": i}) for i in range(ASKED_MAX + 44)]
    found = bench().send(model(wire, asked, start=1, end=2), model(wire, [], ("0",), start=3))

    assert sorted(paid(found)) == list(range(ASKED_MAX))
    assert found.covered("over_bound") == 44


def test_other_services_do_not_take_what_is_held(wire: Any, bench: Any) -> None:
    """Of too many services, the one heard from least recently is forgotten, and what it held is counted."""

    def another(number: int) -> Span:
        service = {"service.name": f"other-{number}"}
        asked: list[Asked] = [("1", "look", {})]
        return model(wire, asked, start=2, resource=service, trace=f"t{number}")

    made = bench().send(model(wire, [("1", "pay", {"amount": 5})], start=1, end=2))
    for number in range(AGENTS_MAX + 10):
        made.send(another(number))
        if number % 100 == 0:
            made.send(model(wire, [], ("none",), start=number + 3, id=f"{number}"))
    assert paid(made.send(model(wire, [], ("1",), start=5, id="last"))) == [5]
    assert made.covered("over_bound") == 11


@pytest.mark.parametrize("apart", [True, False])
def test_ids_that_models_write_may_be_equal(wire: Any, bench: Any, apart: bool) -> None:
    """Requests of one id that ask for other things are several, at once and in turn."""
    one, other = ("pay:0", "pay", {"amount": 1}), ("pay:0", "pay", {"amount": 5000})
    spans = (
        [
            model(wire, [one], start=1, end=2),
            model(wire, [other], ("pay:0",), start=3, end=4),
            model(wire, [], ("pay:0",), start=5, end=6),
        ]
        if apart
        else [
            model(wire, [one, other], start=1, end=2),
            model(wire, [], ("pay:0",), start=5, end=6),
        ]
    )
    assert paid(bench().send(*spans)) == [1, 5000]


def test_a_request_that_two_spans_tell_is_one(wire: Any, bench: Any) -> None:
    """A model's span within another, with the same request."""
    asked = [("1", "pay", {"amount": 1, "to": "a"})]
    again = [("1", "pay", {"to": "a", "amount": 1})]
    found = bench().send(
        model(wire, again, start=1.1, end=1.9, id="inner", parent="outer"),
        model(wire, asked, start=1, end=2, id="outer"),
        model(wire, [], ("1",), start=5, end=6),
    )
    assert paid(found) == [1]


def test_a_models_span_that_lost_attributes_is_counted(wire: Any, bench: Any) -> None:
    """Dropped attributes may have held requests."""
    found = bench().send(model(wire, [("1", "pay", {"amount": 1})], dropped=9))
    assert found.covered("truncated_attributes") == 1


FORMS = {
    "litellm": (
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.completion.0.function_call.name": "pay",
            "gen_ai.completion.0.function_call.arguments": '{"amount": 1}',
        },
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": '[{"role": "tool", "tool_call_id": "1"}]',
        },
    ),
    "laminar": (
        {
            "lmnr.span.type": "LLM",
            "gen_ai.output.messages": json.dumps(
                [
                    {
                        "finish_reason": "tool_calls",
                        "message": {
                            "tool_calls": [
                                {
                                    "id": "1",
                                    "function": {"name": "pay", "arguments": '{"amount": 1}'},
                                }
                            ]
                        },
                    }
                ]
            ),
        },
        {
            "lmnr.span.type": "LLM",
            "gen_ai.input.messages": '[{"role": "tool", "tool_call_id": "1"}]',
        },
    ),
}


@pytest.mark.parametrize(("asked", "answered"), FORMS.values(), ids=FORMS)
def test_requests_are_read_as_a_client_writes_them(
    wire: Any, bench: Any, asked: dict[str, Any], answered: dict[str, Any]
) -> None:
    """Without tool spans, a request is judged once its answer arrives."""
    found = bench().send(
        wire.span("model", asked, start=1, end=2), wire.span("model", answered, start=3, end=4)
    )
    assert paid(found) == [1]


def test_what_was_judged_as_requested_is_not_counted_as_never_executed(
    wire: Any, bench: Any
) -> None:
    """It is counted only if it is withdrawn, because the agent's tools have spans."""
    spans = [
        model(wire, [("1", "pay", {"amount": 1}), ("2", "look", {})], start=1, end=2),
        model(wire, [], ("1", "2"), start=3, end=4),
    ]
    found = bench().send(*spans)
    found.pipeline.finish()
    assert (len(found.tools()), found.covered("requested_only")) == (2, 0)

    found = bench().send(*spans, wire.tool("look", call_id="2", start=2.5))
    found.pipeline.finish()
    assert (found.tools(), found.covered("requested_only")) == (["look"], 1)
