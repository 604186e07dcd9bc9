"""Argument patterns in words: which argument of a call does not match, and what was asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.alphabet.alphabet import Alphabet, build_alphabet
from monitor.alphabet.data_conditions import condition_pattern, said_condition
from monitor.alphabet.pattern import parse
from monitor.alphabet.pattern_words import (
    TEXT_MAX,
    any_of,
    as_it_is,
    asked,
    explain_mismatch,
    is_conditional,
)
from monitor.partial import all_but

PATTERNS: dict[str, Any] = {
    "exact": "EUR",
    "one_of": {"one_of": ["EUR", "USD"]},
    "not_in": {"not_in": ["EUR", "USD"]},
    "range": {"min": 5, "max": 10},
    "least": {"min": 5},
    "most": {"max": 10},
    "regex": {"regex": "^/tmp/"},
    "type": {"type": "integer"},
}


def alphabet(**symbols: dict[str, Any] | None) -> Alphabet:
    """Symbols of the one tool `pay`, by the raw patterns of their arguments."""
    return build_alphabet(
        {
            name: (
                "pay",
                None if raw is None else {key: parse(each) for key, each in raw.items()},
            )
            for name, raw in symbols.items()
        }
    )


def explained(made: Alphabet, arguments: Any, *, shown: bool = True) -> str:
    """The sentence, of a call that matches no symbol."""
    assert made.match("pay", arguments, False) == made.mismatch
    return explain_mismatch(made, "pay", arguments, as_it_is if shown else None)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        ("exact", "GBP", '`x` ("GBP") is not "EUR"'),
        ("one_of", "GBP", '`x` ("GBP") is none of "EUR", "USD"'),
        ("not_in", "EUR", '`x` ("EUR") is one of "EUR", "USD", which are excluded'),
        ("range", 11, "`x` (11) is above the maximum 10"),
        ("range", "4.5", '`x` ("4.5") is below the minimum 5'),
        ("range", "many", '`x` ("many") is not a number (from 5 to 10)'),
        ("least", 1, "`x` (1) is below the minimum 5"),
        ("most", True, "`x` (true) is not a number (at most 10)"),
        ("regex", "/etc", '`x` ("/etc") does not match ^/tmp/'),
        ("type", 1.5, "`x` (1.5) is not of type integer"),
        ("type", None, "`x` (null) is not of type integer"),
    ],
)
def test_each_pattern_says_what_it_refuses(kind: str, value: object, text: str) -> None:
    """The argument, its value, and what was asked; the value is left out where none is shown."""
    made = alphabet(pay={"x": PATTERNS[kind]})
    end = "; the nearest symbol is `pay`"

    assert explained(made, {"x": value}) == text + end
    hidden = text.replace(f"({json.dumps(value)}) ", "", 1)
    assert explained(made, {"x": value}, shown=False) == hidden + end


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("exact", '`x` is "EUR"'),
        ("one_of", '`x` one of "EUR", "USD"'),
        ("not_in", '`x` none of "EUR", "USD"'),
        ("range", "`x` from 5 to 10"),
        ("least", "`x` at least 5"),
        ("most", "`x` at most 10"),
        ("regex", "`x` matching ^/tmp/"),
        ("type", "`x` of type integer"),
    ],
)
def test_each_pattern_says_what_it_asks_for(kind: str, text: str) -> None:
    """A symbol's arguments in words."""
    assert asked({"x": parse(PATTERNS[kind])}) == text


def test_symbols_that_take_any_call_have_no_condition() -> None:
    """No patterns, or only {any: true}; `{}` takes calls without arguments alone."""
    anything = {"x": parse({"any": True})}
    assert [is_conditional(each) for each in (None, anything, {})] == [False, False, True]
    assert [asked(each) for each in (None, anything, {})] == ["", "", "without arguments"]


def test_an_argument_that_is_missing_is_named() -> None:
    """With what it must be."""
    made = alphabet(pay={"amount": {"max": 100}})
    assert explained(made, {}) == (
        "`amount` is missing: it must be at most 100; the nearest symbol is `pay`"
    )


def test_the_nearest_symbol_refuses_the_fewest_arguments() -> None:
    """Of several that are as near, the most specific one."""
    made = alphabet(
        little={"amount": {"max": 100}, "currency": "EUR", "to": "shop"},
        foreign={"amount": {"max": 50}, "currency": "USD"},
    )
    near = explained(made, {"amount": 60, "currency": "USD"})
    assert near == "`amount` (60) is above the maximum 50; the nearest symbol is `foreign`"
    both = explained(made, {"amount": 200, "currency": "GBP", "to": "shop"})
    assert both == (
        '`amount` (200) is above the maximum 100; `currency` ("GBP") is not "EUR"; '
        "the nearest symbol is `little`"
    )


def test_a_symbol_without_arguments_says_so() -> None:
    """How many arguments there are; their names, which are the agent's, only where they are shown."""
    made = alphabet(ping={})
    given_to_it = {"secret": 1, "b": 2}
    assert explained(made, given_to_it) == (
        "it takes no arguments, and is given `secret`, `b`; the nearest symbol is `ping`"
    )
    hidden = explained(made, given_to_it, shown=False)
    assert hidden == "it takes no arguments, and 2 are given; the nearest symbol is `ping`"


def test_unread_arguments_are_not_blamed() -> None:
    """Only what is known can refuse a call."""
    made = alphabet(pay={"amount": {"max": 100}, "to": "shop"})
    partly = all_but({"amount": 900}, {"to"})
    assert explained(made, partly) == (
        "`amount` (900) is above the maximum 100; the nearest symbol is `pay`"
    )
    assert explain_mismatch(made, "pay", None, as_it_is) == ""


def test_many_arguments_and_long_values_are_cut() -> None:
    """A sentence has at most 300 characters, and names the symbol whatever stands before it."""
    made = alphabet(pay={f"argument_{'x' * 50}_{n}": "y" * 500 for n in range(20)})
    text = explained(made, {})
    assert len(text) <= TEXT_MAX
    assert text.endswith("; the nearest symbol is `pay`")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1, "a"], '[1, "a"]'),
        ({"a": None}, '{"a": null}'),
        (list(range(9_999)), "an array of 9,999"),
        ({str(n): n for n in range(999)}, "an object of 999"),
        pytest.param(10**5_000, "a value too long to write", id="digits"),
        ("é\n`", r'"é\n`"'),
    ],
)
def test_any_value_is_written_in_a_few_characters(value: object, text: str) -> None:
    """Large ones by their size, and no value takes long or fails."""
    made = alphabet(pay={"x": {"one_of": ["y"]}})
    assert explained(made, {"x": value}) == (
        f'`x` ({text}) is none of "y"; the nearest symbol is `pay`'
    )


def test_what_may_be_shown_is_asked_for_the_whole_value() -> None:
    """A secret that is longer than what is shown is hidden: it is looked for before the value is cut."""
    made = alphabet(pay={"x": "y"})
    secret = "s" * 200

    def show(value: Any) -> Any:
        return value.replace(secret, "[redacted]")

    found = explain_mismatch(made, "pay", {"x": secret}, show)
    assert found == '`x` ("[redacted]") is not "y"; the nearest symbol is `pay`'


def test_a_value_that_cannot_be_looked_through_is_not_shown() -> None:
    """Neither its size nor its depth keeps the call from being explained."""
    made = alphabet(pay={"x": "y"})

    def show(value: Any) -> Any:
        return str(value)

    found = explain_mismatch(made, "pay", {"x": 10**5_000}, show)
    assert found == '`x` (a value too long to write) is not "y"; the nearest symbol is `pay`'


@given(
    kind=st.sampled_from([*PATTERNS]),
    value=st.text(alphabet="QZ\n`'\"\\\u202e", min_size=3, max_size=40),
)
def test_hidden_values_are_hidden(kind: str, value: str) -> None:
    """Without values shown, two calls that fail alike have the same sentence, whatever they hold."""
    made = alphabet(pay={"x": PATTERNS[kind]})
    if made.match("pay", {"x": value}, False) != made.mismatch:
        return
    text = explain_mismatch(made, "pay", {"x": value}, None)
    assert text
    assert text == explain_mismatch(made, "pay", {"x": "QQQ"}, None)
    assert len(explain_mismatch(made, "pay", {"x": value}, as_it_is)) <= TEXT_MAX


def test_names_of_which_any_is_meant() -> None:
    """Few are named, others counted."""
    assert any_of(["a"]) == "`a`"
    assert any_of(["a", "b", "c"]) == "`a`, `b` or `c`"
    assert any_of([*"abcdef"]) == "`a`, `b`, `c`, `d` or 2 more"


def test_what_the_user_said_is_named_by_its_first_texts() -> None:
    """Asked for, and missing, with how many more would do."""
    said = said_condition(["ill", "unwell", "doctor", "storm", "ill"])
    made = build_alphabet({"a": ("pay", {said.name: condition_pattern(said)})})
    assert asked(made.patterns[0]) == 'the user said "ill" or "unwell" or "doctor" or 1 more'
    assert explain_mismatch(made, "pay", {}, None).startswith('the user did not say "ill" or')
