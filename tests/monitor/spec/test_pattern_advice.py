"""What a finding says to who wrote a comparison where there is none, or misspelt one."""

from __future__ import annotations

import pytest

from monitor.spec.compiler.compile import compile_text


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("arguments: {x: {form: [look]}}", "did you mean 'from'?"),
        ("arguments: {x: {mni: 5}}", "did you mean 'min'?"),
        ("arguments: {x: {max: price}}", "write {max: {value: price}}"),
        ("arguments: {x: {value: price}}", "or {same_as: NAME}"),
        ("result: {x: {from: [look]}}", "of a result, write fixed values"),
        ("result: {x: {max: {value: price}}}", "of a result, write fixed values"),
    ],
)
def test_what_may_have_been_meant_is_said(condition: str, said: str) -> None:
    """Behind what is wrong, with the line and the key."""
    text = f"id: t\nalphabet:\n  a: {{tool: a, {condition}}}\ngolden: [[a]]\n"
    spec, findings = compile_text(text, "t.yaml")
    assert spec is None
    [found] = findings
    assert said in found.message
    assert (found.code, found.line) == ("invalid_pattern", 3)
    assert found.key.endswith(".x")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("users", "mean 'user'"),
        ("look", "'look' is a symbol"),
        ("look_up_ordr", "mean 'look_up_order'"),
    ],
)
def test_a_source_that_seems_misspelt_is_found(source: str, said: str) -> None:
    """A symbol is no tool; other tools than those of the alphabet may be sources."""
    text = (
        "id: t\nalphabet:\n  look: {tool: look_up_order}\n"
        f"  a: {{tool: a, arguments: {{x: {{from: [{source}, search]}}}}}}\ngolden: [[look, a]]\n"
    )
    spec, _ = compile_text(text, "t.yaml")
    assert spec is not None
    [found] = spec.findings
    assert said in found.message
    assert (found.code, found.line) == ("undeclared_source", 4)
