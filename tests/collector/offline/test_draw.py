"""`offrails draw`: references as text, specs as SVG and PNG, and options that would do nothing."""

from __future__ import annotations

import json
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from collector.cli.main import main
from collector.offline.png import NoRenderer, png

ROVER = Path(__file__).parents[3] / "dfa_specs" / "farm_rover.yaml"
RENDERER = find_spec("resvg_py") or shutil.which("rsvg-convert") or shutil.which("resvg")
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
