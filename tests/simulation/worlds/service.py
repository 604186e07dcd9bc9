"""The monitor's process in a world: requests in, at the times at which they arrive; what it tells, out.

The real receiver decodes the requests, the real pipeline reads and judges the spans, the real pager pages. This is the
one module that knows how they are put together (docs/library.md, and the signatures of what it calls).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from collector.calls.pipeline import Pipeline
from collector.receive.export import Export
from collector.sinks.alert.page_alert import PageAlert
from collector.sinks.alert.pager import Pager, PageRules
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, MonitorCollector, Spec, Verdict
from monitor.spec.compiler.compile import compile_text
from tests.simulation.worlds.spans import Request, body, requests, unix_ns
from tests.simulation.worlds.world import World

# Seconds after the last span: verdicts that wait for overlapping calls are final after 70.
_AFTERMATH = (0.3, 0.6, 1, 2, 5, 9, 11, 12, 15, 30, 60, 72, 80)


@dataclass
class Told:
    """All that the processes of a world have told.

    Args:
        judgements: the judgement objects at the end of each process, and whether it was `killed`.
        pages: verdicts that paged, as (spec, span id) to the verdict.
        paged: when each of them did first: the time of the last request that had come, in seconds since the world began.
        last: what the last process told last of each call, by (spec, span id).
        finals: final harmful calls by spec, over all processes.
        reasons: what was counted, by reason or name.
    """

    judgements: list[dict[str, Any]] = field(default_factory=list)
    pages: dict[tuple[str, bytes], Verdict] = field(default_factory=dict)
    paged: dict[tuple[str, bytes], float] = field(default_factory=dict)
    last: dict[tuple[str, bytes], Verdict] = field(default_factory=dict)
    finals: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)


class _Process:
    """One process, from its start to its end."""

    def __init__(self, world: World, started: float, told: Told) -> None:
        self._told = told
        told.last.clear()
        self._stats = Stats()
        self._now = unix_ns(started)
        self._heard = started
        self._monitor = Monitor(
            # JSON is YAML.
            [_compiled(json.dumps(document)) for document in world.documents],
            Limits(history_complete=world.complete),
            started_ns=self._now,
        )
        self._pager = Pager(PageRules(per_minute=10_000), self._page)
        settings: dict[str, Any] = {}
        if world.session_keys is not None:
            settings["session_keys"] = world.session_keys
        self._pipeline = Pipeline(self._monitor, self._stats, self._deliver, **settings)
        self._export = Export(self._pipeline.consume, self._stats, lambda: self._now)

    def receive(self, request: Request) -> None:
        self.tick(request.at)
        self._heard = request.at
        self._export.ingest_now("traces", body(request.spans), "json", "http_json")

    def tick(self, at: float) -> None:
        """Time passes, at most a second at once; in the order of the service's own ticks."""
        until = max(self._now, unix_ns(at))
        while self._now < until:
            self._now = min(self._now + 1_000_000_000, until)
            if until - self._now > 60_000_000_000:
                self._now = until - 60_000_000_000
            self._pipeline.tick(self._now)
            self._monitor.tick(self._now)
            self._deliver(self._monitor.news())
            self._pager.tick(self._now)

    def was_down(self, since: float, until: float) -> None:
        """A process with a journal goes on where its predecessor was, and knows when nobody received."""
        self.tick(since)
        self._now = unix_ns(until)
        self._monitor.gaps.missed(unix_ns(since), self._now)

    def end(self, *, killed: bool) -> None:
        """Writes down what is told at the end.

        What did not come is counted minutes later, and a joined session when it has ended. A process that was killed would have
        counted them, too.
        """
        if killed:
            told = [{**each, "killed": True} for each in self._monitor.judgements()]
            self._told.judgements += told
            joined = sum(each["joined"] for each in told)
            if joined:
                name = "offrails_sessions_joined_total"
                self._told.reasons[name] = self._told.reasons.get(name, 0) + joined
            self._pipeline.finish()
        else:
            self._pipeline.finish()
            self._told.judgements += [
                {**j, "killed": False} for j in self._monitor.judgements()
            ]
            self._monitor.close(self._now)
        for name, labels, value in _samples(self._monitor):
            if name == "offrails_harmful_calls_total":
                spec = labels["spec"]
                self._told.finals[spec] = self._told.finals.get(spec, 0) + int(value)
            elif name in TELLING and value:
                self._told.reasons[name] = self._told.reasons.get(name, 0) + int(value)
        for reason, count in _coverage(self._stats).items():
            self._told.reasons[reason] = self._told.reasons.get(reason, 0) + count

    def _deliver(self, verdicts: Sequence[Verdict]) -> None:
        for verdict in verdicts:
            self._told.last[verdict.spec, verdict.span_id] = verdict
        self._pager.consider(verdicts, self._now)

    def _page(self, pages: Sequence[PageAlert], _now: int, _new: bool) -> None:
        for page in pages:
            if page.ended_ns:
                continue
            for verdict in page.calls.values():
                if isinstance(verdict, Verdict):
                    self._told.pages[verdict.spec, verdict.span_id] = verdict
                    self._told.paged.setdefault((verdict.spec, verdict.span_id), self._heard)


# Families that tell of harm that is not certain, or of calls that were not judged as they were made.
TELLING = {
    "offrails_possible_harm_total",
    "offrails_sessions_joined_total",
    "offrails_sessions_resumed_total",
    "offrails_calls_late_total",
    "offrails_orders_left_out_total",
    "offrails_spans_skewed_total",
}


def _samples(monitor: Monitor) -> list[tuple[str, dict[str, str], float]]:
    return [
        (sample.name, sample.labels, sample.value)
        for family in MonitorCollector(monitor).collect()
        for sample in family.samples
    ]


def _coverage(stats: Stats) -> dict[str, int]:
    """`offrails_coverage_total`, by reason."""
    counts: list[list[Any]] = stats.kept()["counts"]
    return {labels[0]: count for name, *labels, count in counts if name == "coverage"}


@functools.lru_cache(maxsize=4096)
def _compiled(text: str) -> Spec:
    spec, findings = compile_text(text, "spec.yaml")
    assert spec is not None, findings
    return spec


def run(world: World) -> Told:
    """Plays a world, and returns what was told."""
    told = Told()
    starts = sorted(world.started)
    waiting = [each for each in requests(world.spans) if not _is_down(world, each.at)]
    down = sorted(world.down)
    for number, started in enumerate(starts):
        until = starts[number + 1] if number + 1 < len(starts) else float("inf")
        process = _Process(world, started, told)
        while waiting and waiting[0].at < until:
            request = waiting.pop(0)
            while down and down[0][1] <= request.at:
                process.was_down(*down.pop(0))
            if request.at >= started:
                process.receive(request)
        if until == float("inf"):
            for each in down:
                process.was_down(*each)
            for seconds in _AFTERMATH:
                process.tick(world.end() + seconds)
        process.end(killed=until != float("inf"))
    return told


def _is_down(world: World, at: float) -> bool:
    return any(begun <= at < ended for begun, ended in world.down)
