"""Trajectories of turns are judged with the step numbers that their annotations have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main
from collector.transcripts.transcript import Transcript
from collector.transcripts.turns import is_turns, turn_steps
from tests.judges.fake_endpoint import FakeAnswer, completion, judged, serving

RUN: dict[str, Any] = {
    "question_ID": "q",
    "history": [
        {"role": "human", "content": "how many?"},
        {"role": "Orchestrator (thought)", "content": "I ask the surfer"},
        {"role": "assistant", "name": "WebSurfer", "content": "it says 7"},
    ],
    "mistake_agent": "WebSurfer",
    "mistake_step": "2",
}
TRAJECTORY: dict[str, Any] = {
    "trajectory_id": "t",
    "instruction": "cancel it",
    "steps": [
        {"index": 1, "substeps": [{"sub_index": 1, "role": "user", "content": "cancel it"}]},
        {
            "index": 3,
            "substeps": [
                {"sub_index": 1, "role": "assistant", "content": "cancel(7)"},
                {"sub_index": 2, "role": "tool", "content": "no such order"},
            ],
        },
    ],
}


def test_turns_of_who_and_when_count_from_zero() -> None:
    """A step a turn, of the one who spoke."""
    session, steps = turn_steps(RUN, "file")
    assert session == "q"
    assert list(Transcript(steps).steps) == ["s0", "s1", "s2"]
    assert [(step.name, step.agent) for step in steps] == [
        ("user", "human"),
        ("assistant", "Orchestrator (thought)"),
        ("assistant", "WebSurfer"),
    ]
    assert turn_steps({**RUN, "question_ID": None}, "file")[0] == "file"


def test_steps_of_agentrx_keep_their_numbers() -> None:
    """A step may have parts, and numbers may have gaps."""
    session, steps = turn_steps(TRAJECTORY, "file")
    assert session == "t"
    assert list(Transcript(steps).steps) == ["s1", "s3"]
    assert steps[1].text == "assistant: cancel(7)\ntool: no such order"


@pytest.mark.parametrize(
    "document",
    [
        {"run": "r", "calls": []},
        {"history": []},
        {"steps": []},
        {"trajectory_id": "t", "failures": []},
        [],
        None,
    ],
)
def test_other_documents_are_left_to_their_readers(document: Any) -> None:
    """Plain runs, annotations alone, and whatever else has a list are no trajectories."""
    assert not is_turns(document)


@pytest.mark.parametrize(
    "steps", [[{"index": 1}, {"index": 1}], ["text"], [None]], ids=["twice", "text", "null"]
)
def test_a_bad_trajectory_is_told(
    steps: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What cannot be used is an error with the file's name, not a crash."""
    file = tmp_path / "t.jsonl"
    file.write_text(json.dumps({"trajectory_id": "t", "steps": steps}))
    assert main(["judge", str(file), "--dry-run", "--judges", "LC"]) == 1
    assert f"{file}: " in capsys.readouterr().err


def cite_last(request: Mapping[str, Any], number: int) -> FakeAnswer:
    """A finding at the last step that is shown."""
    schema = request["response_format"]["json_schema"]["schema"]["properties"]
    last = schema["findings"]["items"]["properties"]["step"]["enum"][-1]
    answer = json.loads(judged(1, last))
    answer["findings"][0]["category"] = "Language-only"
    return completion(json.dumps(answer))


@pytest.mark.parametrize(
    ("documents", "annotations"),
    [
        ([RUN], [RUN]),
        ([TRAJECTORY], [{"trajectory_id": "t", "failures": [{"failure_category": "Invention of New Information", "step_number": 3}]}]),
    ],
    ids=["Who&When", "AgentRx"],
)  # fmt: skip
def test_annotations_meet_findings_on_their_trajectories(
    documents: list[Any],
    annotations: list[Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The annotated step is the step that the judge cites, by the annotation's own number."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    file, labels = tmp_path / "runs.json", tmp_path / "labels.jsonl"
    file.write_text(json.dumps(documents))
    labels.write_text("".join(f"{json.dumps(each)}\n" for each in annotations))
    with serving(cite_last) as endpoint:
        asked = ["judge", str(file), "--endpoint", endpoint.url, "--model", "fake", "--json"]
        assert main([*asked, "--judges", "LC", "--labels", str(labels)]) == 0
    record, figures, _ = map(json.loads, capsys.readouterr().out.splitlines())
    assert record["outcome"] == "scored"
    whole = figures["labels"]["all"]
    assert (whole["errors"], whole["caught"], whole["localised"]) == (1, 1, 1)
