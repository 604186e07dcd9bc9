"""`offrails judge --compare` says how judges and models do against each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collector.cli.main import main
from judges.agreement import comparisons
from tests.judges.fake_endpoint import completion, judged, serving


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
