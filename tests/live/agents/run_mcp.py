# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""An MCP client that plays the script against a server, both with the SDK's or FastMCP's spans."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import rover
from opentelemetry import trace

SERVER = Path(__file__).with_name("mcp_server.py")


ENVIRONMENT = {**os.environ, "OTEL_SERVICE_NAME": "rover-mcp-server"}
Call = Callable[[str, dict[str, Any]], Awaitable[Any]]


@asynccontextmanager
async def sdk() -> AsyncIterator[Call]:
    """The SDK's client."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(command=sys.executable, args=[str(SERVER)], env=ENVIRONMENT)
    async with stdio_client(server) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        yield session.call_tool


@asynccontextmanager
async def fastmcp() -> AsyncIterator[Call]:
    """FastMCP's client."""
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    server = StdioTransport(command=sys.executable, args=[str(SERVER)], env=ENVIRONMENT)
    async with Client(server) as client:
        yield partial(client.call_tool, raise_on_error=False)


async def play() -> None:
    """Each call of the script, below one agent's span."""
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "farm_rover",
        "gen_ai.conversation.id": rover.SESSION,
    }
    tracer = trace.get_tracer("rover")
    async with fastmcp() if os.environ["ROVER_THROUGH"] == "fastmcp" else sdk() as call:
        with tracer.start_as_current_span("invoke_agent farm_rover", attributes=attributes):
            for tool, arguments in rover.SCRIPT:
                await call(tool, arguments)


tracing = rover.provider()
asyncio.run(play())
tracing.shutdown()
