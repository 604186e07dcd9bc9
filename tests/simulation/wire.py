"""Spans made in memory, as a decoder would return them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from collector.decode.span import Resource, Span, SpanEvent

__all__ = ["SECOND", "agent", "chat", "named", "span_of", "tool"]

SECOND = 1_000_000_000
FAILED = 2
_CONVERSATION = "gen_ai.conversation.id"


class _Codec:
    """Values are there already."""

    def keys(self, shape: tuple[str, ...]) -> tuple[str, ...]:
        return shape

    def value(self, raw: Any) -> Any:
        return raw

    name = value

    def is_large(self, raw: Any) -> bool:
        return False

    def events(self, raw: Any) -> list[SpanEvent]:
        return list(raw)


_CODEC = _Codec()


def span_of(
    resource: Resource,
    name: str,
    attributes: Mapping[str, Any],
    *,
    trace_id: bytes,
    span_id: bytes,
    parent: bytes = b"",
    start_ns: int,
    end_ns: int,
    status: int = 0,
    dropped: int = 0,
) -> Span:
    """One span; ids are raw bytes."""
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent,
        name=name,
        kind=1,
        start_ns=start_ns,
        end_ns=end_ns,
        status=status,
        resource=resource,
        scope="simulated",
        dropped=dropped,
        shape=tuple(attributes),
        values=list(attributes.values()),
        codec=_CODEC,
        events=[],
    )


def named(conversation: str) -> dict[str, Any]:
    """The attribute that names a session; empty if there is none."""
    return {_CONVERSATION: conversation} if conversation else {}


def tool(
    resource: Resource,
    name: str,
    arguments: Mapping[str, Any] | None,
    *,
    call_id: str = "",
    conversation: str = "",
    error: bool = False,
    **times: Any,
) -> Span:
    """An executed tool call; `arguments` None are not on the wire."""
    attributes: dict[str, Any] = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": name,
        **({"gen_ai.tool.call.id": call_id} if call_id else {}),
        **named(conversation),
    }
    if arguments is not None:
        attributes["gen_ai.tool.call.arguments"] = json.dumps(arguments)
    status = FAILED if error else 0
    return span_of(resource, f"execute_tool {name}", attributes, status=status, **times)


def agent(resource: Resource, name: str, *, conversation: str = "", **times: Any) -> Span:
    """A turn of an agent, around its calls."""
    attributes = {"gen_ai.operation.name": "invoke_agent", **named(conversation)}
    if name:
        attributes["gen_ai.agent.name"] = name
    return span_of(resource, f"invoke_agent {name}", attributes, **times)


def chat(resource: Resource, *, conversation: str = "", **times: Any) -> Span:
    """A model's answer."""
    return span_of(
        resource, "chat m", {"gen_ai.operation.name": "chat", **named(conversation)}, **times
    )
