"""Labels are read in five forms, and what cannot be read is told with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judges.agreement import BadLabelError, ErrorLabel, ScoreLabel, read_labels
from judges.agreement.categories import CATEGORY_JUDGES, NEAREST, judges_of, same_category


def lines(folder: Path, *objects: Any) -> Path:
    """A file of JSON lines."""
    file = folder / "labels.jsonl"
    file.write_text("".join(f"{json.dumps(each)}\n" for each in objects))
    return file


def test_scores_and_errors_stand_in_one_file(tmp_path: Path) -> None:
    """Lines of both forms, in any order, with a step as a number or as its short id."""
    found = read_labels(
        lines(
            tmp_path,
            {"session": "a", "judge": "LC", "score": 2},
            {"session": "a", "step": 3, "judges": ["LC"], "category": None, "impact": "HIGH"},
            {"session": "b", "step": "s4", "category": "Goal Deviation", "what": "left out"},
            {"session": "b", "span_id": "00000000000000AB", "judges": []},
        )
    )
    assert found.scores == [ScoreLabel("a", "LC", 2)]
    assert found.errors == [
        ErrorLabel("a", None, "high", "s3", None, frozenset({"LC"})),
        ErrorLabel("b", "Goal Deviation", None, "s4"),
        ErrorLabel("b", span_id="00000000000000ab", judges=frozenset()),
    ]


def test_annotations_of_trail(tmp_path: Path) -> None:
    """A document a trace; its name is the trace where the document has none, and a folder of them is read whole."""
    error = {
        "category": "Resource Abuse",
        "location": "041b7f9c8f6f6a3f",
        "evidence": "...",
        "description": "...",
        "impact": "MEDIUM",
    }
    (tmp_path / "0035f455b.json").write_text(
        json.dumps({"errors": [error], "scores": [{}]}, indent=4)
    )
    (tmp_path / "x.json").write_text(json.dumps({"trace_id": "named", "errors": []}))
    (tmp_path / "README.md").write_text("no labels")
    assert read_labels(tmp_path).errors == [
        ErrorLabel("0035f455b", "Resource Abuse", "medium", None, "041b7f9c8f6f6a3f")
    ]


def test_annotations_of_agentrx(tmp_path: Path) -> None:
    """A line a trajectory, an error for each failure, at the step as AgentRx numbers it."""
    failures = [
        {"failure_id": "1", "step_number": 4, "failure_category": "Invalid Invocation"},
        {"failure_id": "2", "step_number": "7", "failure_category": "System Failure"},
    ]
    file = lines(
        tmp_path, {"trajectory_id": "t", "failures": failures, "root_cause_failure_id": "1"}
    )
    assert read_labels(file).errors == [
        ErrorLabel("t", "Invalid Invocation", step="s4"),
        ErrorLabel("t", "System Failure", step="s7"),
    ]


def test_annotations_of_who_and_when(tmp_path: Path) -> None:
    """A document a run, its one error at the step as Who&When numbers it, from 0; or a list of documents."""
    run = {"question_ID": "q", "history": [{}], "mistake_agent": "Web", "mistake_step": "0"}
    file = tmp_path / "1.json"
    file.write_text(json.dumps(run))
    assert read_labels(file).errors == [ErrorLabel("q", step="s0")]
    file.write_text(json.dumps([run, {"mistake_step": 12}]))
    assert read_labels(file).errors == [ErrorLabel("q", step="s0"), ErrorLabel("1", step="s12")]


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (
            {"session": "a", "judge": "LC", "score": 4},
            "labels.jsonl:2: score: expected a whole number",
        ),
        ({"session": "a", "judge": "LC", "score": True}, "score: expected"),
        ({"session": "a", "judge": "LC", "score": 1.5}, "score: expected"),
        ({"session": "a", "judge": "LC", "score": None}, "score: expected"),
        ({"session": 7, "judge": "LC", "score": 1}, "session: expected a text, found 7"),
        ({"session": "a", "score": 1}, "judge: expected a text, found None"),
        ({"session": "a", "judge": "LC", "scores": 1}, "expected score, or one of span_id"),
        ({"session": "a", "step": "four"}, "step: expected a number of a step"),
        ({"session": "a", "step": -1}, "step: expected a number of a step"),
        ({"session": "a", "step": 1.5}, "step: expected a number of a step"),
        ({"session": "a", "span_id": "not hex"}, "span_id: expected a span id"),
        (
            {"session": "a", "step": 1, "impact": "severe"},
            "impact: expected one of low, medium, high",
        ),
        ({"session": "a", "judges": "LC"}, "judges: expected a list of judges"),
        ({"trajectory_id": "t", "failures": {}}, "failures: expected a list"),
        ({"trajectory_id": "t", "failures": [1]}, r"failures\[0\]: expected an object"),
        (
            {"trajectory_id": "t", "failures": [{}]},
            r"failures\[0\]: failure_category: expected a text",
        ),
        (
            {"mistake_step": "1", "history": [{}]},
            "mistake_step: expected a turn of the history",
        ),
        ({"mistake_step": "last"}, "mistake_step: expected a number of a step"),
        (["a list"], "expected an object"),
        ({}, "expected score"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, bad: Any, told: str) -> None:
    """File, line, key and what was expected."""
    file = lines(tmp_path, {"session": "z", "step": 1}, bad)
    with pytest.raises(BadLabelError, match=told) as caught:
        read_labels(file)
    assert str(caught.value).startswith(f"{file}:2: ")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (b'{"session": "a", "step": 1}\n{"session": ', "labels.jsonl:2: expected JSON"),
        (b"\xff\xfe", "labels.jsonl: "),
        (b"[" * 100_000, "labels.jsonl:1: expected JSON"),
    ],
)
def test_what_is_no_json_is_told_with_its_place(tmp_path: Path, text: bytes, told: str) -> None:
    """Half a line, bytes that are no text, and nesting without end are the reader's own error, never another."""
    file = tmp_path / "labels.jsonl"
    file.write_bytes(text)
    with pytest.raises(BadLabelError, match=told):
        read_labels(file)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    """A missing file, and a folder without labels, are the reader's own error."""
    with pytest.raises(BadLabelError, match=r"none\.jsonl"):
        read_labels(tmp_path / "none.jsonl")
    with pytest.raises(BadLabelError, match=r"expected files \*\.json"):
        read_labels(tmp_path)


def test_two_scores_of_one_session_are_refused(tmp_path: Path) -> None:
    """A session has one labelled score a judge; which of two counts, the reader does not guess."""
    twice = {"session": "a", "judge": "LC", "score": 1}
    with pytest.raises(BadLabelError, match="'a', judge LC: expected one score, found two"):
        read_labels(lines(tmp_path, twice, {**twice, "score": 2}))


def test_categories_of_agentrx_are_read_as_those_of_findings() -> None:
    """Each nearest category is one that findings have, so that a finding can meet the label."""
    for category, nearest in NEAREST.items():
        assert set(nearest) <= CATEGORY_JUDGES.keys(), category
        assert judges_of(category) == {
            judge for each in nearest for judge in CATEGORY_JUDGES[each]
        }
        assert same_category(category, nearest[0])
    assert not same_category("Resource Abuse", "Goal Deviation")
    assert judges_of("Inconclusive") == frozenset()


def test_the_page_has_the_tables() -> None:
    """Each category stands in docs/judges.md with its judges, or with the categories that it is read as."""
    page = (Path(__file__).parents[3] / "docs" / "judges.md").read_text()
    for category, meaning in {**CATEGORY_JUDGES, **NEAREST}.items():
        assert f"| {category} | {', '.join(meaning)} |" in page
