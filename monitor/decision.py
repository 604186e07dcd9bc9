"""What the monitor answers before a call is made.

A call is *denied* if the least number of harmful calls rises with it, over all orders and worlds that are possible: also
a call that would be right if a call in flight, which is right as well, were not made. It is *allowed* only if it is
harmless in every one. Worlds differ in what is not known: the arguments of calls, earlier calls that may be missing,
the order of calls that overlap, and calls in flight, which may take effect before or after this one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, NamedTuple

from monitor.records import Kind, NamedThing, Reason, ReferenceReason

__all__ = [
    "Answer",
    "CallDecision",
    "Missing",
    "SpaceName",
    "SpecDecision",
    "ThingClaim",
    "Until",
]

Missing = Literal["tool", "arguments", "earlier_calls", "order", "calls_in_flight", "budget"]

Until = Literal["calls_in_flight"]


class Answer(StrEnum):
    """What is certain of a call that is not made yet."""

    ALLOW = "allow"
    """The call is harmless in every possible world."""
    DENY = "deny"
    """The call raises the least number of harmful calls over all possible worlds and orders."""
    UNKNOWN = "unknown"
    """The call is harmful in some possible worlds, and harmless in others."""


_BADNESS: Final = {Answer.ALLOW: 0, Answer.UNKNOWN: 1, Answer.DENY: 2}


class SpecDecision(NamedTuple):
    """What one spec says of a call. The fields from `kind` to `certain` are those of the verdict to come.

    `answer` is stricter than `kind`: a call that is harmless as far as is known, but refused in some possible world, is
    `unknown`. So is one that is harmful as far as is known, if the harm is not certain. If a call is denied that would
    itself be judged as harmless, since a call beside it is harmful then, the fields say why it is refused behind that one.
    """

    spec: str
    spec_version: str
    mode: str
    enforce: str
    """off, advise or block: what the spec asks for where `answer` is deny. `answer` does not depend on it."""
    answer: Answer
    kind: Kind
    reason: Reason | ReferenceReason | None
    severity: str
    symbol: str | None
    skipped: tuple[str, ...]
    allowed: tuple[str, ...]
    constraint: str | None
    state: str | None
    """The state before the call; None while several are possible."""
    certain: bool
    """Same as `Verdict.certain_call`."""
    missing: tuple[Missing, ...]
    """What is not known and would decide between allow and deny; () unless `answer` is unknown.

    - `tool`: of this call, whose name is only nearly that of a tool.
    - `arguments`: of this call.
    - `earlier_calls`: calls may be missing, or arguments of earlier calls are not known.
    - `order`: of calls that overlap.
    - `calls_in_flight`: calls that have begun and not ended, as far as is known.
    - `budget`: there are too many orders for all of them to be tried.
    """
    until: Until | None = None
    """What ends the denial; None for no known end. `calls_in_flight`: the call may be right once a
    call beside it has failed, or turns out not to be made."""
    thing: NamedThing | None = None
    """The thing that the call is refused for; None if it is refused for no thing, or the spec has none."""

    @property
    def enforced(self) -> Answer:
        """What the agent is to go by: a call is denied only if the spec blocks."""
        if self.answer is Answer.DENY and self.enforce != "block":
            return Answer.ALLOW
        return self.answer

    @property
    def would_deny(self) -> bool:
        """True if the spec only advises to deny the call."""
        return self.answer is Answer.DENY and self.enforce == "advise"


SpaceName = tuple[tuple[str, str], str, str]
"""Whose things are one: version of the spec (id, checksum), namespace, and agent ("" for all agents)."""


class ThingClaim(NamedTuple):
    """What a call would be on things that its session has in common with others, under one spec.

    The first three fields are its place in the order of calls.
    """

    at_ns: int
    end_ns: int
    span_id: bytes
    space: SpaceName
    token: int
    keys: tuple[bytes, ...]
    """Keys of the things that it is known to carry."""
    is_open: bool
    """True if it may carry others, too."""
    is_right: bool
    """False if its own session is sure that it is harmful."""


class CallDecision(NamedTuple):
    """What all specs of a session say of a call."""

    answer: Answer
    """The worst of the specs: deny, unknown, allow. Allow if no spec judges the call."""
    specs: tuple[SpecDecision, ...]
    """One for each spec that judges the call, the worst first, then by id. A reference that enforces nothing is left out."""
    claims: tuple[ThingClaim, ...] = ()
    """What the call reserves where it goes ahead (`Monitor.reservations`)."""

    @property
    def worst(self) -> SpecDecision | None:
        """The first of `specs`; None if there is none."""
        return self.specs[0] if self.specs else None

    @property
    def deciding(self) -> SpecDecision | None:
        """The spec that decides: it enforces the worst, and of these it says the worst; None if there is none."""
        best: SpecDecision | None = None
        for each in self.specs:  # the worst answer comes first
            if best is None or _BADNESS[each.enforced] > _BADNESS[best.enforced]:
                best = each
        return best

    @property
    def enforced(self) -> Answer:
        """What the agent is to go by: the worst that a spec enforces. Allow if no spec judges the call."""
        deciding = self.deciding
        return Answer.ALLOW if deciding is None else deciding.enforced

    def in_doubt(self) -> CallDecision:
        """The same, if calls on their way are not known any more: what was allowed may not be."""
        specs = tuple(
            each._replace(answer=Answer.UNKNOWN, missing=("calls_in_flight",))
            if each.answer is Answer.ALLOW
            else each
            for each in self.specs
        )
        return self._replace(answer=specs[0].answer if specs else self.answer, specs=specs)

    @property
    def moves_nothing(self) -> bool:
        """True if the call leaves the state of every spec as it is, as far as is known: later calls hardly depend on it."""
        return all(each.kind is Kind.SELF_LOOP for each in self.specs)

    @property
    def would_deny(self) -> bool:
        """True if some spec only advises to deny the call."""
        return any(each.would_deny for each in self.specs)
