"""A webhook that hangs, answers garbage or refuses: for a while, and for ten minutes, as long as people may take to notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.moody import QUEUE, TROUBLES, BadTime
from tests.end_to_end.service import eventually

MEGABYTE = 1024 * 1024


def _check(bad: BadTime) -> None:
    found, service = bad.result(), bad.service
    took = found.took
    print(
        f"{found.sessions} harmful sessions; ingest p50 {took[len(took) // 2] * 1e3:.1f} ms, "
        f"p99 {took[len(took) * 99 // 100] * 1e3:.1f} ms; memory {found.grown_bytes / MEGABYTE:+.1f} "
        f"MB; delivery resumed after {found.recovered_seconds:.1f} s"
    )
    # Ingest is unaffected, and so are the verdicts and the other receiver of pages.
    assert took[len(took) // 2] < 0.1
    assert service.metric("offrails_calls_total", verdict="harmful") == found.sessions
    eventually(lambda: len(bad.good.sessions) == found.sessions)
    # It was bad in every way.
    assert all(bad.hook.met[mood] for mood in TROUBLES if mood != "refuses")
    assert service.metric("offrails_alert_retries_total", sink="webhook") > 5
    # Memory is bounded.
    assert service.metric("offrails_alert_queue_capacity", sink="webhook") == QUEUE
    assert found.grown_bytes < 32 * MEGABYTE
    # Every page, and every end of one, was delivered or is counted as lost.
    eventually(lambda: service.metric("offrails_alert_queue_length", sink="webhook") == 0)
    assert service.metric("offrails_alerts_firing") < 300  # sessions that made room have ended
    ends = found.sessions - service.metric("offrails_alerts_firing")
    sent = {
        result: service.metric("offrails_alerts_sent_total", sink="webhook", result=result)
        for result in ("ok", "failed", "dropped")
    }
    assert sum(sent.values()) == found.sessions + ends
    assert sent["dropped"] > QUEUE
    assert sum(bad.hook.sessions.values()) <= sent["ok"]
    # And what is sent when it is well again arrives soon: the longest pause between tries is 15 s.
    assert found.recovered_seconds < 30


# In 24 seconds it is tried after about 0, 1, 3, 6 (all hang), 11 (garbage) and 20 (refused), then at 35, well.
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seconds", [24, 600])
def test_a_bad_webhook(seconds: float, tmp_path: Path) -> None:
    """Ingest is unaffected, memory is bounded, losses are counted, and delivery resumes."""
    bad = BadTime(tmp_path, seconds)
    try:
        _check(bad)
    finally:
        bad.close()
