"""A sidecar of 192 MiB with a journal: its snapshot is taken, and reading all of it back stays under the limit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.end_to_end.service import OFFRAILS, Service, eventually
from tests.end_to_end.test_decide_memory import MIB, peak
from tests.end_to_end.test_restart_under_load import post

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve

LIMIT: Final = 192 * MIB
CALLS: Final = 60


@pytest.mark.long
@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("snapshot_seconds", "sessions"),
    [
        ("1", 200),
        ("1", 400),
        ("0", 400),
    ],
)
def test_a_sidecar_reads_its_state_back_under_its_limit(
    serve: Serve, tmp_path: Path, snapshot_seconds: str, sessions: int
) -> None:
    """By a snapshot, none of which is skipped, or by the journal alone: every call is there again."""
    settings: dict[str, Any] = {
        "OFFRAILS_MEMORY_LIMIT": str(LIMIT),
        "OFFRAILS_STATE_SNAPSHOT_SECONDS": snapshot_seconds,
    }
    arguments = ("--state", str(tmp_path / "state"))
    before = Service(arguments, settings, OFFRAILS).wait_ready()
    try:
        for number in range(sessions):
            assert post(before.addresses["http"], f"s{number}", CALLS) == 200
        if snapshot_seconds != "0":
            eventually(lambda: before.metric("offrails_snapshots_total", result="ok") > 0)
        assert before.metric("offrails_snapshots_total", result="skipped") == 0
        assert peak(before) < LIMIT
    finally:
        before.kill()

    after = serve(*arguments, program=OFFRAILS, **settings)
    [told] = after.logged("state_recovered")
    assert told["snapshot"] is (snapshot_seconds != "0")
    assert peak(after) < LIMIT, f"{peak(after) / MIB:.0f} MiB"
    calls = [each["calls"] for each in after.judgements(limit="1000")]
    assert calls == [CALLS] * sessions
