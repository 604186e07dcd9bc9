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
    _call,
    _model,
)
from tests.collector.conftest import BASE, Wire

HOUR = 3_600_000_000_000
CARRIED = (USER, SAID, ANSWER, USER)


def _late() -> Service:
    """A service that has run for so long that no session began before it."""
    return Service(BASE - HOUR)


def _turn(wire: Wire, trace: str, at: float, tool: str, *messages: Any, id_: str) -> list[Span]:
    of: dict[str, Any] = {"trace": trace, "attributes": {"gen_ai.conversation.id": id_}}
    return [_model(wire, at, *messages, **of), _call(wire, tool, at + 1, **of)]


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
        _model(wire, 1, USER, attributes=SESSION),
        _call(wire, "move", 2, attributes=SESSION),
        _model(wire, 3, USER, SAID, ANSWER, attributes=SESSION),
    ]
    for order in permutations(spans):
        (found,) = _late().send(*order).told()
        assert (found["harmful"], found["joined"]) == (1, False)
