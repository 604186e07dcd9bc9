"""Plain runs as steps: what the user said, the calls with their results, and the last answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from collector.transcripts.call_steps import call_steps
from collector.transcripts.step import TranscriptStep

__all__ = ["run_steps"]


def run_steps(
    judged: Sequence[Mapping[str, Any]],
    results: Sequence[str | None],
    said: Sequence[Sequence[str]],
    prompt: str,
    answer: str,
) -> list[TranscriptStep]:
    """The steps of one run.

    Args:
        judged: judgement objects of the run.
        results: of its calls, in their order; None where a result is not recorded.
        said: what the user said before each call, and after the last.
        prompt: what the user said first; "" if it is not recorded. A run may have it among `said`, too.
        answer: the agent's last answer; "" if it is not recorded.
    """
    calls = call_steps(judged)
    steps: list[TranscriptStep] = []
    if prompt and (not said or prompt not in said[0]):
        steps.append(_message("user", prompt))
    for call, result, texts in zip_longest(calls, results[: len(calls)], said):
        steps += [_message("user", text) for text in texts or ()]
        steps += [replace(call, result=result)] if call else []
    if answer:
        steps.append(_message("assistant", answer, calls[-1].agent if calls else ""))
    return steps


def _message(role: str, text: str, agent: str = "") -> TranscriptStep:
    return TranscriptStep("message", role, text, agent)
