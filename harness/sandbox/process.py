"""The sandbox of one worker: starts its process, asks it, ends it when it hangs, dies or floods, and starts another one."""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from collector.telemetry.clock import steady_ns
from harness.sandbox.bounds import ANSWER_MAX, VISIBLE
from harness.world.world import ToolResult

__all__ = ["NoSandboxError", "Sandbox", "SandboxKind", "ToolFault", "WorldTools", "kind_here"]

SandboxKind = Literal["bubblewrap", "namespaces", "none"]

_BENCH: Final = Path(__file__).parents[1]
PROBE: Final = _BENCH / "sandbox" / "probe.py"
"""A world that loads wherever a sandbox works."""
_START_SECONDS: Final = 60.0
_PACKAGES: Final = tuple(
    dict.fromkeys(Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib"))
)
"""Folders of installed packages."""
_PYTHON: Final = os.path.realpath(sys.executable)
"""The interpreter itself: the environment that links to it is not seen inside."""
_STARTER: Final = ThreadPoolExecutor(1, "sandbox-starter")
"""The thread that starts all processes. bwrap ends its own with its parent, and to Linux (PR_SET_PDEATHSIG) the parent is the
thread that started it. This one lives as long as the program; one that makes a call may end before the sandbox's next call."""


class NoSandboxError(Exception):
    """No sandbox works here."""


class ToolFault(Exception):  # noqa: N818 - a tool's fault is no error of the bench
    """A tool hung, died, flooded or broke; the text says which."""

    def __init__(self, text: str, seconds: float = 0.0) -> None:
        super().__init__(text)
        self.seconds: Final = seconds
        """Recorded time that it took; 0 for one that was just made."""


class WorldTools(NamedTuple):
    """What a world has."""

    tools: list[dict[str, Any]]
    state: dict[str, Any]
    """The state that its module begins with."""
    hidden: Sequence[str] = ()
    """Names of its checks and users; a recording does not have them."""


def kind_here(*, packages: bool = False) -> SandboxKind:
    """The best sandbox that works here: that loads `PROBE`.

    Args:
        packages: whether it imports installed packages.

    Raises:
        NoSandboxError: none does; the message has what was said.
    """
    said = []
    for kind in ("bubblewrap", "namespaces"):
        if kind == "bubblewrap" and shutil.which("bwrap") is None:
            said.append("bubblewrap: no program bwrap")
            continue
        sandbox = Sandbox(kind, PROBE.parent, packages=packages)
        try:
            sandbox.describe(PROBE)
        except ToolFault as problem:
            said.append(f"{kind}: {problem}")
        else:
            return kind
        finally:
            sandbox.close()
    raise NoSandboxError("; ".join(said))


class Sandbox:
    """One process at a time in which tools run. For one thread at a time.

    Args:
        kind: how it is kept in.
        folder: with the world's module, which the process may read.
        packages: whether it may read installed packages, too.
    """

    def __init__(self, kind: SandboxKind, folder: Path, *, packages: bool = False) -> None:
        self.kind: Final = kind
        self.folder = folder
        self.packages = packages
        self.faults = 0
        """Processes that were ended or that died."""
        self._process: subprocess.Popen[bytes] | None = None

    def move(self, folder: Path, *, packages: bool = False) -> None:
        """Goes on with the worlds of another folder."""
        if (folder, packages) != (self.folder, self.packages):
            self.close()
            self.folder, self.packages = folder, packages

    def describe(self, module: Path) -> WorldTools:
        """What a world has.

        Raises:
            ToolFault: the module cannot be loaded.
        """
        answer = self._ask({"module": str(module)}, _START_SECONDS)
        return WorldTools(answer["tools"], answer["state"], answer["hidden"])

    def call(
        self,
        module: Path,
        state: Mapping[str, Any],
        tool: str,
        arguments: Mapping[str, Any],
        seconds: float,
    ) -> ToolResult:
        """Makes one call.

        Raises:
            ToolFault: the tool hung for longer than `seconds`, or died, flooded or broke.
        """
        if self._process is None:
            # How long it takes to start, and to load the world, is not the tool's time.
            self.describe(module)
        request = {"module": str(module), "state": state, "tool": tool, "arguments": arguments}
        answer = self._ask(request, seconds)
        return ToolResult(answer["result"], answer["error"], answer["state"])

    def close(self) -> None:
        """Ends the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        process.wait()

    def _ask(self, request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        number = secrets.token_hex(8)
        try:
            process = self._started()
            assert process.stdin is not None
            process.stdin.write(json.dumps({**request, "id": number}).encode() + b"\n")
            process.stdin.flush()
            answer = _read(self._line(process, seconds), number)
        except ToolFault:
            self._broken()
            raise
        except OSError as problem:
            self._broken()
            raise ToolFault(f"the tool's process died ({problem})") from None
        if "fault" in answer:
            raise ToolFault(answer["fault"])
        return answer

    def _broken(self) -> None:
        self.faults += 1
        self.close()

    def _line(self, process: subprocess.Popen[bytes], seconds: float) -> bytes:
        """The next line of the process."""
        assert process.stdout is not None
        found, descriptor = [b""], process.stdout.fileno()
        size, end = 0, steady_ns() + int(seconds * 1e9)
        while b"\n" not in found[-1]:
            left = max(0.0, (end - steady_ns()) / 1e9)
            if not select.select([descriptor], [], [], left)[0]:
                raise ToolFault(f"the tool hung for more than {seconds:g} s")
            part = os.read(descriptor, 65_536)
            size += len(part)
            if not part:
                raise ToolFault(f"the tool's process died{_last_words(process)}")
            if size > ANSWER_MAX:
                raise ToolFault(f"the tool flooded: more than {ANSWER_MAX} bytes")
            found.append(part)
        return b"".join(found).partition(b"\n")[0]

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = _STARTER.submit(self._start).result()
        return self._process

    def _start(self) -> subprocess.Popen[bytes]:
        # What is started is Python itself, and bwrap where it is on the PATH.
        return subprocess.Popen(  # noqa: S603
            _command(self.kind, self._seen()),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={"PYTHONPATH": self._imported(), "PYTHONDONTWRITEBYTECODE": "1"},
            close_fds=True,
            start_new_session=True,
        )

    def _seen(self) -> list[Path]:
        """What the process may read beside Python's own."""
        return [_BENCH, self.folder.resolve(), *(_PACKAGES if self.packages else ())]

    def _imported(self) -> str:
        """Where it imports from."""
        paths = [_BENCH.parent, *(_PACKAGES if self.packages else ())]
        return os.pathsep.join(dict.fromkeys(map(str, paths)))


def _read(line: bytes, number: str) -> dict[str, Any]:
    """The answer to a request. A tool that finds the worker's descriptors can write lines, too: they lack the number."""
    try:
        answer = json.loads(line)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or answer.get("id") != number:
        raise ToolFault("the tool wrote into the answers of its process")
    return answer


def _last_words(process: subprocess.Popen[bytes]) -> str:
    with suppress(subprocess.TimeoutExpired):
        process.wait(1)
    if process.returncode is None or process.stderr is None:
        return ""
    words = process.stderr.read(500).decode(errors="replace").strip()
    return f" ({words or f'exit code {process.returncode}'})"


def _command(kind: SandboxKind, folders: Sequence[Path]) -> Sequence[str]:
    worker = [_PYTHON, "-S", "-m", "harness.sandbox.worker"]
    if kind == "none":
        return worker
    if kind == "namespaces":
        inside = [_PYTHON, "-S", "-m", "harness.sandbox.namespaces"]
        return [*inside, *map(str, folders), "--", *worker]
    bwrap = shutil.which("bwrap") or "bwrap"
    found = [bwrap, "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    seen = [*VISIBLE[:5], sys.base_prefix, *map(str, folders)]
    for path in seen:
        found += ["--ro-bind-try", path, path]
    return [*found, "--dev", "/dev", "--remount-ro", "/", "--", *_limited(worker)]


def _limited(worker: Sequence[str]) -> list[str]:
    """The same limits and the same filter, inside bubblewrap."""
    return [_PYTHON, "-S", "-m", "harness.sandbox.limited", "--", *worker]
