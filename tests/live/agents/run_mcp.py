# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""An MCP client that plays the script against a server, both with the SDK's own spans."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import rover
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from opentelemetry import trace

SERVER = Path(__file__).with_name("mcp_server.py")


async def play() -> None:
    """Each call of the script, below one agent's span."""
    environment = {**os.environ, "OTEL_SERVICE_NAME": "rover-mcp-server"}
    server = StdioServerParameters(command=sys.executable, args=[str(SERVER)], env=environment)
    async with stdio_client(server) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "farm_rover",
            "gen_ai.conversation.id": rover.SESSION,
        }
        tracer = trace.get_tracer("rover")
        with tracer.start_as_current_span("invoke_agent farm_rover", attributes=attributes):
            for tool, arguments in rover.SCRIPT:
                await session.call_tool(tool, arguments)


tracing = rover.provider()
asyncio.run(play())
tracing.shutdown()
