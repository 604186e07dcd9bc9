"""Rollouts leave in PrefixGuard's form and come back as runs that other verbs read; published automata come in as specs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main as offrails
from harness.cli.program import main
from tests.harness.conftest import LAB, Bench

SHARED_CORE = Path(__file__).parents[2] / ".." / "shared" / "core" / "all_worlds_dataset.json"


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_rollouts_leave_as_trajectories(bench: Bench) -> None:
    """Each rollout with a call is a trajectory: its outcome, its cause as a bucket, and a step a call with what it returned."""
    out, file = bench.out(), bench.folder / "lines.jsonl"
    found = bench.run("mailbox", "--agent", "injected", out=out)
    assert main(["export", "--form", "prefixguard", str(out), "--out", str(file)]) == 0
    lines = lines_of(file)
    assert [each["task_id"] for each in lines] == [each["task"] for each in found]
    for rollout, line in zip(found, lines, strict=True):
        assert line["final_success"] == rollout["success"]
        assert line["failure_bucket"] == "reasoning_deficit/obeyed_injection"
        assert [each["tool_name"] for each in line["steps"]] == [
            each["tool"] for each in rollout["path"]
        ]
        assert all(isinstance(each["tool_args"], dict) for each in line["steps"])
        contexts = [each["context"] for each in line["steps"]]
        assert contexts == ["", *(each["result_text"] for each in line["steps"][:-1])]
    assert "The rent of 700" in json.dumps(lines)


def test_trajectories_come_back_as_runs(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was exported and imported again is judged by `replay` and `check --runs` as the rollout was."""
    out, file, folder = bench.out(), bench.folder / "lines.jsonl", bench.folder / "runs"
    [found] = bench.run("shop/buy_tea", "--agent", "faulty:0.6", "--seed", "2", out=out)
    assert found["harmful"]
    assert main(["export", "--form", "prefixguard", str(out), "--out", str(file)]) == 0
    assert main(["import", "--form", "prefixguard", str(file), "--out", str(folder)]) == 0
    [run] = lines_of(folder / "runs.jsonl")
    assert (run["task"], run["success"], len(run["calls"])) == (
        "shop/buy_tea", found["success"], found["calls"],
    )  # fmt: skip
    run["spec"] = "shop_buy_tea"
    again = folder / "again.jsonl"
    again.write_text(json.dumps(run) + "\n")
    capsys.readouterr()
    specs = str(Path(__file__).parents[2] / "harness/worlds/shop/buy_tea.spec.yaml")
    assert offrails(["replay", str(again), "--specs", specs, "--json"]) == 0
    judged = json.loads(capsys.readouterr().out)
    assert (judged["harmful"], judged["pc"]) == (found["harmful"], found["pc"])


def test_rollouts_without_a_call_are_left_out_and_said(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """The form has no trajectory without a step: such rollouts are left out, and counted."""
    out, file = bench.out(), bench.folder / "lines.jsonl"
    bench.run("shop", "--agent", bench.script([{"say": "no"}]), out=out)
    assert main(["export", "--form", "prefixguard", str(out), "--out", str(file)]) == 0
    assert file.read_text() == ""
    assert "5 rollouts without a call" in capsys.readouterr().err


def test_a_run_without_spans_is_not_a_run_without_calls(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Calls are in the spans: where their file is gone, `export` says so, and does not write an empty file."""
    out, file = bench.out(), bench.folder / "lines.jsonl"
    bench.run("shop/buy_tea", "--agent", "golden", out=out)
    (out / "spans.otlp.jsonl").unlink()
    assert main(["export", "--form", "prefixguard", str(out), "--out", str(file)]) == 2
    assert "spans.otlp.jsonl: No such file" in capsys.readouterr().err
    assert not file.exists()


def test_a_call_that_failed_without_a_word_leaves_as_failed(bench: Bench) -> None:
    """A tool's error may be an empty text: the step is an error all the same."""
    folder = bench.folder / "lab"
    shutil.copytree(LAB, folder, ignore=shutil.ignore_patterns("__*"))
    module = folder / "lab.py"
    refusal = (
        "\n\n@world.tool()\ndef refuse(state: dict[str, Any]) -> str:\n    raise ToolError\n"
    )
    module.write_text(module.read_text() + refusal)
    out, file = bench.out(), bench.folder / "lines.jsonl"
    script = bench.script([{"tool": "refuse"}, {"say": "Done."}])
    bench.run(str(folder), "--agent", script, out=out)
    assert main(["export", "--form", "prefixguard", str(out), "--out", str(file)]) == 0
    [line] = lines_of(file)
    assert [each["status"] for each in line["steps"]] == ["error"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", ":1: "),
        ("[]", ":1: expected a trajectory"),
        ('{"final_success": true, "steps": []}', ":1: expected task_id"),
        ('{"task_id": "a", "final_success": 1, "steps": []}', ":1: expected final_success"),
        ('{"task_id": "a", "final_success": true, "steps": [1]}', ":1: expected steps"),
    ],
)
def test_a_line_that_is_no_trajectory_is_named(
    line: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line that cannot be read ends the import with exit code 2, its file and its number."""
    file = tmp_path / "lines.jsonl"
    file.write_text(line + "\n")
    out = ["--out", str(tmp_path / "runs")]
    assert main(["import", "--form", "prefixguard", str(file), *out]) == 2
    assert f"{file}{says}" in capsys.readouterr().err


def test_steps_without_a_tool_are_left_out_and_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Steps that only say something are no calls; failed ones keep that they failed."""
    steps = [
        {"context": "", "action_text": "thinks", "tool_name": None},
        {"context": "", "action_text": "look()", "tool_name": "look", "status": "failed"},
    ]
    file = tmp_path / "lines.jsonl"
    file.write_text(json.dumps({"task_id": "a", "final_success": False, "steps": steps}))
    assert main(["import", "--form", "prefixguard", str(file), "--out", str(tmp_path)]) == 0
    [run] = lines_of(tmp_path / "runs.jsonl")
    assert [(each["name"], each["status"]) for each in run["calls"]] == [("look", "error")]
    assert "1 steps name no tool" in capsys.readouterr().err


@pytest.mark.skipif(
    not SHARED_CORE.exists(), reason="CORE's data set is not here: ../shared/core"
)
def test_published_automata_come_in_as_specs(tmp_path: Path) -> None:
    """`import core` writes a spec for each published task that can be repaired."""
    main(["import", "core", str(SHARED_CORE), "--out", str(tmp_path)])
    assert len([*tmp_path.rglob("*.yaml")]) > 80


@pytest.mark.parametrize("what", [[], ["gaia"], ["core"], ["core", "/nowhere.json"]])
def test_an_import_of_nothing_known_is_usage(what: list[str], tmp_path: Path) -> None:
    """A source that there is not, or no file, ends with exit code 2."""
    assert main(["import", *what, "--out", str(tmp_path)]) == 2


def test_a_file_beside_a_benchmark_is_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """AgentDojo's tasks come from its package: a file that would not be read is refused."""
    assert main(["import", "agentdojo", __file__, "--out", str(tmp_path)]) == 2
    assert f"expected no file, found {__file__}" in capsys.readouterr().err


def test_a_log_of_inspect_without_inspect_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without its extra a log of Inspect is refused with the command that installs it."""
    import sys

    for name in ("inspect_ai", "inspect_ai.log"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "collector.sdk.inspect_log", raising=False)
    file = tmp_path / "x.eval"
    file.write_bytes(b"")
    specs = str(Path(__file__).parents[2] / "dfa_specs/farm_rover.yaml")
    assert offrails(["replay", str(file), "--specs", specs]) == 1
    assert "pip install 'offrails[inspect]'" in capsys.readouterr().err
