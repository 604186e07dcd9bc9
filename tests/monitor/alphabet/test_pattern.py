"""Argument patterns: JSON equality, every form, specificity and overlap."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alphabet.pattern import (
    RANKS,
    Pattern,
    PatternError,
    covers,
    overlaps,
    parse,
    same,
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)

VALUES: list[Any] = [
    None, True, False, 0, 1, 1.0, -1, 1.5, 2, 10**400, float("inf"), "", "1", "true", "abc", "ABC",
    "\ud800", "a\nb", [], [1], [True], [1.0], {}, {"a": 1}, {"a": 1.0}, {"a": True}, {"a": [None]},
]  # fmt: skip

PATTERNS: list[Any] = [
    1, "abc", True, None, [1], {"exact": {"a": 1}}, {"any": True}, {"one_of": [1, "abc", None]},
    {"one_of": [[1], True]}, {"not_in": [1, "abc"]}, {"not_in": []}, {"min": 1}, {"max": 1},
    {"min": 0, "max": 2}, {"min": 1, "max": 1}, {"min": 1.2, "max": 1.7}, {"regex": "b"},
    {"regex": "^A"}, {"type": "string"}, {"type": "integer"}, {"type": "number"},
    {"type": "boolean"}, {"type": "array"}, {"type": "object"}, {"type": "null"},
]  # fmt: skip


def matched(raw: Any) -> list[Any]:
    pattern = parse(raw)
    return [value for value in VALUES if pattern.matches(value)]


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        (1, [1, 1.0]),
        ({"exact": 1.0}, [1, 1.0]),
        (True, [True]),
        ("1", ["1"]),
        (None, [None]),
        ([1], [[1], [1.0]]),
        ({"exact": {"a": 1}}, [{"a": 1}, {"a": 1.0}]),
        ({"exact": {}}, [{}]),
        ({"any": True}, VALUES),
        ({"one_of": [True, "abc", 2, [1]]}, [True, 2, "abc", [1], [1.0]]),
        ({"min": 1, "max": 2}, [1, 1.0, 1.5, 2]),
        ({"min": 2}, [2, 10**400, float("inf")]),
        ({"max": -1}, [-1]),
        ({"regex": "b"}, ["abc", "a\nb"]),
        ({"regex": "^abc$"}, ["abc"]),
        ({"regex": "(?i)^abc$"}, ["abc", "ABC"]),
        ({"type": "string"}, ["", "1", "true", "abc", "ABC", "\ud800", "a\nb"]),
        ({"type": "integer"}, [0, 1, 1.0, -1, 2, 10**400]),
        ({"type": "number"}, [0, 1, 1.0, -1, 1.5, 2, 10**400, float("inf")]),
        ({"type": "boolean"}, [True, False]),
        ({"type": "array"}, [[], [1], [True], [1.0]]),
        ({"type": "object"}, [{}, {"a": 1}, {"a": 1.0}, {"a": True}, {"a": [None]}]),
        ({"type": "null"}, [None]),
    ],
)
def test_form_matches_exactly(raw: Any, wanted: list[Any]) -> None:
    """Each form matches its values and no others. Booleans are not numbers, nor are texts."""
    assert list(map(repr, matched(raw))) == list(map(repr, wanted))


@pytest.mark.parametrize("listed", [[1, "abc"], [True, None], [[1], {"a": 1}], []])
def test_not_in_is_the_complement_of_one_of(listed: list[Any]) -> None:
    """A value matches not_in exactly if it does not match one_of."""
    outside = parse({"not_in": listed})
    inside = [value for value in VALUES if any(same(value, each) for each in listed)]
    assert [value for value in VALUES if not outside.matches(value)] == inside


@given(json_values)
def test_exact_equality_is_json_equality(value: Any) -> None:
    """A value equals itself after encoding as JSON: alone, in a list, and in one_of."""
    twin = json.loads(json.dumps(value))
    for raw in ({"exact": value}, {"one_of": ["other", value]}):
        assert parse(raw).matches(twin)
    assert parse({"exact": [value]}).matches([twin])
    assert not parse({"not_in": [value]}).matches(twin)
    assert same((twin,), [value])


@given(json_values)
def test_no_pattern_raises_on_any_value(value: Any) -> None:
    """Arguments are the agent's: whatever they are, matching answers yes or no."""
    for raw in PATTERNS:
        assert parse(raw).matches(value) in {True, False}


def test_deep_values_do_not_overflow() -> None:
    """Equality recurses no deeper than the document, so nesting in a call is harmless."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert not parse([[1]]).matches(deep)
    assert parse({"not_in": [[[1]]]}).matches(deep)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        ({"one_of": []}, "pattern_matches_nothing"),
        ({"min": 2, "max": 1}, "pattern_matches_nothing"),
        (float("nan"), "pattern_matches_nothing"),
        ({"regex": "(a"}, "invalid_regex"),
        ({"regex": r"(a)\1"}, "invalid_regex"),
        ({"regex": "\ud800"}, "invalid_regex"),
        ({"regex": "a" * 5000}, "invalid_regex"),
        ({"regex": "((a{1,100}){1,100}){1,100}"}, "invalid_regex"),
        ({"regex": 1}, "invalid_pattern"),
        ({"type": "float"}, "invalid_pattern"),
        ({"type": []}, "invalid_pattern"),
        ({"any": False}, "invalid_pattern"),
        ({"one_of": "abc"}, "invalid_pattern"),
        ({"not_in": {"a": 1}}, "invalid_pattern"),
        ({"min": True}, "invalid_pattern"),
        ({"max": "9"}, "invalid_pattern"),
        ({"min": float("nan")}, "invalid_pattern"),
        ({}, "invalid_pattern"),
        ({"exact": 1, "any": True}, "invalid_pattern"),
        ({"min": 1, "type": "number"}, "invalid_pattern"),
    ],
)
def test_bad_patterns_are_refused(raw: Any, code: str) -> None:
    """A pattern that is meaningless or matches nothing is refused with its code."""
    with pytest.raises(PatternError) as caught:
        parse(raw)
    assert caught.value.code == code


def test_refused_object_gets_the_hint() -> None:
    """The error for a plain object shows how to write an exact one."""
    with pytest.raises(PatternError, match=r"write \{exact: \.\.\.\}"):
        parse({"street": "Elm", "number": 1})


def test_ranks_are_the_documented_order() -> None:
    """exact > one_of > min/max > regex > type > not_in > any."""
    raw = [1, {"one_of": [1]}, {"min": 1}, {"regex": "a"}, {"type": "null"}, {"not_in": [1]}, {"any": True}]  # fmt: skip
    ranks = [parse(each).rank for each in raw]
    assert ranks == sorted(ranks, reverse=True)
    assert len(set(ranks)) == len(RANKS)


@pytest.mark.parametrize("one", PATTERNS, ids=str)
def test_overlap_and_cover_are_never_wrong(one: Any) -> None:
    """The static results agree with sample values, and overlap is symmetric."""
    left = parse(one)
    for other in PATTERNS:
        right = parse(other)
        both = [value for value in VALUES if left.matches(value) and right.matches(value)]
        assert overlaps(left, right) == overlaps(right, left)
        if both:
            assert overlaps(left, right) is not False
        if covers(left, right):
            assert all(left.matches(value) for value in VALUES if right.matches(value))
        if overlaps(left, right) is False:
            assert not covers(left, right)


@pytest.mark.parametrize(
    ("one", "other", "answer"),
    [
        ({"min": 1, "max": 2}, {"min": 2}, True),
        ({"min": 1, "max": 2}, {"min": 3}, False),
        ({"min": 1.2, "max": 1.7}, {"type": "integer"}, False),
        ({"min": 1.2}, {"type": "integer"}, True),
        ({"min": 1}, {"type": "string"}, False),
        ({"type": "integer"}, {"type": "number"}, True),
        ({"type": "string"}, {"type": "number"}, False),
        ({"regex": "a"}, {"type": "string"}, True),
        ({"regex": "a"}, {"type": "object"}, False),
        ({"regex": "a"}, {"min": 1}, False),
        ({"regex": "a"}, {"regex": "b"}, None),
        ({"regex": "a"}, {"not_in": ["a"]}, None),
        ({"not_in": [1]}, {"not_in": [2]}, True),
        ({"not_in": [True, False]}, {"type": "boolean"}, False),
        ({"not_in": [1]}, 1.0, False),
        ({"any": True}, {"regex": "a"}, True),
    ],
)
def test_overlap_is_decided(one: Any, other: Any, answer: bool | None) -> None:
    """Overlap is decided if that is possible, and else stays unknown."""
    assert overlaps(parse(one), parse(other)) is answer


@pytest.mark.parametrize(
    ("general", "special", "answer"),
    [
        ({"min": 0}, {"min": 1, "max": 2}, True),
        ({"min": 0}, {"min": -1, "max": 2}, False),
        ({"type": "number"}, {"type": "integer"}, True),
        ({"type": "number"}, {"min": 3}, True),
        ({"type": "string"}, {"regex": "a"}, True),
        ({"not_in": [1]}, {"not_in": [1, 2]}, True),
        ({"not_in": [1, 2]}, {"not_in": [1]}, False),
        ({"not_in": ["x"]}, {"min": 0}, True),
        ({"regex": "a"}, "abc", True),
        ({"regex": "a"}, {"regex": "a"}, True),
        ({"one_of": [1, 2]}, {"one_of": [2.0]}, True),
    ],
)
def test_cover_is_decided(general: Any, special: Any, answer: bool) -> None:
    """A pattern that only narrows another is recognised."""
    assert covers(parse(general), parse(special)) is answer


def test_regex_is_loaded_only_when_needed() -> None:
    """A process without regex patterns never pays for RE2."""
    code = (
        "import sys; from monitor.alphabet.pattern import parse; parse({'min': 1});"
        "print('re2' in sys.modules); parse({'regex': 'a'}); print('re2' in sys.modules)"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert said.stdout.split() == ["False", "True"]


def test_patterns_are_frozen() -> None:
    """A compiled pattern cannot be changed under the sessions that use it."""
    pattern = parse(1)
    assert isinstance(pattern, Pattern)
    with pytest.raises(AttributeError):
        pattern.kind = "any"  # type: ignore[misc]
