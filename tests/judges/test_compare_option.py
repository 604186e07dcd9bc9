"""`offrails judge --compare` says how judges and models do against each other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main
from judges.agreement import comparisons
from tests.judges.fake_endpoint import FakeAnswer, completion, judged, serving


def kept(file: Path, model: str, scores: dict[str, int], judge: str = "TC") -> Path:
    """A file as a run with `--json` leaves it, its figures included."""
    lines = [
        {"session": each, "judge": judge, "model": model, "outcome": "scored", "score": score}
        for each, score in scores.items()
    ]
    whole = [*lines, {"labels": {}}, {"summary": {}}]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in whole))
    return file


def test_kept_runs_are_compared_without_asking_anybody(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two files of two models give the comparison that the library gives, with intervals, as JSON and as a table."""
    small = kept(tmp_path / "small.jsonl", "small", {"a": 1, "b": 0, "c": 2, "d": 3})
    large = kept(tmp_path / "large.jsonl", "large", {"a": 2, "b": 1, "c": 2, "e": 3})
    asked = ["judge", "--compare", str(small), "--compare", str(large)]
    assert main([*asked, "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    (found,) = json.loads(line)["comparisons"]
    records = [
        json.loads(text)
        for file in (small, large)
        for text in file.read_text().splitlines()
        if "judge" in json.loads(text)
    ]
    assert [found] == comparisons(records)
    assert (found["a"]["model"], found["b"]["model"], found["sessions"]) == (
        "small",
        "large",
        3,
    )
    assert found["difference"] == pytest.approx(2 / 3)
    low, high = found["difference_ci"]
    assert low <= found["difference"] <= high
    assert main(asked) == 0
    out = capsys.readouterr().out
    assert "TC small" in out
    assert "0.667 (" in out


def test_a_run_is_compared_with_one_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is judged now is compared with a kept run; the line stands before the summary, which is of this run alone."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    runs = tmp_path / "runs.jsonl"
    calls = [{"tool": "move", "arguments": {}, "result": "ok"}]
    runs.write_text(
        "".join(
            json.dumps({"run": name, "agent": "x", "prompt": "go", "calls": calls}) + "\n"
            for name in "ab"
        )
    )
    before = kept(tmp_path / "before.jsonl", "old", {"a": 3, "b": 2})
    with serving(lambda request, number: completion(judged(1))) as endpoint:
        options = ["--endpoint", endpoint.url, "--model", "new", "--judges", "TC", "--json"]
        assert main(["judge", str(runs), *options, "--compare", str(before)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [next(iter(line)) for line in lines[-2:]] == ["comparisons", "summary"]
    (found,) = lines[-2]["comparisons"]
    assert (found["sessions"], found["difference"]) == (2, -1.5)
    assert lines[-1]["summary"]["TC"]["asked"] == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}\n", "expected judgements"),
        ("{\n", ":1: expected JSON"),
        ('{"summary": {}}\n{"judge": "TC"}\n', ":2: session: expected str, found None"),
        ("[]\n", ":1: expected an object"),
        (
            '{"session": "a", "judge": "TC", "model": "m", "outcome": "scored", "score": true}\n',
            ":1: score: expected int or null, found True",
        ),
    ],
)
def test_a_bad_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    """A file of something else is refused with its line, key and what was expected: exit code 2."""
    file = tmp_path / "odd.jsonl"
    file.write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["judge", "--compare", str(file)])
    assert ended.value.code == 2
    assert told in capsys.readouterr().err


def test_a_second_model_disputes_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind each judgement stands that of the second model; both say whether they are two points apart, and the summary is of the first."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "first")
    monkeypatch.setenv("OPENAI_API_KEY_SECOND", "second")
    runs = tmp_path / "runs.jsonl"
    calls = [{"tool": "move", "arguments": {}, "result": "ok"}]
    run = {"run": "a", "agent": "x", "prompt": "go", "calls": calls}
    runs.write_text(
        json.dumps(run) + "\n" + json.dumps({**run, "run": "b", "prompt": "run"}) + "\n"
    )

    def by_session(request: Mapping[str, Any], number: int) -> FakeAnswer:
        return completion(judged(3 if number == 1 else 2))

    with (
        serving(by_session) as one,
        serving(lambda request, number: completion(judged(1))) as other,
    ):
        asked = ["judge", str(runs), "--endpoint", one.url, "--model", "m", "--judges", "TC"]
        second = ["--second-model", "n", "--second-endpoint", other.url]
        code = main([*asked, *second, "--at-once", "1", "--json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert code == 0
    assert [
        (each["session"], each["model"], each["score"], each["disputed"]) for each in lines[:4]
    ] == [("a", "m", 3, True), ("a", "n", 1, True), ("b", "m", 2, False), ("b", "n", 1, False)]
    (found,) = lines[4]["comparisons"]
    assert (found["sessions"], found["difference"]) == (2, -1.5)
    assert lines[5]["summary"]["TC"]["asked"] == 2
    assert lines[5]["summary"]["TC"]["mean"] == 2.5
    assert {each["authorization"] for each in one.headers} == {"Bearer first"}
    assert {each["authorization"] for each in other.headers} == {"Bearer second"}


def test_the_same_model_is_no_second_one(tmp_path: Path) -> None:
    """A second model of the same name, or an endpoint without a model, is refused: exit code 2."""
    runs = tmp_path / "runs.jsonl"
    runs.write_text('{"run": "a", "calls": []}\n')
    asked = ["judge", str(runs), "--endpoint", "http://127.0.0.1:9/v1", "--model", "m"]
    for more in (["--second-model", "m"], ["--second-endpoint", "http://127.0.0.1:9/v1"]):
        with pytest.raises(SystemExit) as ended:
            main([*asked, *more])
        assert ended.value.code == 2
