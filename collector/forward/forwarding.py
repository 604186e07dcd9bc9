"""All next hops together: takes accepted requests from `Export`, and has each next hop send its copy.

A request that a next hop with `on_full: refuse` has no room for is refused to its sender as a whole, so no other
next hop gets it either: the sender sends it again. What was judged of it is not judged again then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from collector.config.settings import NextHop
from collector.forward.destination import Destination, Sender
from collector.forward.http_sender import HttpForwarder
from collector.forward.message import Message
from collector.forward.queue import MemoryQueue
from collector.receive.export import Encoding, Metadata, Signal
from collector.receive.status import Outcome, Refusal
from collector.telemetry.counters import Reading, Stats

__all__ = ["Forwarding", "forwarding_of"]

SIGNALS: Final[tuple[Signal, ...]] = ("traces", "metrics", "logs")


class Forwarding:
    """The next hops of one process.

    Args:
        destinations: one for each next hop.
        stats: counts requests that are refused for a next hop.
    """

    def __init__(self, destinations: Sequence[Destination], stats: Stats) -> None:
        self.destinations = destinations
        self._stats = stats
        self._by_signal = {
            signal: [each for each in destinations if signal in each.hop.signals]
            for signal in SIGNALS
        }
        self._header_names = {
            each.name: frozenset(name.encode() for name in each.hop.headers_from_sender)
            for each in destinations
        }
        """By the name of a next hop."""
        self.header_names = frozenset().union(*self._header_names.values())

    def send(self, signal: Signal, body: bytes, encoding: Encoding, metadata: Metadata) -> None:
        """Puts an accepted request into the queues of its next hops.

        Raises:
            Refusal: UNAVAILABLE; a queue is full, and its next hop has `on_full: refuse`. No next hop gets it.
        """
        hops = self._by_signal[signal]
        messages = [
            Message(signal, body, encoding, self._listed(metadata, each)) for each in hops
        ]
        reserved: list[tuple[Destination, Message]] = []
        for hop, message in zip(hops, messages, strict=True):
            if hop.hop.on_full != "refuse":
                continue
            if not hop.queue.reserve(message.size):
                for other, held in reserved:
                    other.queue.release(held.size)
                self._stats.count("requests_refused", "next_hop")
                text = "busy: the queue of a next hop is full; try again"
                raise Refusal(Outcome.UNAVAILABLE, text)
            reserved.append((hop, message))
        for hop, message in zip(hops, messages, strict=True):
            if hop.hop.on_full == "refuse":
                hop.put(message)
            else:
                hop.offer(message)

    def _listed(self, metadata: Metadata, hop: Destination) -> Metadata:
        """The headers of a sender that go on to one next hop."""
        if not metadata:
            return metadata
        names = self._header_names[hop.name]
        return [each for each in metadata if each[0] in names]

    async def prepare(self) -> None:
        """Reads certificates and credentials.

        Raises:
            UnusableError: a file that the settings name.
        """
        for each in self.destinations:
            await each.prepare()

    def start(self) -> None:
        """Begins to send, in the running loop."""
        for each in self.destinations:
            each.start()

    async def stop(self, grace_seconds: float) -> None:
        """Sends what waits, as far as the time allows. What is left is counted and logged."""
        await asyncio.gather(*(each.stop(grace_seconds) for each in self.destinations))

    def readings(self) -> Iterator[Reading]:
        """The metrics of all next hops."""
        hops = self.destinations
        yield Reading("forward_requests", [row for each in hops for row in each.outcomes()])
        yield Reading(
            "forward_dropped",
            [
                ((each.name, reason), count)
                for each in hops
                for reason, count in each.dropped.items()
            ],
        )
        yield Reading(
            "forward_rejected_items",
            [
                ((each.name, signal), count)
                for each in hops
                for signal, count in each.rejected.items()
            ],
        )
        yield Reading("forward_retries", [((each.name,), each.retries) for each in hops])
        yield Reading(
            "forward_queue_bytes", [((each.name,), each.queue.bytes) for each in hops]
        )
        bounds = [((each.name,), each.queue.bytes_max) for each in hops]
        yield Reading("forward_queue_bytes_max", bounds)
        yield Reading("forward_seconds", [((each.name,), each.latency) for each in hops])
        yield Reading("forward_up", [((each.name,), int(each.is_up)) for each in hops])


def forwarding_of(
    settings: Sequence[NextHop], stats: Stats, clock: Callable[[], int]
) -> Forwarding:
    """The next hops that are set up.

    Args:
        settings: of each.
        stats: counts requests that are refused for a next hop.
        clock: Unix nanoseconds.
    """
    return Forwarding(
        [
            Destination(
                hop, _sender(hop, f"forward[{place}]", clock), MemoryQueue(hop.queue_bytes)
            )
            for place, hop in enumerate(settings)
        ],
        stats,
    )


def _sender(hop: NextHop, setting: str, clock: Callable[[], int]) -> Sender:
    if hop.protocol == "http":
        return HttpForwarder(hop, setting, clock)
    from collector.forward.grpc_sender import GrpcForwarder

    return GrpcForwarder(hop, setting)
