"""A killed service with much in its journal: senders are answered long before all of it is judged again."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import grpc

from collector.decode.span import Resource
from tests.collector.state.life import body_of
from tests.end_to_end.service import Service, eventually, request
from tests.simulation import wire

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
PROTO = {"content-type": "application/x-protobuf"}
SESSIONS = 120
CALLS = 250
"""Of each: more than a service judges in a second."""


def body(session: str, calls: int) -> bytes:
    """A session whose calls end now."""
    now, resource = time.time_ns(), Resource({"service.name": "shop"})
    trace = session.encode().ljust(16, b".")
    spans = [
        wire.tool(
            resource,
            "look",
            {},
            conversation=session,
            trace_id=trace,
            span_id=(number + 1).to_bytes(8, "big"),
            start_ns=now - 1_000 * (calls - number),
            end_ns=now - 1_000 * (calls - number) + 500,
        )
        for number in range(calls)
    ]
    return body_of(spans)


def post(address: str, session: str, calls: int) -> int:
    """The status of a request over HTTP."""
    return request(address, "POST", "/v1/traces", body(session, calls), PROTO).status


def call(address: str, session: str) -> None:
    """The same over gRPC, which must be taken."""
    with grpc.insecure_channel(address) as channel:
        channel.unary_unary(EXPORT, lambda sent: sent, lambda got: got)(
            body(session, 1), timeout=10
        )


def test_senders_are_answered_before_the_journal_is_judged(tmp_path: Path) -> None:
    """Right after its start it takes requests and is ready for them; in the end it has judged all of them."""
    arguments = ("--state", str(tmp_path / "state"))
    service = Service(arguments).wait_ready()
    for number in range(SESSIONS):
        assert post(service.addresses["http"], f"before-{number}", CALLS) == 200
    service.kill()

    service = Service(arguments)
    try:
        opened: dict[str, Any] = eventually(partial(_opened, service))
        metrics = opened["metrics"]
        assert post(opened["http"], "meanwhile-http", 1) == 200
        call(opened["grpc"], "meanwhile-grpc")
        assert (
            request(metrics, "GET", "/-/ready").body == b"ready, and judging what came before\n"
        )
        assert request(metrics, "GET", "/metrics").status == 503
        assert not service.events("state_recovered"), "the journal is too small for this test"

        service.wait_ready()
        [told] = service.logged("state_recovered")
        assert told["received_meanwhile"] == 2
        calls = {each["session"]: each["calls"] for each in service.judgements(limit="1000")}
        assert calls.pop("meanwhile-http") == calls.pop("meanwhile-grpc") == 1
        assert calls == {f"before-{number}": CALLS for number in range(SESSIONS)}
        assert (
            service.metric("offrails_ingest_requests_total", transport="grpc", code="OK") == 1
        )
        assert post(service.addresses["http"], "afterwards", 1) == 200
        eventually(lambda: service.judgements("afterwards"))
    finally:
        service.kill()


def _opened(service: Service) -> dict[str, Any] | None:
    return next(iter(service.events("receiving")), None)
