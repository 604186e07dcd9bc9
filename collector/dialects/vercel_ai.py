"""The Vercel AI SDK: `ai.toolCall` spans."""

from collector.dialects.arguments import mapping
from collector.dialects.base import Dialect, Source

__all__ = ["VERCEL_AI"]

VERCEL_AI = Dialect(
    name="vercel_ai",
    when=("ai.toolCall.name",),
    not_values={"ai.operationId": frozenset({"ai.generateText", "ai.streamText"})},
    tool=("ai.toolCall.name",),
    arguments=(
        Source("ai.toolCall.args", mapping),
        Source("ai.toolCall.input", mapping),
    ),
    call_id=("ai.toolCall.id",),
    switch="experimental_telemetry: {recordInputs: true}",
)
