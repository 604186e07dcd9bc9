"""Several runs of an agent in one trace without a session id: one conversation, or several."""

from __future__ import annotations

from typing import Any

import pytest

from collector.decode.span import Span
from tests.collector.calls.test_beginnings import ROVER, Service, call
from tests.collector.conftest import BASE, Orders, Wire

HOUR = 3_600_000_000_000
SESSION = {"session.id": "s"}


def _agent(wire: Wire, id_: str, start: float, end: float, **more: Any) -> Span:
    attributes = {
        "gen_ai.operation.name": more.pop("operation", "invoke_agent"),
        "gen_ai.agent.name": more.pop("name", "rover"),
        **more.pop("attributes", {}),
    }
    return wire.span("agent", attributes, id=id_, start=start, end=end, resource=ROVER, **more)


def _main(wire: Wire, start: float = 0, end: float = 50) -> Span:
    return wire.span("main", {}, id="main", start=start, end=end, resource=ROVER)


def _late() -> Service:
    """A service that has run for so long that no session began before it."""
    return Service(BASE - HOUR)


def _two_runs(wire: Wire, parent: str = "main", **more: Any) -> list[Span]:
    """In the order in which they end. The second run begins with the call that the first one began with."""
    return [
        call(wire, "unlock_safety", 1, parent="one", **more),
        call(wire, "move", 2, parent="one", **more),
        _agent(wire, "one", 0.5, 9, parent=parent, **more),
        call(wire, "unlock_safety", 11, parent="two", **more),
        _agent(wire, "two", 10.5, 19, parent=parent, **more),
    ]


def _in_the_end(*spans: Span) -> tuple[int, bool]:
    """Certain harm, and whether a harm is possible."""
    (found,) = _late().send(*spans).told()
    return found["harmful"], any(step.get("possible") for step in found["steps"])


def test_a_second_run_may_be_another_conversation(wire: Wire, orders: Orders) -> None:
    """A script runs its agent twice within a span of its own: what the second run repeats may be right."""
    spans = [*_two_runs(wire), _main(wire)]
    assert _late().send(*spans).paged == []
    for order in orders(spans):
        assert _in_the_end(*order) == (0, True), [each.name for each in order]


def test_so_may_a_run_in_a_context_that_was_not_given_back(wire: Wire, orders: Orders) -> None:
    """Its spans are below those of the run before, which had ended."""
    first, second = _two_runs(wire, parent="")[:3], _two_runs(wire, parent="one")[3:]
    assert _late().send(*first, *second).paged == []
    for order in orders([*first, *second]):
        assert _in_the_end(*order) == (0, True), [each.name for each in order]


def test_a_wrong_call_of_a_second_run_is_certain(wire: Wire) -> None:
    """It is wrong in every conversation."""
    spans = [*_two_runs(wire), call(wire, "explode", 12, parent="two"), _main(wire)]
    assert _late().send(*spans).paged == ["explode"]


def test_runs_of_one_session_are_one_conversation(wire: Wire, orders: Orders) -> None:
    """Its id says so."""
    spans = [*_two_runs(wire, attributes=SESSION), _main(wire)]
    for order in orders(spans):
        assert _in_the_end(*order) == (1, False), [each.name for each in order]


def test_runs_of_one_workflow_are_one_conversation(wire: Wire, orders: Orders) -> None:
    """A span of the framework holds both: a supervisor comes back."""
    flow = _agent(wire, "flow", 0, 50, operation="invoke_workflow", name="")
    spans = [*_two_runs(wire, parent="flow"), flow]
    for order in orders(spans):
        assert _in_the_end(*order) == (1, False), [each.name for each in order]


def test_an_agent_that_takes_over_goes_on(wire: Wire, orders: Orders) -> None:
    """It has another name, so it is no second run of the first."""
    other = _agent(wire, "two", 10.5, 19, parent="main", name="valves")
    spans = [*_two_runs(wire)[:4], other, _main(wire)]
    for order in orders(spans):
        assert _in_the_end(*order) == (1, False), [each.name for each in order]


@pytest.mark.parametrize("above", ["supervisor", "step"])
def test_an_agent_goes_on_at_once_after_one_that_it_has_asked(wire: Wire, above: str) -> None:
    """The helper has ended, and the agent's own span has not come: a missing span right above calls is no script's."""
    step = wire.span(
        "running tools", {"gen_ai.operation.name": "step"}, id="step", parent="supervisor"
    )
    spans = [
        _agent(wire, "before", -20, -10, trace="before"),
        call(wire, "log", -19, parent="before", trace="before"),
        call(wire, "log", 2.5, parent="helper"),
        _agent(wire, "helper", 2, 3, parent="irrigate", name="helper"),
        call(wire, "irrigate", 1, id="irrigate", end=4, parent=above),
        call(wire, "move", 5, parent=above),
    ]
    if above == "step":
        spans.insert(-1, step)
    assert _late().send(*spans).paged == ["move"]
