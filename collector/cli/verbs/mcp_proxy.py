"""`offrails mcp-proxy`: the guard's own verb (`offrails_guard/cli/mcp_proxy.py`), which can serve HTTP here."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from collector.cli.inputs import quit_with

if TYPE_CHECKING:
    from offrails_guard.mcp.gate import Gate

__all__ = ["add"]


def add(group: Any) -> None:
    """Adds the verb and its options, unless the guard was uninstalled."""
    with suppress(ModuleNotFoundError):
        from offrails_guard.cli.mcp_proxy import add as add_proxy

        add_proxy(group, over_http=_over_http)


def _over_http(gate: Gate, address: str, target: str) -> int:
    from collector.cli.mcp_listener import ListenError, serve

    try:
        return serve(gate, address, target)
    except (ListenError, ValueError) as problem:
        quit_with(f"mcp-proxy: {problem}")
