"""The alphabet of a spec: a tool call becomes a token, by tool name and argument patterns.

A token states which symbols a call may be. Tokens are made once, when the spec is compiled, and a
session keeps their small integer ids. Invariant: ids 0..S-1 are the symbols. A call that did not fail
and has one certain reading has its symbol's id.

A name that is nearly that of a tool (`functions.pay`, `Pay`) may be a call of this tool, or of one that the spec does not
know: its token has the tool's symbols, and is not sure.

Example: `small: {amount: {max: 10}}` and `any: {}` of tool `pay` have ids 0 and 1. `pay` with amount 7 is 0, with
amount 70 is 1. `pay` without its arguments is a further token with symbols (0, 1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from monitor.alphabet.call_facts import COUNTED, AskedFacts, is_fact, taking
from monitor.alphabet.failed_calls import FailedCalls, failed_versions, is_upset
from monitor.alphabet.near_names import NearNames, ToolsAlike
from monitor.alphabet.pattern import Matcher, Pattern, parse
from monitor.alphabet.readings import NO_DATA, NONE, CallMasks, Readings
from monitor.alphabet.spelling import folded
from monitor.alphabet.token import Token, add_token
from monitor.partial import PartialArguments
from monitor.records import Reason, Returned

__all__ = [
    "Alphabet",
    "OwnFacts",
    "SymbolPatterns",
    "build_alphabet",
]

SymbolPatterns = tuple[str, Mapping[str, Pattern] | None]
"""A symbol's tool and its patterns of arguments and facts: None means any, an empty mapping no arguments."""

TOKENS_MAX: Final = 8_192
"""Tokens of one spec, without those of failed, doubted and nearly named calls (six times as many and more, which 16 bits hold). Beyond
them, calls with partly known arguments share the token of unknown ones."""

WORK_MAX: Final = 500_000
"""Matches of a value against a pattern, to find which symbols a call may be: 0.2 s."""

_ABSENT: Final = object()

_NO_ARGUMENTS: Final[Mapping[str, Pattern]] = {COUNTED: parse(0)}
"""`{}`, where a tool is asked for facts, too."""


class OwnFacts(NamedTuple):
    """What a call says by itself of which symbol it is. What was seen before it completes that."""

    masks: CallMasks
    unanswered: CallMasks
    """The same if its result were unknown: that of a failed call says nothing where no symbol takes it."""
    failed: bool


@dataclass(frozen=True, slots=True)
class _Candidate:
    """One symbol of a tool, ready to be tried."""

    symbol: int
    closed: bool
    """True if it matches only calls without arguments."""
    checks: tuple[tuple[str, Matcher], ...]
    """Arguments that must be present and match; {any: true} needs no check."""

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
    """Candidates that a call with partly known arguments may be -> its token."""
    facts: AskedFacts | None
    """What is asked of its calls beside the arguments; None if nothing is."""
    upset: frozenset[int]
    """Symbols of failed calls, which count as calls that did not fail."""


@dataclass(frozen=True, slots=True, eq=False)
class Alphabet:
    """Tools and patterns of a spec, compiled. Made by `build_alphabet`."""

    symbols: tuple[str, ...]
    """Names by symbol, in declaration order."""
    tools: tuple[str, ...]
    """Tool by symbol."""
    patterns: tuple[Mapping[str, Pattern] | None, ...]
    """Argument patterns by symbol, as declared."""
    tokens: tuple[Token, ...]
    """Meaning by token id."""
    _certain: dict[str, int]
    """Tool -> symbol, for tools whose symbol does not depend on arguments: the fast path."""
    _by_arguments: dict[str, _Tool]
    _unknown_tool: int
    mismatch: int
    """Token of a call of a known tool whose arguments match no symbol."""
    _failed: tuple[int, ...]
    """Token of the failed call, by token of the call."""
    _near: NearNames
    """What is nearly the name of a tool."""
    stride: int
    """The number of tokens without doubt, which come first. Behind them each has its doubted versions."""

    def match(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None,
        failed: bool,
        result: Returned = (),
        *,
        ended: bool = True,
        data: Mapping[str, bool | None] = NO_DATA,
    ) -> int:
        """Token id of a call; `arguments` None means that they are not on the wire.

        The most specific pattern wins: more exact arguments, then more constrained ones, then
        stronger kinds, then declaration order. Facts count as arguments do.

        Args:
            tool: of the call.
            arguments: of the call.
            failed: whether it failed.
            result: what it returned, as the only item, or unread; () if that is unknown.
            ended: False if it is not known whether it failed.
            data: facts about what was seen before the call; None, or missing: unknown.
        """
        token = self._certain.get(tool)
        if token is None:
            found = self._by_arguments.get(tool)
            if found is not None and found.facts is not None:
                own = self._own(found, arguments, result, failed=failed, ended=ended)
                return self._completed(found, own, data)
            token = self._match_arguments(tool, arguments)
        return self._failed[token] if failed else token

    def own(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None,
        failed: bool,
        result: Returned,
        *,
        ended: bool,
    ) -> OwnFacts:
        """What a call of a tool says by itself, for `completed`. The tool has symbols with conditions on data."""
        found = self._by_arguments[tool]
        return self._own(found, arguments, result, failed=failed, ended=ended)

    def completed(self, tool: str, own: OwnFacts, data: Mapping[str, bool | None]) -> int:
        """The token that `match` gives a call that says so much by itself, and has these facts of what was seen before it."""
        return self._completed(self._by_arguments[tool], own, data)

    def _own(
        self,
        found: _Tool,
        arguments: Mapping[str, Any] | None,
        result: Returned,
        *,
        failed: bool,
        ended: bool,
    ) -> OwnFacts:
        """What a call of a tool that is asked for more than arguments says by itself."""
        assert found.facts is not None
        known = found.facts.of_call(arguments, result, failed=failed, ended=ended)
        masks = found.readings.own(*known)
        if not (failed and result):
            return OwnFacts(masks, masks, failed)
        # It is not known what a call that failed would have returned.
        known = found.facts.of_call(arguments, (), failed=failed, ended=ended)
        return OwnFacts(masks, found.readings.own(*known), failed)

    def _completed(self, found: _Tool, own: OwnFacts, data: Mapping[str, bool | None]) -> int:
        token = self._among(found, own.masks, data)
        if not own.failed:
            return token
        if token == self.mismatch:
            token = self._among(found, own.unanswered, data)
        symbols = self.tokens[token].symbols
        if not symbols or found.upset.isdisjoint(symbols):
            return self._failed[token]
        return token if found.upset.issuperset(symbols) else self.faltering(token)

    def _among(self, found: _Tool, masks: CallMasks, data: Mapping[str, bool | None]) -> int:
        """The token of the candidates that may win."""
        # Tokens were not made for all sets of candidates: then it is as if all arguments were unknown.
        return found.partly.get(found.readings.with_data(masks, data), found.unknown)

    def facts_of(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None,
        result: Returned,
        *,
        failed: bool,
        data: Mapping[str, bool | None] = NO_DATA,
    ) -> Mapping[str, Any] | None:
        """The arguments of a call, with the facts that the symbols of its tool ask for."""
        found = self._by_arguments.get(tool)
        if found is None or found.facts is None:
            return arguments
        known = found.facts.of_call(arguments, result, failed=failed, ended=True)[0]
        unknown = {name for name in found.facts.data if data.get(name) is None}
        told = {name: holds for name, holds in data.items() if holds is not None}
        return PartialArguments({**known, **told}, {*known.unread, *unknown})

    def asked(self) -> dict[str, AskedFacts]:
        """The tools of which more is asked than arguments."""
        every = self._by_arguments.items()
        return {tool: found.facts for tool, found in every if found.facts is not None}

    def _match_arguments(self, tool: str, arguments: Mapping[str, Any] | None) -> int:
        found = self._by_arguments.get(tool)
        if found is None:
            return self._match_other(tool, arguments)
        if arguments is None:
            return found.unknown
        if type(arguments) is PartialArguments:
            remaining = found.readings.known_in_part(arguments)
            # Tokens were not made for all sets of candidates: then it is as if all arguments were unknown.
            return found.partly.get(remaining, found.unknown)
        for candidate in found.candidates:
            if candidate.takes(arguments):
                return candidate.symbol
        return self.mismatch

    def _match_other(self, tool: str, arguments: Mapping[str, Any] | None) -> int:
        """The token of a call whose name no tool has, as it is spelt."""
        alike = self._near.tools_of(tool)
        if alike is None:
            return self._unknown_tool
        for each in alike.tools:
            if self.match(each, arguments, failed=False) != self.mismatch:
                return alike.token
        return self._unknown_tool

    def nearly(self, tool: str) -> tuple[str, ...]:
        """The tools that a name, which no tool has, is nearly the name of."""
        alike = self._near.tools_of(tool)
        return alike.tools if alike is not None else ()

    def failed(self, token: int) -> int:
        """The token of a failed call, by that of the call."""
        return self._failed[token]

    def faltering(self, token: int) -> int:
        """The token of the same call, if it is not known whether it failed."""
        return self._doubted(token, 1)

    def vanishing(self, token: int) -> int:
        """The token of the same call, if it may not have been made here at all."""
        return self._doubted(token, 2)

    def _doubted(self, token: int, block: int) -> int:
        return token + block * self.stride

    def of_tool(self, tool: str) -> tuple[int, ...]:
        """The symbols of a tool that depend on its arguments, the most specific ones first."""
        found = self._by_arguments.get(tool)
        return () if found is None else tuple(each.symbol for each in found.candidates)


# --- building ---------------------------------------------------------------------------------


def build_alphabet(
    symbols: Mapping[str, SymbolPatterns],
    failed_calls: FailedCalls = "no_effect",
    *,
    open_world: bool = False,
) -> Alphabet:
    """The alphabet of `symbols` (in declaration order) under a convention for failed calls.

    In an `open_world` (a policy), calls that match no symbol are not judged.
    """
    tokens = [Token((index,), symbol=index) for index in range(len(symbols))]
    unknown_tool = add_token(tokens, Token((), reason=Reason.UNKNOWN_TOOL))
    mismatch = add_token(tokens, Token((), reason=Reason.ARGUMENT_MISMATCH))
    certain: dict[str, int] = {}
    by_arguments: dict[str, _Tool] = {}
    work = WORK_MAX
    for tool, members in _by_tool(symbols).items():
        if len(members) == 1 and _always_matches(members[0][1]):
            certain[tool] = members[0][0]
        else:
            found = by_arguments[tool] = _tool(members, tokens, mismatch, work)
            work = max(0, found.readings.work)
    failed = failed_versions(tuple(tokens), 0, tokens, failed_calls, open_world=open_world)
    alike, failed = _add_alike(symbols, tokens, failed, failed_calls, open_world=open_world)
    stride = _add_doubted(tokens)
    return Alphabet(
        symbols=tuple(symbols),
        tools=tuple(tool for tool, _ in symbols.values()),
        patterns=tuple(patterns for _, patterns in symbols.values()),
        tokens=tuple(tokens),
        _certain=certain,
        _by_arguments=by_arguments,
        _unknown_tool=unknown_tool,
        mismatch=mismatch,
        _failed=failed,
        _near=NearNames(alike),
        stride=stride,
    )


_Members = list[tuple[int, Mapping[str, Pattern] | None]]


def _by_tool(symbols: Mapping[str, SymbolPatterns]) -> dict[str, _Members]:
    grouped: dict[str, _Members] = {}
    for index, (tool, patterns) in enumerate(symbols.values()):
        grouped.setdefault(tool, []).append((index, patterns))
    return grouped


def _always_matches(patterns: Mapping[str, Pattern] | None) -> bool:
    if patterns is None:
        return True
    return bool(patterns) and all(pattern.kind == "any" for pattern in patterns.values())


def _tool(members: _Members, tokens: list[Token], mismatch: int, work: int) -> _Tool:
    """A compiled tool. Adds the tokens of its calls with unknown arguments to `tokens`."""
    ordered = sorted(members, key=lambda member: _precedence(member[1]), reverse=True)
    names = [name for _, patterns in members for name in patterns or ()]
    facts = AskedFacts(names) if any(map(is_fact, names)) else None
    if facts is not None:
        # Which arguments are none is then a fact of its own: each call has facts.
        ordered = [(each, _NO_ARGUMENTS if p == {} else p) for each, p in ordered]
    readings = Readings([patterns for _, patterns in ordered], work)
    partly: dict[frozenset[int], int] = {}
    unknown = readings.unknown()
    left = TOKENS_MAX - len(tokens)
    listed = sorted(readings.remaining(), key=sorted) if left > 0 else []
    # However many sets there are, a call of which all is known has its token: these need no further ones.
    certain = [frozenset({number}) for number in (NONE, *range(len(ordered)))]
    for found in (unknown, *certain, *listed[: max(0, left)]):
        if found not in partly:
            partly[found] = _add_uncertain(found, ordered, tokens, mismatch)
    candidates = tuple(_candidate(index, patterns) for index, patterns in ordered)
    upset = frozenset(symbol for symbol, patterns in ordered if is_upset(patterns))
    return _Tool(candidates, readings, partly[unknown], partly, facts, upset)


def _precedence(patterns: Mapping[str, Pattern] | None) -> tuple[Any, ...]:
    """Sort key: symbols of failed calls take these before all others, which have no answer then."""
    return is_upset(patterns), specificity(patterns)


def _add_uncertain(
    readings: frozenset[int], ordered: _Members, tokens: list[Token], mismatch: int
) -> int:
    """The token of a call that may be any of the readings, which may include `NONE`."""
    # Declaration order.
    symbols = tuple(sorted(ordered[number][0] for number in readings if number != NONE))
    if not symbols:
        return mismatch
    only = symbols[0] if len(symbols) == 1 else None
    if only is not None and NONE not in readings:
        return only
    return add_token(
        tokens, Token(symbols, exact=False, symbol=only, sure=NONE not in readings)
    )


def _candidate(index: int, patterns: Mapping[str, Pattern] | None) -> _Candidate:
    items = [] if patterns is None else sorted(patterns.items(), key=_strongest_first)
    checks = tuple((name, taking(name, p)) for name, p in items if p.kind != "any")
    return _Candidate(index, closed=patterns is not None and not patterns, checks=checks)


def _strongest_first(item: tuple[str, Pattern]) -> int:
    return -item[1].rank  # exact patterns are the cheapest and refuse most


def specificity(
    patterns: Mapping[str, Pattern] | None,
) -> tuple[int, int, tuple[int, ...], bool]:
    """Sort key: number of exact arguments, of constrained ones, ranks strongest first; {} ranks above no pattern."""
    ranks = sorted((p.rank for p in (patterns or {}).values() if p.kind != "any"), reverse=True)
    exact = sum(p.counts_as == "exact" for p in (patterns or {}).values())
    return exact, len(ranks), tuple(ranks), patterns is not None and not patterns


def _add_alike(
    symbols: Mapping[str, SymbolPatterns],
    tokens: list[Token],
    failed: tuple[int, ...],
    failed_calls: FailedCalls,
    *,
    open_world: bool,
) -> tuple[dict[str, ToolsAlike], tuple[int, ...]]:
    """Appends the tokens of calls with names that are nearly those of tools; returns the tools, and all failed versions."""
    tools: dict[str, dict[str, list[int]]] = {}
    for tool, members in _by_tool(symbols).items():
        tools.setdefault(folded(tool), {})[tool] = [symbol for symbol, _ in members]
    tools.pop("", None)
    first = len(tokens)
    alike: dict[str, ToolsAlike] = {}
    for name, named in tools.items():
        readings = tuple(sorted(each for found in named.values() for each in found))
        symbol = readings[0] if len(readings) == 1 else None
        token = add_token(
            tokens, Token(readings, exact=False, symbol=symbol, sure=False, alike=True)
        )
        alike[name] = ToolsAlike(tuple(named), token)
    added = tokens[first:]
    before = (*failed, *range(len(failed), first))
    found = failed_versions(added, first, tokens, failed_calls, open_world=open_world)
    return alike, (*before, *found)


def _add_doubted(tokens: list[Token]) -> int:
    """Appends the versions of each token of calls that may not be what they seem; returns how many had none."""
    plain = tuple(tokens)
    tokens += [
        replace(token, effect=True, exact=False, falters=True) if token.symbols else token
        for token in plain
    ]
    tokens += [replace(token, exact=False, vanishes=True) for token in plain]
    return len(plain)
