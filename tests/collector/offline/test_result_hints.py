"""`check --runs` names rules that ask for results which no run has: `results_not_captured`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main
from collector.offline.good_runs.result_hints import result_switch

ASKED = """id: asked
kind: policy
alphabet:
  approved: {tool: ask, result: {status: approved}}
  ask: {tool: ask}
  delete: {tool: delete}
constraints: [{precedence: [approved, delete]}]
"""
COMPARED = """id: compared
kind: policy
alphabet:
  known: {tool: mail, arguments: {to: {from: [search]}}}
  mail: {tool: mail}
  search: {tool: search}
constraints: [{forbid: mail}]
"""


def told(
    folder: Path, capsys: pytest.CaptureFixture[str], text: str, calls: list[dict[str, Any]]
) -> list[str]:
    spec, runs = folder / "s.yaml", folder / "runs.jsonl"
    spec.write_text(text)
    runs.write_text(json.dumps({"run": "r", "spec": text.split()[1], "calls": calls}) + "\n")
    main(["check", str(spec), "--runs", str(runs)])
    return [line for line in capsys.readouterr().out.splitlines() if "results_not" in line]


@pytest.mark.parametrize(
    ("more", "is_told"),
    [
        ({}, True),
        ({"result": {"status": "no"}}, False),
        ({"result": None}, False),
        ({"error": True}, False),
    ],
)
def test_results_that_no_call_has_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: dict[str, Any], *, is_told: bool
) -> None:
    """A symbol that asks for a result is named where no call has one, and not where one has, or failed."""
    calls = [{"name": "ask", "arguments": {}, **more}, {"name": "delete", "arguments": {}}]
    found = told(tmp_path, capsys, ASKED, calls)
    assert [("no call of ask (1 of 1)" in line) for line in found] == [True] * is_told


@pytest.mark.parametrize(("more", "is_told"), [({}, True), ({"result": "a@b.example"}, False)])
def test_results_that_calls_are_compared_with_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: dict[str, Any], *, is_told: bool
) -> None:
    """A rule on where a value comes from is named where no result of its sources is known."""
    calls = [
        {"name": "search", "arguments": {}, **more},
        {"name": "mail", "arguments": {"to": "a@b.example"}},
    ]
    found = told(tmp_path, capsys, COMPARED, calls)
    assert [("compared with results of search" in line) for line in found] == [True] * is_told


def test_the_setting_is_that_of_results() -> None:
    """What turns results on is named by its own name, by dialect."""
    assert result_switch("openinference") == "OPENINFERENCE_HIDE_OUTPUTS=false"
    assert result_switch("gen_ai") == "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"
    assert result_switch("plain runs") == ""
