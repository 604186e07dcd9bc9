"""The two levels of unexpected writes, live, at learning and before the call."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.decision import Answer
from monitor.engine import Monitor
from monitor.limits import Limits
from monitor.records import Evidence, ReferenceAlarm, ReferenceReason, SessionKey, ToolCall
from monitor.reference.document import reference_text
from monitor.reference.learn import learn
from monitor.reference.runs import SeenRun, seen_call
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

KEY = SessionKey("", "s")
SECOND = 1_000_000_000
LIMITS = replace(Limits(), history_complete=True)
Made = tuple[str, dict[str, Any] | None]


def paid(to: str, amount: float) -> Made:
    return "pay", {"to": to, "amount": amount}


def seen(number: int, made: list[Made], *, success: bool | None = None) -> SeenRun:
    calls = tuple(seen_call(*each, failed=False) for each in made)
    return SeenRun(str(number), "", calls, success)


def compiled(runs: list[SeenRun], **keys: str) -> Spec:
    """The reference of the runs, through its document."""
    text = reference_text(learn(runs), "r")
    text += "".join(f"{key}: {value}\n" for key, value in keys.items())
    spec, findings = compile_text(text, "r.yaml")
    assert spec is not None, findings
    return spec


def agreeing(number: int = 5, **keys: str) -> Spec:
    """All runs pay the landlord, each another amount."""
    return compiled([seen(n, [paid("landlord", n)]) for n in range(number)], **keys)


def call(number: int, made: Made, *, failed: bool = False, evidence: Any = None) -> ToolCall:
    start = SECOND + 10 * number
    return ToolCall(
        KEY, "", *made, failed, start, start + 5, b"t" * 16,
        (number + 1).to_bytes(8, "big"), b"", "", evidence or Evidence.EXECUTED,
        attributes={"offrails.spec": "r"},
    )  # fmt: skip


def told(spec: Spec, *made: Made, failed: bool = False) -> dict[str, str]:
    """The levels of the new writes of a session, as alarms are told and as the judgement shows them."""
    monitor = Monitor([spec], LIMITS)
    events: list[ReferenceAlarm] = []
    monitor.on_alarm(events.append)
    for number, each in enumerate(made):
        monitor.observe(call(number, each, failed=failed), 2 * SECOND, quiet=True)
    (found,) = monitor.find("s")
    new = ("new_write_tool", "new_arguments")
    shown = {each["alarm"]: each["level"] for each in found["alarms"] if each["alarm"] in new}
    live: dict[str, str] = {}
    for event in events:
        if event.alarm in new and live.get(event.alarm) != "page":
            live[event.alarm] = event.level
    assert live == shown
    return shown


@pytest.mark.parametrize(
    ("made", "levels"),
    [
        (paid("landlord", 99), {"new_arguments": "hint"}),
        (paid("mallory", 3), {"new_arguments": "page"}),
        (("pay", {"amount": 3}), {"new_arguments": "page"}),
        (paid("landlord", 3), {}),
        (("pay", None), {}),
        (("send_email", {}), {"new_write_tool": "page"}),
        (("get_email", {}), {}),
    ],
)
def test_new_arguments_page_where_usual_runs_agree(made: Made, levels: dict[str, str]) -> None:
    """Another value pages where five usual runs had one value, and is a hint where they had several."""
    assert told(agreeing(), made) == levels


@pytest.mark.parametrize(
    ("made", "level"),
    [
        ({"to": "landlord", "for": "cat", "amount": 3}, "hint"),
        ({"to": "mallory", "for": "rent", "amount": 3}, "hint"),
        ({"to": "mallory", "for": "cat", "amount": 3}, "page"),
        ({"to": "mallory", "for": "cat", "note": "to my landlord", "amount": 3}, "page"),
        ({"amount": 3}, "page"),
    ],
)
def test_one_other_value_of_several_is_a_hint(made: dict[str, Any], level: str) -> None:
    """Of several arguments on which usual runs agree all must be otherwise: one alone is a slip of the agent."""
    usual = [
        ("pay", {"to": "landlord", "for": "rent", "note": "to my landlord", "amount": n})
        for n in range(5)
    ]
    spec = compiled([seen(n, [each]) for n, each in enumerate(usual)])
    assert told(spec, ("pay", made)) == {"new_arguments": level}

    failed = seen(9, [("pay", made)], success=False)
    worth = learn([*(seen(n, [each], success=True) for n, each in enumerate(usual)), failed])
    assert worth.alarms["agreed_arguments"].raised == (level == "page")


def test_a_whole_number_is_the_same_with_a_point() -> None:
    """Agents write 3 and 3.0 for one amount: neither is another value than the other."""
    usual = [seen(n, [paid(f"shop {n}", 1200.0 if n % 2 else 1200)]) for n in range(6)]
    spec = compiled(usual)
    assert spec.learnt is not None
    assert set(spec.learnt.agreed_arguments["pay"]) == {"amount"}
    assert told(spec, paid("other", 1200)) == {"new_arguments": "hint"}
    assert told(spec, paid("other", 1200.0)) == {"new_arguments": "hint"}
    assert told(spec, paid("other", 1200.5)) == {"new_arguments": "page"}


def test_few_runs_agree_on_nothing() -> None:
    """Four runs with one value may be chance: another value is a hint."""
    assert told(agreeing(4), paid("mallory", 3)) == {"new_arguments": "hint"}


def test_a_tool_of_which_a_person_took_all_agreed_arguments_away_has_none() -> None:
    """`agreed_arguments: {pay: {}}` agrees on nothing: another value is a hint."""
    text = reference_text(learn([seen(n, [paid("landlord", n)]) for n in range(5)]), "r")
    edited, count = re.subn(r'(\nagreed_arguments:.*\n  "pay":) \{.*\}', r"\1 {}", text)
    assert count == 1
    spec, findings = compile_text(edited, "r.yaml")
    assert spec is not None, findings
    assert told(spec, paid("mallory", 3)) == {"new_arguments": "hint"}


@pytest.mark.parametrize("made", [paid("mallory", 3), ("send_email", {})])
def test_a_failed_write_is_a_hint(made: Made) -> None:
    """A write that failed changed nothing: it pages nobody."""
    assert set(told(agreeing(), made, failed=True).values()) == {"hint"}


def test_a_write_that_turns_out_to_have_failed_is_taken_back() -> None:
    """A page is withdrawn, and the hint told, when a fuller span says that the call failed."""
    monitor = Monitor([agreeing()], LIMITS)
    events: list[ReferenceAlarm] = []
    monitor.on_alarm(events.append)
    made = paid("mallory", 3)
    monitor.observe(call(0, made), 2 * SECOND, quiet=True)
    events.clear()
    monitor.corrections.amend(call(0, made), call(0, made, failed=True), 2 * SECOND)

    writes = [each for each in events if each.alarm == "new_arguments"]
    assert [(each.level, each.withdrawn) for each in writes] == [
        ("page", True),
        ("hint", False),
    ]


def test_an_alarm_that_measures_badly_is_a_hint() -> None:
    """An alarm with a precision below `page_precision` on the runs it was measured on pages nobody."""
    good = [seen(n, [paid("landlord", n), (f"send_{n}", {})], success=True) for n in range(5)]
    bad = [seen(9, [("send_9", {})], success=False)]
    assert told(compiled(good + bad), ("send_all", {})) == {"new_write_tool": "hint"}
    spec = compiled(good + bad, page_precision="0.1")
    assert spec.learnt is not None
    assert spec.learnt.alarms["new_write_tool"].precision == pytest.approx(1 / 6, abs=1e-6)
    assert told(spec, ("send_all", {})) == {"new_write_tool": "page"}


def test_pages_are_counted_apart() -> None:
    """The counter of writes that page leaves hints out."""
    monitor = Monitor([agreeing()], LIMITS)
    for number, made in enumerate(
        [paid("landlord", 99), paid("mallory", 3), ("send_email", {})]
    ):
        monitor.observe(call(number, made), 2 * SECOND, quiet=True)
    monitor.tick(30 * SECOND)
    (pair,) = [each for each in monitor.totals.pairs.values() if each.spec == "r"]
    assert pair.drift is not None
    assert (pair.drift.unexpected_writes, pair.drift.paging_writes) == (3, 2)


def test_each_run_is_measured_by_the_others() -> None:
    """One of six good runs that pays somebody else is one false alarm of the agreed argument."""
    good = [seen(n, [paid("landlord", n)], success=True) for n in range(5)]
    odd = seen(7, [paid("sister", 7)], success=True)
    bad = seen(8, [paid("mallory", 8)], success=False)

    assert learn([*good, bad]).alarms["agreed_arguments"].precision == 1
    worth = learn([*good, odd, bad]).alarms["agreed_arguments"]
    # The five agree only for the odd one, which does not count itself.
    assert (worth.raised, worth.precision) == (1, 0)
    assert learn([*good, odd]).agreed_arguments == {}


# --- before the call ----------------------------------------------------------------------------


def decided(spec: Spec, made: Made, *before: Made) -> Any:
    monitor = Monitor([spec], LIMITS)
    for number, each in enumerate(before):
        monitor.observe(call(number, each), 2 * SECOND, quiet=True)
    asked = call(len(before), made, evidence=Evidence.DECIDED)
    decision = monitor.decide(asked, 2 * SECOND)
    return decision, monitor.explain(made[0], decision), monitor.matches(asked)


@pytest.mark.parametrize("before", [(), (paid("landlord", 1),)])
@pytest.mark.parametrize(
    ("made", "answer"),
    [
        (paid("landlord", 99), Answer.ALLOW),
        (paid("mallory", 3), Answer.DENY),
        (("pay", None), Answer.UNKNOWN),
        (("send_email", {}), Answer.DENY),
        (("get_email", {}), Answer.ALLOW),
    ],
)
def test_a_write_that_would_page_is_denied(
    made: Made, answer: Answer, before: tuple[Made, ...]
) -> None:
    """A reference that blocks denies what would page, wherever the session stands; one that advises says so."""
    decision, words, matched = decided(agreeing(enforce="block"), made, *before)
    assert (decision.answer, decision.enforced, matched) == (answer, answer, True)
    (found,) = decision.specs
    wrong = answer is not Answer.ALLOW
    assert found.reason is (ReferenceReason.UNEXPECTED_WRITE if wrong else None)
    assert bool(words) is wrong

    advised, words, _ = decided(agreeing(enforce="advise"), made, *before)
    assert advised.answer is answer
    assert advised.would_deny is (answer is Answer.DENY)
    assert advised.enforced is not Answer.DENY


def test_the_words_name_tool_and_reference() -> None:
    """A model reads what was unusual, and by which reference."""
    _, words, _ = decided(agreeing(enforce="block"), ("send_email", {}))
    assert words == "refused: `send_email` writes what no usual run wrote (r)."


def test_a_reference_answers_nothing_unless_it_is_asked_to() -> None:
    """By default references are no part of an answer, as before."""
    decision, words, matched = decided(agreeing(), ("send_email", {}))
    assert (decision.answer, decision.specs, words, matched) == (Answer.ALLOW, (), "", False)


@given(st.lists(st.sampled_from([paid("landlord", 1), paid("mallory", 2), paid("landlord", 9), ("send_email", {}), ("get_email", {})]), max_size=6), st.randoms(use_true_random=False))  # fmt: skip
def test_the_answer_is_the_page_to_come(made: list[Made], chance: Any) -> None:
    """Denied is exactly what pages once it is made, in any order of arrival of the calls before."""
    spec = agreeing(enforce="block")
    for each in made:
        decision, _, _ = decided(spec, each, *chance.sample(made, len(made)))
        assert (decision.answer is Answer.DENY) == ("page" in told(spec, each).values())
