"""`offrails hook`: the guard's own verb (`offrails_guard/cli/hook.py`)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

__all__ = ["add"]


def add(group: Any) -> None:
    """Adds the verb and its options, unless the guard was uninstalled."""
    with suppress(ModuleNotFoundError):
        from offrails_guard.cli.hook import add as add_hook

        add_hook(group)
