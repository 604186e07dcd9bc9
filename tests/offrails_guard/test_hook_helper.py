"""`offrails hook --serve`: a process that stays, and answers for the hooks of its user."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.end_to_end.loopback import free_port
from tests.end_to_end.service import ROOT
from tests.offrails_guard.double import DENIED, Double
from tests.offrails_guard.test_claude_code import event

Hook = Callable[..., subprocess.CompletedProcess[str]]
PROGRAM = (sys.executable, "-m", "collector", "hook")


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A short path: that of a socket has a bound."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def hook(double: Double, runtime: Path) -> Hook:
    def run(text: str, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PROGRAM, "claude-code", "--deadline", "20", *options],
            cwd=ROOT, env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)},
            input=text, capture_output=True, text=True, timeout=50, check=False,
        )  # fmt: skip

    return run


def start(runtime: Path, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*PROGRAM, "--serve", *options],
        cwd=ROOT, env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.fixture
def helper(double: Double, runtime: Path) -> Iterator[subprocess.Popen[str]]:
    """The helper, whose own options are for other programs than hooks."""
    options = ("--url", double.url, "--deadline", "20", "--service", "own")
    with start(runtime, *options) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("offrails hook ready socket=")
        yield process
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_hooks_are_answered_each_by_its_own_options(
    double: Double, hook: Hook, helper: subprocess.Popen[str]
) -> None:
    """Exit code, words and outcomes are those of a hook without a helper; all share one connection."""
    url = ("--url", double.url, "--service", "theirs")
    denied, allowed = hook(event("water"), *url), hook(event("scan"), *url)
    ended = hook(event("scan", "PostToolUse"), *url)
    as_json = hook(event("water"), *url, "--json")

    assert (denied.returncode, denied.stdout, denied.stderr) == (2, "", DENIED + "\n")
    assert [(each.returncode, each.stdout, each.stderr) for each in (allowed, ended)] == [
        (0, "", "")
    ] * 2
    assert json.loads(as_json.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert [double.asked()["service"] for _ in range(3)] == ["theirs"] * 3
    assert sorted(double.outcome() for _ in range(3)) == [
        ("d1", "skipped"), ("d2", "ran"), ("d3", "skipped"),
    ]  # fmt: skip
    assert double.connections <= 2


def test_other_programs_write_the_event_to_it(
    double: Double, runtime: Path, helper: subprocess.Popen[str]
) -> None:
    """The answer is the hook's output as JSON, by the helper's options; nothing for an allowed call."""

    def ask(text: str) -> str:
        with socket.socket(socket.AF_UNIX) as line:
            line.connect(str(runtime / "offrails-hook-helper" / "socket"))
            line.sendall(text.encode())
            with line.makefile() as answer:
                return answer.read()

    denied = json.loads(ask(event("water")))["hookSpecificOutput"]
    assert denied["permissionDecisionReason"] == DENIED
    assert ask(event("scan")) == ""
    assert [double.asked()["service"] for _ in range(2)] == ["own", "own"]


def test_a_hook_asks_for_itself_where_its_helper_does_not(
    double: Double, hook: Hook, helper: subprocess.Popen[str], runtime: Path
) -> None:
    """The helper hangs, has options that it cannot use, or is gone: the call is denied all the same."""
    url = ("--url", double.url)
    helper.send_signal(signal.SIGSTOP)
    assert hook(event("water"), *url).returncode == 2
    helper.send_signal(signal.SIGCONT)
    assert hook(event("water"), "--url", "nowhere", "--on-unavailable", "deny").returncode == 2
    helper.kill()
    helper.wait()
    assert hook(event("water"), *url).stderr == DENIED + "\n"
    with start(runtime) as other:  # the socket of a helper that is gone is no hindrance
        assert other.stdout is not None
        assert "ready" in other.stdout.readline()
        other.terminate()
    helper.returncode = 0  # for the end of the fixture


def test_there_is_one_helper(helper: subprocess.Popen[str], runtime: Path) -> None:
    """A second one says so, and ends with 1; a folder that others may open is not used."""
    with start(runtime) as second:
        _, err = second.communicate(timeout=30)
    assert (second.returncode, "a helper is there already" in err) == (1, True)
    (runtime / "open" / "offrails-hook-helper").mkdir(parents=True)
    (runtime / "open" / "offrails-hook-helper").chmod(0o755)
    with start(runtime / "open") as third:
        _, err = third.communicate(timeout=30)
    assert (third.returncode, "others may open it" in err) == (1, True)


def test_nobody_to_ask_is_the_setting_with_a_helper(
    hook: Hook, helper: subprocess.Popen[str]
) -> None:
    """The helper's answer is by the hook's own setting, and tells the user once that nobody judges the calls."""
    nobody = ("--url", f"http://127.0.0.1:{free_port()}")
    assert hook(event("scan"), *nobody, "--on-unavailable", "deny").returncode == 2
    first, second = hook(event("scan"), *nobody), hook(event("scan"), *nobody)

    assert "no decision (connection)" in json.loads(first.stdout)["systemMessage"]
    assert (first.returncode, second.returncode, second.stdout) == (0, 0, "")
