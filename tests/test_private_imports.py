"""What tests import of ours is public: they look at promises."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.product import statements
from tests.test_folders import packages

TESTS: Final = Path(__file__).parent
OURS: Final = frozenset({*packages(), "docs", "examples", "grafana", "tests"})


IMPORT: Final = re.compile(r"^\s*(?:from|import)\b[^\n(]*(?:\([^)]*\))?", re.MULTILINE)
PRIVATE: Final = re.compile(r"\b_\w*(?<!__)\b")


def private_imports(text: str) -> Iterator[str]:
    """The private names of ours that a module imports, with their modules."""
    if not any(map(PRIVATE.search, IMPORT.findall(text))):
        return  # most modules: they need not be parsed
    for node in (each for body in statements(ast.parse(text)) for each in body):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found = [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Import):
            found = [each.name for each in node.names]
        else:
            continue
        for name in found:
            package, *rest = name.split(".")
            if package in OURS and any(map(is_private, rest)):
                yield name


def is_private(name: str) -> bool:
    """True for a name with an underscore before it, but for those of Python (`__main__`)."""
    return name.startswith("_") and not name.endswith("__")


def test_tests_import_no_private_names_of_ours() -> None:
    """A name that a test needs is public, or the test asks for what it stands for."""
    found = [
        f"{path.relative_to(TESTS)}: {name}"
        for path in sorted(TESTS.rglob("*.py"))
        for name in private_imports(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("from monitor.session.log import _steps", ["monitor.session.log._steps"]),
        ("from monitor._hidden import step", ["monitor._hidden.step"]),
        ("def f():\n    import collector._hidden as c", ["collector._hidden"]),
        ("from monitor import Monitor, __all__", []),
        ("from opentelemetry._logs import LogRecord", []),
    ],
)
def test_private_imports_are_seen(text: str, found: list[str]) -> None:
    """Anywhere in a module, of a private name or from a private module; those of others are not ours to name."""
    assert list(private_imports(text)) == found
