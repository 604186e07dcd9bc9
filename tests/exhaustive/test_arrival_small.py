"""Every order of arrival of every small session: one truth."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations, product
from typing import Any

import pytest

from monitor import Limits, Monitor, SessionKey, ToolCall
from monitor.limits import SECOND
from monitor.records import Evidence
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

START = 1_700_000_000 * SECOND
SPECS = {
    "task": "kind: task\ngolden: [[a, b]]\nagain: {again}",
    "policy": "kind: policy\nconstraints: [{{precedence: [a, b]}}, {{at_most: [a, 1]}}]",
}
SHAPES = {
    "one after the other": ((0, 1), (1, 2), (2, 3), (3, 4)),
    "two and two at once": ((0, 4), (1, 5), (6, 9), (7, 8)),
    "a chain": ((0, 2), (1, 4), (3, 6), (5, 7)),
    "a part before its whole": ((2, 3), (1, 2), (4, 5), (6, 7)),
}
"""Start and end of each call. In the last the second call says it is a part of the first."""


def call(number: int, tool: str, times: tuple[int, int], parent: bytes) -> ToolCall:
    return ToolCall(
        session=SessionKey("", "s"),
        agent="",
        tool=tool,
        arguments={},
        error=False,
        start_ns=START + times[0] * SECOND,
        end_ns=START + times[1] * SECOND,
        trace_id=b"t" * 16,
        span_id=(number + 1).to_bytes(8, "big"),
        parent_span_id=parent,
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes={"service.name": "shop"},
    )


def ends(made: Sequence[ToolCall], spec: Spec) -> tuple[Any, ...]:
    """The object, the final events and the final counters."""
    monitor = Monitor([spec], Limits(history_complete=True))
    final: list[Any] = []
    monitor.on_final(final.append)
    for each in made:
        monitor.observe(each, START + 10 * SECOND)
    monitor.tick(START + 30 * SECOND)
    counters = {key: +pair.final for key, pair in monitor.totals.pairs.items()}
    return monitor.find("s"), sorted(final, key=lambda each: each.span_id), counters


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["task", "policy"])
@pytest.mark.parametrize("again", ["false", "true"])
def test_every_order_of_arrival(kind: str, again: str, shape: str, step: int) -> None:
    """All words of three and four calls over two symbols give one result in all orders of arrival; of four, in each fifth or in all."""
    if kind == "policy" and again == "true":
        pytest.skip("a policy has no episodes")
    text = (
        "id: small\nmatch: {service.name: shop}\nalphabet: {a: {tool: a}, b: {tool: b}}\n"
        + SPECS[kind].format(again=again)
    )
    spec, findings = compile_text(text, "small.yaml")
    assert spec is not None, findings
    part = b"\0" * 7 + b"\1" if shape == "a part before its whole" else b""
    for size in (3, 4):
        for word in product("ab", repeat=size):
            made = [
                call(number, tool, times, part if number == 1 else b"")
                for number, (tool, times) in enumerate(zip(word, SHAPES[shape], strict=False))
            ]
            orders = list(permutations(made))
            expected = ends(orders[0], spec)
            for order in orders[1 :: step if size == 4 else 1]:
                assert ends(order, spec) == expected
