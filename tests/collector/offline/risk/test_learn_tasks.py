"""The verb `learn --risk`: a risk that travels across tasks, as data, and what it tells."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main
from collector.offline.risk import protocol, train_model
from monitor.spec.read import load_spec, load_specs

pytestmark = pytest.mark.skipif(
    not find_spec("sklearn"), reason="scikit-learn is not installed"
)

AGENTS = ("ann", "bob", "cy", "dee")


def run(task: int, agent: str, tools: Sequence[str], *, success: bool, trial: int) -> str:
    calls = [
        {"tool": f"{tool}_{task}", "arguments": {"at": place}}
        for place, tool in enumerate(tools)
    ]
    record = {"run": f"{agent} {task} {trial}", "task_id": f"area/{task}", "agent": agent}
    return json.dumps(record | {"success": success, "calls": calls}) + "\n"


GOOD = ("list", "read", "send")
BAD = ("list", "list", "delete")


@pytest.fixture(scope="module", autouse=True)
def _few_trees() -> Iterator[None]:
    """A third of a model's trees: they tell these runs apart as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_model, "TREES", 20)
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight tasks of four agents with tools of their own: failures repeat a call, then delete."""
    file = tmp_path_factory.mktemp("runs") / "runs.jsonl"
    with file.open("w") as stream:
        for task in range(8):
            for agent in AGENTS:
                for trial in range(6):
                    good = trial < 3
                    stream.write(
                        run(task, agent, GOOD if good else BAD, success=good, trial=trial)
                    )
    return file


@pytest.fixture(scope="module")
def model(runs: Path) -> Path:
    """What is learnt from all tasks but the last one's runs."""
    out = runs.parent / "model"
    options = ["--risk", "--task", "task_id", "--id", "all", "--success", "success=true"]
    assert main(["learn", str(runs), "--out", str(out), *options]) == 0
    return out


def told(capsys: pytest.CaptureFixture[str], runs: Path, model: Path) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["replay", str(runs), "--specs", str(model), "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_runs_are_judged_under_the_reference_of_their_task(
    tmp_path: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A replayed run is bound by its task, a bad one is risky, and the reasons are said in words."""
    file = tmp_path / "new.jsonl"
    file.write_text(
        run(3, "new", GOOD, success=True, trial=0) + run(3, "new", BAD, success=False, trial=1)
    )
    good, bad = told(capsys, file, model)
    assert (good["spec"], bad["spec"]) == ("area/3", "area/3")
    assert good["risk"] < 0.2 < 0.8 < bad["risk"]
    assert 1 <= len(bad["risk_reasons"]) <= 3
    assert bad["steps"][0]["risk"] == good["steps"][0]["risk"]


def test_the_model_names_no_task_and_holds_no_arguments(model: Path) -> None:
    """It is one, as data, in each reference: features that are known, and numbers."""
    specs = load_specs([model])
    learnt = [spec.learnt.model for spec in specs if spec.learnt is not None]
    models = [each for each in learnt if each is not None]
    assert len(list(specs)) == 8
    (shared,) = {each.trees for each in models}
    assert shared
    assert not any(
        tool in name for each in models for name in each.features for tool in ("list_", "area")
    )


def test_the_trees_are_those_of_the_library(runs: Path) -> None:
    """Plain Python computes what scikit-learn does, for every prefix of every run."""
    import math
    import random

    from sklearn.ensemble import HistGradientBoostingClassifier

    from collector.offline.learn import Keys, read_files
    from collector.offline.risk.scored_runs import odds_of
    from collector.offline.risk.task_references import by_task, taught_examples
    from collector.offline.risk.train_model import Weights, train

    fitted = []
    fit = HistGradientBoostingClassifier.fit

    def kept(self: Any, *args: Any, **options: Any) -> Any:
        fitted.append(self)
        return fit(self, *args, **options)

    found = read_files([runs], "success=true", keys=Keys("task_id")).runs
    examples = taught_examples(by_task(found), None, 2, random.Random(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HistGradientBoostingClassifier, "fit", kept)
        model = train("m", examples, Weights(calibrated=False)).model
    vectors = [vector for each in examples for vector in each.vectors]
    expected = fitted[0].predict_proba(vectors)[:, 1]
    for odds, chance in zip(odds_of(model, vectors), expected, strict=True):
        assert 1 / (1 + math.exp(-odds)) == pytest.approx(chance, abs=1e-4)


def test_the_same_runs_teach_the_same_in_any_order(
    runs: Path, tmp_path: Path, model: Path
) -> None:
    """No figure depends on the order of the runs in the file."""
    shuffled = tmp_path / "runs.jsonl"
    shuffled.write_text("".join(reversed(runs.read_text().splitlines(keepends=True))))
    out = tmp_path / "model"
    options = ["--risk", "--task", "task_id", "--id", "all", "--success", "success=true"]
    assert main(["learn", str(shuffled), "--out", str(out), *options]) == 0
    for file in model.iterdir():
        one, other = load_spec(file).learnt, load_spec(out / file.name).learnt
        assert one is not None
        assert other is not None
        assert one.model == other.model


def test_outcomes_are_asked_for_where_none_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without `--success` and `--labels` the outcome is `success`; runs without it are refused by that name."""
    file = tmp_path / "runs.jsonl"
    file.write_text(
        "".join(run(0, "ann", GOOD, success=trial < 3, trial=trial) for trial in range(5))
    )
    options = ["--risk", "--task", "task_id", "--id", "all"]
    assert main(["learn", str(file), "--out", str(tmp_path / "model"), *options]) == 0
    (spec,) = load_specs([tmp_path / "model"]).specs
    assert spec.learnt is not None
    assert (spec.learnt.runs, spec.learnt.failures) == (3, 2)

    file.write_text(file.read_text().replace('"success"', '"good"'))
    assert main(["learn", str(file), "--out", str(tmp_path / "other"), *options]) == 1
    assert "no run has the attribute 'success'" in capsys.readouterr().err


def test_too_few_failures_teach_no_risk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without failures there is no risk of other tasks, which is said; references there are."""
    file = tmp_path / "runs.jsonl"
    file.write_text(
        "".join(
            run(task, agent, GOOD, success=True, trial=0)
            for task in range(8)
            for agent in AGENTS
        )
    )
    options = ["--risk", "--task", "task_id", "--id", "all", "--success", "success=true"]
    assert main(["learn", str(file), "--out", str(tmp_path / "model"), *options]) == 0
    assert "no risk is learnt: 0 failed runs" in capsys.readouterr().out
    assert all(
        spec.learnt and spec.learnt.model is None for spec in load_specs([tmp_path / "model"])
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--task", "nowhere", "--success", "success=true"],
            "no run has a task under 'nowhere'",
        ),
        (
            ["--task", "task_id", "--success", "reward=1"],
            "no run has the attribute 'reward'",
        ),
    ],
)
def test_what_cannot_be_learnt_from_is_said(
    runs: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    """Runs without tasks or the outcomes that are named are refused, with what is missing."""
    out = ["--out", str(tmp_path / "model"), "--id", "all"]
    assert main(["learn", str(runs), "--risk", *out, *options]) == 1
    assert message in capsys.readouterr().err


def test_failed_runs_alone_teach_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said what is missing, and no table of figures that are none is printed."""
    file = tmp_path / "runs.jsonl"
    run = {"task": "book", "success": False, "calls": [{"tool": "list"}]}
    file.write_text("".join(json.dumps({**run, "run": n, "agent": n}) + "\n" for n in "abcd"))
    assert main(["learn", str(file), "--risk", "--id", "r", "--out", str(tmp_path / "m")]) == 0
    said = capsys.readouterr().out
    assert "no risk is learnt: no task has three successes to refer to" in said
    assert main(["learn", str(file), "--evaluate"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "nothing can be measured" in line


@pytest.mark.parametrize(
    ("task", "why"), [("book " * 50, "at most 200 characters"), ("book\nnow", "pattern")]
)
def test_a_task_that_no_reference_can_be_named_by_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], task: str, why: str
) -> None:
    """A prompt in place of a name is said before anything is learnt, and no file is written that no verb loads."""
    record = {"run": "1", "job": task, "success": True, "calls": [{"tool": "list"}]}
    file, out = tmp_path / "runs.jsonl", tmp_path / "model"
    file.write_text(json.dumps(record) + "\n")
    options = ["--risk", "--task", "job", "--id", "all", "--success", "success=true"]
    assert main(["learn", str(file), "--out", str(out), *options]) == 1
    error = capsys.readouterr().err
    assert "no reference of the task 'book" in error
    assert why in error
    assert not out.exists()


def test_a_folder_with_other_files_is_not_written_into(
    runs: Path, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """References of an older model would go on being loaded beside the new ones."""
    options = ["--risk", "--task", "task_id", "--id", "all", "--success", "success=true"]
    assert main(["learn", str(runs), "--out", str(model), *options]) == 1
    assert "expected a folder that is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("surprise_mean", "moon_phase", "no such feature"),
        ("base: ", "base: .nan # ", "finite"),
        ("trees:\n    - ", 'trees:\n    - "0 0.5 9 0.1"\n    - ', "a node on the right"),
    ],
)
def test_a_broken_model_is_a_finding(
    model: Path, tmp_path: Path, old: str, new: str, code: str
) -> None:
    """What is wrong with a model is said with its place, and the reference is refused."""
    file = tmp_path / "broken.yaml"
    text = next(iter(sorted(model.iterdir()))).read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))
    found = load_specs([file])
    assert found.refused
    assert any(code in each.message for each in found.findings), found.findings


@pytest.mark.long
def test_the_protocol_is_printed(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--evaluate` writes nothing, and prints areas, recall, lead and false pages of agents it held back."""
    monkeypatch.setattr(protocol, "DRAWS_OF_GROUPS", 1)
    monkeypatch.setattr(train_model, "TREES", 8)  # of 80 models
    options = ["--evaluate", "--task", "task_id", "--success", "success=true", "--draws", "1"]
    assert main(["learn", str(runs), *options]) == 0
    out = capsys.readouterr().out
    end = next(line for line in out.splitlines() if line.startswith("end"))
    assert end.split()[2] == "1.00"
    assert "different agents" in out
    for word in (
        "AUPRC",
        "recall 5 %",
        "per 1,000",
        "new_write_tool",
        "without surprise",
        "ceiling: with the whole run",
        "usual run",
    ):
        assert word in out
