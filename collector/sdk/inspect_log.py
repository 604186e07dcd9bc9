"""Logs of Inspect evals (`.eval`, `.json`): each sample is a session, each event of a tool a call, in the words of GenAI spans.

The same words are sent by the hook of `offrails[inspect]`, so that a log and its eval are judged alike.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from collector.decode.json.write_values import attributes_json

__all__ = [
    "SERVICE",
    "InspectLogError",
    "error_of",
    "event_attributes",
    "event_name",
    "nanoseconds",
    "read_inspect_log",
    "sample_attributes",
    "score_attributes",
]

SERVICE: Final = "inspect"
"""Name of the service in the resource."""
RESULT_MAX: Final = 20_000
"""Characters of a tool's result."""

_TOOL, _MODEL = "tool", "model"


class InspectLogError(Exception):
    """A log cannot be read; the message says why."""


# --- words: of samples, events, scores --------------------------------------------------------------


def sample_attributes(uuid: str, task: str) -> dict[str, Any]:
    """What all spans of a sample have."""
    return {"gen_ai.conversation.id": uuid, "gen_ai.agent.name": task, "inspect.task": task}


def event_name(event: Any) -> str:
    """The name of an event's span; "" for events that have none."""
    if event.event == _TOOL:
        return f"execute_tool {event.function}"
    return f"chat {event.model}" if event.event == _MODEL else ""


def event_attributes(event: Any) -> dict[str, Any]:
    """What the span of a tool's or a model's event says."""
    if event.event == _MODEL:
        return _of_model(event)
    found = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": event.function,
        "gen_ai.tool.call.id": event.id,
        "gen_ai.tool.call.arguments": json.dumps(event.arguments, default=str),
    }
    if event.error is not None:
        return {**found, "error.type": event.error.type}
    return {**found, "gen_ai.tool.call.result": _text(event.result)[:RESULT_MAX]}


def _of_model(event: Any) -> dict[str, Any]:
    usage = getattr(event.output, "usage", None)
    found = {"gen_ai.operation.name": "chat", "gen_ai.request.model": event.model}
    if usage is not None:
        found["gen_ai.usage.input_tokens"] = usage.input_tokens
        found["gen_ai.usage.output_tokens"] = usage.output_tokens
    return found


def _text(result: Any) -> str:
    """What a tool has returned, as a text: contents of several parts are joined."""
    if isinstance(result, list):
        return "\n".join(_text(getattr(each, "text", each)) for each in result)
    return result if isinstance(result, str) else json.dumps(result, default=str)


def error_of(event: Any) -> str:
    """What went wrong in a call; "" for nothing."""
    error = getattr(event, "error", None)
    if event.event != _TOOL or error is None:
        return ""
    return str(error.message)[:500] or str(error.type)


def score_attributes(sample: Any) -> dict[str, Any]:
    """The scores of a sample that has ended, by the names of their scorers; `learn --success` takes them."""
    scores = {
        f"inspect.score.{name}": each.value
        for name, each in (sample.scores or {}).items()
        if isinstance(each.value, str | int | float)
    }
    return {"gen_ai.operation.name": "invoke_agent", "inspect.sample": str(sample.id), **scores}


def nanoseconds(when: Any) -> int:
    """Unix nanoseconds of a time of Inspect's; 0 for none."""
    found = datetime.fromisoformat(when) if isinstance(when, str) else when
    return 0 if found is None else round(found.timestamp() * 1_000_000) * 1_000


# --- a log -------------------------------------------------------------------------------------------


def read_inspect_log(file: Path) -> Iterator[bytes]:
    """A request of OTLP's JSON form for each sample of a log.

    Raises:
        InspectLogError: it is none.
        ModuleNotFoundError: the extra is not installed.
    """
    from inspect_ai.log import read_eval_log

    try:
        log = read_eval_log(str(file))
    except Exception as problem:  # noqa: BLE001 - a file that is no log fails in many ways
        raise InspectLogError(f"no log of Inspect: {problem!r}"[:500]) from None
    for sample in log.samples or ():
        yield json.dumps(_request(sample, log.eval.task)).encode()


def _request(sample: Any, task: str) -> dict[str, Any]:
    uuid = sample.uuid or f"{task}/{sample.id}/{sample.epoch}"
    trace, common = _id(uuid, 32), sample_attributes(uuid, task)
    root, spans = _id(f"{uuid} root", 16), []
    for number, event in enumerate(sample.events):
        if name := event_name(event):
            span = _span(name, event, {**common, **event_attributes(event)})
            ids = {
                "traceId": trace,
                "spanId": _id(f"{uuid} {number}", 16),
                "parentSpanId": root,
            }
            spans.append({**span, **ids})
    whole = {
        "traceId": trace,
        "spanId": root,
        "name": f"invoke_agent {task}",
        "startTimeUnixNano": min((each["startTimeUnixNano"] for each in spans), default="0"),
        "endTimeUnixNano": max((each["endTimeUnixNano"] for each in spans), default="0"),
        "attributes": attributes_json({**common, **score_attributes(sample)}),
    }
    resource = {"attributes": attributes_json({"service.name": SERVICE})}
    scopes: Sequence[Any] = [{"scope": {"name": SERVICE}, "spans": [*spans, whole]}]
    return {"resourceSpans": [{"resource": resource, "scopeSpans": scopes}]}


def _span(name: str, event: Any, attributes: Mapping[str, Any]) -> dict[str, Any]:
    began = nanoseconds(event.timestamp)
    error = error_of(event)
    return {
        "name": name,
        "startTimeUnixNano": str(began),
        "endTimeUnixNano": str(max(began, nanoseconds(event.completed))),
        "attributes": attributes_json(attributes),
        "status": {"code": 2, "message": error} if error else {},
    }


def _id(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
