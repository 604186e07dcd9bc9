"""Decisions whose calls are on their way are remembered, up to a bound."""

from __future__ import annotations

from pathlib import Path

from offrails_guard.awaiting_outcome.decision_id_files import DecisionIdFiles
from offrails_guard.awaiting_outcome.decision_ids import DecisionIds


def test_a_decision_is_taken_once() -> None:
    """The id comes back for its call, and is forgotten then; a call without an id is not held."""
    held = DecisionIds()
    held.put("c1", "d1")
    held.put("c2", "")

    assert [held.take("c1"), held.take("c1"), held.take("c2")] == ["d1", "", ""]


def test_calls_with_one_id_swallow_nothing(tmp_path: Path) -> None:
    """Two decisions under one id are both taken, the newest first: it may be that the outcome of the first never came."""
    for held in (DecisionIds(), DecisionIdFiles(tmp_path / "held")):
        held.put("pay", "d1")
        held.put("pay", "d2")
        held.put("other", "d3")

        assert [held.take("pay") for _ in range(3)] == ["d2", "d1", ""]
        assert held.take("other") == "d3"


def test_what_is_remembered_twice_is_taken_once(tmp_path: Path) -> None:
    """A session that was said to be new two times is new no more after its first call."""
    held = DecisionIdFiles(tmp_path / "held")
    held.put("new s1", "new")
    held.put("new s1", "new")

    assert (held.has("new s1"), held.take("new s1"), held.has("new s1")) == (True, "new", False)


def test_all_are_taken() -> None:
    """A server that is gone leaves no decision behind, of calls with one id either."""
    held = DecisionIds()
    for call, decision in (("pay", "d1"), ("pay", "d2"), ("look", "d3")):
        held.put(call, decision)

    assert (len(held), held.take_all(), len(held)) == (3, ["d1", "d2", "d3"], 0)


def test_the_oldest_is_given_up() -> None:
    """Beyond the bound the oldest call is forgotten."""
    held = DecisionIds(2)
    for number in range(3):
        held.put(f"c{number}", f"d{number}")

    assert (len(held), held.take("c0"), held.take("c2")) == (2, "", "d2")
