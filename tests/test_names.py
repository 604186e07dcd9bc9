"""One name, one thing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("collector", "harness", "judges", "monitor", "offrails_guard", "guard")
SETTINGS: Final = "collector.config.settings"

PARTICIPLE: Final = re.compile(r"[A-Z][a-z]*(ed|ing)")
"""One word that says what was done, and not to what."""

IRREGULAR: Final = re.compile(
    r"Begun|Bound|Caught|Cut|Done|Drawn|Fed|Forgotten|Found|Frozen|Given|Gone|Held|Hidden|Kept|Known"
    r"|Laid|Learnt|Left|Lost|Made|Met|Overdue|Paid|Put|Read|Said|Seen|Sent|Set|Shown|Spent|Split"
    r"|Spoken|Sworn|Taken|Taught|Thrown|Told|Understood|Unheard|Unknown|Unseen|Unsent|Unwritten"
    r"|Withdrawn|Written"
)

ADJECTIVES: Final = re.compile(
    r"Alike|Bare|Due|Early|Fresh|Late|Loose|Malformed|More|Open|Outside|Own|Partial|Past|Possible"
    r"|Present|Ready|Short|Strict|Sure|Unclear|Unique|Whole|Young"
)

NOUNS: Final = frozenset(
    {
        "Accounting",
        "Beginning",
        "Finding",
        "Reading",
        "Recording",
        "Setting",
        "String",
        "Timing",
    }
)
"""What ends as participles do, and is a thing of that name."""


def classes() -> Iterator[tuple[str, str, ast.ClassDef]]:
    """Module, name and definition of each public class."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    yield module, node.name, node


def test_no_public_class_name_stands_for_two_things() -> None:
    """A reader who searches for a class finds one: no public class name comes twice."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module, name, _ in classes():
        homes[name].append(module)
    assert len(homes) > 400, "the packages are found"
    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


def is_bare(name: str) -> bool:
    """Whether a name is a participle or an adjective alone, which leaves out what is meant."""
    return name not in NOUNS and any(
        each.fullmatch(name) for each in (PARTICIPLE, IRREGULAR, ADJECTIVES)
    )


def test_no_class_is_named_by_a_participle_alone() -> None:
    """A class's name says what the thing is: it is a noun, not only what was done to it."""
    assert is_bare("Settled")
    assert is_bare("Forgotten")
    assert is_bare("Unseen")
    assert not is_bare("SettledTrace")
    assert not is_bare("Finding")
    assert [f"{module}.{name}" for module, name, _ in classes() if is_bare(name)] == []


def test_classes_of_settings_end_in_settings() -> None:
    """A section of the settings is told from what it sets: its class ends in `Settings`."""
    sections = [
        name
        for module, name, node in classes()
        if f"{module}.".startswith(f"{SETTINGS}.")
        and any(_is_section(ast.unparse(base)) for base in node.bases)
    ]
    assert len(sections) > 20, "the sections are found"
    assert [name for name in sections if not name.endswith("Settings")] == []


def _is_section(base: str) -> bool:
    """Whether a class with this base is a section: all are, but errors and plain records."""
    return not base.endswith(("Exception", "Error", "NamedTuple", "Enum"))


METHODS_MAX: Final = 40
"""Methods of a class: more are two classes."""
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)

POSITIONAL_MAX: Final = 12
"""Arguments that a caller may give by their places: of more, nobody knows which is which."""

IN_ORDER: Final = {
    "collector.decode.protobuf.scan._span": "C calls it, for each span: names would cost more than the span",
    "collector.decode.span.Span.__init__": "made for each span",
    "collector.dialects.read.SpanReading.__init__": "made for each span of a call",
    "monitor.records.ToolCall.__init__": "made for each call, and again as more is known of it",
}
"""Functions that take more, and why.

What Python hands a class by name goes through a dictionary: that takes four times as long as making the record.
"""

MADE_IN_ORDER: Final = {
    ("collector.calls.call.call", "ToolCall"),
    ("collector.decode.json.otlp_json", "Span"),
    ("collector.decode.protobuf.otlp_proto", "Span"),
    ("collector.decode.protobuf.scan", "Span"),
    ("collector.dialects.read", "SpanReading"),
}
"""Where they are called by place: on the way of each span. All else gives names."""

FACE_MAX: Final = 32
"""Methods of `Monitor`: who embeds it learns few. All else stands on objects beside it."""


def sizes() -> Iterator[tuple[str, int]]:
    """Each class by its full name, with the number of methods that it defines."""
    for module, name, node in classes():
        yield f"{module}.{name}", sum(isinstance(each, _FUNCTIONS) for each in node.body)


def test_no_class_has_more_methods_than_fit_a_page() -> None:
    """A class is one thing: it defines 40 methods at the most."""
    large = {name: count for name, count in sizes() if count > METHODS_MAX}

    assert large == {}


def functions() -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Each function by its full name; a constructor is one."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                for each in ast.iter_child_nodes(node):
                    if isinstance(each, _FUNCTIONS):
                        within = f".{node.name}" if isinstance(node, ast.ClassDef) else ""
                        yield f"{module}{within}.{each.name}", each


def test_no_function_takes_more_arguments_by_place_than_one_keeps_in_mind() -> None:
    """A function or constructor takes 12 arguments by their places at the most: others have names, or are a record."""
    over = {name for name, node in functions() if len(_by_place(node)) > POSITIONAL_MAX}

    assert over == IN_ORDER.keys()


def _by_place(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    """The parameters that callers may give by their places."""
    found = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
    return [name for name in found if name not in ("self", "cls")]


def test_no_data_class_is_made_of_more_values_by_place_than_one_keeps_in_mind() -> None:
    """A data class of more than 12 fields takes each by its name."""
    over = {
        f"{module}.{name}"
        for module, name, node in classes()
        if len(_fields(node)) > POSITIONAL_MAX
        for decorator in map(ast.unparse, node.decorator_list)
        if "dataclass" in decorator and "kw_only=True" not in decorator
    }

    assert over == set()


def _fields(node: ast.ClassDef) -> list[ast.AnnAssign]:
    return [each for each in node.body if isinstance(each, ast.AnnAssign)]


def test_no_call_gives_more_values_by_place_than_one_keeps_in_mind() -> None:
    """No call gives more than 12 arguments by their places, named tuples included, but on the way of each span."""
    over = {
        (".".join(path.relative_to(ROOT).with_suffix("").parts), ast.unparse(node.func))
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and len(node.args) > POSITIONAL_MAX
    }

    assert over == MADE_IN_ORDER


def test_the_face_of_the_library_is_small() -> None:
    """Who embeds a monitor learns few methods."""
    [monitor] = [count for name, count in sizes() if name == "monitor.engine.Monitor"]

    assert monitor <= FACE_MAX
