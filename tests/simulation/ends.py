"""The state of a monitor, in a form that can be compared with another's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from collector.calls.pipeline import Pipeline
from collector.decode.span import Span
from collector.sinks.alert.pager import Pager, PageRules
from collector.telemetry.counters import Stats
from monitor import Limits, Monitor, Verdict
from monitor.spec.spec import Spec
from tests.simulation.wire import SECOND

__all__ = ["WINDOW_NS", "Service", "State"]

WINDOW_NS = 10 * SECOND


class State(NamedTuple):
    """Objects without coverage, final events, final counters."""

    objects: list[dict[str, Any]]
    events: list[Verdict]
    counters: dict[tuple[str, ...], Any]

    def without_times(self) -> State:
        """The same but for when sessions were last seen, their places of calls then, and sessions without calls."""
        objects = [
            {key: value for key, value in each.items() if key != "updated_ns"}
            for each in self.objects
            if each["calls"] or each["steps"]
        ]
        return self._replace(
            objects=objects, events=[each._replace(step=0) for each in self.events]
        )

    def objects_alone(self) -> State:
        """Judgements as they are in the end."""
        return State(self.without_times().objects, [], {})


class Service:
    """A pipeline and its monitor, with the clock and the wire replaced."""

    def __init__(
        self,
        specs: Iterable[Spec],
        limits: Limits | None = None,
        *,
        started_ns: int = 0,
        monitor: Monitor | None = None,
    ) -> None:
        self.monitor = monitor or Monitor(
            specs, limits or Limits(history_complete=True), started_ns=started_ns
        )
        self.told: list[Verdict] = []
        self.final: list[Verdict] = []
        self.monitor.on_final(self.final.append)
        self.pipeline = Pipeline(self.monitor, Stats(), self.told.extend)

    def send(self, spans: Sequence[Span], now: int) -> None:
        """One request, received at `now`."""
        self.pipeline.consume(spans, now, "simulated")

    def tick(self, now: int) -> None:
        """Time has come to `now`."""
        self.pipeline.tick(now)
        self.monitor.tick(now)
        self.told += self.monitor.news()

    def pages(self) -> set[tuple[str, ...]]:
        """The calls that page in the end, by what was told in its order: spec, reason, trace and span.

        A page keeps the session under which it began, so that is left out.
        """
        pager = Pager(PageRules(per_minute=10_000), lambda *_: None)
        pager.consider((each._replace(mode="page") for each in self.told), 0)
        pager.flush(0)
        return {
            (page.key.spec, page.key.reason, span.hex())
            for page in pager.firing.values()
            for span in page.calls
        }

    def harms(self) -> set[tuple[str, ...]]:
        """The harmful calls that sessions show, in the form of `pages`."""
        return {
            (each["spec"], step["reason"], step["trace_id"] + step["span_id"])
            for each in self.monitor.judgements()
            if each["spec"]
            for step in each["steps"]
            if step["kind"] == "harmful"
        }

    def gauges(self) -> dict[tuple[str, ...], tuple[int, ...]]:
        """What live sessions add to the gauges of agent and spec."""
        found = {
            key: (
                *(pair.active, pair.sessions, pair.clean, pair.harmful),
                *(pair.harm_rate, pair.prefix_crit, pair.joined),
            )
            for key, pair in self.monitor.totals.pairs.items()
        }
        return {key: sums for key, sums in found.items() if any(sums)}

    def state(self) -> State:
        """The state to compare."""
        objects = [
            {key: value for key, value in each.items() if key != "coverage"}
            for each in self.monitor.judgements()
        ]
        counters = {
            key: +pair.final for key, pair in self.monitor.totals.pairs.items() if +pair.final
        }
        return State(
            sorted(
                objects,
                key=lambda each: (
                    each["session"],
                    each["spec"] or "",
                    str(each["turn"]),
                    each["agent"],
                ),
            ),
            sorted(
                self.final,
                key=lambda verdict: (*verdict.session, verdict.spec, verdict.span_id),
            ),
            counters,
        )
