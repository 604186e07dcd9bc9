"""The comparison: what it says of each call, whatever order the calls arrive in."""

from __future__ import annotations

import math
import random
import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.engine import Monitor
from monitor.limits import Limits
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.reference.comparison import Comparison
from monitor.reference.document import reference_text
from monitor.reference.learn import learn
from monitor.reference.runs import SeenRun, seen_call
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

KEY = SessionKey("", "s")
Made = tuple[str, dict[str, Any] | None]
SECOND = 1_000_000_000


def reference(*runs: list[Made], failed: int = 0) -> Spec:
    """A reference learnt from these runs, the last `failed` of them failures."""
    seen = [
        SeenRun(
            str(n),
            "",
            tuple(seen_call(tool, given, failed=False) for tool, given in calls),
            n < len(runs) - failed if failed else None,
        )
        for n, calls in enumerate(runs)
    ]
    spec, findings = compile_text(reference_text(learn(seen), "r"), "r.yaml")
    assert spec is not None, findings
    return spec


def call(number: int, tool: str, arguments: dict[str, Any] | None) -> ToolCall:
    """The call number `number` of the session, after the one before."""
    start = SECOND + 10 * number
    return ToolCall(
        KEY, "", tool, arguments, False, start, start + 5, b"t" * 16,
        number.to_bytes(8, "big"), b"", "", Evidence.EXECUTED, attributes=ATTRIBUTES,
    )  # fmt: skip


ATTRIBUTES = {"offrails.spec": "r"}
LIMITS = replace(Limits(), history_complete=True)


def judged(
    spec: Spec, made: list[Made], order: list[int] | None = None, *, end: bool = False
) -> dict[str, Any]:
    """The judgement object after these calls, arriving in this order."""
    monitor = Monitor([spec], LIMITS)
    for place in order if order is not None else range(len(made)):
        monitor.observe(call(place, *made[place]), 2 * SECOND)
    if end:
        monitor.end(KEY, 2 * SECOND)
    (found,) = monitor.find("s")
    return found


A: Made = ("get_a", {"x": 1})
B: Made = ("find_b", {"x": 1})
C: Made = ("book_c", {"x": 1})
D: Made = ("list_d", {"x": 1})
USUAL = [A, B, C, D]


def first(spec: Spec, made: list[Made], *, end: bool = False) -> tuple[Any, ...] | None:
    found = judged(spec, made, end=end)["divergence"]
    return found and (found["step"], found["kind"], found["phase"], found["write"])


def test_the_usual_way() -> None:
    """A run like all learnt ones never diverges, and its risk falls."""
    found = judged(reference(USUAL, USUAL), USUAL, end=True)

    assert found["divergence"] is None
    assert found["divergences"] == []
    assert not found["unexpected_write"]
    assert not found["first_two_diverged"]
    assert found["alarms"] == []
    assert found["risk"] == found["steps"][-1]["risk"] < 0.5
    assert all(step["kind"] is None for step in found["steps"])


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ([B], (1, "missing", "first_two", False)),
        ([D], (1, "missing", "first_two", False)),
        ([("other", {})], (1, "wrong_tool", "first_two", False)),
        ([A, ("find_b", {"x": 2})], (2, "wrong_arguments", "first_two", False)),
        ([A, B, ("book_c", {"x": 2})], (3, "wrong_arguments", "late", True)),
        ([A, A], (2, "extra", "first_two", False)),
        ([A, B, C, D, B], (5, "extra", "late", False)),
        ([A, B, ("delete_all", {})], (3, "wrong_tool", "late", True)),
    ],
)
def test_kinds(made: list[Made], expected: tuple[Any, ...]) -> None:
    """The first divergence has a step, a kind, a phase, and a flag for writes."""
    assert first(reference(USUAL, USUAL), made) == expected


def test_ended_early() -> None:
    """A session that ends before any learnt run did has left out the next call."""
    spec = reference(USUAL, USUAL)

    assert first(spec, [A, B]) is None
    assert first(spec, [A, B], end=True) == (3, "missing", "late", True)
    found = judged(spec, [A, B], end=True)
    assert found["missing_writes"] == ["book_c"]
    assert found["divergence"]["expected"] == ["book_c"]
    assert found["divergence"]["support"] == 2
    assert [each["alarm"] for each in found["alarms"]] == ["missing_write"]


def test_goes_on_after_a_divergence() -> None:
    """After an inserted, missing or replaced call, the comparison finds the usual path again."""
    spec = reference(USUAL, USUAL)
    odd: Made = ("other", {})

    for made in ([A, odd, B, C, D], [A, C, D], [A, odd, C, D]):
        assert len(judged(spec, made, end=True)["divergences"]) == 1


def test_unexpected_write() -> None:
    """A write by an unknown tool pages at once, one with unknown arguments is a hint; a read is neither."""
    spec = reference(USUAL, USUAL)

    assert judged(spec, [A, B, ("book_c", {"x": 2})])["unexpected_write"]
    assert judged(spec, [("delete_everything", {})])["unexpected_write"]
    assert not judged(spec, [("get_everything", {})])["unexpected_write"]
    assert not judged(spec, [A, ("find_b", {"x": 2})])["unexpected_write"]
    made: list[Made] = [("book_c", {}), ("delete_everything", {})]
    levels = {each["alarm"]: each["level"] for each in judged(spec, made)["alarms"]}
    assert levels["new_arguments"] == "hint"
    assert levels["new_write_tool"] == "page"
    assert levels["first_two"] == "hint"


def test_unknown_arguments_are_no_alarm() -> None:
    """Arguments that are not on the wire may be the usual ones."""
    made: list[Made] = [(tool, None) for tool, _ in USUAL]

    found = judged(reference(USUAL, USUAL), made)

    assert not found["unexpected_write"]
    assert found["divergence"] is None


def test_one_run_only_hints() -> None:
    """With one supporting run an alarm is a hint, with all its facts."""
    found = judged(reference(USUAL), [("delete_all", {})])

    assert found["unexpected_write"]
    assert found["first_two_diverged"]
    assert {each["level"] for each in found["alarms"]} <= {"hint", "advisory"}


def test_risk_rises_with_what_failed_runs_did() -> None:
    """A tool that only failed runs called raises the risk; the step says when."""
    good, bad = [A, B], [A, D]
    spec = reference(good, good, good, bad, bad, failed=2)

    risks = [step["risk"] for step in judged(spec, [A, D])["steps"]]

    assert 0 < risks[0] < risks[1] < 1


def test_joined_sessions_are_not_compared() -> None:
    """In a joined session, only writes that no run made are reported."""
    monitor = Monitor([reference(USUAL, USUAL)], Limits(), started_ns=SECOND + 1)
    monitor.observe(call(0, *B), 2 * SECOND)
    monitor.observe(call(1, "book_c", {"x": 9}), 2 * SECOND)

    (found,) = monitor.find("s")

    assert found["joined"]
    assert found["divergence"] is None
    assert found["first_two_diverged"] is None
    assert found["risk"] is None
    assert found["unexpected_write"]


MADE = st.lists(
    st.tuples(
        st.sampled_from(["get_a", "find_b", "book_c", "list_d", "other"]),
        st.one_of(st.none(), st.fixed_dictionaries({"x": st.integers(1, 2)})),
    ),
    min_size=1,
    max_size=8,
)
SPEC = reference(USUAL, USUAL, [A, C], [B, B, C], failed=1)


@given(MADE, st.randoms(use_true_random=False))
def test_any_order_of_arrival(made: list[Made], chance: random.Random) -> None:
    """Calls that arrive in any order end in the same judgement."""
    order = list(range(len(made)))
    chance.shuffle(order)
    facts = ("divergence", "divergences", "unexpected_write", "first_two_diverged", "risk")

    one, other = judged(SPEC, made), judged(SPEC, made, order)

    assert {key: one[key] for key in facts} == {key: other[key] for key in facts}
    assert [step["risk"] for step in one["steps"]] == [step["risk"] for step in other["steps"]]


def test_folding_keeps_the_facts() -> None:
    """A long session that is folded still knows its first divergence and its risk."""
    made: list[Made] = [("other", {}), *USUAL * 60]
    monitor = Monitor([SPEC], LIMITS)
    for number, each in enumerate(made):
        monitor.observe(call(number, *each), 2 * SECOND)
    monitor.tick(100 * SECOND)

    (found,) = monitor.find("s")
    whole = judged(SPEC, made)

    assert found["steps_folded"] > 0
    assert found["divergence"] == whole["divergence"]
    assert found["risk"] == whole["risk"]


@pytest.mark.plain
def test_a_session_is_small() -> None:
    """A session takes at most 200 bytes per reference."""
    learnt = SPEC.learnt
    assert learnt is not None
    comparison = Comparison(learnt)
    at = comparison.start()
    for tool, arguments in [("other", {}), *USUAL, *USUAL]:
        comparison.step(at, comparison.token(tool, arguments, False))

    size = sys.getsizeof(at) + sum(
        sys.getsizeof(value)
        for name in at.__slots__
        if (value := getattr(at, name)) not in range(-5, 257)
    )

    assert size <= 200


# --- writes that only failed runs made, and the rates of the risk ---------------------------------

DELETE: Made = ("delete_account", {"id": 1})


def learnt_from(good: list[list[Made]], bad: list[list[Made]], *writes: str) -> Spec:
    """A reference of runs with outcomes; with `writes`, these are the tools that write."""
    seen = [
        SeenRun(
            f"{success} {n}",
            "",
            tuple(seen_call(tool, given, failed=False) for tool, given in calls),
            success,
        )
        for success, runs in ((True, good), (False, bad))
        for n, calls in enumerate(runs)
    ]
    spec, findings = compile_text(reference_text(learn(seen, writes or None), "r"), "r.yaml")
    assert spec is not None, findings
    return spec


@pytest.mark.parametrize("arguments", [{"id": 1}, {"id": 2}, {}, None])
@pytest.mark.parametrize("writes", [(), ("book_c",), ("book_c", "delete_account")])
def test_a_write_of_failed_runs_alone_is_unexpected(
    writes: tuple[str, ...], arguments: dict[str, Any] | None
) -> None:
    """A write that only failed runs made is unexpected, as one that no run made, with `--writes` or without."""
    spec = learnt_from([[A, C]] * 3, [[A, DELETE]], *writes)
    raised: list[tuple[str, str | None, bool]] = []
    monitor = Monitor([spec], LIMITS)
    monitor.on_alarm(lambda each: raised.append((each.alarm, each.kind, each.write)))
    for number, made in enumerate([A, ("delete_account", arguments)]):
        monitor.observe(call(number, *made), 2 * SECOND)
    (found,) = monitor.find("s")
    assert found["unexpected_write"]
    assert found["divergence"]["write"]
    assert ("new_write_tool", "wrong_tool", True) in raised


def test_what_is_no_write_of_failed_runs_alone_is_not_unexpected() -> None:
    """Reads by name, and calls of usual runs that `--writes` leaves out, are not unexpected."""
    reads = learnt_from([[A, C]] * 3, [[A, D]], "book_c")
    assert not judged(reads, [A, D])["unexpected_write"]
    usual = learnt_from([[A, DELETE, C]] * 3, [[A, DELETE]], "book_c")
    assert not judged(usual, [A, ("delete_account", {"id": 9})])["unexpected_write"]


def test_the_alarm_is_measured_as_it_is_raised() -> None:
    """A failed run's own write, named or not, is among the raised ones of the learning runs."""
    for writes in ((), ("book_c",)):
        comparison = learnt_from([[A, C]] * 3, [[A, DELETE]], *writes).learnt
        assert comparison is not None
        for name in ("unexpected_write", "new_write_tool"):
            worth = comparison.alarms[name]
            assert (worth.raised, worth.precision) == (1, 1.0)


def odds(successes: int, failures: int, *called: tuple[int, int]) -> float:
    """The formula of docs/references.md, for fewer than five runs."""
    found = math.log((failures + 4) / (successes + 4))
    for succeeded, failed in called:
        found += math.log((failed + 2) / (failures + 4)) - math.log(
            (succeeded + 2) / (successes + 4)
        )
    return 1 / (1 + math.exp(-found))


def test_the_risk_is_the_documented_one() -> None:
    """Four imagined runs of either outcome, the tool in half of them; each unknown tool counts once."""
    spec = learnt_from([[A, C]] * 3, [[A, D]])
    known = judged(spec, [A])
    assert known["risk"] == pytest.approx(odds(3, 1, (3, 1)))
    peeks: list[Made] = [("peek_1", {}), ("peek_2", {}), ("peek_1", {}), ("peek_3", None)]
    risks = [step["risk"] for step in judged(spec, peeks)["steps"]]
    unknown = (0, 0)
    assert risks == pytest.approx([odds(3, 1, *[unknown] * count) for count in (1, 2, 2, 3)])
    both = judged(spec, [A, *peeks[:2], D])
    assert both["risk"] == pytest.approx(odds(3, 1, (3, 1), unknown, unknown, (0, 1)))


def test_unknown_tools_are_bounded() -> None:
    """Of an agent's invented names only a fixed number is kept, and the risk still works."""
    spec = learnt_from([[A, C]] * 3, [[A, D]])
    assert spec.learnt is not None
    comparison = Comparison(spec.learnt)
    at = comparison.start()
    for number in range(1_000):
        comparison.step(at, comparison.token(f"peek_{number}\ud800", {}, failed=False))
    assert at.called.bit_length() < 64
    assert 0 < comparison.risk_of(at) < 1
