"""Delivery of spans to the monitor: batched, delayed, repeated or lost, with a simulated clock."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import NamedTuple

from collector.decode.span import Span
from tests.simulation.wire import SECOND

__all__ = ["Request", "Road", "deliver"]


_NEAR_NS = 2 * SECOND
"""Spans of one batch have ended within so long; with the delay it stays below the window."""


class Request(NamedTuple):
    """One request as the receiver sees it."""

    now: int
    spans: tuple[Span, ...]


class Road(NamedTuple):
    """How bad the way is: chances between 0 and 1, times in nanoseconds."""

    delay_ns: int = 4 * SECOND
    """The longest wait for a batch to be sent."""
    again: float = 0.15
    """The answer to a request is lost, so it is sent once more."""
    again_ns: int = 3 * SECOND
    lost: float = 0.0
    """A request never comes."""
    batch_max: int = 24
    skew_ns: int = 0
    """The sender's clock is ahead of the receiver's by up to so much, or behind."""


def deliver(spans: Iterable[Span], road: Road, chance: Random) -> list[Request]:
    """The requests that the spans of several processes are sent in, in order of receipt.

    A span is ready when it ends. Each process has a few exporters' worth of batches open at a
    time, so batches overtake each other and a batch may be split or joined with another.
    """
    skew = chance.randint(-road.skew_ns, road.skew_ns) if road.skew_ns else 0
    ready = sorted(spans, key=lambda span: (span.end_ns, span.span_id))
    requests: list[Request] = []
    while ready:
        size = chance.randint(1, road.batch_max)
        # Of the spans that are ready soon, some go with this batch and some with the next.
        near = [span for span in ready[: 2 * size] if span.end_ns - ready[0].end_ns < _NEAR_NS]
        chosen = [span for span in near if span is near[0] or chance.random() < 0.6][:size]
        taken = {id(span) for span in chosen}
        ready = [span for span in near if id(span) not in taken] + ready[len(near) :]
        chance.shuffle(chosen)
        for part in _cut(chosen, chance):
            requests += _send(tuple(part), road, chance, skew)
    return sorted(requests, key=lambda request: request.now)


def _cut(spans: list[Span], chance: Random) -> list[list[Span]]:
    """The batch in one request, or split in two."""
    if len(spans) < 2 or chance.random() < 0.7:
        return [spans]
    place = chance.randrange(1, len(spans))
    return [spans[:place], spans[place:]]


def _send(spans: tuple[Span, ...], road: Road, chance: Random, skew: int) -> list[Request]:
    if chance.random() < road.lost:
        return []
    now = max(span.end_ns for span in spans) - skew + 1 + chance.randrange(road.delay_ns)
    found = [Request(now, spans)]
    if chance.random() < road.again:
        found.append(Request(now + 1 + chance.randrange(road.again_ns), spans))
    return found
