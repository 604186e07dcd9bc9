"""Argument patterns in words: what a symbol asks for, and which argument of a call does not match.

Idea: a call that matches no symbol of its tool is compared with the *nearest* one, whose patterns
refuse the fewest of its arguments. Of several that are as near, the most specific one is taken.

Invariant: without `show`, a text says nothing of a call but which argument fails which pattern. The
names of arguments come from the spec then.

Example: `pay_little: {amount: {max: 100}}`, and a call with amount 250: "`amount` (250) is above the
maximum 100; the nearest symbol is `pay_little`". Without `show`, "(250)" is left out.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from monitor.alphabet.alphabet import Alphabet
from monitor.alphabet.call_facts import COUNTED, FAILED, is_data, is_result, taking, worded
from monitor.alphabet.pattern import Pattern, number_in
from monitor.partial import PartialArguments
from monitor.weights import value_bytes

__all__ = [
    "LISTED_MAX",
    "TEXT_MAX",
    "Show",
    "any_of",
    "as_it_is",
    "asked",
    "explain_mismatch",
    "is_conditional",
    "quoted",
    "shortened",
]

Show = Callable[[Any], Any]
"""Gives what may be shown of an argument's value: a JSON-like value without secrets."""

TEXT_MAX: Final = 300
"""Characters of one explanation."""

LISTED_MAX: Final = 4
"""Arguments, symbols or values that are named; the others are counted."""

_VALUE_MAX: Final = 60
"""Characters of one value, expression or name."""

_VALUE_BYTES_MAX: Final = 2_048
"""Arrays and objects that take more memory are not written out."""

_UNWRITABLE: Final = "a value too long to write"

_ABSENT: Final = object()


def as_it_is(value: Any) -> Any:
    """A `Show` that hides nothing."""
    return value


def shortened(text: str, most: int = TEXT_MAX) -> str:
    """The text, cut to at most `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def quoted(name: str) -> str:
    """A name in a sentence."""
    return f"`{shortened(name, _VALUE_MAX)}`"


def any_of(names: list[str]) -> str:
    """Names of which any is meant: "`a`, `b` or `c`"."""
    shown = [quoted(name) for name in names[:LISTED_MAX]]
    if len(names) > LISTED_MAX:
        shown.append(f"{len(names) - LISTED_MAX} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"


def is_conditional(patterns: Mapping[str, Pattern] | None) -> bool:
    """True if a symbol with these patterns takes only some calls of its tool."""
    return patterns is not None and (
        not patterns or any(pattern.kind != "any" for pattern in patterns.values())
    )


# --- values -------------------------------------------------------------------------------------


def _value(value: Any) -> str:
    """A JSON-like value in a few characters."""
    if isinstance(value, str):
        return json.dumps(shortened(value, _VALUE_MAX), ensure_ascii=False)
    if isinstance(value, list | tuple | Mapping) and value_bytes(value) > _VALUE_BYTES_MAX:
        kind = "object" if isinstance(value, Mapping) else "array"
        return f"an {kind} of {len(value):,}"
    try:
        return shortened(json.dumps(value, ensure_ascii=False), _VALUE_MAX)
    except (
        ValueError,
        TypeError,
    ):  # an integer of thousands of digits; what JSON does not have
        return _UNWRITABLE


def _values(values: list[Any]) -> str:
    shown = [_value(each) for each in values[:LISTED_MAX]]
    more = f" and {len(values) - LISTED_MAX} more" if len(values) > LISTED_MAX else ""
    return ", ".join(shown) + more


# --- what a pattern asks for --------------------------------------------------------------------


def asked(patterns: Mapping[str, Pattern] | None) -> str:
    """The arguments that a symbol takes: "`amount` at least 100"; "" if it takes any."""
    if patterns is None:
        return ""
    if not patterns:
        return "without arguments"
    found = [
        _asked(name, pattern) for name, pattern in patterns.items() if pattern.kind != "any"
    ]
    if len(found) > LISTED_MAX:
        found[LISTED_MAX:] = [f"{len(found) - LISTED_MAX} more"]
    return ", ".join(found)


def _asked(name: str, pattern: Pattern) -> str:
    """What a symbol asks of one argument or fact."""
    if name == COUNTED:
        return "without arguments"
    if name == FAILED:
        return "failed" if pattern.operand is True else "not failed"
    if _is_said(pattern):
        return f"the user {pattern.operand}"
    is_exact = "is " if pattern.kind == "exact" else ""
    return f"{quoted(worded(name))} {is_exact}{_condition(pattern)}"


def _is_said(pattern: Pattern) -> bool:
    """True for a condition on what the user said, which names no argument."""
    return pattern.kind == "data" and pattern.operand.form == "said"


def _condition(pattern: Pattern) -> str:
    operand = pattern.operand
    if pattern.kind == "exact":
        return _value(operand)
    if pattern.kind == "one_of":
        return f"one of {_values(operand)}"
    if pattern.kind == "not_in":
        return f"none of {_values(operand)}"
    if pattern.kind == "regex":
        return f"matching {shortened(operand, _VALUE_MAX)}"
    if pattern.kind == "type":
        return f"of type {operand}"
    if pattern.kind == "data":
        return str(operand)
    low, high = operand
    if high == math.inf:
        return f"at least {_value(low)}"
    if low == -math.inf:
        return f"at most {_value(high)}"
    return f"from {_value(low)} to {_value(high)}"


# --- what does not match ------------------------------------------------------------------------


def explain_mismatch(
    alphabet: Alphabet, tool: str, arguments: Mapping[str, Any] | None, show: Show | None
) -> str:
    """Which arguments of a call fail the patterns of the nearest symbol; "" if that is not known.

    Args:
        alphabet: of the spec.
        tool: of the call, which has symbols, none of which takes the arguments.
        arguments: of the call.
        show: gives what may be shown of a value; None if values are not shown.
    """
    if arguments is None:
        return ""
    symbol, failing = _nearest(alphabet, tool, arguments)
    if not failing:
        return ""
    patterns = alphabet.patterns[symbol]
    if patterns:
        found = [
            _failing_one(name, patterns[name], arguments, show) for name in failing[:LISTED_MAX]
        ]
        if len(failing) > LISTED_MAX:
            found.append(f"{len(failing) - LISTED_MAX} more do not match")
    else:
        found = [_unasked(arguments, show)]
    end = f"; the nearest symbol is {quoted(alphabet.symbols[symbol])}"
    return shortened("; ".join(found), TEXT_MAX - len(end)) + end


def _nearest(
    alphabet: Alphabet, tool: str, arguments: Mapping[str, Any]
) -> tuple[int, list[str]]:
    """The symbol that refuses the fewest arguments, and which they are; (-1, []) if there is none."""
    best, fewest = -1, list[str]()
    for symbol in alphabet.of_tool(tool):
        failing = _failing(alphabet.patterns[symbol], arguments)
        if best < 0 or len(failing) < len(fewest):
            best, fewest = symbol, failing
    return best, fewest


def _failing(patterns: Mapping[str, Pattern] | None, arguments: Mapping[str, Any]) -> list[str]:
    """Names of the arguments that a symbol refuses; of one that takes none, all that are given."""
    if not patterns:
        return [] if patterns is None else list(arguments)
    unread = arguments.unread if isinstance(arguments, PartialArguments) else frozenset[str]()
    return [
        name
        for name, pattern in patterns.items()
        if pattern.kind != "any"
        and name not in unread
        and (name not in arguments or not taking(name, pattern)(arguments[name]))
    ]


def _unasked(arguments: Mapping[str, Any], show: Show | None) -> str:
    """What is said of a call of a symbol that takes no arguments."""
    if show is None:
        return f"it takes no arguments, and {len(arguments):,} are given"
    names = [str(show(name)) for name in list(arguments)[:LISTED_MAX]]
    more = len(arguments) - LISTED_MAX
    end = f" and {more:,} more" if more > 0 else ""
    return f"it takes no arguments, and is given {', '.join(map(quoted, names))}{end}"


def _failing_one(
    name: str, pattern: Pattern, arguments: Mapping[str, Any], show: Show | None
) -> str:
    """Which condition a call fails, and how."""
    if name == FAILED:
        return "the call " + ("did not fail" if pattern.operand is True else "failed")
    if name == COUNTED:
        return "it takes no arguments"
    if _is_said(pattern):
        return f"the user {pattern.operand.refusal}"
    if is_data(name):
        return f"{quoted(worded(name))} {pattern.operand.refusal}"
    value = arguments.get(name, _ABSENT)
    if is_result(name) and value is not _ABSENT:
        if len(value) > 1:
            return f"{quoted(worded(name))} is never {_condition(pattern)}"
        value = value[0] if value else _ABSENT
    return f"{quoted(worded(name))} {_failure(pattern, value, show)}"


def _failure(pattern: Pattern, value: Any, show: Show | None) -> str:
    """How a value fails a pattern, behind the argument's name."""
    if value is _ABSENT:
        return f"is missing: it must be {_condition(pattern)}"
    given = f"({_shown(value, show)}) " if show is not None else ""
    return given + _refusal(pattern, value)


def _shown(value: Any, show: Show) -> str:
    """What may be shown of a value, which may be of any size and depth."""
    try:
        return _value(show(value))
    except (ValueError, RecursionError):
        return _UNWRITABLE


def _refusal(pattern: Pattern, value: Any) -> str:
    operand = pattern.operand
    if pattern.kind == "exact":
        return f"is not {_value(operand)}"
    if pattern.kind == "one_of":
        return f"is none of {_values(operand)}"
    if pattern.kind == "not_in":
        return f"is one of {_values(operand)}, which are excluded"
    if pattern.kind == "regex":
        return f"does not match {shortened(operand, _VALUE_MAX)}"
    if pattern.kind == "type":
        return f"is not of type {operand}"
    number = number_in(value) if isinstance(value, str) else value
    if not isinstance(number, int | float) or isinstance(number, bool) or number != number:
        return f"is not a number ({_condition(pattern)})"
    low, high = operand
    return (
        f"is above the maximum {_value(high)}"
        if number > high
        else (f"is below the minimum {_value(low)}")
    )
