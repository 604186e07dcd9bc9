"""Which symbols a call of one tool may be while some of its arguments are unknown.

Idea: the most specific pattern that takes the arguments wins. So a symbol is a reading only if some
values of the unknown arguments let it win. A symbol whose every call a more specific one takes is
no reading. "No symbol" (`NONE`) is a reading only if some values match no pattern.

Method: values are tried by kinds, one value of each kind that the patterns distinguish
(`pattern.samples`). A kind is a bit mask of the candidates that it does not rule out, the most
specific candidate in the lowest bit. The candidates that take a whole call are the bits that the
masks of all its arguments share. The lowest of these bits wins.

Invariant: the answer holds every reading that some values give. It is exact for exact values, lists
of them, ranges and types. Whether a text that no pattern names matches a regular expression is not
decided: both are tried. Where a bound is reached, every candidate is a reading.

Example: `small: {amount: {max: 10}}` (bit 0) and `any: {}` (bit 1). The kinds of `amount` are 0b11
(10 or less) and 0b10 (more). With `amount` unknown the masks are 0b11 and 0b10, so the winners are
`small` and `any`, and never `NONE`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Final

from monitor.alphabet.call_facts import failed_values, is_data, is_fact, is_result
from monitor.alphabet.pattern import Pattern, samples
from monitor.partial import PartialArguments
from monitor.value_paths import path_of

__all__ = ["NONE", "NO_DATA", "CallMasks", "Readings"]

NONE: Final = -1
"""The reading that is no symbol."""

MASKS_MAX: Final = 4_096
"""Different masks that are considered; beyond it, every reading is possible."""

EXPRESSIONS_MAX: Final = 6
"""Expressions of one argument whose matches are combined; beyond, every reading is possible."""

STRUCTURES_MAX: Final = 64
"""Lists and mappings that the patterns of one argument name; beyond, every reading is possible."""

_FAMILIES_MAX: Final = 512
_WORK_MAX: Final = 50_000
"""Masks that are combined to know beforehand which readings may remain."""

NO_DATA: Final[Mapping[str, bool | None]] = {}

CallMasks = tuple[int, ...] | None
"""Masks of the candidates that a call by itself does not rule out; None if they are too many: every reading is possible."""

Patterns = Mapping[str, Pattern] | None
_Masks = frozenset[int]


class Readings:
    """The readings of one tool's calls.

    Args:
        candidates: argument patterns by candidate, the most specific one first.
        work: most matches of a value against a pattern to find its kind. An argument that needs more
            may have any kind of value.
    """

    def __init__(self, candidates: Sequence[Patterns], work: int) -> None:
        self.work = work
        """Work that is left of the bound."""
        self._all = (1 << len(candidates)) - 1
        self._every = frozenset((*range(len(candidates)), NONE))
        self._checks: dict[str, list[tuple[int, Pattern]]] = {}
        self._open = 0
        """Candidates that do not refuse every argument."""
        for number, patterns in enumerate(candidates):
            if patterns is None or patterns:
                self._open |= 1 << number
            for name, pattern in (patterns or {}).items():
                if pattern.kind != "any":
                    checked = replace(pattern, matches=pattern.takes)
                    self._checks.setdefault(name, []).append((number, checked))
        self._kinds = {name: self._kinds_of(name) for name in self._checks}
        """Masks of each argument's values; None if there are too many to list."""
        self._data = tuple(name for name in self._checks if is_data(name))
        """Facts about what was seen before the call."""
        self._asks = any(map(is_fact, self._checks))
        """True if more is asked than arguments."""

    # --- masks --------------------------------------------------------------------------------

    def _of_value(self, checks: Iterable[tuple[int, Pattern]], value: Any) -> int:
        """Candidates that an argument of this value does not rule out."""
        mask = self._open
        for number, pattern in checks:
            if not pattern.matches(value):
                mask &= ~(1 << number)
        return mask

    def _absent(self, name: str) -> int:
        """Candidates that the argument's absence does not rule out."""
        mask = self._all
        for number, _ in self._checks[name]:
            mask &= ~(1 << number)
        return mask

    def _of(self, name: str, value: Any) -> int:
        """Candidates that the value of an argument or a fact does not rule out."""
        checks = self._checks[name]
        if not is_result(name):
            return self._of_value(checks, value)
        mask = self._absent(name)
        for each in value:
            mask |= self._of_value(checks, each)
        return mask

    def _kinds_of(self, name: str) -> _Masks | None:
        checks = self._checks[name]
        if is_data(name):
            return frozenset(self._of_value(checks, each) for each in (False, True))
        if name in failed_values:
            return frozenset(self._of_value(checks, each) for each in failed_values[name])
        found = self._distinguish(checks)
        return _unions(found) if found is not None and _is_several(name) else found

    def _distinguish(self, checks: list[tuple[int, Pattern]]) -> _Masks | None:
        named, text = samples([pattern for _, pattern in checks])
        self.work -= len(named) * len(checks)
        if (
            self.work < 0
            or sum(isinstance(each, list | dict) for each in named) > STRUCTURES_MAX
        ):
            return None
        found = {self._of_value(checks, value) for value in named}
        expressions = list({p.operand: None for _, p in checks if p.kind == "regex"})
        if len(expressions) > EXPRESSIONS_MAX:
            return None
        plain = [each for each in checks if each[1].kind != "regex"]
        # Limits apply to a text that reads as a number; an expression may match it or not.
        bases = {self._of_value(plain, each) for each in (text, *_as_texts(checks, named))}
        for answers in product((False, True), repeat=len(expressions)):
            matching = dict(zip(expressions, answers, strict=True))
            refused = 0
            for number, pattern in checks:
                if pattern.kind == "regex" and not matching[pattern.operand]:
                    refused |= 1 << number
            found |= {base & ~refused for base in bases}
        return frozenset(found)

    def _winners(self, masks: Iterable[int]) -> frozenset[int]:
        return frozenset((mask & -mask).bit_length() - 1 if mask else NONE for mask in masks)

    # --- answers ------------------------------------------------------------------------------

    def unknown(self) -> frozenset[int]:
        """Candidates that may win if all arguments are unknown; may include `NONE`."""
        masks = {self._all, self._open}
        for name, kinds in self._kinds.items():
            if kinds is None:
                return self._every
            masks = {mask & kind for mask in masks for kind in (*kinds, self._absent(name))}
            if len(masks) > MASKS_MAX:
                return self._every
        return self._winners(masks)

    def known_in_part(self, arguments: PartialArguments) -> frozenset[int]:
        """Candidates that may win if some arguments are known. Unread arguments are present with an unknown value."""
        return self.with_data(self.own(arguments, frozenset()), NO_DATA)

    def own(self, arguments: PartialArguments, absent: frozenset[str]) -> CallMasks:
        """What a call says by itself: to be completed by `with_data`, again and again.

        Args:
            arguments: with the facts of the call.
            absent: those of the unread ones that may be absent as well.
        """
        mask = self._open if arguments else self._all
        unread: list[_Masks] = []
        for name in self._checks:
            if is_data(name):
                continue
            if name in arguments.unread:
                kinds = self._kinds[name]
                if kinds is None:
                    return None
                unread.append(kinds | {self._absent(name)} if name in absent else kinds)
            elif name in arguments:
                mask &= self._of(name, arguments[name])
            else:
                mask &= self._absent(name)
        masks = {mask}
        for kinds in unread:
            masks = {mask & kind for mask in masks for kind in kinds}
            if len(masks) > MASKS_MAX:
                return None
        return tuple(sorted(masks))

    def with_data(self, own: CallMasks, data: Mapping[str, bool | None]) -> frozenset[int]:
        """Candidates that may win, given what a call says by itself and facts about what was seen before it; None, or missing: unknown."""
        if own is None:
            return self._every
        masks = frozenset(own)
        for name in self._data:
            holds = data.get(name)
            kinds = (
                self._kinds[name]
                if holds is None
                else (self._of_value(self._checks[name], holds),)
            )
            masks = frozenset([mask & kind for mask in masks for kind in kinds or ()])
        return self._winners(masks)

    def remaining(self) -> set[frozenset[int]]:
        """The possible results of `known_in_part`; if they are too many to list, all candidates as the only one."""
        families: set[_Masks] = {frozenset({self._open})}
        work = 0
        for name, kinds in self._kinds.items():
            if kinds is None:
                return {self._every}
            choices = [frozenset({kind}) for kind in {*kinds, self._absent(name)}]
            choices.append(kinds)
            if self._asks:
                choices.append(kinds | {self._absent(name)})
            found: set[_Masks] = set()
            for family in families:
                for choice in choices:
                    work += len(family) * len(choice)
                    if work > _WORK_MAX or len(found) > _FAMILIES_MAX:
                        return {self._every}
                    found.add(frozenset(mask & kind for mask in family for kind in choice))
            families = found
        return {self._winners(family) for family in families}


def _is_several(name: str) -> bool:
    """True for a fact of which several values may be found."""
    return is_result(name) and path_of(name.split(" ", 1)[1]).is_several


def _unions(masks: _Masks) -> _Masks | None:
    """The masks of any number of values together; None if they are too many."""
    found = set(masks)
    for mask in masks:
        found |= {mask | each for each in found}
        if len(found) > MASKS_MAX:
            return None
    return frozenset(found)


def _as_texts(checks: Iterable[tuple[int, Pattern]], values: Iterable[Any]) -> list[str]:
    """The numbers among some values as texts, which limits read as numbers."""
    if all(pattern.kind != "range" for _, pattern in checks):
        return []
    return [str(each) for each in values if type(each) is int or type(each) is float]
