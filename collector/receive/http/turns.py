"""The receiving half of an HTTP/1.1 connection: what has come is parsed in turns.

A connection may work for `TURN_SECONDS`; then the others go first, and the rest of what it sent waits. The socket is
read while nothing of that is left, its client reads our answers, and the application takes the body.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from time import perf_counter
from typing import Final

from collector.receive.http.head_cache import HEAD_BYTES_MAX
from collector.receive.listener.connections import (
    COPIED_BYTES,
    NEVER,
    ConnectionBase,
    Connections,
    Data,
    part,
)

__all__ = ["SLICE_BYTES", "TURN_SECONDS", "TurnConnection"]

SLICE_BYTES: Final = 2 << 10
"""Bytes given to the parser at once: up to a hundred small requests."""
TURN_SECONDS: Final = 0.002
"""Time of work on one connection's data before the others have their turn."""


class TurnConnection(ConnectionBase):
    """A connection that takes its turn to parse.

    Args:
        connections: the listener's connections.
    """

    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        self.deadline = NEVER
        """When we have waited too long, on the loop's clock."""
        self.is_discarding = False
        """True after a refusal or the last answer: what the client still sends is thrown away."""
        self.writable = asyncio.Event()
        """The client reads what we write."""
        self.writable.set()
        self._is_writable = True
        """The same, without a call into asyncio."""
        self._held = False
        """True while nothing is read, since the client waits for us."""
        self._unread = b""
        """Received bytes that wait to be parsed."""
        self._spent = 0.0
        """Seconds of work since the others last had their turn."""
        self._turn_end = 0.0
        """When the work that is going on has lasted long enough."""
        self._is_yielding = False
        """True while nothing is read, since the other connections have their turn."""
        self._is_body_paused = False
        """True while nothing is read, since the application has enough."""

    @abstractmethod
    def _consume(self, data: Data, head: bytes) -> None:
        """Parses what has come, until the turn ends; the rest is `_unread` then."""

    def data_received(self, data: bytes) -> None:
        if not self.is_discarding:
            self._take(data, data)

    def buffer_updated(self, count: int) -> None:
        if self.is_discarding:
            return
        data = self.connections.inbox[:count]
        if count <= COPIED_BYTES:
            copied = data.tobytes()
            self._take(copied, copied)
        else:
            self._take(data, data[:HEAD_BYTES_MAX].tobytes())

    def _take(self, data: Data, head: bytes) -> None:
        """Takes what has come, as far as this connection's time goes.

        Args:
            data: all of it.
            head: its beginning, at least.
        """
        if self._unread:  # some loops hand over what they had when they had to pause
            self._unread += part(data, 0, len(data))
            return
        if len(data) <= SLICE_BYTES:  # there is no more of it, and measuring would cost, too
            self._turn_end = NEVER
            self._consume(data, head)
            return
        began = perf_counter()
        self._turn_end = began + TURN_SECONDS - self._spent
        self._consume(data, head)
        self._spent += perf_counter() - began
        if self._spent >= TURN_SECONDS:
            self._spent = 0.0
            self._yield_turn()

    def _yield_turn(self) -> None:
        """Lets the other connections go first."""
        if not (self._is_yielding or self.is_discarding or self.transport.is_closing()):
            self._is_yielding = True
            self.transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._have_turn)

    def _have_turn(self) -> None:
        """The others had theirs."""
        self._is_yielding = False
        if not self._held:
            self._read_on()

    def _read_on(self) -> None:
        """Takes what waited to be parsed, and then reads again."""
        if self._unread and not self.is_discarding:
            data, self._unread = self._unread, b""
            self._take(data, data[:HEAD_BYTES_MAX])
        self._resume_reading()

    def take_no_body(self, *, is_paused: bool) -> None:
        """Whether more of a body is to wait in the kernel, since nobody asks for it yet."""
        if is_paused:
            self._is_body_paused = True
            if not self.transport.is_closing():
                self.transport.pause_reading()
        elif self._is_body_paused:
            self._is_body_paused = False
            self._resume_reading()

    def _resume_reading(self) -> None:
        waits = self._held or self._is_yielding or self._is_body_paused
        if not (waits or self.transport.is_closing()):
            self.transport.resume_reading()

    def _hold(self) -> None:
        """Reads no more for now: either we are waited for, or the client has enough to read."""
        if not self._held:
            self._held = True
            self.transport.pause_reading()
        if self._is_writable:
            self.deadline = NEVER

    @property
    def is_stalled(self) -> bool:
        return not self._is_writable

    def _let_write(self) -> None:
        """The client reads what we write, or is there no more."""
        self._is_writable = True
        self.writable.set()
