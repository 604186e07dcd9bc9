"""Writes the log from a thread of its own, so that whoever logs never waits for a disk or a reader.

Lines wait in a bounded queue. If the queue is full (nobody reads the pipe that standard error is),
a line is dropped and counted; if the stream refuses a line (its disk is full, its reader has left),
that is counted as well, and the next line is tried. Lines are rendered in the thread, too.
"""

from __future__ import annotations

import contextlib
import io
import os
import queue
import select
import threading
from collections.abc import Callable
from typing import IO, Final

from collector.telemetry.clock import now_ns
from collector.telemetry.log_format import Event, stamp

__all__ = ["FLUSH_SECONDS", "LINES_MAX", "LogWriter", "OutputStream", "print_in_thread"]

LINES_MAX: Final = 4_096
"""Lines that wait: a few MB, and some seconds of a slow disk."""

BATCH: Final = 32
"""Lines rendered before they are written: about a third of a millisecond between two system calls."""

FLUSH_SECONDS: Final = 2.0
"""The end of the process waits so long for lines that have not been written."""

Render = Callable[[Event], str]


class OutputStream:
    """A standard stream, written past Python's buffer.

    The lock of that buffer would be held by a thread that a full pipe blocks, and the end of the
    process needs it.

    Args:
        file: such as `sys.stderr`; one without a file descriptor is written as it is.
    """

    def __init__(self, file: IO[str]) -> None:
        self._file = file
        self._torn = False
        """The last line is incomplete."""
        try:
            self._descriptor: int | None = file.fileno()
        except (io.UnsupportedOperation, AttributeError, ValueError):
            self._descriptor = None

    @property
    def may_block(self) -> bool:
        """Whether a write may wait for somebody."""
        return self._descriptor is not None

    def write(self, lines: list[str]) -> int:
        """Writes lines; returns how many of them were written in full."""
        written = 0
        with contextlib.suppress(OSError, ValueError):  # a full disk, no reader, a closed file
            if self._descriptor is None:
                self._file.write("".join(lines))
                self._file.flush()
                return len(lines)
            data = memoryview("".join(lines).encode(errors="backslashreplace"))
            if self._torn:
                self._torn = os.write(self._descriptor, b"\n") == 0
            while written < len(data):
                written += self._write_some(self._descriptor, data[written:])
        return self._whole(lines, written)

    def _write_some(self, descriptor: int, data: memoryview) -> int:
        try:
            return os.write(descriptor, data)
        except BlockingIOError:  # whoever shares the stream with us has set it so
            waiting = select.poll()
            waiting.register(descriptor, select.POLLOUT)
            waiting.poll()
            return 0

    def _whole(self, lines: list[str], written: int) -> int:
        """How many lines so many bytes hold."""
        count = 0
        for line in lines:
            size = len(line.encode(errors="backslashreplace"))
            if size > written:
                break
            written -= size
            count += 1
        else:
            written = 0
        self._torn = self._torn or written > 0
        return count


class LogWriter:
    """The queue, and the thread that empties it.

    Args:
        file: where lines go.
        render: makes a line, with its end, of an event.
        dropped: where lost lines are counted, by `queue_full` and `write_failed`.
        lines_max: how many lines may wait.
    """

    def __init__(
        self, file: IO[str], render: Render, dropped: dict[str, int], lines_max: int = LINES_MAX
    ) -> None:
        self._stream = OutputStream(file)
        self._render = render
        self._dropped = dropped
        self._lines_max = lines_max
        self._lock = threading.Lock()
        """Guards the counters: any thread may log."""
        self._counted = 0
        """Lost lines that the log has counted."""
        self._waiting: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)

    def start(self) -> None:
        """Begins to write."""
        self._thread.start()

    def put(self, event: Event) -> None:
        """Queues an event, which is not to be changed any more; returns at once."""
        if self._waiting.qsize() >= self._lines_max:
            self._drop("queue_full", 1)
        else:
            self._waiting.put(event)

    def stop(self, seconds: float = FLUSH_SECONDS) -> None:
        """Writes what waits, as far as that can be done in so long."""
        self._waiting.put(None)
        self._thread.join(seconds)

    def _run(self) -> None:
        going = True
        while going:
            events: list[Event | None] = [self._waiting.get()]
            with contextlib.suppress(queue.Empty):
                while len(events) < BATCH and events[-1] is not None:
                    events.append(self._waiting.get_nowait())
            going = events[-1] is not None
            self._write([event for event in events if event is not None])

    def _write(self, events: list[Event]) -> None:
        lines = []
        for event in events:
            try:
                lines.append(self._render(event))
            except Exception:  # noqa: BLE001 - one line must not end the log
                self._drop("write_failed", 1)
        self._log_lost()
        unwritten = len(lines) - self._stream.write(lines)
        if unwritten:
            self._drop("write_failed", unwritten)

    def _log_lost(self) -> None:
        """Says in the log that lines are missing, as soon as it can be written again."""
        lost = sum(self._dropped.values())
        if lost > self._counted:
            event: Event = {"count": lost - self._counted}
            stamp(event, "log_lines_dropped", "warning", now_ns())
            if self._stream.write([self._render(event)]):
                self._counted = lost

    def _drop(self, reason: str, count: int) -> None:
        with self._lock:
            self._dropped[reason] += count


def print_in_thread(
    text: str, file: IO[str], dropped: dict[str, int] | None = None
) -> threading.Thread:
    """Writes a line for people that is no event, without waiting for whoever reads it.

    Args:
        text: without its end.
        file: such as `sys.stdout`.
        dropped: where it is counted (`write_failed`) if it cannot be written.

    Returns:
        The thread that writes, for a caller that wants to wait for a while.
    """
    stream = OutputStream(file)

    def write() -> None:
        if not stream.write([f"{text}\n"]) and dropped is not None:
            dropped["write_failed"] += 1

    thread = threading.Thread(target=write, name="print", daemon=True)
    thread.start()
    if not stream.may_block:
        thread.join()
    return thread
