"""Decisions whose calls are on their way are remembered, up to a bound."""

from __future__ import annotations

from guard.held import Held


def test_a_decision_is_taken_once() -> None:
    """The id comes back for its call, and is forgotten then; a call without an id is not held."""
    held = Held()
    held.put("c1", "d1")
    held.put("c2", "")

    assert [held.take("c1"), held.take("c1"), held.take("c2")] == ["d1", "", ""]


def test_the_oldest_is_given_up() -> None:
    """Beyond the bound the oldest call is forgotten."""
    held = Held(2)
    for number in range(3):
        held.put(f"c{number}", f"d{number}")

    assert (len(held), held.take("c0"), held.take("c2")) == (2, "", "d2")
