"""`offrails draw`: references as text, specs as SVG and PNG, and options that would do nothing."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from collector.cli.main import main
from collector.offline.png import NoRenderer, png

ROVER = Path(__file__).parents[3] / "dfa_specs" / "farm_rover.yaml"
RENDERER = find_spec("resvg_py") or shutil.which("rsvg-convert") or shutil.which("resvg")
SVG = "{http://www.w3.org/2000/svg}"
SQUARE = '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><rect width="8" height="8"/></svg>'


@pytest.fixture
def reference(tmp_path: Path) -> tuple[Path, Path]:
    """A reference, and the runs it was learnt from."""
    runs, out = tmp_path / "runs.jsonl", tmp_path / "usual.yaml"
    records = [
        {"run": f"r{n}", "calls": [{"name": tool} for tool in ("find", "get", "refund")[: 3 - n % 2]]}
        for n in range(8)
    ]  # fmt: skip
    runs.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert main(["learn", str(runs), "--id", "usual", "--out", str(out)]) == 0
    return out, runs


def test_a_reference_is_no_picture(
    reference: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reference is printed: a file for its picture is a usage error, and is not written."""
    out = tmp_path / "r.svg"
    with pytest.raises(SystemExit, match="2"):
        main(["draw", str(reference[0]), "--out", str(out)])
    assert "printed for Mermaid or Graphviz" in capsys.readouterr().err
    assert not out.exists()


def test_what_would_do_nothing_is_usage(
    reference: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Options without effect, and files that cannot be written, are usage errors."""
    out, runs = tmp_path / "r.svg", ["--runs", str(reference[1])]
    for file, options, said in (
        (ROVER, ["--session", "r1"], "--session goes with --runs"),
        (ROVER, runs, "--runs goes with --session"),
        (ROVER, [*runs, "--session", "r1", "--session", "r2"], "--out goes with one --session"),
        (ROVER, ["--format", "dot"], "--format goes without --out"),
    ):
        with pytest.raises(SystemExit, match="2"):
            main(["draw", str(file), "--out", str(out), *options])
        assert said in capsys.readouterr().err
        assert not out.exists()
    with pytest.raises(SystemExit, match="2"):
        main(["draw", str(ROVER), *runs])
    assert "--runs and --session go with --out" in capsys.readouterr().err
    nowhere = tmp_path / "none" / "r.svg"
    with pytest.raises(SystemExit, match="2"):
        main(["draw", str(ROVER), "--out", str(nowhere)])
    assert capsys.readouterr().err == f"offrails: {nowhere}: No such file or directory\n"


@pytest.mark.parametrize("form", ["mermaid", "dot"])
def test_a_reference_as_text(
    reference: tuple[Path, Path], form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a file the tree is printed as text."""
    capsys.readouterr()
    assert main(["draw", str(reference[0]), "--format", form]) == 0
    text = capsys.readouterr().out
    assert "find: 8" in text
    assert "refund: 4" in text


def test_png_needs_a_renderer(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without the library and without a program: exit code 2, and what to install."""
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match="2"):
        main(["draw", str(ROVER), "--out", str(tmp_path / "r.png")])
    assert "offrails[png]" in capsys.readouterr().err
    assert not (tmp_path / "r.png").exists()


def test_png_by_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of the system is given the SVG, and its output is the picture; or it failed."""
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    program = tmp_path / "rsvg-convert"
    program.write_text(f'#!/bin/sh\necho "$@"\nexec {shutil.which("cat") or "/bin/cat"}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")

    assert png(SQUARE) == b"--format=png --zoom=2\n" + SQUARE.encode()
    program.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(NoRenderer, match="did not make a PNG"):
        png(SQUARE)


@pytest.mark.skipif(not RENDERER, reason="neither resvg-py nor a program that makes PNG")
def test_png(tmp_path: Path) -> None:
    """A spec, in twice the size of the drawing."""
    out = tmp_path / "x.png"

    assert main(["draw", str(ROVER), "--out", str(out)]) == 0
    picture = out.read_bytes()
    assert picture.startswith(b"\x89PNG\r\n")
    assert int.from_bytes(picture[16:20], "big") > 400


ORDERS = """
id: orders
kind: policy
each: {order: {look_up: id, refund: id}}
alphabet: {look_up: {tool: look_up}, refund: {tool: refund}, login: {tool: login}}
constraints: [{precedence: [look_up, refund]}]
"""


def drawn_things(
    tmp_path: Path, run: str, calls: Sequence[tuple[str, object]]
) -> list[list[str]]:
    """The rows of the picture of one run under a spec with `each`, the title first."""
    spec, runs, out = tmp_path / "o.yaml", tmp_path / "o.jsonl", tmp_path / "o.svg"
    spec.write_text(ORDERS)
    made = [
        {"name": tool, "arguments": {"id": value} if value else {}} for tool, value in calls
    ]
    runs.write_text(json.dumps({"run": run, "calls": made}) + "\n")
    options = ["--runs", str(runs), "--session", run, "--out", str(out)]
    assert main(["draw", str(spec), *options]) == 0
    rows: dict[str, list[str]] = {}
    for each in ET.fromstring(out.read_text()).iter(f"{SVG}text"):
        if {"head", "cell"} & set((each.get("class") or "").split()):
            text = "".join(t for t in each.itertext() if t not in tips_of(each))
            rows.setdefault(each.get("y") or "", []).append(text)
    return list(rows.values())


def tips_of(element: ET.Element) -> list[str]:
    """The tool tips of an element."""
    return [each.text or "" for each in element.iter(f"{SVG}title")]


def test_things_are_rows_with_their_state(tmp_path: Path) -> None:
    """Under `each` a session is drawn as its things: a row each with state and counts, those with harm first."""
    calls = [
        ("login", None),
        ("look_up", "A1"),
        ("refund", "A1"),
        ("refund", "B7"),
        ("refund", None),
    ]
    assert drawn_things(tmp_path, "s", calls) == [
        ["thing", "state", "accepting", "calls", "harmful"],
        ["order B7", "start", "yes", "2", "1"],
        ["order none", "start", "yes", "2", "1"],
        ["order A1", "precedence: [look_up, refund]: after look_up", "yes", "3", "0"],
    ]  # fmt: skip


def test_no_things_and_too_many(tmp_path: Path) -> None:
    """A session without things says so, and of many things the number that is not drawn."""
    assert drawn_things(tmp_path, "s", [("login", None)])[1:] == [["no call carries one"]]
    many = drawn_things(tmp_path, "s", [("look_up", n) for n in range(1, 61)])
    assert len(many) == 1 + 50 + 1
    assert many[-1] == ["10 more"]


def test_values_of_strangers_are_escaped(tmp_path: Path) -> None:
    """A thing's value is text of a stranger: it ends no element, and is shortened."""
    [_, row] = drawn_things(tmp_path, "<s>", [("look_up", "</text><script>" + "y" * 200)])
    assert row[0].startswith("order </text><script>y")
    assert len(row[0]) == 32
