"""What a run leaves is read by the other verbs: its folder as recordings, its rollouts as labels."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from collector.cli.main import main as offrails
from harness.cli.program import main
from tests.harness.conftest import Bench
from tests.harness.test_live import specs_of


@pytest.fixture
def run(bench: Bench, tmp_path: Path) -> tuple[Path, list[dict[str, Any]], Path]:
    """The folder of a run in the shop, its rollouts, and a folder with its specs."""
    out = bench.out()
    rollouts = bench.run("shop", "--agent", "faulty:0.3,early_stop", "--n", "3", out=out)
    return out, rollouts, specs_of("shop", tmp_path / "specs")


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_run_is_replayed_by_its_folder(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`replay` of the folder of a run judges each session as the run did."""
    out, rollouts, specs = run
    capsys.readouterr()
    assert offrails(["replay", str(out), "--specs", str(specs), "--json"]) == 0
    found = {each["session"]: each["harm_rate"] for each in lines(capsys)}
    assert found == {each["session"]: each["harm_rate"] for each in rollouts if each["calls"]}


def test_a_run_is_held_against_an_old_spec(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """`replay --against` names the sessions of a run that another version of its specs judges otherwise, and no others."""
    out, rollouts, specs = run
    old = specs.parent / "old"
    old.mkdir()
    for file in specs.iterdir():
        spec = yaml.safe_load(file.read_text())
        if spec["id"] == "shop_buy_tea":
            spec["alphabet"]["add"] = {"tool": "add_later"}
        (old / file.name).write_text(yaml.safe_dump(spec))
    capsys.readouterr()
    options = ("--specs", str(specs), "--against", str(old), "--json")
    assert offrails(["replay", str(out), *options]) == 0
    told = capsys.readouterr().out
    added = [
        each for each in rollouts if "add_to_cart" in {step["tool"] for step in each["path"]}
    ]
    wanted = {each["session"] for each in added if each["task"] == "shop/buy_tea"}
    assert wanted
    assert {each["session"] for each in rollouts if each["session"] in told} == wanted


def test_a_run_checks_its_specs(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check --runs` reads the folder of a run: of each spec it tells how many rollouts did harm."""
    out, specs = bench.out(), specs_of("shop", tmp_path / "specs")
    rollouts = bench.run("shop", "--agent", "faulty:0.4", "--n", "3", out=out)
    capsys.readouterr()
    offrails(["check", str(specs), "--runs", str(out)])
    told = capsys.readouterr().out
    harmed = Counter(each["task"] for each in rollouts if each["harmful"])
    assert harmed
    for task, count in harmed.items():
        assert f"{task.replace('/', '_')}: rejects {count} of 3 runs" in told


def test_a_run_is_learnt_from_with_its_rollouts_as_labels(
    run: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """`learn` takes `rollouts.jsonl` for labels, whatever agents have said: successes are usual runs, the others failed."""
    out, rollouts, specs = run
    labels = out / "rollouts.jsonl"
    last = {**rollouts[-1], "answer": "one line\u2028another\x85and one"}
    text = [*labels.read_text().split("\n")[:-2], json.dumps(last, ensure_ascii=False), ""]
    labels.write_text("\n".join(text))
    reference = specs.parent / "reference.yaml"
    options = ("--id", "shop", "--labels", str(labels), "--out", str(reference))
    capsys.readouterr()
    assert offrails(["learn", str(out), *options]) == 0
    made = [each["success"] for each in rollouts if each["calls"]]
    assert (
        f"learnt from {made.count(True)} runs and {made.count(False)} that failed"
        in capsys.readouterr().out
    )


def test_a_folder_without_tasks_is_no_task(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of results that is called like a world does not hide it; any other folder without tasks is named."""
    monkeypatch.chdir(bench.folder)
    for _ in range(2):
        bench.run("shop/buy_tea", "--agent", "golden", out=Path("shop"))
    assert len(bench.run("shop", "--agent", "golden")) == 5
    Path("empty").mkdir()
    for verb in (["check"], ["run", "--agent", "golden", "--out", "out"]):
        assert main([verb[0], "empty", *verb[1:]]) == 2
        assert "empty: no task document in this folder" in capsys.readouterr().err
