"""How an event of the log is stamped and written: a line of JSON, on standard error."""

from __future__ import annotations

import functools
import json
import sys
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

__all__ = ["Event", "stamp", "write", "written"]

Event = dict[str, Any]

_encoded: Final[Any] = msgspec.json.Encoder(enc_hook=repr).encode
_spaced: Final[Any] = msgspec.json.format
_any_encoded: Final = json.JSONEncoder(default=repr).encode
"""One encoder: `json.dumps` makes one a line, which takes as long as encoding it."""


def stamp(fields: Event, event: str, level: str, time_ns: int) -> None:
    """Adds to what is said of an event its name, its level and its time, in Unix nanoseconds."""
    fields["event"] = event
    fields["level"] = level
    fields["timestamp"] = _timestamp(time_ns)


def write(event: Event) -> None:
    """Writes an event at once; where it cannot be written, it is lost, and the work goes on."""
    try:
        sys.stderr.write(written(event) + "\n")
        sys.stderr.flush()
    except OSError:
        return


def written(event: Event) -> str:
    """An event as ASCII on one line: nearly all are that as they are, in a quarter of the time."""
    try:
        text = str(_spaced(_encoded(event), indent=0), "ascii")
    except (TypeError, ValueError, OverflowError, RecursionError):
        return _any_encoded(event)
    return text if "\x7f" not in text else _any_encoded(event)


def _timestamp(time_ns: int) -> str:
    """The time as UTC, to the microsecond."""
    second, rest = divmod(time_ns, 1_000_000_000)
    return f"{_second(second)}.{rest // 1_000:06}Z"


@functools.lru_cache(maxsize=1)
def _second(second: int) -> str:
    """Worked out once for all lines of a second."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
