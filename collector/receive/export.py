"""The one Export that both transports call: decode, hand on, answer.

Nothing here knows sockets. A request is taken as a whole or refused as a whole, but for spans
that are faulty one by one: those are left out, counted, and reported as partial success.

A large request is decoded whole before any of it is judged, and both in slices, between which
others are served.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from google.protobuf.message import DecodeError

from collector.decode.json import otlp_json
from collector.decode.json.slices import json_slices
from collector.decode.protobuf import otlp_proto
from collector.decode.protobuf.messages import PartialSuccess, TraceResponse
from collector.decode.protobuf.slices import LARGE_BYTES, proto_slices
from collector.decode.sizes import VALUE_BYTES_MAX, Sizes
from collector.decode.span import (
    MalformedBodyError,
    Rejects,
    Span,
    SpanBatch,
    UnjudgedSpansError,
)
from collector.receive.rate_limits import Reservation
from collector.receive.refusal_gaps import RefusalGaps
from collector.receive.request import Encoding, Metadata, Request, Signal
from collector.receive.status_codes import ExportStatus, Refusal
from collector.receive.tenant_stamp import TenantStamp
from collector.telemetry.counters import Stats
from collector.telemetry.logs import log
from collector.telemetry.tracing import OWN, OwnSpan, Tracer

__all__ = [
    "TAKEN",
    "Consume",
    "Encoding",
    "Export",
    "ExportResult",
    "Forward",
    "Metadata",
    "Record",
    "RequestJournal",
    "RequestLimits",
    "Signal",
    "proto_answer",
]

Consume = Callable[[list[Span], int, str], Rejects | None]
"""Judges (spans, receipt in Unix nanoseconds, transport), at least one span; returns those it rejected.

It may raise `Refusal` before it has judged any, and `UnjudgedSpansError` after it has judged all it could."""

Record = Callable[[bytes, Encoding], None]


class Forward(Protocol):
    """Takes accepted requests on to next hops."""

    @property
    def header_names(self) -> frozenset[bytes]:
        """Headers of senders that go on, in lower case."""
        ...

    @property
    def waits(self) -> bool:
        """True if an answer waits for what next hops answer."""
        ...

    @property
    def annotates(self) -> bool:
        """True if requests go on with their verdicts."""
        ...

    def judging(self, request: Request | None) -> None:
        """Spans of this request are judged from now on; None: of none that goes on."""
        ...

    def send(self, request: Request) -> None:
        """Takes a request; it must return at once.

        Raises:
            Refusal: UNAVAILABLE; there is no room for it, and its sender is to send it again.
        """
        ...

    async def deliver(self, request: Request) -> ExportResult:
        """Takes a request, and waits for next hops that are to answer it.

        Raises:
            Refusal: as `send`, or as a next hop refuses it.
        """
        ...


class RequestJournal(Protocol):
    """Where requests are kept before they are judged: a journal."""

    @property
    def waits(self) -> bool:
        """True if an answer waits until its request is on the disk."""
        ...

    def keep(self, now_ns: int, request: Request) -> None:
        """Keeps a request that was received at `now_ns`, and notes its place.

        Raises:
            Refusal: it could not be kept.
        """
        ...

    def parts(self, *, begin: bool) -> None:
        """A request that is judged in parts, with others in between, begins or has ended; one at a time."""
        ...

    async def synced(self) -> None:
        """Waits until all that was kept so far is on the disk.

        Raises:
            Refusal: it is not.
        """
        ...


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
class RequestLimits:
    """Bounds on one request."""

    body_bytes: int = 64 << 20
    """Bytes of a body after decompression. The OTLP specification recommends 64 MiB."""
    value_bytes: int = VALUE_BYTES_MAX
    """Bytes of one attribute value. Larger ones are not read."""


class ExportResult(NamedTuple):
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
        tracer: makes spans of trace requests; None if own traces are off.
        forward: takes accepted requests on to next hops; None without any.
        keep: keeps trace requests before they are judged; None for no journal.
        refusals: notes that calls of refused requests may be missing; None if nobody wants to know.
        is_timed: whether the time to a verdict counts; False if requests of an earlier time are judged again.
    """

    def __init__(
        self,
        consume: Consume,
        stats: Stats,
        clock: Callable[[], int],
        limits: RequestLimits | None = None,
        record: Record | None = None,
        tracer: Tracer | None = None,
        forward: Forward | None = None,
        keep: RequestJournal | None = None,
        refusals: RefusalGaps | None = None,
        *,
        is_timed: bool = True,
    ) -> None:
        self.stats = stats
        self.waits = (keep is not None and keep.waits) or (
            forward is not None and forward.waits
        )
        """True if answers wait for the disk or a next hop: then `ingest` is to be called, never `ingest_now`."""
        self.limits = limits or RequestLimits()
        self._consume = consume
        self._record = record
        self._tracer = tracer
        self._forward = forward
        self.header_names: frozenset[bytes] = (
            frozenset() if forward is None else forward.header_names
        )
        """Headers of requests that go on with them: the transports read them."""
        self._annotated = forward if forward is not None and forward.annotates else None
        """Learns whose spans are judged; None if no next hop wants verdicts."""
        self._keep = keep
        self._refusals = refusals
        self._one = asyncio.Lock()
        """Held while a large request is kept and judged."""
        self._is_timed = is_timed
        self.judges = True
        """False while trace requests are only kept, see `judge_later`."""
        self._clock = clock
        self._log = log
        self._logged_ns: dict[str, int] = {}
        sizes = Sizes(self.limits.value_bytes, self._count_oversized)
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
    ) -> ExportResult:
        """Takes a request of any signal and size: reads it, has its spans judged, and passes it on.

        Args:
            signal: of the request; metrics and logs are accepted, so that a sender whose one endpoint setting
                covers all signals does not fail, and only checked to be well-formed.
            body: after decompression.
            encoding: of the body.
            transport: as `Stats` names them.
            sender: the name of the sender's token; None if no token is required.
            room: holds what a large request becomes while it is read.
            metadata: headers that go on with it.

        Raises:
            Refusal: malformed, too large, refused by the pipeline, the journal or a next hop, no room for it, or
                an error of ours (INTERNAL).
        """
        request = Request(signal, body, encoding, transport, sender, metadata)
        try:
            if len(body) <= LARGE_BYTES:
                answer = self._ingest(request)
            else:
                answer = await self._ingest_slices(request, room)
        except Refusal as refusal:
            self._send_anyway(refusal, request)
            self.note_refusal(refusal, signal, sender, body)
            raise
        if self._forward is not None:
            try:
                answer = await self._deliver(self._forward, request, answer)
            except Refusal as refusal:
                refusal.noted = (
                    self.judges
                )  # what is judged is not missing, though it comes again
                raise
        is_kept = signal == "traces" or self._forward is not None
        if self._keep is not None and self._keep.waits and is_kept:
            try:
                await self._keep.synced()
            except Refusal as refusal:  # the next process would not have it
                self.note_refusal(refusal, signal, sender, body)
                raise
        self._note_arrival(signal, body)
        return answer

    def ingest_now(
        self,
        signal: Signal,
        body: bytes,
        encoding: Encoding,
        transport: str,
        sender: str | None = None,
        metadata: Metadata = (),
    ) -> ExportResult:
        """The same for a request that is not large, where no answer waits (`waits`).

        Raises:
            Refusal: as `ingest`.
        """
        request = Request(signal, body, encoding, transport, sender, metadata)
        try:
            answer = self._ingest(request)
        except Refusal as refusal:
            self._send_anyway(refusal, request)
            self.note_refusal(refusal, signal, sender, body)
            raise
        if self._forward is not None:
            try:
                self._forward.send(request)
            except Refusal as refusal:
                refusal.noted = self.judges  # as in `ingest`
                raise
        self._note_arrival(signal, body)
        return answer

    def note_refusal(
        self, refusal: Refusal, signal: str, sender: str | None, body: bytes | None = None
    ) -> None:
        """Notes that calls may be missing, once for each refusal. `body`: as decoded, if it was read."""
        if self._refusals is not None and signal == "traces":
            self._refusals.refused(refusal, sender, self._clock(), body)

    def _note_arrival(self, signal: Signal, body: bytes) -> None:
        if self._refusals and signal == "traces":
            self._refusals.arrived(body)

    def judge_later(self, stats: Stats) -> None:
        """Trace requests are read and kept, and answered then: who goes through what is kept judges them in turn.

        Args:
            stats: counts meanwhile. What is judged later is counted as it is judged.
        """
        self.judges, self.stats = False, stats

    def judge_now(self, stats: Stats) -> None:
        """All that was kept is judged: from now on, requests are judged before they are answered."""
        self.judges, self.stats = True, stats

    def _count_oversized(self) -> None:
        self.stats.count("attributes_over_bound")

    async def _deliver(
        self, forward: Forward, request: Request, answer: ExportResult
    ) -> ExportResult:
        """Passes a request on; what next hops left out that were waited for is in the answer."""
        if not forward.waits:
            forward.send(request)
            return answer
        left_out = await forward.deliver(request)
        if left_out is TAKEN:
            return answer
        rejected = answer.rejected + left_out.rejected
        return ExportResult(rejected, answer.message or left_out.message)

    def _send_anyway(self, refusal: Refusal, request: Request) -> None:
        """A sound request goes on, too, where a fault of ours refuses it: its sender does not send it again."""
        if self._forward is not None and refusal.status is ExportStatus.INTERNAL:
            with suppress(Refusal):
                self._forward.send(request)

    # --- requests that are not large ------------------------------------------------------------

    def _ingest(self, request: Request) -> ExportResult:
        if self._tracer is None or request.signal != "traces":
            return self._take(request)
        with _traced(self._tracer, request) as span:
            answer = self._take(request, span)
            span.set(status="OK", rejected=answer.rejected)
        return answer

    def _take(self, request: Request, span: OwnSpan | None = None) -> ExportResult:
        """Reads the body, has its spans judged, and records it."""
        now_ns = self._clock()
        self._admit(request)
        if request.signal != "traces":
            _check(request, otlp_json.json_object)
            return TAKEN
        batch = self._decoded(request.body, request.encoding)
        if span is not None:
            _describe(span, batch)
        rejects = batch.rejects
        if batch.spans:
            if self._keep is not None:
                self._keep.keep(now_ns, request)
            if self.judges:
                rejects = self._judge(batch, now_ns, request)
                self._observe(request, now_ns)
            if self._record is not None:
                self._record(request.body, request.encoding)
        return self._answer(rejects, request)

    # --- large requests -------------------------------------------------------------------------

    async def _ingest_slices(self, request: Request, room: Reservation | None) -> ExportResult:
        if self._tracer is None or request.signal != "traces":
            return await self._take_slices(request, room)
        with _traced(self._tracer, request) as span:
            answer = await self._take_slices(request, room, span)
            span.set(status="OK", rejected=answer.rejected)
        return answer

    async def _take_slices(
        self, request: Request, room: Reservation | None, span: OwnSpan | None = None
    ) -> ExportResult:
        now_ns = self._clock()
        self._admit(request)
        if request.signal != "traces":
            return await self._accept_slices(request)
        body, encoding = request.body, request.encoding
        kept: list[SpanBatch] = []
        held = count = spans = 0
        rejects = Rejects()
        turn = _Turn()
        hold = None if room is None else room.hold
        keeps = True
        for place, piece in _slices(body, encoding, hold):
            if piece is not None:
                count += 1
                batch = self._decoded(piece, encoding, place)
                spans += len(batch.spans)
                rejects.join(batch.rejects)
                size = len(piece) + SPAN_BYTES * len(batch.spans)
                keeps = keeps and held <= KEPT_SPANS and (room is None or room.takes(size))
                if keeps:
                    kept.append(batch)
                    held += len(batch.spans)
            if turn.is_over():
                await asyncio.sleep(0)
        if span is not None:
            span.set(spans=spans)
        again = _slices(body, encoding)  # the first reading reserved capacity for both
        if len(kept) == count and self._record is None:
            again = iter([("", b"")] * count)
        await asyncio.sleep(0)  # serve others first: the second reading is not interrupted
        if not self.judges:
            if spans:
                self._keep_alone(now_ns, request)
            return self._answer(rejects, request)
        # A task, so that a sender that disconnects does not leave half of its request judged.
        judged = self._judge_slices(again, kept, rejects, now_ns, request)
        if spans and self._keep is not None:
            judged = self._kept(self._keep, judged, now_ns, request)
        task = asyncio.create_task(judged)
        self._judging.add(task)
        task.add_done_callback(self._judging.discard)
        rejects = await asyncio.shield(task)
        self._observe(request, now_ns)
        return self._answer(rejects, request)

    def _keep_alone(self, now_ns: int, request: Request) -> None:
        """Keeps a request that is judged later."""
        if self._keep is not None:
            self._keep.keep(now_ns, request)
        if self._record is not None:
            self._record(request.body, request.encoding)

    async def _judge_slices(
        self,
        slices: Iterator[tuple[str, bytes | None]],
        kept: list[SpanBatch],
        rejects: Rejects,
        now_ns: int,
        request: Request,
    ) -> Rejects:
        """The second reading. The first found no fault, so all of the request is judged.

        Args:
            slices: of the body; empty if all decoded slices were kept.
            kept: the first slices, decoded.
            rejects: what the first reading left out; the second adds to it, and returns it.
            now_ns: receipt.
            request: whose body it is.
        """
        failed: Refusal | None = None
        kept.reverse()
        turn = _Turn()
        for place, piece in slices:
            if piece is not None:
                batch = kept.pop() if kept else self._decoded(piece, request.encoding, place)
                for at in range(0, len(batch.spans), TURN_SPANS):
                    part = SpanBatch(batch.spans[at : at + TURN_SPANS], Rejects())
                    try:
                        rejects.join(self._judge(part, now_ns, request))
                    except Refusal as refusal:
                        if refusal.status is not ExportStatus.INTERNAL:
                            raise
                        failed = failed or refusal  # the other parts are still judged
                    if turn.is_over():
                        await asyncio.sleep(0)
                if self._record is not None and batch.spans:
                    self._record(piece, request.encoding)
            if turn.is_over():
                await asyncio.sleep(0)
        if failed is not None:
            raise failed
        return rejects

    async def _kept(
        self,
        keep: RequestJournal,
        judged: Coroutine[Any, Any, Rejects],
        now_ns: int,
        request: Request,
    ) -> Rejects:
        """The same, kept before. One at a time: between two, what is kept says all that was judged."""
        async with self._one:
            try:
                keep.keep(now_ns, request)
            except BaseException:
                judged.close()
                raise
            keep.parts(begin=True)
            try:
                return await judged
            finally:
                keep.parts(begin=False)

    async def _accept_slices(self, request: Request) -> ExportResult:
        if request.encoding == "json":
            _check(request, otlp_json.check_object)
            return TAKEN
        turn = _Turn()
        for _, piece in _slices(request.body, "proto"):
            if piece is not None:
                _check_proto(request.signal, piece)
            if turn.is_over():
                await asyncio.sleep(0)
        return TAKEN

    # --- what both have in common ---------------------------------------------------------------

    def _decoded(self, body: bytes, encoding: Encoding, place: str = "") -> SpanBatch:
        try:
            if encoding == "proto":
                return otlp_proto.decode(body, self._proto)
            return otlp_json.decode(body, self._json)
        except MalformedBodyError as error:
            raise Refusal(ExportStatus.MALFORMED, f"{place}{error}") from error

    def _judge(self, batch: SpanBatch, now_ns: int, request: Request) -> Rejects:
        """Hands the spans on; gives all that were left out, by the decoder or the pipeline."""
        sender, transport = request.sender, request.transport
        spans = batch.spans if sender is None else self._stamp.stamp(batch.spans, sender)
        if self._annotated is None:
            refused = self._hand_on(spans, now_ns, transport)
        else:
            self._annotated.judging(request)
            try:
                refused = self._hand_on(spans, now_ns, transport)
            finally:
                self._annotated.judging(None)  # the next spans may be another request's
        accepted = len(spans)
        if refused is not None:
            accepted -= refused.count
            batch.rejects.join(refused)
        self.stats.span(transport, "accepted", accepted)
        return batch.rejects

    def _observe(self, request: Request, now_ns: int) -> None:
        if not self._is_timed:
            return
        latency = self.stats.verdict_latency.get(request.transport)
        if latency is not None:
            latency.observe((self._clock() - now_ns) / SECOND_NS)

    def _answer(self, rejects: Rejects, request: Request) -> ExportResult:
        if not rejects.reasons:
            return TAKEN
        for reason, count in rejects.reasons.items():
            self.stats.count("spans_rejected", reason, by=count)
        if self._refusals is not None:
            self._refusals.left_out(rejects.services, request.sender, self._clock())
        self.stats.span(request.transport, "rejected", rejects.count)
        return ExportResult(rejects.count, rejects.message)

    def _admit(self, request: Request) -> None:
        size, most = len(request.body), self.limits.body_bytes
        self.stats.received(request.transport, size)
        if size > most:
            message = f"the body has {size} bytes, the limit is {most}"
            raise Refusal(ExportStatus.TOO_LARGE, message)

    def _hand_on(self, spans: list[Span], now_ns: int, transport: str) -> Rejects | None:
        try:
            return self._consume(spans, now_ns, transport)
        except Refusal:
            raise
        except UnjudgedSpansError as found:
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
        return Refusal(ExportStatus.INTERNAL, "internal error; see the receiver's log")


TAKEN: Final = ExportResult()
"""Full success."""


@contextmanager
def _traced(tracer: Tracer, request: Request) -> Iterator[OwnSpan]:
    """A span of the service's own traces around a request, which says why it was refused."""
    with tracer.request(request.transport, len(request.body)) as span:
        try:
            yield span
        except Refusal as refusal:
            span.set(status=refusal.status.name)
            span.fail(refusal.status.name)
            raise


def _describe(span: OwnSpan, batch: SpanBatch) -> None:
    """Says how many spans a request has. Nothing is kept of one that has own spans of an offrails service alone.

    They are judged like any other, so that a sender cannot exempt calls by the same mark.
    """
    spans = batch.spans
    if spans and all(OWN in each.resource.attributes for each in spans):
        span.discard()
    span.set(spans=len(spans))


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
    except MalformedBodyError as error:
        raise Refusal(ExportStatus.MALFORMED, str(error)) from error


def proto_answer(answer: ExportResult) -> bytes:
    """Return the response message; empty on full success, whose partial_success is unset.

    The responses of all three signals have the same fields.
    """
    if not answer.rejected and not answer.message:
        return b""
    partial = PartialSuccess(rejected_spans=answer.rejected, error_message=answer.message)
    found: bytes = TraceResponse(partial_success=partial).SerializeToString()
    return found


def _check(request: Request, json_check: Callable[[bytes], object]) -> None:
    """Refuses metrics and logs that are malformed; nothing else is looked at."""
    if request.encoding == "proto":
        _check_proto(request.signal, request.body)
        return
    try:
        json_check(request.body)
    except MalformedBodyError as error:
        raise Refusal(ExportStatus.MALFORMED, f"{request.signal}: {error}") from error


def _check_proto(signal: Signal, body: bytes) -> None:
    try:
        _parse_other(signal, body)
    except DecodeError as error:
        raise Refusal(ExportStatus.MALFORMED, f"{signal}: {error}") from error


def _parse_other(signal: Signal, body: bytes) -> None:
    """Parse metrics or logs by the official schema, loaded with the first such request."""
    if signal == "metrics":
        from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

        MetricsData.FromString(body)
    else:
        from opentelemetry.proto.logs.v1.logs_pb2 import LogsData

        LogsData.FromString(body)
