"""Arguments that match one symbol of an alphabet: an inverse of its patterns, by trial."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any, Final

from monitor.alphabet.alphabet import Alphabet
from monitor.alphabet.pattern import Pattern
from monitor.errors import OffrailsError
from tests.made_runs.regex import RegexSyntaxError, text_for

__all__ = ["NoSampleError", "arguments_for", "values_for", "wrong_arguments"]

TRIES: Final = 200
"""Combinations of values that are tried before a symbol is given up."""

_WORDS: Final = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel")


class NoSampleError(OffrailsError):
    """No arguments were found that match exactly the symbol."""


def arguments_for(alphabet: Alphabet, symbol: int, chance: Random) -> dict[str, Any]:
    """Arguments of a call that is this symbol and no other.

    Raises:
        NoSampleError: none was found, because other symbols take all such calls, or a regular
            expression is beyond us.
    """
    tool, name = alphabet.tools[symbol], alphabet.symbols[symbol]
    try:
        for arguments in _candidates(alphabet.patterns[symbol], chance):
            if alphabet.match(tool, arguments, failed=False) == symbol:
                return arguments
    except RegexSyntaxError as problem:
        raise NoSampleError(f"{name!r}: {problem}") from None
    raise NoSampleError(f"{name!r}: no call of {tool!r} was found that is this symbol")


def _candidates(
    patterns: Mapping[str, Pattern] | None, chance: Random
) -> Iterator[dict[str, Any]]:
    if not patterns:
        yield {}
        if patterns is None:
            yield {chance.choice(_WORDS): chance.choice(_WORDS)}
        return
    for _ in range(TRIES):
        chosen = {name: _value(pattern, chance) for name, pattern in patterns.items()}
        yield {name: found[0] for name, found in chosen.items() if found}


def _value(pattern: Pattern, chance: Random) -> list[Any]:
    """One value in a list, or none where there is none."""
    values = values_for(pattern, chance)
    return [chance.choice(values)] if values else []


def values_for(pattern: Pattern, chance: Random) -> list[Any]:
    """Some values the pattern matches; [] where none was found.

    Raises:
        RegexSyntaxError: a regular expression is beyond us.
    """
    return [value for value in _GUESSES[pattern.kind](pattern.operand, chance)
            if pattern.matches(value)]  # fmt: skip


def wrong_arguments(
    alphabet: Alphabet, symbol: int, chance: Random
) -> Iterator[tuple[dict[str, Any], int]]:
    """Calls of the symbol's tool that are not the symbol: arguments, and the call's token.

    One argument of a right call is another value, of its kind where that will do.
    """
    right = arguments_for(alphabet, symbol, chance)
    patterns = alphabet.patterns[symbol]
    names = [name for name in patterns or {} if name in right]
    chance.shuffle(names)
    changed = [right | {name: value} for name in names for value in _other(right[name])]
    if patterns is not None and not patterns:
        changed = [{chance.choice(_WORDS): 1}]
    for arguments in changed:
        token = alphabet.match(alphabet.tools[symbol], arguments, failed=False)
        if token != symbol:
            yield arguments, token


def _other(value: Any) -> list[Any]:
    if isinstance(value, bool) or value is None:
        return [value is not True, "other"]
    if isinstance(value, int | float):
        return [value + 1, value - 1, -value, value * 1000 + 1, "other"]
    if isinstance(value, str):
        return [f"{value}-other", "other", "", 0]
    return ["other", 0]


# --- guesses by kind of pattern, checked by whoever asked --------------------------------------


def _any(_operand: Any, chance: Random) -> list[Any]:
    return [chance.choice(_WORDS), chance.randint(1, 99)]


def _not_in(operand: Any, chance: Random) -> list[Any]:
    """Values of the kind of the excluded ones, so that the call looks like a real one."""
    if operand and all(isinstance(value, str) for value in operand):
        return [chance.choice(_WORDS), f"{chance.choice(_WORDS)} {chance.randint(1, 99)}"]
    numbers = [each for each in operand if isinstance(each, int | float)]
    beyond = [math.floor(max(numbers)) + chance.randint(1, 9)] if numbers else []
    return beyond or [chance.choice(_WORDS), f"not {len(operand)}"]


def _of_type(operand: Any, chance: Random) -> list[Any]:
    number = chance.randint(1, 99)
    values: dict[str, list[Any]] = {
        "string": [chance.choice(_WORDS)],
        "integer": [number],
        "number": [number, number + 0.5],
        "boolean": [True, False],
        "array": [[chance.choice(_WORDS)], []],
        "object": [{"key": chance.choice(_WORDS)}, {}],
        "null": [None],
    }
    return values[operand]


def _regex(operand: Any, chance: Random) -> list[Any]:
    return [text_for(operand, chance) for _ in range(20)]


def _range(operand: Any, chance: Random) -> list[Any]:
    low, high = operand
    least = low if math.isfinite(low) else min(high, 0) - 100
    most = high if math.isfinite(high) else max(least, 0) + 100
    whole = range(math.ceil(least), math.floor(most) + 1)
    middle = [chance.randint(whole[0], whole[-1])] if whole else []
    return [*middle, least, most, least + (most - least) * chance.random()]


_GUESSES: Final[dict[str, Callable[[Any, Random], list[Any]]]] = {
    "any": _any,
    "not_in": _not_in,
    "type": _of_type,
    "regex": _regex,
    "range": _range,
    "one_of": lambda operand, _: list(operand),
    "exact": lambda operand, _: [operand],
}
