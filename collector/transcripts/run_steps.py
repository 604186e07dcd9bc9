"""Plain runs as steps: the user's first message, the calls with their results, and the last answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from collector.transcripts.call_steps import call_steps
from collector.transcripts.step import TranscriptStep

__all__ = ["run_steps"]


def run_steps(
    judged: Sequence[Mapping[str, Any]],
    results: Sequence[str | None],
    prompt: str,
    answer: str,
) -> list[TranscriptStep]:
    """The steps of one run.

    Args:
        judged: judgement objects of the run.
        results: of its calls, in their order; None where a result is not recorded.
        prompt: what the user said first; "" if it is not recorded.
        answer: the agent's last answer; "" if it is not recorded.
    """
    calls = call_steps(judged)
    known = [*results, *[None] * (len(calls) - len(results))]
    steps = [
        replace(call, result=result)
        for call, result in zip(calls, known[: len(calls)], strict=True)
    ]
    if prompt:
        steps.insert(0, TranscriptStep("message", "user", prompt))
    if answer:
        agent = calls[-1].agent if calls else ""
        steps.append(TranscriptStep("message", "assistant", answer, agent))
    return steps
