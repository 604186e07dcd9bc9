"""How rules over data compare values: what is kept of a value for that, and when a comparison holds.

Values are equal if their digests are. `max` and `min` compare numbers, and no limit holds of what is none.

Example: `max: budget`, and the budget was set to "100 EUR". An amount of 80 is at most that, an amount of "many" is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from monitor.alphabet.pattern import number_in
from monitor.partial import CutObject
from monitor.session.data.amounts_and_dates import ReadItem
from monitor.session.data.value_digests import digest_of, text_digest

__all__ = ["LIMITS", "TESTS", "ComparedValue", "compared", "numbers"]


class ComparedValue(NamedTuple):
    """One value, as it is compared."""

    digest: int
    number: Any
    """The number that it is, or that limits read in it; None if there is none."""
    words: bytes = b""
    """The words of its text, where parts of texts are compared."""
    is_part: bool = False
    """True if it is long enough to be looked for in results' texts."""
    is_short: bool = False
    """True if it is too short to tell that a write carries it."""
    items: tuple[ReadItem, ...] = ()
    """Amounts, dates and times that it consists of."""


def compared(value: Any, *, folded: bool) -> ComparedValue:
    """A value as it is compared with another."""
    if isinstance(value, CutObject):
        value = dict(value)
    return ComparedValue(text_digest(value) if folded else digest_of(value), _number(value))


def _number(value: Any) -> int | float | None:
    """The number that a value is, as limits read it."""
    if isinstance(value, str):
        return number_in(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return None
    return value


Test = Callable[[Sequence[ComparedValue], Sequence[ComparedValue]], bool]
"""Values of an argument, and those that are remembered: whether the condition holds for all."""


def numbers(values: Sequence[ComparedValue]) -> list[Any]:
    """The numbers that all of some values are; [] if one is none."""
    found = [each.number for each in values]
    return [] if None in found else found


def _is_at_most(values: Sequence[ComparedValue], limits: Sequence[ComparedValue]) -> bool:
    given, known = numbers(values), numbers(limits)
    return bool(given and known) and max(given) <= min(known)


def _is_at_least(values: Sequence[ComparedValue], limits: Sequence[ComparedValue]) -> bool:
    given, known = numbers(values), numbers(limits)
    return bool(given and known) and min(given) >= max(known)


def _digests(values: Sequence[ComparedValue]) -> set[int]:
    return {each.digest for each in values}


LIMITS: Final = ("max", "min")
"""Forms that only numbers fulfil, whatever is remembered."""

TESTS: Final[dict[str, Test]] = {
    "max": _is_at_most,
    "min": _is_at_least,
    "one_of": lambda given, known: _digests(given) <= _digests(known),
    "not_in": lambda given, known: _digests(given).isdisjoint(_digests(known)),
    "same_as": lambda given, known: (
        _digests(given) == _digests(known) and len(_digests(given)) == 1
    ),
}
"""Form of a condition -> its comparison."""
