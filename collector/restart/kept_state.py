"""The state that outlives the process: the journal, its heads, and the way back at the start."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from collector.config.settings.sessions import SessionSettings
from collector.config.settings.settings import Settings
from collector.config.settings.state import StateSettings
from collector.net.watched_files import UnusableFileError
from collector.receive.export import Export
from collector.receive.memory_guard import MemoryGuard
from collector.restart.recovery import Receive, Recovery, ReplayTarget
from collector.restart.snapshot_content import SnapshotContent, SnapshotState
from collector.restart.snapshot_schedule import SnapshotSchedule
from collector.restart.state_counters import CountersOfParts, StatefulParts
from collector.state.heads import Heads
from collector.state.journal import Journal, JournalRules
from collector.state.journal_files import other_files
from collector.state.journal_reader import JournalReader
from collector.state.records import RecordKind, encoded
from collector.telemetry.clock import ReplayClock
from collector.telemetry.counters import Stats
from collector.telemetry.logs import log
from monitor.engine import Monitor
from monitor.limits import SECOND
from monitor.spec.spec import Spec

if TYPE_CHECKING:
    from collector.forward.next_hops import NextHops

__all__ = ["KeptState"]

TICK_SECONDS: Final = 0.25
"""Time between two records of the time during a replay."""
KEEP_SECONDS: Final = 300.0
"""Least age of files that are deleted for it. What came last before a kill is gone through again by the next process,
which writes ended sessions to the archive; it may be killed before that, too, and a start takes its time."""
OTHERS_TOLD: Final = 20
"""Files that are none of the journal, by name in the log."""


class KeptState:
    """What a service with `state.dir` has in addition.

    Args:
        settings: the section `state`, with a folder.
        sessions: the section `sessions`.
        clock: Unix nanoseconds.

    Raises:
        UnusableFileError: the folder cannot be used, another process uses it, or it is damaged and `strict` is set.
    """

    def __init__(
        self, settings: StateSettings, sessions: SessionSettings, clock: Callable[[], int]
    ) -> None:
        assert settings.dir is not None
        # What grpcio does at a fork waits for its threads, and may end the child, which uses nothing of it.
        os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
        self.clock = ReplayClock(clock)
        self._settings = settings
        keep_seconds = settings.keep_seconds or max(2 * sessions.idle_seconds, KEEP_SECONDS)
        rules = JournalRules(
            settings.durability,
            settings.bytes_max,
            int(keep_seconds * SECOND),
            refuse=settings.on_error == "refuse",
        )
        self.journal = Journal(settings.dir, rules, clock)
        self._past = JournalReader(settings.dir)
        try:
            self.journal.open()
            self._past.look(check=settings.strict)
            self._refuse(
                settings.strict
            )  # before it counts as an attempt: it leaves the folder as it is
            if not self._past.attempt():
                log.error("journal_set_aside", folder=str(settings.dir))
                self._past = JournalReader(settings.dir)
            _tell_others(settings.dir)
        except UnusableFileError:
            raise
        except OSError as problem:
            self.journal.release()
            raise self._unusable(problem.strerror, problem.errno) from problem
        head = self._past.head
        self.started_ns = clock() if head is None else head.started_ns
        """Start of the monitor's view of spans, Unix nanoseconds."""
        self._heads: Heads | None = None
        self._snapshots: SnapshotSchedule | None = None
        self._recovery: Recovery | None = None
        self._forwarding: NextHops | None = None
        self._stopped_ns = 0

    def _unusable(self, reason: str | None, number: int | None = None) -> UnusableFileError:
        return UnusableFileError("state.dir", str(self._settings.dir), reason, number)

    def _refuse(self, strict: bool) -> None:
        """Refuses a folder of a newer version, and a damaged one where that is wished."""
        why = self._past.newer and (
            f"{self._past.newer}. A newer version of offrails has written it: start that one again, or give this one an"
            " empty folder"
        )
        damage = next(
            (each for each in self._past.damages if not (each.torn or each.newer)), None
        )
        if strict and damage is not None:
            why = why or (
                f"{damage.file} is damaged at byte {damage.offset}: {damage.why} (state.strict)"
            )
        if why:
            self.journal.release()
            raise self._unusable(why)

    def wire(
        self,
        monitor: Monitor,
        stats: Stats,
        again: Export,
        parts: StatefulParts,
        app: ReplayTarget,
        settings: Settings,
        memory: MemoryGuard | None,
        objects: Mapping[str, object],
    ) -> None:
        """Connects it with the parts of the service.

        `again` judges what was judged before. From `objects` all is reached that snapshots hold; `memory` refuses
        those that might take too much.
        """
        self._forwarding = parts.forwarding
        counters = CountersOfParts(parts)
        heads = self._heads = Heads(self.journal, monitor, stats, counters.get, self.clock)
        content = SnapshotContent(
            self.journal,
            monitor,
            objects,
            settings,
            lambda: SnapshotState(heads.counters(), parts.alerts.waiting()),
            self.clock,
        )
        self._snapshots = SnapshotSchedule(
            self.journal, content, settings.state.snapshot_seconds, memory
        )
        self._recovery = Recovery(
            self._past,
            self.journal,
            self.clock,
            monitor,
            stats,
            again,
            parts,
            counters,
            self._heads,
            app,
            int(self._settings.bridged_seconds * SECOND),
            content,
        )

    @property
    def snapshots(self) -> SnapshotSchedule:
        """Short cuts of the replay."""
        assert self._snapshots is not None
        return self._snapshots

    @property
    def heads(self) -> Heads:
        """What each file begins with."""
        assert self._heads is not None
        return self._heads

    def since(self) -> int:
        """Since when the counters count, Unix nanoseconds."""
        return self.heads.since_ns

    @property
    def has_past(self) -> bool:
        """True if an earlier process has left something to go through."""
        return self._past.head is not None

    async def recover(self, specs: Sequence[Spec], receive: Receive | None) -> None:
        """Goes through the journal, and begins to write behind it.

        Args:
            specs: in use from now on.
            receive: opens the receivers, whose requests are kept meanwhile; None: they open later.
        """
        recovery, journal = self._recovery, self.journal
        assert recovery is not None
        self._take(specs)
        if not self.has_past:
            self._write_heads()
        ticker: asyncio.Task[None] | None = None

        async def begin() -> None:
            nonlocal ticker
            assert receive is not None
            await self._restore_queues()
            await receive()
            ticker = asyncio.create_task(self._pass_time())

        try:
            await recovery.run(specs, begin if receive is not None else None)
        finally:
            if ticker is not None:
                ticker.cancel()
        if self._forwarding is not None:
            self._forwarding.come_back()
        journal.follow(self._past.files)
        if self.has_past:
            self._write_heads()
            journal.renew()
        self._recovery = None
        if receive is None:
            await self._restore_queues()
        self._past.done()
        self.snapshots.content.versions.use(self.heads.in_use)
        self.snapshots.start()

    def _write_heads(self) -> None:
        """Each file begins with what the service knows, from now on."""
        heads, journal = self.heads, self.journal
        journal.rotated, journal.complete = heads.begin, heads.complete
        journal.undivided = heads.undivided

    async def _pass_time(self) -> None:
        """Notes that time goes on for what is received meanwhile."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.journal.try_append(RecordKind.TICK, self.clock.present())

    async def _restore_queues(self) -> None:
        """What an earlier process had not sent to next hops goes on."""
        if self._forwarding is None:
            return
        from collector.forward.outbox import Outbox

        outbox = Outbox(self.journal, self._forwarding.unkept, self.clock)
        try:
            await self._forwarding.restore(outbox, self.clock())
        except OSError as problem:
            log.error("forward_not_restored", reason=problem.strerror or str(problem))

    def use(self, specs: Sequence[Spec]) -> None:
        """These specs are in use from now on."""
        self._take(specs)
        self.heads.write_specs()

    def _take(self, specs: Sequence[Spec]) -> None:
        self.heads.use(specs)
        self.snapshots.content.versions.use(self.heads.in_use)

    def tick(self, now: int, is_busy: bool) -> None:
        """Time goes on, and what it brings is about to be done."""
        self.heads.tick(now)
        self.journal.tick(now, busy=is_busy)

    def clock_moved(self, by: int, now: int) -> None:
        """The wall clock was set."""
        self.journal.try_append(RecordKind.CLOCK, now, encoded(by))

    async def before_close(self) -> None:
        """The receivers are about to close: does what may take long while they are open."""
        await self.snapshots.take_last()
        await self.journal.sync()

    def stop(self, now: int) -> None:
        """Nothing more is received. A service that never came so far leaves the journal as it was."""
        if self._recovery is not None:
            return
        self.heads.flush(now)
        self.journal.try_append(RecordKind.CLOSED, now)
        self._stopped_ns = now

    async def close(self) -> None:
        """All is delivered that can be. What that has changed is written as of the time when `stop` was called."""
        if self._stopped_ns:
            self.heads.flush(self._stopped_ns)
        if self._snapshots is not None:
            self._snapshots.close()
        await self.journal.close()


def _tell_others(folder: Path) -> None:
    """What somebody has laid into the folder is not read, and that is said once at each start."""
    found = other_files(folder)
    if found:
        tell = log.warning if any(each.odd for each in found) else log.info
        names = [str(each) for each in found[:OTHERS_TOLD]]
        tell("journal_other_files", folder=str(folder), files=names, count=len(found))
