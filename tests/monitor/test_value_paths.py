"""Paths to values, and what they leave of a value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.partial import CutObject, PartialArguments
from monitor.value_paths import PathError, path_of, pruned

ORDER: Any = {
    "id": "A1",
    "lines": [{"price": 3}, {"price": 4, "tags": ["x", "y"]}, {"name": "z"}, 7],
    "a.b": "whole",
    "a": {"b": "inner", "c": None},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("id", ("A1",)),
        ("$.id", ("A1",)),
        ("$", (ORDER,)),
        ("lines[*].price", (3, 4)),
        ("$.lines[1].tags[*]", ("x", "y")),
        ("lines[0].price", (3,)),
        ("lines[9]", ()),
        ("lines.price", ()),
        ("id[0]", ()),
        ("a.b", ("whole",)),
        ("$.a.b", ("inner",)),
        ("a.c", (None,)),
        ("nothing.at.all", ()),
    ],
)
def test_a_path_finds_all_values_that_its_steps_lead_to(path: str, found: Any) -> None:
    """Names with dots, places and all places are followed; a key that is the whole text wins."""
    assert path_of(path).find(ORDER) == found


def test_a_path_may_begin_in_a_list() -> None:
    """Results that are lists are read without a name."""
    assert path_of("[*].id").find([{"id": 1}, {"id": 2}]) == (1, 2)
    assert path_of("$[1].id").find([{"id": 1}, {"id": 2}]) == (2,)


@pytest.mark.parametrize(
    ("path", "found"),
    [("id", (1,)), ("lines[0].price", None), ("a.b", None), ("a", ()), ("$", None)],
)
def test_an_argument_that_could_not_be_read_may_have_any_value(path: str, found: Any) -> None:
    """What stands under an unread argument is not known, nor is the whole; the others are found."""
    arguments = PartialArguments({"id": 1}, {"lines", "a.b"})
    assert path_of(path).of_call(arguments) == found
    assert path_of(path).of_call(None) is None


@pytest.mark.parametrize(
    "text", ["", "$.", ".a", "a..b", "a[", "a[-1]", "a[x]", "a]b", "[0]a", "a" * 501, ".a" * 33]
)
def test_what_is_no_path_is_refused(text: str) -> None:
    """A text that leads nowhere for certain is a mistake, and is told."""
    with pytest.raises(PathError):
        path_of(text)


NAMES = st.sampled_from(["a", "b", "a.b", "$.a"])
VALUES = st.recursive(
    st.sampled_from([None, True, 1, 1.5, "x", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=12,
)
PATHS = st.sampled_from(
    [
        "$",
        "a",
        "b",
        "a.b",
        "$.a",
        "$.a.b",
        "a[*]",
        "a[0].b",
        "a[1]",
        "[*]",
        "[*].a",
        "[0][*]",
        "b[*][*].a",
    ]
)


@given(VALUES, st.lists(PATHS, max_size=4))
def test_what_is_kept_of_a_value_has_the_same_at_each_path(
    value: Any, texts: list[str]
) -> None:
    """Pruning loses nothing that a path asks for, and adds nothing."""
    paths = [path_of(text) for text in texts]
    kept = pruned(value, paths)
    for path in paths:
        assert path.find(kept) == path.find(value)


def test_nothing_is_said_of_what_stood_behind_a_cut() -> None:
    """Members before the cut are found; those that may have followed are unknown, not absent."""
    value = CutObject({"status": "approved", "by": CutObject({"id": 7})})
    assert path_of("status").find(value) == ("approved",)
    assert path_of("by.id").find(value) == (7,)
    assert path_of("by.name").find(value) is None
    assert path_of("by").find(value) is None
    assert path_of("$").find(value) is None
    assert path_of("status.more").find(value) == ()
    assert path_of("by.name").find(pruned(value, [path_of("status")])) is None
