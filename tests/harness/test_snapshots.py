"""Recorded results stand in for the tools, and two offline runs are the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.program import main
from harness.tasks.catalogue import find_tasks
from tests.harness.conftest import DONE, LAB, LIGHT, NOTE, OPEN, Bench

HANG = {"tool": "hang", "arguments": {}}


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def test_two_offline_runs_are_the_same_bytes_whatever_the_jobs(bench: Bench) -> None:
    """Offline, rollouts and spans are byte for byte the same, with one job, with four, and when gone on with."""
    worlds = ("shop", "archive")
    agent = (*worlds, "--agent", "faulty:0.4,swap")
    recording, folders = str(bench.folder / "recording"), [bench.out() for _ in range(3)]
    bench.run(*agent, "--n", "4", "--record", recording)
    offline = (*agent, "--offline", recording)
    bench.run(*offline, "--n", "4", "--jobs", "1", out=folders[0])
    bench.run(*offline, "--n", "4", "--jobs", "4", out=folders[1])
    bench.run(*offline, "--n", "1", "--seed", "2", out=folders[2])
    bench.run(*offline, "--n", "4", "--jobs", "3", out=folders[2])
    first = bytes_of(folders[0])
    assert len(first["rollouts.jsonl"].splitlines()) == 4 * len(find_tasks(worlds))
    assert bytes_of(folders[1]) == first
    assert bytes_of(folders[2]) == first


def test_an_offline_rollout_has_the_calls_scores_and_cause_of_the_live_one(
    bench: Bench,
) -> None:
    """A recording gives back all that was seen, failures of the environment included."""
    agent = bench.script([OPEN, HANG, LIGHT, LIGHT, NOTE, DONE])
    recording = str(bench.folder / "recording")
    options = (str(LAB), "--agent", agent, "--call-timeout", "0.3")
    [live] = bench.run(*options, "--record", recording)
    [offline] = bench.run(*options, "--offline", recording)
    different = {"session", "seconds", "sandbox", "offline"}
    assert {key for key in live if live[key] != offline[key]} <= different
    assert offline["sandbox"] == "none"
    assert offline["seconds"] >= 0.3, "the clock is the recorded one"


def test_a_result_that_is_not_recorded_is_an_outcome_of_its_own(bench: Bench) -> None:
    """A miss ends the rollout as an infrastructure failure, and is counted; or the tool is asked after all."""
    recording = str(bench.folder / "recording")
    short, whole = ([OPEN, DONE], [OPEN, LIGHT, NOTE, DONE])
    bench.scripted(short, "--record", recording)
    missed = bench.scripted(whole, "--offline", recording)
    assert (missed["end"], missed["misses"], bench.code) == ("error", 1, 1)
    assert missed["cause"]["category"] == "environment"
    assert missed["cause"]["kind"] == "infrastructure"
    live = bench.scripted(whole, "--offline", recording, "--miss", "live")
    assert (live["success"], live["misses"], bench.code) == (True, 0, 0)
    assert live["sandbox"] != "none"


def test_the_nearest_result_is_of_the_same_tool_in_the_same_state(bench: Bench) -> None:
    """With `--miss nearest` other arguments get the result of the arguments most like them."""
    recording = str(bench.folder / "recording")
    bench.scripted([OPEN, LIGHT, NOTE, DONE], "--record", recording)
    alike = {"tool": "light", "arguments": {"level": 4}}
    found = bench.scripted(
        [OPEN, alike, NOTE, DONE], "--offline", recording, "--miss", "nearest"
    )
    assert (found["success"], found["misses"]) == (True, 0)


def test_a_recording_is_gone_on_with(bench: Bench) -> None:
    """A second run with `--record` adds to what is there; equal recordings are equal files."""
    folders = [bench.folder / name for name in ("one", "other")]
    for folder, turns in zip(folders, ([OPEN, DONE], [OPEN, LIGHT, DONE]), strict=True):
        bench.scripted(turns, "--record", str(folder))
    bench.scripted([OPEN, LIGHT, DONE], "--record", str(folders[0]))
    for name in ("states.jsonl", "worlds.jsonl"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()


@pytest.mark.parametrize("line", ["{", '{"hash": 1'])
def test_a_recording_that_cannot_be_read_is_named(
    line: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bad line of a recording ends the program with exit code 2, file and line."""
    recording = bench.folder / "recording"
    bench.scripted([OPEN, DONE], "--record", str(recording))
    (recording / "states.jsonl").write_text(line + "\n")
    offline = ["--offline", str(recording), "--out", str(bench.out())]
    assert main(["run", str(LAB), "--agent", "golden", *offline]) == 2
    assert "states.jsonl:1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "line", "says"),
    [
        (
            "worlds",
            b'{"world": "lab", "tools": [], "state": {}}',
            ":1: expected an object with code",
        ),
        ("states", b"[]", ":1: expected an object with hash, state"),
        ("states", b"\xff", ": 'utf-8' codec"),
        ("states", b'{"hash": "a", "state": {}}', ": expected the state "),
        ("results", b'{"state": "a"}', ":1: expected an object with tool, arguments, seconds"),
        (
            "results",
            b'{"state": "a", "tool": "b", "arguments": {}, "seconds": 1}',
            ":1: expected an object with result, error, after",
        ),
    ],
)
def test_a_recording_that_lacks_something_is_named(
    name: str, line: bytes, says: str, bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """A recording of another version, or one that lost something, ends the program with exit code 2 before any rollout."""
    recording = bench.folder / "recording"
    bench.scripted([OPEN, DONE], "--record", str(recording))
    file = recording / f"{name}.jsonl"
    file.write_bytes(line + b"\n")
    offline = ["--offline", str(recording), "--out", str(bench.out())]
    assert main(["run", str(LAB), "--agent", "golden", *offline]) == 2
    assert f"{file}{says}" in capsys.readouterr().err


def test_a_world_of_other_code_has_other_states(bench: Bench, tmp_path: Path) -> None:
    """A recording is of a world's code: the same name, state, tool and arguments in another world is a miss."""
    import shutil

    copy = Path(shutil.copytree(LAB, tmp_path / "lab", ignore=shutil.ignore_patterns("__*")))
    recording = str(tmp_path / "recording")
    script = bench.script([OPEN, LIGHT, NOTE, DONE])
    bench.run(str(LAB), "--agent", script, "--record", recording)
    [same] = bench.run(str(copy), "--agent", script, "--offline", recording)
    assert same["success"], "where the code lies makes no difference"
    (copy / "lab.py").write_text((copy / "lab.py").read_text() + "\n# another world\n")
    [other] = bench.run(str(copy), "--agent", script, "--offline", recording)
    assert (other["success"], other["misses"]) == (False, 1)
