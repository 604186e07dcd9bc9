from __future__ import annotations

import gc
import json
import re
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from collector.app import gc_tuning
from collector.calls.model_requests import Mode
from collector.calls.pipeline import Pipeline
from collector.receive.export import Export
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, load_spec
from tests.bench import traffic
from tests.bench.traffic import ROVER, SECOND, generate
from tests.samples import sampled

SOURCES = [
    file
    for top in ("collector", "monitor")
    for file in Path(__file__).parents[3].glob(f"{top}/**/*.py")
]
ACYCLIC = {
    name
    for file in SOURCES
    for name in re.findall(r"@mypyc_attr\(acyclic=True[^)]*\)\nclass (\w+)", file.read_text())
}
"""Classes whose objects are not searched for garbage in the compiled build."""


@pytest.fixture
def only_new() -> Iterator[None]:
    """Garbage is looked for by the test alone, among what it makes."""
    gc.collect()
    gc.freeze()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def restored() -> Iterator[None]:
    before = gc.get_threshold()
    gc.unfreeze()  # what tests/conftest.py has frozen
    yield
    gc.unfreeze()
    gc.set_threshold(*before)
    gc.enable()


def test_spans_leave_no_garbage_behind(only_new: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions leave no objects in reference cycles, neither while they live nor once they are over."""
    monkeypatch.setattr(traffic, "IN_FLIGHT", 30)
    now = 1_800_000_000 * SECOND
    monitor, stats = Monitor([load_spec(ROVER)], Limits(history_complete=True)), Stats()
    export = Export(Pipeline(monitor, stats, lambda _: None).consume, stats, lambda: now)
    first, *rest = generate(50, 8).requests
    export.ingest_now("traces", first, "proto", "grpc")
    gc.collect()

    for body in rest:
        export.ingest_now("traces", body, "proto", "grpc")
    assert gc.collect() == 0

    for hours in range(1, 100):
        monitor.tick(now + hours * 3_600 * SECOND)
    assert monitor.sessions == 0
    assert gc.collect() == 0


def _any_span(wire: Any, chance: Random) -> Any:
    """A span of few traces, sessions, parents and call ids, so that most combinations occur."""
    trace = chance.choice("tuvw")
    attributes = {"session.id": chance.choice("abcd")} if chance.random() < 0.4 else {}
    names = [f"{trace}{number}" for number in range(12)]
    place: dict[str, Any] = {
        "id": chance.choice(names),
        "parent": chance.choice([*names, "", "", ""]),
        "trace": trace,
        "start": chance.randint(0, 30),
        "resource": {"service.name": chance.choice(["farm-rover", "other"])},
    }
    if chance.random() < 0.6:
        tool, call_id = (
            chance.choice(["move", "scan", "dance"]),
            chance.choice(["", "c1", "c2"]),
        )
        end = chance.choice([0, None])
        return wire.tool(tool, call_id=call_id, end=end, attributes=attributes, **place)
    asked = {"type": "tool_call", "id": f"c{chance.randint(1, 99)}", "name": "move"}
    told = {"type": "tool_call_response", "id": "c3"}
    attributes |= {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": json.dumps([{"parts": [told]}]),
        "gen_ai.output.messages": json.dumps([{"parts": [asked]}]),
    }
    return wire.span("chat", attributes, **place)


def _harm(wire: Any, number: int) -> Any:
    """A call of a session without a doubt that does harm: its share of the sums waits, so its pair refers to it."""
    place: dict[str, Any] = {
        "id": f"w{number}",
        "parent": "",
        "trace": "w",
        "start": 31 + number,
    }
    place["resource"] = {"service.name": "farm-rover"}
    return wire.tool("move", call_id=f"h{number}", attributes={"session.id": "e"}, **place)


def _played(spans: list[Any], requested: Mode) -> tuple[Monitor, Pipeline]:
    """Two live sessions at most, and a span each half second."""
    now = 1_800_000_000 * SECOND
    monitor = Monitor([load_spec(ROVER)], Limits(history_complete=True, sessions_max=2))
    pipeline = Pipeline(monitor, Stats(), lambda _: None, requested=requested)
    for number, span in enumerate(spans):
        pipeline.consume([span], now + number * SECOND // 2, "test")
        if number % 50 == 0:
            monitor.tick(now + number * SECOND // 2)
    return monitor, pipeline


def _refers_to_itself(record: object, among: set[int]) -> bool:
    seen, found = set[int](), [record]
    while found:
        for each in gc.get_referents(found.pop()):
            if each is record:
                return True
            if id(each) in among and id(each) not in seen:
                seen.add(id(each))
                found.append(each)
    return False


def _in_a_cycle() -> tuple[set[str], set[str]]:
    """Names of the acyclic classes with objects made since the freeze; those that are in cycles."""
    made = gc.get_objects()
    among = {id(each) for each in made} - {id(made)}
    records = [each for each in made if type(each).__name__ in ACYCLIC]
    circular = {type(each).__name__ for each in records if _refers_to_itself(each, among)}
    return {type(each).__name__ for each in records}, circular


@pytest.mark.plain
@pytest.mark.parametrize("requested", sampled(["auto", "always"], ["always"]))
def test_no_record_refers_to_itself(only_new: None, wire: Any, requested: Mode) -> None:
    """Split traces, requests taken back, calls that merge and evictions: compiled, it would leak.

    But for requests and their trace, until they are closed, and for live sessions.
    """
    chance = Random(1)
    spans = [_any_span(wire, chance) for _ in range(110)]
    spans += [_harm(wire, number) for number in range(5)]
    _played(spans, requested)  # what is made once in a process, as readers of JSON are
    gc.collect()
    gc.freeze()
    monitor, pipeline = _played(spans, requested)
    made, circular = _in_a_cycle()
    assert {
        "Trace",
        "SpanTree",
        "SpanClaim",
        "LogicalCall",
        "Piece",
        "OpenRequest",
        "SessionLog",
        "AutomatonRun",
        "HarmTally",
    } <= made
    assert circular == {"OpenRequest", "Trace", "Session", "Judgement"}
    assert monitor.counters.ended["evicted"]
    assert gc.collect() == 0

    pipeline.finish()
    monitor.close(2_000_000_000 * SECOND)
    assert _in_a_cycle()[1] == set()
    assert gc.collect() == 0


def test_a_dropped_monitor_leaves_no_cycles_of_sessions(
    only_new: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dropped monitor breaks the references between its live sessions and their sums."""
    monkeypatch.setattr(traffic, "IN_FLIGHT", 30)
    requests = generate(50, 4).requests

    def play() -> None:
        monitor, stats = Monitor([load_spec(ROVER)], Limits(history_complete=True)), Stats()
        pipeline = Pipeline(monitor, stats, lambda _: None)
        export = Export(pipeline.consume, stats, lambda: 1_800_000_000 * SECOND)
        for body in requests:
            export.ingest_now("traces", body, "proto", "grpc")
        assert monitor.sessions > 30
        pipeline.finish()

    play()  # what is made once in a process
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(2):
        play()
    gc.collect()
    assert sys.getallocatedblocks() - before < 200


def test_objects_of_the_start_are_frozen(restored: None) -> None:
    """Objects of the start are frozen, and young objects are collected less often than by default."""
    gc_tuning.settle()

    assert gc.get_freeze_count() > 1_000
    assert gc.get_threshold()[0] == gc_tuning.YOUNG > 700


class Kept:
    """Refers to others."""


def test_new_objects_are_looked_at_once(restored: None) -> None:
    """Young objects are collected in portions, once; cyclic garbage among them is freed."""
    gc_tuning.settle()
    seen: list[int] = []

    def look(phase: str, info: dict[str, int]) -> None:
        if phase == "stop":
            seen.append(info["generation"])

    gc.callbacks.append(look)
    try:
        # Not as many as fill a portion: the next look comes only once the cycle is garbage.
        kept = [[Kept()] for _ in range(3 * gc_tuning.YOUNG + gc_tuning.YOUNG // 4)]
        cycle = Kept()
        gone = weakref.ref(cycle)
        cycle.itself = cycle  # type: ignore[attr-defined]
        del cycle
        # More than one portion: what other threads let go meanwhile is taken off.
        kept += [[Kept()] for _ in range(2 * gc_tuning.YOUNG)]
    finally:
        gc.callbacks.remove(look)
    assert len(seen) >= 4
    assert set(seen) == {1}
    assert gone() is None
    assert len(gc.get_objects(generation=1)) == 0
    assert len(kept) == 5 * gc_tuning.YOUNG + gc_tuning.YOUNG // 4
