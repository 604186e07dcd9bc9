"""What things cost: `python -m tests.bench.things`, figures of docs/performance.md.

CPU time a call of a session in which calls carry ever more things, also with a call of an unnamed tool after every tenth;
the bytes of a live thing; and what an agent costs that invents a new id with each call.
"""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

from monitor import Limits, Monitor, tool_call
from monitor.spec.compiler.compile import compile_text

__all__ = ["SPEC", "bytes_of_a_thing", "dropped", "function_calls", "played"]

TEXT: Final = """
id: orders
kind: policy
each: {order: {look_up: id, refund: id}}
alphabet:
  login: {tool: login}
  look_up: {tool: look_up}
  refund: {tool: refund}
constraints: [{precedence: [look_up, refund]}, {at_most: [refund, 1]}, {not_coexistence: [login, refund]}]
"""
SPEC: Final = compile_text(TEXT, "orders.yaml")[0]
SHARED_EACH: Final = 10
"""One call of an unnamed tool after so many."""
FINAL_EACH: Final = 100
"""Verdicts become final once in so many calls, as by the service's timer."""
STEP_NS: Final = 10


def played(
    things: int, *, shared: bool = False, monitor: Monitor | None = None, first: int = 0
) -> Monitor:
    """A session that looks up or refunds each of so many orders; `shared` has it log in after every tenth.

    Args:
        things: orders.
        shared: whether calls of a tool that `each` does not name are among the calls.
        monitor: goes on with its session; None for a new one.
        first: the number of the first order.
    """
    assert SPEC is not None
    judging = monitor or Monitor([SPEC], Limits(history_complete=True, window_ns=STEP_NS))
    for number in range(first, first + things):
        now = STEP_NS * (number + 1)
        tool = "look_up" if number % 3 else "refund"
        _take(judging, tool, {"id": f"order-{number}"}, now)
        if shared and number % SHARED_EACH == 0:
            _take(judging, "login", {}, now + 5)
        if number % FINAL_EACH == 0:
            judging.finalise(now)
    judging.finalise(STEP_NS * (first + things + 2))
    return judging


def _take(monitor: Monitor, tool: str, arguments: dict[str, Any], at: int) -> None:
    call = tool_call(tool, arguments, session="s", start_ns=at, end_ns=at + 1)
    monitor.observe(call, at + 1, quiet=True)


def function_calls(work: Callable[[], object]) -> int:
    """Calls of functions that a piece of work takes: as time is, but the same on any machine."""
    count = 0

    def profile(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def bytes_of_a_thing(first: int, last: int) -> float:
    """Bytes that a further thing of a session takes, between so many and so many.

    All of the session is traced, so what it frees counts, too: a table that grows takes another's place. What the first
    sessions of a process fill (caches) is filled before.
    """
    played(FINAL_EACH)
    gc.collect()
    tracemalloc.start()
    try:
        monitor = played(first)
        before = _held()
        played(last - first, monitor=monitor, first=first)
        return (_held() - before) / (last - first)
    finally:
        tracemalloc.stop()


def _held() -> int:
    """Bytes that are held now."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def dropped(monitor: Monitor) -> int:
    """Things that the session does not know any more."""
    return sum(pair.things_dropped for pair in monitor.totals.pairs.values())


def table() -> Iterator[str]:
    """The figures, a line each."""
    for shared in (False, True):
        for things in (1_250, 2_500, 5_000, 10_000):
            began = time.process_time()
            played(things, shared=shared)
            micros = (time.process_time() - began) / things * 1e6
            yield f"{things} things{', a login after ten' if shared else ''}: {micros:.0f} us a thing"
    yield f"a live thing: {bytes_of_a_thing(2_000, 9_000):.0f} bytes"
    began = time.process_time()
    monitor = played(1_000_000)
    seconds = time.process_time() - began
    [found] = monitor.find("s")
    yield (
        f"1,000,000 ids: {seconds:.0f} s, {found['things_count']} things are kept, "
        f"{dropped(monitor)} dropped"
    )


if __name__ == "__main__":
    for line in table():
        print(line, flush=True)
