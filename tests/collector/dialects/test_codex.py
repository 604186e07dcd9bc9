"""Codex's calls: one span around each, and what those below it tell."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from collector.decode.span import Span
from tests.collector.conftest import Wire

SCOPE = "codex_exec"
RESULT = {"event.name": "codex.tool_result", "tool_name": "move", "success": "false"}
ROUTER = "codex_core::tools::router"


def call(wire: Wire, tool: str, **more: Any) -> Span:
    """The span around a call."""
    attributes = {"codex.tool.phase": "dispatch", "tool_name": tool, "call_id": "call_1"}
    return wire.span(tool, attributes, scope=SCOPE, id="call", parent="turn", end=9, **more)


def part(wire: Wire, target: str, **says: Any) -> Span:
    """A span below it, with an event."""
    events = [("event", {"level": "INFO"}), ("event", {**RESULT, **says})]
    attributes = {"target": target}
    return wire.span(
        "dispatch", attributes, scope=SCOPE, id="part", parent="call", events=events
    )


PARTS = {
    "failed": (ROUTER, {}, True),
    "went well": (ROUTER, {"success": "true"}, False),
    "another event": (ROUTER, {"event.name": "codex.tool_call_received"}, False),
    "another place": ("my_tool", {}, False),
}


@pytest.mark.parametrize(("target", "says", "error"), PARTS.values(), ids=PARTS)
def test_an_event_below_a_call_tells_how_it_went(
    wire: Any, bench: Any, target: str, says: dict[str, Any], error: bool
) -> None:
    """Whichever of the two spans comes first, and in the program's own place alone."""
    turn = wire.span("turn", {"turn.id": "1"}, scope=SCOPE, id="turn")
    for order in permutations([call(wire, "move"), part(wire, target, **says), turn]):
        found = bench().send(*order)
        assert [(each["tool"], each["error"]) for each in found.steps()] == [("move", error)]


@pytest.mark.parametrize("tool", ["mcp__farmmove", "mcp__farm__move"])
def test_a_servers_tool_is_one_call(wire: Any, bench: Any, tool: str) -> None:
    """Codex prefixes the server's name in two ways. Its span below has the call id, the server's has none."""
    client = {
        "rpc.method": "tools/call",
        "mcp.server.name": "farm",
        "tool.name": "move",
        "tool.call_id": "call_1",
    }
    server = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "move"}
    spans = [
        call(wire, tool),
        wire.span("dispatch", {}, scope=SCOPE, id="part", parent="call"),
        wire.span("mcp.tools.call", client, scope=SCOPE, id="client", parent="part"),
        wire.span("tools/call move", server, scope="mcp-python-sdk", id="s", parent="client"),
    ]
    for order in permutations(spans):
        assert bench().send(*order).tools() == [tool]


def test_a_tool_below_another_is_a_call_of_its_own(wire: Any, bench: Any) -> None:
    """A server's tool without a call id is not part of a call with another name."""
    server = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "ove"}
    found = bench().send(
        call(wire, "mcp__farmmove"),
        wire.span("tools/call ove", server, scope="mcp-python-sdk", id="s", parent="call"),
    )
    assert sorted(found.tools()) == ["mcp__farmmove", "ove"]


def test_an_id_that_comes_again_hides_no_call(wire: Any, bench: Any) -> None:
    """Models write call ids, and a sub-agent's may repeat one: a hand-off to it is no server's call."""
    server = {"mcp.method.name": "tools/call", "gen_ai.tool.call.id": "call_1"}
    spans = [
        wire.tool("delegate", call_id="call_1", id="outer", start=1, end=9),
        wire.span("tools/call pay", server, id="inner", parent="outer", start=2, end=3),
    ]
    for order in permutations(spans):
        assert bench().send(*order).tools() == ["delegate", "pay"]
