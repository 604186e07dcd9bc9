"""The state of a monitor, in a form that can be compared with another's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from collector.calls.pipeline import Pipeline
from collector.decode.span import Span
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
