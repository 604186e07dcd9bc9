"""The one Export that both transports call: decode, hand on, answer.

Nothing here knows sockets. A request is taken as a whole or refused as a whole, but for spans
that are faulty one by one: those are left out, counted, and reported as partial success.

A large request is decoded whole before any of it is judged, and both in slices, between which
others are served.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, NamedTuple, Protocol

from google.protobuf.message import DecodeError

from collector.decode.json import otlp_json
from collector.decode.json.slices import json_slices
from collector.decode.protobuf import otlp_proto
from collector.decode.protobuf.messages import PartialSuccess, TraceResponse
from collector.decode.protobuf.slices import LARGE_BYTES, proto_slices
from collector.decode.sizes import VALUE_BYTES_MAX, Sizes
from collector.decode.span import Batch, Malformed, Rejects, Span, Unjudged
from collector.receive.rate_limits import Reservation
from collector.receive.status import Outcome, Refusal
from collector.receive.tenant_stamp import TenantStamp
from collector.telemetry.counters import Stats
from collector.telemetry.logs import log
from collector.telemetry.tracing import OWN, OwnSpan, Tracer
from monitor.records import Verdict

__all__ = [
    "TAKEN",
    "Accepted",
    "Answer",
    "Consume",
    "Encoding",
    "Export",
    "Forward",
    "Limits",
    "Metadata",
    "Record",
    "Signal",
    "proto_answer",
]

Encoding = Literal["proto", "json"]
Signal = Literal["traces", "metrics", "logs"]

Consume = Callable[[list[Span], int, str], Rejects | None]
"""Judges (spans, receipt in Unix nanoseconds, transport), at least one span; returns those it rejected.

It may raise `Refusal` before it has judged any, and `Unjudged` after it has judged all it could."""

Record = Callable[[bytes, Encoding], None]

Metadata = Sequence[tuple[bytes, bytes]]
"""Headers of a request that go on with it: names in lower case, and values."""


class Accepted:
    """A request that goes on to next hops.

    Args:
        signal: of the request.
        body: after decompression.
        encoding: of the body.
        metadata: headers that go on with it.
        sender: the name of the sender's token; None if no token is required.
    """

    __slots__ = ("body", "encoding", "metadata", "sender", "signal", "verdicts")

    def __init__(
        self,
        signal: Signal,
        body: bytes,
        encoding: Encoding,
        metadata: Metadata = (),
        sender: str | None = None,
    ) -> None:
        self.signal: Signal = signal
        self.body = body
        self.encoding: Encoding = encoding
        self.metadata = metadata
        self.sender = sender
        self.verdicts: dict[bytes, dict[str, Verdict]] | None = None
        """Span, by trace id and span id -> spec -> verdict; None where nobody notes them."""


class Forward(Protocol):
    """Takes accepted requests on to next hops."""

    @property
    def header_names(self) -> frozenset[bytes]:
        """Headers of senders that go on, in lower case."""

    @property
    def waits(self) -> bool:
        """True if requests are answered with what next hops answer: only `ingest` does that."""

    def judging(self, request: Accepted | None) -> None:
        """Spans of this request are judged from now on; None: of none that goes on."""

    def send(self, request: Accepted) -> None:
        """Takes a request; it must return at once.

        Raises:
            Refusal: UNAVAILABLE; there is no room for it, and its sender is to send it again.
        """

    async def deliver(self, request: Accepted) -> Answer:
        """Takes a request, and waits for next hops that are to answer it.

        Raises:
            Refusal: as `send`, or as a next hop refuses it.
        """


SECOND_NS: Final = 1_000_000_000
TURN_SECONDS: Final = 0.001
"""Time of work on a large request before the event loop serves others."""
TURN_SPANS: Final = 32
"""Spans of a large request that are judged between two looks at the clock."""
KEPT_SPANS: Final = 20_000
"""Decoded spans of a large request that are kept from the first reading to the second. The rest is decoded
again, so that memory stays within a few times the request."""
SPAN_BYTES: Final = 1_024
"""Bytes of a decoded span in addition to its bytes on the wire."""
ERROR_LOG_NS: Final = 60_000_000_000
"""Shortest interval between log lines of one type of internal error, which must not fill disks."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one request."""

    body_bytes: int = 64 << 20
    """After decompression. 64 MiB is what the OTLP specification recommends."""
    value_bytes: int = VALUE_BYTES_MAX
    """Bytes of one attribute value. Larger ones are not read."""


class Answer(NamedTuple):
    """The result of an accepted request; 0 and "" on full success."""

    rejected: int = 0
    message: str = ""


class _Turn:
    """Measures a turn of work on a large request. A turn is long enough that switching costs little."""

    def __init__(self) -> None:
        self._ends = time.perf_counter() + TURN_SECONDS

    def is_over(self) -> bool:
        """True once per turn, at its end; the next turn then begins."""
        now = time.perf_counter()
        if now < self._ends:
            return False
        self._ends = now + TURN_SECONDS
        return True


class Export:
    """Decodes request bodies, passes their spans to the pipeline, and returns the result.

    Args:
        consume: the pipeline.
        stats: requests are counted by the transports, bytes and spans here.
        clock: Unix nanoseconds; read at receipt and after the last verdict of a request.
        limits: bounds on one request.
        record: takes the bodies of accepted trace requests; it must return at once.
        tracer: makes spans of trace requests; None where own traces are off.
        forward: takes accepted requests on to next hops; None without any.
    """

    def __init__(
        self,
        consume: Consume,
        stats: Stats,
        clock: Callable[[], int],
        limits: Limits | None = None,
        record: Record | None = None,
        tracer: Tracer | None = None,
        forward: Forward | None = None,
    ) -> None:
        self.stats = stats
        self.limits = limits or Limits()
        self._consume = consume
        self._record = record
        self._tracer = tracer
        self._forward = forward
        self.header_names: frozenset[bytes] = (
            frozenset() if forward is None else forward.header_names
        )
        """Headers of requests that go on with them: the transports read them."""
        self.waits = forward is not None and forward.waits
        """True if every request needs `ingest`: it is answered with what next hops answer."""
        self._clock = clock
        self._log = log
        self._logged_ns: dict[str, int] = {}
        sizes = Sizes(self.limits.value_bytes, partial(stats.count, "attributes_over_bound"))
        self._proto = otlp_proto.ProtoCodec(sizes)
        self._json = otlp_json.JsonCodec(sizes)
        self._stamp = TenantStamp()
        self._judging: set[asyncio.Task[Rejects]] = set()

    async def ingest(
        self,
        signal: Signal,
        body: bytes,
        encoding: Encoding,
        transport: str,
        sender: str | None = None,
        room: Reservation | None = None,
        metadata: Metadata = (),
    ) -> Answer:
        """Reads a body of any signal; see `traces`, `metrics` and `logs`.

        What a large one becomes while it is read is held in `room`, where that is given.

        Raises:
            Refusal: as they do, and UNAVAILABLE where there is no room.
        """
        is_large = len(body) > LARGE_BYTES
        if not is_large and not self.waits:
            return self.ingest_now(signal, body, encoding, transport, sender, metadata)
        if self._forward is None:
            return await self._ingest_slices(signal, body, encoding, transport, sender, room)
        request = Accepted(signal, body, encoding, metadata, sender)
        try:
            if is_large:
                answer = await self._ingest_slices(
                    signal, body, encoding, transport, sender, room, request
                )
            else:
                answer = self._ingest_to(self._forward, request, transport)
        except Refusal as refusal:
            self._send_anyway(refusal, request)
            raise
        if not self.waits:
            self._forward.send(request)
            return answer
        left_out = await self._forward.deliver(request)
        if left_out is TAKEN:
            return answer
        rejected = answer.rejected + left_out.rejected
        return Answer(rejected, answer.message or left_out.message)

    def ingest_now(
        self,
        signal: Signal,
        body: bytes,
        encoding: Encoding,
        transport: str,
        sender: str | None = None,
        metadata: Metadata = (),
    ) -> Answer:
        """Reads a body that is not large; see `traces`, `metrics` and `logs`.

        Raises:
            Refusal: as they do.
        """
        if self._forward is None:
            return self._ingest(signal, body, encoding, transport, sender)
        request = Accepted(signal, body, encoding, metadata, sender)
        try:
            answer = self._ingest_to(self._forward, request, transport)
        except Refusal as refusal:
            self._send_anyway(refusal, request)
            raise
        self._forward.send(request)
        return answer

    def _ingest_to(self, forward: Forward, request: Accepted, transport: str) -> Answer:
        """Like `_ingest`, and the verdicts are of a request that goes on."""
        forward.judging(request)
        try:
            return self._ingest(
                request.signal, request.body, request.encoding, transport, request.sender
            )
        finally:
            forward.judging(None)

    def _send_anyway(self, refusal: Refusal, request: Accepted) -> None:
        """A sound request goes on, too, where a fault of ours refuses it: its sender does not send it again."""
        if self._forward is not None and refusal.outcome is Outcome.INTERNAL:
            with suppress(Refusal):
                self._forward.send(request)

    def _ingest(
        self,
        signal: Signal,
        body: bytes,
        encoding: Encoding,
        transport: str,
        sender: str | None,
    ) -> Answer:
        if signal == "traces":
            return self.traces(body, encoding, transport, sender)
        return self._accept(signal, body, encoding, transport)

    def traces(
        self, body: bytes, encoding: Encoding, transport: str, sender: str | None = None
    ) -> Answer:
        """Decodes the spans of a body and has them judged.

        Args:
            body: after decompression.
            encoding: of the body.
            transport: as `Stats` names them.
            sender: the name of the sender's token; None if no token is required.

        Raises:
            Refusal: malformed, too large, refused by the pipeline, or an error in it (INTERNAL).
        """
        if self._tracer is not None:
            return self._traced(self._tracer, body, encoding, transport, sender)
        now_ns = self._clock()
        self._admit(body, transport)
        batch = self._decoded(body, encoding)
        return self._take(batch, now_ns, body, encoding, transport, sender)

    def _traced(
        self,
        tracer: Tracer,
        body: bytes,
        encoding: Encoding,
        transport: str,
        sender: str | None,
    ) -> Answer:
        """Like `traces`, in a span of the service's own traces, unless the body holds such spans itself."""
        with tracer.request(transport, len(body)) as request:
            try:
                now_ns = self._clock()
                self._admit(body, transport)
                batch = self._decoded(body, encoding)
                if _is_own(batch):
                    request.discard()
                request.set(spans=len(batch.spans))
                answer = self._take(batch, now_ns, body, encoding, transport, sender)
            except Refusal as refusal:
                _note_refusal(request, refusal)
                raise
            request.set(status="OK", rejected=answer.rejected)
            return answer

    def _take(
        self,
        batch: Batch,
        now_ns: int,
        body: bytes,
        encoding: Encoding,
        transport: str,
        sender: str | None,
    ) -> Answer:
        """Has the decoded spans judged, and records the body."""
        rejects = batch.rejects
        if batch.spans:
            rejects = self._judge(batch, now_ns, transport, sender)
            self._observe(transport, now_ns)
            if self._record is not None:
                self._record(body, encoding)
        return self._answer(rejects, transport)

    # --- large requests -----------------------------------------------------------------------

    async def _ingest_slices(
        self,
        signal: Signal,
        body: bytes,
        encoding: Encoding,
        transport: str,
        sender: str | None,
        room: Reservation | None,
        accepted: Accepted | None = None,
    ) -> Answer:
        if self._tracer is None or signal != "traces":
            return await self._take_slices(
                signal, body, encoding, transport, sender, room, accepted
            )
        with self._tracer.request(transport, len(body)) as request:
            try:
                answer = await self._take_slices(
                    signal, body, encoding, transport, sender, room, accepted, request
                )
            except Refusal as refusal:
                _note_refusal(request, refusal)
                raise
            request.set(status="OK", rejected=answer.rejected)
            return answer

    async def _take_slices(
        self,
        signal: Signal,
        body: bytes,
        encoding: Encoding,
        transport: str,
        sender: str | None,
        room: Reservation | None,
        accepted: Accepted | None,
        request: OwnSpan | None = None,
    ) -> Answer:
        now_ns = self._clock()
        self._admit(body, transport)
        if signal != "traces":
            return await self._accept_slices(signal, body, encoding)
        kept: list[Batch] = []
        held = count = spans = 0
        turn = _Turn()
        hold = None if room is None else room.hold
        keeps = True
        for place, piece in _slices(body, encoding, hold):
            if piece is not None:
                count += 1
                batch = self._decoded(piece, encoding, place)
                spans += len(batch.spans)
                size = len(piece) + SPAN_BYTES * len(batch.spans)
                keeps = keeps and held <= KEPT_SPANS and (room is None or room.takes(size))
                if keeps:
                    kept.append(batch)
                    held += len(batch.spans)
            if turn.is_over():
                await asyncio.sleep(0)
        if request is not None:
            request.set(spans=spans)
        again = _slices(body, encoding)  # the first reading reserved capacity for both
        if len(kept) == count and self._record is None:
            again = iter([("", b"")] * count)
        await asyncio.sleep(0)  # serve others first: the second reading is not interrupted
        # A task, so that a sender that disconnects does not leave half of its request judged.
        task = asyncio.create_task(
            self._judge_slices(again, kept, now_ns, encoding, transport, sender, accepted)
        )
        self._judging.add(task)
        task.add_done_callback(self._judging.discard)
        rejects = await asyncio.shield(task)
        self._observe(transport, now_ns)
        return self._answer(rejects, transport)

    async def _judge_slices(
        self,
        slices: Iterator[tuple[str, bytes | None]],
        kept: list[Batch],
        now_ns: int,
        encoding: Encoding,
        transport: str,
        sender: str | None,
        accepted: Accepted | None,
    ) -> Rejects:
        """The second reading. The first found no fault, so all of the request is judged.

        Args:
            slices: of the body; empty if all decoded slices were kept.
            kept: the first slices, decoded.
            now_ns: receipt.
            encoding: of the body.
            transport: as `Stats` names them.
            sender: the name of the token.
            accepted: the request, if it goes on.
        """
        rejects = Rejects()
        failed: Refusal | None = None
        kept.reverse()
        turn = _Turn()
        for place, piece in slices:
            if piece is not None:
                batch = kept.pop() if kept else self._decoded(piece, encoding, place)
                rejects.join(batch.rejects)
                for at in range(0, len(batch.spans), TURN_SPANS):
                    part = Batch(batch.spans[at : at + TURN_SPANS], Rejects())
                    if self._forward is not None:  # between two turns, others are judged
                        self._forward.judging(accepted)
                    try:
                        rejects.join(self._judge(part, now_ns, transport, sender))
                    except Refusal as refusal:
                        if refusal.outcome is not Outcome.INTERNAL:
                            raise
                        failed = failed or refusal  # the other parts are still judged
                    finally:
                        if self._forward is not None:
                            self._forward.judging(None)
                    if turn.is_over():
                        await asyncio.sleep(0)
                if self._record is not None and batch.spans:
                    self._record(piece, encoding)
            if turn.is_over():
                await asyncio.sleep(0)
        if failed is not None:
            raise failed
        return rejects

    async def _accept_slices(self, signal: Signal, body: bytes, encoding: Encoding) -> Answer:
        if encoding == "json":
            _check_json(signal, body, otlp_json.check_object)
            return TAKEN
        turn = _Turn()
        for _, piece in _slices(body, encoding):
            if piece is not None:
                _check_proto(signal, piece)
            if turn.is_over():
                await asyncio.sleep(0)
        return TAKEN

    # --- what both have in common ---------------------------------------------------------------

    def _decoded(self, body: bytes, encoding: Encoding, place: str = "") -> Batch:
        try:
            if encoding == "proto":
                return otlp_proto.decode(body, self._proto)
            return otlp_json.decode(body, self._json)
        except Malformed as error:
            raise Refusal(Outcome.MALFORMED, f"{place}{error}") from error

    def _judge(self, batch: Batch, now_ns: int, transport: str, sender: str | None) -> Rejects:
        """Hands the spans on; gives all that were left out, by the decoder or the pipeline."""
        spans = batch.spans if sender is None else self._stamp.stamp(batch.spans, sender)
        refused = self._hand_on(spans, now_ns, transport)
        accepted = len(spans)
        if refused is not None:
            accepted -= refused.count
            batch.rejects.join(refused)
        self.stats.span(transport, "accepted", accepted)
        return batch.rejects

    def _observe(self, transport: str, now_ns: int) -> None:
        latency = self.stats.verdict_latency.get(transport)
        if latency is not None:
            latency.observe((self._clock() - now_ns) / SECOND_NS)

    def _answer(self, rejects: Rejects, transport: str) -> Answer:
        if not rejects.reasons:
            return TAKEN
        for reason, count in rejects.reasons.items():
            self.stats.count("spans_rejected", reason, by=count)
        self.stats.span(transport, "rejected", rejects.count)
        return Answer(rejects.count, rejects.message)

    def metrics(self, body: bytes, encoding: Encoding, transport: str) -> Answer:
        """Check that a body is well-formed; its metrics are not looked at.

        Accepted, so that a sender whose one endpoint setting covers all signals does not fail.

        Raises:
            Refusal: malformed or too large.
        """
        return self._accept("metrics", body, encoding, transport)

    def logs(self, body: bytes, encoding: Encoding, transport: str) -> Answer:
        """Check that a body is well-formed; its log records are not looked at.

        Raises:
            Refusal: malformed or too large.
        """
        return self._accept("logs", body, encoding, transport)

    def _accept(
        self, signal: Signal, body: bytes, encoding: Encoding, transport: str
    ) -> Answer:
        self._admit(body, transport)
        if encoding == "json":
            _check_json(signal, body, otlp_json.json_object)
        else:
            _check_proto(signal, body)
        return TAKEN

    def _admit(self, body: bytes, transport: str) -> None:
        self.stats.received(transport, len(body))
        if len(body) > self.limits.body_bytes:
            message = f"the body has {len(body)} bytes, the limit is {self.limits.body_bytes}"
            raise Refusal(Outcome.TOO_LARGE, message)

    def _hand_on(self, spans: list[Span], now_ns: int, transport: str) -> Rejects | None:
        try:
            return self._consume(spans, now_ns, transport)
        except Refusal:
            raise
        except Unjudged as found:
            refusal = self._refusal(found.__cause__ or found, found.errors)
            if not found.spans:
                return None
            self.stats.drop("internal_error", found.spans)
            self.stats.span(transport, "accepted", max(0, len(spans) - found.spans))
            raise refusal from found
        except Exception as error:
            self.stats.drop("internal_error", len(spans))
            raise self.fault(error) from error

    def fault(self, error: Exception) -> Refusal:
        """Counts and logs an internal error; returns the refusal for the sender."""
        return self._refusal(error, {type(error).__name__: 1})

    def _refusal(self, error: BaseException, errors: Mapping[str, int]) -> Refusal:
        """Like `fault`, for several errors: type -> count."""
        for each, count in errors.items():
            self.stats.count("internal_errors", each, by=count)
        name = type(error).__name__
        now_ns = self._clock()
        logged_ns = self._logged_ns.get(name)
        if logged_ns is None or now_ns - logged_ns >= ERROR_LOG_NS:
            self._logged_ns[name] = now_ns
            self._log.error("spans could not be processed", error=name, exc_info=error)
        return Refusal(Outcome.INTERNAL, "internal error; see the receiver's log")


TAKEN: Final = Answer()
"""Full success."""


def _is_own(batch: Batch) -> bool:
    """True if all spans come from the own traces of an offrails service.

    They are judged like any other, so that a sender cannot exempt calls by the same mark.
    """
    spans = batch.spans
    return bool(spans) and all(OWN in span.resource.attributes for span in spans)


def _note_refusal(request: OwnSpan, refusal: Refusal) -> None:
    request.set(status=refusal.outcome.name)
    request.fail(refusal.outcome.name)


def _slices(
    body: bytes, encoding: Encoding, hold: Callable[[int], None] | None = None
) -> Iterator[tuple[str, bytes | None]]:
    """The slices of a large body, each with its place in the body, or "" if that is unknown.

    `hold` is called with the bytes that slicing takes.
    """
    try:
        if encoding == "proto":
            for piece in proto_slices(body):
                yield "", piece
        else:
            for place, piece in json_slices(body, hold=hold):
                yield f"{place}: ", piece
    except Malformed as error:
        raise Refusal(Outcome.MALFORMED, str(error)) from error


def proto_answer(answer: Answer) -> bytes:
    """Return the response message; empty on full success, whose partial_success is unset.

    The responses of all three signals have the same fields.
    """
    if not answer.rejected and not answer.message:
        return b""
    partial = PartialSuccess(rejected_spans=answer.rejected, error_message=answer.message)
    found: bytes = TraceResponse(partial_success=partial).SerializeToString()
    return found


def _check_json(signal: Signal, body: bytes, check: Callable[[bytes], object]) -> None:
    try:
        check(body)
    except Malformed as error:
        raise Refusal(Outcome.MALFORMED, f"{signal}: {error}") from error


def _check_proto(signal: Signal, body: bytes) -> None:
    try:
        _parse_other(signal, body)
    except DecodeError as error:
        raise Refusal(Outcome.MALFORMED, f"{signal}: {error}") from error


def _parse_other(signal: Signal, body: bytes) -> None:
    """Parse metrics or logs by the official schema, loaded with the first such request."""
    if signal == "metrics":
        from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

        MetricsData.FromString(body)
    else:
        from opentelemetry.proto.logs.v1.logs_pb2 import LogsData

        LogsData.FromString(body)
