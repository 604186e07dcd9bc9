"""`check`, `replay` and the log report a setup that looks healthy but judges nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collector.cli.main import main

TASK = """
id: {id}
kind: task
alphabet: {{a: {{tool: a}}}}
golden: [[a]]
"""
MATCH = "match: {service.name: shop}\n"


def spec(folder: Path, name: str, more: str = "") -> str:
    file = folder / f"{name}.yaml"
    file.write_text(TASK.format(id=name) + more)
    return str(file)


def test_check_notes_a_task_without_match(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how sessions come to it; a task with `match` needs no note."""
    bare, matched = spec(tmp_path, "bare"), spec(tmp_path, "matched", MATCH)

    assert main(["check", bare, matched]) == 0

    out = capsys.readouterr().out
    assert f"{bare}: note: no `match`" in out
    assert f"{matched}: note" not in out


def test_check_names_few_and_counts_the_rest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder of imported tasks is not a page of notes."""
    for number in range(9):
        spec(tmp_path, f"task{number}")

    main(["check", str(tmp_path)])

    out = capsys.readouterr().out
    assert out.count("note: no `match`") == 3
    assert "and 6 more tasks without `match`" in out


@pytest.mark.parametrize(("named", "code"), [("bare", 0), ("another", 1)])
def test_replay_that_judges_nothing_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], named: str, code: int
) -> None:
    """Exit code 1 and a sentence; the runs are shown all the same."""
    task = spec(tmp_path, "bare")
    other = spec(tmp_path, "policy", "match: {service.name: nobody}\n")
    runs = tmp_path / "runs.jsonl"
    run = {"id": "one", "calls": [{"tool": "a", "arguments": {}}]}
    runs.write_text(json.dumps(run | ({"spec": named} if named == "bare" else {})) + "\n")

    specs = task if named == "bare" else other
    assert main(["replay", str(runs), "--specs", specs]) == code

    told = capsys.readouterr()
    assert ("no spec judged a run" in told.err) == bool(code)
