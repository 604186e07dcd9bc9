"""The orders of groups beside a question take no more than its budget, and what is left out is told."""

from __future__ import annotations

from random import Random
from typing import Any, Final

import pytest

from monitor import Limits, Monitor, SessionKey, ToolCall
from monitor.decision import Answer
from monitor.limits import SECOND
from monitor.records import Evidence
from monitor.session.judge.judge import Judge
from monitor.session.judge.run import AutomatonRun
from monitor.session.overlap import chain_merges
from monitor.session.overlap.chains import spans_of
from monitor.session.overlap.order import order
from monitor.session.overlap.question_budget import EARLIER_STEPS_MAX, QuestionBudget
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

START: Final = 1_700_000_000 * SECOND
TOOLS: Final = 20
GROUP: Final = 64
GROUPS: Final = 8
BEHIND: Final = 2
"""Groups that were observed: two are more than can be ordered."""
ONE_SEARCH: Final = (
    2 * chain_merges.MERGE_STEPS_MAX + GROUP * TOOLS + GROUP * chain_merges.ENDS_MAX
)
"""What the search of one group may take: its steps, overdrawn by as much and by a layer, and a walk to each end."""


def chain(concurrent: str = "any_order") -> Spec:
    """Each tool needs the one before it."""
    symbols = ", ".join(f"t{number}: {{tool: t{number}}}" for number in range(TOOLS))
    rules = ", ".join(f"{{precedence: [t{n}, t{n + 1}]}}" for n in range(TOOLS - 1))
    spec, problems = compile_text(
        f"id: chain\nkind: policy\nenforce: block\nconcurrent: {concurrent}\n"
        f"match: {{service.name: chain}}\nalphabet: {{{symbols}}}\nconstraints: [{rules}]",
        "chain.yaml",
    )
    assert spec is not None, problems
    return spec


def group(chance: Random) -> tuple[int, ...]:
    return tuple([chance.randrange(TOOLS) for _ in range(GROUP)])


@pytest.mark.parametrize("concurrent", ["any_order", "strict"])
def test_the_orders_of_many_groups_take_a_bounded_number_of_steps(concurrent: str) -> None:
    """However many groups a question has beside it, their searches overdraw its budget by one search at most."""
    judge, budget, chance = Judge(chain(concurrent)), QuestionBudget(), Random(1)
    times = tuple([(0, 1)] * GROUP)
    position, whole = judge.stepper.start(), []
    for _ in range(GROUPS * 4):
        found = judge.order(position, group(chance), times, budget=budget)
        assert sorted(found.places) == list(range(GROUP))
        whole.append(found.listed)
        position = found.every[0].position
    assert -ONE_SEARCH <= budget.group_steps <= 0
    assert budget.group_steps < EARLIER_STEPS_MAX
    assert not whole[-1]


def test_without_steps_the_start_order_is_taken_and_says_that_others_are_left_out() -> None:
    """What no budget is left for is one possible order, which is neither whole nor cached."""
    judge, tokens = Judge(chain()), (1, 0)
    times = ((0, 2), (1, 2))
    spent = judge.order(
        judge.stepper.start(), tokens, times, budget=QuestionBudget(group_steps=0)
    )
    assert (spent.places, spent.whole, spent.listed) == ((0, 1), False, False)
    assert [each.harms for each in spent.every] == [1]
    assert spent.end == spent.every[0].position
    found = judge.order(judge.stepper.start(), tokens, times)
    assert (found.places, found.whole, found.listed) == ((1, 0), True, True)
    assert (
        judge.order(judge.stepper.start(), tokens, times, budget=QuestionBudget(group_steps=0))
        == found
    )


def test_a_search_is_charged_and_gives_what_it_gives_without_a_budget() -> None:
    """A budget that suffices changes no order, and pays for it."""
    judge, budget, chance = Judge(chain()), QuestionBudget(), Random(2)
    for _ in range(20):
        tokens = group(chance)[:7]
        spans, start = spans_of([(0, 1)] * len(tokens)), judge.stepper.start()
        before, budget.group_steps = EARLIER_STEPS_MAX, EARLIER_STEPS_MAX
        assert order(judge.stepper, start, tokens, spans, strict=False, budget=budget) == order(
            judge.stepper, start, tokens, spans, strict=False
        )
        assert budget.group_steps < before


def call(number: int, tool: int, at: int) -> ToolCall:
    """A call in flight."""
    return ToolCall(
        session=SessionKey("", "s"),
        agent="",
        tool=f"t{tool}",
        arguments={},
        error=False,
        start_ns=at,
        end_ns=at,
        trace_id=b"t" * 16,
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.DECIDED,
        attributes={"service.name": "chain"},
    )


def test_a_question_beside_more_groups_than_can_be_ordered_is_answered_by_what_is_certain() -> (
    None
):
    """No group has `t3`: `t4` is denied, `t0` is allowed, and `t1` depends on the order of calls in flight."""
    monitor, chance = Monitor([chain()], Limits(history_complete=True)), Random(3)
    made = [tool for tool in range(TOOLS) if tool != 3]
    beside = [
        call(1 + part * GROUP + place, chance.choice(made), START + part * SECOND)
        for part in range(GROUPS)
        for place in range(GROUP)
    ]
    now = START + GROUPS * SECOND
    asked = [call(10_000 + tool, tool, now) for tool in (4, 0, 1)]
    found = monitor.decide_together(asked, now, beside=beside)
    assert [each.answer for each in found] == [Answer.DENY, Answer.ALLOW, Answer.UNKNOWN]
    assert found[2].specs[0].missing == ("calls_in_flight", "order")


@pytest.fixture(scope="module")
def behind() -> Monitor:
    """Groups of calls that have ended. A question that is not committed changes nothing of them."""
    monitor, chance = Monitor([chain()], Limits(history_complete=True)), Random(4)
    for part in range(BEHIND):
        begin = START + part * SECOND
        for place in range(GROUP):
            one = call(1 + part * GROUP + place, chance.randrange(TOOLS), begin + place)
            ended = one._replace(evidence=Evidence.EXECUTED, end_ns=begin + SECOND // 2)
            monitor.observe(ended, begin + SECOND // 2)
    return monitor


@pytest.mark.parametrize("together", [False, True])
def test_a_question_behind_more_groups_than_can_be_ordered_misses_its_budget(
    behind: Monitor, together: bool
) -> None:
    """Nothing of the earlier calls is unknown but their orders: asked alone, or with others."""
    now = START + BEHIND * SECOND
    asked = [call(10_000 + tool, tool, now) for tool in (1, 0)]
    if together:
        unknown, allowed = behind.decide_together(asked, now)
    else:
        unknown, allowed = [behind.decide(each, now) for each in asked]
    assert (unknown.answer, allowed.answer) == (Answer.UNKNOWN, Answer.ALLOW)
    assert unknown.specs[0].missing == ("budget",)


PARTS: Final = 8


def apart() -> Spec:
    """Chains of six tools that do not see each other: their orders are searched apart, and may end anywhere."""
    tools = [f"t{part}_{n}" for part in range(PARTS) for n in range(6)]
    symbols = ", ".join(f"{each}: {{tool: {each}}}" for each in tools)
    rules = ", ".join(
        f"{{exactly: [t{part}_{n}, 1]}}, {{precedence: [t{part}_{n}, t{part}_{n + 1}]}}"
        for part in range(PARTS)
        for n in range(5)
    )
    spec, problems = compile_text(
        f"id: apart\nkind: policy\nalphabet: {{{symbols}}}\nconstraints: [{rules}]",
        "apart.yaml",
    )
    assert spec is not None, problems
    return spec


def test_a_group_of_many_parts_in_many_ways_takes_a_bounded_number_of_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They share the steps: a late outcome that has such a group judged again holds nobody up for a second."""
    taken: list[int] = []
    step = chain_merges._step  # noqa: SLF001 - what the bound counts is a step of this search alone

    def counted(*given: Any, **options: Any) -> int:
        taken.append(step(*given, **options))
        return taken[-1]

    monkeypatch.setattr(chain_merges, "_step", counted)
    judge, chance = Judge(apart()), Random(3)
    run, ways, most = AutomatonRun(judge.stepper.start(), judge.tally()), 0, 0
    for number in range(12):
        taken.clear()
        ways = max(ways, len(run.ways or ()))
        tokens = tuple([chance.randrange(6 * PARTS) for _ in range(2 * GROUP)])
        plan = run.plan(judge, GROUP * number, tokens, ((0, 1),) * len(tokens))
        most = max(most, sum(taken))
        run.resume(judge, plan)
    assert ways > 4
    assert most <= 4 * chain_merges.SEARCH_STEPS_MAX
