"""Argument patterns: conditions on a value, parsed once and compiled to plain callables.

Values are JSON: 1 equals 1.0, True never equals 1, "1" never equals 1, also inside lists and
mappings. Regular expressions are RE2 (linear time), because agents choose the text.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Final

from monitor.errors import OffrailsError

__all__ = [
    "RANKS",
    "TYPES",
    "Pattern",
    "PatternError",
    "covers",
    "number_in",
    "overlaps",
    "parse",
    "same",
    "samples",
]

Matcher = Callable[[Any], bool]

RANKS: Final[dict[str, int]] = {
    "any": 0,
    "not_in": 1,
    "type": 2,
    "regex": 3,
    "range": 4,
    "one_of": 5,
    "exact": 6,
}
"""Kinds of pattern by specificity; `range` is {min:, max:}."""

_NUMBER: Final = (int, float)

NUMBER_LENGTH_MAX: Final = 65_536
"""Characters of a text that may be a number; longer texts are not."""

REGEX_LENGTH_MAX: Final = 4_096
REGEX_MEMORY_MAX: Final = 512 * 1024
"""Bytes of one compiled expression. Typical ones take a few KiB; hostile ones have no limit."""


class PatternError(OffrailsError):
    """A pattern cannot be used. `code` is the finding's code."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Pattern:
    """One argument's pattern. `operand` is what the document says, never changed after parsing."""

    kind: str
    """One of `RANKS`, or `data`: a condition on what was seen before (`monitor.alphabet.data_conditions`)."""
    operand: Any
    matches: Matcher = field(repr=False, compare=False)
    """True for a JSON value that matches. Callers handle missing arguments."""

    @property
    def rank(self) -> int:
        """Specificity: exact > one_of > min/max > regex > type > not_in > any."""
        return RANKS[self.counts_as]

    @property
    def counts_as(self) -> str:
        """The kind that it is in specificity."""
        kind: str = self.operand.counts_as if self.kind == "data" else self.kind
        return kind

    @property
    def takes(self) -> Matcher:
        """True for a call's argument that matches: as `matches`, but a limit also reads numbers from texts.

        Tools convert texts to numbers, so "1000" is above a maximum of 100.
        """
        return _reading_numbers(self.matches) if self.kind == "range" else self.matches


# --- values -----------------------------------------------------------------------------------


def same(value: Any, wanted: Any) -> bool:
    """JSON equality. Recursion goes no deeper than `wanted`, so a deep `value` is harmless."""
    if isinstance(wanted, bool) or isinstance(value, bool):
        return value is wanted
    if isinstance(wanted, list):
        return (
            isinstance(value, list | tuple)
            and len(value) == len(wanted)
            and all(map(same, value, wanted))
        )
    if isinstance(wanted, dict):
        return (
            isinstance(value, Mapping)
            and len(value) == len(wanted)
            and all(key in value and same(value[key], item) for key, item in wanted.items())
        )
    return bool(value == wanted)


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBER) and not isinstance(value, bool)


def _is_nan(value: Any) -> bool:
    return bool(value != value)


def _is_integer(value: Any) -> bool:
    if isinstance(value, float):
        return value.is_integer()
    return isinstance(value, int) and not isinstance(value, bool)


def number_in(text: str) -> int | float | None:
    """The number that a tool may convert a text to; None if there is none.

    It accepts the forms of Python, JavaScript and people: 1e3, 0x3e8, 1_000 and 1,000.
    """
    if len(text) > NUMBER_LENGTH_MAX:
        return None
    stripped = text.strip()
    if _GROUPED.fullmatch(stripped):
        stripped = stripped.replace(",", "")
    for read in _READ_NUMBER:
        try:
            found = read(stripped)
        except (ValueError, OverflowError):
            continue
        return None if _is_nan(found) else found
    return None


def _read_literal(text: str) -> int:
    return int(text, 0)  # 0x, 0o and 0b


_READ_NUMBER: Final[tuple[Callable[[str], Any], ...]] = (int, _read_literal, float)

_GROUPED: Final = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?")
"""Groups of thousands."""

TYPES: Final[dict[str, Matcher]] = {
    "string": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list | tuple),
    "object": lambda value: isinstance(value, Mapping),
    "null": lambda value: value is None,
}
"""JSON types. An integral float is an integer, because JSON's 1.0 equals 1."""


# --- matchers ---------------------------------------------------------------------------------


def _exactly(wanted: Any) -> Matcher:
    if isinstance(wanted, str):
        return partial(operator.eq, wanted)
    if wanted is None or isinstance(wanted, bool):
        return partial(operator.is_, wanted)
    if isinstance(wanted, _NUMBER):
        return lambda value: value == wanted and not isinstance(value, bool)
    return lambda value: same(value, wanted)


def _among(wanted: list[Any]) -> Matcher:
    strings = frozenset(item for item in wanted if isinstance(item, str))
    numbers = frozenset(item for item in wanted if _is_number(item) and not _is_nan(item))
    looked_up = (str, *_NUMBER)
    others = tuple(
        _exactly(item)
        for item in wanted
        if isinstance(item, bool) or not isinstance(item, looked_up)
    )

    def among(value: Any) -> bool:
        if isinstance(value, str):
            return value in strings
        if _is_number(value):
            return value in numbers
        return any(matches(value) for matches in others)

    return among


def _outside(unwanted: list[Any]) -> Matcher:
    among = _among(unwanted)
    return lambda value: not among(value)


def _between(low: Any, high: Any) -> Matcher:  # not float: integers may be too large for one
    return lambda value: (
        isinstance(value, _NUMBER) and not isinstance(value, bool) and low <= value <= high
    )


def _reading_numbers(matches: Matcher) -> Matcher:
    """A matcher that applies `matches` also to the numbers in texts."""

    def matching(value: Any) -> bool:
        if not isinstance(value, str):
            return matches(value)
        number = number_in(value)
        return number is not None and matches(number)

    return matching


def _searching(text: str) -> Matcher:
    import re2  # only specs with a regex load it

    options = re2.Options()
    options.max_mem = REGEX_MEMORY_MAX
    options.log_errors = False
    options.never_capture = True
    try:
        search = re2.compile(text, options).search
    except (re2.error, UnicodeError) as problem:
        raise PatternError("invalid_regex", f"{text!r}: {_described(problem)}") from None

    def searching(value: Any) -> bool:
        if not isinstance(value, str):
            return False
        # A lone surrogate ("\ud800" is legal JSON) has no UTF-8: it is searched as "?".
        return search(value.encode("utf-8", "replace")) is not None

    return searching


def _described(problem: Exception) -> str:
    message = problem.args[0] if problem.args else problem
    return message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)


# --- parsing ----------------------------------------------------------------------------------


def parse(raw: Any) -> Pattern:
    """The pattern of a document's value; a plain value is an exact pattern.

    Raises:
        PatternError: `invalid_pattern`, `invalid_regex` or `pattern_matches_nothing`.
    """
    if not isinstance(raw, dict):
        return _parse_exact(raw)
    if raw and raw.keys() <= {"min", "max"}:
        return _parse_range(raw)
    if len(raw) != 1 or next(iter(raw)) not in _FORMS:
        raise PatternError("invalid_pattern", _hint(raw))
    [(form, operand)] = raw.items()
    return _FORMS[form](operand)


def _hint(raw: dict[str, Any]) -> str:
    forms = "exact, any, one_of, not_in, min and max, regex, type"
    return (
        f"{_shown(raw)} is none of the pattern forms ({forms}); "
        "for an argument that is this very object write {exact: ...}"
    )


def _shown(raw: Any) -> str:
    text = repr(raw)
    return text if len(text) <= 80 else text[:77] + "..."


def _parse_exact(operand: Any) -> Pattern:
    if _is_number(operand) and _is_nan(operand):
        raise PatternError("pattern_matches_nothing", "nothing equals .nan")
    return Pattern("exact", operand, _exactly(operand))


def _parse_any(operand: Any) -> Pattern:
    if operand is not True:
        raise PatternError(
            "invalid_pattern", f"write {{any: true}}, not any: {_shown(operand)}"
        )
    return Pattern("any", True, lambda value: True)  # noqa: ARG005 - any value at all


def _parse_one_of(operand: Any) -> Pattern:
    if not isinstance(operand, list):
        raise PatternError("invalid_pattern", f"one_of takes a list, not {_shown(operand)}")
    if not operand:
        raise PatternError("pattern_matches_nothing", "one_of: [] leaves no value")
    return Pattern("one_of", operand, _among(operand))


def _parse_not_in(operand: Any) -> Pattern:
    if not isinstance(operand, list):
        raise PatternError("invalid_pattern", f"not_in takes a list, not {_shown(operand)}")
    return Pattern("not_in", operand, _outside(operand))


def _parse_range(operand: dict[str, Any]) -> Pattern:
    for name, bound in operand.items():
        if not _is_number(bound) or _is_nan(bound):
            raise PatternError("invalid_pattern", f"{name} takes a number, not {_shown(bound)}")
    low: Any = operand.get("min", -math.inf)
    high: Any = operand.get("max", math.inf)
    if low > high:
        raise PatternError("pattern_matches_nothing", f"min {low} is above max {high}")
    return Pattern("range", (low, high), _between(low, high))


def _parse_regex(operand: Any) -> Pattern:
    if not isinstance(operand, str):
        raise PatternError("invalid_pattern", f"regex takes a text, not {_shown(operand)}")
    if len(operand) > REGEX_LENGTH_MAX:
        message = (
            f"the expression has {len(operand):,} characters, at most {REGEX_LENGTH_MAX:,} fit"
        )
        raise PatternError("invalid_regex", message)
    return Pattern("regex", operand, _searching(operand))


def _parse_type(operand: Any) -> Pattern:
    if not isinstance(operand, str) or operand not in TYPES:
        known = ", ".join(TYPES)
        raise PatternError("invalid_pattern", f"type is one of {known}, not {_shown(operand)}")
    return Pattern("type", operand, TYPES[operand])


_FORMS: Final[dict[str, Callable[[Any], Pattern]]] = {
    "exact": _parse_exact,
    "any": _parse_any,
    "one_of": _parse_one_of,
    "not_in": _parse_not_in,
    "regex": _parse_regex,
    "type": _parse_type,
}


# --- comparing two patterns -------------------------------------------------------------------


_FEW: Final[dict[str, list[Any]]] = {"null": [None], "boolean": [True, False]}


def _values(pattern: Pattern) -> list[Any] | None:
    """All values that the pattern matches if they are few; else None."""
    if pattern.kind == "exact":
        return [pattern.operand]
    if pattern.kind == "one_of":
        return list(pattern.operand)
    if pattern.kind == "range" and pattern.operand[0] == pattern.operand[1]:
        return [pattern.operand[0]]
    return _FEW.get(pattern.operand) if pattern.kind == "type" else None


def overlaps(one: Pattern, other: Pattern) -> bool | None:
    """True if some value matches both; None if that is not decided (two regexes)."""
    if one.kind == other.kind == "data":
        return True  # patterns of one fact are the same
    for left, right in ((one, other), (other, one)):
        values = _values(left)
        if values is not None:
            return any(right.matches(value) for value in values)
    if "any" in (one.kind, other.kind):
        return True
    low, high = sorted((one, other), key=lambda pattern: pattern.rank)
    return _infinite_overlap(low, high)


def _infinite_overlap(low: Pattern, high: Pattern) -> bool | None:
    """`overlaps` for two patterns of infinitely many values; `low` has the lower rank."""
    if high.kind == "regex":
        if low.kind == "type":
            return bool(low.operand == "string")
        return None
    if low.kind == "regex":
        return False  # strings here, numbers there
    if low.kind == "not_in":
        return True  # finitely many values cannot exclude infinitely many
    if high.kind == "range":
        if low.kind == "type":
            return low.operand == "number" or (
                low.operand == "integer" and _holds_integer(*high.operand)
            )
        return bool(
            max(low.operand[0], high.operand[0]) <= min(low.operand[1], high.operand[1])
        )
    return low.operand == high.operand or {low.operand, high.operand} == {"integer", "number"}


def _holds_integer(low: Any, high: Any) -> bool:  # not float, as above
    if low == -math.inf or high == math.inf:
        return True
    inside = low < math.inf and high > -math.inf
    return bool(inside and math.ceil(low) <= math.floor(high))


def covers(general: Pattern, special: Pattern) -> bool:
    """True if `general` matches every value that `special` matches (sound, not complete)."""
    if general.kind == "any":
        return True
    if general.kind == special.kind == "data":
        return True
    values = _values(special)
    if values is not None:
        return all(general.matches(value) for value in values)
    if general.kind == "not_in":
        return _excludes(special, general)
    if general.kind == "type":
        return _is_of_type(special, general.operand)
    if general.kind == special.kind == "range":
        return bool(
            general.operand[0] <= special.operand[0]
            and special.operand[1] <= general.operand[1]
        )
    return general.kind == special.kind == "regex" and general.operand == special.operand


def _excludes(special: Pattern, general: Pattern) -> bool:
    return not any(special.matches(value) for value in general.operand)


def _is_of_type(special: Pattern, wanted: str) -> bool:
    if special.kind == "type":
        return special.operand == wanted or (special.operand, wanted) == ("integer", "number")
    return {"range": "number", "regex": "string"}.get(special.kind) == wanted


# --- values that patterns distinguish ---------------------------------------------------------


def samples(patterns: Iterable[Pattern]) -> tuple[list[Any], str]:
    """At least one JSON value of each kind that some patterns distinguish.

    Returns:
        The values, and a text that no pattern names: whether it matches an expression is not decided.
    """
    named: list[Any] = []
    for pattern in patterns:
        if pattern.kind == "exact":
            named.append(pattern.operand)
        elif pattern.kind in {"one_of", "not_in"}:
            named += pattern.operand
        elif pattern.kind == "range":
            named += [bound for bound in pattern.operand if abs(bound) != math.inf]
    text = "x" * (1 + max((len(each) for each in named if isinstance(each, str)), default=0))
    named = _different(named)
    many = 1 + max((len(each) for each in named if isinstance(each, list | dict)), default=0)
    others = [None, True, False, [None] * many, {str(index): None for index in range(many)}]
    return [*named, *others, *_numbers_between(named)], text


def _different(values: Iterable[Any]) -> list[Any]:
    """The values without duplicate texts and numbers."""
    texts, numbers, others = dict[str, None](), dict[float, None](), list[Any]()
    for each in values:
        if isinstance(each, str):
            texts[each] = None
        elif _is_number(each):
            numbers[each] = None
        else:
            others.append(each)
    return [*texts, *numbers, *others]


def _numbers_between(named: Iterable[Any]) -> Iterator[int | float]:
    """An integer and a fraction below, between and above the numbers, as far as these exist."""
    numbers = {each for each in named if _is_number(each) and not _is_nan(each)}
    known = sorted(each for each in numbers if abs(each) != math.inf)
    if not known:
        yield from (0, 0.5)
        return
    low: Any = math.floor(known[0])
    high: Any = math.ceil(known[-1])
    yield from (low - 1, high + 1, *_parts_of(_as_float(low) - 0.5, _as_float(high) + 0.5))
    for one, other in pairwise(known):
        if math.floor(one) + 1 < other:
            yield math.floor(one) + 1
        tried = _parts_of(_as_float(math.floor(one)) + 0.5, _next(one), _previous(other))
        yield from (each for each in tried if one < each < other)


def _parts_of(*numbers: float) -> list[float]:
    return [each for each in numbers if math.isfinite(each) and not each.is_integer()]


def _next(number: Any) -> float:
    return math.nextafter(_as_float(number), math.inf)


def _previous(number: Any) -> float:
    return math.nextafter(_as_float(number), -math.inf)


def _as_float(number: Any) -> float:  # not float, as above
    try:
        return float(number)
    except OverflowError:  # an integer too large for fractions to exist beside it
        return math.inf
