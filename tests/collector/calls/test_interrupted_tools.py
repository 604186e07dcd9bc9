"""Tools that stop to ask a person, and are called again once it has answered: the first attempt is written as a success."""

from __future__ import annotations

import json
from typing import Any

from collector.decode.span import Span
from tests.collector.calls.test_beginnings import ROVER, Service, call
from tests.collector.conftest import BASE, Orders, Wire

HOUR = 3_600_000_000_000
SCOPE = "openinference.instrumentation.langchain"
SESSION = {"session.id": "s"}


def _open_valve(wire: Wire, call_id: str, start: float, **more: Any) -> list[Span]:
    """A tool's span below LangGraph's node, which has the id of the call."""
    node = f"{call_id}@{start}"
    call = {"name": "open_valve", "args": {"x": 1, "y": 2}, "id": call_id, "type": "tool_call"}
    given = json.dumps({"__type": "tool_call_with_context", "tool_call": call, "state": {}})
    tool = {
        "openinference.span.kind": "TOOL",
        "tool.name": "open_valve",
        "input.value": json.dumps(call["args"]),
        "input.mime_type": "application/json",
        **more,
        **SESSION,
    }
    around = {"openinference.span.kind": "CHAIN", "input.value": given, **SESSION}
    of: dict[str, Any] = {"trace": node, "scope": SCOPE, "resource": ROVER, "status": 1}
    return [
        wire.span("open_valve", tool, parent=node, start=start + 0.1, end=start + 0.2, **of),
        wire.span("tools", around, id=node, start=start, end=start + 0.3, **of),
    ]


def _before(wire: Wire) -> list[Span]:
    tools = ["unlock_safety", "move", "scan"]
    return [
        call(wire, tool, start, attributes=SESSION) for start, tool in enumerate(tools, start=1)
    ]


def _harm(spans: tuple[Span, ...], wire: Wire) -> tuple[int, list[str]]:
    """Certain harm, and the calls whose harm is possible."""
    (found,) = Service(BASE - HOUR).send(*_before(wire), *spans).told()
    possible = [step["tool"] for step in found["steps"] if step.get("possible")]
    return found["harmful"], possible


def test_an_attempt_that_asked_a_person_may_be_none(wire: Wire, orders: Orders) -> None:
    """LangGraph runs the tool again, with the same id: a valve that is opened twice would be harm."""
    spans = [*_open_valve(wire, "c", 5), *_open_valve(wire, "c", 50, **{"output.value": "ok"})]
    for order in orders(spans):
        assert _harm(order, wire) == (0, ["open_valve"]), [each.name for each in order]


def test_another_request_for_the_tool_is_a_second_call(wire: Wire, orders: Orders) -> None:
    """The model asked for it anew."""
    spans = [*_open_valve(wire, "c", 5), *_open_valve(wire, "d", 50, **{"output.value": "ok"})]
    for order in orders(spans):
        assert _harm(order, wire) == (1, []), [each.name for each in order]
