"""OpenAI's Codex: spans of its program, one of which is around each tool that it runs.

Arguments are in its logs alone. How a call went is in an event of a span below the call's: see `FAILED_PARTS`.
A server's tool is named after both, in some versions with nothing between them; a span below has its own name.
"""

from collector.dialects.base import Dialect
from collector.dialects.conventions.mcp import MCP

__all__ = ["CODEX", "CODEX_MCP"]

CODEX = Dialect(
    name="codex",
    when=("codex.tool.phase", "tool_name"),
    values={"codex.tool.phase": frozenset({"dispatch"})},
    tool=("tool_name",),
    call_id=("call_id",),
    failed={"aborted": frozenset({"true"})},
    control=frozenset(
        {"create_goal", "get_goal", "request_user_input", "update_goal", "update_plan"}
    ),
    control_prefixes=("multi_agent_v",),
)

CODEX_MCP = Dialect(
    name=MCP.name,
    when=("rpc.method", "mcp.server.name", "tool.name", "tool.call_id"),
    values={"rpc.method": frozenset({"tools/call"})},
    tool=("tool.name",),
    call_id=("tool.call_id",),
)
