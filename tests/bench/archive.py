"""The archive: what ingest pays for it, how fast it is written, and how soon it answers.

    python -m tests.bench.archive [SESSIONS]

Filled with real rows: sessions that a monitor has judged, again and again under other ids and at other times of a month,
of 40 agents in three versions. Questions are asked as the API asks them; each figure is the median of several.
"""

from __future__ import annotations

import contextlib
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
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
from tests.bench import bounds
from tests.bench.bounds import Bound
from tests.bench.outcome import of_metrics, sent
from tests.bench.process import TRANSPORTS
from tests.bench.service import Server, service
from tests.bench.traffic import generate
from tests.end_to_end.service import SPECS

__all__ = ["BAD", "DAYS", "GOOD", "QUESTIONS", "SPANS", "fill_archive", "records", "samples"]

SESSIONS: Final = 100_000
LUMP: Final = 400
AGENTS: Final = 40
DAYS: Final = 30
ASKED: Final = 5
WRITTEN_MIN: Final = 1_000
"""Finished sessions a second that are written."""
SPANS: Final = 50
"""Spans a request."""
REQUESTS: Final = 100
ROUNDS: Final = 8
RATIO_MAX: Final = 1.03
ANSWER_MS_MAX: Final = 300.0
"""Time of a list, and of a search."""
GOOD: Final = ("unlock_safety", "move", "scan", "open_valve", "water", "log")
BAD: Final = ("unlock_safety", "water", "move", "scan", "water", "log")


def samples(namespaces: Sequence[str] = ("",)) -> list[ArchivedSession]:
    """Sessions that a monitor has judged: six calls each, one in seven with harm; of many namespaces each has its agents."""
    monitor = Monitor(load_specs([SPECS]).specs, Limits(history_complete=True))
    now = 1_000 * HOUR_NS
    for number in range(AGENTS * 7):
        version = f"1.{number % 3}"
        attributes = {"service.name": "farm-rover", "service.version": version}
        for place, tool in enumerate(BAD if number % 7 == 0 else GOOD):
            start = now + number * 1_000_000 + place * 1_000
            call = ToolCall(
                session=SessionKey(
                    namespaces[number % len(namespaces)], f"session-{number:08}"
                ),
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
    chance, judged = random.Random(seed), samples()
    step = DAYS * 24 * HOUR_NS // count
    for number in range(count):
        last = now_ns - (count - number) * step
        yield _again(chance.choice(judged), chance, last)


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


@contextlib.contextmanager
def _services() -> Iterator[dict[str, Server]]:
    """A service without an archive, and one with it."""
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="offrails-archive-"))
        )
        config = folder / "settings.yaml"
        config.write_text(f"archive: {{dir: {folder / 'archive'}}}\n")
        yield {
            "without": stack.enter_context(service()),
            "with": stack.enter_context(service("--config", str(config))),
        }


def ingest() -> dict[str, float]:
    """CPU microseconds of a span, all threads of the service together; in each round another server is the first."""
    best: dict[str, float] = {}
    with _services() as servers:
        for turn in range(ROUNDS):
            traffic = generate(SPANS, REQUESTS, seed=turn + 1)
            for name in sorted(servers, reverse=turn % 2 == 0):
                server = servers[name]
                before, begun = of_metrics(server.metrics()), server.cpu_ns()
                next(iter(TRANSPORTS.values()))(server, traffic)
                cost = (server.cpu_ns() - begun) / traffic.spans / 1e3
                assert of_metrics(server.metrics()).since(before) == sent(traffic)
                best[name] = min(best.get(name, cost), cost)
    return best


def answers(folder: Path, now: int) -> float:
    """Says how long questions take; milliseconds of the slowest list or search."""
    reader, slowest = ArchiveReader(folder), 0.0
    for what, search in QUESTIONS.items():
        page = _ms(partial(reader.page, search, 51))
        counted = _ms(partial(reader.page, search, 0))
        slowest = max(slowest, page)
        print(f"{what:38} {page:7.1f} ms, count alone {counted:7.1f} ms")
    day = now // HOUR_NS // 24 * 24
    week = SumsSearch(day - 7 * 24, day + 24, 24)
    for what, sums in (("a week", week), ("a month", week._replace(since=day - DAYS * 24))):
        print(f"{f'figures of {what}':38} {_ms(partial(_sums, reader, sums)):7.1f} ms")
    return slowest


def main() -> None:
    """Fills, asks, and says what was found."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS
    cpu = ingest()
    print(
        f"CPU of a span: {cpu['without']:.1f} us without an archive, {cpu['with']:.1f} us with one"
    )
    now = time.time_ns()
    with tempfile.TemporaryDirectory(prefix="offrails-archive-") as name:
        folder = Path(name)
        rate = count / fill_archive(folder, count, now)
        size = file_bytes(folder) / count
        print(
            f"{count:,} sessions of {len(GOOD)} calls under two specs: {rate:,.0f} written a second, {size:,.0f} bytes each"
        )
        slowest = answers(folder, now)
    found = [
        Bound(
            "CPU of a span, with an archive against without",
            cpu["with"] / cpu["without"],
            RATIO_MAX,
        ),
        Bound("time to write 1,000 finished sessions", 1e3 * WRITTEN_MIN / rate, 1e3, "ms"),
        Bound(
            f"the slowest list or search of {count:,} sessions", slowest, ANSWER_MS_MAX, "ms"
        ),
    ]
    print(bounds.lines(found))


if __name__ == "__main__":
    main()
