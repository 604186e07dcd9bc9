"""Floods of questions that each leave something behind: memory stays below the limit, and there is room again.

What is kept of questions is bounded by the memory limit, so a flood of them never takes the room that spans need.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.conformance.target import JSON, Target
from tests.end_to_end.decide_floods import SPECS
from tests.end_to_end.service import OFFRAILS, eventually
from tests.end_to_end.traffic import Rover, send

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve
    from tests.end_to_end.service import Service

MIB: Final = 1 << 20
LIMIT: Final = 128 * MIB
"""The least that is advised: the idle process takes half."""
FULL: Final = 0.85 * LIMIT
"""From here on nothing is taken."""
SENDERS: Final = 3


def _padded(number: int, length: int) -> str:
    return f"{number}-".ljust(length, "\U0001f600")


def arguments(number: int) -> dict[str, Any]:
    return {
        "session": f"s{number}",
        "arguments": {"text": _padded(number, 50_000), "list": [[number]] * 500},
    }


def attributes(number: int) -> dict[str, Any]:
    told = {f"k{place}": _padded(number, 900) for place in range(60)}
    return {
        "session": "s",
        "attributes": {**told, "service.namespace": _padded(number, 900)},
        "commit": False,
    }


def names(number: int) -> dict[str, Any]:
    name = _padded(number, 1_000)
    return {
        "session": name,
        "agent": name,
        "tool": name,
        "call_id": name,
        "question_id": _padded(number, 120),
    }


def small(number: int) -> dict[str, Any]:
    return {
        "session": f"s{number}",
        "new_session": True,
        "calls": [{"tool": "look"}, {"tool": "pay"}] * 32,
    }


FLOODS: Final[dict[str, tuple[Callable[[int], dict[str, Any]], int]]] = {
    "arguments": (arguments, 200),
    "attributes": (attributes, 100),
    "names": (names, 200),
    "sessions that begin": (small, 150),
}  # fmt: skip
"""What a question says, by its number; and how many such questions are sent: more than there is room for."""


SAMPLE: Final = ("sessions that begin",)
"""All floods are in `make test-long`."""


@pytest.mark.parametrize(
    "name",
    [each if each in SAMPLE else pytest.param(each, marks=pytest.mark.long) for each in FLOODS],
)
def test_a_flood_of_questions_leaves_room(serve: Serve, tmp_path: Path, name: str) -> None:
    """Never as full that spans are refused, and no fuller after a second flood; what is kept is in the metrics."""
    (tmp_path / "shop.yaml").write_text(SPECS["shop.yaml"])
    service = serve("--specs", str(tmp_path), program=OFFRAILS, OFFRAILS_MEMORY_LIMIT=str(LIMIT), OFFRAILS_HISTORY="complete")  # fmt: skip
    asked, number = FLOODS[name]
    flood(service, asked, number, 0)
    first = peak(service)
    flood(service, asked, number, 1)

    assert first < FULL, f"{first / MIB:.0f} MiB"
    assert peak(service) < FULL, f"{peak(service) / MIB:.0f} MiB after {first / MIB:.0f}"
    assert service.metric("offrails_memory_bytes") < LIMIT / 3
    assert service.metric("offrails_requests_refused_total", reason="memory") == 0
    assert service.metric("offrails_internal_errors_total") == 0
    eventually(lambda: service.get("/-/healthy", "metrics").status == 200)
    send(service, Rover("small", 1).call("move", {}).spans)


ROUNDS: Final = 4
"""Of floods that fill the tables, and as many again that find them full."""
BESIDE: Final = 16 * MIB
"""What the tables may hold, as much that is free between, what is loaded at the first request, and memories of fixed size."""
MORE: Final = 3 * MIB
"""What the allocator may still take for full tables. Each flood has 4 MB of new names."""


@pytest.mark.long
@pytest.mark.timeout(120)
def test_floods_with_new_names_take_no_more_than_the_bounds(
    serve: Serve, tmp_path: Path
) -> None:
    """Once the tables are full, further floods of names that nobody has seen add nothing to the process."""
    (tmp_path / "shop.yaml").write_text(SPECS["shop.yaml"])
    service = serve(
        "--specs",
        str(tmp_path),
        program=OFFRAILS,
        OFFRAILS_HISTORY="complete",
        # Tables that a few floods fill.
        OFFRAILS_SESSIONS_MAX_BYTES=str(MIB),
        OFFRAILS_DECIDE_MAX_CALL_BYTES=str(MIB),
        OFFRAILS_METRICS_PAIRS_MAX="50",
    )
    quiet = peak(service)
    for part in range(ROUNDS):
        flood(service, names, 200, part)
    full = peak(service)
    for part in range(ROUNDS, 2 * ROUNDS):
        flood(service, names, 200, part)

    assert full - quiet < BESIDE, f"{full / MIB:.1f} MiB after {quiet / MIB:.1f}"
    assert peak(service) - full < MORE, f"{peak(service) / MIB:.1f} MiB after {full / MIB:.1f}"


def flood(
    service: Service, asked: Callable[[int], dict[str, Any]], number: int, part: int
) -> None:
    """Some clients ask questions, each different from all others, and settle every second one."""
    with ThreadPoolExecutor(SENDERS) as senders:
        places = [
            range(part * number + each, (part + 1) * number, SENDERS) for each in range(SENDERS)
        ]
        for found in senders.map(lambda mine: _ask(service, asked, mine), places):
            assert found <= {200, 404, 409}


def _ask(
    service: Service, asked: Callable[[int], dict[str, Any]], places: Iterable[int]
) -> set[int]:
    """The statuses of the answers."""
    target = Target(http=service.addresses["decide"])
    connection, statuses = target.connection(), set[int]()

    def post(path: str, body: dict[str, Any]) -> Any:
        text = json.dumps(body, ensure_ascii=False).encode()
        reply = target.request(text, JSON, path=path, connection=connection)
        statuses.add(reply.status)
        return json.loads(reply.body)

    for place in places:
        body = {"service": "shop", **asked(place)}
        if "calls" not in body:
            body.setdefault("tool", ("look", "pay", "approve")[place % 3])
        answer = post("/api/v1/decide", body)
        if place % 2 and answer.get("decision_id"):
            outcome = ("ran", "failed", "skipped")[place % 3]
            post("/api/v1/outcome", {"decision_id": answer["decision_id"], "outcome": outcome})
    connection.close()
    return statuses


def peak(service: Service) -> int:
    """The most that the process has taken."""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024
