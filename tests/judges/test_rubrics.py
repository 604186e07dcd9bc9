"""Rubrics and custom instructions are data: what comes with the package is whole, and yours override it."""

from __future__ import annotations

from pathlib import Path

import pytest

from judges.agreement.categories import CATEGORY_JUDGES
from judges.answer import schema
from judges.instructions import BadInstructionsError, read_instructions
from judges.rubric import BUILT_IN, JUDGES, BadRubricError, load_rubrics


def test_the_eight_judges_are_whole() -> None:
    """Each has a version, three levels and a scope; only judges that the paper measured are validated."""
    found = load_rubrics()
    assert tuple(found) == JUDGES
    assert all(
        each.version and len(each.criteria) == 3 and each.outside for each in found.values()
    )
    assert {each.id for each in found.values() if not each.validated} == {"TQ", "GF"}
    assert {each.id for each in found.values() if each.needs_plan} == {"PA", "PQ"}
    for judge in ("TS", "EE", "PA"):
        assert {"TC", "TS", "EE", "PA"} - {judge} <= {judge, *found[judge].outside} | {
            "PA",
            "TC",
        }


def test_the_categories_of_a_rubric_are_those_of_its_judge() -> None:
    """A judge is offered exactly the categories that labels count for it, so that a finding can meet a label of its own."""
    for judge, rubric in load_rubrics().items():
        own = {category for category, judges in CATEGORY_JUDGES.items() if judge in judges}
        assert set(rubric.categories) == own, judge
        assert len(rubric.categories) == len(own), judge


def test_a_folder_overrides_and_adds(tmp_path: Path) -> None:
    """A rubric of yours with a known id takes its place; one with another id is a further judge."""
    text = (BUILT_IN / "TC.md").read_text()
    (tmp_path / "tc.md").write_text(text.replace('version: "1"', 'version: "mine"'))
    (tmp_path / "new.md").write_text(text.replace("id: TC", "id: POLITE"))
    found = load_rubrics(tmp_path)
    assert found["TC"].version == "mine"
    assert list(found) == [*JUDGES, "POLITE"]


def test_two_files_for_one_judge_are_refused(tmp_path: Path) -> None:
    """Which of two rubrics with one id counts, the reader does not guess."""
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text((BUILT_IN / "TC.md").read_text())
    with pytest.raises(BadRubricError, match="expected one file for TC, found two"):
        load_rubrics(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("---\nid", "id", "front matter"),
        ("id: TC", "id: tc", "id: expected capital letters"),
        ("scale: [0, 3]", "scale: [1, 5]", "scale: expected [0, 3]"),
        ("validated: true", "validated: perhaps", "validated: expected true or false"),
        ("plan: false", "plans: false", "plans: expected one of"),
        ("  1-2: >-", "  2: >-", "criteria: expected a text for each"),
        ("in: [syntax", "in: syntax #", "scope: expected `in`, a list"),
        ("out: {TS", "out: [TS] #", "scope: expected `in`, a list"),
        ('version: "1"', "version: 2026-02-30", "front matter: "),
        ("categories: [", "categories: " + "[" * 5_000, "front matter: "),
        ("You judge", "é" * 60_000, "expected at most 100000 bytes"),
        (
            "output: [evidence, findings",
            "output: [findings, evidence",
            "output: expected fields",
        ),
    ],
)
def test_a_bad_rubric_is_refused_with_its_key(
    old: str, new: str, fault: str, tmp_path: Path
) -> None:
    """The message names the file, the key and what was expected."""
    text = (BUILT_IN / "TC.md").read_text()
    assert old in text
    (tmp_path / "x.md").write_text(text.replace(old, new, 1))
    with pytest.raises(BadRubricError) as caught:
        load_rubrics(tmp_path)
    assert fault in str(caught.value)
    assert "x.md" in str(caught.value)


def test_the_schema_lists_the_steps_up_to_its_bound() -> None:
    """The ids of the steps are an enumeration; none, or too many, are any text."""
    rubric = load_rubrics()["PA"]

    def step(ids: list[str], bound: int) -> object:
        return schema(rubric, ids, bound)["properties"]["findings"]["items"]["properties"][
            "step"
        ]

    assert step(["s1", "s2"], 2) == {"type": "string", "enum": ["s1", "s2"]}
    assert step(["s1", "s2"], 1) == step([], 1) == {"type": "string"}
    assert list(schema(rubric, [])["properties"]) == list(rubric.output)


def test_instructions_reach_the_agents_and_judges_they_are_for(tmp_path: Path) -> None:
    """The head is for all prompts, a section for its agent or its judge alone."""
    file = tmp_path / "custom.md"
    file.write_text(
        "All.\n# Agent: manager\nHands on.\n# Judge: TC\nCheck SQL.\n# Agent: other\nNo.\n"
    )
    found = read_instructions(file)
    assert found.text("TC", {"manager"}) == "All.\n\n## Agent manager\nHands on.\n\nCheck SQL."
    assert found.text("LC", set()) == "All."
    (tmp_path / "plain.md").write_text("Plain.")
    assert read_instructions(tmp_path / "plain.md").text("LC", set()) == "Plain."
    with pytest.raises(BadInstructionsError):
        read_instructions(tmp_path / "none.md")
    (tmp_path / "long.md").write_text("x" + "é" * 60_000)
    with pytest.raises(BadInstructionsError, match="expected at most 100000 bytes"):
        read_instructions(tmp_path / "long.md")
