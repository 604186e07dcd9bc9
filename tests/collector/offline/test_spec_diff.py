"""The effect of a change of specs on recorded runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collector.cli.main import main

ALPHABET = "alphabet: {a: {tool: a}, b: {tool: b}, c: {tool: c}}\n"


def spec(
    folder: Path, golden: str, *, mode: str = "page", version: str = "1", more: str = ""
) -> Path:
    folder.mkdir(exist_ok=True)
    file = folder / "shop.yaml"
    file.write_text(
        f"id: shop\nversion: '{version}'\nmode: {mode}\n{ALPHABET}golden: [{golden}]\n{more}"
    )
    return file


def runs(folder: Path, *words: str) -> Path:
    """A plain run for each word, a call for each letter."""
    file = folder / "runs.jsonl"
    lines = (
        {"run": f"r{place}", "spec": "shop", "calls": [{"name": letter} for letter in word]}
        for place, word in enumerate(words)
    )
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def replay(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str]:
    code = main(["replay", *map(str, arguments)])
    return code, capsys.readouterr().out


def test_the_changed_calls_and_pages_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One of two sessions is judged otherwise; it paged before and does not now."""
    old = spec(tmp_path / "old", "[a, b]")
    new = spec(tmp_path / "new", "[a, b], [b, a]", version="2")
    file = runs(tmp_path, "ab", "ba")

    code, out = replay(capsys, file, "--specs", new, "--against", old, "--json")
    changed, summary = map(json.loads, out.splitlines())

    assert code == 0
    assert changed["session"] == "r1"
    assert changed["accepting"] == {"old": False, "new": True}
    assert changed["changed"] == [
        {"call": 1, "tool": "b", "old": "harmful: out_of_order", "new": "progress"},
    ]
    assert (summary["sessions"], summary["changed_sessions"]) == (2, 1)
    [shop] = summary["specs"]
    assert (shop["changed_sessions"], shop["changed_calls"]) == (1, 1)
    assert (shop["old"]["version"], shop["new"]["version"]) == ("1", "2")
    assert shop["old"]["pages_per_1000_sessions"] == 500.0
    assert shop["new"]["pages_per_1000_sessions"] == 0.0


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """People see the same: a line per spec, then session by session."""
    old = spec(tmp_path / "old", "[a, b]")
    new = spec(tmp_path / "new", "[a, b], [b, a]", version="2")

    code, out = replay(capsys, runs(tmp_path, "ab", "ba"), "--specs", new, "--against", old)

    assert code == 0
    assert "500.0 -> 0.0" in out
    assert "r1 / shop: not accepted -> accepted" in out
    assert "call 1 b: harmful: out_of_order -> progress" in out


def test_shadow_and_info_do_not_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Harm is counted whatever the mode; a page needs mode page and more than info."""
    file = runs(tmp_path, "ba")
    page = spec(tmp_path / "page", "[a, b]")
    for other in (
        spec(tmp_path / "shadow", "[a, b]", mode="shadow"),
        spec(tmp_path / "info", "[a, b]", more="severity: {states: {G0: info}}\n"),
    ):
        _, out = replay(capsys, file, "--specs", other, "--against", page, "--json")
        [shop] = json.loads(out)["specs"]
        assert shop["new"]["harmful"] == shop["old"]["harmful"] == 1
        assert (shop["old"]["pages"], shop["new"]["pages"]) == (1, 0)


def test_a_spec_that_comes_or_goes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With an added or removed spec, its sessions are unjudged on one side."""
    here, other = spec(tmp_path / "here", "[a, b]"), tmp_path / "other.yaml"
    other.write_text(f"id: other\n{ALPHABET}golden: [[a]]\n")

    _, out = replay(capsys, runs(tmp_path, "ab"), "--specs", here, "--against", other, "--json")

    changed = json.loads(out.splitlines()[0])
    assert changed["accepting"] == {"old": None, "new": True}
    assert changed["changed"][0]["old"] == "not judged"


def test_nothing_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A spec compared with itself has no differences."""
    file = spec(tmp_path / "same", "[a, b]")
    _, out = replay(capsys, runs(tmp_path, "ab"), "--specs", file, "--against", file)
    assert "No verdict changes in 1 sessions." in out


def timed_runs(folder: Path) -> Path:
    """`a` is answered by `b` after 5 s in one run, after 50 s in the other."""
    file = folder / "timed.jsonl"
    lines = (
        {
            "run": f"after {seconds}",
            "spec": "shop",
            "calls": [
                {"name": "a", "time_unix": 1_700_000_000},
                {"name": "b", "time_unix": 1_700_000_000 + seconds},
            ],
        }
        for seconds in (5, 50)
    )
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_a_new_deadline_is_tried_on_old_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table and `check` name the sessions that would miss the deadline, and the pages."""
    old = spec(tmp_path / "old", "[a, b]")
    more = "deadlines: [{from: a, to: b, within: 10s}]\n"
    new = spec(tmp_path / "new", "[a, b]", version="2", more=more)
    file = timed_runs(tmp_path)

    _, out = replay(capsys, file, "--specs", new, "--against", old, "--json")
    changed, summary = map(json.loads, out.splitlines())

    assert changed["session"] == "after 50"
    assert changed["changed"] == [
        {
            "call": 1,
            "tool": "a",
            "old": "in time",
            "new": "cannot_finish: deadline (a -> b within 10 s)",
        }
    ]
    assert [
        each["pages"] for each in (summary["specs"][0]["old"], summary["specs"][0]["new"])
    ] == [
        0,
        1,
    ]
    _, out = replay(capsys, file, "--specs", new)
    assert (
        "  after 50 / shop  cannot_finish since call 1: deadline: `b` did not follow `a` within 10 s; "
        "it was due at 22:13:30 UTC" in out.splitlines()
    )
    assert main(["check", str(new), "--runs", str(file)]) == 1
    out = capsys.readouterr().out
    assert "after 50: at its end: cannot_finish: deadline: `b` did not follow `a`" in out
