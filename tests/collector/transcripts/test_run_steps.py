"""Plain runs as transcripts: all that a run has of its user stands where it was said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collector.offline.judge.session_material import material_of
from collector.offline.progress_bar import Progress

CALLS: list[dict[str, Any]] = [
    {"user": "cancel 7"},
    {"name": "find", "arguments": {"id": 7}, "result": "found"},
    {"user": "no, 8"},
    {"user": "please"},
    {"name": "cancel", "arguments": {"id": 8}, "error": "gone"},
    {"user": "thanks"},
]


def steps(tmp_path: Path, **run: Any) -> list[tuple[str, str]]:
    """(role or tool, text or result) of each step of a run."""
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"run": "r", "agent": "a", **run}))
    [found] = material_of(file, (), Progress([file]))
    return [
        (step.name, (step.result or "") if step.is_call else step.text) for step in found.steps
    ]


@pytest.mark.parametrize("prompt", ["cancel 7", ""])
def test_what_the_user_said_stands_where_it_was_said(prompt: str, tmp_path: Path) -> None:
    """Before, between and behind the calls; a prompt that is among it is not repeated."""
    assert steps(tmp_path, calls=CALLS, prompt=prompt, output="bye") == [
        ("user", "cancel 7"),
        ("find", "found"),
        ("user", "no, 8"),
        ("user", "please"),
        ("cancel", ""),
        ("user", "thanks"),
        ("assistant", "bye"),
    ]


def test_a_run_without_calls_has_what_was_said(tmp_path: Path) -> None:
    """An agent that only talked is judged by its words."""
    assert steps(tmp_path, calls=[{"user": "hello"}], prompt="be brief", output="hi") == [
        ("user", "be brief"),
        ("user", "hello"),
        ("assistant", "hi"),
    ]
