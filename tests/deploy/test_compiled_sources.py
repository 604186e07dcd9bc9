"""Constructs that compiled modules must not use: they fail only in the compiled build, such as by a crash."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from tests.product import ROOT, modules, statements, tree_of


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
compiled_tree = cache(tree_of)
"""What a compiled module says, read once."""


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


def test_records_follow_the_classes_they_hold() -> None:
    """No named tuple of a compiled module has a field of a class that is defined below it."""
    found = {str(module): list(unready(compiled_tree(module))) for module in MODULES}
    assert {module: fields for module, fields in found.items() if fields} == {}


def test_no_membership_is_asked_of_a_display_with_a_star() -> None:
    """`x in (*known, y)` ends the compiler with an internal error."""
    assert [
        f"{module}:{side.lineno}"
        for module in MODULES
        for node in ast.walk(compiled_tree(module))
        if isinstance(node, ast.Compare)
        for side in node.comparators
        if isinstance(side, ast.Tuple | ast.List)
        and any(isinstance(each, ast.Starred) for each in side.elts)
    ] == []


def generators() -> set[str]:
    """Names of the functions of compiled modules that yield, but for those that other classes have, too."""
    found: set[str] = set()
    plain: set[str] = {"values", "keys", "items"}
    for module in MODULES:
        for node in ast.walk(compiled_tree(module)):
            if isinstance(node, ast.FunctionDef):
                yields = any(
                    isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(node)
                )
                (found if yields else plain).add(node.name)
    return found - plain


def test_no_membership_is_asked_of_a_generator() -> None:
    """`x in self.ancestors(node)`: compiled generators have no such operation, and the span is lost."""
    names = generators()
    assert "ancestors" in names
    assert [
        f"{module}:{node.lineno}"
        for module in MODULES
        for node in ast.walk(compiled_tree(module))
        if isinstance(node, ast.Compare) and isinstance(node.ops[-1], ast.In | ast.NotIn)
        for side in node.comparators
        if isinstance(side, ast.Call) and ast.unparse(side.func).rpartition(".")[2] in names
    ] == []


def interpreted_subclasses() -> Iterator[str]:
    """Classes of plain modules below a class of a compiled one: they cannot be made in the compiled build."""
    hot = {
        (".".join(module.relative_to(ROOT).with_suffix("").parts), node.name)
        for module in MODULES
        for node in compiled_tree(module).body
        if isinstance(node, ast.ClassDef) and not is_plain(node)
    }
    for module in sorted({*modules()} - {*MODULES}):
        told = [each for body in statements(tree_of(module)) for each in body]
        imported = {
            name.asname or name.name: (node.module, name.name)
            for node in told
            if isinstance(node, ast.ImportFrom)
            for name in node.names
        }
        for node in (each for each in told if isinstance(each, ast.ClassDef)):
            bases = {ast.unparse(base).split("[")[0] for base in node.bases}
            if any(imported.get(base) in hot for base in bases):
                yield f"{module.relative_to(ROOT)}: {node.name}"


def is_plain(node: ast.ClassDef) -> bool:
    """True for a class that says of itself that plain ones may stand below it, or is none of the compiler's."""
    return any("allow_interpreted" in ast.unparse(each) for each in node.decorator_list) or any(
        ast.unparse(base).endswith(("NamedTuple", "Protocol", "Error", "Exception", "Enum"))
        for base in node.bases
    )


def test_no_plain_class_stands_below_a_compiled_one() -> None:
    """Whatever inherits from a compiled class is compiled: the compiled build has every judgement that a spec asks for."""
    assert list(interpreted_subclasses()) == []


def test_every_compiled_module_is_there() -> None:
    """The list of compiled modules names files."""
    assert [str(each) for each in MODULES if not each.exists()] == []
