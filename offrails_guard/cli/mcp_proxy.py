"""`offrails mcp-proxy`: asks before a tool of an MCP server is called."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from offrails_guard.cli.options import FAILED, add_guard, guard_of, quit_with

if TYPE_CHECKING:
    from offrails_guard.mcp.gate import Gate

__all__ = ["OverHttp", "add", "run"]

OverHttp = Callable[["Gate", str, str], int]
"""Serves streamable HTTP at an address, for the server at a URL, until a signal."""

WRONG_FORM: Final = "mcp-proxy: expected -- COMMAND..., or --listen and --to"


def add(group: Any, program: str = "offrails", over_http: OverHttp | None = None) -> None:
    """Adds the verb and its options to those of a program; those of HTTP where it can serve that."""
    usage = f"{program} mcp-proxy [options] -- COMMAND..."
    if over_http is not None:
        usage += f"\n       {program} mcp-proxy [options] --listen HOST:PORT --to URL"
    proxy = group.add_parser(
        "mcp-proxy", help="ask before a tool of an MCP server is called", usage=usage
    )
    proxy.add_argument(
        "command",
        nargs="*",
        metavar="COMMAND",
        help="server that speaks over standard input and output",
    )
    proxy.set_defaults(run=partial(run, over_http=over_http), listen="", to="")
    if over_http is not None:
        _add_http(proxy)
    add_guard(proxy)


def _add_http(proxy: argparse.ArgumentParser) -> None:
    proxy.add_argument(
        "--listen", default="", metavar="HOST:PORT", help="serve streamable HTTP here"
    )
    proxy.add_argument(
        "--to",
        default="",
        metavar="URL",
        help="server that speaks streamable HTTP: http://HOST:PORT; paths are the client's",
    )


def run(options: argparse.Namespace, over_http: OverHttp | None = None) -> int:
    """Runs `offrails mcp-proxy`, and returns the exit code."""
    if bool(options.command) == bool(options.listen or options.to):
        quit_with(WRONG_FORM)
    if bool(options.listen) != bool(options.to):
        quit_with(WRONG_FORM)
    from uuid import uuid4

    from offrails_guard.client import Guard
    from offrails_guard.mcp.gate import Gate

    with guard_of(options, Guard) as guard:
        if over_http is not None and options.listen:
            return over_http(Gate(guard, options.on_unavailable), options.listen, options.to)
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
