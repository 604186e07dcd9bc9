"""The spans of a rollout, in the words of OpenTelemetry's GenAI conventions, by its SDK."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context

from collector.decode.json.write_values import attributes_json
from harness.scaffold.turn import RESULT_SHOWN, result_text

__all__ = ["RolloutSpans", "otlp_line"]

SERVICE: Final = "offrails-harness"
SCOPE: Final = "offrails.harness"


class _SeededIds(IdGenerator):
    """Ids that come from the rollout's own name."""

    def __init__(self, name: str) -> None:
        self._random = random.Random(name)  # noqa: S311 - names, not secrets

    def generate_trace_id(self) -> int:
        return self._random.getrandbits(128) or 1

    def generate_span_id(self) -> int:
        return self._random.getrandbits(64) or 1


class _Collected(SpanProcessor):
    """Keeps ended spans, and sends each on."""

    def __init__(self, exporter: SpanExporter | None) -> None:
        self.spans: list[ReadableSpan] = []
        self.lost = 0
        self._exporter = exporter

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)
        if self._exporter is not None and self._exporter.export([span]).name != "SUCCESS":
            self.lost += 1


class RolloutSpans:
    """Writes the spans of one rollout.

    Args:
        session: id of the conversation.
        agent: name of the agent.
        spec: id of the task's spec, which judges the rollout.
        task: the task's name.
        instruction: what the agent is asked to do.
        exporter: where each span goes when it ends.
    """

    def __init__(
        self,
        *,
        session: str,
        agent: str,
        spec: str,
        task: str,
        instruction: str,
        exporter: SpanExporter | None,
    ) -> None:
        resource = Resource({"service.name": SERVICE, "offrails.spec": spec})
        self._collected = _Collected(exporter)
        provider = TracerProvider(
            sampler=ALWAYS_ON,
            resource=resource,
            shutdown_on_exit=False,
            id_generator=_SeededIds(session),
        )
        provider.add_span_processor(self._collected)
        self._tracer = provider.get_tracer(SCOPE)
        self._common = {"gen_ai.conversation.id": session, "gen_ai.agent.name": agent}
        self._task = task
        self._instruction = instruction
        self._root: Span | None = None

    def begin(self, at_ns: int) -> None:
        """The rollout begins."""
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "offrails.harness.task": self._task,
            "gen_ai.input.messages": _messages(("user", self._instruction)),
            **self._common,
        }
        name = f"invoke_agent {self._common['gen_ai.agent.name']}"
        self._root = self._tracer.start_span(name, attributes=attributes, start_time=at_ns)

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any],
        *,
        began_ns: int,
        ended_ns: int,
        result: Any,
        error: bool,
        call_id: str,
        member: str,
    ) -> str:
        """One tool call is over; with `error`, the result says why. Returns the id of its span."""
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.arguments": json.dumps(arguments, ensure_ascii=False),
            **self._common,
        }
        if member:
            attributes["gen_ai.agent.name"] = member
        if call_id:
            attributes["gen_ai.tool.call.id"] = call_id
        span = self._start(f"execute_tool {tool}", attributes, began_ns)
        if error:
            span.set_attribute("error.type", "tool_error")
            span.set_status(Status(StatusCode.ERROR, str(result)[:500]))
        else:
            span.set_attribute("gen_ai.tool.call.result", result_text(result)[:RESULT_SHOWN])
        span.end(ended_ns)
        return f"{span.get_span_context().span_id:016x}"

    def model(
        self, model: str, *, said: str, began_ns: int, ended_ns: int, tokens: tuple[int, int]
    ) -> None:
        """One answer of a model is over; with what it said beside its calls."""
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": model,
            "gen_ai.usage.input_tokens": tokens[0],
            "gen_ai.usage.output_tokens": tokens[1],
            **self._common,
        }
        if said:
            attributes["gen_ai.output.messages"] = _messages(("assistant", said))
        self._start(f"chat {model}", attributes, began_ns, SpanKind.CLIENT).end(ended_ns)

    def answered(self, said: str, answer: str, *, at_ns: int) -> None:
        """The user has answered what the agent said."""
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.input.messages": _messages(("assistant", said), ("user", answer)),
            **self._common,
        }
        self._start(f"invoke_agent {self._common['gen_ai.agent.name']}", attributes, at_ns).end(
            at_ns
        )

    def end(self, at_ns: int, answer: str) -> None:
        """The rollout is over; with what the agent said at last."""
        assert self._root is not None
        if answer:
            self._root.set_attribute("gen_ai.output.messages", _messages(("assistant", answer)))
        self._root.end(at_ns)

    def _start(
        self,
        name: str,
        attributes: Mapping[str, Any],
        began_ns: int,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Span:
        assert self._root is not None
        return self._tracer.start_span(
            name,
            set_span_in_context(self._root),
            kind,
            attributes=attributes,
            start_time=began_ns,
        )

    @property
    def spans(self) -> Sequence[ReadableSpan]:
        """All spans that have ended, in that order."""
        return self._collected.spans

    @property
    def lost(self) -> int:
        """Spans that nobody took."""
        return self._collected.lost


def _messages(*messages: tuple[str, str]) -> str:
    """Messages by role and text, as the conventions have them; of a longer text, its beginning."""
    found = [
        {"role": role, "parts": [{"type": "text", "content": text[:RESULT_SHOWN]}]}
        for role, text in messages
    ]
    return json.dumps(found, ensure_ascii=False)


def otlp_line(spans: Sequence[ReadableSpan]) -> str:
    """The spans of one rollout as one request, in OTLP's JSON form."""
    resource = {"attributes": attributes_json(spans[0].resource.attributes)}
    scope = {"scope": {"name": SCOPE}, "spans": [_span(each) for each in spans]}
    request = {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}
    return json.dumps(request, ensure_ascii=False, separators=(",", ":"))


def _span(span: ReadableSpan) -> dict[str, Any]:
    status: dict[str, Any] = {"code": span.status.status_code.value}
    if span.status.description:
        status["message"] = span.status.description
    found: dict[str, Any] = {
        "traceId": f"{span.context.trace_id:032x}",
        "spanId": f"{span.context.span_id:016x}",
        "name": span.name,
        "kind": span.kind.value + 1,
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        "attributes": attributes_json(span.attributes or {}),
        "status": status,
    }
    if span.parent is not None:
        found["parentSpanId"] = f"{span.parent.span_id:016x}"
    return found
