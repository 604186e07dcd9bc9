# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""The Claude Agent SDK, its tools in this process, under two instrumentations, or by its own spans.

The server of the tools has spans of its own wherever this process has a provider.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import tempfile
from collections.abc import Callable
from typing import Any

import claude_agent_sdk as sdk
import messages_server
import rover

THROUGH = os.environ["ROVER_THROUGH"]
OWN = {
    "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
    "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA": "1",
    "OTEL_TRACES_EXPORTER": "otlp",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
}


def made(tool: Callable[..., str]) -> Any:
    """The tool as the SDK wants it."""
    kinds = {"int": "integer", "str": "string"}
    parameters = inspect.signature(tool).parameters
    properties = {name: {"type": kinds[each.annotation]} for name, each in parameters.items()}
    schema = {"type": "object", "properties": properties, "required": list(properties)}

    @sdk.tool(tool.__name__, tool.__doc__, schema)
    async def call(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": tool(**arguments)}]}

    return call


async def talk(options: sdk.ClaudeAgentOptions) -> None:
    """One turn."""
    async with sdk.ClaudeSDKClient(options=options) as client:
        await client.query("water field 3")
        async for _ in client.receive_response():
            pass


tracing = rover.provider()
if THROUGH == "openinference":
    from openinference.instrumentation.claude_agent_sdk import ClaudeAgentSDKInstrumentor

    ClaudeAgentSDKInstrumentor().instrument(tracer_provider=tracing)
elif THROUGH == "logfire":
    import logfire

    os.environ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] = "http/protobuf"
    logfire.configure(send_to_logfire=False, console=False)
    logfire.instrument_claude_agent_sdk()
with tempfile.TemporaryDirectory() as home:
    environment = {
        **(OWN if THROUGH == "own" else {}),
        "ANTHROPIC_BASE_URL": messages_server.serve("mcp__farm__"),
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",
        "HOME": home,
    }
    wanted = sdk.ClaudeAgentOptions(
        mcp_servers={
            "farm": sdk.create_sdk_mcp_server("farm", tools=list(map(made, rover.TOOLS)))
        },
        allowed_tools=[f"mcp__farm__{tool.__name__}" for tool in rover.TOOLS],
        env=environment,
        cwd=home,
        model="script",
        setting_sources=[],
        extra_args={"session-id": rover.SESSION},
    )
    asyncio.run(talk(wanted))
if THROUGH == "logfire":
    logfire.shutdown()
tracing.shutdown()
