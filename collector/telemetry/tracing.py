"""Spans of the service's own work: which are taken, and what they say.

Idea: a part of the process that can be traced holds a `Tracer`, or None while traces are off. A tracer decides before
the work begins whether there is a span, so work without one costs a comparison. What ends goes to `deliver`, which
hands it to the OpenTelemetry SDK (`collector.metrics.otlp_traces`); nothing here loads it.

Invariants:

- Of requests, a fixed share has a span. Of each kind of work, at most so many spans a second; the others are counted.
- No span holds what an agent says: names, sizes and results alone.
- The resource of own spans has `OWN`. Own spans are no tool calls, so no offrails judges them. A receiver that traces
  itself makes no span of a request that brings such spans alone: otherwise each would cause the next.

Example: with a share of 0.01 and 10 a second, 5,000 requests a second leave 10 spans a second and 40 counted ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Literal, Self

from collector.telemetry.counters import MetricReading

__all__ = ["OWN", "Kind", "OwnSpan", "Tracer", "traced"]

OWN: Final = "offrails.own_telemetry"
"""The attribute of a resource: its spans are of an offrails, not of an agent."""

Kind = Literal["request", "delivery", "scrape", "reload"]

SECOND: Final = 1_000_000_000

Value = str | int | float | bool


class OwnSpan:
    """A piece of the service's own work; as a context manager, it ends with the block.

    Args:
        kind: of work.
        tracer: whose span it is; None if nothing is kept of it.
        attributes: what is known at the start.
    """

    __slots__ = ("_tracer", "attributes", "end_ns", "error", "kind", "start_ns")

    def __init__(
        self, kind: Kind, tracer: Tracer | None, attributes: dict[str, Value] | None = None
    ) -> None:
        self.kind = kind
        self._tracer = tracer
        self.attributes: dict[str, Value] = attributes or {}
        self.start_ns = tracer.clock() if tracer is not None else 0
        self.end_ns = 0
        self.error = ""
        """Why the work failed; "" if it did not."""

    def set(self, **attributes: Value) -> None:
        """Says more of the work."""
        if self._tracer is not None:
            self.attributes.update(attributes)

    def fail(self, reason: str) -> None:
        """The work failed."""
        if self._tracer is not None:
            self.error = reason

    def discard(self) -> None:
        """Nothing is kept of it."""
        self._tracer = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._tracer is None:
            return
        if kind is not None and not self.error:
            self.error = kind.__name__
        self.end_ns = self._tracer.clock()
        self._tracer.deliver(self)


class Tracer:
    """Takes spans within bounds.

    Args:
        deliver: takes a span that has ended; it must return at once.
        ratio: share of requests that have a span, from 0 to 1.
        per_second: spans of each kind in a second, at most.
        clock: Unix nanoseconds.
    """

    def __init__(
        self,
        deliver: Callable[[OwnSpan], None],
        ratio: float,
        per_second: float,
        clock: Callable[[], int],
    ) -> None:
        self.deliver = deliver
        self.clock = clock
        self.results = {"ok": 0, "failed": 0, "dropped": 0}
        """Spans; another thread counts the first two: no key is ever added."""
        self._ratio = ratio
        self._due = 0.0
        """Fraction of a span that is due: from 1 on, a request has a span."""
        self._spacing_ns = int(SECOND / per_second)
        self._burst_ns = max(SECOND, self._spacing_ns)
        self._used_ns: dict[Kind, int] = {}
        """Time up to which the allowance of a kind is used up."""

    def readings(self) -> Iterator[MetricReading]:
        counts = self.results.items()
        yield MetricReading("telemetry_spans", [((result,), count) for result, count in counts])

    def request(self, transport: str, size: int) -> OwnSpan:
        """A span of a request, if it is its turn; else one of which nothing is kept."""
        self._due += self._ratio
        if self._due < 1:
            return OwnSpan("request", None)
        self._due -= 1
        return self.span("request", transport=transport, bytes=size)

    def span(self, kind: Kind, **attributes: Value) -> OwnSpan:
        """A span of other work, unless there were too many of its kind."""
        if not self._takes(kind):
            self.results["dropped"] += 1
            return OwnSpan(kind, None)
        return OwnSpan(kind, self, attributes)

    def _takes(self, kind: Kind) -> bool:
        """A token bucket that holds one second's spans."""
        now = self.clock()
        used = self._used_ns.get(kind, 0)
        if used > now:  # the clock was set back
            used = self._used_ns[kind] = now
        used = max(used, now - self._burst_ns) + self._spacing_ns
        if used > now:
            return False
        self._used_ns[kind] = used
        return True


_UNTRACED: Final = nullcontext(OwnSpan("scrape", None))


def traced(
    tracer: Tracer | None, kind: Kind, **attributes: Value
) -> AbstractContextManager[OwnSpan]:
    """A span of this work; where traces are off, one that keeps nothing."""
    return _UNTRACED if tracer is None else tracer.span(kind, **attributes)
