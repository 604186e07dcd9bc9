"""The docstring of an attribute says what the attribute is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from tests.product import ROOT, modules, statements, tree_of

FRAGMENTS: Final = re.compile(
    r"(As|At|Behind|Beside|Beyond|By|Comes?|During|For|From|In|It|Its|Of|So|Such|Their|Those|To|Under|Where"
    r"|With|Within|Without)\b"
)
"""First words of a phrase whose noun is missing: "Of a frame" are bytes, a number, or flags."""


def attributes(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and docstring of each attribute that has one."""
    for body in statements(tree):
        for before, after in pairwise(body):
            match before, after:
                case (
                    ast.Assign() | ast.AnnAssign(),
                    ast.Expr(value=ast.Constant(value=str(text)), lineno=line),
                ):
                    yield line, text


def test_no_docstring_of_an_attribute_begins_without_its_noun() -> None:
    """It begins with what the attribute is ("Bytes of a frame"), not with a phrase about it ("Of a frame")."""
    found = {}
    for module in modules():
        for line, text in attributes(tree_of(module)):
            found[f"{module.relative_to(ROOT)}:{line}"] = text
    assert len(found) > 2_000
    assert not {place: text for place, text in found.items() if FRAGMENTS.match(text)}
