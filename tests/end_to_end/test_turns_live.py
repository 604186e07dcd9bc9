"""A conversation without a session id, in two turns, at a service that does not know its history."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from tests.end_to_end.service import eventually
from tests.end_to_end.traffic import GOLDEN, Sent, send

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve

MILLISECOND = 1_000_000
STEP_NS = 20 * MILLISECOND
IDLE_SECONDS = 3
"""An ended session is forgotten after twice that: longer than the test takes to look at it."""
ARGUMENTS: dict[str, dict[str, Any]] = {
    "move": {"x": 3, "y": 4},
    "scan": {"area": "field 3"},
    "open_valve": {"valve": "V3"},
    "water": {"field": 3, "liters": 10},
}
ANSWER = {
    "role": "tool",
    "parts": [{"type": "tool_call_response", "id": "c", "response": "ok"}],
}


def _turn(number: int, tools: tuple[str, ...], answers: int) -> list[Sent]:
    """An agent's turn as a trace: before each call a model is asked, with all answers so far."""
    trace, root = bytes([number]) * 16, bytes([number, 255]) * 4
    begun = time.time_ns() - len(tools) * STEP_NS
    spans = []
    for place, tool in enumerate(tools):
        start = begun + place * STEP_NS
        told = [{"role": "user", "parts": []}, *[ANSWER] * (answers + place)]
        asked = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps(told)}
        made = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.arguments": json.dumps(ARGUMENTS.get(tool, {})),
        }
        for kind, attributes in enumerate((asked, made)):
            at = start + kind * STEP_NS // 2
            key = bytes([number, place, kind]) + b"spans"
            spans.append(Sent(trace, key, "span", at, at + STEP_NS // 4, attributes, root))
    agent = {"gen_ai.operation.name": "invoke_agent"}
    return [*spans, Sent(trace, root, "agent", begun, time.time_ns(), agent)]


def test_a_conversation_in_two_turns_is_paged_for_its_harm_alone(serve: Serve) -> None:
    """Each turn is a session: the first starts in the initial state, the second is joined."""
    idle = str(IDLE_SECONDS)
    service = serve("--specs", "dfa_specs/farm_rover.yaml", OFFRAILS_SESSIONS_IDLE_SECONDS=idle)
    ready_ns = time.time_ns()
    # So long after its start a service takes no session for one that began before.
    eventually(lambda: time.time_ns() > ready_ns + 2 * IDLE_SECONDS * 1_000 * MILLISECOND)

    send(service, _turn(1, GOLDEN[:2], answers=0))
    send(service, _turn(2, GOLDEN[2:], answers=2))
    send(service, _turn(3, ("move",), answers=0))

    first, second, third = (service.judgement((bytes([each]) * 16).hex()) for each in (1, 2, 3))
    assert [(each["harmful"], each["joined"]) for each in (first, second, third)] == [
        (0, False),
        (0, True),
        (1, False),
    ]
    assert (second["accepting"], second["harm_rate"], third["harm_rate"]) == (True, None, 1)
