"""The things of a spec with `each`, in a real browser."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from tests.end_to_end.service import Service, request
from tests.page.browser import Page
from tests.page.test_session_page import MARKUP, known, url

SPEC = """id: refunds
kind: policy
each: {order: {look_up_order: id, refund: id}}
alphabet:
  look_up_order: {tool: look_up_order}
  refund: {tool: refund}
constraints:
  - precedence: [look_up_order, refund]
"""


def span(number: int, tool: str, order: str) -> dict[str, Any]:
    """A call of a tool, as an OTLP/JSON span."""
    told = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.conversation.id": "shop-1",
        "gen_ai.tool.call.arguments": json.dumps({"id": order}),
    }
    start = time.time_ns() + number
    return {
        "traceId": "1" * 32,
        "spanId": f"{number:016x}",
        "name": f"execute_tool {tool}",
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start),
        "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in told.items()],
    }


def test_things_are_rows_with_their_state(tmp_path: Path, page: Page) -> None:
    """Each thing is a row with its state, the harmed one first; what an agent calls it enters as plain text."""
    (tmp_path / "refunds.yaml").write_text(SPEC)
    options = {"OFFRAILS_HISTORY": "complete", "OFFRAILS_SHOW_ARGUMENTS": "true"}
    service = Service(("--specs", str(tmp_path / "refunds.yaml")), options).wait_ready()
    try:
        spans = [span(1, "look_up_order", "B7"), span(2, "refund", MARKUP)]
        body = {"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}
        headers = {"content-type": "application/json"}
        request(
            service.addresses["http"], "POST", "/v1/traces", json.dumps(body).encode(), headers
        )
        known(service, "shop-1")
        page.open(url(service, "shop-1"))
        page.until(
            lambda: page.run("document.querySelectorAll('#things tbody tr').length") == 2
        )
        first, second = (page.text(f"#things tbody tr:nth-child({place})") for place in (1, 2))
        assert MARKUP in first
        assert "start" in first
        assert "B7" in second
        assert "after look_up_order" in second
        assert page.run("document.querySelectorAll('#things img').length") == 0
    finally:
        service.kill()
