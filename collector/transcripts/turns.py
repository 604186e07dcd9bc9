"""Trajectories that are lists of turns, as AgentRx and Who&When write them: a step a turn, numbered as they number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from collector.transcripts.step import TranscriptStep
from collector.transcripts.trail import BadTraceError

__all__ = ["is_turns", "turn_steps"]

_PEOPLE: Final = frozenset({"user", "human"})
_WHO_AND_WHEN: Final = frozenset({"question_ID", "mistake_step"})


def is_turns(document: Any) -> bool:
    """True for a run of Who&When (`history`) and for a trajectory of AgentRx (`steps` with `trajectory_id`)."""
    if not isinstance(document, dict):
        return False
    if isinstance(document.get("history"), list):
        return bool(_WHO_AND_WHEN & document.keys())
    return isinstance(document.get("steps"), list) and "trajectory_id" in document


def turn_steps(document: Mapping[str, Any], unnamed: str) -> tuple[str, list[TranscriptStep]]:
    """The session of a trajectory, and its steps.

    Args:
        document: of a form that `is_turns` knows. Turns of Who&When count from 0. AgentRx numbers its steps itself, from 1.
        unnamed: session of a run that does not name itself.

    Raises:
        BadTraceError: a turn is no object, or two have one number.
    """
    if "history" in document:
        name, turns, first = document.get("question_ID"), document["history"], 0
    else:
        name, turns, first = document["trajectory_id"], document["steps"], 1
    steps = [_step(turn, number) for number, turn in enumerate(turns, start=first)]
    if len({step.number for step in steps}) < len(steps):
        raise BadTraceError("expected each turn to have a number of its own")
    return str(name or unnamed), steps


def _step(turn: Any, number: int) -> TranscriptStep:
    if not isinstance(turn, dict):
        raise BadTraceError(f"turn {number}: expected an object")
    parts = turn.get("substeps")
    texts = list(_texts(parts if isinstance(parts, list) else [turn]))
    own = turn.get("index")
    return TranscriptStep(
        "message",
        "user" if all(role.lower() in _PEOPLE for role, _ in texts) else "assistant",
        _joined(texts),
        str(turn.get("name") or (texts[0][0] if len(texts) == 1 else "")),
        number=own if type(own) is int and own >= 0 else number,
    )


def _texts(parts: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """(role, text) of each part of a turn."""
    for part in parts:
        found = part if isinstance(part, dict) else {"content": part}
        text = found.get("content")
        yield str(found.get("role") or ""), "" if text is None else str(text)


def _joined(texts: Sequence[tuple[str, str]]) -> str:
    """The text of a turn; of one with several parts, each after its role."""
    if len(texts) == 1:
        return texts[0][1]
    return "\n".join(f"{role}: {text}" for role, text in texts)
