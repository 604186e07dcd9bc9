"""Tool calls as steps: from judgement objects, with the results that spans have of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from collector.dialects.values.messages import json_text, value_of
from collector.transcripts.step import TranscriptStep

__all__ = ["NOT_RECORDED", "call_steps", "raw_arguments", "result_in"]

NOT_RECORDED: Final = "not recorded"
"""Text of arguments that are on no span."""

_ARGUMENT_KEYS: Final = (
    "gen_ai.tool.call.arguments",
    "ai.toolCall.args",
    "tool_arguments",
    "input.value",
    "traceloop.entity.input",
)
"""Attributes that hold the arguments of a call in some form, best first."""

_RESULT_KEYS: Final = (
    "gen_ai.tool.call.result",
    "gen_ai.tool.output",
    "tool.output",
    "tool_response",
    "ai.toolCall.result",
    "mcp.response.value",
    "output.value",
    "traceloop.entity.output",
    "gen_ai.task.output",
    "output",
    "exception.message",
)
"""Attributes that hold a tool's result, best first."""

_WRAPPERS: Final = ("kwargs", "data", "output", "result", "content")
"""Keys of objects that frameworks wrap results in, outermost first."""
_WRAPPED_MAX: Final = 4
_EXECUTED: Final = "executed"


def call_steps(judged: Iterable[Mapping[str, Any]]) -> list[TranscriptStep]:
    """The calls of a session's judgement objects, each once, in their order."""
    found: dict[tuple[str, str, int], TranscriptStep] = {}
    for judgement in judged:
        agent = str(judgement.get("agent") or "")
        for step in judgement["steps"]:
            key = (str(step["trace_id"]), str(step["span_id"]), int(step["start_ns"]))
            found.setdefault(key, _call(step, agent))
    return sorted(found.values(), key=lambda step: step.at_ns)


def _call(step: Mapping[str, Any], agent: str) -> TranscriptStep:
    evidence = str(step.get("evidence") or _EXECUTED)
    return TranscriptStep(
        kind="call",
        name=str(step["tool"]),
        text=NOT_RECORDED if step.get("arguments") is None else json_text(step["arguments"]),
        agent=agent,
        failed=bool(step.get("error")),
        state="" if evidence == _EXECUTED else evidence,
        span_id=str(step["span_id"]),
        trace_id=str(step["trace_id"]),
        at_ns=int(step["start_ns"]),
    )


def raw_arguments(attributes: Mapping[str, Any]) -> str:
    """The arguments as the span has them, where they are not read for certain."""
    found = (attributes.get(key) for key in _ARGUMENT_KEYS)
    return next((json_text(value) for value in found if value), NOT_RECORDED)


def result_in(attributes: Mapping[str, Any]) -> str | None:
    """The result of a tool that its span has; None if it has none."""
    for key in _RESULT_KEYS:
        value = attributes.get(key)
        if value is not None and value != "":
            return json_text(_unwrapped(value))
    return None


def _unwrapped(value: Any) -> Any:
    """What a framework's wrapper holds; the value itself where it is none."""
    for _ in range(_WRAPPED_MAX):
        found = value_of(value)
        if not isinstance(found, dict):
            return found if isinstance(found, str) else value
        inner = next((key for key in _WRAPPERS if key in found and _wraps(found, key)), None)
        if inner is None:
            return value
        value = found[inner]
    return value


def _wraps(found: Mapping[str, Any], key: str) -> bool:
    """True for an object that is there for one of its values."""
    if len(found) == 1:
        return True
    kind = found.get("type")
    if key in {"kwargs", "data"}:
        return kind in {"constructor", "tool", "ToolMessage"}
    return (key == "content" and kind == "tool") or (key == "output" and "kwargs" in found)
