"""How unlikely a session's path is, as the judgement shows it: in any order, folded, joined, and where it is not told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from monitor.engine import Monitor
from monitor.limits import Limits
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.reference.document import reference_text
from monitor.reference.learn import learn
from monitor.reference.runs import SeenRun, seen_call
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

SECOND = 1_000_000_000
USUAL = ("get_a", "find_b", "book_c")
FIELDS = ("surprise", "surprise_percentile", "likely_next")
LIMITS = replace(Limits(), history_complete=True)


def reference(*, told: bool = True) -> Spec:
    """Learnt of nine usual runs and one short one."""
    runs = [
        SeenRun(str(n), "", tuple(seen_call(tool, {}, failed=False) for tool in tools))
        for n, tools in enumerate([USUAL] * 9 + [USUAL[:2]])
    ]
    learnt = learn(runs)
    text = reference_text(learnt if told else replace(learnt, surprise=None), "r")
    spec, findings = compile_text(text, "r.yaml")
    assert spec is not None, findings
    return spec


TOLD = reference()


def call(number: int, tool: str) -> ToolCall:
    start = SECOND + SECOND * number
    return ToolCall(
        SessionKey("", "s"), "", tool, {}, False, start, start + 5, b"t" * 16,
        (number + 1).to_bytes(8, "big"), b"", "", Evidence.EXECUTED,
        attributes={"offrails.spec": "r"},
    )  # fmt: skip


def judged(
    tools: tuple[str, ...] | list[str],
    order: list[int] | None = None,
    *,
    spec: Spec = TOLD,
    limits: Limits = LIMITS,
    ended: bool = True,
) -> dict[str, Any]:
    monitor = Monitor([spec], limits)
    for place in order if order is not None else range(len(tools)):
        monitor.observe(call(place, tools[place]), 2 * SECOND + SECOND * len(tools), quiet=True)
    if ended:
        monitor.end(SessionKey("", "s"), 3 * SECOND + SECOND * len(tools))
    (found,) = monitor.find("s")
    return found


@given(st.lists(st.sampled_from([*USUAL, "drop_d"]), min_size=1, max_size=6), st.randoms())
def test_any_order(tools: list[str], chance: Any) -> None:
    """Calls that arrive in any order leave a session as surprising, in all and call by call."""
    order = list(range(len(tools)))
    chance.shuffle(order)
    one, other = judged(tools), judged(tools, order)

    assert [one[field] for field in FIELDS] == [other[field] for field in FIELDS]
    assert [each["surprise"] for each in one["steps"]] == [
        each["surprise"] for each in other["steps"]
    ]


def test_the_usual_and_the_odd() -> None:
    """The usual path lies among the usual runs, an unheard-of one beyond all of them."""
    usual, odd = judged(USUAL), judged(["drop_d", "drop_d", "get_a"])

    assert usual["surprise"] < 0.5 < 3 < odd["surprise"]
    assert usual["surprise_percentile"] < 90
    assert odd["surprise_percentile"] == 100
    assert usual["likely_next"] == []


def test_what_is_likely_next() -> None:
    """A session that goes on shows the likely next calls, as tools with shares."""
    found = judged(USUAL[:2], ended=False)
    (likely,) = found["likely_next"]

    assert likely["tool"] == "book_c"
    assert 0.8 < likely["share"] < 0.95


def test_folded_calls_count() -> None:
    """A session whose first calls are folded is as surprising as if it were kept whole."""
    tools = [*USUAL, *["get_a", "drop_d"] * 100]
    late = replace(LIMITS, window_ns=SECOND)
    monitor = Monitor([TOLD], late)
    for number, tool in enumerate(tools):
        monitor.observe(call(number, tool), SECOND * (number + 2), quiet=True)
        monitor.tick(SECOND * (number + 2))
    monitor.end(SessionKey("", "s"), SECOND * (len(tools) + 2))
    (found,) = monitor.find("s")
    whole = judged(tools, limits=replace(LIMITS, fold=False))

    assert found["steps_folded"] > 0
    assert [found[field] for field in FIELDS] == [whole[field] for field in FIELDS]
    kept = whole["steps"][found["steps_folded"] :]
    assert [each["surprise"] for each in found["steps"]] == [each["surprise"] for each in kept]


def test_off_is_not_shown() -> None:
    """A reference without `surprise` shows none, and its sessions keep nothing of it."""
    found = judged(USUAL, spec=reference(told=False))

    assert not set(FIELDS) & set(found)
    assert "surprise" not in found["steps"][0]


def test_a_joined_session_has_none() -> None:
    """A session that was joined in the middle has no surprise: its path is not known."""
    monitor = Monitor([TOLD], replace(LIMITS, history_complete=False))
    monitor.state.judging_state.started_ns = 100 * SECOND
    for number, tool in enumerate(USUAL):
        monitor.observe(call(number, tool), 200 * SECOND, quiet=True)
    (found,) = monitor.find("s")

    assert found["joined"]
    assert [found[field] for field in FIELDS] == [None, None, []]
