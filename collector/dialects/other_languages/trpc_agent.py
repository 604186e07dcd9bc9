"""trpc-agent-go: the GenAI conventions.

Calls of one turn add a span for the merged response, which is no call; nor is what a model asks of a tool that
does not exist, whose name is not told.
"""

from dataclasses import replace

from collector.dialects.conventions.gen_ai import GEN_AI

__all__ = ["TRPC_AGENT"]

TRPC_AGENT = replace(
    GEN_AI,
    name="trpc_agent",
    scopes=("trpc.agent.go",),
    control=frozenset({"(merged tools)", "<not found>", "transfer_to_agent"}),
    switch="",
)
