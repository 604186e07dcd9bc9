"""A document's alphabet: its patterns parsed, and pairs of symbols that a call can both match."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any, Final

from monitor.alphabet import pattern
from monitor.alphabet.alphabet import SymbolPatterns, specificity
from monitor.alphabet.call_facts import COUNTED, FAILED, result_name
from monitor.alphabet.data_conditions import (
    condition_pattern,
    parse_conditional,
    said_condition,
)
from monitor.alphabet.failed_calls import is_upset
from monitor.alphabet.pattern import Pattern, PatternError
from monitor.spec.compiler.pattern_advice import advice, check_zeros
from monitor.spec.document.faults import Notes
from monitor.spec.document.schema import SpecDocument, SymbolDocument
from monitor.spec.suggestions import closest
from monitor.value_paths import PathError, path_of

__all__ = ["check_overlaps", "check_tools", "read_pattern", "read_symbols"]

SYMBOLS_MAX: Final = 1_000
REGEXES_MAX: Final = 256
PAIRS_MAX: Final = 20_000
"""Pairs of one tool's symbols that are looked at for overlap."""
NAMED_MAX: Final = 200
"""Tools named beside the alphabet that are looked at."""
WORK_MAX: Final = 2_000_000
"""Values that are tried on patterns in looking."""


def read_symbols(model: SpecDocument, notes: Notes) -> dict[str, SymbolPatterns]:
    """Tool and parsed patterns of each symbol, in order; a bad pattern is a finding."""
    if len(model.alphabet) > SYMBOLS_MAX:
        notes.add("too_large", f"more than {SYMBOLS_MAX:,} symbols", "alphabet")
        return {}
    regexes = sum(
        isinstance(raw, dict) and "regex" in raw
        for symbol in model.alphabet.values()
        for raw in ((symbol.arguments or {}) | symbol.result).values()
    )
    if regexes > REGEXES_MAX:
        notes.add("too_large", f"more than {REGEXES_MAX} regular expressions", "alphabet")
        return {}
    return {
        name: (symbol.tool, _patterns(name, symbol, notes))
        for name, symbol in model.alphabet.items()
    }


def _patterns(name: str, symbol: SymbolDocument, notes: Notes) -> dict[str, Pattern] | None:
    facts = _facts(name, symbol, notes)
    if symbol.arguments is None:
        return facts or None
    parsed: dict[str, Pattern] = {}
    for argument, raw in symbol.arguments.items():
        parsed |= _argument(argument, raw, notes, "alphabet", name, "arguments", argument)
    if not symbol.arguments and facts:
        facts[COUNTED] = pattern.parse(0)
    return parsed | facts


def _argument(argument: str, raw: Any, notes: Notes, *path: str | int) -> dict[str, Pattern]:
    """The patterns of one argument, and of what is asked of it by what was seen before."""
    try:
        conditions = parse_conditional(argument, raw)
    except PatternError as problem:
        notes.add(problem.code, str(problem), *path)
        return {}
    if conditions is not None:
        return dict(conditions)
    parsed = read_pattern(raw, notes, *path)
    return {} if parsed is None else {argument: parsed}


def _facts(name: str, symbol: SymbolDocument, notes: Notes) -> dict[str, Pattern]:
    """The patterns of what a symbol asks beside arguments."""
    found: dict[str, Pattern] = {}
    for path, raw in symbol.result.items():
        where = ("alphabet", name, "result", path)
        parsed = read_pattern(raw, notes, *where)
        try:
            path_of(path)
        except PathError as problem:
            notes.add("invalid_path", str(problem), *where)
        else:
            found |= {} if parsed is None else {result_name(path): parsed}
    if symbol.error is not None:
        found[FAILED] = pattern.parse(symbol.error)
    if symbol.said:
        texts = [symbol.said] if isinstance(symbol.said, str) else symbol.said
        condition = said_condition(texts)
        found[condition.name] = condition_pattern(condition)
    return found


def read_pattern(raw: Any, notes: Notes, *path: str | int) -> Pattern | None:
    """The pattern of one value; None, and a finding at `path`, where there is none."""
    try:
        parsed = pattern.parse(raw)
    except PatternError as problem:
        notes.add(problem.code, f"{problem}{advice(raw, of_result='result' in path)}", *path)
        return None
    check_zeros(notes, parsed, *path)
    return parsed


def check_tools(model: SpecDocument, notes: Notes) -> None:
    """Finds tools that `order` and `severity` name and no symbol has.

    A task may rate a tool it does not know: calling it is harmful. There only a name that is
    nearly one of the alphabet's is a finding.
    """
    tools = {symbol.tool for symbol in model.alphabet.values()}
    named = [("order", tool) for tool in model.order]
    named += [("severity.tools", tool) for tool in model.severity.tools]
    for key, tool in named[:NAMED_MAX]:
        if tool in tools:
            continue
        close = closest(tool, tools, 0.8) if len(tools) < 200 else ""
        if key == "order" or model.kind == "policy" or close:
            hint = f"; did you mean {close!r}?" if close else ""
            notes.add(
                "undeclared_tool",
                f"no symbol has the tool {tool!r}{hint}",
                *key.split("."),
                tool,
            )


def check_overlaps(symbols: Mapping[str, SymbolPatterns], notes: Notes) -> None:
    """Finds pairs that a call can both match, unless the winner only refines the other."""
    tools: dict[str, list[str]] = {}
    for name, (tool, _) in symbols.items():
        tools.setdefault(tool, []).append(name)
    weights = {name: _weight(patterns) for name, (_, patterns) in symbols.items()}
    pairs = work = 0
    for names in tools.values():
        for first, second in combinations(names, 2):
            pairs += 1
            work += _work(weights[first], weights[second])
            if pairs > PAIRS_MAX or work > WORK_MAX:
                return
            message = _overlap(symbols[first][1], symbols[second][1])
            if message:
                notes.add(
                    "overlapping_patterns",
                    f"{first!r} and {second!r} {message}",
                    "alphabet",
                    second,
                )


_Patterns = Mapping[str, Pattern] | None


def _weight(patterns: _Patterns) -> tuple[int, int]:
    """How many values the patterns list, and how many of them are lists or mappings.

    Texts and numbers are looked up; lists and mappings are compared one by one.
    """
    listed = [
        value
        for each in (patterns or {}).values()
        if each.kind in ("one_of", "not_in")
        for value in each.operand
    ]
    return len(listed), sum(isinstance(value, list | dict) for value in listed)


def _work(one: tuple[int, int], other: tuple[int, int]) -> int:
    return one[0] + other[0] + one[1] * other[1]


def _overlap(first: _Patterns, second: _Patterns) -> str:
    """How two symbols of one tool overlap; "" if they do not, or one refines the other."""
    if _refines(first, second) and _refines(second, first):
        return "match the same calls: the first always wins"
    if is_upset(first) is not is_upset(second):
        return ""  # a call that failed is the one, any other call the other
    winner, loser = first, second
    if specificity(second) > specificity(first):
        winner, loser = second, first
    if _refines(winner, loser) or not _can_meet(first, second):
        return ""
    same = specificity(first) == specificity(second)
    rule = "declaration order" if same else "the number and kind of their patterns"
    return f"can match the same call: {rule} decides"


def _refines(special: _Patterns, general: _Patterns) -> bool:
    """True when every call of `special` surely is one of `general` too."""
    if general is None:
        return True
    if special is None:
        return bool(general) and all(each.kind == "any" for each in general.values())
    if not general or not special:
        return not special and (not general or _all_any(general))
    return all(
        each.kind == "any" or (name in special and pattern.covers(each, special[name]))
        for name, each in general.items()
    )


def _all_any(patterns: Mapping[str, Pattern]) -> bool:
    return all(each.kind == "any" for each in patterns.values())


def _can_meet(first: _Patterns, second: _Patterns) -> bool:
    """True when some call surely matches both."""
    for one, other in ((first, second), (second, first)):
        if one is not None and not one:
            return other is None or _all_any(other)
    if first is None or second is None:
        return True
    shared = first.keys() & second.keys()
    return all(_meet(first[name], second[name]) for name in shared)


def _meet(one: Pattern, other: Pattern) -> bool:
    # "any" allows the argument to be missing, and then the other pattern still decides alone
    return pattern.overlaps(one, other) is True
