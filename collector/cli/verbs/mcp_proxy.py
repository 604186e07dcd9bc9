"""`offrails mcp-proxy`: asks before a tool of an MCP server is called."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, Final

from collector.cli.guarding import add_guard, guard_of
from collector.cli.inputs import FAILED, quit_with

if TYPE_CHECKING:
    from offrails_guard.mcp.gate import Gate

__all__ = ["add", "run"]

DEADLINE_SECONDS: Final = 5.0
"""Silence of the service. The client waits for much longer, and proxies of many agents may start at
once."""


def add(group: Any) -> None:
    """Adds the verb and its options."""
    proxy = group.add_parser(
        "mcp-proxy",
        help="ask before a tool of an MCP server is called",
        usage="offrails mcp-proxy [options] -- COMMAND...\n"
        "       offrails mcp-proxy [options] --listen HOST:PORT --to URL",
    )
    proxy.add_argument(
        "command",
        nargs="*",
        metavar="COMMAND",
        help="server that speaks over standard input and output",
    )
    proxy.add_argument(
        "--listen", default="", metavar="HOST:PORT", help="serve streamable HTTP here"
    )
    proxy.add_argument(
        "--to",
        default="",
        metavar="URL",
        help="server that speaks streamable HTTP: http://HOST:PORT; paths are the client's",
    )
    add_guard(proxy, deadline_seconds=DEADLINE_SECONDS)
    proxy.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Runs `offrails mcp-proxy`, and returns the exit code."""
    over_http = bool(options.listen or options.to)
    if over_http and (options.command or not (options.listen and options.to)):
        quit_with("mcp-proxy: expected -- COMMAND..., or --listen and --to")
    if not over_http and not options.command:
        quit_with("mcp-proxy: expected -- COMMAND..., or --listen and --to")
    from uuid import uuid4

    from offrails_guard.client import Guard
    from offrails_guard.mcp.gate import Gate

    with guard_of(options, Guard) as guard:
        if over_http:
            return _over_http(Gate(guard, options.on_unavailable), options)
        # One client and one server: without a trace, this process is the session.
        return _over_stdio(Gate(guard, options.on_unavailable, f"mcp-{uuid4().hex}"), options)


def _over_stdio(gate: Gate, options: argparse.Namespace) -> int:
    from offrails_guard.mcp.stdio import StdioProxy

    # A file of its own, which nobody closes: a thread waits in it when the server has ended.
    client_in = open(sys.stdin.fileno(), "rb", closefd=False)  # noqa: SIM115
    try:
        return StdioProxy(gate, client_in, sys.stdout.buffer).run(options.command)
    except OSError as problem:
        print(f"offrails: {options.command[0]}: {problem.strerror}", file=sys.stderr)
        return FAILED


def _over_http(gate: Gate, options: argparse.Namespace) -> int:
    from collector.cli.mcp_listener import ListenError, serve

    try:
        return serve(gate, options.listen, options.to)
    except (ListenError, ValueError) as problem:
        quit_with(f"mcp-proxy: {problem}")
