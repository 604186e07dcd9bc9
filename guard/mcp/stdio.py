"""MCP over standard input and output: a server as a child process, and a gate before it.

    client -> our standard input -> gate -> the server's standard input
    client <- our standard output <-------- the server's standard output

What goes on goes on as it came, byte by byte.
"""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import IO, Final

from guard.held import Held
from guard.mcp.gate import Gate

__all__ = ["MESSAGE_BYTES_MAX", "StdioProxy"]

MESSAGE_BYTES_MAX: Final = 64 << 20
"""Of one line. The proxy ends where a client sends a longer one."""

GRACE_SECONDS: Final = 5.0
"""How long a server may take to end once its input has ended."""


class StdioProxy:
    """Runs one server.

    Args:
        gate: decides which lines of the client go on.
        client_in: what the client writes.
        client_out: what the client reads.
    """

    def __init__(self, gate: Gate, client_in: IO[bytes], client_out: IO[bytes]) -> None:
        self._gate = gate
        self._in = client_in
        self._out = client_out
        self._held = Held()
        self._writing = threading.Lock()

    def run(self, command: Sequence[str]) -> int:
        """Serves until the server ends, and returns its exit code.

        Raises:
            OSError: the command cannot be started.
        """
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:  # noqa: S603
            _end_with_us(server)
            requests = threading.Thread(target=self._requests, args=(server,), daemon=True)
            requests.start()
            assert server.stdout is not None
            for line in server.stdout:
                self._gate.settle(line, self._held)
                if not self._reply(line):
                    server.terminate()
                    break
        # A process that a signal has ended has no exit code: shells give it this one.
        return server.returncode if server.returncode >= 0 else 128 - server.returncode

    def _requests(self, server: subprocess.Popen[bytes]) -> None:
        """From the client to the server, in a thread: line by line, each decided on before the next."""
        assert server.stdin is not None
        with suppress(BrokenPipeError):  # the server has ended, which `run` sees
            while line := self._in.readline(MESSAGE_BYTES_MAX):
                if len(line) == MESSAGE_BYTES_MAX and not line.endswith(b"\n"):
                    break
                answer = self._gate.ask(line, self._held) if line.strip() else None
                if answer is None:
                    server.stdin.write(line)
                    server.stdin.flush()
                elif not self._reply(answer + b"\n"):
                    break
        with suppress(OSError):
            server.stdin.close()
        try:
            server.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            server.terminate()

    def _reply(self, line: bytes) -> bool:
        """False where the client is gone."""
        with self._writing:
            try:
                self._out.write(line)
                self._out.flush()
            except (OSError, ValueError):
                return False
            return True


def _end_with_us(server: subprocess.Popen[bytes]) -> None:
    """SIGTERM and SIGINT are the server's, too."""

    def end(number: int, _frame: FrameType | None) -> None:
        server.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(ValueError):  # not in the main thread
            signal.signal(number, end)
