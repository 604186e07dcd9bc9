"""OpenAI's Codex: spans of its program, one around each tool that it runs.

Arguments are only in its logs. An event of a span below the call's span shows the outcome: see `FAILED_PARTS`.
The name of an MCP tool is the server's name and the tool's, without a separator in some versions. A span below has
the tool's name alone.
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
