"""`offrails judge DIR` reads what lies in a folder: recordings, and traces and trajectories of benchmarks."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main
from tests.collector.transcripts.test_transcript import trail
from tests.judges.test_turns import RUN, TRAJECTORY

RIGHT = {"run": "plain", "agent": "a", "calls": [{"tool": "open", "arguments": {}}]}
ANNOTATION = {"trace_id": "7", "errors": [{"category": "Tool-related", "location": "c" * 16}]}
FAILURES = {"trajectory_id": "t", "failures": [{"failure_category": "x", "step_number": 3}]}
EXPECTED = {"run": "plain", "sessions": [{"session": "plain", "calls": []}]}


def prompted(capsys: pytest.CaptureFixture[str], folder: Path) -> list[str]:
    """Sessions whose prompts a dry run prints."""
    assert main(["judge", str(folder), "--judges", "TC", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    return [line.split()[1] for line in lines if line.endswith("/ TC: user")]


@pytest.mark.parametrize(
    ("document", "session"),
    [(trail(), f"{7:032x}"), (RUN, "q"), (TRAJECTORY, "t"), (RIGHT, "plain")],
    ids=["TRAIL", "Who&When", "AgentRx", "plain"],
)
def test_a_folder_of_documents_is_read(
    document: Any, session: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each form is read as a file of its own, in a list, and packed; annotations and other results beside it are left out."""
    (tmp_path / "one.json").write_text(json.dumps(document, indent=1))
    (tmp_path / "two.json").write_text(json.dumps([document]))
    (tmp_path / "three.json.gz").write_bytes(gzip.compress(json.dumps(document).encode()))
    for name, other in (("a", ANNOTATION), ("f", FAILURES), ("e", EXPECTED)):
        (tmp_path / f"{name}.json").write_text(json.dumps(other))
    assert prompted(capsys, tmp_path) == [session] * 3


def test_traces_in_trails_form_may_be_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A data set exported as a trace a line is as good as a folder of files."""
    traces = [{**trail(), "trace_id": f"{number:032x}"} for number in (1, 2)]
    text = "".join(
        json.dumps(trace).replace(f"{7:032x}", str(trace["trace_id"])) + "\n"
        for trace in traces
    )
    (tmp_path / "traces.jsonl").write_text(text)
    assert prompted(capsys, tmp_path) == [f"{1:032x}", f"{2:032x}"]


def test_a_recording_without_a_session_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody takes a run in which nothing was judged for one in which all went well."""
    (tmp_path / "none.jsonl").write_text('{"resourceSpans": []}\n')
    assert prompted(capsys, tmp_path) == []
    assert main(["judge", str(tmp_path), "--dry-run"]) == 0
    assert "no session to judge" in capsys.readouterr().err
