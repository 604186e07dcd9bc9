"""Which sessions are judged, and what is kept of what models say."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.archive.record import SessionName
from collector.config.settings.judges import JudgesSettings
from collector.online_judges.judge_counts import AGENTS_MAX, JudgeCounts
from collector.online_judges.judge_panel import BudgetPeriod, PanelAnswer
from collector.online_judges.judgement_store import JudgementStore
from collector.online_judges.session_choice import SessionChoice
from judges.models.budget import Estimate, TokenBudget
from judges.models.model import Usage
from monitor.engine import Monitor
from monitor.limits import Limits
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.reference.document import reference_text
from monitor.reference.learn import learn
from monitor.reference.runs import SeenRun, seen_call
from monitor.session.session import Session
from monitor.spec.compiler.compile import compile_text
from tests.judges.judgement_records import record

NAMES = st.text(max_size=20)


def shown(session: str = "s", *, begun: int = 5, judge: str = "TC", **more: Any) -> Any:
    return {
        "namespace": "",
        "session": session,
        "begun": begun,
        "judge": judge,
        "model": "m",
        **more,
    }


@given(NAMES, NAMES)
def test_a_share_is_nested(namespace: str, session: str) -> None:
    """A session is chosen by its name alone, so whoever is in a smaller share is in each larger one; a share of 1 is all."""
    key = SessionKey(namespace, session)

    def chosen(share: float) -> bool:
        given = JudgesSettings(harmful=False, diverged=False, share=share)
        return SessionChoice(given, Monitor()).may_be_judged(key)

    found = [chosen(each) for each in (0.0, 0.1, 0.4, 0.9, 1.0)]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (False, True)


def test_a_share_is_about_that_share() -> None:
    """Of 10,000 sessions a share of a tenth is between 900 and 1,100."""
    settings = JudgesSettings(harmful=False, diverged=False, share=0.1)
    choice = SessionChoice(settings, Monitor())
    chosen = sum(choice.may_be_judged(SessionKey("", f"s{n}")) for n in range(10_000))
    assert 900 < chosen < 1_100


USUAL = ("get_a", "book_b", "list_c")
MATCH = {"service.name": "desk"}
RULES = """
id: rules
kind: policy
match: {service.name: desk}
alphabet: {drop: {tool: drop_all}}
constraints: [{forbid: drop}]
"""
WHOLE_RUN = """
id: whole
kind: reference
match: {service.name: desk}
alphabet: {a: {tool: get_a}}
initial: s
accepting: [s]
transitions: {s: {a: s}}
"""


def ended(*tools: str) -> tuple[Monitor, Session]:
    """A session of these calls under a learnt reference, a policy, and a reference that is an automaton."""
    runs = [
        SeenRun(str(n), "", tuple(seen_call(tool, {}, failed=False) for tool in USUAL), n < 3)
        for n in range(3)
    ]
    failed = SeenRun("9", "", (seen_call("book_all", {}, failed=False),), success=False)
    texts = (reference_text(learn([*runs, failed]), "usual", match=MATCH), RULES, WHOLE_RUN)
    specs = [compile_text(text, "x.yaml")[0] for text in texts]
    monitor = Monitor(
        [spec for spec in specs if spec is not None], Limits(history_complete=True)
    )
    assert len(specs) == 3 == len(monitor.binder.judges)
    for number, tool in enumerate(tools):
        at = 1_000_000_000 + number
        call = ToolCall(
            SessionKey("", "s"), "", tool, {}, False, at, at, b"t" * 16,
            (number + 1).to_bytes(8, "big"), b"", "", Evidence.EXECUTED,
            attributes=MATCH,
        )  # fmt: skip
        monitor.observe(call, 2_000_000_000, quiet=True)
    monitor.end(SessionKey("", "s"), 3_000_000_000)
    [(session, _), *_] = monitor.reader.named("s")
    return monitor, session


@pytest.mark.parametrize(
    ("tools", "given", "reason"),
    [
        (USUAL, {}, ""),
        (("drop_all",), {}, "harmful"),
        (("drop_all",), {"harmful": False, "diverged": False}, ""),
        (("get_a", "book_other", "list_c"), {}, "diverged"),
        (("get_a", "list_c"), {}, "diverged"),
        (("get_a", "list_c"), {"diverged": False}, ""),
        (("book_all",), {"diverged": False, "risk": 0.5}, "risk"),
        (USUAL, {"risk": 0.9}, ""),
        (USUAL, {"risk": 0.9, "share": 1.0}, "share"),
    ],
)
def test_the_first_reason_that_applies_is_given(
    tools: tuple[str, ...], given: dict[str, Any], reason: str
) -> None:
    """Harm, another way than a learnt reference's, a risk and a share each choose a session, in this order."""
    monitor, session = ended(*tools)
    assert SessionChoice(JudgesSettings(**given), monitor).reason(session) == reason


def test_judgements_of_a_session_are_found_and_replaced() -> None:
    """A judgement takes the place of the one before by the same judge and model; those of another session of the id are apart."""
    store = JudgementStore()
    store.add(shown(score=1))
    store.add(shown(judge="LC"))
    store.add(shown(score=2))
    store.add(shown(begun=100, score=3))
    found = store.of(SessionName("", "s", 5), 20)
    assert [(each["judge"], each.get("score")) for each in found] == [("TC", 2), ("LC", None)]
    assert [each["score"] for each in store.of(SessionName("", "s", 100), 120)] == [3]
    # An earlier call has arrived since.
    assert len(store.of(SessionName("", "s", 3), 20)) == 2
    assert store.of(SessionName("other", "s", 5), 20) == []


def test_the_store_is_bounded() -> None:
    """Beyond its bytes, the sessions that were judged first go, and each judgement that goes is counted."""
    store = JudgementStore(bytes_max=1_000)
    for number in range(20):
        store.add(shown(f"s{number}", evidence="x" * 200))
    kept = [n for n in range(20) if store.of(SessionName("", f"s{n}", 5), 20)]
    assert kept == list(range(20 - len(kept), 20))
    assert 0 < len(kept) < 5
    assert store.forgotten == 20 - len(kept)


def test_scores_that_are_in_no_mean_are_in_no_histogram() -> None:
    """The histogram has scores of whole sessions without a contradiction, by judge and agent; agents beyond the bound are summed."""
    counts = JudgeCounts()
    for each in (
        record(),
        record("partial"),
        record(contradiction=True),
        record("failed", None),
    ):
        counts.add(PanelAnswer(each, 0.5), "rover")
    counts.add(PanelAnswer(record(disputed=False), 0.5, is_second=True), "rover")
    for number in range(AGENTS_MAX + 5):
        counts.add(PanelAnswer(record(), 0.0), f"agent-{number}")
    found = {each.name: dict(each.values) for each in counts.readings()}
    assert found["judge_score"]["TC", "rover"].count == 1  # type: ignore[union-attr]
    assert found["judge_score"]["TC", "__overflow__"].count == 6  # type: ignore[union-attr]
    assert len(found["judge_score"]) == AGENTS_MAX + 1
    outcomes = found["judge_requests"]
    assert outcomes["partial",] == outcomes["failed",] == 1
    assert outcomes["scored",] == 3 + AGENTS_MAX + 5
    assert found["judge_cost"][()] == 2.5
    assert found["judge_second_scores"] == {("true",): 0, ("false",): 1}


def test_a_budget_is_whole_again_in_the_next_period() -> None:
    """What was spent in one period takes no room in the next; within a period it does."""
    now = 0
    budget = TokenBudget(100)
    period = BudgetPeriod(budget, 10.0, lambda: now)
    estimate = Estimate(Usage(60, 20), Usage(60, 20))

    async def fits() -> bool:
        period.look()
        return await budget.reserve(estimate)

    async def work() -> list[bool]:
        nonlocal now
        found = [await fits()]
        await budget.settle(estimate, Usage(60, 20))
        for seconds in (9, 10):
            now = seconds * 10**9
            found.append(await fits())
        return found

    assert asyncio.run(work()) == [True, False, True]
