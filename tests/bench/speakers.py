"""Four instrumentations as they are on the wire: the contents of their tool, model and agent spans.

Scopes, kinds, names and attributes are those that the instrumentations send, and so are the places
where they tell a session: OpenTelemetry's conventions never on a tool's span, the others on all.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from tests.bench.wire import Attributes, Value

__all__ = ["SPEAKERS", "Call", "Said", "Speaker", "Talk", "prose"]

INTERNAL, CLIENT = Span.SPAN_KIND_INTERNAL, Span.SPAN_KIND_CLIENT
UNSET, OK = Status.STATUS_CODE_UNSET, Status.STATUS_CODE_OK

AGENT = "farm_rover"
MODEL = "gpt-4o"
SYSTEM = "You are the farm rover. Use the tools."
REMEMBERED = 3
"""Calls of a talk that a model is told again."""

_TEXT = (
    "The water pressure in zone 3 is below the threshold of 2.5 bar; check the valve. "
    "Soil moisture at the north edge is 0.12, the forecast says no rain before Thursday. "
    'Tank 2 holds 480 l ("reserve"), the pump was serviced on the 3rd.\n'
) * 12
_PROSE_MAX = 1_000

_TOOLS = {
    "unlock_safety": ("Unlock the safety lock of the rover.", {}),
    "move": ("Move the rover to a grid position.", {"x": "integer", "y": "integer"}),
    "scan": ("Scan an area and report soil moisture.", {"area": "string"}),
    "open_valve": ("Open a water valve.", {"valve": "string"}),
    "water": ("Water a field.", {"field": "integer", "liters": "integer"}),
    "log": ("Write a line to the farm log.", {"message": "string"}),
}


def prose(chance: random.Random, least: int, most: int) -> str:
    """A text of some length."""
    begin = chance.randrange(_PROSE_MAX)
    return _TEXT[begin : begin + chance.randint(least, most)]


class Call(NamedTuple):
    """A tool call and what came of it."""

    tool: str
    arguments: dict[str, str | int]
    call_id: str
    result: str


@dataclass(slots=True)
class Talk:
    """One turn of a conversation with an agent."""

    conversation: str
    run_id: str
    request: str
    turn: int
    calls: list[Call]
    """Those made before, in this turn and in earlier ones, oldest first."""

    @property
    def remembered(self) -> list[Call]:
        """The history that the model is given again."""
        return self.calls[-REMEMBERED:]


class Said(NamedTuple):
    """The span that an instrumentation makes of an event."""

    name: str
    kind: Span.SpanKind.ValueType
    attributes: Attributes
    status: Status.StatusCode.ValueType = UNSET


class Speaker(Protocol):
    """An instrumentation."""

    scope: str
    version: str
    tells_on_tools: bool
    """Its tool spans carry the session's id."""

    def tool(self, talk: Talk, call: Call) -> Said:
        """The span of a tool call."""

    def chat(self, talk: Talk, call: Call) -> Said:
        """The span of the model that asks for the call."""

    def agent(self, talk: Talk) -> Said:
        """The span around all of the turn."""


def _schema(tool: str) -> dict[str, object]:
    text, types = _TOOLS[tool]
    properties = {name: {"type": kind} for name, kind in types.items()}
    parameters = {"properties": properties, "required": [*types], "type": "object"}
    return {"type": "function", "name": tool, "description": text, "parameters": parameters}


_SCHEMAS = {tool: json.dumps(_schema(tool)) for tool in _TOOLS}
_DEFINITIONS = f"[{', '.join(_SCHEMAS.values())}]"
_INSTRUCTIONS = json.dumps([{"type": "text", "content": SYSTEM}])


def _said(role: str, *parts: dict[str, object], **more: str) -> dict[str, object]:
    return {"role": role, "parts": list(parts), **more}


def _asked(call: Call) -> dict[str, object]:
    return {
        "type": "tool_call",
        "id": call.call_id,
        "name": call.tool,
        "arguments": call.arguments,
    }


def _history(talk: Talk) -> list[dict[str, object]]:
    """Messages as the GenAI conventions write them."""
    found = [_said("user", {"type": "text", "content": talk.request})]
    for call in talk.remembered:
        answer: dict[str, object] = {
            "type": "tool_call_response",
            "id": call.call_id,
            "response": call.result,
        }
        found += [_said("assistant", _asked(call)), _said("tool", answer)]
    return found


def _output(call: Call) -> str:
    return json.dumps([_said("assistant", _asked(call), finish_reason="tool_call")])


def _tokens(talk: Talk) -> int:
    return 200 + 97 * len(talk.calls)


class Conventions:
    """OpenTelemetry's GenAI conventions: the conversation is named by models and agents only."""

    scope, version, tells_on_tools = "farm.rover.semconv", "0.1", False

    def tool(self, talk: Talk, call: Call) -> Said:
        """`execute_tool T`."""
        attributes: list[tuple[str, Value]] = [
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", call.tool),
            ("gen_ai.tool.call.id", call.call_id),
            ("gen_ai.tool.type", "function"),
            ("gen_ai.tool.description", _TOOLS[call.tool][0]),
            ("gen_ai.tool.call.arguments", json.dumps(call.arguments)),
            ("gen_ai.tool.call.result", json.dumps(call.result)),
        ]
        return Said(f"execute_tool {call.tool}", INTERNAL, attributes)

    def chat(self, talk: Talk, call: Call) -> Said:
        """`chat MODEL`."""
        attributes: list[tuple[str, Value]] = [
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.provider.name", "openai"),
            ("gen_ai.request.model", MODEL),
            ("gen_ai.response.model", MODEL),
            ("gen_ai.conversation.id", talk.conversation),
            ("gen_ai.usage.input_tokens", _tokens(talk)),
            ("gen_ai.usage.output_tokens", 10),
            ("gen_ai.response.finish_reasons", ("tool_call",)),
            ("gen_ai.system_instructions", _INSTRUCTIONS),
            ("gen_ai.tool.definitions", _DEFINITIONS),
            ("gen_ai.input.messages", json.dumps(_history(talk))),
            ("gen_ai.output.messages", _output(call)),
        ]
        return Said(f"chat {MODEL}", CLIENT, attributes)

    def agent(self, talk: Talk) -> Said:
        """`invoke_agent A`."""
        attributes: list[tuple[str, Value]] = [
            ("gen_ai.operation.name", "invoke_agent"),
            ("gen_ai.provider.name", "openai"),
            ("gen_ai.agent.name", AGENT),
            ("gen_ai.agent.id", "asst_1"),
            ("gen_ai.conversation.id", talk.conversation),
            ("gen_ai.request.model", MODEL),
            ("gen_ai.system_instructions", _INSTRUCTIONS),
            ("gen_ai.input.messages", json.dumps(_history(talk))),
        ]
        return Said(f"invoke_agent {AGENT}", INTERNAL, attributes)


def _graph(talk: Talk, node: str, step: int) -> dict[str, object]:
    """LangGraph's attributes on its place in the graph."""
    place = f"{node}:{talk.run_id}"
    return {
        "ls_integration": "langchain_create_agent",
        "lc_agent_name": AGENT,
        "session_id": talk.conversation,
        "thread_id": talk.conversation,
        "langgraph_step": step,
        "langgraph_node": node,
        "langgraph_triggers": ["branch:to:model" if node == "model" else "__pregel_push"],
        "langgraph_path": ["__pregel_pull", node],
        "langgraph_checkpoint_ns": place,
        "checkpoint_ns": place,
    }


_MODEL_META: dict[str, Value] = {
    "ls_provider": "openai",
    "ls_model_name": MODEL,
    "ls_model_type": "chat",
    "ls_temperature": 0.0,
}


class OpenInference:
    """OpenInference of LangChain: flattened messages, and one text argument without its name."""

    scope, version, tells_on_tools = "openinference.instrumentation.langchain", "0.1.80", True

    def tool(self, talk: Talk, call: Call) -> Said:
        """`T`, of kind TOOL."""
        message: dict[str, object] = {
            "content": call.result,
            "additional_kwargs": {},
            "response_metadata": {},
            "type": "tool",
            "name": call.tool,
            "id": None,
            "tool_call_id": call.call_id,
            "artifact": None,
            "status": "success",
        }
        attributes: list[tuple[str, Value]] = [
            *self._input(call),
            ("output.value", json.dumps({"type": "tool", "data": message})),
            ("output.mime_type", "application/json"),
            ("tool.name", call.tool),
            ("tool.description", _TOOLS[call.tool][0]),
            ("session.id", talk.conversation),
            ("metadata", json.dumps(_graph(talk, "tools", 2 * len(talk.calls) + 2))),
            ("openinference.span.kind", "TOOL"),
        ]
        return Said(call.tool, INTERNAL, attributes, OK)

    def _input(self, call: Call) -> Attributes:
        values = list(call.arguments.values())
        if len(values) == 1 and isinstance(values[0], str):
            yield "input.value", values[0]
        elif values:
            yield "input.value", json.dumps(call.arguments)
            yield "input.mime_type", "application/json"

    def chat(self, talk: Talk, call: Call) -> Said:
        """`ChatOpenAI`, of kind LLM."""
        told = {"messages": [[SYSTEM, talk.request, *(each.call_id for each in talk.calls)]]}
        reply = {"generations": [[{"text": "", "message": _asked(call)}]]}
        meta = {**_graph(talk, "model", 2 * len(talk.calls) + 1), **_MODEL_META}
        attributes: list[tuple[str, Value]] = [
            ("input.value", json.dumps(told)),
            ("input.mime_type", "application/json"),
            ("output.value", json.dumps(reply)),
            ("output.mime_type", "application/json"),
            *self._messages(talk),
            ("llm.output_messages.0.message.role", "assistant"),
            *_flat_call("llm.output_messages.0", call),
            ("llm.invocation_parameters", _INVOCATION),
            *_TOOL_SCHEMAS,
            ("llm.provider", "openai"),
            ("llm.system", "openai"),
            ("llm.model_name", MODEL),
            ("llm.token_count.prompt", _tokens(talk)),
            ("llm.token_count.completion", 10),
            ("llm.token_count.total", _tokens(talk) + 10),
            ("llm.finish_reason", "tool_calls"),
            ("session.id", talk.conversation),
            ("metadata", json.dumps(meta)),
            ("openinference.span.kind", "LLM"),
        ]
        return Said("ChatOpenAI", INTERNAL, attributes, OK)

    def _messages(self, talk: Talk) -> Attributes:
        yield "llm.input_messages.0.message.role", "system"
        yield "llm.input_messages.0.message.content", SYSTEM
        yield "llm.input_messages.1.message.role", "user"
        yield "llm.input_messages.1.message.content", talk.request
        for number, call in enumerate(talk.remembered):
            asked = f"llm.input_messages.{2 * number + 2}"
            yield f"{asked}.message.role", "assistant"
            yield f"{asked}.message.name", AGENT
            yield from _flat_call(asked, call)
            answer = f"llm.input_messages.{2 * number + 3}.message"
            yield f"{answer}.role", "tool"
            yield f"{answer}.content", call.result
            yield f"{answer}.tool_call_id", call.call_id
            yield f"{answer}.name", call.tool

    def agent(self, talk: Talk) -> Said:
        """The graph itself, of kind CHAIN."""
        meta = {"lc_agent_name": AGENT, "session_id": talk.conversation}
        told = {"messages": [["user", talk.request]]}
        reply = {"messages": [_asked(call) | {"text": call.result} for call in talk.remembered]}
        attributes: list[tuple[str, Value]] = [
            ("input.value", json.dumps(told)),
            ("input.mime_type", "application/json"),
            ("output.value", json.dumps(reply)),
            ("output.mime_type", "application/json"),
            ("llm.input_messages.0.message.role", "user"),
            ("llm.input_messages.0.message.content", talk.request),
            ("session.id", talk.conversation),
            ("metadata", json.dumps(meta)),
            ("openinference.span.kind", "CHAIN"),
        ]
        return Said(AGENT, INTERNAL, attributes, OK)


_INVOCATION = json.dumps({"model": MODEL, "stream": False, "tools": [*_TOOLS]})
_TOOL_SCHEMAS = [
    (f"llm.tools.{number}.tool.json_schema", schema)
    for number, schema in enumerate(_SCHEMAS.values())
]


def _flat_call(message: str, call: Call) -> Iterator[tuple[str, Value]]:
    place = f"{message}.message.tool_calls.0.tool_call"
    yield f"{place}.id", call.call_id
    yield f"{place}.function.name", call.tool
    if call.arguments:
        yield f"{place}.function.arguments", json.dumps(call.arguments)


class Traceloop:
    """Traceloop's instrumentation of LangChain: arguments in a wrapper, written twice."""

    scope, version, tells_on_tools = "opentelemetry.instrumentation.langchain", "0.62.4", True

    def _associated(self, talk: Talk, node: str, step: int) -> Attributes:
        yield "traceloop.workflow.name", AGENT
        yield "traceloop.entity.path", node
        for key, value in _graph(talk, node, step).items():
            told = tuple(value) if isinstance(value, list) else value
            assert isinstance(told, str | int | tuple)
            yield f"traceloop.association.properties.{key}", told

    def tool(self, talk: Talk, call: Call) -> Said:
        """`execute_tool T`, with the call's id only in the wrapper."""
        step = 2 * len(talk.calls) + 2
        wrapper = {
            "input_str": repr(call.arguments),
            "tags": ["seq:step:1"],
            "metadata": _graph(talk, "tools", step),
            "inputs": call.arguments,
            "kwargs": {"color": "green", "name": None, "tool_call_id": call.call_id},
        }
        given = json.dumps(wrapper)
        result = json.dumps({"output": {"content": call.result, "name": call.tool}})
        attributes: list[tuple[str, Value]] = [
            *self._associated(talk, "tools", step),
            ("traceloop.span.kind", "tool"),
            ("traceloop.entity.name", call.tool),
            ("gen_ai.provider.name", "langgraph"),
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", call.tool),
            ("gen_ai.tool.type", "function"),
            ("gen_ai.tool.description", _TOOLS[call.tool][0]),
            ("traceloop.entity.input", given),
            ("gen_ai.tool.call.arguments", given),
            ("gen_ai.task.status", "success"),
            ("traceloop.entity.output", result),
            ("gen_ai.tool.call.result", result),
        ]
        return Said(f"execute_tool {call.tool}", INTERNAL, attributes)

    def chat(self, talk: Talk, call: Call) -> Said:
        """`ChatOpenAI.chat`."""
        attributes: list[tuple[str, Value]] = [
            *self._associated(talk, "model", 2 * len(talk.calls) + 1),
            *(
                (f"traceloop.association.properties.{key}", value)
                for key, value in _MODEL_META.items()
            ),
            ("gen_ai.provider.name", "openai"),
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.tool.definitions", _DEFINITIONS),
            ("gen_ai.request.model", MODEL),
            ("gen_ai.request.temperature", 0.0),
            ("gen_ai.system_instructions", _INSTRUCTIONS),
            ("gen_ai.input.messages", json.dumps(_history(talk))),
            ("gen_ai.response.model", MODEL),
            ("gen_ai.response.id", f"chatcmpl-{call.call_id[-8:]}"),
            ("gen_ai.usage.input_tokens", _tokens(talk)),
            ("gen_ai.usage.output_tokens", 10),
            ("gen_ai.usage.total_tokens", _tokens(talk) + 10),
            ("gen_ai.output.messages", _output(call)),
            ("gen_ai.response.finish_reasons", ("tool_call",)),
        ]
        return Said("ChatOpenAI.chat", CLIENT, attributes)

    def agent(self, talk: Talk) -> Said:
        """`A.workflow`."""
        given = json.dumps({"inputs": {"messages": [["user", talk.request]]}, "tags": []})
        result = json.dumps({"outputs": {"messages": [_asked(each) for each in talk.calls]}})
        attributes: list[tuple[str, Value]] = [
            ("traceloop.workflow.name", AGENT),
            ("traceloop.entity.path", ""),
            ("traceloop.association.properties.ls_integration", "langchain_create_agent"),
            ("traceloop.association.properties.lc_agent_name", AGENT),
            ("traceloop.association.properties.session_id", talk.conversation),
            ("traceloop.association.properties.thread_id", talk.conversation),
            ("traceloop.span.kind", "workflow"),
            ("traceloop.entity.name", AGENT),
            ("gen_ai.provider.name", "langgraph"),
            ("gen_ai.operation.name", "invoke_agent"),
            ("gen_ai.agent.name", AGENT),
            ("gen_ai.agent.id", talk.run_id),
            ("traceloop.entity.input", given),
            ("gen_ai.task.input", given),
            ("gen_ai.task.status", "success"),
            ("traceloop.entity.output", result),
            ("gen_ai.task.output", result),
        ]
        return Said(f"{AGENT}.workflow", INTERNAL, attributes)


class PydanticAI:
    """Pydantic AI: agent and conversation on every span."""

    scope, version, tells_on_tools = "pydantic-ai", "2.68.0", True

    def _named(self, talk: Talk) -> Attributes:
        yield "gen_ai.agent.name", AGENT
        yield "gen_ai.agent.call.id", talk.run_id
        yield "gen_ai.conversation.id", talk.conversation

    def tool(self, talk: Talk, call: Call) -> Said:
        """`execute_tool T`."""
        attributes: list[tuple[str, Value]] = [
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", call.tool),
            ("gen_ai.tool.call.id", call.call_id),
            ("gen_ai.tool.call.arguments", json.dumps(call.arguments)),
            *self._named(talk),
            ("logfire.msg", f"running tool: {call.tool}"),
            ("logfire.json_schema", _SCHEMA_OF_TOOL),
            ("gen_ai.tool.call.result", call.result),
        ]
        return Said(f"execute_tool {call.tool}", INTERNAL, attributes)

    def chat(self, talk: Talk, call: Call) -> Said:
        """`chat MODEL`."""
        attributes: list[tuple[str, Value]] = [
            ("gen_ai.operation.name", "chat"),
            *self._named(talk),
            ("gen_ai.provider.name", "openai"),
            ("gen_ai.system", "openai"),
            ("server.address", "api.openai.com"),
            ("server.port", 443),
            ("gen_ai.request.model", MODEL),
            ("model_request_parameters", _PARAMETERS),
            ("gen_ai.tool.definitions", _DEFINITIONS),
            ("gen_ai.input.messages", json.dumps(_history(talk))),
            ("gen_ai.output.messages", _output(call)),
            ("gen_ai.system_instructions", _INSTRUCTIONS),
            ("logfire.json_schema", _SCHEMA_OF_CHAT),
            ("gen_ai.usage.input_tokens", _tokens(talk)),
            ("gen_ai.usage.output_tokens", 10),
            ("gen_ai.response.model", MODEL),
            ("operation.cost", 0.000225),
            ("gen_ai.response.id", f"chatcmpl-{call.call_id[-8:]}"),
            ("gen_ai.response.finish_reasons", ("tool_call",)),
        ]
        return Said(f"chat {MODEL}", CLIENT, attributes)

    def agent(self, talk: Talk) -> Said:
        """`invoke_agent A`."""
        attributes: list[tuple[str, Value]] = [
            ("model_name", MODEL),
            ("agent_name", AGENT),
            *self._named(talk),
            ("gen_ai.operation.name", "invoke_agent"),
            ("logfire.msg", f"{AGENT} run"),
            ("final_result", "Field 3 has been watered."),
            ("gen_ai.aggregated_usage.input_tokens", 350 * talk.turn),
            ("gen_ai.aggregated_usage.output_tokens", 70),
            ("pydantic_ai.all_messages", json.dumps(_history(talk))),
            ("gen_ai.system_instructions", _INSTRUCTIONS),
            ("logfire.json_schema", _SCHEMA_OF_CHAT),
        ]
        return Said(f"invoke_agent {AGENT}", INTERNAL, attributes)


_PARAMETERS = json.dumps({"function_tools": [*_TOOLS], "output_mode": "text"})
_SCHEMA_OF_TOOL = json.dumps(
    {
        "type": "object",
        "properties": {
            "gen_ai.tool.call.arguments": {"type": "object"},
            "gen_ai.tool.call.result": {"type": "object"},
            "gen_ai.tool.name": {},
            "gen_ai.tool.call.id": {},
        },
    }
)
_SCHEMA_OF_CHAT = json.dumps(
    {
        "type": "object",
        "properties": {
            "gen_ai.input.messages": {"type": "array"},
            "gen_ai.output.messages": {"type": "array"},
            "gen_ai.system_instructions": {"type": "array"},
        },
    }
)

SPEAKERS: tuple[Speaker, ...] = (Conventions(), OpenInference(), Traceloop(), PydanticAI())
