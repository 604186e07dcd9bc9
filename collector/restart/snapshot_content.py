"""What a snapshot holds of the service's state, and the way back.

Invariants:

- A snapshot is of a moment between two records of the journal, so that a replay goes on behind it exactly.
- It is read by a program whose classes it fits, under the settings that change what is judged (`snapshot_layout`). Else all
  of the journal is judged again.

Example: a process is killed. The next one reads what the newest snapshot holds, and judges the requests behind it again.
"""

from __future__ import annotations

import gc
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from typing import Any, NamedTuple

from collector import __version__
from collector.config.settings.settings import Settings
from collector.restart.snapshot_layout import KINDS, judging
from collector.restart.spec_versions import SpecVersions
from collector.state import snapshot
from collector.state.journal import Journal
from collector.state.segment import HEADERS_BYTES, Header, number_of, numbered
from collector.state.segment_reading import read_header
from collector.state.snapshot import Snapshot, SnapshotManifest, UnusableSnapshotError
from collector.telemetry.logs import log
from monitor.aggregate.totals import BADNESS
from monitor.engine import Monitor
from monitor.plain_records.blocks import Block
from monitor.plain_records.kinds import UnkeptError, named
from monitor.plain_records.read import read
from monitor.plain_records.write import write

__all__ = ["RestoredState", "SnapshotContent", "SnapshotState", "Waiting"]

Waiting = dict[str, list[tuple[bytes, Any]]]
"""Messages that no sink has got, with their keys, by the id of the queue."""


class SnapshotState(NamedTuple):
    """What is in a snapshot beside the objects."""

    counters: dict[str, Any]
    waiting: Waiting


class RestoredState(NamedTuple):
    """What was brought back, and what the rest of the service has to take over."""

    about: SnapshotManifest
    state: SnapshotState


class SnapshotContent:
    """What is written of one moment, and read again.

    Args:
        journal: of the service.
        monitor: of the service.
        parts: by name, objects from which all else is reached that is kept.
        settings: of the service.
        state: gives counters and waiting messages; it may write records.
        clock: Unix nanoseconds.
    """

    def __init__(
        self,
        journal: Journal,
        monitor: Monitor,
        parts: Mapping[str, object],
        settings: Settings,
        state: Callable[[], SnapshotState],
        clock: Callable[[], int],
    ) -> None:
        self.versions = SpecVersions(monitor, clock)
        self.known: Mapping[str, object] = named({**parts, **BADNESS}, KINDS)
        """What does not change while the process lives, by name; what goes with the specs in use does."""
        self.state = state
        self._journal = journal
        self._monitor = monitor
        self._settings = judging(settings)
        self._clock = clock

    def about(self) -> SnapshotManifest:
        """What one of this moment says of itself."""
        journal = self._journal
        self.versions.look()
        return SnapshotManifest(
            __version__,
            journal.end,
            journal.salt,
            self._clock(),
            self.versions.digest,
            self.versions.kept(),
            self._settings,
            self._monitor.sessions,
            [(each.number, each.last_ns, each.is_whole) for each in journal.old],
        )

    def blocks(self, state: SnapshotState) -> Iterator[Block]:
        """All that one holds, a part at a time.

        Raises:
            UnkeptError: a session is under a version that was replaced long ago.
        """
        return write({**self.known, **self.versions.named()}, KINDS, tuple(state))

    def forget(self) -> None:
        """There is no journal behind it: what is left of another one is deleted."""
        snapshot.clean(self._journal.folder, None)

    async def restore(self, breathe: Callable[[], Awaitable[None]]) -> RestoredState | None:
        """Brings back what the newest one has; None if there is none that can be used.

        Args:
            breathe: is awaited now and then.
        """
        folder = self._journal.folder
        for each in snapshot.no_files(folder):
            log.warning("snapshot_not_used", file=each.name, reason="it is not a file")
        path = snapshot.newest(folder)
        snapshot.clean(folder, path)
        if path is None:
            return None
        was_on = gc.isenabled()
        gc.disable()  # it would look through what was read again and again
        try:
            found = Snapshot(path)
            self._check_fits(found.about)
            for _ in found.check():
                await breathe()
            known = {**self.known, **self.versions.restore(found.about.versions)}
            steps = read(found.blocks, known, KINDS)
            state = await _through(steps, breathe)
        except (UnusableSnapshotError, UnkeptError, OSError) as problem:
            log.warning("snapshot_not_used", file=path.name, reason=str(problem))
            return None
        finally:
            if was_on:
                gc.enable()
        return RestoredState(found.about, SnapshotState(*state))

    def _check_fits(self, about: SnapshotManifest) -> None:
        names = about.settings.keys() | self._settings.keys()
        changed = [
            each
            for each in sorted(names)
            if about.settings.get(each) != self._settings.get(each)
        ]
        if changed:
            raise UnusableSnapshotError(
                f"it was taken with another value of {', '.join(changed)}"
            )
        if self._salt_of(number_of(about.place)) != about.salt:
            raise UnusableSnapshotError("the journal does not go on behind it")

    def _salt_of(self, number: int) -> bytes:
        """Of a file of the journal; empty if there is none, or its header is damaged."""
        try:
            with numbered(self._journal.folder, number).open("rb") as file:
                header = read_header(file.read(HEADERS_BYTES))
        except OSError:
            return b""
        return header.salt if isinstance(header, Header) else b""


async def _through(
    steps: Generator[None, None, Any], breathe: Callable[[], Awaitable[None]]
) -> Any:
    """Goes through all steps, and gives what they return."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value
        await breathe()
