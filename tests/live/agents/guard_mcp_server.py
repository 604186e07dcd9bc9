# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""The rover's tools behind an MCP server, which notes in a file which of them ran.

python guard_mcp_server.py NOTES [PORT]: over streamable HTTP where there is a port.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rover
from mcp.server.mcpserver import MCPServer

NOTES = Path(sys.argv[1])


def noting(tool: Callable[..., str]) -> Callable[..., str]:
    """The tool, which leaves its name."""

    @functools.wraps(tool)
    def run(*args: Any, **kwargs: Any) -> str:
        with NOTES.open("a") as notes:
            notes.write(f"{tool.__name__}\n")
        return tool(*args, **kwargs)

    return run


server = MCPServer("rover")
for each in rover.TOOLS:
    server.tool()(noting(each))
if len(sys.argv) > 2:
    server.run("streamable-http", port=int(sys.argv[2]))
else:
    server.run("stdio")
