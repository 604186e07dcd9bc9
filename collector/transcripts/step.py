"""One step of a session: a message, the tools that a model was offered, or a tool call with its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["StepKind", "TranscriptStep"]

StepKind = Literal["message", "tools", "call"]

CALL: Final = "call"


@dataclass(frozen=True, slots=True)
class TranscriptStep:
    """What happened at one time. All texts are as hostile as the agent's input.

    Times are Unix nanoseconds. `name` is the role of a message, or the tool of a call.
    """

    kind: StepKind
    name: str
    text: str
    """Text of a message, definitions of tools, or arguments of a call as JSON."""
    agent: str = ""
    result: str | None = None
    """Result of a call; None if it is not known."""
    failed: bool = False
    state: str = ""
    """How a call is known if it is not known to have ended: pending, requested, decided."""
    span_id: str = ""
    """16 hex digits; of a plain run, the number of the call in the same form."""
    trace_id: str = ""
    at_ns: int = 0
    number: int | None = None
    """Number that the source gives the step; None if it is numbered by its place, from 1."""

    @property
    def is_call(self) -> bool:
        return self.kind == CALL
