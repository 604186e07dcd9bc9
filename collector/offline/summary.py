"""Sessions in a line: how each agent did under each spec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from collector.offline.compare_agents import Judgement, Mean, means

__all__ = ["AgentSummary", "summarise"]


class AgentSummary(NamedTuple):
    """An agent's sessions under one spec."""

    agent: str
    spec: str | None
    """None: no spec matched them."""
    sessions: int
    calls: int
    harmful: int | None
    """None under a reference, which calls nothing harmful, and without a spec."""
    scores: Mapping[str, Mean]
    """The mean of each score, over the sessions where it is defined."""

    def as_json(self) -> dict[str, Any]:
        """The line as a JSON object."""
        scores = {
            name: {"mean": mean.value, "values": mean.runs}
            for name, mean in self.scores.items()
        }
        return {**self._asdict(), "scores": scores}


def summarise(judgements: Iterable[Judgement]) -> list[AgentSummary]:
    """A summary for each agent and spec, in the order they first appear."""
    groups: dict[tuple[str, str | None], list[Judgement]] = {}
    for each in judgements:
        groups.setdefault((each["agent"], each["spec"]), []).append(each)
    return [
        AgentSummary(
            agent=agent,
            spec=spec,
            sessions=_sessions(found),
            calls=sum(each["calls"] for each in found),
            harmful=_harmful(found),
            scores=means(found),
        )
        for (agent, spec), found in groups.items()
    ]


def _harmful(found: Iterable[Judgement]) -> int | None:
    counts = [each["harmful"] for each in found if each["harmful"] is not None]
    return sum(counts) if counts else None


def _sessions(found: Iterable[Judgement]) -> int:
    """How many there are; the turns of one, each judged for itself, are one session."""
    turns: set[tuple[str, str, int]] = set()
    whole = 0
    for each in found:
        if each["turn"] is None:
            whole += 1
        else:
            turns.add((each["namespace"], each["session"], each["started"]))
    return whole + len(turns)
