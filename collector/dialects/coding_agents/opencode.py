"""OpenCode: spans of its program, beside those of the Vercel AI SDK where these are on.

A part of the agent runs below the span of the program's own.
"""

from collector.dialects.base import Dialect

__all__ = ["OPENCODE"]

OPENCODE = Dialect(
    name="opencode",
    scopes=("opencode",),
    when=("tool.name", "tool.call_id", "message.id"),
    tool=("tool.name",),
    call_id=("tool.call_id",),
    control=frozenset(
        {"invalid", "plan_enter", "plan_exit", "question", "task", "todoread", "todowrite"}
    ),
    switch='{"experimental": {"openTelemetry": true}}',
)
