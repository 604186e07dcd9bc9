"""Spans that two calls could claim: the calls are the same in the end, whatever the order."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from collector.decode.span import UnjudgedSpansError
from tests.collector.conftest import Orders

MCP = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "pay"}


def repeated_id(wire: Any) -> list[Any]:
    """Two calls with one id and other arguments; a third span has the id alone, a fourth is below the second."""
    return [
        wire.tool("pay", id="a", call_id="i", arguments={"n": 0}, start=1, end=2),
        wire.tool("pay", id="b", call_id="i", arguments={"n": 1}, start=1.1, end=2),
        wire.tool("pay", id="c", call_id="i", start=1.2, end=2),
        wire.span("mcp", MCP, id="d", parent="b", start=2, end=3),
        wire.span("mcp", MCP, id="e", parent="d", start=3, end=4, status=2),
    ]


def contradicting_ancestor(wire: Any) -> list[Any]:
    """A call below the server's span of another call; a span with its id stands apart."""
    return [
        wire.tool("pay", id="a", arguments={"n": 0}, start=1, end=2),
        wire.span("mcp", MCP, id="b", parent="a", start=2, end=3),
        wire.tool("pay", id="c", parent="b", call_id="j", arguments={"n": 3}, start=3, end=4),
        wire.tool("pay", id="d", call_id="j", start=1, end=4),
    ]


@pytest.mark.parametrize("spans", [repeated_id, contradicting_ancestor])
def test_order_is_nothing(wire: Any, bench: Any, spans: Any, orders: Orders) -> None:
    """Each order of arrival ends in two calls with the same arguments, errors and spans."""
    given = spans(wire)
    wanted = bench().send(*given).steps()
    assert len(wanted) == 2

    for order in orders(given):
        assert bench().send(*order).steps() == wanted


def test_a_failed_server_span_fails_the_call_above(wire: Any, bench: Any) -> None:
    """A failed server span below a call fails that call, not the one with the same id."""
    steps = bench().send(*repeated_id(wire)).steps()

    assert {step["arguments"]["n"]: step["error"] for step in steps} == {0: False, 1: True}


@pytest.mark.plain
@pytest.mark.parametrize("spans", [repeated_id, contradicting_ancestor])
def test_an_error_leaves_nothing_to_another_trace(
    wire: Any, bench: Any, spans: Any, monkeypatch: pytest.MonkeyPatch, orders: Orders
) -> None:
    """A call that an error kept from an update does not move to the next span's session."""
    tenant = {"service.name": "svc", "service.namespace": "other"}
    other = wire.tool("look", id="z", trace="other", resource=tenant)

    for *first, last in orders(spans(wire)):
        for number in (1, 2, 3):
            found = bench().send(*first)
            with monkeypatch.context() as patch, suppress(UnjudgedSpansError):
                _fail_once(patch, found, number)
                found.send(last)
            for steps in found.send(other).sessions().values():
                assert len({step["tool"] for step in steps}) == 1


def _fail_once(patch: pytest.MonkeyPatch, bench: Any, number: int) -> None:
    """Has the update of a call fail once, the `number`-th time."""
    correlation = bench.pipeline.correlation
    update, left = correlation.update, number

    def fail(*given: Any) -> None:
        nonlocal left
        left -= 1
        if not left:
            raise ZeroDivisionError
        update(*given)

    patch.setattr(correlation, "update", fail)
