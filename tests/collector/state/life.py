"""A service in this process that is killed and started again, on a clock that the test moves.

It has no listeners and no tasks: requests go to its `Export`, and time goes on where the test says so.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from collector.app.service import App
from collector.config.settings.receiver import ReceiverSettings
from collector.config.settings.settings import Settings
from collector.config.settings.state import StateSettings
from collector.decode.span import Span
from collector.receive.export import Encoding
from collector.receive.memory_guard import MemoryGuard
from collector.restart.snapshot_content import SnapshotContent
from collector.state import snapshot
from monitor.exposition.family import ExemplarLines, Family, Sample
from monitor.exposition.metric_samples import families_of
from monitor.limits import SECOND
from monitor.spec.spec import Spec

__all__ = ["START", "TICK_NS", "Clock", "Life", "body_of"]

START = 1_700_000_000 * SECOND
TICK_NS = SECOND // 4


class Clock:
    """A clock that moves only when the test moves it."""

    def __init__(self, now: int = START) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def take(folder: Path, content: SnapshotContent) -> None:
    """Takes a snapshot at once, in this process."""
    state = content.state()
    snapshot.save(folder, content.about(), content.blocks(state))


class Life:
    """A service, and those that come after it.

    Args:
        folder: of the journal; None for a service without one.
        specs: in use.
        now: when it starts, Unix nanoseconds.
        state: of the section `state`.
        memory: what refuses a snapshot that there is no memory for.
        more: other settings.
    """

    def __init__(
        self,
        folder: Path | None,
        specs: Sequence[Spec],
        now: int = START,
        state: Mapping[str, Any] | None = None,
        memory: MemoryGuard | None = None,
        **more: Any,
    ) -> None:
        self.clock = Clock(now)
        self.specs = specs
        self.memory = memory
        given = {"receiver": ReceiverSettings(grpc="off", http="off"), **more}
        self.settings = Settings(
            metrics="off",
            admin="off",
            state=StateSettings(dir=folder, **{"bridged_seconds": 10, **(state or {})}),
            **given,
        )
        self.app: App

    async def start(self) -> App:
        """Starts a service, which recovers what there is."""
        await self.begin()
        return self.app

    def begin(self) -> asyncio.Task[None]:
        """The same: a task at whose end all is recovered."""
        self.app = App(
            self.settings,
            self.specs,
            clock=self.clock,
            steady=lambda: self.clock.now,
            memory=self.memory,
        )
        return asyncio.create_task(self._recover(self.app))

    async def _recover(self, app: App) -> None:
        if app.state is not None:
            await app.recover(app.state)

    def kill(self) -> None:
        """Ends the process as kill -9 does: nothing more is written."""
        state = self.app.state
        assert state is not None
        if state.journal.file is not None and state.journal.file.fd >= 0:
            os.close(state.journal.file.fd)
            state.journal.file.fd = -1
        state.journal.release()

    def snapshot(self) -> None:
        """Takes a snapshot, where the journal is between two records."""
        state = self.app.state
        assert state is not None
        if not state.journal.in_parts:
            take(state.journal.folder, state.snapshots.content)

    async def restart(self, down_ns: int = SECOND) -> App:
        """Kills it, and starts another one after some time."""
        self.kill()
        self.clock.now += down_ns
        return await self.start()

    def tick(self) -> None:
        """What the service does every quarter of a second."""
        self.app.step()
        self.app.alerts.step()

    def pass_to(self, now: int) -> None:
        """Time goes on to a moment, with all ticks on the way."""
        while self.clock.now + TICK_NS <= now:
            self.clock.now += TICK_NS
            self.tick()
        self.clock.now = max(self.clock.now, now)

    async def send(
        self,
        spans: Sequence[Span],
        encoding: Encoding = "proto",
        transport: str = "grpc",
        sender: str | None = None,
    ) -> None:
        """A request, as the receiver takes it, and counts its answer."""
        await self.app.export.ingest("traces", body_of(spans), encoding, transport, sender)
        stats = self.app.export.stats
        stats.request(transport, "traces", "OK" if transport == "grpc" else "200")

    def objects(self) -> list[dict[str, Any]]:
        """All judgements, in an order of their own."""
        return sorted(
            self.app.monitor.judgements(),
            key=lambda each: (
                each["session"],
                each["spec"] or "",
                str(each["turn"]),
                each["agent"],
            ),
        )

    def families(self) -> dict[str, list[Any]]:
        """The monitor's families, without the exemplars, which are of the moment."""
        return {each.name: _samples(each) for each in families_of(self.app.monitor)}

    def counters(self) -> dict[str, Any]:
        """The process's counters, without what takes real time."""
        found = self.app.stats.kept()
        del found["verdict_latency"], found["log_lines_dropped"]
        return {
            **{key: _sorted(value) for key, value in found.items()},
            "withheld": dict(self.app.alerts.pager.withheld),
        }

    def firing(self) -> set[Any]:
        """What pages."""
        return set(self.app.alerts.pager.firing)


def _sorted(value: Any) -> Any:
    return sorted(value, key=repr) if isinstance(value, list) else value


def _samples(family: Family) -> list[Any]:
    found = []
    for part in family.samples:
        if isinstance(part, Sample):
            found.append(f"{part.suffix}{part.labels} {part.value}")
        else:
            found += (part.text if isinstance(part, ExemplarLines) else part).splitlines()
    return sorted(found)


def _any(value: Any) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    return AnyValue(string_value=str(value))


def _pairs(found: Iterable[tuple[str, Any]]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_any(value)) for key, value in found]


def body_of(spans: Sequence[Span]) -> bytes:
    """The spans as an ExportTraceServiceRequest."""
    request = ExportTraceServiceRequest()
    for span in spans:
        group = ResourceSpans()
        group.resource.attributes.extend(_pairs(span.resource.attributes.items()))
        made = group.scope_spans.add().spans.add(
            trace_id=span.trace_id,
            span_id=span.span_id,
            parent_span_id=span.parent_span_id,
            name=span.name,
            kind=span.kind,
            start_time_unix_nano=span.start_ns,
            end_time_unix_nano=span.end_ns,
            dropped_attributes_count=span.dropped,
        )
        made.status.code = span.status  # type: ignore[assignment]
        made.attributes.extend(_pairs(zip(span.shape, span.values, strict=True)))
        request.resource_spans.append(group)
    return request.SerializeToString()
