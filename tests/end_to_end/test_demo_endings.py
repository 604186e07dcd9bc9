"""`make demo ARGS=--stay` that a signal ends."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.service import ROOT, eventually

pytestmark = pytest.mark.timeout(240)

STARTER = (
    "import subprocess, sys; subprocess.call([sys.executable, '-m', 'tests.demo', '--stay'])"
)
COMMANDS = {"alone": ("-m", "tests.demo", "--stay"), "below": ("-c", STARTER)}
ENDINGS = [("alone", "SIGKILL"), ("below", "SIGKILL")]
"""How each demo was started, and what ends it: here it can do nothing about it."""
MORE_ENDINGS = [
    ("alone", "SIGINT"),
    ("alone", "SIGTERM"),
    ("alone", "SIGHUP"),
    ("below", "SIGTERM"),
]


@pytest.fixture
def staying(how: str) -> Iterator[subprocess.Popen[str]]:
    """A demo with `--stay`."""
    with (
        _heeding_signals(),
        subprocess.Popen(
            [sys.executable, *COMMANDS[how]],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as demo,
    ):
        yield demo
        if demo.poll() is None:  # its test failed
            os.killpg(demo.pid, signal.SIGTERM)


@contextlib.contextmanager
def _heeding_signals() -> Iterator[None]:
    """Restores signals that a background shell ignores, since child processes inherit that."""
    before = {
        each: signal.signal(each, signal.SIG_DFL) for each in (signal.SIGINT, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _service_of(demo: subprocess.Popen[str]) -> int:
    """The process of its service, once the demo has come so far that it stays."""
    assert demo.stdout is not None
    for line in demo.stdout:
        if line.startswith("All of it is at http://"):
            return _owner(demo.pid)
    raise AssertionError("the demo has ended")


def _owner(demo: int) -> int:
    """The process of the demo's service, found below the demo."""
    found = subprocess.run(
        ["ps", "-ww", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split(None, 2) for line in found.splitlines()[1:]]
    below = {demo}
    for pid, ppid, _ in sorted(rows, key=lambda row: int(row[0])):
        if int(ppid) in below:
            below.add(int(pid))
    (service,) = [
        int(pid) for pid, _, args in rows if int(pid) in below and "collector serve" in args
    ]
    return service


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.skipif(shutil.which("ps") is None, reason="processes are found by ps")
@pytest.mark.parametrize(
    ("how", "name"),
    [*ENDINGS, *(pytest.param(*each, marks=pytest.mark.long) for each in MORE_ENDINGS)],
)
def test_a_demo_that_is_ended_leaves_no_service(
    staying: subprocess.Popen[str], name: str
) -> None:
    """The service ends with the demo, whichever signal ends it or its parent, such as make."""
    service = _service_of(staying)
    staying.send_signal(getattr(signal, name))
    staying.communicate(timeout=60)
    eventually(lambda: _gone(service), 20)
