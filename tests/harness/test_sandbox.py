"""What a tool does to the machine stays in its sandbox, and is a failure of its call."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cli.program import main
from harness.sandbox import process
from harness.sandbox.process import NoSandboxError, Sandbox, SandboxKind, ToolFault, kind_here
from tests.harness.conftest import DONE, LAB, LIGHT, NOTE, OPEN, Bench

MODULE = LAB / "lab.py"
STATE: dict[str, Any] = {"door": "shut", "lamp": "off", "log": [], "told": []}

try:
    kind_here()
except NoSandboxError as problem:
    pytest.skip(str(problem), allow_module_level=True)


@pytest.fixture(params=["namespaces", "bubblewrap"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    kind: SandboxKind = request.param
    if kind == "bubblewrap" and shutil.which("bwrap") is None:
        pytest.skip("no program bwrap")
    found = Sandbox(kind, LAB)
    yield found
    found.close()


def escape(sandbox: Sandbox, tool: str, **arguments: Any) -> str:
    """What is said of a call that must not work; the next one works all the same."""
    with pytest.raises(ToolFault) as caught:
        sandbox.call(MODULE, STATE, tool, arguments, 10)
    after = sandbox.call(MODULE, STATE, "open_door", {"key": "brass"}, 10)
    assert after.state["door"] == "open"
    return str(caught.value)


def test_files_outside_are_neither_read_nor_written(sandbox: Sandbox, tmp_path: Path) -> None:
    """Only Python, the bench and the world are seen, and nothing of them can be written."""
    secret = tmp_path / "secret"
    secret.write_text("s")
    assert "No such file" in escape(sandbox, "read_file", path=str(secret))
    assert "No such file" in escape(sandbox, "read_file", path="/etc/passwd")
    for place in (str(tmp_path / "x"), str(LAB / "x"), str(MODULE), "/usr/x"):
        said = escape(sandbox, "write_file", path=place)
        assert "Read-only" in said or "No such file" in said
        assert place == str(MODULE) or not Path(place).exists()


def test_nobody_is_reached(sandbox: Sandbox) -> None:
    """A tool cannot connect, not even to this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        said = escape(sandbox, "connect", port=server.getsockname()[1])
    assert "not permitted" in said or "unreachable" in said


def test_processes_and_memory_have_a_bound(sandbox: Sandbox) -> None:
    """A fork bomb makes no process, and memory ends before the machine's does."""
    assert "PermissionError" in escape(sandbox, "fork")
    assert "MemoryError" in escape(sandbox, "grow")


def test_other_processes_are_not_ended(sandbox: Sandbox) -> None:
    """A tool cannot send signals, neither to the bench nor to anybody else."""
    said = escape(sandbox, "kill", process=os.getpid())
    assert "PermissionError" in said or "ProcessLookupError" in said


@pytest.mark.parametrize("tool", ["unshare", "ring", "signal_by_descriptor"])
def test_no_way_round_the_filter(tool: str, sandbox: Sandbox) -> None:
    """New namespaces, io_uring and descriptors of processes, which would go past the filter, are forbidden."""
    assert "PermissionError" in escape(sandbox, tool)


def test_what_is_read_only_stays_so(sandbox: Sandbox) -> None:
    """A tool has no right to mount: it cannot make the world's folder writable."""
    said = escape(sandbox, "remount", path=str(LAB))
    assert "PermissionError" in said
    assert not (LAB / "escaped").exists()


def test_a_tool_may_have_threads(sandbox: Sandbox) -> None:
    """Threads are no processes: a tool may start them."""
    assert sandbox.call(MODULE, STATE, "thread", {}, 10).result == "worked"


def test_a_process_outlives_the_thread_that_asked_first(sandbox: Sandbox) -> None:
    """The thread of a sandbox's first call may end: the same process answers the next one, of another thread."""
    first = threading.Thread(target=sandbox.call, args=(MODULE, STATE, "thread", {}, 10))
    first.start()
    first.join()
    # Python's thread is over shortly before Linux's, whose end is what a process may end with.
    while Path(f"/proc/self/task/{first.native_id}").exists():
        time.sleep(0.001)
    assert sandbox.call(MODULE, STATE, "thread", {}, 10).result == "worked"
    assert sandbox.faults == 0


@pytest.mark.parametrize(
    "line",
    ["{}", "[1]", "[" * 100_000, "no", '{"result": "lie", "error": false, "state": {}}'],
    ids=["empty", "list", "deep", "text", "lie"],
)
def test_a_forged_answer_fails_its_call(line: str, sandbox: Sandbox) -> None:
    """A tool that writes into its process's answers fails its own call: it ends neither the bench nor the next call."""
    assert "wrote into the answers" in escape(sandbox, "forge", line=line + "\n")


def test_a_tool_that_trickles_hangs(sandbox: Sandbox) -> None:
    """The clock of a call does not begin anew with each byte."""
    with pytest.raises(ToolFault, match=r"hung for more than 0\.3 s"):
        sandbox.call(MODULE, STATE, "trickle", {}, 0.3)


def test_a_result_that_is_no_json_is_named(sandbox: Sandbox) -> None:
    """A tool that returns what JSON does not have fails its call, and is told why."""
    assert "TypeError: Object of type set" in escape(sandbox, "no_json")


def test_hanging_dying_and_flooding_end_one_call(sandbox: Sandbox) -> None:
    """A tool that hangs, dies or floods fails its call, in words; the process is replaced and counted."""
    with pytest.raises(ToolFault, match=r"hung for more than 0\.3 s"):
        sandbox.call(MODULE, STATE, "hang", {}, 0.3)
    assert "died (exit code 3)" in escape(sandbox, "die")
    assert "flooded" in escape(sandbox, "flood")
    assert sandbox.faults == 3


def test_what_tools_print_is_no_answer(sandbox: Sandbox) -> None:
    """A tool that prints, also past Python, does not speak for the sandbox."""
    assert sandbox.call(MODULE, STATE, "print_much", {}, 10).result == "printed"


def test_what_a_tool_does_not_declare_stays_as_it_was(sandbox: Sandbox) -> None:
    """A change of what a tool only reads is not kept."""
    assert sandbox.call(MODULE, STATE, "secret", {}, 10).state == STATE


def test_each_rollout_says_which_sandbox_it_had(bench: Bench) -> None:
    """A rollout has the best sandbox that works here, or `none` where that is asked for."""
    turns = [OPEN, LIGHT, NOTE, DONE]
    assert bench.scripted(turns)["sandbox"] == kind_here()
    assert bench.scripted(turns, "--no-sandbox")["sandbox"] == "none"


def test_without_a_sandbox_it_refuses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where no sandbox works nothing runs, exit code 2, unless it is asked for."""
    monkeypatch.setattr(process, "_PYTHON", "/nowhere/python")
    arguments = ["run", str(LAB), "--agent", "golden", "--out", str(tmp_path / "o")]
    assert main(arguments) == 2
    assert "--no-sandbox" in capsys.readouterr().err
