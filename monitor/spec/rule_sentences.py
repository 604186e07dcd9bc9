"""Constraints of a policy in a sentence, for people who have never read of Declare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from monitor.alphabet.pattern_words import any_of
from monitor.spec.constraints import Constraint

__all__ = ["rule_sentence"]


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def _absence(a: str, number: int) -> str:
    return f"{a} is never allowed" if number == 1 else f"{a} fewer than {_times(number)}"


_COUNTS: Final[Mapping[str, Callable[[str, int], str]]] = {
    "forbid": lambda a, _: f"{a} is never allowed",
    "at_most": lambda a, n: f"{a} at most {_times(n)}" if n else f"{a} is never allowed",
    "absence": _absence,
    "existence": lambda a, n: f"{a} at least {_times(n)} before the end",
    "exactly": lambda a, n: f"{a} exactly {_times(n)}",
    "init": lambda a, _: f"the first call is {a}",
    "last": lambda a, _: f"the last call is {a}",
}
"""Templates over one symbol and, where they count, a number."""

_PAIRS: Final[Mapping[str, str]] = {
    "precedence": "no {b} before {a}",
    "alternate_precedence": "before each {b} a new {a}",
    "chain_precedence": "right before each {b} comes {a}",
    "response": "after each {a} a {b} must follow",
    "alternate_response": "after each {a} a {b} must follow, before the next {a}",
    "chain_response": "right after each {a} comes {b}",
    "succession": "no {b} before {a}, and after each {a} a {b} must follow",
    "alternate_succession": "{a} and {b} take turns, {a} first",
    "chain_succession": "{a} and {b} come only as a pair, one right after the other",
    "not_succession": "after {a} no {b} any more",
    "not_chain_succession": "{b} never right after {a}",
    "not_co_existence": "either {a} or {b}, never both",
    "co_existence": "{a} and {b} belong together: both or neither",
    "responded_existence": "where there is {a}, there must be {b} as well",
    "choice": "{a} or {b} must be called",
    "exclusive_choice": "either {a} or {b} must be called, not both",
}
"""Templates over two symbols."""


def rule_sentence(rule: Constraint, symbols: Sequence[str]) -> str:
    """What a constraint asks for; `symbols` are the spec's."""
    places = [any_of([symbols[each] for each in sorted(place)]) for place in rule.places]
    if rule.template in _COUNTS:
        # An automaton that counts to n has a state for each number from 0 on.
        number = len(rule.automaton.states) - (rule.template != "absence")
        return _COUNTS[rule.template](places[0], number)
    return _PAIRS[rule.template].format(a=places[0], b=places[1])
