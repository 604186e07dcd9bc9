"""The verbs' shell: usage, exit codes, and what check and draw print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from collector.cli.main import main

ROOT = Path(__file__).parents[3]
ROVER = str(ROOT / "dfa_specs" / "farm_rover.yaml")

BAD = (
    "id: bad\nalphabet:\n  a: {tool: a}\ninitial: s\naccepting: [s]\ntransitions: {s: {b: s}}\n"
)


def quits(*arguments: str) -> int:
    """The exit code of a run that ends by itself before it starts."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert isinstance(caught.value.code, int)
    return caught.value.code


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """A spec the compiler refuses."""
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)
    return file


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Both print to standard output and end with 0."""
    assert quits("--version") == 0
    assert capsys.readouterr().out.startswith("offrails 0.")
    assert quits("--help") == 0
    text = capsys.readouterr().out
    for verb in ("serve", "replay", "check", "draw"):
        assert verb in text


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("fly",),
        ("serve", "--port", "1"),
        ("check",),
        ("draw",),
        ("replay",),
        ("serve", "--history", "long"),
        ("draw", ROVER, "--format", "png"),
    ],
)
def test_wrong_usage_is_2(
    arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong usage gives exit code 2, with the usage on standard error."""
    assert quits(*arguments) == 2
    captured = capsys.readouterr()
    assert "usage: offrails" in captured.err
    assert captured.out == ""


def test_what_a_verb_does_not_take_is_told_with_its_usage(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The error shows the usage of this verb, not that of all verbs."""
    assert quits("init", "many.otlp.jsonl") == 2
    told = capsys.readouterr().err
    assert "usage: offrails init" in told
    assert "--from" in told
    assert "unrecognized arguments: many.otlp.jsonl" in told


@pytest.mark.parametrize("option", ["--stat", "--sttate", "--stat=/tmp/state"])
def test_an_option_is_written_out(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An option that is cut short or misspelt is refused, and the error names the one that was meant."""
    assert quits("serve", "--specs", "/no/such/folder", option) == 2
    told = capsys.readouterr().err
    assert f"unrecognized arguments: {option}; did you mean --state?" in told


def test_check_of_fine_specs(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0 and a count; a folder is read recursively."""
    assert main(["check", str(ROOT / "dfa_specs")]) == 0
    assert capsys.readouterr().out.endswith("0 errors, 0 warnings\n")


def test_check_of_a_refused_spec(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 1; each finding has file, line, column, code, and its impact below it."""
    assert main(["check", str(bad)]) == 1
    first, impact, *_ = capsys.readouterr().out.splitlines()

    assert first.startswith(f"{bad}:6:")
    assert "undeclared_symbol" in first
    assert impact.startswith("    No call can match")


def test_check_as_json(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One finding a line, and nothing else."""
    assert main(["check", "--json", str(bad), ROVER]) == 1
    findings = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert {found["severity"] for found in findings} >= {"error"}
    assert {found["file"] for found in findings} == {str(bad)}
    assert main(["check", "--json", ROVER]) == 0
    assert capsys.readouterr().out == ""


def test_check_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """A path that is not there is usage."""
    assert quits("check", "/no/such/spec.yaml") == 2
    assert "/no/such/spec.yaml: no such file or folder" in capsys.readouterr().err


def test_draw(capsys: pytest.CaptureFixture[str]) -> None:
    """Mermaid by default, DOT when asked for; both name the states."""
    assert main(["draw", ROVER]) == 0
    mermaid = capsys.readouterr().out
    assert main(["draw", ROVER, "--format", "dot"]) == 0
    dot = capsys.readouterr().out

    assert "stateDiagram" in mermaid
    assert dot.startswith("digraph")
    for state in ("locked", "valve_open", "done"):
        assert state in mermaid
        assert state in dot


def test_draw_of_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    """One spec is drawn: a folder with more of them is refused with a sentence."""
    assert quits("draw", str(ROOT / "examples" / "specs")) == 2
    assert "examples/specs: 2 specs; name the file of one" in capsys.readouterr().err


def test_draw_of_a_refused_spec(bad: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2 with its findings."""
    assert quits("draw", str(bad)) == 2
    assert "undeclared_symbol" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_disk_that_is_full_is_told_in_a_line() -> None:
    """A full disk is a failure with one line and no traceback."""
    with Path("/dev/full").open("wb") as out:
        ended = subprocess.run(
            [sys.executable, "-m", "collector", "draw", ROVER],
            stdout=out,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            check=False,
        )

    said = b"offrails: standard output: No space left on device\n"
    assert (ended.returncode, ended.stderr) == (1, said)


@pytest.mark.parametrize(
    ("closed", "said"),
    [(">&-", b""), ("<&- >&- 2>&-", b""), ("<&-", b"offrails: '' is no verdict")],
)
def test_a_standard_stream_may_be_closed(closed: str, said: bytes) -> None:
    """Writes to a closed stream are lost, and reads give nothing. Neither gives a traceback."""
    verb = (
        ["draw", ROVER] if not said else ["accept", "-", "--why", "x", "--until", "2999-12-31"]
    )
    ended = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-m", "collector", *verb],
        capture_output=True,
        cwd=ROOT,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (1 if said else 0, b"")
    assert ended.stderr.startswith(said)
    assert b"Traceback" not in ended.stderr


def test_a_reader_that_leaves_is_no_failure() -> None:
    """`offrails draw | head -1` ends with 0 and in silence."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as out:
        ended = subprocess.run(
            [sys.executable, "-m", "collector", "draw", ROVER],
            stdout=out,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            check=False,
        )

    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_reader_that_leaves_is_not_the_file_that_is_written(tmp_path: Path) -> None:
    """If the reader of standard output leaves, the learnt file is written all the same."""
    runs, out = tmp_path / "runs.jsonl", tmp_path / "r.yaml"
    runs.write_text('{"run": "1", "calls": [{"name": "x"}]}\n')
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-u", "-m", "collector", "learn", runs, "--id", "r", "--out", out],
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        check=False,
    )
    os.close(writer)

    assert (ended.returncode, ended.stderr) == (0, b"")
    assert out.exists()


def test_starting_is_quick() -> None:
    """Help loads neither grpc nor the metrics nor the compiler nor the models of the settings."""
    heavy = (
        *("grpc", "prometheus_client", "opentelemetry", "pydantic"),
        "monitor.spec.compiler.compile",
    )
    code = (
        "import sys\nfrom collector.cli.main import main\n"
        "try:\n    main(['check', '--help'])\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert ended.stderr == "[]\n"


@pytest.mark.parametrize(
    "arguments", [["check", ""], ["serve", "--specs", ""], ["replay", " "], ["draw", ""]]
)
def test_an_empty_path_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A variable that is not set is not the working directory."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "expected a path, found an empty text" in capsys.readouterr().err
