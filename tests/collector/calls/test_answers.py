"""Calls that one model answer asks for: one group, whether their spans overlap or not."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from collector.calls.call.answers import TOOLS_MAX, ModelAnswer, ModelAnswers
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.collector.conftest import BASE, SECOND, Orders

TASK = """
id: shop
match: {service.name: svc}
alphabet: {look: {tool: look_up}, check: {tool: check}, pay: {tool: pay}}
golden: [[look, check, pay]]
"""
STRICT = """
id: rules
match: {service.name: svc}
kind: policy
alphabet: {check: {tool: check}, pay: {tool: pay}}
constraints: [{precedence: [check, pay]}]
"""
IN = {"gen_ai.conversation.id": "s"}


def _spec(text: str) -> Spec:
    found, findings = compile_text(text, "spec.yaml")
    assert found is not None, findings
    return found


def _chat(wire: Any, *asked: tuple[str, str], id: str = "chat", **more: Any) -> Any:  # noqa: A002
    """A model's span whose answer asks for calls: (id, tool) each."""
    parts = [
        {"type": "tool_call", "id": call_id, "name": tool, "arguments": {}}
        for call_id, tool in asked
    ]
    output = wire.json([{"role": "assistant", "parts": parts}])
    attributes = {"gen_ai.operation.name": "chat", "gen_ai.output.messages": output, **IN}
    return wire.span(
        "chat", attributes, id=id, **{"parent": "run", "start": 2, "end": 3, **more}
    )


def _tool(wire: Any, tool: str, start: float, call_id: str, **more: Any) -> Any:
    given = {"id": tool, "parent": "run", **more}
    return wire.tool(tool, start=start, end=start + 1, call_id=call_id, attributes=IN, **given)


def _run(wire: Any, **more: Any) -> list[Any]:
    """`pay` before `check`, one after the other, and before both a look."""
    return [
        _tool(wire, "look_up", 1, "c0"),
        _chat(wire, ("c1", "pay"), ("c2", "check")),
        _tool(wire, "pay", 4, "c1", **more),
        _tool(wire, "check", 6, "c2", **more),
    ]


def _root(wire: Any) -> Any:
    """The agent's span above all, without which a call may be another conversation's."""
    return wire.span("run", IN, id="run", start=0, end=9)


def _harms(found: Any) -> dict[str, int]:
    found.monitor.tick(
        BASE + 3600 * SECOND
    )  # that a tool leaves spans is news for its sessions
    return {each["spec"]: each["harmful"] for each in found.monitor.judgements()}


def test_calls_of_one_answer_have_no_order(wire: Any, bench: Any) -> None:
    """A task takes the best order of them, in whatever order their spans arrive. A strict policy takes their times."""
    for order in permutations(_run(wire)):
        found = bench([_spec(TASK), _spec(STRICT)]).send(*order, _root(wire))
        assert _harms(found) == {"shop": 0, "rules": 1}
        assert [each.answer for each in found.judged()] == [b"", *_answers(wire)]


def _answers(wire: Any) -> list[bytes]:
    chat = _chat(wire).span_id
    return [chat, chat]


def test_a_model_above_the_calls_asked_for_them(wire: Any, bench: Any) -> None:
    """Calls without ids below a model's span that asks for several are those."""
    spans = _run(wire)
    spans[2:] = [
        wire.tool("pay", start=4, end=5, parent="chat", attributes=IN),
        wire.tool("check", start=6, end=7, parent="chat", attributes=IN),
    ]
    for order in permutations(spans):
        assert _harms(bench([_spec(TASK)]).send(*order)) == {"shop": 0}


@pytest.mark.parametrize(
    "chats",
    [
        (),
        ((("c1", "pay"),), (("c2", "check"),)),
        ((("other", "pay"), ("another", "check")),),
    ],
)
def test_calls_of_other_answers_keep_their_times(wire: Any, bench: Any, chats: Any) -> None:
    """Where no answer is known, where each was asked for alone, and where the ids are others'."""
    spans = _run(wire)
    del spans[1]
    spans += [_chat(wire, *asked, id=f"chat{n}") for n, asked in enumerate(chats)]
    for order in (spans, spans[::-1]):
        assert _harms(bench([_spec(TASK)]).send(*order)) == {"shop": 1}


def test_answers_can_be_left_out(wire: Any, bench: Any) -> None:
    """`sessions.group_by_answer: false` takes the times alone."""
    assert _harms(bench([_spec(TASK)], by_answer=False).send(*_run(wire))) == {"shop": 1}


# --- calls without ids ----------------------------------------------------------------------------


def _without_ids(wire: Any, *tools: str, **more: Any) -> list[Any]:
    """Calls one after the other, a second each, from 4 s on."""
    return [
        _tool(wire, tool, 4 + 2 * n, "", id=f"{tool}{n}", **more)
        for n, tool in enumerate(tools)
    ]


@pytest.mark.parametrize("call_ids", [("c1", "c2"), ("", "")])
def test_calls_without_ids_are_those_of_the_answer_before(
    wire: Any, bench: Any, call_ids: tuple[str, str], orders: Orders
) -> None:
    """The model's requests have ids, or not; in whatever order the spans arrive. A strict policy takes their times."""
    asked = zip(call_ids, ("pay", "check"), strict=True)
    spans = [
        _tool(wire, "look_up", 1, ""),
        _chat(wire, *asked),
        *_without_ids(wire, "pay", "check"),
    ]
    for order in orders(spans):
        found = bench([_spec(TASK), _spec(STRICT)]).send(*order, _root(wire))
        assert _harms(found) == {"shop": 0, "rules": 1}
        assert [each.answer for each in found.judged()] == [b"", *_answers(wire)]


@pytest.mark.parametrize("timeless", ["pay", "check"])
def test_calls_without_times_or_ids_are_those_of_the_answer_before_their_receipt(
    wire: Any, bench: Any, timeless: str
) -> None:
    """A later answer asks for other calls: whichever of the spans comes first."""
    never = -BASE / SECOND
    first, later = _chat(wire, ("c1", "pay"), ("c2", "check")), _chat(wire, ("c3", "look_up"))
    tools = [
        wire.tool(tool, id=tool, parent="run", attributes=IN, start=start, end=end)
        for tool, at in (("pay", 4), ("check", 6))
        for start, end in [(never, never) if tool == timeless else (at, at + 1)]
    ]
    for order in permutations([first, *tools]):
        found = bench().send(*order, now=7).send(later, _root(wire), now=9)
        assert {each.answer for each in found.judged()} == {first.span_id}


def test_requests_without_ids_are_met_by_calls_with_ids(wire: Any, bench: Any) -> None:
    """Some clients give the model's requests ids of their own."""
    spans = _run(wire)
    spans[1] = _chat(wire, ("", "pay"), ("", "check"))
    for order in (spans, spans[::-1]):
        assert _harms(bench([_spec(TASK)]).send(*order, _root(wire))) == {"shop": 0}


def test_the_latest_answer_that_names_a_tool_asked_for_its_call(
    wire: Any, bench: Any, orders: Orders
) -> None:
    """`pay` was asked for again, alone: it comes before the `check` of a third answer."""
    spans = [
        _chat(wire, ("c1", "pay"), ("c2", "look_up")),
        _chat(wire, ("c3", "pay"), id="chat2", start=3, end=3.5),
        _chat(wire, ("c4", "check"), id="chat3", start=5, end=5.5),
        *_without_ids(wire, "pay", "check"),
    ]
    for order in orders(spans):
        found = bench([_spec(STRICT.replace("kind", "concurrent: any_order\nkind"))])
        found.send(*order, _root(wire))
        assert _harms(found) == {"rules": 1}
        assert {each.answer for each in found.judged()} == {b""}


def test_an_answer_beside_a_call_goes_before_a_later_one_elsewhere(
    wire: Any, bench: Any, orders: Orders
) -> None:
    """An agent that works beside asks for the same tool meanwhile: it has a span of its own."""
    spans = [
        _tool(wire, "look_up", 1, ""),
        _chat(wire, ("c1", "pay"), ("c2", "check")),
        _chat(wire, ("c3", "pay"), id="other", parent="beside", start=3.1, end=3.2),
        *_without_ids(wire, "pay", "check"),
    ]
    for order in orders(spans):
        assert _harms(bench([_spec(TASK)]).send(*order, _root(wire))) == {"shop": 0}


def test_answers_of_long_traces_are_forgotten_by_halves() -> None:
    """What is kept of a trace has a bound, and the latest answers are found."""
    answers = ModelAnswers()
    for number in range(2 * TOOLS_MAX):
        answers.add(ModelAnswer(number, b"%08d" % number, b"", ("pay",), (), several=True))
    found = answers.before("pay", "", 2 * TOOLS_MAX, b"")
    assert found is not None
    assert found.start_ns == 2 * TOOLS_MAX - 1
    assert answers.before("pay", "", TOOLS_MAX // 2, b"") is None


# --- chains --------------------------------------------------------------------------------------


def _chain(wire: Any, **more: Any) -> list[Any]:
    """`check` is below `pay`, which it overlaps."""
    return [
        _tool(wire, "look_up", 1, "c0"),
        wire.tool("pay", id="pay", parent="run", start=4, end=6, call_id="c1", attributes=IN),
        wire.tool(
            "check",
            **{
                "parent": "pay",
                "start": 4.5,
                "end": 5,
                "call_id": "c2",
                "attributes": IN,
                **more,
            },
        ),
    ]


@pytest.mark.parametrize("call_id", ["c2", "c1"])
def test_a_call_below_one_that_it_overlaps_may_be_its_sibling(
    wire: Any, bench: Any, call_id: str
) -> None:
    """Both have ids that a model gave, or one: a task claims no harm of their order; a strict policy takes the parent first."""
    for order in permutations(_chain(wire, call_id=call_id)):
        assert _harms(bench([_spec(TASK), _spec(STRICT)]).send(*order, _root(wire))) == {
            "shop": 0,
            "rules": 1,
        }


def test_a_chain_of_three_is_one_group(wire: Any, bench: Any) -> None:
    """Each is below the one before."""
    first, pay, check = _chain(wire, id="check", end=5.8)
    last = wire.tool("look_up", parent="check", start=4.7, end=4.9, call_id="c3", attributes=IN)
    for order in permutations([pay, check, last]):
        found = bench([_spec(TASK)]).send(*order)
        assert _harms(found) == {"shop": 0}
        assert len({each.answer for each in found.judged()}) == 1
    assert first


@pytest.mark.parametrize(
    "other",
    [
        {"call_id": ""},
        {"scope": "another instrumentation"},
        {"start": 6, "end": 7},
    ],
)
def test_what_a_call_makes_itself_comes_after_it(wire: Any, bench: Any, other: Any) -> None:
    """Without an id of its own, from another instrumentation, or later: it is no sibling."""
    for order in permutations(_chain(wire, **other)):
        assert _harms(bench([_spec(TASK)]).send(*order)) == {"shop": 1}


def test_a_call_that_another_answer_asked_for_is_no_sibling(wire: Any, bench: Any) -> None:
    """A tool that is an agent has a model of its own, whose answer asks for the call below it."""
    inner = _chat(wire, ("c2", "check"), id="inner", parent="pay", start=4.1, end=4.4)
    for order in permutations([*_chain(wire), inner]):
        assert _harms(bench([_spec(TASK)]).send(*order)) == {"shop": 1}


def test_a_chained_call_of_the_same_answer_is_a_sibling(wire: Any, bench: Any) -> None:
    """It stands beside the call above it: a strict policy takes the worse order of the two, too."""
    chat = _chat(wire, ("c1", "pay"), ("c2", "check"))
    for order in permutations([*_chain(wire), chat]):
        found = bench([_spec(TASK), _spec(STRICT)]).send(*order, _root(wire))
        assert _harms(found) == {"shop": 0, "rules": 1}
        parents = {each.tool: each.parent_span_id for each in found.judged()}
        assert parents["check"] == parents["pay"] == parents["look_up"]
