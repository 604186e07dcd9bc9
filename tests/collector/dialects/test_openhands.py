"""OpenHands' calls: named after classes of actions, and a server's tool by the MCP client's span."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest

from collector.decode.span import Span
from tests.collector.conftest import Wire

SCOPE = "lmnr.tracer"
CALL_ID = "lmnr.association.properties.metadata.tool_call_id"
GIVEN = {"x": 3, "kind": "a model's own"}


def call(wire: Wire, name: str, span_id: str = "call", parent: str = "step") -> Span:
    """A span of Laminar's."""
    given = json.dumps({"action": {"data": GIVEN, "kind": "MCPToolAction"}})
    attributes = {"lmnr.span.type": "TOOL", CALL_ID: "call_1", "lmnr.span.input": given}
    return wire.span(name, attributes, scope=SCOPE, id=span_id, parent=parent, end=9)


def client(wire: Wire, tool: str, span_id: str, **more: Any) -> Span:
    """The MCP client's span of it."""
    attributes = {"mcp.method.name": "tools/call", "gen_ai.tool.name": tool}
    return wire.span(
        f"tools/call {tool}", attributes, scope="fastmcp", id=span_id, parent="part", **more
    )


def test_a_servers_tool_has_its_own_name(wire: Any, bench: Any) -> None:
    """And the arguments and the id of the spans above it, in all orders of arrival."""
    spans = [
        call(wire, "MCPToolAction"),
        call(wire, "MCPToolExecutor.call_tool", "part", "call"),
        client(wire, "move", "client", start=2, end=3),
        wire.span("step", {"lmnr.span.type": "DEFAULT"}, scope=SCOPE, id="step"),
    ]
    for order in permutations(spans):
        (step,) = bench().send(*order).steps()
        assert (step["tool"], step["arguments"], step["call_id"]) == ("move", GIVEN, "call_1")


def test_a_servers_tool_without_its_clients_span_is_a_call(wire: Any, bench: Any) -> None:
    """It is judged under the common name of all server tools."""
    found = bench().send(call(wire, "MCPToolAction"))
    assert found.tools() == ["MCPToolAction"]


def test_an_action_of_its_own_takes_no_other_tools_name(wire: Any, bench: Any) -> None:
    """A call that a tool itself makes to a server is another call."""
    spans = [call(wire, "MoveAction", "part"), client(wire, "log", "client", start=2, end=3)]
    for order in permutations(spans):
        assert sorted(bench().send(*order).tools()) == ["MoveAction", "log"]


@pytest.mark.parametrize("name", ["FinishAction", "ThinkAction", "InvalidToolCall"])
def test_an_action_of_the_agents_own_is_a_control_call(
    wire: Any, bench: Any, name: str
) -> None:
    """An action of the agent's own has no effect outside."""
    assert bench().send(call(wire, name)).covered("control") == 1
