"""Snapshots of the service's state: when they are taken.

Idea: a forked process has the state of one moment, whatever its parent goes on with. So the child writes the snapshot, and
the parent only pays for the fork and for the memory pages that it changes meanwhile.

Invariant: the child touches nothing but its file: it has closed all others, and ends without any clean-up.

Example: 100,000 sessions. A snapshot is taken at 12:00:00 and written by 12:00:05. At 12:00:40 the process is killed. The
next one reads it, and judges the requests since 12:00:00 again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from collector.receive.memory_guard import MemoryGuard
from collector.restart.snapshot_content import SnapshotContent, SnapshotState
from collector.restart.snapshot_process import (
    FAILED,
    FULL,
    NICE,
    REFUSED,
    UNKEPT,
    begun,
    while_child_of,
)
from collector.state import snapshot
from collector.state.journal import Journal
from collector.state.snapshot import SnapshotManifest
from collector.telemetry.counters import MetricReading
from collector.telemetry.logs import log
from monitor.limits import SECOND

__all__ = ["SnapshotSchedule"]

BYTES_MIN: Final = 16 << 10
"""A snapshot is taken once the journal has so much more: less is judged again in a moment."""
SHARE: Final = 20
"""Least pause between two snapshots, as a multiple of the last one's duration."""
GROWTH_SHARE: Final = 0.5
"""A snapshot is due at once where the journal has so much of its bound more than at the last try: a bit later the file is
deleted behind which a replay would go on, and the snapshot is of no use any more."""

LAST_SECONDS: Final = 4.0
"""How long a stop waits for the last one, while the service still receives. Where it takes longer, the next start judges
more again instead, for about as long."""
LOOK_SECONDS: Final = 0.02


class SnapshotSchedule:
    """Takes snapshots when they are due.

    Args:
        journal: of the service.
        content: what is in one.
        seconds: the pause between two, at least; 0 for none at all.
        memory: refuses a snapshot where its process might need more than there is; None: no limit.
    """

    def __init__(
        self,
        journal: Journal,
        content: SnapshotContent,
        seconds: float,
        memory: MemoryGuard | None,
    ) -> None:
        self.content = content
        self.results = {"ok": 0, "failed": 0, "skipped": 0}
        self.bytes = 0
        self.taken_ns = 0
        self.seconds = 0.0
        """Duration of the last snapshot."""
        self._took = 0.0
        """The same of the last try that ended in another process."""
        self._journal = journal
        self._is_on = False
        self._every = seconds
        self._memory = memory
        self.child = 0
        """The process that writes a snapshot; 0 while there is none."""
        self._begun = self._ended = time.monotonic()
        self._due_since: float | None = None
        """When the snapshot became due; None if none is due."""
        self._written = 0
        """Bytes of the journal at the last one."""
        self._taking_ns = 0
        self._written_then = self._deleted_then = 0
        """Bytes of the journal, and its files that others had deleted, at the last try."""
        self.why = ""
        """Why the last snapshot was not taken."""
        self._told: set[str] = set()

    # --- taking ---------------------------------------------------------------------------------

    def start(self) -> None:
        """All is brought back: from now on snapshots are taken, if they are wanted."""
        self._is_on = self._every > 0

    def tick(self) -> None:
        """Looks after the process that writes one, or begins one where it is due."""
        self.content.versions.look()
        if self.child:
            self._look_after()
        elif self._is_on and self._is_due():
            self._due_since = self._due_since or time.monotonic()
            self._fork()

    def _is_due(self) -> bool:
        journal = self._journal
        if not self._is_possible() or journal.written - self._written < BYTES_MIN:
            return False
        if journal.files_deleted != self._deleted_then:
            return True  # what they had is nowhere else
        if journal.written - self._written_then >= GROWTH_SHARE * journal.rules.bytes_max:
            return True
        pause = max(self._every, SHARE * self._took)
        return time.monotonic() - self._ended >= pause

    def _is_possible(self) -> bool:
        """False in the middle of a request, and without a file behind whose records it would be."""
        return not self._journal.in_parts and bool(self._journal.salt)

    def _fork(self, nice: int = NICE) -> None:
        self._begin()
        if self._memory is not None and not self._memory.reserve_twin():
            self._took = 0.0
            self._skip("the memory limit leaves no room for the process that writes it")
            return
        state = self.content.state()  # which may write records
        about = self.content.about()
        self._taking_ns = about.at_ns
        try:
            self.child = begun(partial(self._write, about, state), nice)
        except OSError as problem:
            self._fail(problem.strerror or str(problem))

    def _write(self, about: SnapshotManifest, state: SnapshotState, parent: int) -> None:
        """In the process that writes."""
        blocks = while_child_of(parent, self.content.blocks(state))
        snapshot.save(self._journal.folder, about, blocks)

    def _look_after(self) -> None:
        try:
            child, status = os.waitpid(self.child, os.WNOHANG)
        except ChildProcessError:  # somebody else has asked
            child, status = self.child, FAILED << 8
        if child:
            self._end(status)

    def _end(self, status: int) -> None:
        """The child has ended."""
        self.child = 0
        code = os.waitstatus_to_exitcode(status)
        if code == 0:
            self._succeed()
        elif code == UNKEPT:
            self._skip("a session is under a version of a spec that was replaced long ago")
        else:
            if code == FULL:
                self._journal.make_room()
            is_refused = code in (FULL, REFUSED)
            self._fail(
                "the disk refuses it" if is_refused else f"its process ended with {code}"
            )

    async def take_last(self) -> None:
        """The service is about to stop: takes one of all so far, and waits for it, `LAST_SECONDS` at most.

        The service receives meanwhile; what comes behind it is judged again at the next start.
        """
        is_wanted, self._is_on = self._is_on and self.seconds <= LAST_SECONDS, False
        until = time.monotonic() + LAST_SECONDS
        while is_wanted and not self._is_possible() and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(LOOK_SECONDS)
        if not is_wanted or self._journal.written <= self._written:
            return
        self._end_child()  # it gives way to all else, and what it writes is older
        self._fork(nice=0)
        while self.child and time.monotonic() < until:
            await asyncio.sleep(LOOK_SECONDS)
            self._look_after()
        if self.child:
            self._fail("the stop could not wait for it")

    def close(self) -> None:
        """None is taken any more."""
        self._is_on = False
        self._end_child()

    def _end_child(self) -> None:
        if self.child:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(self.child, signal.SIGKILL)
                os.waitpid(self.child, 0)
            self.child = 0

    def _begin(self) -> None:
        self._begun, self._written_then = time.monotonic(), self._journal.written
        self._deleted_then = self._journal.files_deleted

    def _succeed(self) -> None:
        self._stop("ok")
        self.seconds = self._took = self._ended - self._begun
        self._due_since = None
        self._written, self.taken_ns = self._written_then, self._taking_ns
        path = snapshot.newest(self._journal.folder)
        with suppress(OSError):
            self.bytes = path.stat().st_size if path is not None else 0

    def _stop(self, result: str) -> None:
        if self._memory is not None:
            self._memory.release_twin()
        self.results[result] += 1
        self._ended = time.monotonic()

    def _fail(self, why: str) -> None:
        self._end_child()
        self._stop("failed")
        self._took = self._ended - self._begun
        self._tell("snapshot_failed", why)

    def _skip(self, why: str) -> None:
        self._stop("skipped")
        self._tell("snapshot_skipped", why)

    def _tell(self, event: str, why: str) -> None:
        """Each reason once."""
        self.why = why
        if why not in self._told:
            self._told.add(why)
            log.warning(event, folder=str(self._journal.folder), reason=why)

    # --- metrics --------------------------------------------------------------------------------

    def readings(self) -> Iterator[MetricReading]:
        """Of the snapshots."""
        yield MetricReading(
            "snapshots", [((name,), count) for name, count in self.results.items()]
        )
        yield MetricReading("snapshot_bytes", [((), self.bytes)])
        yield MetricReading("snapshot_seconds", [((), self.seconds)])
        since = self._due_since
        overdue = 0.0 if since is None else time.monotonic() - since
        yield MetricReading("snapshot_overdue_seconds", [((), overdue)])
        yield MetricReading("snapshot_timestamp_seconds", [((), self.taken_ns / SECOND)])
