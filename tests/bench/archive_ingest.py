"""What ingest pays for the archive: CPU of a span, from its receipt until its session has ended, and is written.

    python -m tests.bench.archive_ingest [PAIRS]

Two services, one with an archive; both get the same sessions, one after the other, in turns of who is first. A round is over when all of
its sessions have ended and, with an archive, stand in it. So the cost has the rows of a session, which are built at its end.
"""

from __future__ import annotations

import contextlib
import random
import re
import sqlite3
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Final, NamedTuple

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.archive.store import FILE
from tests.bench.archive import BAD, GOOD, SPANS
from tests.bench.outcome import of_metrics
from tests.bench.sender import Sender, prepared
from tests.bench.service import Server, service
from tests.bench.wire import group, request, span

__all__ = ["Costs", "measure"]

PAIRS: Final = 20
SESSIONS: Final = 200
CALLS: Final = 20
"""Of a session."""
SETTINGS: Final = "sessions: {idle_seconds: 1, remember_seconds: 1}\n"
WAIT_SECONDS: Final = 7.0
"""Sessions end after one, and are built and written soon after."""
_HARMLESS, _HARMFUL = (
    [each for tool in tools for each in (tool, "irrigate", "irrigate", "irrigate")][:CALLS]
    for tools in (GOOD, BAD)
)
"""Reads between the calls: a script again from its beginning would be harmful."""
_ENDED: Final = re.compile(r"^offrails_sessions_ended_total\{.*\} (\S+)$", re.MULTILINE)
_WRITTEN: Final = re.compile(r"^offrails_archive_sessions_written_total (\S+)$", re.MULTILINE)


class Costs(NamedTuple):
    """CPU microseconds of a span, all threads of the service."""

    received: float
    """Until the last answer."""
    whole: float
    """Until all sessions have ended, and are written."""


def _bodies(seed: int) -> list[bytes]:
    """Sessions of a fleet whose calls come between each other's; one in seven does harm."""
    chance = random.Random(seed)
    above, size = group([("service.name", "farm-rover")], "bench", "1")
    spans: list[bytes] = []
    now = time.time_ns()
    traces = [chance.randbytes(16) for _ in range(SESSIONS)]
    for place in range(CALLS):
        for number, trace in enumerate(traces):
            tools = _HARMFUL if number % 7 == 0 else _HARMLESS
            told = [
                ("gen_ai.operation.name", "execute_tool"),
                ("gen_ai.tool.name", tools[place]),
                ("gen_ai.conversation.id", f"{seed}-{number}"),
                ("gen_ai.agent.name", f"rover-{number % 40}"),
            ]
            begin = now + place * 1_000_000
            kind, id_ = Span.SPAN_KIND_INTERNAL, chance.randbytes(8)
            name = f"execute_tool {told[1][1]}"
            spans.append(span(trace, id_, b"", name, kind, begin, begin + 500_000, told))
    return [
        request([((above, size), spans[at : at + SPANS])]) for at in range(0, len(spans), SPANS)
    ]


def _round(server: Server, bodies: list[bytes], *, has_archive: bool) -> Costs:
    text, begun = server.metrics(), server.cpu_ns()
    with contextlib.closing(Sender(server.ports["http"])) as sender:
        for body in bodies:
            sender.post(prepared(body))
    received = server.cpu_ns() - begun
    time.sleep(WAIT_SECONDS)  # no scrape meanwhile: it would be a part of the cost
    whole = server.cpu_ns() - begun
    now = server.metrics()
    assert of_metrics(now).since(of_metrics(text)).calls == SESSIONS * CALLS
    assert _sum(_ENDED, now) - _sum(_ENDED, text) == SESSIONS, "not all have ended"
    written = _sum(_WRITTEN, now) - _sum(_WRITTEN, text)
    assert written >= SESSIONS * has_archive, f"{written} are written"
    spans = SESSIONS * CALLS * 1e3
    return Costs(received / spans, whole / spans)


def _sum(pattern: re.Pattern[str], text: str) -> int:
    return sum(int(float(each)) for each in pattern.findall(text))


def measure(pairs: int) -> list[tuple[Costs, Costs]]:
    """Costs without an archive and with one, by pairs."""
    found = []
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="offrails-archive-"))
        )
        servers = []
        for name, more in (
            ("without", ""),
            ("with", f"archive: {{dir: {folder / 'archive'}}}\n"),
        ):
            config = folder / f"{name}.yaml"
            config.write_text(SETTINGS + more)
            servers.append(stack.enter_context(service("--config", str(config))))
        for turn in range(pairs + 1):
            bodies = _bodies(turn)
            order = (0, 1) if turn % 2 else (1, 0)
            costs = {
                each: _round(servers[each], bodies, has_archive=each == 1) for each in order
            }
            if turn:  # the first round loads what is loaded when used
                found.append((costs[0], costs[1]))
        _check(folder / "archive" / FILE, (pairs + 1) * SESSIONS)
    return found


def _check(path: Path, sessions: int) -> None:
    """Each session is there once, ended."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        found = connection.execute("SELECT count(*), count(ended) FROM sessions").fetchone()
        assert found == (sessions, sessions), found


def _line(what: str, pairs: list[tuple[float, float]]) -> str:
    ratios = [after / before for before, after in pairs]
    low, _, high = quantiles(ratios)
    alone, both = (median(column) for column in zip(*pairs, strict=True))
    return (
        f"{what}: {alone:.1f} us without, {both:.1f} us with; ratio {median(ratios):.3f},"
        f" quartiles {low:.3f} to {high:.3f}, {min(ratios):.3f} to {max(ratios):.3f} in all"
    )


def main() -> None:
    """Measures, and says what was found."""
    pairs = measure(int(sys.argv[1]) if len(sys.argv) > 1 else PAIRS)
    for what in Costs._fields:
        print(_line(what, [(getattr(a, what), getattr(b, what)) for a, b in pairs]))


if __name__ == "__main__":
    main()
