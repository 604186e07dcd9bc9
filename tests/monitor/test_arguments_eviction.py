"""Arguments that are kept to be shown: weighed when they come, and given up before anything else is."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.engine import Monitor
from monitor.limits import SECOND, Limits
from monitor.plain_calls import tool_call
from monitor.records import SessionKey
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

NOW = 1_700_000_000 * SECOND
TEXT = "x" * 10_000


@cache
def spec(name: str) -> Spec:
    text = f"id: {name}\nkind: policy\nalphabet: {{t: {{tool: t}}}}\nconstraints: [{{at_most: [t, 99]}}]\n"
    found, findings = compile_text(text, "made.yaml")
    assert found is not None, findings
    return found


def monitor(bytes_max: int, specs: int = 1) -> Monitor:
    limits = Limits(history_complete=True, keep_arguments=True, sessions_bytes_max=bytes_max)
    return Monitor([spec(f"p{n}") for n in range(specs)], limits)


def call(
    monitor: Monitor, number: int, session: str, namespace: str = "", text: str = TEXT
) -> None:
    at = NOW + number * SECOND // 1000
    made = tool_call(
        "t", {"text": text}, session=SessionKey(namespace, session), start_ns=at, agent="a"
    )
    monitor.observe(made, at)


def shown(monitor: Monitor, session: str, namespace: str = "") -> list[bool]:
    """Whether the arguments of each call of a session are shown."""
    [found] = monitor.find(session, namespace)
    return [step["arguments"] is not None for step in found["steps"]]


@pytest.mark.parametrize("specs", [1, 3])
def test_the_bound_holds_with_each_call(specs: int) -> None:
    """Nothing waits for verdicts to be final; no session goes, and all calls stay judged."""
    judge = monitor(700_000, specs)
    for number in range(200):
        call(judge, number, f"s{number}")
        assert judge.kept.memory()["sessions"] <= 700_000
    assert judge.sessions == 200
    assert judge.counters.ended["evicted"] == 0
    kept = sum(judge_shown for n in range(200) for judge_shown in _first(judge, f"s{n}"))
    assert 0 < kept < 60
    assert judge.counters.arguments_given_up == 200 - kept


def _first(judge: Monitor, session: str) -> list[bool]:
    found = judge.find(session)
    assert len({len(each["steps"]) for each in found}) == 1
    # Each judgement has dropped the same ones.
    alike = {tuple(step["arguments"] is None for step in each["steps"]) for each in found}
    assert len(alike) == 1
    return [not gone for gone in alike.pop()]


def test_the_oldest_go_first() -> None:
    """Those of the session that has not called for longest, and of one session those of its earliest calls."""
    judge = monitor(150_000)
    for number in range(20):
        call(judge, number, "idle" if number < 4 else "busy")
    assert shown(judge, "idle") == [False] * 4
    busy = shown(judge, "busy")
    assert busy == sorted(busy)
    assert busy[-1]
    assert not busy[0]


def test_what_does_not_fit_by_itself_is_judged_and_not_shown() -> None:
    """One call over the bound costs its own arguments; the next call is shown again."""
    judge = monitor(100_000)
    call(judge, 1, "large", text="x" * 200_000)
    assert shown(judge, "large") == [False]
    call(judge, 2, "small")
    assert shown(judge, "small") == [True]
    assert (judge.sessions, judge.counters.arguments_given_up) == (2, 1)


def test_a_small_tenant_does_not_pay_for_a_large_one() -> None:
    """Who holds more than a fair share gives up its own."""
    judge = monitor(200_000)
    call(judge, 0, "quiet", "small")
    for number in range(1, 60):
        call(judge, number, f"loud{number}", "large")
    assert shown(judge, "quiet", "small") == [True]


def test_sessions_that_leave_and_come_back_are_still_counted() -> None:
    """Arguments of a session that ended and goes on, or that got another name, are given up as any."""
    judge = monitor(120_000)
    for number in range(4):
        call(judge, number, "one")
    judge.end(SessionKey("", "one"), NOW + SECOND)
    call(judge, 2_000, "one")
    judge.rekey(SessionKey("", "one"), SessionKey("", "other"), "trace", NOW + 3 * SECOND)
    for number in range(3_000, 3_040):
        call(judge, number, f"s{number}")
    assert shown(judge, "other") == [False] * 5
    assert judge.kept.memory()["sessions"] <= 120_000


def test_half_goes_where_memory_is_scarce() -> None:
    """Each time the process asks, until none is left; nothing else is touched."""
    judge = monitor(10_000_000)
    for number in range(64):
        call(judge, number, f"s{number}")
    before = judge.kept.memory()["sessions"]
    assert judge.kept.relieve() >= 32
    assert judge.kept.memory()["sessions"] <= before // 2
    while judge.kept.relieve():
        pass
    assert judge.counters.arguments_given_up == 64
    assert judge.sessions == 64


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 30_000), st.sampled_from(["", "a", "b"])),
        max_size=60,
    ),
    st.integers(100_000, 300_000),
)
def test_verdicts_do_not_depend_on_what_is_shown(calls: Any, bytes_max: int) -> None:
    """Whatever is given up, counters and verdicts are those of a monitor that shows nothing."""
    judge = monitor(bytes_max)
    blind = Monitor([spec("p0")], Limits(history_complete=True))
    for number, (session, size, namespace) in enumerate(calls):
        for each in (judge, blind):
            call(each, number, f"s{session}", namespace, "x" * size)
        assert judge.kept.memory()["sessions"] <= bytes_max
    for session, _, namespace in calls:
        [one], [other] = (each.find(f"s{session}", namespace) for each in (judge, blind))
        for found in (one, other):
            for step in found["steps"]:
                del step["arguments"]
        assert one == other
