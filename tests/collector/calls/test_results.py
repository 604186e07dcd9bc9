"""What tools returned, from spans and from clients of decisions to verdicts."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest

from monitor import tool_call
from monitor.partial import CutObject
from monitor.plain_records.kinds import Kinds, kept
from monitor.plain_records.read import finished
from monitor.plain_records.read import read as read_records
from monitor.plain_records.write import write
from monitor.session.session_kinds import SESSION_KINDS
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.collector.calls.test_deciding import NAMED, Client, ns
from tests.collector.conftest import Bench

TEXT = """
id: shop
kind: policy
enforce: block
match: {service.name: svc}
alphabet:
  approved: {tool: ask, result: {status: approved}}
  refused: {tool: ask}
  broke: {tool: ask, error: true}
  remove: {tool: remove}
constraints: [{precedence: [approved, remove]}]
"""

RESULT = "gen_ai.tool.call.result"


def spec() -> Spec:
    made, findings = compile_text(TEXT, "shop.yaml")
    assert made is not None, findings
    return made


def asked(wire: Any, result: Any, **more: Any) -> Any:
    told = {} if result is None else {RESULT: json.dumps(result)}
    return wire.tool("ask", id="a", start=0, end=1, attributes={**NAMED, **told}, **more)


def removed(wire: Any) -> Any:
    return wire.tool("remove", id="r", start=2, end=3, attributes=NAMED)


def read(bench: Bench) -> list[tuple[str | None, str]]:
    return [(each["symbol"], each["kind"]) for each in bench.steps()]


@pytest.mark.parametrize(
    ("result", "status", "symbol", "kind"),
    [
        ({"status": "approved"}, 1, "approved", "self_loop"),
        ({"status": "denied"}, 1, "refused", "harmful"),
        ({"status": "approved"}, 2, "broke", "harmful"),
    ],
)
def test_the_answer_decides_in_any_order_of_arrival(
    wire: Any, result: Any, status: int, symbol: str, kind: str
) -> None:
    """Removing is right after an approval alone: not after a refusal, nor after a call that failed."""
    for order in permutations([asked(wire, result, status=status), removed(wire)]):
        (first, _), (second, found) = read(Bench([spec()]).send(*order))
        assert (first, second, found == "harmful") == (symbol, "remove", kind == "harmful")


def test_a_result_that_is_not_captured_may_be_any(wire: Any) -> None:
    """Nothing is claimed: it may have been approved."""
    made = Bench([spec()]).send(asked(wire, None), removed(wire))
    assert read(made)[1][1] != "harmful"


def test_a_result_that_comes_late_revises(wire: Any) -> None:
    """A call without its result, and the span below it that has it: whatever comes first, the verdict is the same."""
    below = {**NAMED, RESULT: json.dumps({"status": "denied"})}
    inner = wire.tool("ask", id="i", parent="a", start=0.1, end=0.9, attributes=below)
    for order in permutations([asked(wire, None), inner, removed(wire)]):
        made = read(Bench([spec()]).send(*order))
        assert made == [("refused", "self_loop"), ("remove", "harmful")]


def test_results_are_kept_only_as_far_as_specs_ask(wire: Any) -> None:
    """Of a large result the asked member stays; of other tools, and without such specs, nothing does."""
    result = {"status": "approved", "text": "x" * 10_000}
    other = wire.tool("other", id="o", start=5, end=6, attributes={**NAMED, RESULT: "{}"})
    made = Bench([spec()]).send(asked(wire, result), other)
    kept = {call.tool: call.result for call in made.judged()}
    assert kept == {"ask": ({"status": "approved"},), "other": ()}
    assert [call.result for call in Bench().send(asked(wire, result)).judged()] == [()]


class Shop(Client):
    """A client of decisions of this shop."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench([spec()])
        self.pipeline = self.bench.pipeline

    def told(self, result: tuple[Any, ...], outcome: Any = "ran") -> None:
        """Asks for an approval, which ends like this."""
        [made] = self.ask("ask", at=1, call_id="c1")
        name = self.pipeline.decided.name(made.number)
        self.pipeline.settle(name, outcome, None, ns(2), result)


@pytest.mark.parametrize(
    ("result", "outcome", "answer"),
    [
        (({"status": "approved"},), "ran", "allow"),
        (({"status": "denied"},), "ran", "deny"),
        ((), "ran", "unknown"),
        (({"status": "approved"},), "failed", "deny"),
    ],
)
def test_an_outcome_may_carry_the_result(result: Any, outcome: Any, answer: str) -> None:
    """The next decision depends on what the client says was returned; without it, on every result."""
    shop = Shop()
    shop.told(result, outcome)
    assert shop.one("remove", at=3) == answer


def test_while_a_call_is_on_its_way_any_result_is_possible() -> None:
    """The answer before a call takes every possible result of those that have not ended."""
    shop = Shop()
    shop.ask("ask", at=1)
    assert shop.one("remove", at=3) == "unknown"


@pytest.mark.parametrize(
    ("result", "expected"), [(None, "approved"), ({"status": "denied"}, "refused")]
)
def test_a_span_counts_before_what_a_client_says(wire: Any, result: Any, expected: str) -> None:
    """The result of the span wins; a span without one leaves the client's."""
    shop = Shop()
    shop.told(({"status": "approved"},))
    shop.bench.send(asked(wire, result, call_id="c1"), now=10)
    [step] = shop.bench.steps()
    assert step["symbol"] == expected


RESULTS: Any = [
    (),
    ({"status": "approved"},),
    (None,),
    (CutObject({"by": CutObject({"id": 7})}),),
]


@pytest.mark.parametrize("result", RESULTS)
def test_a_snapshot_keeps_results_of_calls(result: Any) -> None:
    """What is known of a result, and what is not, is the same in the next process."""
    call = tool_call("ask", {}, session="s", start_ns=1, attributes={}, result=result)
    kinds = Kinds((*SESSION_KINDS, kept("holder", Holder, "call")))
    written = list(write({"holder": Holder(call)}, kinds))
    after = Holder(None)
    blocks = lambda kind: (each.payload for each in written if each.kind == kind)  # noqa: E731
    finished(read_records(blocks, {"holder": after}, kinds))
    assert after.call == call
    assert [type(each) for each in after.call.result] == [type(each) for each in result]


class Holder:
    """What is kept of a process here."""

    def __init__(self, call: Any) -> None:
        self.call = call
