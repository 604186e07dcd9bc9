"""Unknown arguments may be numbers written as texts: what a symbol takes, its readings know."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from monitor.alphabet.pattern import Pattern, parse
from monitor.alphabet.readings import NONE, Readings
from monitor.partial import PartialArguments

BIG = {"min": 100}
SMALL = {"max": 50}
TEXT = {"type": "string"}
DIGITS = {"regex": "^[0-9]+$"}
VALUES: list[Any] = [
    None,
    True,
    10,
    75,
    500,
    10.5,
    "10",
    "75",
    "500",
    " 75 ",
    "5e2",
    "x",
    "",
    [],
    {},
]


def patterns(*documents: Any) -> list[dict[str, Pattern]]:
    return [{"amount": parse(each)} for each in documents]


def winner(candidates: list[dict[str, Pattern]], value: Any) -> int:
    """The first candidate that takes the value, as the alphabet decides."""
    taking = [n for n, each in enumerate(candidates) if each["amount"].takes(value)]
    return taking[0] if taking else NONE


@pytest.mark.parametrize(
    "documents",
    [list(each) for n in (1, 2, 3) for each in product((BIG, SMALL, TEXT, DIGITS), repeat=n)],
)
def test_every_value_is_among_the_readings(documents: list[Any]) -> None:
    """Whatever the unread argument was, the symbol that it makes the call is a possible reading."""
    candidates = patterns(*documents)
    found = Readings(candidates, 10_000).known_in_part(PartialArguments({}, {"amount"}))
    assert {winner(candidates, value) for value in VALUES} <= found


def test_a_known_text_is_its_number() -> None:
    """A known amount written as text excludes the symbols of other amounts."""
    readings = Readings(patterns(BIG, SMALL), 10_000)
    known = {"500": {0}, "10": {1}, "75": {NONE}, "x": {NONE}}
    for text, expected in known.items():
        made = PartialArguments({"amount": text}, {"other"})
        assert readings.known_in_part(made) == expected
