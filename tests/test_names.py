"""One name, one thing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from typing import Final, NamedTuple

from tests.product import ROOT, modules, tree_of

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


class Class(NamedTuple):
    """What the tests ask about a class; its nodes would be a million objects to keep."""

    module: str
    name: str
    bases: Sequence[str]
    decorators: Sequence[str]
    methods: int
    fields: int

    @property
    def full_name(self) -> str:
        return f"{self.module}.{self.name}"


class Names(NamedTuple):
    """What the packages have, read once for all tests."""

    classes: list[Class]
    """All public ones."""
    functions: dict[str, int]
    """Each function by its full name, with the arguments that callers may give by their places; a constructor is one."""
    calls: set[tuple[str, str]]
    """Module and function of the calls that give more than 12 arguments by their places."""


@cache
def names() -> Names:
    found = Names([], {}, set())
    for path in modules():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for node in ast.walk(tree_of(path)):
            _add(found, module, node)
    return found


def _add(found: Names, module: str, node: ast.AST) -> None:
    if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
        found.classes.append(
            Class(
                module=module,
                name=node.name,
                bases=[ast.unparse(each) for each in node.bases],
                decorators=[ast.unparse(each) for each in node.decorator_list],
                methods=sum(isinstance(each, _FUNCTIONS) for each in node.body),
                fields=sum(isinstance(each, ast.AnnAssign) for each in node.body),
            )
        )
    if isinstance(node, ast.Call) and len(node.args) > POSITIONAL_MAX:
        found.calls.add((module, ast.unparse(node.func)))
    if not isinstance(node, ast.stmt | ast.Module | ast.excepthandler | ast.match_case):
        return  # it holds no function
    within = f".{node.name}" if isinstance(node, ast.ClassDef) else ""
    for each in ast.iter_child_nodes(node):
        if isinstance(each, _FUNCTIONS):
            name = f"{module}{within}.{each.name}"
            found.functions[name] = max(found.functions.get(name, 0), _by_place(each))


def _by_place(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The number of parameters that callers may give by their places."""
    given = [each.arg for each in (*node.args.posonlyargs, *node.args.args)]
    return sum(name not in ("self", "cls") for name in given)


def test_no_public_class_name_stands_for_two_things() -> None:
    """A reader who searches for a class finds one: no public class name comes twice."""
    homes: dict[str, list[str]] = defaultdict(list)
    for each in names().classes:
        homes[each.name].append(each.module)
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
    assert [each.full_name for each in names().classes if is_bare(each.name)] == []


def test_classes_of_settings_end_in_settings() -> None:
    """A section of the settings is told from what it sets: its class ends in `Settings`."""
    sections = [
        each.name
        for each in names().classes
        if f"{each.module}.".startswith(f"{SETTINGS}.") and any(map(_is_section, each.bases))
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


def test_no_class_has_more_methods_than_fit_a_page() -> None:
    """A class is one thing: it defines 40 methods at the most."""
    large = {e.full_name: e.methods for e in names().classes if e.methods > METHODS_MAX}

    assert large == {}


def test_no_function_takes_more_arguments_by_place_than_one_keeps_in_mind() -> None:
    """A function or constructor takes 12 arguments by their places at the most: others have names, or are a record."""
    over = {name for name, count in names().functions.items() if count > POSITIONAL_MAX}

    assert over == IN_ORDER.keys()


def test_no_data_class_is_made_of_more_values_by_place_than_one_keeps_in_mind() -> None:
    """A data class of more than 12 fields takes each by its name."""
    over = {
        each.full_name
        for each in names().classes
        if each.fields > POSITIONAL_MAX
        for decorator in each.decorators
        if "dataclass" in decorator and "kw_only=True" not in decorator
    }

    assert over == set()


def test_no_call_gives_more_values_by_place_than_one_keeps_in_mind() -> None:
    """No call gives more than 12 arguments by their places, named tuples included, but on the way of each span."""
    assert names().calls == MADE_IN_ORDER


def test_the_face_of_the_library_is_small() -> None:
    """Who embeds a monitor learns few methods."""
    [monitor] = [each for each in names().classes if each.full_name == "monitor.engine.Monitor"]

    assert monitor.methods <= FACE_MAX
