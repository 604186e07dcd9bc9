"""The one Export that both transports call: decode, hand on, answer.

Nothing here knows sockets. A request is taken as a whole or refused as a whole, but for spans
that are faulty one by one: those are left out, counted, and reported as partial success.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import structlog
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from collector.decode import otlp_json, otlp_proto
from collector.decode.span import Malformed, Span
from collector.receivers.senders import Stamps
from collector.receivers.status import Outcome, Refusal
from collector.stats import Stats

__all__ = [
    "Answer",
    "Consume",
    "Encoding",
    "Export",
    "Limits",
    "Record",
    "Signal",
    "proto_answer",
]

Encoding = Literal["proto", "json"]
Signal = Literal["traces", "metrics", "logs"]

Consume = Callable[[list[Span], int, str], None]
"""Takes (spans, receipt in Unix nanoseconds, transport), at least one span. It may raise
`Refusal` before it has judged any."""

Record = Callable[[bytes, Encoding], None]

_DECODE: Final = {"proto": otlp_proto.decode, "json": otlp_json.decode}
SECOND_NS: Final = 1_000_000_000
ERROR_LOG_NS: Final = 60_000_000_000
"""One line a minute for each type of error of ours: a fault in a hot path must not fill disks."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one request."""

    body_bytes: int = 64 << 20
    """After decompression. 64 MiB is what the OTLP specification recommends."""


class Answer(NamedTuple):
    """A request was taken; both empty on full success."""

    rejected: int = 0
    message: str = ""


class Export:
    """Takes request bodies, hands their spans on, says what came of it.

    Args:
        consume: the pipeline.
        stats: requests are counted by the transports, bytes and spans here.
        clock: Unix nanoseconds; read at receipt and after the last verdict of a request.
        limits: bounds on one request.
        record: takes the bodies of accepted trace requests; it must return at once.
    """

    def __init__(
        self,
        consume: Consume,
        stats: Stats,
        clock: Callable[[], int],
        limits: Limits | None = None,
        record: Record | None = None,
    ) -> None:
        self.stats = stats
        self.limits = limits or Limits()
        self._consume = consume
        self._record = record
        self._clock = clock
        self._log = structlog.get_logger("collector.receivers.export")
        self._logged_ns: dict[str, int] = {}
        self._stamps = Stamps()

    def take(
        self,
        signal: Signal,
        body: bytes,
        encoding: Encoding,
        transport: str,
        sender: str | None = None,
    ) -> Answer:
        """Take a body of any signal; see `traces`, `metrics` and `logs`."""
        if signal == "traces":
            return self.traces(body, encoding, transport, sender)
        return self._accept(signal, body, encoding, transport)

    def traces(
        self, body: bytes, encoding: Encoding, transport: str, sender: str | None = None
    ) -> Answer:
        """Decode the spans of a body and hand them on.

        Args:
            body: after decompression.
            encoding: of the body.
            transport: as `Stats` names them.
            sender: the name of the token they came with; None where no token is asked for.

        Raises:
            Refusal: malformed, too large, refused by the pipeline, or an error in it (INTERNAL).
        """
        now_ns = self._clock()
        self._admit(body, transport)
        try:
            batch = _DECODE[encoding](body)
        except Malformed as error:
            raise Refusal(Outcome.MALFORMED, str(error)) from error
        if batch.spans:
            spans = batch.spans if sender is None else self._stamps.stamp(batch.spans, sender)
            self._hand_on(spans, now_ns, transport)
            latency = self.stats.verdict_latency.get(transport)
            if latency is not None:
                latency.observe((self._clock() - now_ns) / SECOND_NS)
            self.stats.span(transport, "accepted", len(batch.spans))
            if self._record is not None:
                self._record(body, encoding)
        if batch.rejected:
            self.stats.span(transport, "rejected", batch.rejected)
        return Answer(batch.rejected, batch.message)

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
        try:
            if encoding == "json":
                otlp_json.json_object(body)
            else:
                _parse_other(signal, body)
        except (Malformed, DecodeError) as error:
            raise Refusal(Outcome.MALFORMED, f"{signal}: {error}") from error
        return Answer()

    def _admit(self, body: bytes, transport: str) -> None:
        self.stats.received(transport, len(body))
        if len(body) > self.limits.body_bytes:
            message = f"the body has {len(body)} bytes, the limit is {self.limits.body_bytes}"
            raise Refusal(Outcome.TOO_LARGE, message)

    def _hand_on(self, spans: list[Span], now_ns: int, transport: str) -> None:
        try:
            self._consume(spans, now_ns, transport)
        except Refusal:
            raise
        except Exception as error:
            self.stats.drop("internal_error", len(spans))
            self._report(error, now_ns)
            raise Refusal(Outcome.INTERNAL, "internal error; see the receiver's log") from error

    def _report(self, error: Exception, now_ns: int) -> None:
        name = type(error).__name__
        self.stats.count("internal_errors", name)
        logged_ns = self._logged_ns.get(name)
        if logged_ns is None or now_ns - logged_ns >= ERROR_LOG_NS:
            self._logged_ns[name] = now_ns
            self._log.error("spans could not be processed", error=name, exc_info=error)


def proto_answer(answer: Answer) -> bytes:
    """Return the response message; empty on full success, whose partial_success is unset.

    The responses of all three signals have the same fields.
    """
    if not answer.rejected and not answer.message:
        return b""
    partial = ExportTracePartialSuccess(
        rejected_spans=answer.rejected, error_message=answer.message
    )
    return ExportTraceServiceResponse(partial_success=partial).SerializeToString()


def _parse_other(signal: Signal, body: bytes) -> None:
    """Parse metrics or logs by the official schema, loaded with the first such request."""
    if signal == "metrics":
        from opentelemetry.proto.metrics.v1.metrics_pb2 import MetricsData

        MetricsData.FromString(body)
    else:
        from opentelemetry.proto.logs.v1.logs_pb2 import LogsData

        LogsData.FromString(body)
