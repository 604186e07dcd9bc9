"""One line of JSON for each event, on standard error."""

from __future__ import annotations

import contextlib
import logging
import os
import traceback
from collections.abc import Callable, Iterator
from typing import Any, Final

from collector import lines
from collector.clock import now_ns
from collector.lines import Event
from collector.redaction import Redaction

__all__ = ["Log", "captured", "log", "set_up"]

FRAMES_MAX: Final = 50
"""Of a traceback, from both its ends."""
CAUSES_MAX: Final = 20


class Log:
    """Writes events: a name, and what there is to say of it, by keyword.

    `exc_info` takes an exception, and shows where it came from. The values of variables are not
    shown: they may hold tokens, or what an agent said.

    Not to be compiled: mypyc knows no parameters without a name, and fields may have any name.
    """

    def __init__(self, write: Callable[[Event], None]) -> None:
        self.write = write
        """Takes each event that is not below the level."""
        self.level = logging.INFO

    def info(self, event: str, /, **fields: Any) -> None:
        self.log(logging.INFO, event, **fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        self.log(logging.WARNING, event, **fields)

    def error(self, event: str, /, **fields: Any) -> None:
        self.log(logging.ERROR, event, **fields)

    def log(self, level: int, event: str, /, **fields: Any) -> None:
        """An event of a level of the standard library."""
        self.tell(level, event, fields)

    def tell(self, level: int, event: str, fields: Event) -> None:
        """The same with all there is to say in one object, which it takes."""
        if level < self.level:
            return
        error = fields.pop("exc_info", None)
        lines.stamp(fields, event, logging.getLevelName(level).lower(), now_ns())
        if isinstance(error, BaseException):
            fields["exception"] = _told(error)
        self.write(fields)


log: Final = Log(lines.write)
"""The log of the process."""


def set_up(level: str, redaction: Redaction | None = None) -> None:
    """Configures the log of the process, and sends there what libraries log.

    To be called before grpc is imported.

    Args:
        level: a name such as "info".
        redaction: what is taken out of each line.
    """
    # grpc's C core has a log of its own, which is no JSON; what it would say, we say.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    log.level = logging.getLevelNamesMapping()[level.upper()]
    log.write = lines.write
    if redaction:
        hidden = redaction
        log.write = lambda event: lines.write(hidden.shown(event))
    logging.basicConfig(handlers=[_Relay()], level=logging.WARNING, force=True)


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


def _told(error: BaseException) -> list[Event]:
    """The exception, then what caused it, and so on."""
    told: list[Event] = []
    current: BaseException | None = error
    is_cause = False
    while current is not None and len(told) < CAUSES_MAX:
        told.append({**_one(current), "is_cause": is_cause})
        is_cause = current.__cause__ is not None
        context = None if current.__suppress_context__ else current.__context__
        current = current.__cause__ or context
    return told


def _one(error: BaseException) -> Event:
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return {
        "exc_type": type(error).__name__,
        "exc_value": _text(error),
        "exc_notes": [str(note) for note in getattr(error, "__notes__", ())],
        "frames": _frames(error),
        "is_group": bool(members),
        "exceptions": [_told(each) for each in members],
    }


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - somebody else's class; what happened must be told
        return "(it cannot be shown)"


def _frames(error: BaseException) -> list[Event]:
    found = [
        {"filename": frame.f_code.co_filename, "lineno": line, "name": frame.f_code.co_name}
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    half = FRAMES_MAX // 2
    return found if len(found) <= FRAMES_MAX else found[:half] + found[-half:]
