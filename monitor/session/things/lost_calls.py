"""Calls on their way that were forgotten at a bound: until their time is over, nothing is allowed for certain that may depend on them.

Idea: a decided call counts for later questions until it is confirmed. Memory is bounded, so a flood of questions may push one
out. Then it is not known any more what is on its way: of its session, and of the things that its session has in common with
others.

Example: a payment is in flight, and 300 further calls of its session as well. The payment is forgotten. A second payment, which
would have been denied, is `unknown` (`calls_in_flight`) for the rest of the minute.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Protocol, TypeVar

from monitor.decision import CallDecision, SpaceName, ThingClaim
from monitor.records import SessionKey

__all__ = ["LOOKED_AT_MAX", "LostCalls"]

LOOKED_AT_MAX = 257
"""Calls, from the oldest on, among which the least needed is looked for: one more than a session has on its way."""

NAMES_MAX = 4_096
"""Sessions and spaces that are told apart; beyond it, calls of all of them may be lost."""


class _DecidedCall(Protocol):
    """A call that was decided."""

    @property
    def counts(self) -> bool:
        """True while it is on its way: later decisions count on it."""

    @property
    def moves_nothing(self) -> bool:
        """True if later calls hardly depend on it."""


Decided = TypeVar("Decided", bound=_DecidedCall)


class LostCalls:
    """Which sessions and spaces of things have lost calls, each until a time."""

    __slots__ = ("_all_ns", "_until_ns")

    def __init__(self) -> None:
        self._until_ns: dict[SessionKey | SpaceName, int] = {}
        self._all_ns = 0

    @staticmethod
    def least_needed(every: Iterable[Decided]) -> Decided:
        """The call to forget at a bound: the first that is not on its way, else the first that changes nothing, else the first.

        A model must not be able to push a call of its own out by asking about others.
        """
        first = [*islice(every, LOOKED_AT_MAX)]
        for each in first:
            if not each.counts:
                return each
        return next((each for each in first if each.moves_nothing), first[0])

    def note(self, session: SessionKey, claims: Iterable[ThingClaim], until_ns: int) -> None:
        """A call of a session, which claims things of others, too, is forgotten. It would have counted until a time."""
        for name in _names(session, claims):
            if len(self._until_ns) >= NAMES_MAX and name not in self._until_ns:
                self._all_ns = max(self._all_ns, until_ns)
            else:
                self._until_ns[name] = max(self._until_ns.get(name, 0), until_ns)

    def weigh(self, session: SessionKey, decision: CallDecision, now: int) -> CallDecision:
        """A decision, as it is where calls are lost that it may depend on."""
        if not (self._until_ns or self._all_ns):
            return decision
        names = _names(session, decision.claims)
        is_lost = self._all_ns > now or any(self._until_ns.get(each, 0) > now for each in names)
        return decision.in_doubt() if is_lost else decision

    def move(self, old: SessionKey, new: SessionKey) -> None:
        """The calls of one session belong to another one from now on."""
        until_ns = self._until_ns.pop(old, 0)
        if until_ns:
            self.note(new, (), until_ns)

    def forget(self, now: int) -> None:
        """Forgets those whose time is over."""
        if self._all_ns <= now:
            self._all_ns = 0
        if self._until_ns:
            self._until_ns = {
                name: until for name, until in self._until_ns.items() if until > now
            }


def _names(session: SessionKey, claims: Iterable[ThingClaim]) -> list[SessionKey | SpaceName]:
    return [session, *(each.space for each in claims)]
