"""Conversations that name no session: each turn is a trace, and what was done before is in others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collector.calls.pipeline import Pipeline
from collector.decode.span import Span
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, load_spec
from monitor.records import Verdict
from tests.collector.conftest import BASE, Orders

SECOND = 1_000_000_000
SPEC = load_spec(Path(__file__).parents[3] / "dfa_specs" / "farm_rover.yaml")
ROVER = {"service.name": "farm-rover"}
ASKED = {
    "openinference.span.kind": "LLM",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "move",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": "{}",
}
GIVEN = {"llm.input_messages.2.message.tool_call_id": "c0"}
AGENT = {"openinference.span.kind": "AGENT"}


class Service:
    """A monitor behind a pipeline that was started long ago."""

    def __init__(self, *, history_complete: bool = False) -> None:
        limits = Limits(history_complete=history_complete)
        self.monitor = Monitor([SPEC], limits, started_ns=1)
        self.paged: list[Verdict] = []
        self.pipeline = Pipeline(self.monitor, Stats(), self._take)

    def _take(self, verdicts: Any) -> None:
        self.paged += [each for each in verdicts if each.kind == "harmful"]

    def send(self, *spans: Span) -> Service:
        """Sends each span in a request of its own."""
        for span in spans:
            self.pipeline.consume([span], BASE + 3600 * SECOND, "test")
        return self

    def told(self) -> list[dict[str, Any]]:
        """The judgements, without what tells of the arrival."""
        self.monitor.tick(BASE + 3601 * SECOND)
        return [
            {key: value for key, value in each.items() if key not in ("coverage", "updated_ns")}
            for each in self.monitor.judgements()
        ]

    def one(self) -> dict[str, Any]:
        (found,) = self.monitor.judgements()
        return found


def _turn(wire: Any, tools: list[str], given: dict[str, Any], **more: Any) -> list[Span]:
    """A turn of an agent in the order in which its spans end: models with requests, tools, the agent."""
    at = {"parent": "agent", "resource": ROVER}
    spans = []
    for number, tool in enumerate(tools):
        told = {**ASKED, **(given if number == 0 else GIVEN)}
        spans.append(wire.span(f"model {number}", told, start=2 * number + 1, **at))
        arguments = {"x": 3, "y": 4} if tool == "move" else {}
        spans.append(wire.tool(tool, arguments=arguments, start=2 * number + 2, **at))
    agent = {**AGENT, **more.pop("agent", {})}
    root = wire.span("agent", agent, id="agent", start=0, end=99, resource=ROVER)
    return [*spans, root]


def test_a_later_turn_is_not_paged_for_what_other_traces_hold(wire: Any) -> None:
    """Its first model was given tool results, so it continues a session of other traces."""
    service = Service().send(*_turn(wire, ["move", "scan"], GIVEN))
    found = service.one()

    assert (service.paged, found["calls"], found["harmful"]) == ([], 2, 0)
    assert (found["joined"], found["harm_rate"]) == (True, None)


def test_what_no_beginning_allows_is_harm_in_a_later_turn_too(wire: Any) -> None:
    """From no state is water allowed right after a move."""
    service = Service().send(*_turn(wire, ["move", "water"], GIVEN))

    assert [each.tool for each in service.paged] == ["water"]


def test_a_first_turn_is_judged_from_the_beginning(wire: Any) -> None:
    """Later model spans of the first turn hold only answers to the turn's own calls."""
    service = Service().send(*_turn(wire, ["move", "scan"], {}))
    found = service.one()

    assert (service.paged[0].tool, found["joined"]) == ("move", False)


def test_a_turn_is_read_from_the_beginning_while_that_needs_no_more_harms(wire: Any) -> None:
    """A model may be given examples of calls: a whole run is one, with its scores."""
    found = Service().send(*_turn(wire, ["unlock_safety", "move", "scan"], GIVEN)).one()

    assert (found["harmful"], found["joined"], found["harm_rate"]) == (0, False, 0)


def test_calls_before_the_first_model_are_those_it_was_answered(wire: Any) -> None:
    """A program that makes the first calls itself hands their answers on."""
    early = wire.tool(
        "move", arguments={"x": 1, "y": 1}, start=0.5, parent="agent", resource=ROVER
    )
    service = Service().send(early, *_turn(wire, ["scan"], GIVEN))

    assert [each.tool for each in service.paged] == ["move"]


def test_a_model_that_is_asked_before_and_given_less_changes_nothing(wire: Any) -> None:
    """A guard model sees only the user's text. The turn is a later one all the same."""
    guard = {"openinference.span.kind": "LLM", "input.value": "is this harmless?"}
    first = wire.span("guard", guard, start=0.5, parent="agent", resource=ROVER)
    service = Service().send(first, *_turn(wire, ["move", "scan"], GIVEN))

    assert (service.paged, service.one()["joined"]) == ([], True)


def test_a_model_that_tells_no_request_is_heard(wire: Any) -> None:
    """Some instrumentations leave out a model's message if it only requested calls."""
    given = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": '[{"role": "tool", "parts": [{"type": "tool_call_response"}]}]',
    }
    model = wire.span("chat", given, start=0.5, parent="agent", resource=ROVER)
    call = wire.tool(
        "move", arguments={"x": 1, "y": 1}, start=1, parent="agent", resource=ROVER
    )
    service = Service().send(model, call)

    assert (service.paged, service.one()["joined"]) == ([], True)


def test_answers_to_what_was_asked_for_in_the_trace_are_its_own(wire: Any) -> None:
    """A hand-off may leave no span of a call: the next agent's model is given its answer."""
    asked = {**ASKED, "openinference.span.kind": "LLM"}
    asked["llm.output_messages.0.message.tool_calls.0.tool_call.function.name"] = (
        "transfer_to_b"
    )
    handing = wire.span("model", asked, start=0.5, parent="agent", resource=ROVER)
    spans = [handing, *_turn(wire, ["move", "scan"], GIVEN)]
    for order in (spans, spans[::-1]):
        found = Service().send(*order).one()
        assert (found["harmful"], found["joined"]) == (1, False)


def test_a_session_that_begins_with_results_goes_on_with_calls_of_another(wire: Any) -> None:
    """With a session id, too: its model was given results of calls that it lacks, so harm of order is possible only."""
    service = Service().send(*_turn(wire, ["move"], GIVEN, agent={"session.id": "s"}))
    found = service.one()

    assert (found["session"], found["harmful"]) == ("s", 0)
    assert [step.get("possible") for step in found["steps"]] == [True]


def test_a_history_that_is_said_to_be_complete_is_believed(wire: Any) -> None:
    """With `history: complete`, no call is missing, whatever models were given."""
    service = Service(history_complete=True).send(*_turn(wire, ["move"], GIVEN))

    assert [each.tool for each in service.paged] == ["move"]


@pytest.mark.parametrize("agent", [{}, {"session.id": "s"}], ids=["no session", "session"])
@pytest.mark.parametrize("given", [{}, GIVEN], ids=["first", "later"])
@pytest.mark.parametrize("tools", [["move", "water"], ["unlock_safety", "move"]], ids="-".join)
def test_a_turn_is_one_in_any_order_of_its_spans(
    wire: Any, tools: list[str], given: dict[str, Any], agent: dict[str, Any], orders: Orders
) -> None:
    """A late span may remove a doubt or add one."""
    spans = _turn(wire, tools, given, agent=agent)
    wanted = Service().send(*spans).told()

    for order in orders(spans):
        assert Service().send(*order).told() == wanted, json.dumps(
            [each.name for each in order]
        )


SCHEMA = {"type": "object", "properties": {"tool_call_id": {"type": "string"}}}
NO_ANSWERS = {
    "openai": {
        "messages": [{"role": "user", "content": "water"}],
        "tools": [{"type": "function", "function": {"name": "x", "parameters": SCHEMA}}],
    },
    "anthropic": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "tool_call_id"}]}],
        "tools": [
            {"name": "x", "input_schema": SCHEMA | {"examples": [{"tool_call_id": "1"}]}}
        ],
    },
    "google": {
        "contents": [{"role": "user", "parts": [{"text": "water"}]}],
        "config": {"tools": [{"function_declarations": [{"parameters": SCHEMA}]}]},
    },
}


@pytest.mark.parametrize("asked", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_what_a_tool_is_like_is_no_answer(wire: Any, asked: dict[str, Any]) -> None:
    """Parameter names in a tool's schema are no sign of an earlier turn."""
    given = {"input.value": json.dumps(asked)}
    service = Service().send(*_turn(wire, ["move", "scan"], given))

    assert (service.paged[0].tool, service.one()["joined"]) == ("move", False)


ANSWERS = {
    "openai": {"messages": [{"role": "tool", "tool_call_id": "1", "content": "ok"}]},
    "responses": {"input": [{"type": "function_call_output", "call_id": "1", "output": "ok"}]},
    "anthropic": {
        "messages": [{"role": "user", "content": [{"type": "tool_result", "content": "ok"}]}]
    },
    "bedrock": {"messages": [{"role": "user", "content": [{"toolResult": {"status": "ok"}}]}]},
    "google": {"contents": [{"role": "user", "parts": [{"function_response": {"name": "x"}}]}]},
    "langchain": {"messages": [[{"type": "tool", "kwargs": {"tool_call_id": "1"}}]]},
}


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("asked", ANSWERS.values(), ids=ANSWERS)
def test_an_answer_is_known_in_all_forms(wire: Any, asked: dict[str, Any], cut: bool) -> None:
    """A tool's result is recognised in all forms, even if the text is cut."""
    text = json.dumps(asked)
    given = {"input.value": text[:-1] if cut else text}
    service = Service().send(*_turn(wire, ["move", "scan"], given))

    assert (service.paged, service.one()["joined"]) == ([], True)
