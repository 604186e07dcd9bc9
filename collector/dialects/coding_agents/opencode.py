"""OpenCode: spans of its program and, if enabled, those of the Vercel AI SDK.

A sub-agent runs below the program's own span.
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
