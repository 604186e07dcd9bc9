"""How an event of the log is stamped and rendered: as a line of JSON, or for people on a terminal."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

__all__ = ["Event", "as_line", "for_terminal", "stamp", "write", "written"]

Event = dict[str, Any]

_encoded: Final[Any] = msgspec.json.Encoder(enc_hook=repr).encode
_spaced: Final[Any] = msgspec.json.format
_any_encoded: Final = json.JSONEncoder(default=repr).encode
"""One encoder: `json.dumps` makes one a line, which takes as long as encoding it."""


def stamp(fields: Event, event: str, level: str, time_ns: int) -> None:
    """Adds to the fields of an event its name, its level and its time, in Unix nanoseconds."""
    fields["event"] = event
    fields["level"] = level
    fields["timestamp"] = _timestamp(time_ns)


def write(event: Event) -> None:
    """Writes an event at once; where it cannot be written, it is lost, and the work goes on."""
    try:
        sys.stderr.write(as_line(event))
        sys.stderr.flush()
    except OSError:
        return


def as_line(event: Event) -> str:
    """An event as a line of JSON, with its end."""
    return written(event) + "\n"


def for_terminal() -> Callable[[Event], str]:
    """What renders events for people: time, level and event first, then what is known of it.

    Colours are left out where NO_COLOR says so (no-color.org), or the terminal knows none.
    """
    from collector.telemetry.structured import ConsoleRenderer

    colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    # Every text is shown as Python writes it: an agent must not command the terminal.
    console = ConsoleRenderer(colors=colours, sort_keys=False, repr_native_str=True)
    return functools.partial(_for_people, console)


def _for_people(console: Any, event: Event) -> str:
    shown = {key: value for key, value in event.items() if value is not None}
    shown["event"] = _plain(str(event["event"]))
    if isinstance(event.get("exception"), list):
        shown["exception"] = "\n".join(_exception(event["exception"]))
    text: str = console(None, event["level"], shown)
    return text + "\n"


def _exception(raised: list[Any]) -> list[str]:
    """The exception and its causes, each with where it came from."""
    lines = []
    for each in raised:
        lines.append(_plain(f"  {each['exc_type']}: {each['exc_value']}"))
        lines += [
            _plain(f"    {frame['filename']}:{frame['lineno']} in {frame['name']}")
            for frame in each["frames"]
        ]
        for member in each["exceptions"]:
            lines += ["  " + line for line in _exception(member)]
    return lines


def _plain(text: str) -> str:
    """A text without what a terminal would obey."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


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
