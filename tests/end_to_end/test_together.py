"""Calls issued in parallel under a strict policy, over the wire."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.service import eventually
from tests.end_to_end.traffic import EPOCH_NS, MILLISECOND, Sent, Transport, send

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve

POLICY = """
id: payments
version: "1"
kind: policy
alphabet: {approve: {tool: approve}, pay: {tool: pay}}
constraints: [{precedence: [approve, pay]}]
"""


def call(session: str, tool: str, number: int, start: int, end: int) -> Sent:
    """A call of one turn; times are milliseconds."""
    return Sent(
        trace_id=session.encode().ljust(16, b"-"),
        span_id=number.to_bytes(8, "big"),
        name=f"execute_tool {tool}",
        start_ns=EPOCH_NS + start * MILLISECOND,
        end_ns=EPOCH_NS + end * MILLISECOND,
        attributes={
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.conversation.id": session,
        },
        parent_span_id=b"the turn",
    )


@pytest.mark.parametrize("transport", ["grpc", "http_json"])
def test_approved_and_paid_at_once(serve: Serve, tmp_path: Path, transport: Transport) -> None:
    """A payment that overlaps its approval is harmful; one after the other is not."""
    spec = tmp_path / "payments.yaml"
    spec.write_text(POLICY)
    service = serve(
        "--specs",
        str(spec),
        OFFRAILS_HISTORY="complete",
        OFFRAILS_SESSIONS_WINDOW_SECONDS="0.2",
    )
    together = [call("together", "approve", 1, 0, 10), call("together", "pay", 2, 5, 15)]
    in_turn = [call("in turn", "approve", 3, 0, 5), call("in turn", "pay", 4, 5, 15)]
    for sent in (*together, *in_turn):
        send(service, [sent], transport)

    def harm(session: str) -> list[Any]:
        steps = service.judgement(session, "payments")["steps"]
        return [(s["tool"], s["constraint"]) for s in steps if s["kind"] == "harmful"]

    assert harm("together") == [("pay", "precedence: [approve, pay]")]
    assert harm("in turn") == []
    eventually(lambda: service.metric("offrails_harmful_calls_total", spec="payments") == 1)
