# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""The rover's tools behind an MCP server on standard input and output."""

from __future__ import annotations

import os

import rover

if os.environ["ROVER_THROUGH"] == "fastmcp":
    from fastmcp import FastMCP as MCPServer
else:
    from mcp.server.mcpserver import MCPServer

tracing = rover.provider()
server = MCPServer("rover")
for each in rover.TOOLS:
    server.tool()(each)
try:
    server.run("stdio")
finally:
    tracing.shutdown()
