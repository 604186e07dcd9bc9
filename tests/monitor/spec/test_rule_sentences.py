"""Constraints in a sentence."""

from __future__ import annotations

import pytest
import yaml

from monitor.spec.constraints import TEMPLATES, parse
from monitor.spec.rule_sentences import rule_sentence

SYMBOLS = ("a", "b", "c")

SENTENCES = {
    "forbid: a": "`a` is never allowed",
    "existence: a": "`a` at least once before the end",
    "existence: [a, 3]": "`a` at least 3 times before the end",
    "exactly: [a, 2]": "`a` exactly twice",
    "at_most: [a, 1]": "`a` at most once",
    "at_most: [a, 0]": "`a` is never allowed",
    "absence: a": "`a` is never allowed",
    "absence: [a, 3]": "`a` fewer than 3 times",
    "init: a": "the first call is `a`",
    "last: [[a, b]]": "the last call is `a` or `b`",
    "precedence: [a, b]": "no `b` before `a`",
    "precedence: [[a, b], c]": "no `c` before `a` or `b`",
    "response: [a, b]": "after each `a` a `b` must follow",
    "not_co_existence: [a, b]": "either `a` or `b`, never both",
}


@pytest.mark.parametrize(("rule", "sentence"), SENTENCES.items())
def test_a_rule_in_a_sentence(rule: str, sentence: str) -> None:
    """Templates, their numbers, and places with several symbols."""
    [made] = parse(yaml.safe_load(rule), SYMBOLS)
    assert rule_sentence(made, SYMBOLS) == sentence


@pytest.mark.parametrize("template", TEMPLATES)
def test_every_template_has_a_sentence(template: str) -> None:
    """It names each symbol of the rule."""
    singles = {"forbid": "a", "init": "a", "last": "a"}
    counts = {key: ["a", 2] for key in ("existence", "exactly", "at_most", "absence")}
    operand = {**singles, **counts}.get(template, ["a", "b"])
    [made] = parse({template: operand}, SYMBOLS)

    sentence = rule_sentence(made, SYMBOLS)
    assert "`a`" in sentence
    assert ("`b`" in sentence) is (operand == ["a", "b"])


def test_braces_in_names_are_no_places() -> None:
    """A symbol may be called {b}."""
    names = ("{b}", "{a}")
    [made] = parse({"precedence": ["{b}", "{a}"]}, names)
    assert rule_sentence(made, names) == "no `{a}` before `{b}`"
