"""Sessions that go on with calls of other sessions: harm that these would explain is possible harm, at any time."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from collector.decode.span import Span
from monitor.visibility.cause import Cause
from tests.collector.calls.test_beginnings import (
    ANSWER,
    SAID,
    SESSION,
    USER,
    Service,
    call,
    model,
    root,
)
from tests.collector.conftest import BASE, Wire

HOUR = 3_600_000_000_000
CARRIED = (USER, SAID, ANSWER, USER)
APPROVED = {
    "role": "tool",
    "parts": [{"type": "tool_call_response", "id": "d", "response": "ok"}],
}


def _late() -> Service:
    """A service that has run for so long that no session began before it."""
    return Service(BASE - HOUR)


def _turn(wire: Wire, trace: str, at: float, tool: str, *messages: Any, id_: str) -> list[Span]:
    of: dict[str, Any] = {"trace": trace, "attributes": {"gen_ai.conversation.id": id_}}
    return [model(wire, at, *messages, **of), call(wire, tool, at + 1, **of)]


def test_a_session_with_results_of_calls_that_it_lacks_claims_no_harm_of_order(
    wire: Wire,
) -> None:
    """The id of the conversation is another one with each turn, and the history is carried on."""
    first = _turn(wire, "one", 1, "unlock_safety", USER, id_="a")
    second = _turn(wire, "two", 11, "move", *CARRIED, id_="b")
    for order in permutations([*first, *second]):
        service = _late().send(*order)
        found = {each["session"]: each for each in service.told()}
        assert (found["b"]["unless"], found["b"]["harmful"]) == (["resumed"], 0)
        assert found["a"]["joined"] is False
    assert _late().send(*first, *second).paged == []


def test_a_wrong_argument_of_such_a_session_is_certain(wire: Wire) -> None:
    """No earlier call can allow it."""
    service = _late().send(*_turn(wire, "two", 11, "explode", *CARRIED, id_="b"))
    assert service.paged == ["explode"]


@pytest.mark.parametrize("id_", ["resp_68a1", "caresp_68a1"])
def test_an_id_of_an_answer_says_that_something_came_before(wire: Wire, id_: str) -> None:
    """The model's server keeps the history: what is sent looks like a first request."""
    service = _late().send(*_turn(wire, "two", 11, "move", USER, id_=id_))
    assert (service.paged, service.one()["unless"]) == ([], ["resumed"])


def test_a_session_that_has_the_earlier_calls_is_judged_in_full(wire: Wire) -> None:
    """Its second turn holds the first, whichever arrives first."""
    first = _turn(wire, "one", 1, "unlock_safety", USER, id_="a")
    second = _turn(wire, "two", 11, "water", *CARRIED, id_="a")
    for order in permutations([*first, *second]):
        service = _late().send(*order)
        (found,) = service.told()
        assert (found["harmful"], found["joined"]) == (1, False)

    service = _late().send(*first, *second)
    assert service.paged == ["water"]
    assert service.monitor.gaps.doubts[Cause.RESUMED] == 0


def test_results_of_the_traces_own_calls_say_nothing(wire: Wire) -> None:
    """Each further request holds them."""
    spans = [
        model(wire, 1, USER, attributes=SESSION),
        call(wire, "move", 2, attributes=SESSION),
        model(wire, 3, USER, SAID, ANSWER, attributes=SESSION),
    ]
    for order in permutations(spans):
        (found,) = _late().send(*order).told()
        assert (found["harmful"], found["joined"]) == (1, False)


def _approved(wire: Wire, **more: Any) -> list[Span]:
    """A run that a person let go on: the approved call comes first, then the model is given the whole history."""
    of: dict[str, Any] = {"trace": "two", **more}
    return [
        call(wire, "move", 11, **of),
        model(wire, 12, *CARRIED, APPROVED, **of),
        root(wire, 10, **of),
    ]


@pytest.mark.parametrize(
    "attributes", [{}, {"gen_ai.conversation.id": "b"}], ids=["trace", "session"]
)
def test_a_run_that_goes_on_with_an_approved_call_claims_no_harm_of_order(
    wire: Wire, attributes: dict[str, Any]
) -> None:
    """The first model of the trace is given more results than the trace has calls: an earlier trace has the others."""
    spans = _approved(wire, attributes=attributes)
    for order in permutations(spans):
        (found,) = _late().send(*order).told()
        assert (found["joined"], found["harmful"]) == (True, 0), [each.name for each in order]


def test_an_approved_call_waits_for_the_model_that_follows_it(wire: Wire) -> None:
    """Its service's models are asked before calls, and in this trace none was: the first request tells why."""
    before = [
        model(wire, 1, USER, trace="one"),
        call(wire, "unlock_safety", 2, trace="one"),
        root(wire, trace="one"),
    ]
    service = _late().send(*before, *_approved(wire))
    assert service.paged == []
    assert [each["harmful"] for each in service.told()] == [0, 0]


def test_a_call_before_any_request_is_certain_once_the_trace_is_there(wire: Wire) -> None:
    """A program made it, and no model was asked."""
    before = [
        model(wire, 1, USER, trace="one"),
        call(wire, "unlock_safety", 2, trace="one"),
        root(wire, trace="one"),
    ]
    service = _late().send(*before, call(wire, "move", 11, trace="two"))
    assert service.paged == []
    assert service.send(root(wire, 10, trace="two")).paged == ["move"]


def test_an_earlier_request_shows_that_the_trace_has_its_first_calls(wire: Wire) -> None:
    """The first model of the trace asked for the call, though its span comes last."""
    spans = [*_approved(wire), model(wire, 10.5, USER, trace="two")]
    for order in permutations(spans):
        (found,) = _late().send(*order).told()
        assert (found["joined"], found["harmful"]) == (False, 1), [each.name for each in order]


def test_a_program_that_makes_the_first_calls_itself_begins_a_conversation(wire: Wire) -> None:
    """The first model is given the results of these calls alone."""
    attributes = {"gen_ai.conversation.id": "b"}
    spans = [
        call(wire, "move", 11, trace="two", attributes=attributes),
        call(wire, "scan", 11.5, trace="two", attributes=attributes),
        model(wire, 12, USER, SAID, ANSWER, APPROVED, trace="two", attributes=attributes),
    ]
    for order in permutations(spans):
        (found,) = _late().send(*order).told()
        assert (found["joined"], found["harmful"]) == (False, 1), [each.name for each in order]


def test_a_wrong_argument_of_an_approved_call_is_certain(wire: Wire) -> None:
    """No earlier call can allow it."""
    spans = [call(wire, "explode", 12.5, trace="two"), *_approved(wire)]
    for order in permutations(spans):
        (found,) = _late().send(*order).told()
        assert found["harmful"] == 1, [each.name for each in order]
