"""Which things a call is about."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alphabet.pattern import same
from monitor.alphabet.things import NO_VALUE, VALUES_MAX, EachRule, ThingPath, thing_key
from monitor.partial import CutObject, PartialArguments
from monitor.value_paths import path_of

RULE = EachRule(
    "order",
    {
        "look_up": [ThingPath(path_of("order_id"))],
        "refund": [ThingPath(path_of("order")), ThingPath(path_of("$.order_id"))],
        "cancel_many": [ThingPath(path_of("orders[*]"))],
        "send": [ThingPath(path_of("to"), as_text=True)],
        "buy": [ThingPath(path_of("item.id"))],
    },
)
A, B = thing_key("A1"), thing_key("B7")

SCALARS = st.one_of(st.text(max_size=3), st.integers(-3, 3), st.floats(width=16), st.booleans())


@given(SCALARS, SCALARS)
def test_values_are_one_thing_exactly_if_patterns_hold_them_equal(one: Any, other: Any) -> None:
    """Two values have one key if and only if patterns compare them as equal: 5 is 5.0, "5" and true are neither."""
    assert (thing_key(one) == thing_key(other)) is (
        same(one, other) or (one != one and other != other)
    )


@pytest.mark.parametrize(
    ("tool", "arguments", "keys", "is_open"),
    [
        ("look_up", {"order_id": "A1"}, (A,), False),
        ("refund", {"order": "A1", "order_id": "B7"}, (A, B), False),
        ("refund", {"order": "A1", "order_id": "A1"}, (A,), False),
        ("cancel_many", {"orders": ["B7", "A1", "B7"]}, (B, A), False),
        ("cancel_many", {"orders": []}, (NO_VALUE,), False),
        ("look_up", {}, (NO_VALUE,), False),
        ("look_up", {"order_id": None}, (NO_VALUE,), False),
        ("look_up", {"order_id": ["A1"]}, (), True),
        ("look_up", {"order_id": {"id": "A1"}}, (), True),
        ("look_up", None, (), True),
        ("look_up", PartialArguments({}, {"order_id"}), (), True),
        ("look_up", PartialArguments({"order_id": "A1"}, {"note"}), (A,), False),
        ("refund", PartialArguments({"order": "A1"}, {"order_id"}), (A,), True),
        ("buy", PartialArguments({}, {"item"}), (), True),
        ("buy", {"item": CutObject(name="tea")}, (), True),
        ("buy", {"item.id": "A1", "item": {"id": "B7"}}, (A,), False),
        ("send", {"to": " A1 "}, (thing_key("a1"),), False),
    ],
)
def test_a_call_carries_the_values_at_its_paths(
    tool: str, arguments: Any, keys: tuple[bytes, ...], is_open: bool
) -> None:
    """A call carries each value once; null is none, and what is not known or no scalar may be any."""
    found = RULE.of_call(tool, arguments)
    assert found is not None
    assert (found.keys, found.is_open) == (keys, is_open)


def test_a_tool_that_is_not_named_is_of_no_thing() -> None:
    """A call of another tool has no things of its own, whatever it carries."""
    assert RULE.of_call("login", {"order_id": "A1"}) is None


def test_text_compares_numbers_and_texts_without_case() -> None:
    """`as: text` holds 5 and "5" for one thing, and so " Anna@x.org " and "anna@X.org"."""
    assert thing_key(5, as_text=True) == thing_key("5", as_text=True)
    assert thing_key(" Anna@x.org ", as_text=True) == thing_key("anna@X.org", as_text=True)


def test_more_values_than_are_read_leave_the_call_open() -> None:
    """Of more values than the bound, the first ones are known, and the call may be of any other thing."""
    found = RULE.of_call("cancel_many", {"orders": list(range(VALUES_MAX + 1))})
    assert found is not None
    assert len(found.keys) == VALUES_MAX
    assert found.is_open


def test_values_are_kept_where_they_may_be_shown_and_short() -> None:
    """Values are kept on request alone, and long ones are shortened; hostile numbers and texts do no harm."""
    arguments = {"orders": ["A1", 10**5000, "x" * 500, "\ud800"]}
    shown = RULE.of_call("cancel_many", arguments, shown=True)
    hidden = RULE.of_call("cancel_many", arguments)
    assert shown is not None
    assert hidden is not None
    assert shown.keys == hidden.keys
    assert hidden.values == ()
    assert shown.values[0] == "A1"
    assert all(len(str(each)) <= 120 for each in shown.values)
