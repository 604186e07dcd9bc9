"""Requests are refused before the process reaches its memory limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.receive.admission import Admission
from collector.receive.memory_guard import (
    LOOK_SECONDS,
    REVIEW_SECONDS,
    SMALL_BYTES,
    TRIM_SECONDS,
    MemoryGuard,
    resident_bytes,
)
from collector.receive.status_codes import ExportStatus, Refusal

MIB = 1 << 20
LIMIT = 100 * MIB


class Process:
    """A process whose memory and clock the test sets."""

    def __init__(self) -> None:
        self.taken = 50 * MIB
        self.seconds = 0.0
        self.trimmed = 0
        self.guard = MemoryGuard(LIMIT, lambda: self.taken, lambda: self.seconds, self.trim)

    def trim(self) -> None:
        self.trimmed += 1

    def takes(self, mib: int) -> MemoryGuard:
        self.taken = mib * MIB
        self.seconds += LOOK_SECONDS
        return self.guard


def test_there_is_room() -> None:
    """Below the first mark, bodies are read if ten times their size fits."""
    assert Process().takes(40).has_room(3 * MIB, MIB)
    assert not Process().takes(40).has_room(4 * MIB, MIB)


def test_scarce_memory_is_for_small_requests_one_after_the_other() -> None:
    """From the first mark on, a large request and a second one are refused; a small one is not."""
    guard = Process().takes(76)
    assert guard.has_room(0, 100_000)
    assert not guard.has_room(MIB, 100_000)
    assert not guard.has_room(0, 2 * MIB)


def test_full_memory_is_for_none() -> None:
    """From the second mark on no body is read, until memory is free again."""
    process = Process()
    assert not process.takes(94).has_room(0, 1)
    assert process.takes(60).has_room(0, 1)


@pytest.mark.parametrize(("mib", "scarce", "full"), [(100, 75, 85), (512, 472, 488)])
def test_marks_leave_what_requests_become(mib: int, scarce: int, full: int) -> None:
    """A share of small limits, and a number of bytes of large ones."""
    process = Process()
    guard = MemoryGuard(mib * MIB, lambda: process.taken, lambda: process.seconds, process.trim)
    found = []
    for taken in (scarce - 1, scarce, full):
        process.takes(taken)
        found.append((guard.has_room(0, 1), guard.has_room(0, SMALL_BYTES + 1)))
    assert found == [(True, True), (True, False), (False, False)]


def test_free_memory_is_given_back_now_and_then() -> None:
    """If memory is scarce, free heap memory is returned to the system from time to time."""
    process = Process()
    for _ in range(10):
        process.takes(80).has_room(0, 1)
    assert process.trimmed == 1
    process.seconds += TRIM_SECONDS
    process.takes(80).has_room(0, 1)
    assert process.trimmed == 2


def test_a_process_that_writes_a_snapshot_counts_as_taken() -> None:
    """Where it does not fit beside this one it is not begun; where it does, requests see its memory until it has ended."""
    assert (
        not Process().takes(61).reserve_twin()
    )  # 61 + 6 + 1.75 times what came since the start is 86
    process = Process()
    assert process.takes(54).reserve_twin()  # 54 + 6 + 7 is 67
    assert not process.takes(54).has_room(0, 2 * MIB)
    process.guard.release_twin()
    assert process.takes(54).has_room(0, 2 * MIB)


def test_a_sidecar_has_room_for_its_snapshot() -> None:
    """Under 192 MiB, a process of 54 MiB when it is idle has one as long as it takes no more than 84 MiB."""
    taken = [54 * MIB]
    guard = MemoryGuard(192 * MIB, lambda: taken[0], trim=lambda: None)
    fits = []
    for mib in (54, 84, 90):
        taken[0] = mib * MIB
        fits.append(guard.reserve_twin())
        guard.release_twin()
    assert fits == [True, True, False]


def test_the_process_is_not_looked_at_for_each_request() -> None:
    """Between two measurements the last one counts."""
    process = Process()
    process.takes(60).has_room(0, 1)
    process.taken = 99 * MIB
    assert process.guard.has_room(0, 1)


def test_the_refusal_is_counted_and_may_be_tried_again() -> None:
    """UNAVAILABLE (503), with its own reason; nothing is held for it."""
    counted: list[tuple[str, ...]] = []
    guard = Process().takes(95)
    admission = Admission(memory=guard, count=lambda *labels: counted.append(labels))
    place = admission.enter()
    with pytest.raises(Refusal) as refused:
        place.grow(10)
    place.leave()
    assert refused.value.status is ExportStatus.UNAVAILABLE
    assert counted == [("requests_refused", "memory")]
    assert (admission.bytes, admission.requests) == (0, 0)


def test_what_this_process_takes() -> None:
    """Linux says it: more than a megabyte, less than all memory."""
    read = resident_bytes()
    assert read is None or MIB < read() < 1 << 40


def test_starts_that_fail_leave_no_files_open() -> None:
    """A service that fails open tries to start every 10 s, in one process."""
    files = Path("/proc/self/fd")
    first = resident_bytes()
    if first is None:
        pytest.skip("the system does not say what a process takes")
    before = len(list(files.iterdir()))
    readers = [resident_bytes() for _ in range(10)]
    assert len(list(files.iterdir())) == before
    assert all(reader is not None and reader() > MIB for reader in readers)


def test_what_is_kept_for_comfort_goes_before_requests_are_refused() -> None:
    """While memory is scarce it is given up each five seconds, and before free memory is returned."""
    process = Process()
    asked: list[int] = []
    process.guard.relieve = lambda: asked.append(process.trimmed)
    assert process.takes(50).has_room(0, 1)
    assert asked == []
    process.takes(80).has_room(0, 1)
    process.takes(80).has_room(0, 1)
    assert asked == [0]
    process.seconds += TRIM_SECONDS
    process.takes(80).has_room(0, 1)
    assert asked == [0, 1]


def test_memory_comes_back_without_requests() -> None:
    """Once a flood is over, free memory is returned once; what is still taken after that is asked for no more."""
    process = Process()

    def passes(mib: int) -> int:
        process.seconds += REVIEW_SECONDS
        process.takes(mib).tick()
        return process.trimmed

    assert [passes(mib) for mib in (50, 57)] == [0, 0]  # too little to look for
    assert passes(72) == 0  # it still grows
    assert [passes(72) for _ in range(5)] == [1] * 5
    assert [passes(mib) for mib in (60, 60, 73, 73)] == [1, 1, 1, 2]
    process.takes(74).tick()
    assert process.trimmed == 2  # not before the next review


def test_memory_comes_back_when_what_a_flood_left_is_forgotten() -> None:
    """It is free inside the process minutes after the flood, which no growth tells; once for each fall of the tables."""
    process, held = Process(), [0]
    process.guard.held = lambda: held[0] * MIB

    def passes(mib: int, kept: int) -> int:
        process.seconds += REVIEW_SECONDS
        held[0] = kept
        process.takes(mib).tick()
        return process.trimmed

    assert [passes(72, 20) for _ in range(3)] == [0, 1, 1]  # the flood is over
    assert [passes(72, kept) for kept in (14, 12)] == [1, 1]  # too little
    assert [passes(70, kept) for kept in (4, 4, 0)] == [2, 2, 2]
    assert [passes(70, kept) for kept in (9, 0)] == [2, 3]


def test_scarce_memory_comes_back_without_requests() -> None:
    """What is kept for comfort goes, too."""
    process, relieved = Process(), []
    process.guard.relieve = lambda: relieved.append(1)
    process.takes(80).tick()
    assert (process.trimmed, relieved) == (1, [1])
