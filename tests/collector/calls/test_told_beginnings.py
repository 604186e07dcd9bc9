"""What clients say of the beginnings of sessions takes few bytes, however long the ids are."""

from __future__ import annotations

from collector.calls.decisions.decided_calls import BEGINNING_BYTES, DecidedCalls
from monitor.records import Proof, SessionKey

LONG = "\U0001f600" * 1_000


def test_a_long_id_takes_no_more_than_a_short_one() -> None:
    """It is found again and moves with its session, and is not remembered itself."""
    table, proof = DecidedCalls(), Proof.said(1)
    table.begin(SessionKey("", f"a{LONG}"), proof, 1)
    table.begin(SessionKey("", f"b{LONG}"), Proof.said(2), 1)
    first = table.beginnings.first()

    assert first is not None
    assert len(first[0].id) < 64
    assert table.held_bytes == 2 * BEGINNING_BYTES
    assert table.beginning(SessionKey("", f"a{LONG}"), take=False) == proof
    table.rename(SessionKey("", f"a{LONG}"), SessionKey("", "real"), "attribute")
    assert table.beginning(SessionKey("", f"a{LONG}"), take=False) is None
    assert table.beginning(SessionKey("", "real"), take=True) == proof
    assert table.held_bytes == BEGINNING_BYTES
