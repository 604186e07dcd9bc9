"""`replay --summary`, and folders of JSON documents: what is counted, and what is read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main
from collector.offline.summary import summarise
from tests.collector.offline.test_plain_runs import DOOR, GUARD, RIGHT

WRONG = RIGHT | {"calls": RIGHT["calls"][1:], "run": "r2"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Specs, and a folder with a run, a list of runs, and settings that are none."""
    specs, runs = tmp_path / "specs", tmp_path / "runs"
    specs.mkdir()
    runs.mkdir()
    (specs / "door.yaml").write_text(DOOR, encoding="utf-8")
    (specs / "guard.yaml").write_text(GUARD, encoding="utf-8")
    (runs / "a.json").write_text(json.dumps(RIGHT, indent=2), encoding="utf-8")
    (runs / "b.json").write_text(
        json.dumps([WRONG, WRONG | {"model": "big"}]), encoding="utf-8"
    )
    (runs / "package.json").write_text('{"name": "agent"}', encoding="utf-8")
    return tmp_path


def test_a_line_per_agent_and_spec(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each mean is told with the number of sessions it is over, and what is defined in none is `-`."""
    code = main(["replay", str(folder / "runs"), "--specs", str(folder / "specs"), "--summary"])
    said = capsys.readouterr()
    lines = [line.replace(" (", "(").split() for line in said.out.splitlines()]

    assert code == 0
    assert lines[0][:6] == ["agent", "spec", "sessions", "calls", "harmful", "HarmRate"]
    found = {tuple(line[:2]): line[2:] for line in lines[1:]}
    assert found["tiny", "door"][:4] == ["2", "3", "1", "0.500(2)"]
    assert found["tiny", "door"][-1] == "1.000(1)"
    assert found["big", "door"][:4] == ["1", "1", "1", "1.000(1)"]
    assert found["big", "door"][-1] == "-"
    assert found["tiny", "guard"] == ["2", "3", "1", *"------"]
    assert said.err.count("left out") == 1
    assert "package.json: left out: no spans and no runs in it" in said.err


def test_a_summary_as_json(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An object per agent and spec has what the line has; undefined means are null over 0 values."""
    asked = ["replay", str(folder / "runs"), "--specs", str(folder / "specs" / "door.yaml")]
    main([*asked, "--summary", "--json"])
    tiny, big = map(json.loads, capsys.readouterr().out.splitlines())

    assert (tiny["agent"], tiny["spec"], tiny["sessions"], tiny["calls"], tiny["harmful"]) == (
        *("tiny", "door"),
        *(2, 3, 1),
    )
    assert tiny["scores"]["harm_rate"] == {"mean": 0.5, "values": 2}
    assert tiny["scores"]["efficiency"] == {"mean": 1.0, "values": 1}
    assert big["scores"]["efficiency"] == {"mean": None, "values": 0}


def test_turns_are_one_session() -> None:
    """Under a spec that judges turns, a session with three turns is one session with all their calls."""
    turn: dict[str, Any] = {
        "agent": "a", "spec": "s", "spec_kind": "policy", "exact": True, "namespace": "",
        "session": "one", "started": 1, "turn": "t", "calls": 2, "harmful": 1,
    }  # fmt: skip
    [found] = summarise([turn, turn, turn | {"session": "two"}, turn | {"turn": None}])

    assert (found.sessions, found.calls, found.harmful) == (3, 8, 4)


def test_a_reference_calls_nothing_harmful(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its harmful calls are undefined, as its scores are: `-` in the table, null in JSON."""
    runs, learnt = folder / "more.jsonl", folder / "usual.yaml"
    lines = (json.dumps(RIGHT | {"run": f"r{n}", "prompt_id": ""}) + "\n" for n in range(3))
    runs.write_text("".join(lines), encoding="utf-8")
    assert main(["learn", str(runs), "--id", "usual", "--out", str(learnt)]) == 0
    capsys.readouterr()
    asked = ["replay", str(runs), "--specs", str(learnt), "--summary"]

    assert main(asked) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:5] == [
        "tiny",
        "usual",
        "3",
        "6",
        "-",
    ]
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["harmful"] is None


@pytest.mark.parametrize("options", [["--by", "agent"], ["--against", "."]])
def test_a_summary_goes_alone(options: list[str], folder: Path) -> None:
    """A summary beside another form of output is a usage error."""
    with pytest.raises(SystemExit) as end:
        main(["replay", str(folder / "runs"), "--summary", *options])
    assert end.value.code == 2


def test_every_verb_reads_a_folder_of_documents(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`learn` and `check --runs` read the runs of the same folder, packed ones too."""
    packed = gzip.compress(json.dumps(RIGHT | {"run": "r4"}).encode())
    (folder / "runs" / "c.json.gz").write_bytes(packed)
    out = folder / "r.yaml"

    assert main(["learn", str(folder / "runs"), "--id", "r", "--out", str(out)]) == 0
    assert "learnt from 4 runs" in capsys.readouterr().out
    code = main(["check", str(folder / "specs" / "door.yaml"), "--runs", str(folder / "runs")])
    assert code == 1, "two of the runs are rejected"
    assert "4 runs" in capsys.readouterr().out


def test_results_that_list_calls_deeper_are_no_runs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file of expectations beside the recordings, with calls inside its sessions, is left out, and the rest is read."""
    found = {"run": "r1", "sessions": [{"session": "r1", "calls": []}]}
    (folder / "runs" / "r1.expected.json").write_text(json.dumps(found), encoding="utf-8")

    assert main(["replay", str(folder / "runs"), "--specs", str(folder / "specs")]) == 0
    assert "r1.expected.json: left out: no spans and no runs in it" in capsys.readouterr().err


def test_a_damaged_document_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A document that begins as a run and ends too early stops the verb, and is named."""
    text = json.dumps(RIGHT)
    (folder / "runs" / "torn.json").write_text(text[: len(text) // 2], encoding="utf-8")

    assert main(["replay", str(folder / "runs"), "--specs", str(folder / "specs")]) == 1
    assert "torn.json: no JSON" in capsys.readouterr().err


def test_a_folder_of_other_documents(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder that holds no recording says what it expects; a folder by the name of a document is none."""
    (tmp_path / "package.json").write_text("{}", encoding="utf-8")
    (tmp_path / "odd.json").mkdir()

    assert main(["replay", str(tmp_path)]) == 1
    assert "in this folder, and no *.json with runs" in capsys.readouterr().err
