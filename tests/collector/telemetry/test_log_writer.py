"""The log is written by a thread: who logs never waits, and what is lost is counted."""

from __future__ import annotations

import io
import json
import os
import pty
import select
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest

from collector.telemetry import log_format, log_writer, logs
from collector.telemetry.log_format import Event
from collector.telemetry.log_writer import LogWriter, OutputStream, print_in_thread
from collector.telemetry.logs import log
from collector.telemetry.redaction import Redaction, rules

SECONDS = 10


def counts() -> dict[str, int]:
    return {"queue_full": 0, "write_failed": 0}


def event(number: int) -> Event:
    return {"n": number, "event": "x", "level": "info", "timestamp": "t"}


@pytest.fixture
def pipe() -> Iterator[tuple[int, IO[str]]]:
    """A pipe: the end that is read, and the one that is written."""
    reader, end = os.pipe()
    with os.fdopen(end, "w") as file:
        yield reader, file
        os.close(reader)  # whoever still writes gets an error, and ends
        for thread in threading.enumerate():
            if thread.name in ("log", "print"):
                thread.join(SECONDS)


@pytest.fixture
def restored() -> Iterator[None]:
    """The log of the process as it was before, afterwards."""
    before = (log.write, log.level, log.dropped)
    log.dropped = counts()
    yield
    log.write, log.level, log.dropped = before


def fill(file: IO[str]) -> None:
    """Fills a pipe."""
    descriptor = file.fileno()
    os.set_blocking(descriptor, False)
    try:
        while True:
            os.write(descriptor, b"." * 4096)
    except BlockingIOError:
        os.set_blocking(descriptor, True)


def test_a_full_pipe_does_not_block_logging(pipe: tuple[int, IO[str]]) -> None:
    """If a pipe is full, logging does not wait: lines beyond the queue's bound are counted."""
    dropped = counts()
    writer = LogWriter(pipe[1], log_format.as_line, dropped, lines_max=100)
    fill(pipe[1])
    writer.start()
    for number in range(10_000):
        writer.put(event(number))

    assert dropped["queue_full"] >= 10_000 - 100 - log_writer.BATCH
    assert dropped["write_failed"] == 0
    writer.stop(0.01)  # returns though nothing could be written


def test_the_number_of_lost_lines_is_logged_later(pipe: tuple[int, IO[str]]) -> None:
    """Everything that was queued is written in order, with the number of lines that are missing."""
    dropped = counts()
    writer = LogWriter(pipe[1], log_format.as_line, dropped, lines_max=100)
    fill(pipe[1])
    writer.start()
    for number in range(1_000):
        writer.put(event(number))
    found = b""
    while b'"n":99,' not in found.replace(b" ", b"") or b"log_lines_dropped" not in found:
        assert select.select([pipe[0]], [], [], SECONDS)[0], found[-200:]
        found += os.read(pipe[0], 1 << 16)
    writer.stop(SECONDS)
    found += os.read(pipe[0], 1 << 16) if select.select([pipe[0]], [], [], 0)[0] else b""

    told = [json.loads(line) for line in found.lstrip(b".").decode().splitlines()]
    numbers = [each["n"] for each in told if "n" in each]
    missing = [each["count"] for each in told if each["event"] == "log_lines_dropped"]
    assert numbers == sorted(numbers)
    assert len(numbers) + sum(missing) == 1_000
    assert sum(missing) == dropped["queue_full"] == sum(dropped.values())


def test_a_full_disk_loses_lines_and_nothing_else() -> None:
    """Each line that the disk refuses is counted."""
    dropped = counts()
    with Path("/dev/full").open("w") as file:
        writer = LogWriter(file, log_format.as_line, dropped)
        writer.start()
        for number in range(100):
            writer.put(event(number))
        writer.stop(SECONDS)

    assert dropped == {"queue_full": 0, "write_failed": 100}


def test_a_reader_that_leaves_loses_lines_and_nothing_else() -> None:
    """A broken pipe raises no error in the code that logs."""
    reader, end = os.pipe()
    os.close(reader)
    dropped = counts()
    with os.fdopen(end, "w") as file:
        writer = LogWriter(file, log_format.as_line, dropped)
        writer.start()
        writer.put(event(1))
        writer.stop(SECONDS)

    assert dropped["write_failed"] == 1


def test_a_line_that_was_cut_does_not_spoil_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk took a part of a line; when it has room again, the next one begins a line."""
    room = [8, 0, 1000, 1000, 1000]
    write = os.write

    def limited(descriptor: int, data: Any) -> int:
        size = room.pop(0)
        if not size:
            raise OSError(28, "No space left on device")
        return write(descriptor, bytes(data)[:size])

    with (tmp_path / "log").open("w") as file:
        stream = OutputStream(file)
        monkeypatch.setattr(os, "write", limited)
        assert stream.write(["one\n", "two two\n"]) == 1
        assert stream.write(["three\n"]) == 1

    assert (tmp_path / "log").read_text().splitlines() == ["one", "two ", "three"]


def test_a_stream_that_others_have_made_non_blocking_is_waited_for(
    pipe: tuple[int, IO[str]],
) -> None:
    """A pipe shared with a program that sets O_NONBLOCK loses nothing while it is read."""
    dropped = counts()
    fill(pipe[1])
    os.set_blocking(pipe[1].fileno(), False)
    writer = LogWriter(pipe[1], log_format.as_line, dropped)
    writer.start()
    writer.put(event(7))
    found = b""
    while b'"x"' not in found:
        assert select.select([pipe[0]], [], [], SECONDS)[0]
        found += os.read(pipe[0], 1 << 16)
    writer.stop(SECONDS)

    assert sum(dropped.values()) == 0


def test_an_event_that_cannot_be_rendered_does_not_end_the_log() -> None:
    """The event is counted, and the next one is written."""
    dropped, file = counts(), io.StringIO()

    writer = LogWriter(file, lambda found: f"{found.get('event') or found['n']}\n", dropped)
    writer.start()
    writer.put({})
    writer.put({"n": 2})
    writer.stop(SECONDS)

    assert dropped["write_failed"] == 1
    assert file.getvalue().endswith("2\n")


def test_closing_the_log_writes_queued_lines(restored: None) -> None:
    """Closing the log writes all queued lines, and those of Python itself."""
    file = io.StringIO()
    with logs.writing("info", Redaction(rules(("tok-[0-9]",), ())), file):
        for number in range(1_000):
            log.info("seen", n=number, text="tok-1")
        failing = threading.Thread(target=lambda: 1 // 0, name="reader")
        failing.start()
        failing.join()

    told = [json.loads(line) for line in file.getvalue().splitlines()]
    assert [each["n"] for each in told[:-1]] == list(range(1_000))
    assert "tok-1" not in file.getvalue()
    assert (told[-1]["event"], told[-1]["thread"]) == ("thread_failed", "reader")
    assert told[-1]["exception"][0]["exc_type"] == "ZeroDivisionError"


def test_a_line_for_people_does_not_wait_for_them(pipe: tuple[int, IO[str]]) -> None:
    """If standard output is full, printing does not wait, and the line is counted."""
    fill(pipe[1])
    print_in_thread("ready", pipe[1])
    dropped = counts()
    with Path("/dev/full").open("w") as full:
        print_in_thread("ready", full, dropped).join(SECONDS)

    assert dropped["write_failed"] == 1


def test_a_terminal_is_written_for_people(
    restored: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event comes before its fields, without colours if so asked; nothing commands the terminal."""
    monkeypatch.setenv("NO_COLOR", "1")
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as file:
        with logs.writing("info", None, file):
            log.warning("harmful_call", agent="a\x1b[2Jb", spec="s", constraint=None)
            log.error("failed \x1b[2J", exc_info=ValueError("no \x1b[2J such key"))
        text = os.read(ours, 1 << 16).decode()
    os.close(ours)

    first = text.splitlines()[0]
    assert "\x1b" not in text
    assert first.index("harmful_call") < first.index("agent=") < first.index("spec='s'")
    assert "warning" in first
    assert "constraint" not in first
    assert "  ValueError: no \\x1b[2J such key" in text
    assert not text.startswith("{")
