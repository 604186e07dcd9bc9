# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""The Claude Agent SDK with hooks of a guard, or with `offrails hook claude-code` in its settings."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk
import guarded
import messages_server
import rover

FORM = os.environ["ROVER_THROUGH"]
told: list[str] = []
answers: list[str] = []


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


def settings() -> str:
    """Claude Code's own settings: the hook is a command."""
    hook = {"type": "command", "command": os.environ["HOOK"], "timeout": 30}
    events = ("PreToolUse", "PostToolUse", "PostToolUseFailure")
    return json.dumps(
        {"hooks": {event: [{"matcher": "*", "hooks": [hook]}] for event in events}}
    )


async def talk(options: sdk.ClaudeAgentOptions) -> None:
    """One turn; notes what the tools say to the model, and what the model says at last."""
    async with sdk.ClaudeSDKClient(options=options) as client:
        await client.query("water field 3")
        async for message in client.receive_response():
            for block in getattr(message, "content", None) or []:
                if isinstance(block, sdk.ToolResultBlock):
                    told.append(json.dumps(block.content))
                elif isinstance(block, sdk.TextBlock):
                    answers.append(block.text)


with tempfile.TemporaryDirectory() as home, guarded.guard() as guard:
    environment = {
        "ANTHROPIC_BASE_URL": messages_server.serve("mcp__farm__"),
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",
        "HOME": home,
    }
    if FORM == "sdk":
        from offrails_guard.adapters import claude_agent_sdk

        more: dict[str, Any] = {"hooks": claude_agent_sdk.hooks(guard)}
    else:
        file = Path(home) / "settings.json"
        file.write_text(settings())
        more = {"settings": str(file)}
    wanted = sdk.ClaudeAgentOptions(
        mcp_servers={
            "farm": sdk.create_sdk_mcp_server("farm", tools=list(map(made, guarded.TOOLS)))
        },
        allowed_tools=[f"mcp__farm__{tool.__name__}" for tool in rover.TOOLS],
        env=environment,
        cwd=home,
        model="script",
        setting_sources=[],
        extra_args={"session-id": rover.SESSION},
        **more,
    )
    asyncio.run(talk(wanted))
guarded.finish(told, answers[-1] if answers else "")
