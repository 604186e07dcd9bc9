"""The due queue returns each item once, by time, then by key, whatever the order of insertion."""

from __future__ import annotations

import heapq
import sys

from hypothesis import given
from hypothesis import strategies as st

from monitor.live.due_queue import DueQueue
from monitor.records import SessionKey


def key(number: int) -> SessionKey:
    return SessionKey("", f"{number:02}")


def test_what_is_not_due_waits() -> None:
    """A key is taken at its time exactly, and once."""
    queue = DueQueue()
    queue.put(10, key(1))
    queue.put(20, key(2))

    assert queue.take(9) == []
    assert queue.take(10) == [key(1)]
    assert queue.take(10) == []
    assert len(queue) == 1


@given(
    st.lists(
        st.one_of(
            st.tuples(st.integers(0, 30), st.integers(0, 9)), st.tuples(st.integers(0, 30))
        ),
        max_size=60,
    )
)
def test_it_is_what_a_heap_would_be(done: list[tuple[int, ...]]) -> None:
    """Puts and takes at any times give the order of a heap of (time, key)."""
    queue = DueQueue()
    heap: list[tuple[int, SessionKey]] = []
    for time, *number in done:
        if number:
            queue.put(time, key(number[0]))
            heapq.heappush(heap, (time, key(number[0])))
            continue
        wanted = []
        while heap and heap[0][0] <= time:
            wanted.append(heapq.heappop(heap)[1])
        assert queue.take(time) == wanted
        assert len(queue) == len(heap)


def test_any_time_can_be_put_in() -> None:
    """A clock may say anything: times that no 64 bits hold wait like others."""
    queue = DueQueue()
    for number, time in enumerate([2**70, 5, 2**63, -1, 2**62]):
        queue.put(time, key(number))

    assert queue.take(2**65) == [key(3), key(1), key(4), key(2)]
    assert queue.take(2**70) == [key(0)]


def test_what_is_taken_is_let_go() -> None:
    """However many items pass through it, it holds at most twice those that wait."""
    queue, keys = DueQueue(), [key(number) for number in range(1_000)]
    free = [sys.getrefcount(each) for each in keys]
    for number, each in enumerate(keys):
        queue.put(number, each)
        queue.take(number - 10)

    assert len(queue) == 10
    held = [sys.getrefcount(each) for each in keys]
    assert 10 <= sum(after > before for before, after in zip(free, held, strict=True)) <= 22
