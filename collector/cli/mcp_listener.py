"""Serves the MCP proxy over HTTP, until a signal."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Final

from collector.net.asgi import Receive, Scope, Send, send_json
from collector.net.host_guard import HostGuard
from collector.receive.http.asgi_server import WebApp
from collector.receive.listener.connections import ConnectionBounds
from collector.receive.listener.listener import Listener
from offrails_guard.mcp.http import HttpProxy

if TYPE_CHECKING:
    from offrails_guard.mcp.gate import Gate

__all__ = ["ListenError", "serve"]

CONNECTIONS_MAX: Final = 1024
STOP_SECONDS: Final = 1.0


class ListenError(Exception):
    """The address cannot be listened on."""


def serve(gate: Gate, address: str, target: str) -> int:
    """Serves until SIGTERM or SIGINT, and returns the exit code.

    Args:
        gate: decides which requests go on.
        address: HOST:PORT, where clients connect.
        target: of the server, http://HOST:PORT.

    Raises:
        ValueError: an address is none.
        ListenError: the address cannot be listened on.
    """
    proxy = HttpProxy(gate, target)
    hosts = HostGuard(address, setting="--listen")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        refused = hosts.refuses(scope)
        if refused is not None:
            await send_json(send, 403, {"error": refused})
            return
        await proxy(scope, receive, send)

    listener = Listener(
        WebApp(app), address, bounds=ConnectionBounds(CONNECTIONS_MAX), name="mcp-proxy"
    )
    return asyncio.run(_serve(listener, proxy))


async def _serve(listener: Listener, proxy: HttpProxy) -> int:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        place = await listener.start()
    except OSError as problem:
        raise ListenError(str(problem)) from problem
    print(f"offrails mcp-proxy ready listen={place}", flush=True)
    await stop.wait()
    await listener.stop(STOP_SECONDS)
    await proxy.aclose()
    return 0
