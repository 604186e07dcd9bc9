"""What is remembered of denied calls is bounded by all the texts that it holds."""

from __future__ import annotations

import pytest

from collector.calls.decisions.prevented_calls import PreventedCall, PreventedCalls
from monitor.records import SessionKey

LONG = "x" * 4_000


@pytest.mark.parametrize("field", ["session", "agent", "tool", "call_id"])
def test_each_long_name_counts(field: str) -> None:
    """A client chooses all four, so none of them takes bytes that nobody counts."""
    kept = PreventedCalls(bytes_max=100_000)
    for number in range(200):
        kept.add(prevented(number, **{field: f"{number}{LONG}"}))

    assert kept.held_bytes <= 100_000
    assert 0 < sum(bool(kept.of(SessionKey("", each))) for each in sessions(field)) < 30


def sessions(field: str) -> list[str]:
    return [f"{number}{LONG if field == 'session' else ''}" for number in range(200)]


def prevented(number: int, **given: str) -> PreventedCall:
    texts = {"session": str(number), "agent": "", "tool": "", "call_id": "", **given}
    return PreventedCall(
        number,
        f"d-{number}",
        SessionKey("", texts["session"]),
        texts["agent"],
        number,
        texts["tool"],
        texts["call_id"],
        b"",
        found=None,  # type: ignore[arg-type]  # what a spec says is shared, and counts nothing
    )
