"""Qwen Code: the GenAI conventions, and tools of its own."""

from dataclasses import replace

from collector.dialects.conventions.gen_ai import GEN_AI

__all__ = ["QWEN_CODE"]

QWEN_CODE = replace(
    GEN_AI,
    name="qwen_code",
    scopes=("qwen-code",),
    control=frozenset(
        {"agent", "ask_user_question", "exit_plan_mode", "task", "todo_write", "tool_search"}
    ),
    switch="QWEN_TELEMETRY_INCLUDE_SENSITIVE_SPAN_ATTRIBUTES=true",
)
