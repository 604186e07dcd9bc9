"""A service with a journal whose disk takes no more: what senders are answered, and that nothing is lost."""

from __future__ import annotations

import resource
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from collector.decode.span import Resource
from tests.collector.state.life import body_of
from tests.end_to_end.service import Service, eventually, request
from tests.simulation import wire

PROTO = {"content-type": "application/x-protobuf"}
UNLIMITED = resource.RLIM_INFINITY


def limit_files(service: Service, size: int) -> None:
    """No file of the process grows beyond a size any more: writing fails, as on a full disk."""
    resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (size, UNLIMITED))


def body(number: int) -> bytes:
    """A call that ends now, in a session of its own."""
    now = time.time_ns()
    call = wire.tool(
        Resource({"service.name": "shop"}),
        "look",
        {},
        conversation=f"s{number}",
        trace_id=number.to_bytes(16, "big"),
        span_id=number.to_bytes(8, "big"),
        start_ns=now - 1_000,
        end_ns=now,
    )
    return body_of([call])


def start(folder: Path, **variables: str) -> Service:
    """A service with a journal."""
    return Service(("--state", str(folder)), variables).wait_ready()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state"


def post(service: Service, number: int) -> int:
    """The status of a request."""
    return request(service.addresses["http"], "POST", "/v1/traces", body(number), PROTO).status


def calls(service: Service) -> set[Any]:
    """The sessions that the service knows."""
    return {each["session"] for each in service.judgements()}


def test_a_full_disk_refuses_until_there_is_room(folder: Path) -> None:
    """503 to senders, an error counted and logged once, health as before; what was acknowledged survives kill -9."""
    service = start(folder)
    try:
        assert post(service, 1) == 200
        limit_files(service, 0)
        assert [post(service, 2) for _ in range(3)] == [503] * 3
        assert service.metric("offrails_journal_errors_total") >= 3
        assert len(eventually(partial(service.events, "journal_failing"))) == 1
        assert service.get("/-/healthy").status == 200
        limit_files(service, UNLIMITED)
        assert post(service, 2) == 200
        assert eventually(partial(service.events, "journal_recovered"))
        service.kill()
        service = start(folder)
        assert calls(service) == {"s1", "s2"}
    finally:
        service.kill()


def test_a_service_may_go_on_without_its_disk(folder: Path) -> None:
    """With `on_error: continue` senders notice nothing, and the next process has what was written."""
    service = start(folder, OFFRAILS_STATE_ON_ERROR="continue")
    try:
        assert post(service, 1) == 200
        limit_files(service, 0)
        assert post(service, 2) == 200
        assert calls(service) == {"s1", "s2"}
        limit_files(service, UNLIMITED)
        assert post(service, 3) == 200
        service.kill()
        service = start(folder, OFFRAILS_STATE_ON_ERROR="continue")
        assert calls(service) == {"s1", "s3"}
    finally:
        service.kill()
