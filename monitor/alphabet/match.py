"""The alphabet of a spec: a tool call becomes a token, by tool name and argument patterns.

A token says which symbols a call may be. Tokens are made once, when the spec is compiled, and a
session keeps their small integer ids. The ids 0..S-1 are the symbols themselves: a call with one
certain reading that did not fail has its symbol's id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from monitor.alphabet.pattern import Matcher, Pattern
from monitor.alphabet.readings import NONE, Readings
from monitor.partial import Partial
from monitor.records import Reason

__all__ = ["Alphabet", "FailedCalls", "SymbolPatterns", "Token", "build"]

FailedCalls = Literal["no_effect", "harmful", "ordinary"]

SymbolPatterns = tuple[str, Mapping[str, Pattern] | None]
"""A symbol's tool and its argument patterns: None means any, an empty mapping no arguments."""

TOKENS_MAX: Final = 8_192
"""Tokens of one spec up to which readings of arguments known in part have tokens of their own."""

WORK_MAX: Final = 500_000
"""Values matched against patterns to find which symbols a call may be: 0.2 s."""

_ABSENT: Final = object()


@dataclass(frozen=True, slots=True)
class Token:
    """What a call is, by its tool, arguments and status."""

    symbols: tuple[int, ...]
    """Possible readings; () where nothing matches or the failure alone decides."""
    effect: bool = True
    """False for a failed call that changes nothing where it is defined."""
    reason: Reason | None = None
    """Why the call is harmful wherever the session is, if it is."""
    exact: bool = True
    """False where arguments were needed and are not on the wire."""
    symbol: int | None = None
    """What tool and arguments match, also when the call failed; None for nothing or several."""
    sure: bool = True
    """False where it may be none of the symbols, because arguments are not known."""
    named: bool = False
    """True for a failed call of one of the spec's symbols that is harmful because it failed."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One symbol of a tool, ready to be tried."""

    symbol: int
    closed: bool
    """Refuses any argument at all."""
    checks: tuple[tuple[str, Matcher], ...]
    """The arguments that must be there, and match; {any: true} needs no check."""

    def takes(self, arguments: Mapping[str, Any]) -> bool:
        if self.closed:
            return not arguments
        for name, matches in self.checks:
            value = arguments.get(name, _ABSENT)
            if value is _ABSENT or not matches(value):
                return False
        return True


@dataclass(frozen=True, slots=True)
class _Tool:
    """A tool whose symbol depends on the arguments; candidates most specific first."""

    candidates: tuple[_Candidate, ...]
    readings: Readings
    unknown: int
    """Token of a call whose arguments are not on the wire."""
    partly: Mapping[frozenset[int], int]
    """Tokens of calls whose arguments are known in part, by the candidates that they may be."""


@dataclass(frozen=True, slots=True, eq=False)
class Alphabet:
    """Tools and patterns of a spec, compiled. Made by `build`."""

    symbols: tuple[str, ...]
    """Names by symbol, in declaration order."""
    tools: tuple[str, ...]
    """Tool by symbol."""
    patterns: tuple[Mapping[str, Pattern] | None, ...]
    """Argument patterns by symbol, as declared."""
    tokens: tuple[Token, ...]
    """Meaning by token id."""
    _certain: dict[str, int]
    """Tools whose calls are one symbol whatever the arguments: the fast path."""
    _by_arguments: dict[str, _Tool]
    _unknown_tool: int
    _mismatch: int
    _failed: tuple[int, ...]
    """Token of the failed call, by token of the call."""

    def match(self, tool: str, arguments: Mapping[str, Any] | None, failed: bool) -> int:
        """Token id of a call; `arguments` None means that they are not on the wire.

        The most specific pattern wins: more exact arguments, then more constrained ones, then
        stronger kinds, then declaration order.
        """
        token = self._certain.get(tool)
        if token is None:
            token = self._match_arguments(tool, arguments)
        return self._failed[token] if failed else token

    def _match_arguments(self, tool: str, arguments: Mapping[str, Any] | None) -> int:
        found = self._by_arguments.get(tool)
        if found is None:
            return self._unknown_tool
        if arguments is None:
            return found.unknown
        if type(arguments) is Partial:
            return self._match_known(found, arguments)
        for candidate in found.candidates:
            if candidate.takes(arguments):
                return candidate.symbol
        return self._mismatch

    def _match_known(self, found: _Tool, arguments: Partial) -> int:
        """The same of arguments of which some cannot be read: what is known may leave few readings."""
        remaining = found.readings.known_in_part(arguments)
        # Where they were too many to be listed beforehand: any that its symbols leave.
        return found.partly.get(remaining, found.unknown)


# --- building ---------------------------------------------------------------------------------


def build(
    symbols: Mapping[str, SymbolPatterns],
    failed_calls: FailedCalls = "no_effect",
    *,
    open_world: bool = False,
) -> Alphabet:
    """The alphabet of `symbols` (in declaration order) under a convention for failed calls.

    In an `open_world` (a policy) what no symbol matches is not judged.
    """
    tokens = [Token((index,), symbol=index) for index in range(len(symbols))]
    unknown_tool = _add(tokens, Token((), reason=Reason.UNKNOWN_TOOL))
    mismatch = _add(tokens, Token((), reason=Reason.ARGUMENT_MISMATCH))
    certain: dict[str, int] = {}
    by_arguments: dict[str, _Tool] = {}
    work = WORK_MAX
    for tool, members in _by_tool(symbols).items():
        if len(members) == 1 and _always_matches(members[0][1]):
            certain[tool] = members[0][0]
        else:
            found = by_arguments[tool] = _tool(members, tokens, mismatch, work)
            work = max(0, found.readings.work)
    failed = _add_failed(tokens, failed_calls, open_world=open_world)
    return Alphabet(
        symbols=tuple(symbols),
        tools=tuple(tool for tool, _ in symbols.values()),
        patterns=tuple(patterns for _, patterns in symbols.values()),
        tokens=tuple(tokens),
        _certain=certain,
        _by_arguments=by_arguments,
        _unknown_tool=unknown_tool,
        _mismatch=mismatch,
        _failed=failed,
    )


_Members = list[tuple[int, Mapping[str, Pattern] | None]]


def _by_tool(symbols: Mapping[str, SymbolPatterns]) -> dict[str, _Members]:
    grouped: dict[str, _Members] = {}
    for index, (tool, patterns) in enumerate(symbols.values()):
        grouped.setdefault(tool, []).append((index, patterns))
    return grouped


def _always_matches(patterns: Mapping[str, Pattern] | None) -> bool:
    """True where no arguments could refute the symbol."""
    if patterns is None:
        return True
    return bool(patterns) and all(pattern.kind == "any" for pattern in patterns.values())


def _tool(members: _Members, tokens: list[Token], mismatch: int, work: int) -> _Tool:
    """A tool and the tokens of its calls with unknown arguments, which are added."""
    ordered = sorted(members, key=lambda member: specificity(member[1]), reverse=True)
    readings = Readings([patterns for _, patterns in ordered], work)
    partly: dict[frozenset[int], int] = {}
    unknown = readings.unknown()
    left = TOKENS_MAX - len(tokens)
    listed = sorted(readings.remaining(), key=sorted) if left > 0 else []
    for found in (unknown, *listed[: max(0, left)]):
        if found not in partly:
            partly[found] = _add_uncertain(found, ordered, tokens, mismatch)
    candidates = tuple(_candidate(index, patterns) for index, patterns in ordered)
    return _Tool(candidates, readings, partly[unknown], partly)


def _add_uncertain(
    readings: frozenset[int], ordered: _Members, tokens: list[Token], mismatch: int
) -> int:
    """The token of a call that may be any of some candidates, or none where that is one of them."""
    # In the order they are declared in.
    symbols = tuple(sorted(ordered[number][0] for number in readings if number != NONE))
    if not symbols:
        return mismatch
    only = symbols[0] if len(symbols) == 1 else None
    if only is not None and NONE not in readings:
        return only
    return _add(tokens, Token(symbols, exact=False, symbol=only, sure=NONE not in readings))


def _candidate(index: int, patterns: Mapping[str, Pattern] | None) -> _Candidate:
    items = [] if patterns is None else sorted(patterns.items(), key=_strongest_first)
    checks = tuple((name, pattern.takes) for name, pattern in items if pattern.kind != "any")
    return _Candidate(index, closed=patterns is not None and not patterns, checks=checks)


def _strongest_first(item: tuple[str, Pattern]) -> int:
    return -item[1].rank  # the exact ones are the cheapest, and refuse most


def specificity(
    patterns: Mapping[str, Pattern] | None,
) -> tuple[int, int, tuple[int, ...], bool]:
    """Sort key: exact arguments, constrained ones, their ranks strongest first; {} before any."""
    ranks = sorted((p.rank for p in (patterns or {}).values() if p.kind != "any"), reverse=True)
    exact = sum(p.kind == "exact" for p in (patterns or {}).values())
    return exact, len(ranks), tuple(ranks), patterns is not None and not patterns


def _add(tokens: list[Token], token: Token) -> int:
    tokens.append(token)
    return len(tokens) - 1


def _add_failed(
    tokens: list[Token], failed_calls: FailedCalls, *, open_world: bool
) -> tuple[int, ...]:
    """Appends the failed version of each token and returns their ids."""
    plain = tuple(tokens)
    if failed_calls == "ordinary":
        return tuple(range(len(plain)))
    if failed_calls == "harmful":
        return tuple(_add(tokens, _harmful(token, open_world=open_world)) for token in plain)
    return tuple(
        _add(tokens, replace(token, effect=False)) if token.symbols else index
        for index, token in enumerate(plain)
    )


def _harmful(token: Token, *, open_world: bool) -> Token:
    """A failed call where each is harmful; in an open world, each that is one of the symbols."""
    return Token(
        (),
        reason=Reason.FAILED_CALL,
        # What it did is known where it is harmful in any case.
        exact=token.sure or not open_world,
        symbol=token.symbol,
        sure=token.sure,
        named=bool(token.symbols),
    )
