"""Traces in which several conversations are claimed: a span has those calls updated that it may concern."""

from __future__ import annotations

from typing import Any

import pytest

SERVICES = 10
FEW, MANY = 40, 160


@pytest.mark.plain  # it counts calls of a method, which a compiled class does not let go
def test_a_span_has_few_calls_updated(wire: Any, bench: Any) -> None:
    """So a trace of four times as many spans has about four times as many updates, not sixteen times."""
    updates = {number: _updates(wire, bench(), number) for number in (FEW, MANY)}
    assert updates[MANY] / MANY < 1.5 * updates[FEW] / FEW


def _updates(wire: Any, found: Any, number: int) -> int:
    """Models of several services that each name their conversation, a tool beside each one, and the root last."""
    correlation, count = found.pipeline.correlation, 0
    update = correlation.update

    def counted(*given: Any) -> None:
        nonlocal count
        count += 1
        update(*given)

    correlation.update = counted
    for turn in range(number):
        named = f"svc{turn % SERVICES}"
        more = {"parent": "root", "resource": {"service.name": named}}
        asking = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": named}
        found.send(wire.span("chat", asking, start=turn, **more))
        found.send(wire.tool("move", start=turn + 0.5, **more))
    found.send(wire.span("root", id="root", end=number))
    assert len(found.judged()) == number
    assert {call.session.id for call in found.judged()} == {
        f"svc{each}" for each in range(SERVICES)
    }
    return count
