"""Rules over data from spans: results of tools, and what the user said to the model."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest

from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.collector.calls.test_deciding import NAMED
from tests.collector.conftest import Bench

TEXT = """
id: desk
kind: policy
match: {service.name: svc}
remember: {price: {at: look_up, result: $.price}}
alphabet:
  known: {tool: mail, arguments: {to: {from: [look_up, user]}}}
  mail: {tool: mail}
  fair: {tool: refund, arguments: {amount: {min: 0, max: {value: price}}}}
  refund: {tool: refund}
constraints: [{forbid: mail}, {forbid: refund}]
"""


def spec() -> Spec:
    made, findings = compile_text(TEXT, "desk.yaml")
    assert made is not None, findings
    return made


def looked_up(wire: Any, result: Any) -> Any:
    told = {} if result is None else {"gen_ai.tool.call.result": json.dumps(result)}
    return wire.tool("look_up", id="a", start=2, end=3, attributes={**NAMED, **told})


def asking(wire: Any, tool: str, arguments: Any) -> Any:
    return wire.tool(tool, id="m", start=4, end=5, arguments=arguments, attributes=NAMED)


def chat(wire: Any, *messages: Any, start: float = 1) -> Any:
    told = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.input.messages": json.dumps(messages),
    }
    return wire.span("chat m", {**NAMED, **told}, id="c", start=start, end=start + 0.5)


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def kinds(bench: Bench, tool: str) -> list[str]:
    return [each["kind"] for each in bench.steps() if each["tool"] == tool]


def ends(wire: Any, spans: list[Any], tool: str) -> set[str]:
    """How calls of a tool end, whatever the order in which the spans come."""
    return {
        kind
        for order in permutations(spans)
        for kind in kinds(Bench([spec()]).send(*order), tool)
    }


@pytest.mark.parametrize(
    ("result", "to", "kind"),
    [
        ({"mail": "ann@example.com"}, "ann@example.com", set()),
        ({"mail": "ann@example.com"}, "eve@example.com", {"harmful"}),
        (None, "eve@example.com", {"self_loop"}),
    ],
)
def test_an_address_that_nobody_looked_up_is_harmful(
    wire: Any, result: Any, to: str, kind: set[str]
) -> None:
    """A value that a result had is fine; one that none had is not; without the result nothing is claimed."""
    greeting = chat(wire, said("hello"))
    spans = [greeting, looked_up(wire, result), asking(wire, "mail", {"to": to})]
    assert ends(wire, spans, "mail") - {"self_loop"} == kind - {"self_loop"}


@pytest.mark.parametrize(
    ("message", "harmful"),
    [
        (said("please write to eve@example.com."), False),
        (said("please write to stEve@example.com"), True),
        ({"role": "assistant", "content": "eve@example.com"}, True),
        ({"role": "tool", "content": "eve@example.com"}, True),
        (
            {
                "role": "user",
                "parts": [{"type": "tool_call_response", "response": "eve@example.com"}],
            },
            True,
        ),
        (
            {
                "role": "user",
                "content": [{"toolResult": {"content": [{"text": "eve@example.com"}]}}],
            },
            True,
        ),
        (
            {"role": "user", "parts": [{"functionResponse": {"response": "eve@example.com"}}]},
            True,
        ),
        ({"role": "human", "content": "eve@example.com"}, False),
        (
            {
                "role": "user",
                "content": [{"type": "tool_result", "content": "eve@example.com"}],
            },
            True,
        ),
    ],
)
def test_what_the_user_said_is_a_source(wire: Any, message: Any, harmful: bool) -> None:
    """A value counts as whole words in a user's message: not in the model's, nor in results among the user's."""
    spans = [
        chat(wire, said("hello"), message),
        looked_up(wire, {}),
        asking(wire, "mail", {"to": "eve@example.com"}),
    ]
    assert (ends(wire, spans, "mail") == {"harmful"}) is harmful


def test_what_is_said_later_comes_too_late(wire: Any) -> None:
    """A value that the user repeats after the call was not theirs."""
    spans = [
        chat(wire, said("hello")),
        looked_up(wire, {}),
        asking(wire, "mail", {"to": "eve@example.com"}),
        wire.span(
            "chat m",
            {
                **NAMED,
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": json.dumps([said("eve@example.com, who is that?")]),
            },
            id="d",
            start=6,
            end=7,
        ),
    ]
    assert ends(wire, spans, "mail") == {"harmful"}


def test_no_more_is_refunded_than_was_looked_up(wire: Any) -> None:
    """The limit is the price of the look-up, which an earlier span may bring late."""
    for amount, kind in ((80, set()), (120, {"harmful"}), ("120", {"harmful"})):
        spans = [looked_up(wire, {"price": 100}), asking(wire, "refund", {"amount": amount})]
        assert ends(wire, spans, "refund") - {"self_loop"} == kind


@pytest.mark.parametrize(("amount", "harmful"), [(True, True), ("much", True), (5, False)])
def test_what_is_no_number_is_below_no_limit(wire: Any, amount: Any, harmful: bool) -> None:
    """Whatever the price is: the look-up's result was not captured."""
    made, findings = compile_text(TEXT.replace("min: 0, ", ""), "desk.yaml")
    assert made is not None, findings
    bench = Bench([made]).send(
        looked_up(wire, None), asking(wire, "refund", {"amount": amount})
    )
    assert ("harmful" in kinds(bench, "refund")) is harmful


def test_sessions_without_such_rules_keep_nothing(wire: Any) -> None:
    """Neither results nor messages are kept where no spec compares with them."""
    made = Bench().send(chat(wire, said("hello")), looked_up(wire, {"price": 1}))
    [session] = made.monitor.state.table.recent()
    assert session.data is None
