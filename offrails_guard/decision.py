"""What is decided on one call, and the exception that tells the agent of a denied one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Literal

from offrails_guard.policies import NO_SPEC, UNAVAILABLE, UNKNOWN, Policies

__all__ = [
    "NOTHING",
    "Decision",
    "DeniedError",
    "Outcome",
    "UnreadableDecisionError",
]

Outcome = Literal["ran", "failed", "skipped"]
"""What became of a call."""

WORDS: Final = ("allow", "deny", "unknown")
NO_SESSION: Final = "no_session"
"""Why there is no decision where the client names neither a session nor a trace."""
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
"""No attributes, no fields."""


class UnreadableDecisionError(ValueError):
    """An answer is not a decision."""


class DeniedError(Exception):
    """A tool was not run. The text says why, in words for the model."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision.message)
        self.decision = decision


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether one call may be made, and why not."""

    allowed: bool
    """What to go by: the decision, and the guard's settings where there is none."""
    decision: str
    """allow | deny | unknown, as the specs enforce it; no_spec: none matches the agent; unavailable: nobody could be
    asked in time."""
    would_deny: bool = False
    """True where a spec that only advises takes the call for harmful."""
    message: str = ""
    """Why, in words for the model: what is wrong and what is allowed now; "" where nothing is wrong."""
    decision_id: str = ""
    """Id for `outcome`; "" if the monitor does not hold the call."""
    unavailable: str = ""
    """Why nobody could be asked or nothing is known, in one word: a key of `Guard.counts`."""
    raw: Mapping[str, Any] = field(default_factory=lambda: NOTHING, repr=False)
    """The whole answer."""

    @classmethod
    def read(cls, answer: Any, policies: Policies) -> Decision:
        """A decision from one object of the answer.

        Raises:
            UnreadableDecisionError: the object is none.
        """
        if not isinstance(answer, dict):
            raise UnreadableDecisionError("not an object")
        word, message = answer.get("decision"), answer.get("message", "")
        id_, would = answer.get("decision_id", ""), answer.get("would_deny", False)
        if word not in WORDS or not isinstance(message, str) or not isinstance(id_, str):
            raise UnreadableDecisionError("no decision in it")
        if answer.get("matched") is False:
            word = NO_SPEC
        allowed = policies.allow(word, blocks=_blocks(answer))
        return cls(
            allowed=allowed,
            decision=word,
            would_deny=would is True,
            message=message or ("" if allowed else NO_REASON[word]),
            decision_id=id_,
            raw=answer,
        )

    @classmethod
    def without_answer(cls, why: str, policies: Policies) -> Decision:
        """The guard's own decision where nobody could be asked."""
        allowed = policies.allow(UNAVAILABLE)
        message = "" if allowed else NOT_ASKED
        return cls(allowed, UNAVAILABLE, message=message, unavailable=why)

    def of_no_session(self, policies: Policies) -> Decision:
        """What follows from a decision on a call of which nobody says the session.

        What holds whatever came before it holds for it. All else is no decision.
        """
        if self.decision != UNKNOWN:
            return self
        found = Decision.without_answer(NO_SESSION, policies)
        return found if found.allowed else replace(found, message=NOT_PLACED)

    @property
    def judged(self) -> bool:
        """False if no spec matches the agent, or if nobody could be asked."""
        return self.decision not in (NO_SPEC, UNAVAILABLE)

    @property
    def notice(self) -> str:
        """For people: why nobody has judged the call, and what is done with it; "" where it is judged."""
        if self.judged:
            return ""
        done = "made" if self.allowed else "not made"
        if self.decision == UNAVAILABLE:
            return f"no decision ({self.unavailable}): such calls are {done}"
        return (
            f"no spec matches: such calls are {done}, and judged by nobody. The guard's service is to be the "
            "agent's service.name, which specs match on"
        )

    @property
    def held(self) -> bool:
        """True if the monitor counts on the call, and so waits for what becomes of it."""
        return bool(self.decision_id) and self.raw.get("committed") is not False


def _blocks(answer: Mapping[str, Any]) -> bool:
    """False if only specs that advise do not know. An answer that names no specs counts as that of one that blocks."""
    specs = answer.get("specs")
    if not isinstance(specs, list) or not specs:
        return True
    return any(
        not isinstance(each, dict)
        or (each.get("decision") == UNKNOWN and each.get("enforce", "block") == "block")
        for each in specs
    )


NOT_PLACED: Final = (
    "This call was not made: nobody has said which conversation it belongs to, and whether it is allowed depends on "
    "what came before."
)

NOT_ASKED: Final = (
    "This call was not made: the monitor that must allow it could not be asked. "
    "Nothing is known to be wrong with the call; try it again later."
)
NO_REASON: Final = {
    "deny": "This call was not made: it is not allowed here.",
    "unknown": "This call was not made: it is not known whether it is allowed here.",
    NO_SPEC: (
        "This call was not made: the monitor that must allow it has no rules for this agent. "
        "Nothing is known to be wrong with the call; its operator has to name the service."
    ),
}
