"""Tasks that cannot be used are named; results are gone on with, and reported on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from harness.cli.program import main
from tests.harness.conftest import DONE, LAB, LIGHT, NOTE, OPEN, Bench, Turns


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A copy of the lab that a test may change."""
    return Path(shutil.copytree(LAB, tmp_path / "lab", ignore=shutil.ignore_patterns("__*")))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("world: lab", "world: attic", "lamp.yaml:2:1: world: expected a module attic.py"),
        ("instruction:", "instructions:", "lamp.yaml:3:1: instructions: there is no such key"),
        ("spec: lamp", "spec: lump", "lamp.yaml:4:1: spec: "),
        ("criterion: product", "criterion: luck", "evaluation.criterion: "),
        ("max_steps: 12", "max_steps: 0", "execution.max_steps: "),
        ("{level: 3}", "{level: 9}", "golden.0: the spec finds harm"),
        ("{key: brass}", "{key: iron}", "golden.0: call 1 open_door: the key does not fit"),
        ("{lamp: 3, ", "{lamp: 2, ", "golden.0: the criterion does not hold at its end"),
        ("- {tool: look}", "- {tool: shout}", "reads.0: expected a call that changes nothing"),
        ("traps:\n  - {tool: shout}", "traps:\n  - {tool: look}", "traps: none is harmful"),
        ("traps:\n  - {tool: shout}", "traps:\n  - {tool: fly}", "there is no tool fly"),
    ],
)
def test_a_task_that_is_not_sound_is_named(
    old: str, new: str, says: str, lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`check` names file, line and key of what is wrong, and ends with exit code 2."""
    file = lab / "lamp.yaml"
    file.write_text(file.read_text().replace(old, new))
    assert main(["check", str(lab)]) == 2
    found = capsys.readouterr()
    assert says in found.out + found.err


def test_a_world_that_cannot_be_loaded_is_named(
    lab: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A module with a mistake is a fault of the task, not of the bench or of its sandbox, and stops a run at its start."""
    (lab / "lab.py").write_text("import nowhere\n")
    for options in ([], ["--no-sandbox"]):
        assert main(["check", *options, str(lab)]) == 2
        assert "lab.py: ModuleNotFoundError" in capsys.readouterr().out
    assert main(["run", str(lab), "--agent", "golden", "--out", str(lab / "out")]) == 2
    said = capsys.readouterr().err
    assert "lamp.yaml:2:1: world: lab.py: ModuleNotFoundError" in said
    assert "sandbox" not in said


def test_a_task_has_any_path(
    lab: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A task is named by a path from where one stands, or through a link: the sandbox finds its world."""
    (tmp_path / "link").symlink_to(lab)
    monkeypatch.chdir(tmp_path)
    for path in ("lab", "lab/lamp.yaml", "./lab", "link", "link/lamp.yaml"):
        assert main(["check", path]) == 0
        [found] = bench.run(path, "--agent", "golden")
        assert found["success"]


@pytest.mark.parametrize("option", ["--otlp", "--endpoint", "--guard"])
@pytest.mark.parametrize(
    "url", ["localhost:4318", "ftp://a", "http://", "http://[", "http://a:b", ""]
)
def test_an_address_that_is_none_is_usage(
    option: str, url: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """An address that nobody can be reached at ends the program with exit code 2, before a rollout waits for it."""
    out = bench.out()
    arguments = [
        "run",
        "shop/buy_tea",
        "--agent",
        "golden",
        f"{option}={url}",
        "--out",
        str(out),
    ]
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert f"argument {option}: expected a URL" in capsys.readouterr().err
    assert not out.exists()


def test_the_schema_is_that_of_the_documents(capsys: pytest.CaptureFixture[str]) -> None:
    """`check --schema` prints the JSON Schema that is published beside the worlds."""
    assert main(["check", "--schema"]) == 0
    from harness.tasks.catalogue import WORLDS

    assert json.loads(capsys.readouterr().out) == json.loads(
        (WORLDS / "task.schema.json").read_text()
    )


def test_a_run_is_gone_on_with(bench: Bench) -> None:
    """A second run makes what is missing, and leaves the rest as it is, half lines of a killed one excepted."""
    out = bench.out()
    agent = ("shop/buy_tea", "--agent", "golden")
    [first] = bench.run(*agent, out=out)
    for name in ("rollouts.jsonl", "spans.otlp.jsonl"):
        with (out / name).open("a") as stream:
            stream.write('{"half')
    found = bench.run(*agent, "--n", "3", out=out)
    assert [each["seed"] for each in found] == [0, 1, 2]
    assert found[0]["session"] == first["session"]
    assert len((out / "spans.otlp.jsonl").read_text().splitlines()) == 3


def test_a_report_tells_infrastructure_from_failure(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Success is given twice: infrastructure failures left out, and counted."""
    good, hung = [OPEN, LIGHT, NOTE, DONE], [OPEN, {"tool": "die", "arguments": {}}, DONE]
    out = bench.out()
    agent = bench.script(good)
    bench.run(str(LAB), "--agent", agent, "--n", "3", out=out)
    Path(agent.removeprefix("scripted:")).write_text(json.dumps(hung))
    bench.run(str(LAB), "--agent", agent, "--n", "4", out=out)
    capsys.readouterr()
    assert main(["report", str(out), "--json"]) == 0
    [group] = json.loads(capsys.readouterr().out)["groups"]
    assert (group["success"]["mean"], group["success_counted"]["mean"]) == (1, 0.75)
    assert group["causes"] == {"environment/tool": 1}
    assert group["scaffold"] == "react/1"


def test_a_report_has_effects_of_scaffold_and_environment(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same agent under another scaffold, or offline, is compared on the same tasks, with an interval."""
    folders = [bench.out() for _ in range(3)]
    recording = str(bench.folder / "recording")
    agent = ("shop", "--agent", "faulty:0,early_stop")
    bench.run(*agent, "--record", recording, out=folders[0])
    bench.run(*agent, "--scaffold", "plan", out=folders[1])
    bench.run(*agent, "--offline", recording, out=folders[2])
    capsys.readouterr()
    assert main(["report", *map(str, folders), "--json"]) == 0
    effects: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["effects"]
    assert {(each["kind"], each["here"], each["there"]) for each in effects} == {
        ("framework", "plan/1", "react/1"),
        ("environment", "live", "offline"),
    }
    assert all(each["low"] <= each["difference"] == 0 <= each["high"] for each in effects)


def test_a_report_says_how_alike_tasks_are_done_again(
    bench: Bench, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Of rollouts of one task the report has the consistency of papers/002: here two sequences that differ from call 3 on."""
    out = bench.out()
    agent = bench.script([OPEN, LIGHT, NOTE, DONE])
    bench.run(str(LAB), "--agent", agent, out=out)
    other = [OPEN, LIGHT, {"tool": "look", "arguments": {}}, NOTE, {"say": "Ready."}]
    Path(agent.removeprefix("scripted:")).write_text(json.dumps(other))
    bench.run(str(LAB), "--agent", agent, "--seed", "1", out=out)
    capsys.readouterr()
    assert main(["report", str(out), "--json"]) == 0
    [group] = json.loads(capsys.readouterr().out)["groups"]
    found = {name: each["mean"] for name, each in group["repeats"].items()}
    assert found == {
        "tss": 0.75,
        "ac_paper": pytest.approx(2 / 3),
        "ac_repository": pytest.approx(2 / 3),
        "unique_sequences": 2,
        "divergence_point": 3,
        "first_two_agreement": 1,
        "output_agreement": 0,
    }
    page = tmp_path / "page.html"
    assert main(["report", str(out), "--html", str(page)]) == 0
    assert "How alike tasks are done again" in page.read_text()
    assert main(["report", str(out)]) == 0
    assert "TSS" in capsys.readouterr().out


def test_runs_with_the_same_sessions_have_their_own_calls(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Offline runs have the same ids of sessions: a report on two has the figures that each has alone."""
    recording, folders = str(bench.folder / "recording"), [bench.out(), bench.out()]
    agent = bench.script([])

    def run(way: Turns, seed: int, *options: str, out: Path | None = None) -> str:
        Path(agent.removeprefix("scripted:")).write_text(json.dumps(way))
        found = bench.run(str(LAB), "--agent", agent, "--seed", str(seed), *options, out=out)
        return str(found[-1]["session"])

    long, short = [OPEN, LIGHT, NOTE, DONE], [OPEN, NOTE, DONE]
    for way in (long, short):
        run(way, 0, "--record", recording)
    sessions = [
        [run(way, seed, "--offline", recording, "--scaffold", scaffold, out=out) for seed, way in enumerate(ways)]
        for out, scaffold, ways in zip(folders, ("plan", "react"), ((long, short), (long, long)), strict=True)
    ]  # fmt: skip
    assert sessions[0] == sessions[1]

    def repeats(*runs: Path) -> list[Any]:
        capsys.readouterr()
        assert main(["report", *map(str, runs), "--json"]) == 0
        return [group["repeats"] for group in json.loads(capsys.readouterr().out)["groups"]]

    alone = [*repeats(folders[0]), *repeats(folders[1])]
    assert [each["unique_sequences"]["mean"] for each in alone] == [2, 1]
    assert repeats(*folders) == repeats(*reversed(folders)) == alone


def test_the_page_loads_nothing(bench: Bench, tmp_path: Path) -> None:
    """`report --html` is one page without scripts or addresses, with a path for each failed rollout."""
    out, page = bench.out(), tmp_path / "page.html"
    found = bench.run("shop", "--agent", "faulty:0.5", "--n", "2", out=out)
    assert main(["report", str(out), "--html", str(page)]) == 0
    text = page.read_text()
    assert "http" not in text
    assert "<script" not in text
    failed = [each for each in found if each["cause"] is not None]
    assert failed
    assert text.count(" · seed ") == len(failed)


def test_a_report_on_nothing_is_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder without results ends with exit code 2, and is named."""
    assert main(["report", str(tmp_path)]) == 2
    assert "rollouts.jsonl" in capsys.readouterr().err


BAD_ROLLOUT, BAD_SPANS = "rollouts.jsonl", "spans.otlp.jsonl"


@pytest.mark.parametrize(
    ("name", "line", "says"),
    [
        (BAD_ROLLOUT, b"{", ":1: Expecting"),
        (BAD_ROLLOUT, b"[]", ":1: expected an object with task, "),
        (BAD_ROLLOUT, b'{"task": "a", "agent": "b", "seed": 1}', ":1: expected an object with world, "),
        (BAD_ROLLOUT, b"\xff", ": 'utf-8' codec"),
        (BAD_SPANS, b"{", ":1: Expecting"),
        (BAD_SPANS, b'{"resourceSpans": []}', ":1: IndexError"),
        (BAD_SPANS, b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": []}]}]}]}', ":1: KeyError"),
        (BAD_SPANS, b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"attributes": [{"key": "a", "value": 1}]}]}]}]}', ":1: AttributeError"),
        (BAD_SPANS, b"\xff", ": 'utf-8' codec"),
    ],
)  # fmt: skip
def test_a_damaged_line_of_results_is_named(
    name: str, line: bytes, says: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever stands in a file of results, who reads it ends with exit code 2 and says file and line."""
    out, lines = bench.out(), str(bench.folder / "lines.jsonl")
    bench.run("shop/buy_tea", "--agent", "golden", out=out)
    (out / name).write_bytes(line + b"\n")
    readers = [
        ["run", "shop/buy_tea", "--agent", "golden", "--out", str(out)],
        ["export", "--form", "prefixguard", str(out), "--out", lines],
    ]
    if name == BAD_ROLLOUT:
        readers.append(["report", str(out)])
    for arguments in readers:
        capsys.readouterr()
        assert main(arguments) == 2, arguments
        assert f"{out / name}{says}" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--out", "--record"])
def test_a_folder_that_cannot_be_made_is_named_before_the_first_rollout(
    option: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that could not keep what it finds ends with exit code 2 at once."""
    file = bench.folder / "file"
    file.write_text("")
    out = bench.out()
    where = {"--out": str(out), option: str(file / "x")}
    options = [part for pair in where.items() for part in pair]
    with pytest.raises(SystemExit) as ended:
        main(["run", "shop", "--agent", "golden", *options])
    assert ended.value.code == 2
    assert str(file / "x") in capsys.readouterr().err
    assert not (out / "rollouts.jsonl").exists()
