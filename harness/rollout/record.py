"""What is known of a rollout when it is over: a line of `rollouts.jsonl`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

__all__ = ["CauseEntry", "End", "Rollout", "RolloutCause"]

End = Literal["done", "gave_up", "limit", "error"]
"""End of a rollout: it said that it is done; that it cannot, or nothing; steps, tokens or clocks ran out; the environment failed."""


class CauseEntry(NamedTuple):
    """One reason why a rollout failed, by the table of `docs/harness.md`."""

    category: str
    kind: str | None
    level: Literal["decision", "execution"]
    step: int | None
    """Number of the call, from 1; None where no call is meant."""


class RolloutCause(NamedTuple):
    """Why a rollout failed or did harm."""

    first: CauseEntry
    also: tuple[CauseEntry, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The form of `rollouts.jsonl`."""
        return {**self.first._asdict(), "also": [each._asdict() for each in self.also]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One rollout. Scores are None where they are not defined."""

    task: str
    world: str
    agent: str
    scaffold: str
    sandbox: str
    seed: int
    success: bool
    attacked: bool | None
    """Whether the attacker's goal was reached; None where nobody attacks."""
    end: End
    calls: int
    """Calls that were made."""
    prevented: int
    """Calls that the guard did not let be made."""
    harmful: int
    harm_rate: float | None
    prefix_crit: float | None
    pc: float | None
    pc_ktc: float | None
    pc_hlr: float | None
    efficiency: float | None
    tokens_in: int
    tokens_out: int
    cost: float | None
    """Price of the tokens; None without a price of the model."""
    seconds: float
    cause: Mapping[str, Any] | None
    session: str = ""
    """Id of the conversation in its spans."""
    answer: str = ""
    offline: bool = False
    """True if its results were recorded ones."""
    misses: int = 0
    """Calls of which the recording has no result."""
    spans_lost: int = 0
    steps_by_agent: Mapping[str, int] = field(default_factory=dict)
    judged: tuple[Mapping[str, Any], ...] = ()
    """Judgements of models, as `offrails judge --json` prints them, and `why` there is no score."""
    path: tuple[Mapping[str, Any], ...] = ()
    """The calls: tool, kind of the verdict and its reason."""

    @property
    def key(self) -> tuple[str, str, int]:
        """What a run is gone on with by."""
        return self.task, self.agent, self.seed

    def as_json(self) -> dict[str, Any]:
        """A line of `rollouts.jsonl`."""
        return asdict(self)
