"""`offrails tail`: the verdicts of a running service, in a terminal, as they are given.

What an agent says is hostile: everything that is not printable is escaped before it is shown, so
that no name can move the cursor, change colours, or begin a line of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from collector.client.api_client import NoAnswerError, opened, shown_url
from collector.sinks.alert.page_alert import DETAIL_MAX
from collector.sinks.printable_text import printable
from monitor.visibility.words import unless_words

__all__ = ["DEFAULT_URL", "Filters", "formatted", "lines", "tail"]

DEFAULT_URL = "http://127.0.0.1:4319"
PATH = "/api/v1/verdicts"
SILENCE_SECONDS = 30.0
"""The service says something each 10 s; after so long it is taken as gone."""

LINE_BYTES_MAX = 1 << 20
"""A verdict is a line of some hundred bytes."""

_COLOURS = {
    "progress": "32",
    "self_loop": "2",
    "control": "2",
    "harmful": "1;31",
    "cannot_finish": "1;31",
    "stalled": "1;33",
    "possible": "33",
}
_ALARMING = frozenset({"harmful", "cannot_finish", "stalled"})
_LEVELS = {"page": "1;31", "hint": "36", "advisory": "35"}
_WITHDRAWN = "33"
_WIDTH = 9


class Filters(NamedTuple):
    """Which verdicts are shown; "" and an empty set let all pass."""

    agent: str = ""
    spec: str = ""
    session: str = ""
    kinds: frozenset[str] = frozenset()

    def matches(self, verdict: dict[str, Any]) -> bool:
        """True for a verdict that is to be shown."""
        return (
            self.agent in ("", verdict.get("agent"))
            and self.spec in ("", verdict.get("spec"))
            and self.session in ("", verdict.get("session"))
            and (not self.kinds or not self.kinds.isdisjoint(_kinds(verdict)))
        )


def _kinds(verdict: dict[str, Any]) -> set[str]:
    """What a verdict is asked for by."""
    found = {str(verdict.get("kind"))}
    if verdict.get("possible") or verdict.get("was_possible"):
        found.add("possible")
    return found


def tail(
    url: str,
    filters: Filters,
    show: Callable[[str], None],
    *,
    colour: bool,
    raw: bool = False,
    token_file: Path | None = None,
    note: Callable[[str], None] | None = None,
) -> None:
    """Shows verdicts until the service stops.

    Args:
        url: the base of the admin listener.
        filters: which verdicts.
        show: takes each line.
        colour: with the terminal's colours.
        raw: the JSON as it came, hostile text escaped as JSON does it.
        token_file: has the token that the service asks for.
        note: takes a sentence, once, if the connection is there before the first verdict.

    Raises:
        NoAnswerError: no service there, or it went silent.
    """
    stream = _stream(url, token_file)
    if note is not None:
        connected = f"connected to {shown_url(url)}, waiting for the first verdict"
        stream = _noted(stream, connected, note)
    for verdict in lines(stream):
        if "missed" in verdict and "kind" not in verdict:
            show(f"... {int(verdict['missed'])} verdicts missed: this reader is too slow")
        elif filters.matches(verdict):
            show(json.dumps(verdict) if raw else formatted(verdict, colour=colour))


def _stream(url: str, token_file: Path | None) -> Iterator[bytes]:
    with opened(url, PATH, SILENCE_SECONDS, token_file) as answer:
        yield from _split(answer.iter_raw())


def _noted(
    stream: Iterable[bytes], connected: str, note: Callable[[str], None]
) -> Iterator[bytes]:
    """The same lines; says that the stream is there if it begins with an empty line."""
    for number, line in enumerate(stream):
        if not number and not line.strip():
            note(connected)
        yield line


def _split(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The lines of a stream, and nothing but line feeds ends one."""
    waiting = b""
    for part in parts:
        *whole, waiting = (waiting + part).split(b"\n")
        yield from whole
        if len(waiting) > LINE_BYTES_MAX:
            raise NoAnswerError("a line of the stream is too long")
    yield waiting


def lines(stream: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The objects of a stream of JSON lines; empty lines keep it alive."""
    for line in stream:
        if line.strip():
            found = json.loads(line)
            if isinstance(found, dict):
                yield found


def formatted(verdict: dict[str, Any], *, colour: bool) -> str:
    """One verdict, or one alarm of a reference, as one line."""
    if verdict.get("kind") == "divergence":
        return _alarm(verdict, colour=colour)
    kind = str(verdict.get("kind"))
    possible = verdict.get("possible") is True
    if possible:
        kind = "possible"
    alarming = kind in _ALARMING or possible
    withdrawn = verdict.get("revised_from") in _ALARMING and not alarming
    word = kind.ljust(_WIDTH)
    if colour:
        code = _WITHDRAWN if withdrawn else _COLOURS.get(kind, "0")
        word = f"\x1b[{code}m{word}\x1b[0m"
    found = [
        word,
        _text(verdict, "agent"),
        _text(verdict, "spec"),
        f"{_text(verdict, 'session')}#{_text(verdict, 'step')}",
        _text(verdict, "tool"),
    ]
    if alarming:
        found += [f"{_text(verdict, 'reason')} ({_text(verdict, 'severity')})"]
    if alarming and verdict.get("detail"):
        found.append(printable(str(verdict["detail"]), DETAIL_MAX))
    elif alarming and verdict.get("constraint"):
        found.append(_text(verdict, "constraint"))
    if alarming:
        found += [
            f"{name}: {_listed(verdict[name])}"
            for name in ("allowed", "skipped")
            if verdict.get(name)
        ]
    if verdict.get("certain_call") is False:
        found.append("(this call or an earlier one)")
    if possible:
        unless = verdict.get("unless")
        causes = (
            [each for each in unless if isinstance(each, str)]
            if isinstance(unless, list)
            else []
        )
        found.append(unless_words(causes, _text(verdict, "unless_began_before")))
    if verdict.get("was_possible"):
        found.append("(was possible)")
    if verdict.get("revised_from"):
        found.append(f"(was {_text(verdict, 'revised_from')})")
    return "  ".join(found)


def _alarm(alarm: dict[str, Any], *, colour: bool) -> str:
    word, withdrawn = "diverged".ljust(_WIDTH), bool(alarm.get("withdrawn"))
    if colour:
        code = _WITHDRAWN if withdrawn else _LEVELS.get(str(alarm.get("level")), "0")
        word = f"\x1b[{code}m{word}\x1b[0m"
    found = [
        word,
        _text(alarm, "agent"),
        _text(alarm, "spec"),
        f"{_text(alarm, 'session')}#{_text(alarm, 'step')}",
        _text(alarm, "tool"),
        f"{_text(alarm, 'alarm')} ({_text(alarm, 'level')})",
    ]
    found += [_text(alarm, name) for name in ("departure", "phase") if alarm.get(name)]
    if alarm.get("expected"):
        found.append(f"expected: {_listed(alarm['expected'])}")
    for name in ("precision", "risk"):
        if isinstance(alarm.get(name), int | float):
            found.append(f"{name}: {alarm[name]:.2f}")
    if withdrawn:
        found.append("(withdrawn)")
    return "  ".join(found)


def _text(verdict: dict[str, Any], name: str) -> str:
    value = verdict.get(name)
    return "-" if value in (None, "") else printable(str(value), 80)


def _listed(names: Any) -> str:
    return ", ".join(printable(str(name), 64) for name in list(names)[:8])
