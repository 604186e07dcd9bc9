from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from collector import garbage
from collector.pipeline import Pipeline
from collector.receivers.export import Export
from collector.stats import Stats
from monitor import Limits, Monitor, load_spec
from tests.bench.traffic import ROVER, SECOND, generate


@pytest.fixture
def restored() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)
    gc.enable()


def test_spans_leave_no_garbage_behind(restored: None) -> None:
    """Neither while sessions live nor once they are over is anything left that refers to itself."""
    traffic = generate(50, 30)
    now = 1_800_000_000 * SECOND
    monitor, stats = Monitor([load_spec(ROVER)], Limits(history_complete=True)), Stats()
    export = Export(Pipeline(monitor, stats, lambda _: None).consume, stats, lambda: now)
    first, *rest = traffic.requests
    export.traces(first, "proto", "grpc")
    gc.collect()
    gc.disable()

    for body in rest:
        export.traces(body, "proto", "grpc")
    assert gc.collect() == 0

    for hours in range(1, 100):
        monitor.tick(now + hours * 3_600 * SECOND)
    assert monitor.sessions == 0
    assert gc.collect() == 0


def test_what_there_is_at_the_start_is_left_alone(restored: None) -> None:
    """It is frozen, and the young are looked at less often than Python does by itself."""
    garbage.settle()

    assert gc.get_freeze_count() > 1_000
    assert gc.get_threshold()[0] == garbage.YOUNG > 700


class Kept:
    """Refers to others."""


def test_new_objects_are_looked_at_once(restored: None) -> None:
    """In portions, after which they are old; garbage among them goes."""
    garbage.settle()
    seen: list[int] = []

    def look(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            seen.append(info["generation"])

    gc.callbacks.append(look)
    try:
        kept = [[Kept()] for _ in range(3 * garbage.YOUNG)]
        cycle = Kept()
        gone = weakref.ref(cycle)
        cycle.itself = cycle  # type: ignore[attr-defined]
        del cycle
        kept += [[Kept()] for _ in range(garbage.YOUNG)]
    finally:
        gc.callbacks.remove(look)
    assert len(seen) >= 4
    assert set(seen) == {1}
    assert gone() is None
    assert len(gc.get_objects(generation=1)) == 0
    assert len(kept) == 4 * garbage.YOUNG
