"""Refused requests are gaps, until the same bytes are taken."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.decode.span import SERVICES_MAX, Rejects, Resource
from collector.receive.export import Export
from collector.receive.refusal_gaps import AWAITED_MAX, RefusalGaps
from collector.receive.request import Request
from collector.receive.status_codes import ExportStatus, Refusal
from collector.telemetry.counters import Stats
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap
from monitor.visibility.ledger import Ledger

SECOND = 1_000_000_000
NOW = 1_700_000_000 * SECOND


class Noted:
    """Refusals, and the gaps that stand."""

    def __init__(self) -> None:
        self._ledger = Ledger(0)
        self.refusals = RefusalGaps(self._ledger.note, self._ledger.lift, 10 * SECOND)

    @property
    def gaps(self) -> list[Gap]:
        return list(self._ledger)

    def refuse(
        self,
        body: bytes | None,
        *,
        outcome: ExportStatus = ExportStatus.UNAVAILABLE,
        now: int = NOW,
    ) -> None:
        self.refusals.refused(Refusal(outcome, "no"), "shop", now, body)


def test_a_gap_is_lifted_once_the_same_bytes_are_taken() -> None:
    """Until then calls of the sender may be missing that began up to a window before the refusal."""
    noted = Noted()
    noted.refuse(b"spans")

    assert noted.gaps == [
        Gap(
            Cause.REFUSED,
            NOW - 10 * SECOND,
            NOW + SECOND,
            namespace="shop",
            received_ns=NOW - 10 * SECOND,
        )
    ]
    noted.refusals.arrived(b"others")
    assert noted.gaps
    noted.refusals.arrived(b"spans")
    assert not noted.gaps
    assert not noted.refusals


def test_one_gap_stands_for_the_refusals_of_one_second() -> None:
    """It is lifted only when each of its requests has come."""
    noted = Noted()
    noted.refuse(b"one")
    noted.refuse(b"two", now=NOW + SECOND // 2)

    assert len(noted.gaps) == 1
    noted.refusals.arrived(b"one")
    assert noted.gaps
    noted.refusals.arrived(b"two")
    assert not noted.gaps


def test_what_was_not_read_is_never_known_again() -> None:
    """A request that was refused by its head leaves a gap for good."""
    noted = Noted()
    noted.refuse(None)
    noted.refuse(b"one")
    noted.refusals.arrived(b"one")

    assert noted.gaps


@pytest.mark.parametrize(
    ("outcome", "loses"),
    [
        (ExportStatus.THROTTLED, True),
        (ExportStatus.UNAVAILABLE, True),
        (ExportStatus.INTERNAL, True),
        (ExportStatus.TOO_LARGE, True),
        (ExportStatus.MALFORMED, False),
        (ExportStatus.UNAUTHENTICATED, False),
        (ExportStatus.PERMISSION_DENIED, False),
        (ExportStatus.NOT_FOUND, False),
    ],
)
def test_only_requests_of_sound_senders_are_gaps(outcome: ExportStatus, loses: bool) -> None:
    """Whoever may not send, or sends what is no telemetry, makes nobody's verdict less certain."""
    noted = Noted()
    noted.refuse(b"spans", outcome=outcome)

    assert bool(noted.gaps) is loses


def test_a_flood_of_refusals_is_bounded() -> None:
    """The gap of the oldest request stays: that it may come again is forgotten, not that it was refused."""
    noted = Noted()
    for number in range(AWAITED_MAX + 10):
        noted.refuse(b"%d" % number, now=NOW + number * SECOND // 100)
    before = noted.gaps
    for number in range(10):
        noted.refusals.arrived(b"%d" % number)

    assert noted.gaps == before


def _json_of(request: ExportTraceServiceRequest) -> bytes:
    """The same request in OTLP/JSON, where ids are hexadecimal."""
    written: dict[str, Any] = MessageToDict(request)
    for sent in written["resourceSpans"]:
        for span in sent["scopeSpans"][0]["spans"]:
            span |= {key: b64decode(span[key]).hex() for key in ("traceId", "spanId")}
    return json.dumps(written).encode()


@pytest.mark.parametrize("encoding", ["proto", "json"])
def test_spans_that_are_left_out_are_a_gap_of_their_services(encoding: Any) -> None:
    """The rest of the request is taken (a partial success): calls of that sender's services may be missing, and no others."""
    noted = Noted()
    export = Export(lambda *_: None, Stats(), lambda: NOW, refusals=noted.refusals)
    request = ExportTraceServiceRequest()
    for service, trace_id in (("shop", bytes(16)), ("desk", b"t" * 16), ("", bytes(16))):
        sent = request.resource_spans.add()
        if service:
            name = sent.resource.attributes.add()
            name.key, name.value.string_value = "service.name", service
        span = sent.scope_spans.add().spans.add()
        span.trace_id, span.span_id, span.name = trace_id, b"s" * 8, "x"
    body = request.SerializeToString() if encoding == "proto" else _json_of(request)
    result = export.ingest_now("traces", body, encoding, "grpc", "alice")

    assert result.rejected == 2
    assert {(each.cause, each.namespace, each.service) for each in noted.gaps} == {
        (Cause.REFUSED, "alice", "shop"),
        (Cause.REFUSED, "alice", ""),
    }
    assert not noted.refusals


@pytest.mark.parametrize("is_first", [True, False])
def test_a_gap_of_spans_that_are_left_out_is_not_lifted(is_first: bool) -> None:
    """A refused request of the same second is the same gap, if the spans are of any service: its bytes bring no span of theirs."""
    noted = Noted()
    if is_first:
        noted.refusals.left_out([""], "shop", NOW)
    noted.refuse(b"spans")
    if not is_first:
        noted.refusals.left_out([""], "shop", NOW)
    noted.refusals.arrived(b"spans")
    assert len(noted.gaps) == 1


def test_a_gap_keeps_no_long_name() -> None:
    """Calls of any service may be missing then: a name as long as a request would be kept for hours."""
    noted = Noted()
    noted.refusals.left_out(["s" * 5_000], "shop", NOW)
    assert [each.service for each in noted.gaps] == [""]


def test_the_services_of_spans_that_are_left_out_are_bounded() -> None:
    """Beyond the bound, calls of any service may be missing."""
    rejects = Rejects()
    for number in range(SERVICES_MAX + 1):
        rejects.add("span", "odd", "bad_id", Resource({"service.name": f"s{number}"}))
    assert rejects.services == {""}


def test_the_export_notes_what_it_refuses_and_what_it_takes() -> None:
    """A request that cannot be judged for now is a gap; sent again, it is none. Metrics are none at all."""
    noted, faults = Noted(), [True]

    def consume(*_: Any) -> None:
        if faults:
            raise Refusal(ExportStatus.UNAVAILABLE, "not now")

    export = Export(consume, Stats(), lambda: NOW, refusals=noted.refusals)
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add()
    span.trace_id, span.span_id, span.name = b"t" * 16, b"s" * 8, "x"
    body = request.SerializeToString()
    with pytest.raises(Refusal):
        export.ingest_now("traces", body, "proto", "grpc")
    with pytest.raises(Refusal):
        export.ingest_now("traces", body, "proto", "grpc")
    assert len(noted.gaps) == 1
    faults.clear()
    export.ingest_now("metrics", b"", "proto", "grpc")
    assert noted.gaps
    export.ingest_now("traces", body, "proto", "grpc")
    assert not noted.gaps


class _Disk:
    """A journal whose disk does not take what was kept."""

    waits = True

    def keep(self, now_ns: int, request: Request) -> None:
        """Keeps it, in memory."""

    async def synced(self) -> None:
        raise Refusal(ExportStatus.UNAVAILABLE, "the disk is full")


def test_what_is_judged_and_not_on_the_disk_is_a_gap_until_it_comes_again() -> None:
    """The process that follows would not have the request, whose sender was told to send it once more."""
    noted = Noted()
    disk: Any = _Disk()
    export = Export(
        lambda *_: Rejects(),
        Stats(),
        keep=disk,
        refusals=noted.refusals,
        clock=lambda: NOW,
    )
    with pytest.raises(Refusal):
        asyncio.run(export.ingest("traces", b"", "proto", "http_proto", "shop"))

    assert [each.cause for each in noted.gaps] == [Cause.REFUSED]
