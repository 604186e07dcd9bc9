"""Spans written by hand, sent through the decoder and the pipeline."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, permutations
from math import factorial
from typing import Any

import pytest
import uvloop

from collector.calls.pipeline import Pipeline
from collector.decode.json import otlp_json
from collector.decode.span import Span
from collector.telemetry.counters import Stats
from monitor.engine import Monitor
from monitor.limits import Limits
from monitor.records import ToolCall, Verdict
from monitor.spec.spec import Spec
from monitor.visibility.cause import Cause

SECOND = 1_000_000_000
BASE = 1_700_000_000 * SECOND


def hex_id(name: str, size: int) -> str:
    """A stable id of `size` bytes for a name; "" stays ""."""
    return hashlib.sha256(name.encode()).hexdigest()[: 2 * size] if name else ""


def any_value(value: Any) -> dict[str, Any]:
    """A Python value as an OTLP/JSON AnyValue."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": pairs(value)}}
    if isinstance(value, list | tuple):
        return {"arrayValue": {"values": [any_value(item) for item in value]}}
    if isinstance(value, bytes):
        return {"bytesValue": base64.b64encode(value).decode()}
    return {} if value is None else {"stringValue": value}


def pairs(attributes: Mapping[str, Any] | Sequence[tuple[str, Any]]) -> list[dict[str, Any]]:
    """Attributes as they are on the wire; a sequence may have a key more than once."""
    items = attributes.items() if isinstance(attributes, Mapping) else attributes
    return [{"key": key, "value": any_value(value)} for key, value in items]


class Wire:
    """Makes spans; times are seconds after a fixed moment, ids any text."""

    def span(
        self,
        name: str,
        attributes: Mapping[str, Any] | Sequence[tuple[str, Any]] | None = None,
        *,
        id: str = "",  # noqa: A002 - the span's
        parent: str = "",
        trace: str = "trace",
        start: float = 0,
        end: float | None = None,
        kind: int = 1,
        status: int = 0,
        scope: str = "",
        resource: Mapping[str, Any] | None = None,
        events: Iterable[tuple[str, Mapping[str, Any]]] = (),
        dropped: int = 0,
    ) -> Span:
        begun = BASE + int(start * SECOND)
        ended = begun + SECOND // 10 if end is None else BASE + int(end * SECOND)
        item = {
            "traceId": hex_id(trace, 16),
            "spanId": hex_id(id or f"{name}@{start}", 8),
            "parentSpanId": hex_id(parent, 8),
            "name": name,
            "kind": kind,
            "startTimeUnixNano": str(begun),
            "endTimeUnixNano": "0" if end == 0 else str(ended),
            "attributes": pairs(attributes or {}),
            "events": [
                {"name": event, "attributes": pairs(found), "timeUnixNano": str(ended)}
                for event, found in events
            ],
            "status": {"code": status},
            "droppedAttributesCount": dropped,
        }
        spans = {"scope": {"name": scope}, "spans": [item]}
        service = {"service.name": "svc"} if resource is None else resource
        group = {"resource": {"attributes": pairs(service)}, "scopeSpans": [spans]}
        (span,) = otlp_json.decode(json.dumps({"resourceSpans": [group]}).encode()).spans
        return span

    @staticmethod
    def json(value: Any) -> str:
        """A value as an instrumentation writes it."""
        return json.dumps(value)

    def tool(self, tool: str, *, call_id: str = "", arguments: Any = None, **more: Any) -> Span:
        """An `execute_tool` span of the GenAI conventions."""
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
        if call_id:
            attributes["gen_ai.tool.call.id"] = call_id
        if arguments is not None:
            attributes["gen_ai.tool.call.arguments"] = json.dumps(arguments)
        attributes.update(more.pop("attributes", {}))
        return self.span(f"execute_tool {tool}", attributes, **more)


class Bench:
    """A monitor behind a pipeline, and what came of it."""

    def __init__(self, specs: Sequence[Spec] = (), **options: Any) -> None:
        limits = Limits(history_complete=True, keep_arguments=True, fold=False)
        self.monitor = Monitor(specs, limits)
        self.stats = Stats()
        self.verdicts: list[Verdict] = []
        self.pipeline = Pipeline(self.monitor, self.stats, self.verdicts.extend, **options)

    def send(self, *spans: Span, now: float = 3600) -> Bench:
        """Sends each span in a request of its own."""
        for span in spans:
            self.pipeline.consume([span], BASE + int(now * SECOND), "test")
        return self

    def sessions(self) -> dict[str, list[dict[str, Any]]]:
        """Session id -> steps, of sessions that have any."""
        found: dict[str, list[dict[str, Any]]] = {}
        for judgement in self.monitor.judgements():
            if judgement["steps"]:
                found.setdefault(judgement["session"], []).extend(judgement["steps"])
        return found

    def steps(self) -> list[dict[str, Any]]:
        """All steps, by start."""
        steps = [step for each in self.sessions().values() for step in each]
        return sorted(steps, key=lambda step: (step["start_ns"], step["span_id"]))

    def tools(self) -> list[str]:
        return [step["tool"] for step in self.steps()]

    def judged(self) -> list[ToolCall]:
        """The calls of all spans that are remembered, as the monitor knows them, by start."""
        trees = [trace.tree for trace in self.pipeline.traces if trace.tree is not None]
        calls = {node.call for tree in trees for node in tree.calls()}
        found = [each.judged for each in calls if each is not None and each.judged is not None]
        return sorted(found, key=lambda call: (call.start_ns, -call.end_ns, call.span_id))

    def doubts(self) -> list[tuple[str, tuple[Cause, ...]]]:
        """Tool and doubts of each of these calls, whatever may come above them."""
        return [
            (call.tool, tuple([cause for cause in call.doubts if cause is not Cause.ORPHAN]))
            for call in self.judged()
        ]

    def covered(self, reason: str) -> int:
        return self.stats.counts.get(("coverage", reason), 0)


@pytest.fixture
def wire() -> Wire:
    """Makes spans."""
    return Wire()


@pytest.fixture
def bench() -> type[Bench]:
    """Makes a monitor behind a pipeline."""
    return Bench


Orders = Callable[[Sequence[Any]], Iterator[tuple[Any, ...]]]
FEW_ORDERS = 20


@pytest.fixture(params=["some", pytest.param("all", marks=pytest.mark.long)])
def orders(request: pytest.FixtureRequest) -> Orders:
    """Orders of five spans or more: some twenty, of which any two spans are in both orders, and in `make test-long` all."""

    def of(spans: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        # An even step would never swap the last two.
        step = factorial(len(spans)) // FEW_ORDERS | 1 if request.param == "some" else 1
        return islice(permutations(spans), None, None, step)

    return of


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop])
def run(request: pytest.FixtureRequest) -> Callable[[Any], None]:
    """Runs a scenario on either loop."""

    def work(scenario: Any) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(scenario)

    return work
