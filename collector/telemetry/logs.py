"""One line for each event, on standard error: JSON, or for people where that is a terminal.

An event goes through structlog's processors where it is logged: it gets its level and its time, an
exception becomes data, and what is to be hidden is taken out. While the service runs a thread of its
own renders and writes it (`log_writer`); elsewhere it is written at once.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, Final, cast

from collector.telemetry import log_format
from collector.telemetry.clock import now_ns
from collector.telemetry.log_format import Event
from collector.telemetry.log_writer import LogWriter
from collector.telemetry.redaction import Redaction
from collector.telemetry.structured import BoundLoggerBase

__all__ = ["Logger", "captured", "log", "set_up", "writing"]

FRAMES_MAX: Final = 50
"""Frames kept of a traceback, from both its ends."""
CAUSES_MAX: Final = 20


def _stamp(_logger: Any, level: str, event: Event) -> Event:
    log_format.stamp(event, event.pop("event"), level, now_ns())
    return event


def _show_exception(_logger: Any, _level: str, event: Event) -> Event:
    error = event.pop("exc_info", None)
    if isinstance(error, BaseException):
        event["exception"] = _causes(error)
    return event


PROCESSORS: Final = (_stamp, _show_exception)


class Logger(BoundLoggerBase):
    """Writes events: a name, and its fields by keyword.

    `exc_info` takes an exception, and shows where it came from. The values of variables are not
    shown: they may hold tokens, or what an agent said.

    Not to be compiled: mypyc knows no parameters without a name, and fields may have any name.
    """

    def __init__(
        self,
        write: Callable[[Event], None],
        processors: Iterable[Any] = PROCESSORS,
        context: Any = None,
    ) -> None:
        super().__init__(None, processors, context or {})
        self.write = write
        """Takes each event that is not below the level, and never waits while the service runs."""
        self.level = logging.INFO
        self.dropped = {"queue_full": 0, "write_failed": 0}
        """reason: lines that were lost. Other threads count: no key is ever added."""

    def info(self, event: str, /, **fields: Any) -> None:
        self.log(logging.INFO, event, **fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        self.log(logging.WARNING, event, **fields)

    def error(self, event: str, /, **fields: Any) -> None:
        self.log(logging.ERROR, event, **fields)

    def log(self, level: int, event: str, /, **fields: Any) -> None:
        """An event of a level of the standard library."""
        self.log_fields(level, event, fields)

    def log_fields(self, level: int, event: str, fields: Event) -> None:
        """The same with all fields in one object."""
        if level >= self.level:
            name = logging.getLevelName(level).lower()
            self.write(cast("Event", self._process_event(name, event, fields)[1]))


log: Final = Logger(log_format.write)
"""The log of the process."""


def set_up(
    level: str,
    redaction: Redaction | None = None,
    write: Callable[[Event], None] = log_format.write,
) -> None:
    """Configures the log of the process, and sends there what libraries log.

    To be called before grpc is imported.

    Args:
        level: a name such as "info".
        redaction: what is taken out of each line.
        write: takes each event.
    """
    # grpc's C core has a log of its own, which is no JSON; our own log has what it would write.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    log.level = logging.getLevelNamesMapping()[level.upper()]
    log.write = write
    if redaction:
        hidden = redaction
        log.write = lambda event: write(hidden.shown(event))
    logging.basicConfig(handlers=[_Relay()], level=logging.WARNING, force=True)


@contextlib.contextmanager
def writing(level: str, redaction: Redaction | None, file: IO[str]) -> Iterator[None]:
    """Sets the log up, and has it written from a thread of its own meanwhile.

    What Python itself would print on standard error (warnings, exceptions that nobody can catch) is
    logged, too: a print would wait for whoever reads it. The end waits for lines that are not written
    yet, but not for long.
    """
    render = log_format.for_terminal() if file.isatty() else log_format.as_line
    writer = LogWriter(file, render, log.dropped)
    hooks = sys.unraisablehook, threading.excepthook
    writer.start()
    set_up(level, redaction, writer.put)
    logging.captureWarnings(True)
    sys.unraisablehook = _log_unraisable
    threading.excepthook = _log_thread_error
    try:
        yield
    finally:
        sys.unraisablehook, threading.excepthook = hooks
        logging.captureWarnings(False)
        writer.stop()


def _log_unraisable(found: Any) -> None:
    """An exception that could not be raised, as in a finalizer."""
    log.error("exception_ignored", reason=found.err_msg, exc_info=found.exc_value)


def _log_thread_error(found: Any) -> None:
    thread = found.thread.name if found.thread is not None else None
    log.error("thread_failed", thread=thread, exc_info=found.exc_value)


@contextlib.contextmanager
def captured() -> Iterator[list[Event]]:
    """What is logged meanwhile, instead of a line of each event: for tests."""
    events: list[Event] = []
    before, log.write = log.write, events.append
    try:
        yield events
    finally:
        log.write = before


class _Relay(logging.Handler):
    """What libraries log, in our form."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        log.log(record.levelno, record.getMessage(), logger=record.name, exc_info=error)


# --- exceptions -----------------------------------------------------------------------------------


def _causes(error: BaseException) -> list[Event]:
    """The exception, then what caused it, and so on."""
    causes: list[Event] = []
    current: BaseException | None = error
    is_cause = False
    while current is not None and len(causes) < CAUSES_MAX:
        causes.append({**_one(current), "is_cause": is_cause})
        is_cause = current.__cause__ is not None
        context = None if current.__suppress_context__ else current.__context__
        current = current.__cause__ or context
    return causes


def _one(error: BaseException) -> Event:
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return {
        "exc_type": type(error).__name__,
        "exc_value": _text(error),
        "exc_notes": [str(note) for note in getattr(error, "__notes__", ())],
        "frames": _frames(error),
        "is_group": bool(members),
        "exceptions": [_causes(each) for each in members],
    }


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - somebody else's class; what happened must be logged
        return "(it cannot be shown)"


def _frames(error: BaseException) -> list[Event]:
    found = [
        {"filename": frame.f_code.co_filename, "lineno": line, "name": frame.f_code.co_name}
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    half = FRAMES_MAX // 2
    return found if len(found) <= FRAMES_MAX else found[:half] + found[-half:]
