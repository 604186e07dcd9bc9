"""Digests of freed arguments distinguish calls, and never take a copy for another call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.calls.call.piece import Piece
from collector.calls.call.same_call import agree
from collector.dialects.read import SpanReading
from collector.dialects.values.arguments import BareValue
from monitor.partial import PartialArguments
from monitor.records import Evidence


def piece(
    arguments: Mapping[str, Any] | None,
    *,
    bare: Any = None,
    source: str = "a",
    id_: bytes = b"1",
) -> Piece:
    return Piece(
        id_,
        b"",
        SpanReading(source, "move", arguments, None if bare is None else BareValue(bare)),
        1,
        2,
        Evidence.EXECUTED,
        {},
    )


def told_apart(one: Piece, other: Piece) -> tuple[bool, bool]:
    """Whether two calls are distinguished: before the first one's arguments are freed, and after."""
    before = not agree(one, other)
    one.give_up()
    after = not agree(one, other)
    assert after is not agree(other, one)
    return before, after


MANY = {f"name {number}": number for number in range(40)}


@pytest.mark.parametrize("source", ["a", "b"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (PartialArguments({"path": "/tmp"}, {"mode"}), {"path": "/etc", "mode": 1}),
        (
            PartialArguments({"path": "/tmp"}, {"mode"}),
            PartialArguments({"path": "/etc"}, {"mode"}),
        ),
        ({"path": "/tmp", "mode": 1}, PartialArguments({"path": "/etc"}, {"mode"})),
        (MANY, {**MANY, "name 7": "other"}),
        (MANY, {name: -1 - number for name, number in MANY.items()}),
        ({"x": 1}, {"x": 2}),
    ],
)
def test_another_call_is_told_from_a_freed_one(source: str, first: Any, second: Any) -> None:
    """Arguments that are known in part, or are many, leave as much as it takes."""
    assert told_apart(piece(first), piece(second, source=source, id_=b"2")) == (True, True)


@pytest.mark.parametrize("source", ["a", "b"])
def test_values_without_names_are_told_from_freed_ones(source: str) -> None:
    """A value is another one, whether it has a name or not."""
    for one, other in (
        (piece(None, bare="/tmp"), piece(None, bare="/etc", source=source)),
        (piece(None, bare="/tmp"), piece({"path": "/etc"}, source=source)),
        (piece({"path": "/tmp"}), piece(None, bare="/etc", source=source)),
    ):
        assert told_apart(one, other) == (True, True)


@pytest.mark.parametrize("is_freed", [False, True])
def test_whole_arguments_are_told_from_more_or_less(is_freed: bool) -> None:
    """A call has told exactly its own arguments, in any order, freed or not."""
    known = piece({"x": 1, "y": 2})
    part = piece(PartialArguments({"x": 1}, {"y"}), id_=b"2")
    none = piece(None, id_=b"3")
    if is_freed:
        for each in (known, part, none):
            each.give_up()

    assert known.has_told({"y": 2, "x": 1})
    for other in ({"x": 1}, {"x": 1, "y": 2, "z": 3}, {"x": 1, "y": 3}, {}, None):
        assert not known.has_told(other)
    for other in ({"x": 1, "y": 2}, {"x": 1}, None):
        assert not part.has_told(other)
        assert not none.has_told(other)


def test_digests_of_freed_arguments_are_small() -> None:
    """The digests stay small for any number of arguments."""
    one = piece({str(number): "x" * 1_000 for number in range(2_000)})
    one.give_up()
    two = piece({str(number): number for number in range(2_000)})
    two.give_up()
    assert one.freed is not None
    assert two.freed is not None
    assert len(two.freed.values) == 32


VALUES = st.one_of(
    st.integers(0, 3), st.sampled_from(["0", "1", "x", "", "[1]", "True", "1.0"]), st.booleans(),
    st.none(), st.floats(0, 2, width=16), st.lists(st.integers(0, 1), max_size=2),
)  # fmt: skip
NAMES = st.sampled_from([f"n{number}" for number in range(50)] + ["input", "__arg1"])
WHOLE = st.dictionaries(NAMES, VALUES, max_size=45)
PARTS = st.builds(
    lambda known, unread: PartialArguments(
        {k: v for k, v in known.items() if k not in unread}, unread
    ),
    WHOLE,
    st.sets(NAMES, min_size=1, max_size=3),
)


def _as_float(value: Any) -> Any:
    """An equal value of another type."""
    return float(value) if type(value) is int else value


@given(
    st.one_of(WHOLE, PARTS, st.none()),
    st.one_of(WHOLE, PARTS, st.none()),
    st.one_of(st.none(), VALUES),
    st.sampled_from("ab"),
    st.sets(NAMES, max_size=40),
)
def test_what_agrees_goes_on_to_agree(
    first: Any, second: Any, bare: Any, source: str, common: set[str]
) -> None:
    """Freeing arguments makes no copy another call."""
    if type(first) is dict and len(first) % 3:
        kept = {
            name: value
            for name, value in first.items()
            if len(first) % 3 == 1 or name in common
        }
        second = {
            name: str(value) if name in common and source == "b" else _as_float(value)
            for name, value in kept.items()
        }
    one = piece(first, bare=bare if first is None else None)
    other = piece(second, bare=bare if second is None else None, source=source, id_=b"2")
    before, after = told_apart(one, other)
    assert before or not after
