"""A service's clock that is set back is noticed where spans show it, and nothing follows from the order of times then."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collector.calls.pipeline import Pipeline
from collector.decode.span import Span
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, load_spec
from tests.collector.conftest import BASE, SECOND, Wire

CONVERSATION = "gen_ai.conversation.id"
NOW = BASE + 60 * SECOND
# Calls before the clock is set back are at 40 s, later ones at 5 s.
BEFORE, AFTER = 40.0, 5.0
DESK = """
id: desk
match: {service.name: svc}
alphabet: {check: {tool: check}, pay: {tool: pay}}
golden: [[check, pay]]
"""


def _harms(folder: Any, *spans: Span) -> list[tuple[str, str]]:
    """Tools of the harmful calls of session `s`, once these spans have come one by one."""
    path = folder / "desk.yaml"
    path.write_text(DESK)
    monitor = Monitor([load_spec(path)], Limits(), started_ns=1)
    pipeline = Pipeline(monitor, Stats(), lambda _verdicts: None)
    for span in spans:
        pipeline.consume([span], NOW, "test")
    pipeline.tick(NOW + SECOND)
    monitor.tick(NOW + SECOND)
    monitor.news()
    (found,) = monitor.find("s")
    return [
        (step["tool"], "possible" if step.get("possible") else "certain")
        for step in found["steps"]
        if step["kind"] == "harmful" or step.get("possible")
    ]


def _calls(wire: Wire) -> list[Span]:
    """`check` before the clock is set back, `pay` after it."""
    named = {CONVERSATION: "s"}
    return [
        wire.tool("check", call_id="check", attributes=named, trace="t", parent="run", start=BEFORE, end=BEFORE + 1),
        wire.tool("pay", call_id="pay", attributes=named, trace="t", parent="run", start=AFTER, end=AFTER + 1),
    ]  # fmt: skip


def _agent(wire: Wire, start: float, end: float) -> Span:
    named = {"gen_ai.operation.name": "invoke_agent", CONVERSATION: "s"}
    return wire.span("invoke_agent", named, id="run", trace="t", start=start, end=end)


def _model(wire: Wire, start: float, said: str, heard: str = "") -> Span:
    """A model's span that asks for a tool, and was given the result of another one."""
    given = [{"type": "tool_call_response", "id": heard, "result": "ok"}] if heard else []
    asked = [{"type": "tool_call", "id": said, "name": said, "arguments": {}}]
    messages = {
        "gen_ai.operation.name": "chat",
        CONVERSATION: "s",
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": given}]),
        "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": asked}]),
    }
    return wire.span(f"chat {said}", messages, trace="t", parent="run", start=start, end=start + 0.1)  # fmt: skip


def test_an_agents_span_that_ends_before_it_began_leaves_the_order_open(
    wire: Wire, tmp_path: Any
) -> None:
    """`pay` before `check` is certain by the times alone, and not once the agent's span shows that they are wrong."""
    calls = _calls(wire)

    assert _harms(tmp_path, *calls)[:1] == [("pay", "certain")]
    assert ("pay", "certain") not in _harms(
        tmp_path, *calls, _agent(wire, BEFORE - 1, AFTER + 2)
    )


def test_a_result_that_is_given_before_it_was_asked_for_leaves_the_order_open(
    wire: Wire, tmp_path: Any
) -> None:
    """A model knew the result of `check` when it asked for `pay`: `check` was before, whatever the times say."""
    check, pay = _calls(wire)
    asks = _model(wire, BEFORE - 1, "check")
    told = _model(wire, AFTER - 1, "pay", heard="check")
    not_told = _model(wire, AFTER - 1, "pay")

    assert ("pay", "certain") not in _harms(tmp_path, asks, check, told, pay)
    assert ("pay", "certain") in _harms(tmp_path, asks, check, not_told, pay)


@pytest.mark.parametrize("early", [0.0005, 0.5])
def test_rounding_and_hosts_that_differ_are_no_setting(
    wire: Wire, tmp_path: Any, early: float
) -> None:
    """A span that ends up to a second before its start says nothing of the order of calls."""
    agent = _agent(wire, AFTER, AFTER - early)

    assert _harms(tmp_path, *_calls(wire), agent)[:1] == [("pay", "certain")]
