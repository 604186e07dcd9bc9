"""A running service with a memory limit: bounds follow from it, and requests are refused before it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.end_to_end.conftest import Serve
from tests.end_to_end.service import OFFRAILS, Service
from tests.end_to_end.traffic import Rover, send

MIB = 1 << 20


def test_large_requests_at_once_stay_below_a_sidecars_limit(serve: Serve) -> None:
    """Four of 54 MB at once: each is refused, and the process takes less than its limit."""
    service = serve(program=OFFRAILS, OFFRAILS_MEMORY_LIMIT=str(192 * MIB))
    body = bytes(54_000_000)
    with ThreadPoolExecutor(4) as senders:
        told = list(senders.map(lambda _: _status(service, body), range(4)))
    assert set(told) <= {413, 503, 0}  # 0: the connection was closed while it still sent
    assert _peak(service.process.pid) < 192 * MIB
    send(service, Rover("small", 1).call("move", {}).spans)
    assert service.judgement("small")["calls"] == 1


def _status(service: Service, body: bytes) -> int:
    try:
        return service.post(body, "application/x-protobuf").status
    except OSError:
        return 0


def _peak(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def test_at_the_limit_requests_are_refused(serve: Serve) -> None:
    """A limit that the idle process has reached: 503, counted, and the process lives."""
    service = serve(OFFRAILS_MEMORY_LIMIT=str(24 * MIB))
    assert service.post(b"{}").status == 503
    assert service.metric("offrails_requests_refused_total", reason="memory") == 1
    assert service.metric("offrails_memory_limit_bytes") == 24 * MIB
    assert service.get("/-/healthy", "metrics").status == 200
