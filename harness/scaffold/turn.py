"""What an agent does next, and what it has seen of its calls. Data alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

__all__ = [
    "RESULT_SHOWN",
    "AgentCall",
    "AgentFault",
    "FaultKind",
    "MadeCall",
    "RolloutAgent",
    "Turn",
    "result_text",
    "says_it_cannot",
]


@dataclass(frozen=True, slots=True)
class AgentCall:
    """One call that an agent asks for."""

    tool: str
    arguments: Mapping[str, Any]
    id: str = ""
    """The model's id of the call."""
    say: tuple[str, ...] = ()
    """What an agent whose turns are known says before it, for a user to answer."""

    def as_plain(self) -> dict[str, Any]:
        """The call as the library judges plain calls."""
        return {"name": self.tool, "arguments": dict(self.arguments)}


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer of an agent: calls, an end, a text that is still to be read, or time that passes."""

    calls: tuple[AgentCall, ...] = ()
    say: str | None = None
    """What it says at the end."""
    raw: str | None = None
    """A text that the scaffold reads."""
    sleep: float = 0.0
    """Seconds that it takes."""
    tokens_in: int = 0
    tokens_out: int = 0
    context: int | None = None
    """Tokens of the rollout so far; None where the sum of all turns is meant."""
    model: str = ""
    """The model that answered; "" where none did."""
    text: str = ""
    """What it said, whatever became of it."""


@dataclass(slots=True)
class MadeCall:
    """One call and what came of it, as its agent sees it."""

    call: AgentCall
    result: Any = None
    error: bool = False
    denied: bool = False
    """True if the guard did not let it be made."""
    fault: str = ""
    """What the environment did wrong; "" for nothing."""
    unknown_tool: bool = False
    unfit: bool = False
    """True if its arguments do not fit the tool's schema."""
    member: str = ""
    """Which agent of several made it; "" where there is one."""
    number: int = 0
    """Place among the calls that were made, from 1; 0 for one that was denied."""
    span_id: str = ""


RESULT_SHOWN: Final = 20_000
"""Characters of a result that a model reads, and that a span has; and of a message that a span has."""


def result_text(result: Any) -> str:
    """What a call returned, as a text: JSON, unless it is one."""
    return result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)


FaultKind = Literal["timeout", "context_overflow", "infrastructure", "user_simulator"]
"""What failed: the model's clock, its context, its endpoint, or a user that the agent plays against."""


class AgentFault(Exception):  # noqa: N818 - a model's fault is no error of the bench
    """No turn came; the kind says why in one word, the text in many."""

    def __init__(self, kind: FaultKind, text: str) -> None:
        super().__init__(text)
        self.kind: Final = kind


class RolloutAgent(Protocol):
    """What a rollout asks for turns."""

    def turn(self, seen: Sequence[MadeCall], left: float) -> Turn:
        """The next turn.

        Args:
            seen: all calls so far, in order.
            left: seconds that it may take.

        Raises:
            AgentFault: there is none.
        """
        ...


_CANNOT: Final = re.compile(
    r"\s*(sorry\b.{0,80}?)?(i\s+(cannot|can't|can not|could not|am unable|give up)|unable to)\b",
    re.IGNORECASE | re.DOTALL,
)


def says_it_cannot(text: str) -> bool:
    """Whether a last text says that the task cannot be done, or says nothing."""
    return not text.strip() or _CANNOT.match(text) is not None
