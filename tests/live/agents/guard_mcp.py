# mypy: ignore-errors
# The packages are in an environment of their own, which the type checker does not see.
"""An MCP client that plays the script through `offrails mcp-proxy`, over both transports."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import rover
from mcp import ClientSession, StdioServerParameters
from mcp.client.client import Client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

SERVER = Path(__file__).with_name("guard_mcp_server.py")
FORM = os.environ["ROVER_THROUGH"]
PROXY = os.environ["PROXY"].split()
"""The command of the proxy, up to its options."""

Call = Callable[[str, dict[str, Any]], Awaitable[Any]]


@asynccontextmanager
async def over_stdio(notes: Path) -> AsyncIterator[Call]:
    """The server's command, with the proxy's before it."""
    command, *arguments = [*PROXY, "--", sys.executable, str(SERVER), str(notes)]
    server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with stdio_client(server) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        assert len((await session.list_tools()).tools) == len(rover.TOOLS)
        yield session.call_tool


def _reached(port: int) -> None:
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("the server does not listen")


@contextmanager
def served(notes: Path) -> Iterator[str]:
    """The server and the proxy before it; gives the proxy's address, where the server's would be."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    server = subprocess.Popen([sys.executable, str(SERVER), str(notes), str(port)])
    _reached(port)
    proxy = subprocess.Popen(
        [*PROXY, "--listen", "127.0.0.1:0", "--to", f"http://127.0.0.1:{port}"],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        place = re.search(r"listen=(\S+)", proxy.stdout.readline())[1]
        yield f"http://{place}/mcp"
    finally:
        for each in (proxy, server):
            each.terminate()
            each.wait(20)


@asynccontextmanager
async def over_http(notes: Path) -> AsyncIterator[Call]:
    """By the handshake, or without a session."""
    with served(notes) as url:
        if FORM == "modern":
            async with Client(url) as client:
                yield client.call_tool
        else:
            async with (
                streamable_http_client(url) as streams,
                ClientSession(*streams[:2]) as session,
            ):
                await session.initialize()
                yield session.call_tool


async def play() -> None:
    """Each call of the script; what a denied one says is what a model would read."""
    told = []
    with tempfile.TemporaryDirectory() as folder:
        notes = Path(folder) / "notes"
        async with over_stdio(notes) if FORM == "stdio" else over_http(notes) as call:
            for tool, arguments in rover.SCRIPT:
                result = await call(tool, arguments)
                text = result.content[0].text
                told.append(text if result.is_error else f"ok {text}")
        ran = notes.read_text().split()
    print(json.dumps({"ran": ran, "told": told, "answer": rover.ANSWER}))


asyncio.run(play())
