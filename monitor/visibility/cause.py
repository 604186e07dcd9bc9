"""Why something may be missing or doubtful, and what that allows: the one table of what is not known.

Idea: offrails claims harm only where it is certain. So each fact of the world that takes certainty away is a *cause* with a
row in `FACTS`: what it lets the calls be (`Effect`), how far it reaches, whether harm that only it could explain is told as
possible, and what ends it. Nothing else decides on certainty: the judge asks `monitor.visibility.sight` alone.

There are two kinds of causes:

- A cause of *gaps*: calls may be missing in a time span. It is noted as a `Gap` (`monitor.visibility.gap`).
- A cause of *doubt in a call*: what was seen may not be what it seems. It is in `ToolCall.doubts`.

Example: a tool span arrives whose ancestors have not. It may belong to any conversation of its service, so its call has the
doubt `ORPHAN`. In the conversation that it is filed under it then is what it seems, or no call at all (`ELSEWHERE`). When the
ancestors arrive, the call is amended without the doubt.

A new cause is one row here, one test, and a row in both tables of docs/uncertainty.md. One of gaps that is `told` needs words, too: in
`monitor.visibility.words`, and in the session view (`why.js`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

__all__ = ["FACTS", "OF_ONE_SESSION", "UNTAKEN", "Cause", "Effect", "Fact", "effect_of"]


class Effect(IntEnum):
    """What a doubt lets a call be. Each allows what those before it do."""

    NONE = 0
    OUTCOME = 1
    """The call may have failed, or not."""
    ELSEWHERE = 2
    """The call was made, in this conversation or in another one of its service."""
    REPEATED = 3
    """The call may be no call of its own: a known call reported again, or none."""
    MISSING = 4
    """Effect of a gap: calls that were not seen may have been made."""
    SCATTERED = 5
    """Effect of a gap: nothing follows from one call to the next, as calls may also be another
    session's."""


class Cause(StrEnum):
    """Why something may be missing or doubtful."""

    STARTED = "started"
    """The session was first seen soon after our start: it may have begun before."""
    SEEN_BEFORE = "seen_before"
    """A span of the session began before our start."""
    EARLIER_TURN = "earlier_turn"
    """A trace without a session id is a later turn of a conversation."""
    RESUMED = "resumed"
    """A session with an id begins with what other sessions left: its first model is given results of calls that it
    lacks, or its id is that of a model's earlier answer."""
    FORGOTTEN = "forgotten"
    """The session's state was dropped, and it goes on."""
    BOUND_LATE = "bound_late"
    """A spec was bound after calls had been dropped."""
    SAMPLED = "sampled"
    """The trace was sampled, or a span lost attributes, one of which may have named the session."""
    OUTAGE = "outage"
    """We were down, or slept."""
    REFUSED = "refused"
    """We refused a request, and its spans have not come since."""
    LOST = "lost"
    """We acknowledged spans and lost them."""
    SILENT_TOOL = "silent_tool"
    """Calls of a tool leave no spans, beside tools that do; or one call left none, and a model was given its result."""
    REPEATED_WITHIN = "repeated_within"
    """Executions of a tool were reported within one call of it: parts of the call, or calls."""
    UNPLACED = "unplaced"
    """Calls that are orphans: each may belong to any conversation of its service."""
    MISTIMED = "mistimed"
    """A call has no times that can be right, or they contradict the order in which calls were received."""
    TURN_UNKNOWN = "turn_unknown"
    """Calls whose trace is not known, under a spec that judges each turn by itself: each may belong to any turn."""

    ORPHAN = "orphan"
    """The spans above the call have not arrived: one of them may name another conversation."""
    TOLD_TWICE = "told_twice"
    """Two spans with one call id, tool and arguments at one time: one call reported twice, or two."""
    REPLAYED = "replayed"
    """A call that had ended comes again under other span ids: a replay, or a second execution."""
    ROUND_TRIP = "round_trip"
    """Several requests to a tool's server that may be one call."""
    CONTRADICTED = "contradicted"
    """The call's own spans disagree on whether it failed."""


class Fact(NamedTuple):
    """A row of the table: what follows from a cause."""

    effect: Effect
    sure: bool
    """True if calls are certainly missing, so that no reading without them is kept."""
    told: bool
    """True if harm that only this cause could explain is reported as possible."""
    promised: bool
    """True if `history: complete` says that it cannot be."""
    ends: str
    """What ends the cause, in words; "" if nothing does."""


FACTS: Final[Mapping[Cause, Fact]] = {
    Cause.STARTED: Fact(Effect.MISSING, False, True, True, "a proof that the session is new"),
    Cause.SEEN_BEFORE: Fact(Effect.MISSING, True, False, True, ""),
    Cause.EARLIER_TURN: Fact(
        Effect.MISSING, False, False, True, "a session id, or an earlier call"
    ),
    Cause.RESUMED: Fact(Effect.MISSING, False, True, True, "an earlier call of the session"),
    Cause.FORGOTTEN: Fact(Effect.MISSING, True, False, False, ""),
    Cause.BOUND_LATE: Fact(Effect.MISSING, True, False, False, ""),
    Cause.SAMPLED: Fact(Effect.SCATTERED, True, False, True, ""),
    Cause.OUTAGE: Fact(Effect.MISSING, False, True, False, ""),
    Cause.REFUSED: Fact(Effect.MISSING, False, True, False, "the same request, sent again"),
    Cause.LOST: Fact(Effect.MISSING, False, True, False, ""),
    Cause.SILENT_TOOL: Fact(Effect.MISSING, False, True, False, "a span of the tool"),
    Cause.REPEATED_WITHIN: Fact(Effect.MISSING, False, True, False, ""),
    Cause.UNPLACED: Fact(Effect.MISSING, False, True, False, "the spans above those calls"),
    Cause.MISTIMED: Fact(Effect.SCATTERED, False, True, False, ""),
    Cause.TURN_UNKNOWN: Fact(
        Effect.SCATTERED, False, True, False, "a span of the call, or its trace id"
    ),
    Cause.ORPHAN: Fact(Effect.ELSEWHERE, False, True, False, "the spans above the call"),
    Cause.TOLD_TWICE: Fact(
        Effect.REPEATED, False, True, False, "a span that tells the two apart"
    ),
    Cause.REPLAYED: Fact(Effect.REPEATED, False, True, False, ""),
    Cause.ROUND_TRIP: Fact(Effect.REPEATED, False, True, False, ""),
    Cause.CONTRADICTED: Fact(Effect.OUTCOME, False, True, False, "a final status"),
}

OF_ONE_SESSION: Final = frozenset({Cause.MISTIMED})
"""Causes of gaps that are noted for one session: it keeps them, and no ledger has them."""


UNTAKEN: Final = frozenset({Cause.OUTAGE, Cause.REFUSED, Cause.LOST})
"""Causes of gaps in which whatever was sent, calls or other spans, may not have been taken."""


def effect_of(doubts: Iterable[Cause]) -> Effect:
    """What the doubts of one call let it be, together: the greatest effect among them."""
    found = Effect.NONE
    for each in doubts:
        effect = FACTS[each].effect
        if effect > found:
            found = effect
    return found
