"""TanStack AI: the GenAI conventions in part; the arguments are in a message of role `tool`."""

from collector.dialects.base import ArgumentSource, Dialect
from collector.dialects.values.arguments import message_content

__all__ = ["TANSTACK_AI"]

TANSTACK_AI = Dialect(
    name="tanstack_ai",
    when=("gen_ai.tool.name", "tanstack.ai.tool.outcome"),
    tool=("gen_ai.tool.name",),
    arguments=(ArgumentSource("gen_ai.input.messages", message_content),),
    call_id=("gen_ai.tool.call.id",),
    failed={"tanstack.ai.tool.outcome": frozenset({"error"})},
    switch="otelMiddleware({captureContent: true})",
)
