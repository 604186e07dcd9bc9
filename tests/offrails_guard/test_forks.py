"""Guards in forked processes: no lock that a thread of the parent held, and no time beyond the deadline."""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import pytest

from monitor import Limits, Monitor
from offrails_guard import Call, LocalGuard
from offrails_guard.awaiting_outcome.decision_ids import DecisionIds
from offrails_guard.transport.pause import Pause
from tests.end_to_end.service import ROOT
from tests.offrails_guard.conftest import Make
from tests.offrails_guard.double import Double

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]

T = TypeVar("T")

PATIENCE = 20
"""Seconds after which a child that hangs is ended."""


CHILDREN = 24


def in_child(work: Callable[[], bool]) -> bool:
    """Whether the work was right, in a forked process; False where it hangs."""
    return in_children(work, 1) == 1


def in_children(work: Callable[[], bool], count: int) -> int:
    """In how many of so many forked processes at once the work was right."""
    children = [_forked(work) for _ in range(count)]
    ends = [os.waitstatus_to_exitcode(os.waitpid(each, 0)[1]) for each in children]
    return ends.count(0)


def _forked(work: Callable[[], bool]) -> int:
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(PATIENCE)
        is_right = False
        try:
            is_right = work()
        finally:
            os._exit(0 if is_right else 1)
    return child


@contextmanager
def held(lock: AbstractContextManager[Any]) -> Iterator[None]:
    """Another thread has the lock."""
    taken, over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    yield
    over.set()
    thread.join()


def with_locks(make: Callable[[], T], module: str) -> tuple[T, list[Any]]:
    """What is made, and the locks that a module of the guard has made for it, in their order."""
    found: list[Any] = []
    lock = threading.Lock

    def noted() -> Any:
        made, frame = lock(), inspect.currentframe()
        assert frame is not None
        assert frame.f_back is not None
        if frame.f_back.f_globals["__name__"] == f"offrails_guard.{module}":
            found.append(made)
        return made

    with patch.object(threading, "Lock", noted):
        return make(), found


@pytest.mark.parametrize(
    ("module", "place"),
    [
        pytest.param("base", 0, id="of the counts"),
        pytest.param("transport.connection", 0, id="of the connection"),
        pytest.param("transport.connection", 1, id="of the loop"),
    ],
)
def test_a_child_asks_whatever_lock_was_held(
    double: Double, make: Make, module: str, place: int
) -> None:
    """A thread of the parent holds a lock of the guard while the process forks: the child has its answer."""
    guard, locks = with_locks(make, module)
    with held(locks[place]):
        assert in_child(lambda: guard.check("water", {}).decision == "deny")
        assert in_child(lambda: guard.counts() == {})
    assert guard.check("water", {}).decision == "deny"


def test_a_fork_waits_for_a_step_of_the_loop(double: Double, make: Make) -> None:
    """What the guard's thread runs may hold locks that nobody knows: none of them is held in the child."""
    loop = asyncio.new_event_loop()
    with patch.object(asyncio, "new_event_loop", lambda: loop):
        guard = make()
    lock, begun, wanted = threading.Lock(), threading.Event(), threading.Event()

    def step() -> None:
        with lock:
            begun.set()
            wanted.wait(PATIENCE)

    def wake(*args: Any) -> Any:
        wanted.set()
        return type(loop).call_soon_threadsafe(loop, *args)

    loop.call_soon_threadsafe(step)
    begun.wait()
    loop.call_soon_threadsafe = wake  # type: ignore[method-assign, assignment]

    assert in_child(lambda: lock.acquire(timeout=0))
    assert guard.check("water", {}).decision == "deny"


def test_a_loop_that_is_no_more_keeps_no_fork_waiting(double: Double, make: Make) -> None:
    """A fork waits for no loop of a guard that is closed, and none of its parent in a child that forks again."""

    def waits(work: Callable[[], bool] = lambda: True) -> bool:
        with patch.object(Pause, "__enter__") as entered, patch.object(Pause, "__exit__"):
            assert in_child(work)
        return entered.called

    guard = make()
    assert waits(lambda: not waits())
    guard.close()
    assert not waits()


@pytest.mark.parametrize("kind", ["of a service", "of a monitor"])
def test_many_children_ask_while_threads_ask(double: Double, make: Make, kind: str) -> None:
    """Whatever the threads of a process are at when it forks: each child has its answers, and counts what it asked."""
    guard = (
        make() if kind == "of a service" else LocalGuard(Monitor([], Limits()), session="s1")
    )
    asked = DecisionIds()
    ended = threading.Event()

    def asks(number: int) -> None:
        while not ended.is_set():
            found = guard.check("scan", {"field": number})
            asked.put(str(number), found.decision_id)
            guard.outcome(asked.take(str(number)), "ran")
            guard.counts()

    def work() -> bool:
        first = guard.check("scan", {})
        guard.outcome(first.decision_id, "ran")
        asked.put("c1", first.decision_id)
        more = guard.check_all([Call("scan", {}), Call("scan", {})])
        return not any(each.unavailable for each in (first, *more))

    threads = [threading.Thread(target=asks, args=(each,)) for each in range(3)]
    for each in threads:
        each.start()
    try:
        found = [in_children(work, 8) for _ in range(CHILDREN // 8)]
    finally:
        ended.set()
        for each in threads:
            each.join()
    assert sum(found) == CHILDREN
    assert not {"deadline", "connection", "internal", "outcomes_lost"} & set(guard.counts())


def test_a_child_remembers_calls_on_their_way() -> None:
    """The lock of `DecisionIds`, which adapters keep, does not outlive a fork either."""
    calls, [lock] = with_locks(DecisionIds, "awaiting_outcome.decision_ids")
    calls.put("c1", "d1")
    with held(lock):
        assert in_child(lambda: calls.take("c1") == "d1")


def test_a_guard_loads_no_module_once_it_is_made() -> None:
    """A thread that loads a module holds its lock: a child that is forked meanwhile would wait for it for ever."""
    program = (
        "import sys; from offrails_guard import Guard; from tests.offrails_guard.double import running\n"
        "import offrails_guard.client\n"
        "known = set(sys.modules)\n"
        "with running() as double, Guard(double.url, session='s1') as guard:\n"
        "    assert guard.check('water', {}).decision == 'deny'\n"
        "print(sorted(set(sys.modules) - known))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )

    assert done.stdout == "[]\n"


def test_the_first_check_of_a_child_keeps_its_deadline(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child connects within the deadline of its check; it waits for no connection before it asks."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr("offrails_guard.transport.connection.FIRST_SECONDS", 0.01)
        guard = make(f"http://127.0.0.1:{silent.getsockname()[1]}", deadline_seconds=0.02)
        monkeypatch.setattr(
            "offrails_guard.transport.connection.FIRST_SECONDS", 10.0 * PATIENCE
        )

        assert in_child(lambda: guard.check("water", {}).unavailable == "deadline")


class Noticed:
    """A lock that says when it is asked for."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.asked = threading.Event()

    def __enter__(self) -> None:
        self.asked.set()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def test_a_child_has_the_whole_state_of_a_monitor() -> None:
    """A fork waits until the parent's monitor is done with a call; parent and child go on from there."""
    lock, steps = Noticed(), []
    monitor = Monitor([], Limits(history_complete=True))
    guards = [LocalGuard(monitor, session="s1", lock=lock) for _ in range(2)]
    begun = threading.Event()

    def work() -> None:
        with lock:
            steps.append("first half")
            lock.asked.clear()
            begun.set()
            lock.asked.wait()  # the process wants to fork
            steps.append("second half")

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()

    assert in_child(lambda: len(steps) == 2 and guards[1].check("scan", {}).allowed)
    thread.join()
    assert guards[0].check("scan", {}).allowed
