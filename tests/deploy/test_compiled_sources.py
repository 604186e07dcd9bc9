"""Constructs that compiled modules must not use: they fail only in the compiled build, such as by a crash."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def compiled() -> dict[str, str]:
    """Folder -> modules, as the build has them; the build's own packages are not needed for it."""
    for node in ast.parse((ROOT / "hatch_build.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMPILED":
            found: dict[str, str] = ast.literal_eval(node.value)
            return found
    raise AssertionError("no list of compiled modules")


MODULES = [
    ROOT / folder / f"{name}.py"
    for folder, names in compiled().items()
    for name in names.split()
]


def unready(tree: ast.Module) -> Iterator[str]:
    """Fields of records whose types are not there yet when the record's class is made."""
    classes = {
        node.name: at for at, node in enumerate(tree.body) if isinstance(node, ast.ClassDef)
    }
    for at, node in enumerate(tree.body):
        if not isinstance(node, ast.ClassDef) or not is_record(node):
            continue
        for field in (each for each in node.body if isinstance(each, ast.AnnAssign)):
            names = {
                each.id for each in ast.walk(field.annotation) if isinstance(each, ast.Name)
            }
            yield from (f"{node.name}: {name}" for name in names if classes.get(name, -1) >= at)


def is_record(node: ast.ClassDef) -> bool:
    """True for a NamedTuple, whose fields' types the compiled build looks up at once."""
    return any(ast.unparse(base).endswith("NamedTuple") for base in node.bases)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_records_follow_the_classes_they_hold(module: Path) -> None:
    """No named tuple of a compiled module has a field of a class that is defined below it."""
    assert list(unready(ast.parse(module.read_text()))) == []


def test_every_compiled_module_is_there() -> None:
    """The list of compiled modules names files."""
    assert [str(each) for each in MODULES if not each.exists()] == []
