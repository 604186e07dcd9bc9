"""How frameworks write a run: which spans, with which attributes, in which order they are exported.

As Pydantic AI, Google's ADK, OpenInference's instrumentation of the OpenAI Agents SDK and the AI SDK for JavaScript
emit them. A turn is a trace: the agent's span, below it a span of each model request and of each tool call. Parents end
last.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.simulation.worlds.chance import Chance
from tests.simulation.worlds.spans import Attributes, Span
from tests.simulation.worlds.specs import SERVICE
from tests.simulation.worlds.truth import Answer, Call, Conversation, Turn

Message = dict[str, Any]
Reply = list[Call] | None


@dataclass
class Emission:
    """What a framework is set to write.

    Args:
        dialect: a key of `DIALECTS`.
        models: whether requests of models have spans, with their messages.
        tools: whether calls of tools have spans.
        ids: where conversation ids are: on `all` spans, on those `above` tools, nowhere (`none`).
        failures: whether failed calls have status error (`status`), or only an MCP result (`result`).
        batch: seconds between two exports; 0 exports each span as it ends.
    """

    dialect: str = "pydantic_ai"
    models: bool = True
    tools: bool = True
    ids: str = "all"
    failures: str = "status"
    batch: float = 0.0


@dataclass(frozen=True)
class Dialect:
    """The names of one instrumentation."""

    scope: str
    version: str
    id_key: str
    root: Callable[[], tuple[str, Attributes]]
    model: Callable[[Sequence[Message], Reply], tuple[str, Attributes]]
    tool: Callable[[Call, str], tuple[str, Attributes]]
    model_kind: int = 1


class Emitter:
    """Writes the conversations of one world."""

    def __init__(self, emission: Emission, chance: Chance, within: Mapping[int, int]) -> None:
        self._emission = emission
        self._within = within
        self._ids: dict[int, int] = {}
        self._dialect = DIALECTS[emission.dialect]
        self._chance = chance
        self.spans: list[Span] = []

    def write(self, conversation: Conversation) -> None:
        """All spans of a conversation, each with its time of receipt."""
        heard: list[Message] = []
        for number, turn in enumerate(conversation.turns):
            heard.append({"role": "user", "text": f"turn {number}"})
            self._write_turn(conversation, turn, heard)

    def _write_turn(self, of: Conversation, turn: Turn, heard: list[Message]) -> None:
        ids = self._chance.of(of.id, turn.number)
        trace, root = ids.getrandbits(128), ids.getrandbits(63)
        for answer in turn.answers:
            if not any(call.number in self._within for call in answer.calls):
                self._write_model(of, trace, root, answer, heard)
            for call in answer.calls if self._emission.tools else ():
                self._write_call(of, trace, root, call)
        self._write_model(of, trace, root, None, heard, turn.end - 0.03)
        name, attributes = self._dialect.root()
        self._add(
            of, name, attributes, "root", trace, root, 0, turn.start, turn.end, above=True
        )

    def _write_model(
        self, of: Conversation, trace: int, root: int, answer: Answer | None,
        heard: list[Message], at: float = 0.0,
    ) -> None:  # fmt: skip
        calls = answer.calls if answer else None
        start = min(call.start for call in calls) - 0.03 if calls else at
        name, attributes = self._dialect.model(list(heard), calls)
        if self._emission.models:
            asked = calls[0].number if calls else "nothing"
            id_ = self._chance.of(of.id, f"{trace:x}", "asks for", asked).getrandbits(63)
            span = self._add(
                of, name, attributes, "model", trace, id_, root,
                start, start + 0.02, above=True,
            )  # fmt: skip
            span.kind, span.calls = self._dialect.model_kind, list(calls or ())
            span.given = frozenset(each["call"].number for each in heard if "call" in each)
        if calls:
            heard.append({"role": "assistant", "calls": calls})
            heard.extend({"role": "tool", "call": call} for call in calls)
        else:
            heard.append({"role": "assistant", "text": "done"})

    def _write_call(self, of: Conversation, trace: int, root: int, call: Call) -> None:
        name, attributes = self._dialect.tool(call, result_of(call))
        id_ = self._ids[call.number] = self._chance.of("call", call.number).getrandbits(63)
        parent = self._ids.get(self._within.get(call.number, 0), root)
        span = self._add(
            of, name, attributes, "tool", trace, id_, parent, call.start, call.end, above=False,
        )  # fmt: skip
        span.calls = [call]
        if call.failed and self._emission.failures == "status":
            span.status = 2

    def _add(
        self, of: Conversation, name: str, attributes: Attributes, role: str, trace: int,
        id_: int, parent: int, start: float, end: float, *, above: bool,
    ) -> Span:  # fmt: skip
        ids = self._emission.ids
        if ids == "all" or (ids == "above" and above):
            attributes = [*attributes, (self._dialect.id_key, of.id)]
        span = Span(
            name, trace, id_, parent, start, end, attributes, role, of.id, self._received(end),
            scope=self._dialect.scope, version=self._dialect.version, service=SERVICE,
        )  # fmt: skip
        self.spans.append(span)
        return span

    def _received(self, end: float) -> float:
        """Exported as it ends, or with a batch."""
        if not self._emission.batch:
            return end + 0.005
        return (end // self._emission.batch + 1) * self._emission.batch


def result_of(call: Call) -> str:
    """What the tool returned, as MCP writes it."""
    text = f"Error executing tool {call.tool}" if call.failed else "ok"
    return json.dumps({"content": [{"type": "text", "text": text}], "isError": call.failed})


# --- OpenTelemetry's conventions for GenAI, as Pydantic AI, Google ADK and others write them ------


def _parts(message: Message) -> Message:
    match message:
        case {"calls": calls}:
            parts = [
                {"type": "tool_call", "id": c.id, "name": c.tool, "arguments": c.arguments}
                for c in calls
            ]
            return {"role": "assistant", "parts": parts}
        case {"call": call}:
            part = {"type": "tool_call_response", "id": call.id, "name": call.tool}
            return {"role": "user", "parts": [{**part, "result": result_of(call)}]}
        case _:
            part = {"type": "text", "content": message["text"]}
            return {"role": message["role"], "parts": [part]}


def _gen_ai_model(messages: Sequence[Message], reply: Reply) -> tuple[str, Attributes]:
    said = _parts({"calls": reply} if reply else {"role": "assistant", "text": "done"})
    return "chat model", [
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.agent.name", SERVICE),
        ("gen_ai.input.messages", json.dumps([_parts(each) for each in messages])),
        ("gen_ai.output.messages", json.dumps([said])),
    ]


def _gen_ai_tool(call: Call, result: str) -> tuple[str, Attributes]:
    return f"execute_tool {call.tool}", [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.agent.name", SERVICE),
        ("gen_ai.tool.name", call.tool),
        ("gen_ai.tool.call.id", call.id),
        ("gen_ai.tool.call.arguments", json.dumps(call.arguments)),
        ("gen_ai.tool.call.result", result),
    ]


def _gen_ai_root() -> tuple[str, Attributes]:
    return f"invoke_agent {SERVICE}", [
        ("gen_ai.operation.name", "invoke_agent"),
        ("gen_ai.agent.name", SERVICE),
    ]


def _adk_model(messages: Sequence[Message], reply: Reply) -> tuple[str, Attributes]:
    _, attributes = _gen_ai_model(messages, reply)
    return "generate_content model", [
        ("gen_ai.operation.name", "generate_content"),
        ("gen_ai.request.model", "model"),
        *attributes[1:],
    ]


def _adk_tool(call: Call, result: str) -> tuple[str, Attributes]:
    name, attributes = _gen_ai_tool(call, result)
    return name, [*attributes, ("gen_ai.tool.type", "FunctionTool")]


# --- OpenInference --------------------------------------------------------------------------------


def _flat(prefix: str, message: Message) -> Attributes:
    match message:
        case {"calls": calls}:
            found: Attributes = [(f"{prefix}.message.role", "assistant")]
            for place, call in enumerate(calls):
                at = f"{prefix}.message.tool_calls.{place}.tool_call"
                found += [
                    (f"{at}.id", call.id),
                    (f"{at}.function.name", call.tool),
                    (f"{at}.function.arguments", json.dumps(call.arguments)),
                ]
            return found
        case {"call": call}:
            return [
                (f"{prefix}.message.role", "tool"),
                (f"{prefix}.message.tool_call_id", call.id),
                (f"{prefix}.message.content", result_of(call)),
            ]
        case _:
            return [
                (f"{prefix}.message.role", message["role"]),
                (f"{prefix}.message.content", message["text"]),
            ]


def _open_inference_model(messages: Sequence[Message], reply: Reply) -> tuple[str, Attributes]:
    said: Message = {"calls": reply} if reply else {"role": "assistant", "text": "done"}
    given = [
        pair
        for place, message in enumerate(messages)
        for pair in _flat(f"llm.input_messages.{place}", message)
    ]
    # What is continued at the model's server would be named among the parameters of the request.
    parameters = {"model": "mock-1", "temperature": 1.0}
    return "response", [
        ("openinference.span.kind", "LLM"),
        ("llm.invocation_parameters", json.dumps(parameters)),
        *given,
        *_flat("llm.output_messages.0", said),
    ]


def _open_inference_tool(call: Call, result: str) -> tuple[str, Attributes]:
    return call.tool, [
        ("openinference.span.kind", "TOOL"),
        ("tool.name", call.tool),
        ("input.value", json.dumps(call.arguments)),
        ("input.mime_type", "application/json"),
        ("output.value", result),
    ]


def _open_inference_root() -> tuple[str, Attributes]:
    return "Agent workflow", [("openinference.span.kind", "AGENT"), ("agent.name", SERVICE)]


# --- The AI SDK for JavaScript --------------------------------------------------------------------

_VERCEL: Attributes = [("ai.telemetry.functionId", SERVICE), ("resource.name", SERVICE)]


def _vercel_message(message: Message) -> Message:
    match message:
        case {"calls": calls}:
            content = [
                {
                    "type": "tool-call",
                    "toolCallId": c.id,
                    "toolName": c.tool,
                    "input": c.arguments,
                }
                for c in calls
            ]
            return {"role": "assistant", "content": content}
        case {"call": call}:
            output = {"type": "json", "value": json.loads(result_of(call))}
            part = {"type": "tool-result", "toolCallId": call.id, "toolName": call.tool}
            return {"role": "tool", "content": [{**part, "output": output}]}
        case _:
            content = [{"type": "text", "text": message["text"]}]
            return {"role": message["role"], "content": content}


def _vercel_model(messages: Sequence[Message], reply: Reply) -> tuple[str, Attributes]:
    said: Attributes = [("ai.response.finishReason", "stop"), ("ai.response.text", "done")]
    if reply:
        calls = [
            {"toolCallId": c.id, "toolName": c.tool, "input": json.dumps(c.arguments)}
            for c in reply
        ]
        said = [
            ("ai.response.finishReason", "tool-calls"),
            ("ai.response.toolCalls", json.dumps(calls)),
        ]
    return "ai.generateText.doGenerate", [
        ("operation.name", f"ai.generateText.doGenerate {SERVICE}"),
        ("ai.operationId", "ai.generateText.doGenerate"),
        *_VERCEL,
        ("gen_ai.system", "mock"),
        ("gen_ai.request.model", "mock-1"),
        ("ai.prompt.messages", json.dumps([_vercel_message(each) for each in messages])),
        *said,
    ]


def _vercel_tool(call: Call, result: str) -> tuple[str, Attributes]:
    return "ai.toolCall", [
        ("operation.name", f"ai.toolCall {SERVICE}"),
        ("ai.operationId", "ai.toolCall"),
        *_VERCEL,
        ("ai.toolCall.name", call.tool),
        ("ai.toolCall.id", call.id),
        ("ai.toolCall.args", json.dumps(call.arguments)),
        ("ai.toolCall.result", result),
    ]


def _vercel_root() -> tuple[str, Attributes]:
    return "ai.generateText", [
        ("operation.name", f"ai.generateText {SERVICE}"),
        ("ai.operationId", "ai.generateText"),
        *_VERCEL,
    ]


DIALECTS: Mapping[str, Dialect] = {
    "pydantic_ai": Dialect(
        "pydantic-ai", "2.68.0", "gen_ai.conversation.id",
        _gen_ai_root, _gen_ai_model, _gen_ai_tool, model_kind=3,
    ),
    "google_adk": Dialect(
        "gcp.vertex.agent", "2.13.0", "gen_ai.conversation.id",
        _gen_ai_root, _adk_model, _adk_tool,
    ),
    "openinference": Dialect(
        "openinference.instrumentation.openai_agents", "2.6.0", "session.id",
        _open_inference_root, _open_inference_model, _open_inference_tool,
    ),
    "vercel_ai": Dialect(
        "ai", "", "ai.telemetry.metadata.sessionId", _vercel_root, _vercel_model, _vercel_tool
    ),
}  # fmt: skip

# Where arguments and results of tools stand.
ARGUMENTS = ("gen_ai.tool.call.arguments", "input.value", "ai.toolCall.args")
RESULTS = ("gen_ai.tool.call.result", "output.value", "ai.toolCall.result")
NAMES = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name")
CALL_IDS = ("gen_ai.tool.call.id", "ai.toolCall.id")
