"""A flood of one tenant takes nothing from another: ids that are known, and trees of spans."""

from __future__ import annotations

from random import Random

from collector.calls.duplicate_spans import DuplicateFilter
from collector.calls.tree.trace import Trace
from collector.calls.tree.trace_store import Traces


def test_a_flood_forgets_no_ids_of_another_tenant() -> None:
    """One tenant's ids, however many, evict none of another's within the period."""
    seen, random = DuplicateFilter(period_ns=100, bound=16 * 100), Random(1)
    quiet = [random.randbytes(24) + b"quiet/prod" for _ in range(200)]
    for key in quiet:
        assert not seen.is_repeat(key, 0)
    for _ in range(20_000):
        assert not seen.is_repeat(random.randbytes(24) + b"loud/prod", 50)

    assert all(key in seen for key in quiet)
    assert seen.size() <= 2 * 16 * 100 * 200  # a trace with one id takes less than 200 bytes


def test_ids_of_a_quiet_tenant_are_forgotten_with_time() -> None:
    """A flood makes them no older, and keeps them no longer."""
    seen, random = DuplicateFilter(period_ns=100, bound=16 * 100), Random(1)
    quiet = [random.randbytes(24) + b"quiet/prod" for _ in range(200)]
    for key in quiet:
        seen.is_repeat(key, 0)
    for now in range(0, 400, 20):
        for _ in range(2_000):
            seen.is_repeat(random.randbytes(24) + b"loud/prod", now)

    assert not any(key in seen for key in quiet)


def grow(traces: Traces, namespace: str, number: int, now: int) -> Trace:
    trace = traces.of(namespace, number.to_bytes(16, "big"))
    traces.grow(trace, now).put(number.to_bytes(8, "big"), b"")
    return trace


def test_a_flood_frees_no_trees_of_another_tenant() -> None:
    """Its calls may wait for spans for as long as without the flood, and no longer."""
    traces = Traces(period_ns=1_000, spans_max=100)
    quiet = [grow(traces, "quiet/prod", number, 0) for number in range(10)]
    loud = [grow(traces, "loud/prod", number, 10) for number in range(2_000)]

    assert all(trace.tree is not None for trace in quiet)
    assert sum(trace.tree is not None for trace in loud) <= 300
    for now in range(1_000, 5_000, 100):
        for number in range(50):
            grow(traces, "loud/prod", 10_000 + now + number, now)
    assert all(trace.tree is None for trace in quiet)


def test_a_flood_of_bytes_frees_no_trees_of_another_tenant() -> None:
    """A few spans that list many calls fill the bound: they are not the trees of a quiet tenant."""
    traces = Traces(period_ns=1_000, trees_bytes_max=3 * 1_000_000)
    quiet = [grow(traces, "quiet/prod", number, 0) for number in range(300)]
    loud = []
    for number in range(200):
        loud.append(grow(traces, "loud/prod", number, 10))
        tree = loud[-1].tree
        assert tree is not None
        for _ in range(100):
            traces.hold(tree, None)

    assert all(trace.tree is not None for trace in quiet)
    assert traces.trees_bytes <= 3 * 1_000_000
    assert sum(trace.tree is not None for trace in loud) < 50


def test_a_flood_of_one_tenant_alone_ends_periods_early() -> None:
    """Its own trees are freed as usual."""
    traces = Traces(period_ns=1_000, spans_max=100)
    loud = [grow(traces, "loud/prod", number, 10) for number in range(2_000)]
    assert sum(trace.tree is not None for trace in loud) <= 300
