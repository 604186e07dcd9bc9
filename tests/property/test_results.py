"""Laws of rules about results: what is claimed holds for every result that is not known, in any order of arrival."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from monitor import Answer, Evidence, Kind, Limits, Monitor, ToolCall, Verdict, tool_call
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

TEXT: Final = """
id: approvals
kind: policy
match: {service.name: svc}
alphabet:
  approved: {tool: ask, result: {status: approved}}
  refused: {tool: ask, result: {status: {one_of: [denied, late]}}}
  silent: {tool: ask}
  broke: {tool: ask, error: true}
  remove: {tool: remove}
constraints:
  - alternate_precedence: [approved, remove]
"""

RESULTS: Final = ({"status": "approved"}, {"status": "denied"}, None)
"""One for each reading of a call that did not fail."""

ATTRIBUTES: Final = {"service.name": "svc"}


def spec() -> Spec:
    made, findings = compile_text(TEXT, "approvals.yaml")
    assert made is not None, findings
    return made


SPEC: Final = spec()

Step = tuple[str, tuple[Any, ...], bool]
"""Tool, result and whether it failed."""

STEPS: Final = st.one_of(
    st.just(("remove", (), False)),
    st.tuples(
        st.just("ask"),
        st.sampled_from([(), *((each,) for each in RESULTS), ({"status": "late"},)]),
        st.just(False),
    ),
    st.just(("ask", (), True)),
    st.just(("ask", ("timed out",), True)),
)


def calls(steps: list[Step]) -> list[ToolCall]:
    return [
        tool_call(
            tool,
            {},
            session="s",
            start_ns=10 * place + 1,
            end_ns=10 * place + 5,
            error=failed,
            attributes=ATTRIBUTES,
            result=result,
        )
        for place, (tool, result, failed) in enumerate(steps)
    ]


def monitor() -> Monitor:
    return Monitor([SPEC], Limits(history_complete=True, fold=False))


def judged(made: list[ToolCall]) -> dict[bytes, Verdict]:
    """The last verdict on each call."""
    under = monitor()
    return {each.span_id: each for call in made for each in under.observe(call, 10_000)}


def harms(made: list[ToolCall]) -> int:
    return sum(each.kind is Kind.HARMFUL for each in judged(made).values())


def completions(steps: list[Step]) -> list[list[Step]]:
    """The runs that a run may have been, whose results were all known."""
    choices = [
        [(tool, (each,), failed) for each in RESULTS]
        if tool == "ask" and not result and not failed
        else [(tool, result, failed)]
        for tool, result, failed in steps
    ]
    return [list(each) for each in product(*choices)]


def plainly(steps: list[Step]) -> int:
    """The harms of a run with all results known, by the words of the documentation."""
    found, open_ = 0, False
    for tool, result, failed in steps:
        if tool == "remove":
            found += not open_
            open_ = False
        elif not failed and result == ({"status": "approved"},):
            open_ = True
    return found


@given(st.lists(STEPS, max_size=8))
def test_known_results_are_judged_as_a_plain_interpreter_does(steps: list[Step]) -> None:
    """With all results known, the harms are those of a loop of ten lines over the whole run."""
    known = completions(steps)[0]
    assert harms(calls(known)) == plainly(known)


@settings(deadline=None)
@given(st.lists(STEPS, max_size=7))
def test_harm_is_claimed_only_if_every_result_has_it(steps: list[Step]) -> None:
    """The number of harms is the least of all runs that the run may have been."""
    assert harms(calls(steps)) == min(map(plainly, completions(steps)))


@given(st.lists(STEPS, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_arrival_changes_nothing(steps: list[Step], chance: Any) -> None:
    """Shuffled, the same calls end in the same verdicts."""
    made = calls(steps)
    shuffled = chance.sample(made, len(made))

    def read(found: dict[bytes, Verdict]) -> Any:
        return {key: (each.kind, each.reason, each.symbol) for key, each in found.items()}

    assert read(judged(shuffled)) == read(judged(made))


@settings(deadline=None)
@given(st.lists(STEPS, max_size=6), st.sampled_from(["ask", "remove"]))
def test_the_answer_before_a_call_takes_every_result(steps: list[Step], tool: str) -> None:
    """Deny: harm rises in all runs that it may be. Allow: it rises in none."""
    under = monitor()
    for call in calls(steps):
        under.observe(call, 10_000)
    [call] = calls([*steps, (tool, (), False)])[-1:]
    decided = under.decide(call._replace(evidence=Evidence.DECIDED), 10_000)
    rises = {
        plainly([*run, last[0]]) > plainly(run)
        for run in completions(steps)
        for last in completions([(tool, (), False)])
    }
    least = min(map(plainly, completions(steps)))
    after = min(map(plainly, completions([*steps, (tool, (), False)])))
    assert (decided.answer is Answer.DENY) == (after > least)
    if decided.answer is Answer.ALLOW:
        assert rises == {False}


@given(st.lists(STEPS, max_size=7), st.integers(0, 7))
def test_a_session_that_moves_is_judged_as_one_that_stays(
    steps: list[Step], moment: int
) -> None:
    """Handed over between any two of its calls, a session ends in the same harms."""
    made, first, second = calls(steps), monitor(), monitor()
    for call in made[:moment]:
        first.observe(call, 10_000)
    if made[:moment]:
        moved = first.kept.handover("1").hand_over([made[0].session])
        second.kept.handover("1").take_over(moved, 10_000)
    for call in made[moment:]:
        second.observe(call, 10_000)
    harmful = [step["kind"] == "harmful" for each in second.find("s") for step in each["steps"]]
    assert sum(harmful) == harms(made)
