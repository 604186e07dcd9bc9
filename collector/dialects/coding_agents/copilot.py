"""GitHub Copilot CLI: the GenAI conventions, and tools of its own."""

from dataclasses import replace

from collector.dialects.conventions.gen_ai import GEN_AI

__all__ = ["COPILOT"]

COPILOT = replace(
    GEN_AI,
    name="copilot",
    scopes=("github.copilot",),
    control=frozenset(
        {
            "ask_user",
            "exit_plan_mode",
            "list_agents",
            "read_agent",
            "report_intent",
            "task",
            "write_agent",
        }
    ),
)
