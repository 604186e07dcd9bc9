"""All next hops together: takes accepted requests from `Export`, and has each next hop send its copy.

A request that a next hop with `on_full: refuse` has no room for, or that one with `sync` does not take, is refused to
its sender as a whole: no next hop gets it that has not got it already. The sender sends it again. What was judged of it
is not judged again then, so its verdicts are remembered for the next hops that show them.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, Final

from collector.config.settings.forward import NextHopSettings
from collector.forward.annotation import Marks, SpanAnnotation, is_worse
from collector.forward.http_sender import HttpForwarder
from collector.forward.message import ForwardMessage, ForwardReply
from collector.forward.next_hop import Destination, NextHopSender
from collector.forward.outbox import Outbox, marks_of
from collector.forward.queue import ForwardQueue
from collector.forward.transcode import TranscodeError
from collector.forward.unsent_request import UnsentRequest, bodies_of, unsent_in
from collector.receive.export import TAKEN, ExportResult
from collector.receive.request import Metadata, Request, Signal
from collector.receive.status_codes import ExportStatus, Refusal
from collector.state.records import ConfirmationRecord
from collector.telemetry.counters import MetricReading, Stats
from collector.telemetry.logs import log
from monitor.records import CALL_KINDS, SessionKey, Verdict

__all__ = ["HarmRate", "NextHops", "forwarding_of"]

SIGNALS: Final[tuple[Signal, ...]] = ("traces", "metrics", "logs")
SECOND_NS: Final = 1_000_000_000
BODIES_AT_ONCE: Final = 256
"""Requests of an earlier process that are read between two looks at the event loop."""
REMEMBERED_MAX: Final = 1_024
"""Refused requests whose verdicts are remembered."""
RETRY_SECONDS: Final = 5
"""Time after which a sender may retry, where a next hop does not say it."""
WORDS_MAX: Final = 200
"""Characters of a next hop's answer that a sender gets."""

HarmRate = Callable[[SessionKey, str], float | None]
"""HarmRate of a session under a spec, as known now."""
_Pairs = list[tuple[Destination, ForwardMessage]]


class NextHops:
    """The next hops of one process.

    Args:
        destinations: one for each next hop.
        stats: counts requests that are refused for a next hop.
        harm_rate: of sessions, for annotations.
    """

    def __init__(
        self, destinations: Sequence[Destination], stats: Stats, harm_rate: HarmRate
    ) -> None:
        self.destinations = destinations
        self._stats = stats
        self._harm_rate = harm_rate
        self._by_signal = {
            signal: [each for each in destinations if signal in each.hop.signals]
            for signal in SIGNALS
        }
        self._header_names = {
            each.name: frozenset(name.encode() for name in each.hop.headers_from_sender)
            for each in destinations
        }
        """Header names that go on, by the name of a next hop."""
        self.header_names = frozenset().union(*self._header_names.values())
        self.waits = any(each.hop.sync for each in destinations)
        self.annotates = any(each.hop.annotate for each in destinations)
        """True if all verdicts must be worded, not only news."""
        self.unkept = Counter({each.name: 0 for each in destinations})
        """Next hop -> requests that waited for it when the journal deleted them."""
        self._is_on = False
        self._unkept_before: Counter[str] = Counter()
        self._outbox: Outbox | None = None
        self._judged: Request | None = None
        """The request whose spans are being judged."""
        self._remembered: dict[bytes, Marks] = {}
        """Digest of a refused request -> its marks, oldest first."""

    # --- verdicts -------------------------------------------------------------------------------

    def judging(self, request: Request | None) -> None:
        """Spans of this request are judged from now on; None: of none that goes on."""
        self._judged = request

    def take(self, verdicts: Sequence[Verdict]) -> None:
        """Notes verdicts at the request whose spans are being judged; those of earlier calls match none of them."""
        request = self._judged
        if request is None or not self.annotates:
            return
        if request.verdicts is None:
            request.verdicts = {}
        for each in verdicts:
            if each.kind in CALL_KINDS:
                key = each.trace_id + each.span_id
                request.verdicts.setdefault(key, {})[each.spec] = each

    def _marks(self, request: Request) -> Marks | None:
        """What is to be added to the request's spans; None for nothing."""
        if not self.annotates or request.signal != "traces":
            return None
        found = request.verdicts or {}
        marks = {key: self._mark(list(by_spec.values())) for key, by_spec in found.items()}
        if self._remembered:
            marks = {**self._remembered.pop(_digest(request), {}), **marks}
        return marks or None

    def _mark(self, verdicts: Sequence[Verdict]) -> SpanAnnotation:
        """The verdict of the spec that says the worst; of equal ones, of the first spec by name."""
        worst = min(verdicts, key=lambda each: each.spec)
        for each in sorted(verdicts, key=lambda each: each.spec):
            if is_worse(each, worst):
                worst = each
        rate = self._harm_rate(worst.session, worst.spec)
        reason = worst.reason.value if worst.reason else ""
        return SpanAnnotation(worst.kind.value, reason, worst.spec, rate, worst.possible)

    def _remember(self, request: Request, marks: Marks | None) -> None:
        """The request is refused: its spans are not judged again when it is sent again."""
        if marks:
            while len(self._remembered) >= REMEMBERED_MAX:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[_digest(request)] = marks

    # --- requests -------------------------------------------------------------------------------

    def send(self, request: Request) -> None:
        """Puts an accepted request into the queues of its next hops.

        Raises:
            Refusal: UNAVAILABLE; a queue is full, and its next hop is to refuse then. No next hop gets the request.
        """
        marks = self._marks(request)
        pairs = self._messages(request, marks)
        self._reserve(request, marks, pairs)
        self._keep(request, marks, pairs)
        _put(pairs)

    async def deliver(self, request: Request) -> ExportResult:
        """Sends an accepted request to next hops with `sync`, and then puts it into the queues of the others.

        Raises:
            Refusal: as `send`, or as a next hop refuses it. The others do not get the request then.
        """
        marks = self._marks(request)
        pairs = self._messages(request, marks)
        self._reserve(request, marks, pairs)
        now = [pair for pair in pairs if pair[0].hop.sync]
        later = [pair for pair in pairs if not pair[0].hop.sync]
        is_taken = False
        try:
            found = await asyncio.gather(
                *(hop.send_now(message) for hop, message in now), return_exceptions=True
            )
            replies = [_reply(each) for each in found]
            refused = [each for each in replies if each.status is not ExportStatus.OK]
            if refused:
                self._remember(request, marks)
                # One that may take it later comes first: the sender must not give up.
                raise self._refusal(min(refused, key=_is_final))
            is_taken = True
        finally:
            if not is_taken:
                _release(later)
        self._keep(request, marks, later)
        _put(later)
        rejected = max((each.rejected for each in replies), default=0)
        words = next((each.message for each in replies if each.message), "")
        return ExportResult(rejected, words[:WORDS_MAX]) if rejected or words else TAKEN

    def _messages(self, request: Request, marks: Marks | None) -> _Pairs:
        return [
            (
                each,
                ForwardMessage(
                    request.signal,
                    request.body,
                    request.encoding,
                    self._listed(request.metadata, each),
                    marks if each.hop.annotate else None,
                ),
            )
            for each in self._by_signal[request.signal]
        ]

    def _reserve(self, request: Request, marks: Marks | None, pairs: _Pairs) -> None:
        """Holds room in the queues that refuse what they have no room for.

        Raises:
            Refusal: UNAVAILABLE; nothing is held then.
        """
        held: _Pairs = []
        for hop, message in pairs:
            if not hop.hop.refuses:
                continue
            if not hop.queue.reserve(message.size):
                _release(held)
                self._remember(request, marks)
                self._stats.count("requests_refused", "next_hop")
                text = "busy: the queue of a next hop is full; try again"
                raise Refusal(ExportStatus.UNAVAILABLE, text)
            held.append((hop, message))

    def _keep(self, request: Request, marks: Marks | None, pairs: _Pairs) -> None:
        """Writes into the journal, where there is one, that the request goes on.

        Raises:
            Refusal: UNAVAILABLE; it could not be written. No room is held then.
        """
        if self._outbox is None or not pairs:
            return
        try:
            place = self._outbox.keep(request, [hop.name for hop, _ in pairs], marks)
        except Refusal:
            _release(pairs)
            self._remember(request, marks)
            raise
        for _, message in pairs:
            message.place = place

    def _refusal(self, reply: ForwardReply) -> Refusal:
        """What a sender is told of a next hop's answer."""
        if reply.status.value.retryable:
            self._stats.count("requests_refused", "next_hop")
        text = f"the next hop does not take it: {reply.message[:WORDS_MAX]}"
        return Refusal(reply.status, text, math.ceil(reply.wait_seconds) or RETRY_SECONDS)

    def _listed(self, metadata: Metadata, hop: Destination) -> Metadata:
        """The headers of a sender that go on to one next hop."""
        if not metadata:
            return metadata
        names = self._header_names[hop.name]
        return [each for each in metadata if each[0] in names]

    # --- the journal ----------------------------------------------------------------------------

    def keep_in(self, outbox: Outbox) -> None:
        """From now on, a journal keeps what goes on."""
        self._outbox = outbox
        for hop in self.destinations:
            hop.settled = partial(outbox.confirm, hop.name)

    async def restore(self, outbox: Outbox, now_ns: int) -> None:
        """Puts what an earlier process had not sent into the queues, and from then on keeps what goes on.

        Raises:
            OSError: the journal's folder cannot be read.
        """
        by_name = {each.name: each for each in self.destinations}
        self.keep_in(outbox)
        strangers: Counter[str] = Counter()
        waiting = await asyncio.to_thread(unsent_in, outbox.folder)
        for at in range(0, len(waiting), BODIES_AT_ONCE):
            some = waiting[at : at + BODIES_AT_ONCE]
            bodies = await asyncio.to_thread(bodies_of, outbox.folder, some)
            for unsent, body in zip(some, bodies, strict=True):
                strangers.update(name for name in unsent.hops if name not in by_name)
                hops = [by_name[name] for name in unsent.hops if name in by_name]
                outbox.found(unsent, [each.name for each in hops])
                age = max(0, now_ns - unsent.at_ns) / SECOND_NS
                for hop in hops:
                    message = self._again(hop, unsent, body or b"")
                    if body is None:
                        hop.drop(message, "not_in_journal")
                    else:
                        hop.offer(message, age)
        for name, count in strangers.items():
            log.warning("forward_undelivered", destination=name, requests=count)
        for hop in self.destinations:
            if len(hop.queue):
                log.info("forward_restored", destination=hop.name, requests=len(hop.queue))

    def _again(self, hop: Destination, unsent: UnsentRequest, body: bytes) -> ForwardMessage:
        marks = marks_of(unsent) if hop.hop.annotate else None
        metadata = self._listed(unsent.metadata, hop)
        message = ForwardMessage(unsent.signal, body, unsent.encoding, metadata, marks)
        message.place = unsent.place
        return message

    def counters(self) -> dict[str, Any]:
        """Counters of all next hops, by name, as they outlive the process.

        What was confirmed is written before: a replay counts what stands behind them.
        """
        if self._outbox is not None:
            self._outbox.flush()
        return {
            each.name: each.counts.kept() | {"unkept": self.unkept[each.name]}
            for each in self.destinations
        }

    def set_counters(self, found: Mapping[str, Any]) -> None:
        """Sets those of earlier processes, which count until `come_back`; a next hop that is new begins at 0."""
        for each in self.destinations:
            if each.name in found:
                each.before.set_kept(found[each.name])
                self._unkept_before[each.name] = found[each.name]["unkept"]

    def confirmed_before(self, confirmed: ConfirmationRecord) -> None:
        """Counts what became of requests of an earlier process."""
        for each in self.destinations:
            if each.name == confirmed.hop:
                each.before.count_again(confirmed.counts)

    def come_back(self) -> None:
        """All of earlier processes is counted: what was counted meanwhile comes on top of it."""
        for each in self.destinations:
            each.come_back()
        self.unkept.update(self._unkept_before)
        self._unkept_before.clear()

    # --- its life -------------------------------------------------------------------------------

    async def prepare(self) -> None:
        """Reads certificates and credentials.

        Raises:
            UnusableFileError: a file that the settings name.
        """
        for each in self.destinations:
            await each.prepare()

    def start(self) -> None:
        """Begins to send, in the running loop; nothing happens where it has begun."""
        if not self._is_on:
            self._is_on = True
            for each in self.destinations:
                each.start()

    async def stop(self, grace_seconds: float) -> None:
        """Sends what waits, as far as the time allows. What is left is counted and logged."""
        await asyncio.gather(*(each.stop(grace_seconds) for each in self.destinations))
        if self._outbox is not None:
            self._outbox.flush()

    def readings(self) -> Iterator[MetricReading]:
        """The metrics of all next hops."""
        hops = self.destinations
        yield MetricReading(
            "forward_requests", [row for each in hops for row in each.outcomes()]
        )
        yield MetricReading(
            "forward_dropped",
            [
                ((each.name, reason), count)
                for each in hops
                for reason, count in each.counts.dropped.items()
            ],
        )
        yield MetricReading(
            "forward_rejected_items",
            [
                ((each.name, signal), count)
                for each in hops
                for signal, count in each.counts.rejected.items()
            ],
        )
        unkept = self.unkept.items() if self._outbox is not None else ()
        yield MetricReading("forward_unkept", [((name,), count) for name, count in unkept])
        yield MetricReading(
            "forward_retries", [((each.name,), each.counts.retries) for each in hops]
        )
        held = [((each.name,), each.queue.bytes) for each in hops]
        yield MetricReading("forward_queue_bytes", held)
        bounds = [((each.name,), each.queue.bytes_max) for each in hops]
        yield MetricReading("forward_queue_bytes_max", bounds)
        yield MetricReading(
            "forward_seconds", [((each.name,), each.counts.latency) for each in hops]
        )
        yield MetricReading("forward_up", [((each.name,), int(each.is_up)) for each in hops])


def _put(pairs: _Pairs) -> None:
    """Puts messages into their queues; those that refuse have held room for them."""
    for hop, message in pairs:
        if hop.hop.refuses:
            hop.put(message)
        else:
            hop.offer(message)


def _release(pairs: _Pairs) -> None:
    """Frees the room that was held for messages."""
    for hop, message in pairs:
        if hop.hop.refuses:
            hop.queue.release(message.size)


def _reply(found: ForwardReply | BaseException) -> ForwardReply:
    """What a next hop answers. A message that cannot be converted is malformed; other errors are raised.

    Raises:
        BaseException: an error of ours.
    """
    if isinstance(found, TranscodeError):
        return ForwardReply(ExportStatus.MALFORMED, f"it is no OTLP: {found}")
    if isinstance(found, BaseException):
        raise found
    return found


def _is_final(reply: ForwardReply) -> bool:
    return not reply.status.value.retryable


def _digest(request: Request) -> bytes:
    """Equal for the same bytes from the same sender."""
    sender = (request.sender or "").encode()
    return blake2b(request.body, digest_size=16, key=blake2b(sender).digest()).digest()


def forwarding_of(
    settings: Sequence[NextHopSettings],
    stats: Stats,
    clock: Callable[[], int],
    harm_rate: HarmRate,
) -> NextHops:
    """The next hops that are set up.

    Args:
        settings: of each.
        stats: counts requests that are refused for a next hop.
        clock: Unix nanoseconds.
        harm_rate: of sessions, for annotations.
    """
    destinations = [
        Destination(
            hop, _sender(hop, f"forward[{place}]", clock), ForwardQueue(hop.queue_bytes)
        )
        for place, hop in enumerate(settings)
    ]
    return NextHops(destinations, stats, harm_rate)


def _sender(hop: NextHopSettings, setting: str, clock: Callable[[], int]) -> NextHopSender:
    if hop.protocol == "http":
        return HttpForwarder(hop, setting, clock)
    from collector.forward.grpc_sender import GrpcForwarder

    return GrpcForwarder(hop, setting)
