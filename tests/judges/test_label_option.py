"""`offrails judge --labels` says how the judges do against people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main
from tests.judges.fake_endpoint import FakeAnswer, completion, judged, serving

CATEGORY = "Formatting Errors"


def answer(request: Mapping[str, Any], number: int) -> FakeAnswer:
    """A finding at s3, of a category of the judge."""
    found = json.loads(judged(1, "s3"))
    found["findings"][0]["category"] = CATEGORY
    return completion(json.dumps(found))


@pytest.fixture
def run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One plain run: s1 is what the user said, s2 and s3 are calls."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    calls: list[dict[str, Any]] = [
        {"tool": tool, "arguments": {}, "result": "done"} for tool in ("open", "close")
    ]
    file = tmp_path / "runs.jsonl"
    file.write_text(json.dumps({"run": "one", "agent": "a", "prompt": "go", "calls": calls}))
    return file


def run(file: Path, labels: Path, *options: str) -> int:
    with serving(answer) as endpoint:
        asked = ["judge", str(file), "--endpoint", endpoint.url, "--model", "fake"]
        return main([*asked, "--judges", "TC,LC", "--labels", str(labels), *options])


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    """A score, an error of TC that is at the judges' step, and one of LC that is elsewhere."""
    lines: list[dict[str, Any]] = [
        {"session": "one", "judge": "TC", "score": 2},
        {"session": "one", "step": 3, "judges": ["TC"], "category": CATEGORY, "impact": "high"},
        {"session": "one", "span_id": "0000000000000001", "judges": ["LC"]},
    ]
    file = tmp_path / "labels.jsonl"
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return file


def test_labels_stand_before_the_summary(
    run_file: Path, labels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line of figures, each judge's and those of all, between the records and the summary."""
    assert run(run_file, labels, "--json", "--repeat", "2") == 0
    *records, figures, last = [
        json.loads(line) for line in capsys.readouterr().out.splitlines()
    ]
    assert len(records) == 4
    assert list(figures) == ["labels"]
    assert list(last) == ["summary"]
    assert last["summary"]["TC"]["units"] == 1
    tc, whole = figures["labels"]["TC"], figures["labels"]["all"]
    assert {name: tc["caught"][name] for name in ("tp", "fp", "fn", "tn")} == {
        "tp": 1, "fp": 1, "fn": 0, "tn": 0,
    }  # fmt: skip
    assert tc["localised"]["tn"] == 1
    assert (tc["acc_ob1"], tc["acc_3pt"]) == (1, 1)
    assert (whole["errors"], whole["caught"], whole["localised"]) == (2, 2, 1)


def test_the_table_has_the_same(
    run_file: Path, labels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without `--json`, the figures follow the judgements, with names over the columns."""
    assert run(run_file, labels) == 0
    printed = capsys.readouterr().out
    assert "caught  precision  recall" in printed
    assert "2 (1.0000)" in printed
    assert "1 (0.5000)" in printed


def test_bad_labels_are_told_before_anybody_is_asked(
    run_file: Path, labels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """File, line, key and what was expected, and exit code 2."""
    labels.write_text('{"session": "one", "judge": "TC", "score": 9}')
    with pytest.raises(SystemExit) as ended:
        run(run_file, labels)
    assert ended.value.code == 2
    assert f"{labels}:1: score: expected a whole number from 0 to 3" in capsys.readouterr().err


def test_labels_of_other_sessions_are_told(
    run_file: Path, labels: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A labelled session that was not judged is in no figure, and is not left out in silence."""
    with labels.open("a") as file:
        file.write('{"session": "elsewhere", "judge": "TC", "score": 0}')
    assert run(run_file, labels) == 0
    assert (
        "1 of 2 labelled sessions were not judged, such as 'elsewhere'"
        in capsys.readouterr().err
    )
