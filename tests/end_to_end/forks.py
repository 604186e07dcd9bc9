"""The program without the half second of CPU time in which Python loads it: forks of a process that has loaded it.

`start` forks one, `run` to its end. `python -m tests.end_to_end.forks FD` is the process that is forked; it ends with who asked for it.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple, NoReturn

__all__ = ["POSSIBLE", "ForkedProcess", "run", "start"]

POSSIBLE = hasattr(socket, "SOCK_SEQPACKET") and sys.platform == "linux"
ROOT = Path(__file__).parents[2]
MESSAGE_BYTES = 1 << 17


class ForkedProcess:
    """A fork that runs `offrails ARGUMENTS`, as `subprocess.Popen` has a process: standard output and error are pipes."""

    def __init__(
        self, arguments: Sequence[str], pid: int, told: socket.socket, streams: Sequence[int]
    ) -> None:
        self.args = arguments
        self.pid = pid
        self.returncode: int | None = None
        self.stdout, self.stderr = (_text(each) for each in streams)
        self._told = told

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, as soon as it has ended; negative where a signal ended it."""
        if self.returncode is None:
            self._told.settimeout(timeout)
            try:
                self.returncode = int(self._told.recv(16))
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
            self._told.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _text(descriptor: int) -> IO[str]:
    return os.fdopen(descriptor, encoding="utf-8")


def start(arguments: Sequence[str], environment: Mapping[str, str]) -> ForkedProcess:
    """Runs `offrails ARGUMENTS` in a fork."""
    out, err = os.pipe(), os.pipe()
    told, tells = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asked = json.dumps([list(arguments), dict(environment)]).encode()
    try:
        socket.send_fds(_forking(), [asked], [out[1], err[1], tells.fileno()])
    finally:
        for each in (out[1], err[1]):
            os.close(each)
        tells.close()
    return ForkedProcess(arguments, int(told.recv(16)), told, (out[0], err[0]))


def run(
    arguments: Sequence[str], environment: Mapping[str, str], seconds: float
) -> subprocess.CompletedProcess[str]:
    """Runs `offrails ARGUMENTS` in a fork, to its end."""
    process = start(arguments, environment)
    with process.stdout, process.stderr, ThreadPoolExecutor(2) as readers:
        texts = [readers.submit(each.read) for each in (process.stdout, process.stderr)]
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        out, err = (each.result() for each in texts)
    return subprocess.CompletedProcess(arguments, code, out, err)


@cache
def _forking() -> socket.socket:
    """The connection to the process that forks, of this process."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        number = theirs.fileno()
        # Its streams are pipes, as those of the forks.
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.end_to_end.forks", str(number)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=(number,),
        )  # fmt: skip

    def end() -> None:
        ours.close()
        process.communicate(timeout=10)

    atexit.register(end)
    return ours


class _Asked(NamedTuple):
    arguments: list[str]
    environment: dict[str, str]
    out: int
    err: int
    tells: socket.socket


def fork(connection: socket.socket) -> list[str]:
    """Forks once for each that is asked for, and tells how each ended. Returns in the forks alone, their arguments."""
    woken, wakes = socket.socketpair()
    for each in (woken, wakes):
        each.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno())
    running: dict[int, socket.socket] = {}
    while True:
        readable, _, _ = select.select([connection, woken], [], [])
        if woken in readable:
            woken.recv(256)
            _tell_ended(running)
        if connection not in readable:
            continue
        if (asked := _received(connection)) is None:
            sys.exit(0)
        if any(name.startswith("OFFRAILS_JUDGES_") for name in asked.environment):
            _load_client_of_models()
        if pid := os.fork():
            running[pid] = asked.tells
            asked.tells.send(b"%d" % pid)
            for number in (asked.out, asked.err):
                os.close(number)
            continue
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (connection, woken, wakes, asked.tells, *running.values()):
            each.close()
        _become(asked)
        return asked.arguments


def _tell_ended(running: dict[int, socket.socket]) -> None:
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with running.pop(pid) as tells:
            try:
                tells.send(b"%d" % os.waitstatus_to_exitcode(status))
            except BrokenPipeError:  # nobody waits for it
                continue


def _received(connection: socket.socket) -> _Asked | None:
    text, descriptors, *_ = socket.recv_fds(connection, MESSAGE_BYTES, 3)
    if not text:
        return None
    out, err, tells = descriptors
    arguments, environment = json.loads(text)
    return _Asked(arguments, environment, out, err, socket.socket(fileno=tells))


def _become(asked: _Asked) -> None:
    """What a process finds when it is started: its streams, its environment, and its arguments."""
    for number, stream in ((asked.out, 1), (asked.err, 2)):
        os.dup2(number, stream)
        os.close(number)
    os.environ.clear()
    os.environ.update(asked.environment)
    sys.argv = ["offrails", *asked.arguments]


def _load() -> None:
    """What each service loads."""
    import collector.app.serve
    import collector.cli.program
    import collector.cli.verbs.serve

    assert collector.app.serve
    gc.collect()
    gc.freeze()


@cache
def _load_client_of_models() -> None:
    """What each service with judges loads, in as much time as the rest takes."""
    with suppress(ImportError):
        import json_repair
        import openai

        _ = json_repair, openai.AsyncOpenAI
    gc.collect()
    gc.freeze()


def _end(code: int) -> NoReturn:
    """Ends as a process does, but for its memory: to free all that it has loaded takes 0.03 s, more than most forks take."""
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001 - what Python does at an end, without freeing memory
    atexit._run_exitfuncs()  # noqa: SLF001 - what Python does at an end, without freeing memory
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            sys.exit(code)
    os._exit(code)


if __name__ == "__main__":
    _load()
    given = fork(socket.socket(fileno=int(sys.argv[1])))
    from collector.cli.main import main

    try:
        code = main(given)
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        code = ended.code
    _end(code)
