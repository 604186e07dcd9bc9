"""The journal's files: appended, closed, deleted, and a disk that refuses them."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collector.receive.request import Request
from collector.receive.status_codes import ExportStatus, Refusal
from collector.state.journal import Journal, JournalRules
from collector.state.journal_files import found_in, read_file
from collector.state.journal_reader import ATTEMPTS_MAX, JournalReader
from collector.state.lock import Lock, LockedError
from collector.state.records import RecordKind, UnwrittenRecord, decoded, request_of
from collector.state.segment_reading import Record
from collector.telemetry.logs import captured
from tests.collector.state.life import START, Clock

BODY = b"b" * 20_000


@pytest.fixture
def clock() -> Clock:
    return Clock()


def journal_of(folder: Path, clock: Clock, **rules: Any) -> Journal:
    made = Journal(folder, JournalRules(**{"bytes_max": 1 << 20, **rules}), clock)
    made.open()
    made.begin()
    return made


@pytest.fixture
def journal(tmp_path: Path, clock: Clock) -> Iterator[Journal]:
    made = journal_of(tmp_path / "state", clock)
    yield made
    asyncio.run(made.close())


def records(folder: Path) -> list[Record]:
    return [
        each
        for found in found_in(folder)
        for each in read_file(found.path)
        if isinstance(each, Record)
    ]


def keep(journal: Journal, body: bytes = BODY, now: int = START) -> None:
    journal.keep(now, Request("traces", body, "proto", "grpc", "anna"))


def test_a_request_comes_back_as_it_was(journal: Journal) -> None:
    """Body, encoding, transport, sender and time of receipt are those that were written."""
    keep(journal)
    journal.keep(START + 5, Request("traces", b"{}", "json", "http_json"))
    one, two = records(journal.folder)
    first, second = request_of(one.payload), request_of(two.payload)
    assert (first.body, first.encoding, first.transport, first.sender) == (
        BODY,
        "proto",
        "grpc",
        "anna",
    )
    assert (second.body, second.sender, two.at_ns) == (b"{}", None, START + 5)


def test_the_files_are_their_owners_alone(journal: Journal) -> None:
    """Nobody else may look into the folder or the files."""
    keep(journal)
    assert stat.S_IMODE(journal.folder.stat().st_mode) == 0o700
    for file in journal.folder.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file


def test_two_processes_never_share_a_folder(journal: Journal) -> None:
    """The second one is refused, until the first one lets go."""
    with pytest.raises(LockedError):
        Lock(journal.folder)
    journal.release()
    Lock(journal.folder).release()


def test_the_journal_stays_within_its_bound(tmp_path: Path, clock: Clock) -> None:
    """Old files are deleted, whatever is written, and the oldest that is left is whole."""
    journal = journal_of(tmp_path, clock)
    journal.rotated = lambda: journal.whole(clock.now)
    for _ in range(400):
        clock.now += 1_000_000
        keep(journal, now=clock.now)
    size = sum(file.stat().st_size for file in tmp_path.glob("journal-*"))
    assert size == journal.bytes
    assert size < (1 << 20) + 2 * journal.rules.file_bytes
    past = JournalReader(tmp_path)
    past.look()
    assert past.paths[0].number == min(found.number for found in found_in(tmp_path)) > 1


def test_old_files_are_deleted(tmp_path: Path, clock: Clock) -> None:
    """A file is deleted when its last record is older than `keep`, and not before."""
    journal = journal_of(tmp_path, clock, keep_ns=160)
    journal.rotated = lambda: journal.whole(clock.now)
    for _ in range(100):
        clock.now += 5
        keep(journal, b"", clock.now)
    times = [each.at_ns for each in records(tmp_path)]
    assert clock.now - 160 - 20 <= min(times) <= clock.now - 150


def test_a_file_is_not_deleted_while_the_next_one_is_not_whole(
    tmp_path: Path, clock: Clock
) -> None:
    """Without the head of a later file, nothing goes, however much there is."""
    journal = journal_of(tmp_path, clock)
    for _ in range(200):
        keep(journal)
    assert len(found_in(tmp_path)) == len(list(tmp_path.glob("journal-*"))) > 3
    assert found_in(tmp_path)[0].number == 1


class Volume:
    """A volume that is full once the files of a folder take so many bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, size: int) -> None:
        self.folder = folder
        self.size = size
        self._writev = os.writev
        monkeypatch.setattr(os, "writev", self._write)

    def used(self) -> int:
        return sum(file.stat().st_size for file in self.folder.glob("journal-*"))

    def _write(self, fd: int, parts: tuple[bytes, ...]) -> int:
        if self.used() + sum(map(len, parts)) > self.size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._writev(fd, parts)


def test_on_a_full_disk_the_oldest_files_go(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request finds room, as long as one fits by itself; what is left begins with a whole file, and it is told once."""
    volume = Volume(monkeypatch, tmp_path, 500_000)
    journal = journal_of(tmp_path, clock)
    journal.rotated = lambda: journal.whole(clock.now)
    with captured() as told:
        for _ in range(200):
            keep(journal)
    assert volume.used() == journal.bytes <= volume.size
    assert not journal.errors
    assert journal.given_up > 0
    assert [each["event"] for each in told] == ["journal_disk_full"]
    past = JournalReader(tmp_path)
    past.look()
    assert past.paths[0].number == found_in(tmp_path)[0].number > 1
    assert records(tmp_path)[-1].payload.endswith(BODY)


def test_what_does_not_fit_by_itself_is_refused(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record larger than the volume is refused, and the next smaller one is taken."""
    Volume(monkeypatch, tmp_path, 300_000)
    journal = journal_of(tmp_path, clock)
    for _ in range(20):
        keep(journal)
    with pytest.raises(Refusal):
        keep(journal, bytes(400_000))
    assert journal.failing
    keep(journal)
    assert not journal.failing


def test_the_bound_follows_from_the_volume(tmp_path: Path, clock: Clock) -> None:
    """On a volume smaller than `bytes_max` the journal keeps to three quarters, in files that are small enough to go."""
    rules = JournalRules(bytes_max=512 << 20)
    assert rules.within(0) == rules
    assert rules.within(1 << 40) == rules
    small = rules.within(24 << 20)
    assert small.bytes_max == 18 << 20
    assert small.file_bytes == small.bytes_max // 16


class Disk:
    """A disk that can be full."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error = 0
        self.taken: int | None = None
        """Bytes that it takes of each write nevertheless."""
        monkeypatch.setattr(os, "writev", self._write)

    def _write(self, fd: int, parts: tuple[bytes, ...]) -> int:
        data = b"".join(parts)
        if self.error and self.taken is None:
            raise OSError(self.error, os.strerror(self.error))
        return os.write(fd, data[: self.taken] if self.error else data)


@pytest.mark.parametrize("taken", [None, 10])
def test_a_full_disk_refuses_requests_and_then_goes_on(
    taken: int | None, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Senders are to try again; nothing of a refused record is in the file; the next one is."""
    disk = Disk(monkeypatch)
    keep(journal, b"one")
    disk.error, disk.taken = errno.ENOSPC, taken
    with pytest.raises(Refusal) as refused:
        keep(journal, b"two")
    assert refused.value.status is ExportStatus.UNAVAILABLE
    assert "No space left" in refused.value.message
    assert (journal.errors, journal.failing) == (1, True)
    disk.error = 0
    keep(journal, b"three")
    assert not journal.failing
    found = [request_of(each.payload).body for each in records(journal.folder)]
    assert found == [b"one", b"three"]


def test_a_journal_may_go_on_without_the_disk(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `continue`, requests are judged, and the journal says how many are missing and since when."""
    disk = Disk(monkeypatch)
    journal = journal_of(tmp_path, clock, refuse=False)
    disk.error = errno.ENOSPC
    keep(journal, now=START + 1)
    keep(journal, now=START + 2)
    disk.error = 0
    keep(journal, b"x", now=START + 3)
    gap, request = records(tmp_path)
    assert decoded(gap.payload, UnwrittenRecord) == UnwrittenRecord(START + 1, 2)
    assert request_of(request.payload).body == b"x"


def test_a_broken_file_is_left_for_another(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a file refuses what another may take, the next record goes to another."""
    disk = Disk(monkeypatch)
    disk.error = errno.EFBIG
    with pytest.raises(Refusal):
        keep(journal)
    disk.error = 0
    keep(journal)
    assert [found.number for found in found_in(journal.folder)] == [1, 2]


def test_a_disk_that_is_full_at_the_start_keeps_nobody_from_starting(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal begins when there is room."""
    disk = Disk(monkeypatch)
    disk.error = errno.ENOSPC
    journal = journal_of(tmp_path, clock)
    assert journal.failing
    with pytest.raises(Refusal):
        keep(journal)
    disk.error = 0
    keep(journal)
    assert len(records(tmp_path)) == 1


def test_answers_wait_for_the_disk_together(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `power`, many answers share few syncs, and none comes before the sync that began after its write."""
    synced: list[int] = []

    def sync(fd: int) -> None:
        synced.append(os.fstat(fd).st_size)

    monkeypatch.setattr(os, "fdatasync", sync)

    async def run() -> None:
        journal = journal_of(tmp_path, clock, durability="power")
        assert journal.waits

        async def one() -> None:
            keep(journal, b"x")
            assert journal.file is not None
            size = journal.file.size
            await journal.synced()
            assert max(synced) >= size

        await asyncio.gather(*(one() for _ in range(100)))
        await journal.close()

    asyncio.run(run())
    assert 0 < len(synced) < 20


@pytest.mark.parametrize("refuse", [True, False])
def test_a_disk_that_does_not_sync_is_told(
    refuse: bool, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `refuse` the sender is to send again; with `continue` the answer goes out. Both are counted."""

    def sync(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fdatasync", sync)

    async def run() -> Journal:
        journal = journal_of(tmp_path, clock, durability="power", refuse=refuse)
        keep(journal)
        if refuse:
            with pytest.raises(Refusal):
                await journal.synced()
        else:
            await journal.synced()
        return journal

    assert asyncio.run(run()).errors == 1


@pytest.mark.parametrize("rotates", [False, True])
def test_a_sync_that_failed_is_not_believed_later(
    rotates: bool, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel drops what it could not write, and the next sync succeeds: all with a record in that file are refused.

    So are those whose file is not the newest any more. The next record goes to another file.
    """
    synced: list[int] = []
    may_fail = threading.Event()

    def sync(fd: int) -> None:
        synced.append(fd)
        if len(synced) == 1:
            may_fail.wait(10)
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    async def answered(journal: Journal) -> bool:
        try:
            await journal.synced()
        except Refusal:
            return False
        return True

    async def run() -> list[bool]:
        journal = journal_of(tmp_path, clock, durability="power")
        monkeypatch.setattr(os, "fdatasync", sync)
        keep(journal, b"one")
        waits = [asyncio.create_task(answered(journal))]
        await asyncio.sleep(0)
        if rotates:
            journal.renew()
        else:
            while not synced:  # noqa: ASYNC110 - another thread syncs
                await asyncio.sleep(0)
            keep(journal, b"two")
            waits.append(asyncio.create_task(answered(journal)))
            await asyncio.sleep(0)
        may_fail.set()
        lost = [await each for each in waits]
        keep(journal, b"three")
        return [*lost, await answered(journal)]

    *lost, later = asyncio.run(run())
    assert not any(lost)
    assert later


def test_a_record_of_a_later_kind_is_passed_over(journal: Journal) -> None:
    """What this version does not know is damage with its place; the rest is read."""
    assert journal.file is not None
    journal.file.append(99, START, (b"?",))
    keep(journal, b"known")
    damage, request = read_file(found_in(journal.folder)[0].path)
    assert "kind 99" in damage.why  # type: ignore[union-attr]
    assert isinstance(request, Record)
    assert request.kind == RecordKind.REQUEST


def test_a_journal_that_ends_the_process_is_set_aside(journal: Journal) -> None:
    """After some attempts that never came to an end, the next one begins with nothing, and loses nothing."""
    keep(journal)
    past = JournalReader(journal.folder)
    assert all(past.attempt() for _ in range(ATTEMPTS_MAX))
    assert not past.attempt()
    assert found_in(journal.folder) == []
    assert len(found_in(journal.folder / "set-aside")) == 1
    assert past.attempt()
    past.done()
    assert past.attempt()
