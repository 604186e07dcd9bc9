"""Messages about the first minutes after a start, when sessions may be older than the process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collector.cli.main import main
from collector.config.first_minutes import first_minutes, until

SECOND = 1_000_000_000


def test_it_says_until_when_and_what_turns_it_off() -> None:
    """The message says until when sessions may be older than the process, and which setting ends that."""
    said = first_minutes("until " + until((1_800_000_000 + 1_800) * SECOND))

    assert "until 2027-01-15T08:30:00Z, a session may have begun before the start" in said
    assert "OFFRAILS_HISTORY=complete" in said
    assert "began before" not in said


def test_init_says_it_beside_the_spec(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The message goes to standard error; standard output has only the spec."""
    runs = tmp_path / "good.jsonl"
    runs.write_text(json.dumps({"run": "r", "calls": [{"name": "login"}]}) + "\n")
    code = main(["init", "--from", str(runs)])
    said = capsys.readouterr()

    assert code == 0
    assert "may have begun before the start" in said.err
    assert "may have begun" not in said.out
