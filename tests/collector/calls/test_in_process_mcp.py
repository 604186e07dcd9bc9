"""Claude's calls are reported by the agent's spans, their parts, and a server in its process."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from collector.calls.correlation.in_process_mcp import CALLS_MAX
from collector.decode.span import Span
from tests.collector.conftest import Wire

OI = "openinference.instrumentation.claude_agent_sdk"
CLAUDE_CODE = "com.anthropic.claude_code.tracing"
ELSEWHERE = {"service.name": "another"}


def asked(wire: Wire, tool: str, start: float = 0, end: float = 4, **more: Any) -> Span:
    """The agent's span of a call."""
    attributes = {"tool.name": tool, "openinference.span.kind": "TOOL", "input.value": "{}"}
    return wire.span(tool, attributes, scope=OI, start=start, end=end, **more)


def served(wire: Wire, tool: str, start: float = 1, end: float = 2, **more: Any) -> Span:
    """The server's span of it."""
    attributes = {"mcp.method.name": "tools/call", "gen_ai.tool.name": tool}
    more = {"trace": f"server's {start}", **more}
    return wire.span(
        f"tools/call {tool}", attributes, scope="mcp-python-sdk", start=start, end=end, **more
    )


def part(wire: Wire, kind: str, **says: Any) -> Span:
    """A span below the call's own."""
    return wire.span(
        f"claude_code.{kind}", {"span.type": kind, **says}, scope=CLAUDE_CODE, parent="call"
    )


LINKS = {
    "own-trace": ("", ""),
    "same-trace": ("trace", ""),
    "beside-it": ("trace", "agent"),
    "below-it": ("trace", "call"),
}


@pytest.mark.parametrize(("trace", "parent"), LINKS.values(), ids=LINKS)
def test_a_server_in_the_agents_process_tells_nothing_twice(
    wire: Any, bench: Any, trace: str, parent: str
) -> None:
    """A call is the agent's alone, wherever the server's spans stand, in all orders of arrival."""
    spans = [
        asked(wire, "mcp__farm__move", id="call", parent="agent"),
        served(wire, "move", trace=trace or "1", parent=parent),
        asked(wire, "mcp__farm__move", start=5, end=8, id="later", parent="agent"),
        served(
            wire,
            "move",
            start=6,
            end=7,
            trace=trace or "2",
            parent="later" if parent == "call" else parent,
        ),
    ]
    for order in permutations(spans):
        assert bench().send(*order).tools() == ["mcp__farm__move", "mcp__farm__move"]


def test_a_failed_call_is_not_told_twice(wire: Any, bench: Any) -> None:
    """A failed call is judged once, even if it is the only one of its tool."""
    spans = [
        asked(wire, "mcp__farm__move", status=2),
        served(wire, "move", status=2),
    ]
    for order in permutations(spans):
        (step,) = bench().send(*order).steps()
        assert (step["tool"], step["error"]) == ("mcp__farm__move", True)


def test_a_server_of_many_underscores_is_known(wire: Any, bench: Any) -> None:
    """A server's name may contain the separator that stands before the tool's name."""
    found = bench().send(served(wire, "move__to"), asked(wire, "mcp__plugin__farm__move__to"))
    assert found.tools() == ["mcp__plugin__farm__move__to"]


OTHERS = {
    "another-tool": {"tool": "scan"},
    "another-service": {"tool": "move", "resource": ELSEWHERE},
    "another-tenant": {
        "tool": "move",
        "resource": {"service.name": "svc", "service.namespace": "b"},
    },
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_other_calls_of_servers_are_judged(wire: Any, bench: Any, other: Any) -> None:
    """Only calls that the agent itself reports are dropped as duplicates."""
    spans = [asked(wire, "mcp__farm__move"), served(wire, **other)]
    for order in permutations(spans):
        assert sorted(bench().send(*order).tools()) == sorted(
            ["mcp__farm__move", other["tool"]]
        )


@pytest.mark.parametrize("status", [0, 2])
def test_a_call_at_another_time_hides_none(wire: Any, bench: Any, status: int) -> None:
    """A model's call of `move` on another server, or on none, does not hide this server's `move`."""
    spans = [
        asked(wire, "mcp__other__move", status=status, start=0, end=0.5),
        served(wire, "move", start=1, end=2),
    ]
    for order in permutations(spans):
        assert bench().send(*order).tools() == ["mcp__other__move", "move"]


def test_a_wrapper_with_another_name_is_a_call_of_its_own(wire: Any, bench: Any) -> None:
    """A tool `safe_move` that has a server's `move` done is not taken for it."""
    spans = [
        asked(wire, "safe_move", id="call"),
        served(wire, "move", trace="trace", parent="call"),
    ]
    for order in permutations(spans):
        assert bench().send(*order).tools() == ["safe_move", "move"]


def test_what_a_server_told_is_remembered_with_a_bound(wire: Any, bench: Any) -> None:
    """Beyond the bound, the first calls stay as they were judged."""
    calls = [served(wire, "move", start=i, end=i + 0.5) for i in range(CALLS_MAX + 3)]
    found = bench().send(*calls, asked(wire, "mcp__farm__move", start=0, end=900))
    assert found.tools() == ["mcp__farm__move", *["move"] * 3]


PARTS = {
    "failed": ("tool.execution", {"success": False}, True),
    "went well": ("tool.execution", {"success": True}, False),
    "refused": ("tool.blocked_on_user", {"decision": "reject"}, True),
    "allowed": ("tool.blocked_on_user", {"decision": "accept"}, False),
}


@pytest.mark.parametrize(("kind", "says", "error"), PARTS.values(), ids=PARTS)
def test_a_part_tells_how_the_call_went(
    wire: Any, bench: Any, kind: str, says: dict[str, Any], error: bool
) -> None:
    """The result is known in either order of arrival."""
    attributes = {"span.type": "tool", "tool_name": "mcp__farm__move"}
    spans = [
        wire.span("claude_code.tool", attributes, scope=CLAUDE_CODE, id="call", parent="agent"),
        part(wire, kind, **says),
        wire.span("claude_code.interaction", {"span.type": "interaction"}, id="agent"),
    ]
    for order in permutations(spans):
        (step,) = bench().send(*order).steps()
        assert (step["tool"], step["error"]) == ("mcp__farm__move", error)


def test_a_part_of_no_call_is_ignored(wire: Any, bench: Any) -> None:
    """A part is ignored if its parent is not a call or is missing."""
    failed = {"span.type": "tool.execution", "success": False}
    spans = [
        wire.span("claude_code.tool.execution", failed, scope=CLAUDE_CODE, parent="agent"),
        wire.span("claude_code.interaction", {"span.type": "interaction"}, id="agent"),
        wire.span("claude_code.tool.execution", failed, scope=CLAUDE_CODE, id="root"),
    ]
    for order in permutations(spans):
        assert bench().send(*order).steps() == []
