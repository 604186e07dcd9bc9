"""Recovers state by replaying the journal.

Idea: the same receiver, pipeline and monitor process the records in order, each at its original time.
A request is decoded and judged; a tick makes verdicts final and ends sessions. Nothing is delivered meanwhile: messages
for the sinks wait until the end, and those that were delivered before are taken out (`RecordKind.DELIVERED`).

Counters are set to what they were at each place where they were written, so that they go on, however much of the
journal was deleted or damaged.

Requests that arrive meanwhile are kept behind all that, and are judged in their turn (`collector.state.backlog`).

Nothing here raises for what is in the journal: what cannot be read or judged is counted, and the rest is used.

Example: a process is killed, and the next one starts 2 s later. It replays 40,000 requests, sends the page that had
settled but not left, and takes the first new span as one that comes 2 s after the last.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, Protocol

from collector import __version__
from collector.receive.export import Export
from collector.receive.status_codes import GRPC_NAMES, Code, ExportStatus, Refusal
from collector.restart.snapshot_content import SnapshotContent
from collector.restart.state_counters import CountersOfParts, StatefulParts
from collector.state.backlog import Backlog
from collector.state.heads import Heads
from collector.state.journal import Journal
from collector.state.journal_files import SegmentFile
from collector.state.journal_reader import JournalReader
from collector.state.records import (
    ConfirmationRecord,
    DeliveryRecord,
    OpeningRecord,
    OperatorRecord,
    QuestionRecord,
    RecordKind,
    SpecsRecord,
    UnwrittenRecord,
    decoded,
    encoded,
    request_of,
)
from collector.state.segment import place_of
from collector.state.segment_reading import Damage, Record
from collector.state.snapshot import SnapshotManifest
from collector.state.spec_texts import compiled
from collector.telemetry.clock import JUMP_NS, ReplayClock
from collector.telemetry.counters import Stats
from collector.telemetry.logs import log
from monitor.aggregate.kept_counters import set_pair_counters
from monitor.engine import Monitor
from monitor.limits import SECOND
from monitor.spec.spec import Spec
from monitor.visibility.cause import Cause

__all__ = ["Receive", "Recovery", "ReplayTarget", "compiled"]

TURN_SECONDS: Final = 0.01
"""Time of work before health is answered."""
DAMAGES_LOGGED: Final = 20
AT_ONCE_BYTES: Final = 4 << 20
"""Bytes of the journal in memory before they are judged, unless a record is larger."""
_FIRST: Final = frozenset({RecordKind.CLOCK, RecordKind.OPENED})
"""Records that a process begins with."""

Receive = Callable[[], Awaitable[None]]


class ReplayTarget(Protocol):
    """What a replay moves besides requests and `StatefulParts`."""

    def tick_again(self, now: int) -> None:
        """Time went on."""
        ...

    def use_again(self, specs: Sequence[Spec]) -> None:
        """These specs were in use from here on."""
        ...

    def operated_again(self, done: OperatorRecord) -> None:
        """An operator ended a session, or had sessions judged again."""
        ...


class Recovery:
    """One replay, at the start of a process.

    Args:
        past: what is in the journal.
        journal: counts.
        clock: is set to the times of then.
        monitor: made for the time at which the replay begins.
        stats: the process's counters.
        export: judges requests, and keeps none.
        parts: what else goes on.
        counters: of these.
        heads: learns since when the counters count.
        app: all else.
        bridged_ns: down-time that senders bridge by sending again: nothing is missed then.
        content: of the newest snapshot, where the replay begins.
    """

    def __init__(
        self,
        past: JournalReader,
        journal: Journal,
        clock: ReplayClock,
        monitor: Monitor,
        stats: Stats,
        export: Export,
        parts: StatefulParts,
        counters: CountersOfParts,
        heads: Heads,
        app: ReplayTarget,
        bridged_ns: int,
        content: SnapshotContent,
    ) -> None:
        self._past = past
        self._journal = journal
        self._clock = clock
        self._monitor = monitor
        self._stats = stats
        self._export = export
        self._parts = parts
        self._counters = counters
        self._heads = heads
        self._app = app
        self._bridged_ns = bridged_ns
        self._content = content
        self._digest = b""
        self._judged = 0
        self._late = 0
        """Number of these requests that arrived during the replay."""
        self._wrong = 0
        self._is_own = False
        """True for records of this process: what has become of messages is counted already."""
        self._restored: SnapshotManifest | None = None
        self._last_ns = 0
        """Time of the last record."""
        self._spoilt: Damage | None = None
        """Damage after it, which cannot be read."""
        self._turn = time.perf_counter()

    async def run(self, specs: Sequence[Spec], receive: Receive | None) -> None:
        """Goes through all of it, and what was kept meanwhile, and comes back to the present.

        Nothing is left when this returns, and nothing was awaited since that was seen.

        Args:
            specs: in use from now on.
            receive: opens the receivers, whose requests are kept and judged in their turn; None: they open later.
        """
        begun = time.perf_counter()
        if self._past.head is None:
            self._content.forget()
            await self._open()
        else:
            if receive is not None:
                await self._open()
                await receive()
            try:
                place = await self._begin()
                await self._go_through(specs, place, opens=receive is None)
            finally:
                self._clock.at_ns = None
        self._journal.replayed += self._judged
        self._journal.recovery_seconds = time.perf_counter() - begun
        self._report()

    async def _open(self) -> None:
        """Begins to write, behind all that is to be gone through."""
        missed_ns, by = -1, 0
        self._clock.at_ns = None
        if self._past.head is not None:
            last_ns = await asyncio.to_thread(self._past.last_ns)
            missed_ns, by = self._away(last_ns, self._clock())
        now, journal = self._clock(), self._journal
        journal.begin()
        if by:
            journal.try_append(RecordKind.CLOCK, now, encoded(by))
        journal.try_append(
            RecordKind.OPENED, now, encoded(OpeningRecord(__version__, missed_ns))
        )
        self._heads.write_specs()

    async def _go_through(self, specs: Sequence[Spec], place: int, *, opens: bool) -> None:
        """The files of earlier processes from a place on, and what this one has written by then."""
        for found in self._past.paths:
            source = self._past.records(found)
            while some := await self._next(source, found):
                for each in some:
                    if place_of(found.number, each.offset) >= place or found.problem:
                        await self._take(each)
        if self._heads.in_use.digest != self._digest:
            self._app.use_again(specs)
            self._digest = self._heads.in_use.digest
        if opens:
            await self._open()
        before, backlog = self._judged, Backlog(self._journal)
        self._is_own = True
        while not backlog.is_empty:
            for each in await backlog.read():
                await self._take(each)
        self._late = self._judged - before
        self._past.damages += backlog.damages

    async def _next(
        self, source: Iterator[Record | Damage], found: SegmentFile
    ) -> list[Record | Damage]:
        """The next records and damages of a file, read beside the event loop; none at its end."""
        try:
            return await asyncio.to_thread(_some, source)
        except OSError as problem:
            self._past.unreadable(found, problem)
            return [Damage(0, found.bytes, problem.strerror or str(problem))]

    async def _begin(self) -> int:
        """Brings back what the replay begins with, and gives its place."""
        self._digest = self._heads.in_use.digest
        restored = await self._content.restore(self._breathe)
        if restored is None:
            self._begin_with_head()
            return 0
        about, state = restored
        self._count(state.counters)
        self._parts.alerts.waited_before(state.waiting)
        self._past.skip_to(about.place, about.files)
        self._last_ns = about.at_ns
        self._restored = about
        self._digest = about.specs
        return about.place

    def _begin_with_head(self) -> None:
        head = self._past.head
        assert head is not None
        self._clock.at_ns = self._last_ns = head.started_ns
        self._heads.since_ns = head.started_ns
        self._monitor.kept.drop_marks(head.marks)
        if head.missed_ns >= 0:
            self._monitor.gaps.missed(head.missed_ns, head.started_ns)
        if head.specs is not None:
            self._use(head.specs)
        if head.counters is not None:
            begun_ns = self._past.paths[
                0
            ].begun_ns  # what was on its way then is forgotten, too
            self._count(head.counters, begun_ns + self._monitor.limits.window_ns)

    async def _take(self, each: Record | Damage) -> None:
        if isinstance(each, Damage):
            self._spoilt = each if self._spoilt is None or self._spoilt.torn else self._spoilt
            return
        if self._spoilt is not None:
            self._note_spoilt(self._spoilt, each)
        self._clock.at_ns = self._last_ns = each.at_ns
        try:
            if each.kind == RecordKind.REQUEST:
                await self._judge(each)
            else:
                self._apply(each)
        except Exception as error:  # noqa: BLE001 - the rest is still of use
            self._fail(each, error)
        await self._breathe()

    def _note_spoilt(self, spoilt: Damage, behind: Record) -> None:
        """Something between two records cannot be read: requests may have been in it, of anybody.

        A torn end holds none where another process follows: what its process had not written whole, it had not
        acknowledged. That process says itself whether anything was missed.
        """
        self._spoilt = None
        if spoilt.torn and behind.kind in _FIRST:
            return
        self._lose("newer" if spoilt.newer else "damage", self._last_ns, behind.at_ns)

    def _lose(self, where: str, since_ns: int, until_ns: int) -> None:
        """The one place where it is told that spans of a time may be missing.

        Args:
            where: a label of `Journal.gaps`.
            since_ns: as `Gaps.missed` has it.
            until_ns: likewise.
        """
        self._journal.gaps[where] += 1
        cause = Cause.OUTAGE if where == "down" else Cause.LOST
        self._monitor.gaps.missed(since_ns, until_ns, cause)

    async def _breathe(self) -> None:
        """Lets others have their turn, now and then."""
        if time.perf_counter() - self._turn > TURN_SECONDS:
            await asyncio.sleep(0)
            self._turn = time.perf_counter()

    def _fail(self, record: Record, error: Exception) -> None:
        self._wrong += 1
        self._stats.count("internal_errors", type(error).__name__)
        if self._wrong == 1:
            kind = RecordKind(record.kind).name.lower()
            log.error("journal_record_failed", kind=kind, offset=record.offset, exc_info=error)

    async def _judge(self, record: Record) -> None:
        request = request_of(record.payload)
        code = ExportStatus.OK.value
        try:
            await self._export.ingest(
                "traces", request.body, request.encoding, request.transport, request.sender
            )
        except Refusal as refusal:
            code = refusal.status.value
        self._judged += 1
        self._stats.request(request.transport, "traces", _word(code, request.transport))

    def _apply(self, record: Record) -> None:
        now, payload = record.at_ns, record.payload
        kind = RecordKind(record.kind)
        if kind is RecordKind.TICK:
            self._app.tick_again(now)
        elif kind is RecordKind.SETTLED:
            self._parts.alerts.tick(now)
        elif kind is RecordKind.CLOSED:
            self._parts.alerts.flush(now)
        elif kind in (RecordKind.QUESTION, RecordKind.OUTCOME):
            asked, decisions = decoded(payload, QuestionRecord), self._parts.decisions
            take = decisions.settle if kind is RecordKind.OUTCOME else decisions.decide
            decisions.again(take, asked.body, asked.sender)
        elif kind is RecordKind.OPERATED:
            self._app.operated_again(decoded(payload, OperatorRecord))
        elif kind is RecordKind.COUNTERS:
            self._count(decoded(payload, dict))
        elif kind is RecordKind.PAIR:
            set_pair_counters(self._monitor.totals, decoded(payload, dict))
        elif kind is RecordKind.SPECS:
            self._use(decoded(payload, SpecsRecord))
        elif kind is RecordKind.DELIVERED:
            delivered = decoded(payload, DeliveryRecord)
            self._parts.alerts.settled_before(delivered.sink, delivered.keys)
        elif kind is RecordKind.CONFIRMED and not self._is_own:
            if self._parts.forwarding is not None:
                self._parts.forwarding.confirmed_before(decoded(payload, ConfirmationRecord))
        elif kind is RecordKind.CLOCK:
            self._monitor.clock_moved(decoded(payload, int), now)
        elif kind is RecordKind.GAP:
            self._lose("unwritten", decoded(payload, UnwrittenRecord).since_ns, now)
        elif kind is RecordKind.OPENED:
            missed_ns = decoded(payload, OpeningRecord).missed_ns
            if missed_ns >= 0:
                self._lose("down", missed_ns, now)

    def _count(self, found: dict[str, Any], forgot_ns: int | None = None) -> None:
        self._heads.since_ns = found.get("since_ns", self._heads.since_ns)
        self._monitor.kept.set_counters(found.get("monitor", {}), forgot_ns=forgot_ns)
        self._stats.set_kept(found.get("stats", {}))
        self._counters.set(found.get("more", {}))
        self._journal.set_kept(found.get("journal", {}))

    def _use(self, found: SpecsRecord) -> None:
        """Takes specs of then, where they are others than before and their texts are there."""
        if found.digest == self._digest or found.texts is None:
            return
        specs = compiled(found.texts, self._clock())
        if specs is not None:
            self._digest = found.digest
            self._app.use_again(specs)
            self._content.versions.use(found)

    def _away(self, last_ns: int, now: int) -> tuple[int, int]:
        """What the time without a service means: since when spans were missed, -1 if not; by how much the clock was set."""
        if now < last_ns - JUMP_NS:
            return -1, now - last_ns
        down = max(0, now - last_ns)
        self._journal.down_seconds = down / SECOND
        return (-1 if down <= self._bridged_ns else last_ns), 0

    def _report(self) -> None:
        damages = self._past.damages
        self._journal.flaws = sum(not (each.torn or each.newer) for each in damages)
        for each in damages[:DAMAGES_LOGGED]:
            _log_damage(each)
        if self._past.head is None:
            return
        log.info(
            "state_recovered",
            requests=self._judged,
            snapshot=self._restored is not None,
            received_meanwhile=self._late,
            sessions=self._monitor.sessions,
            seconds=round(self._journal.recovery_seconds, 3),
            down_seconds=round(self._journal.down_seconds, 3),
            flaws=len(damages),
            failed=self._wrong,
        )


def _some(source: Iterator[Record | Damage]) -> list[Record | Damage]:
    found, size = [], 0
    for each in source:
        found.append(each)
        size += len(each.payload) if isinstance(each, Record) else 0
        if size >= AT_ONCE_BYTES:
            break
    return found


def _log_damage(damage: Damage) -> None:
    tell: Callable[..., None] = log.info if damage.torn else log.warning
    event = "journal_torn" if damage.torn else "journal_damaged"
    if damage.newer:
        event = "journal_of_newer_version"
    tell(event, file=damage.file, offset=damage.offset, bytes=damage.bytes, reason=damage.why)


def _word(code: Code, transport: str) -> str:
    """As the transports count their answers."""
    return GRPC_NAMES[code.grpc] if transport == "grpc" else str(code.http)
