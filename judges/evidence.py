"""What the automaton found of a session, as facts for a judge: verdicts, missed obligations, divergence, prevented calls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from collector.transcripts.transcript import Transcript

__all__ = ["facts_of", "failed_calls"]

_SESSION_KEYS: Final = (
    "mode",
    "calls",
    "harmful",
    "accepting",
    "can_finish",
    "missed",
    "unsatisfied",
    "compensations",
    "divergence",
    "departures",
    "things",
    "risk",
    "prevented",
)
_STEP_KEYS: Final = (
    "kind",
    "reason",
    "constraint",
    "skipped",
    "allowed",
    "detail",
    "possible",
    "certain_call",
    "overruled",
)
_FACTS_MAX: Final = 200
"""Calls that one spec says something of; of more, the rest is counted."""


def facts_of(judged: Sequence[Mapping[str, Any]], transcript: Transcript) -> list[str] | None:
    """A JSON object a line: the session under each spec, then each call that is or may be harmful.

    Returns:
        None if no spec judged the session. Texts in the facts are as hostile as the agent's.
    """
    under = [each for each in judged if each.get("spec")]
    if not under:
        return None
    return [
        json.dumps(fact, ensure_ascii=False)
        for each in under
        for fact in _facts(each, transcript)
    ]


def _facts(judgement: Mapping[str, Any], transcript: Transcript) -> Iterator[dict[str, Any]]:
    yield {"spec": judgement["spec"], **_known(judgement, _SESSION_KEYS)}
    telling = [step for step in judgement["steps"] if _tells(step)]
    for step in telling[:_FACTS_MAX]:
        id_ = transcript.id_of(str(step["trace_id"]), str(step["span_id"]))
        yield {"step": id_ or "cut", "tool": step["tool"], **_known(step, _STEP_KEYS)}
    if len(telling) > _FACTS_MAX:
        yield {"spec": judgement["spec"], "more calls with findings": len(telling) - _FACTS_MAX}


def _tells(step: Mapping[str, Any]) -> bool:
    return step.get("kind") == "harmful" or bool(step.get("possible") or step.get("overruled"))


def _known(found: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: found[key] for key in keys if found.get(key) not in (None, [], {}, "")}


def failed_calls(transcript: Transcript) -> list[str]:
    """A JSON object a line: each call that is shown and failed by its status."""
    return [
        json.dumps({"step": id_, "tool": step.name}, ensure_ascii=False)
        for id_, step in transcript.shown.items()
        if step.is_call and step.failed
    ]
