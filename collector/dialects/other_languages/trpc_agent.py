"""trpc-agent-go: the GenAI conventions.

Two kinds of spans are not calls: the one for the merged response of a turn's calls, and the one for a requested tool
that does not exist, which has no name.
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
