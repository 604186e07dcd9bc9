"""The archive: what ingest pays for it, how fast it is written, and how soon it answers.

    python -m tests.bench.archive [SESSIONS]

Filled with real rows: sessions that a monitor has judged, again and again under other ids and at other times of a month,
of 40 agents in three versions. Questions are asked as the API asks them; each figure is the median of several.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Final

from collector.api.archive.archive_feed import archived
from collector.archive.reader import ArchiveReader
from collector.archive.record import HOUR_NS, ArchivedSession, SessionName
from collector.archive.search import ArchiveSearch, SumsSearch
from collector.archive.store import ArchiveStore, file_bytes
from collector.calls.decisions.prevented_calls import PreventedCalls
from collector.telemetry.redaction import Redaction
from monitor.engine import Monitor
from monitor.limits import Limits
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.spec.read import load_specs
from tests.end_to_end.service import SPECS

__all__ = ["DAYS", "QUESTIONS", "fill_archive", "records"]

SESSIONS: Final = 100_000
LUMP: Final = 400
AGENTS: Final = 40
DAYS: Final = 30
ASKED: Final = 5
WRITTEN_MIN: Final = 1_000
"""Finished sessions a second that are written."""
ANSWER_MS_MAX: Final = 300.0
"""Time of a list, and of a search."""
GOOD: Final = ("unlock_safety", "move", "scan", "open_valve", "water", "log")
BAD: Final = ("unlock_safety", "water", "move", "scan", "water", "log")


def _samples() -> list[ArchivedSession]:
    """Sessions that a monitor has judged: six calls each, one in seven with harm."""
    monitor = Monitor(load_specs([SPECS]).specs, Limits(history_complete=True))
    now = 1_000 * HOUR_NS
    for number in range(AGENTS * 7):
        version = f"1.{number % 3}"
        attributes = {"service.name": "farm-rover", "service.version": version}
        for place, tool in enumerate(BAD if number % 7 == 0 else GOOD):
            start = now + number * 1_000_000 + place * 1_000
            call = ToolCall(
                session=SessionKey("", f"session-{number:08}"),
                agent=f"rover-{number % AGENTS}",
                tool=tool,
                arguments=None,
                error=False,
                start_ns=start,
                end_ns=start + 500,
                trace_id=(number + 1).to_bytes(16, "big"),
                span_id=(number * 100 + place + 1).to_bytes(8, "big"),
                parent_span_id=b"",
                call_id="",
                evidence=Evidence.EXECUTED,
                attributes=attributes,
            )
            monitor.observe(call, start + 600)
    found = {session.key: session for session, _ in monitor.reader.open_judgements()}
    denied, redaction = PreventedCalls(), Redaction()
    made = (archived(each, monitor, redaction, denied) for each in found.values())
    return [each._replace(ended="idle") for each in made]


def records(count: int, now_ns: int, seed: int = 1) -> Iterator[ArchivedSession]:
    """So many sessions of the last `DAYS` days, the earliest first."""
    chance, samples = random.Random(seed), _samples()
    step = DAYS * 24 * HOUR_NS // count
    for number in range(count):
        last = now_ns - (count - number) * step
        yield _again(chance.choice(samples), chance, last)


def _again(sample: ArchivedSession, chance: random.Random, last: int) -> ArchivedSession:
    """The same session under another id, at another time, with other spans."""
    name = f"{chance.getrandbits(128):032x}"
    begun, old = last - (sample.last - sample.name.begun), sample.name
    hours = last // HOUR_NS - sample.last // HOUR_NS
    judgements = tuple(
        each._replace(
            summary=_renamed(each.summary, old, name, begun, last),
            object=_renamed(each.object, old, name, begun, last),
        )
        for each in sample.judgements
    )
    return sample._replace(
        name=SessionName("", name, begun),
        last=last,
        touched=last,
        traces=(chance.randbytes(16),),
        spans=tuple(chance.randbytes(8) for _ in sample.spans),
        judgements=judgements,
        shares=tuple(each._replace(hour=each.hour + hours) for each in sample.shares),
        harms=tuple(each._replace(hour=each.hour + hours) for each in sample.harms),
    )


def _renamed(text: bytes, old: SessionName, name: str, begun: int, last: int) -> bytes:
    found = json.loads(text)
    found |= {"session": name, "started": begun, "last": last}
    return json.dumps(found, separators=(",", ":")).encode()


def fill_archive(folder: Path, count: int, now_ns: int) -> float:
    """Fills an archive; seconds that the writing took."""
    store, took = ArchiveStore(folder), 0.0
    found = records(count, now_ns)
    while lump := [*islice(found, LUMP)]:
        began = time.perf_counter()
        store.write(lump)
        took += time.perf_counter() - began
    store.close()
    return took


def _sums(reader: ArchiveReader, search: SumsSearch) -> None:
    reader.sums(search)
    reader.harm_sums(search)


def _ms(ask: Callable[[], object]) -> float:
    times = []
    for _ in range(ASKED):
        began = time.perf_counter()
        ask()
        times.append(1e3 * (time.perf_counter() - began))
    return median(times)


QUESTIONS: Final = {
    "list, most recent": ArchiveSearch(),
    "list, most harmful": ArchiveSearch(sort="harm"),
    "list, worst severity, harmful alone": ArchiveSearch(sort="severity", harmful=True),
    "search of an agent": ArchiveSearch(text="rover-7"),
    "search of nothing": ArchiveSearch(text="nothing of the sort"),
    "search of a part of an id": ArchiveSearch(text="3fa9c1"),
    "filter: agent": ArchiveSearch(sort="harm", agent="rover-7"),
    "filter: agent, version, harmful": ArchiveSearch(
        sort="harm", agent="rover-7", service_version="1.1", harmful=True
    ),
    "filter: reason and tool": ArchiveSearch(sort="harm", reason="out_of_order", tool="water"),
    "filter: severity": ArchiveSearch(sort="severity", severity="critical"),
}


def main() -> int:
    """Fills, asks, and says what was found."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS
    now = time.time_ns()
    with tempfile.TemporaryDirectory(prefix="offrails-archive-") as name:
        folder = Path(name)
        took = fill_archive(folder, count, now)
        rate = count / took
        print(
            f"{count:,} sessions of {len(GOOD)} calls under two specs or one: {rate:,.0f} written a second, {file_bytes(folder) / count:,.0f} bytes a session"
        )
        reader = ArchiveReader(folder)
        slowest = 0.0
        for what, search in QUESTIONS.items():
            page, matching = (
                _ms(partial(reader.search, search, 51)),
                _ms(partial(reader.matching, search)),
            )
            slowest = max(slowest, page + matching)
            print(f"{what:38} {page:7.1f} ms, counted {matching:7.1f} ms")
        day = now // HOUR_NS // 24 * 24
        week = SumsSearch(day - 7 * 24, day + 24, 24)
        month = week._replace(since=day - DAYS * 24)
        for what, sums in (("a week", week), ("a month", month)):
            print(f"{f'figures of {what}':38} {_ms(partial(_sums, reader, sums)):7.1f} ms")
    written, soon = rate >= WRITTEN_MIN, slowest <= ANSWER_MS_MAX
    print(
        f"check: archive: {rate:,.0f} sessions a second are written: {'kept' if written else 'FAILED'}"
    )
    print(
        f"check: archive: the slowest list or search takes {slowest:.0f} ms: {'kept' if soon else 'FAILED'}"
    )
    return int(not (written and soon))


if __name__ == "__main__":
    sys.exit(main())
