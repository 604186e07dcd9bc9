"""The product's modules as trees, for tests of its structure."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["PACKAGES", "ROOT", "modules", "statements", "tree_of"]

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("collector", "guard", "harness", "judges", "monitor", "offrails_guard")


def modules() -> list[Path]:
    """Every module of every package, in order."""
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def tree_of(module: Path) -> ast.Module:
    """What a module says. It is not kept: all trees have a million nodes."""
    return ast.parse(module.read_text(encoding="utf-8"))


def statements(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Each list of statements, at every depth: of a module, a class, a function, a branch.

    Three quarters of a tree's nodes are expressions, which hold no statement.
    """
    open_nodes: list[ast.AST] = [tree]
    for node in open_nodes:
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            found = getattr(node, field, None)
            if isinstance(found, list) and found:
                open_nodes.extend(found)
                if isinstance(found[0], ast.stmt):
                    yield found
