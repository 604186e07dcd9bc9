"""MCP over standard input and output: a server as a child process, and a gate before it.

    client -> our standard input -> gate -> the server's standard input
    client <- our standard output <-------- the server's standard output

What goes on goes on as it came, byte by byte. Calls are asked about side by side, in the order in which they came; what is
no call does not wait for them. A call that its client cancels before it has gone on is not made.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from types import FrameType
from typing import IO, Final

from offrails_guard.awaiting_outcome.decision_ids import DecisionIds
from offrails_guard.mcp.gate import ASKED_MAX, Gate
from offrails_guard.mcp.messages import ClientMessages, key_of

__all__ = ["MESSAGE_BYTES_MAX", "StdioProxy"]

MESSAGE_BYTES_MAX: Final = 64 << 20
"""Bytes of one line. The proxy ends if a client sends a longer one."""

GRACE_SECONDS: Final = 5.0
"""How long a server may take to end once its input has ended."""


class _Asked:
    """A text whose calls are asked about."""

    def __init__(self, incoming: ClientMessages) -> None:
        self.incoming = incoming
        self._keys = {key_of(each) for each in incoming.owed}
        """Keys of its requests that the client has not given up."""

    def cancel(self, key: str) -> bool:
        """The client gives up a request. True if nothing of this text is to be made any more."""
        if key not in self._keys:
            return False
        self._keys.remove(key)
        return self.is_cancelled

    @property
    def is_cancelled(self) -> bool:
        """True if the client waits for nothing of it any more."""
        return not self._keys and bool(self.incoming.owed)


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
        self._awaiting = DecisionIds()
        self._writing = threading.Lock()
        self._sending = threading.Lock()
        """Held while a line goes on to the server, and while it is decided whether one does."""
        self._asked: list[_Asked] = []
        self._room = threading.Semaphore(ASKED_MAX)

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
                self._gate.settle(line, self._awaiting)
                if not self._reply(line):
                    server.terminate()
                    break
        # A process that a signal has ended has no exit code: shells give it this one.
        return server.returncode if server.returncode >= 0 else 128 - server.returncode

    # --- from the client to the server -------------------------------------------------------------

    def _requests(self, server: subprocess.Popen[bytes]) -> None:
        """Takes what the client writes, in a thread, line by line."""
        assert server.stdin is not None
        loop = asyncio.new_event_loop()
        threading.Thread(target=loop.run_forever, daemon=True).start()
        on_their_way: set[Future[None]] = set()
        with suppress(BrokenPipeError):  # the server has ended, which `run` sees
            while line := self._in.readline(MESSAGE_BYTES_MAX):
                if len(line) == MESSAGE_BYTES_MAX and not line.endswith(b"\n"):
                    break
                if not self._take(line, server.stdin, loop, on_their_way):
                    break
        for each in list(on_their_way):
            with suppress(BrokenPipeError):
                each.result()
        with suppress(OSError):
            server.stdin.close()
        try:
            server.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            server.terminate()

    def _take(
        self,
        line: bytes,
        server: IO[bytes],
        loop: asyncio.AbstractEventLoop,
        on_their_way: set[Future[None]],
    ) -> bool:
        """Passes on one line, or has it asked about. False where the client is gone."""
        incoming = self._gate.read(line) if line.strip() else ClientMessages()
        if isinstance(incoming, bytes):
            return self._answer(incoming)
        with self._sending:
            # Of a call that has not gone on the server knows nothing.
            unknown = [key for key in incoming.cancelled if not self._cancel(key)]
            if not incoming.calls:
                if unknown or not incoming.cancelled:
                    _write(server, line)
                return True
            asked = _Asked(incoming)
            self._asked.append(asked)
        self._room.acquire()
        work = asyncio.run_coroutine_threadsafe(self._ask(asked, line, server), loop)
        on_their_way.add(work)
        work.add_done_callback(on_their_way.discard)
        return True

    def _cancel(self, key: str) -> bool:
        return any(each.cancel(key) for each in self._asked)

    async def _ask(self, asked: _Asked, line: bytes, server: IO[bytes]) -> None:
        try:
            answer = await self._gate.ask(asked.incoming, self._awaiting)
            # A server that does not read may keep a line waiting; other calls go on being asked about.
            await asyncio.to_thread(self._decided, asked, answer, line, server)
        finally:
            self._room.release()

    def _decided(
        self, asked: _Asked, answer: bytes | None, line: bytes, server: IO[bytes]
    ) -> None:
        with self._sending:
            self._asked.remove(asked)
            if asked.is_cancelled:
                if answer is None:
                    self._gate.withdraw(asked.incoming, self._awaiting)
                return
            if answer is None:
                _write(server, line)
                return
        self._answer(answer)

    # --- to the client ----------------------------------------------------------------------------

    def _answer(self, answer: bytes) -> bool:
        """Of our own; b"" is none."""
        return self._reply(answer + b"\n") if answer else True

    def _reply(self, line: bytes) -> bool:
        """False where the client is gone."""
        with self._writing:
            try:
                self._out.write(line)
                self._out.flush()
            except (OSError, ValueError):
                return False
            return True


def _write(server: IO[bytes], line: bytes) -> None:
    server.write(line)
    server.flush()


def _end_with_us(server: subprocess.Popen[bytes]) -> None:
    """SIGTERM and SIGINT are the server's, too."""

    def end(number: int, _frame: FrameType | None) -> None:
        server.send_signal(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        with suppress(ValueError):  # not in the main thread
            signal.signal(number, end)
