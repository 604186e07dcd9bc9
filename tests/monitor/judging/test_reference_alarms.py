"""Alarms against references as they are raised and withdrawn, and their counters."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.metrics.text_format import lines
from monitor.aggregate.drift import WAYS, WINDOW, Drift, DriftSample
from monitor.engine import Monitor
from monitor.exposition.metric_samples import monitor_families
from monitor.limits import Limits
from monitor.records import Evidence, ReferenceAlarm, SessionKey, ToolCall
from monitor.reference.document import reference_text
from monitor.reference.learn import learn
from monitor.reference.runs import SeenRun, seen_call
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

KEY = SessionKey("", "s")
SECOND = 1_000_000_000
Made = tuple[str, dict[str, Any] | None]
A: Made = ("get_a", {"x": 1})
B: Made = ("find_b", {"x": 1})
C: Made = ("book_c", {"x": 1})
D: Made = ("list_d", {"x": 1})
USUAL = [A, B, C, D]
WRITE: Made = ("book_c", {"x": 2})
NEW: Made = ("delete_all", {})
NEW_WRITES = ("new_write_tool", "new_arguments")
ATTRIBUTES = {"offrails.spec": "r"}
LIMITS = replace(Limits(), history_complete=True)


def reference(*runs: list[Made]) -> Spec:
    """A reference learnt from these runs."""
    seen = [
        SeenRun(str(n), "", tuple(seen_call(*each, failed=False) for each in calls))
        for n, calls in enumerate(runs)
    ]
    spec, findings = compile_text(reference_text(learn(seen), "r"), "r.yaml")
    assert spec is not None, findings
    return spec


USUALLY = reference(USUAL, USUAL)


def call(number: int, made: Made, key: SessionKey = KEY) -> ToolCall:
    """The call number `number` of a session."""
    start = SECOND + 10 * number
    return ToolCall(
        key, "", *made, False, start, start + 5, b"t" * 16,
        (number + 1).to_bytes(8, "big"), b"", "", Evidence.EXECUTED, attributes=ATTRIBUTES,
    )  # fmt: skip


class Told:
    """A monitor, and the alarms it raised."""

    def __init__(self, spec: Spec = USUALLY, limits: Limits = LIMITS) -> None:
        self.monitor = Monitor([spec], limits)
        self.events: list[ReferenceAlarm] = []
        self.monitor.on_alarm(self.events.append)

    def take(self, made: list[Made], order: list[int] | None = None) -> Told:
        for place in order if order is not None else range(len(made)):
            self.monitor.observe(call(place, made[place]), 2 * SECOND, quiet=True)
        return self

    @property
    def names(self) -> list[tuple[str, bool]]:
        return [(each.alarm, each.withdrawn) for each in self.events]

    @property
    def drift(self) -> Drift:
        (pair,) = [each for each in self.monitor.totals.pairs.values() if each.spec == "r"]
        assert pair.drift is not None
        return pair.drift

    def holding(self) -> Counter[tuple[Any, ...]]:
        """The alarms that were raised and not withdrawn."""
        found: Counter[tuple[Any, ...]] = Counter()
        for each in self.events:
            # A page says where its call stood when it was told.
            phase = each.phase if each.alarm == "divergence" else None
            facts = each.alarm, each.kind, phase, each.write
            marks = dict.fromkeys(NEW_WRITES, each.span_id) | {"divergence": each.step}
            call_ = marks.get(each.alarm)
            found[*facts, call_] += -1 if each.withdrawn else 1
        return +found


def counted(drift: Drift) -> tuple[Any, ...]:
    """All final counters."""
    return (
        dict(drift.divergences),
        drift.unexpected_writes,
        drift.paging_writes,
        drift.first_two,
        drift.missing_writes,
        drift.steps.counts,
        drift.risks.counts,
        dict(drift.ways),
        drift.new_tools,
        drift.new_arguments,
    )


# --- events -----------------------------------------------------------------------------------


def test_the_usual_way_tells_nothing() -> None:
    """A session like all learnt runs raises no alarm and counts only as a session."""
    told = Told().take(USUAL)
    told.monitor.end(KEY, 3 * SECOND)

    assert told.events == []
    assert counted(told.drift)[:4] == ({}, 0, 0, 0)
    assert told.drift.similarity == 1
    assert told.drift.sessions == 1


def test_a_divergence_at_the_first_call() -> None:
    """The divergence is reported once, with the call and the expected one, as a hint."""
    told = Told().take([D, A, B])

    assert told.names == [("divergence", False), ("first_two", False)]
    first = told.events[0]
    assert (first.step, first.kind, first.phase) == (1, "missing", "first_two")
    assert (first.tool, first.expected, first.support) == ("list_d", ("get_a",), 2)
    assert {each.level for each in told.events} == {"hint"}
    assert first.span_id == (1).to_bytes(8, "big")


def test_each_unexpected_write_is_told() -> None:
    """Each unexpected write is told at once with its call; a new tool pages, new arguments are a hint."""
    told = Told().take([A, B, WRITE, NEW])
    writes = [each for each in told.events if each.alarm in NEW_WRITES]

    assert [(each.step, each.tool, each.kind) for each in writes] == [
        (3, "book_c", "wrong_arguments"),
        (4, "delete_all", "wrong_tool"),
    ]
    assert [(each.alarm, each.level) for each in writes] == [
        ("new_arguments", "hint"),
        ("new_write_tool", "page"),
    ]
    assert told.drift.unexpected_writes == 0
    told.monitor.tick(30 * SECOND)
    assert (told.drift.unexpected_writes, told.drift.paging_writes) == (2, 1)


def test_one_supporting_run_gives_hints() -> None:
    """An alarm that one run alone supports is a hint."""
    told = Told(reference(USUAL)).take([A, B, NEW])
    told.monitor.end(KEY, 3 * SECOND)

    pages = [each for each in told.events if each.level == "page"]
    assert pages == []
    assert "new_write_tool" in {each.alarm for each in told.events}


def test_a_write_that_does_not_come() -> None:
    """A missing write is reported at the session's end, and withdrawn when the session goes on."""
    told = Told().take([A, B])
    assert told.events == []
    told.monitor.end(KEY, 3 * SECOND)

    assert told.names == [("divergence", False), ("missing_write", False)]
    assert told.events[1].expected == ("book_c",)
    assert told.events[1].level == "page"
    assert told.drift.missing_writes == 1

    told.events.clear()
    told.monitor.observe(call(2, C), 4 * SECOND)
    assert told.names == [("divergence", True), ("missing_write", True)]
    told.monitor.observe(call(3, D), 4 * SECOND)
    told.monitor.end(KEY, 5 * SECOND)
    assert len(told.events) == 2
    assert told.drift.missing_writes == 1


def test_a_write_may_have_been_made_before_our_time() -> None:
    """Soon after the start, the write may have been made before, so the session's end pages nobody."""
    short = Told(limits=replace(LIMITS, history_complete=False)).take([A, B])
    short.monitor.end(KEY, 3 * SECOND)
    (found,) = short.monitor.find("s")
    assert {each["alarm"]: each["level"] for each in found["alarms"]} == {
        "missing_write": "hint"
    }
    assert {each.level for each in short.events} == {"hint"}

    write = Told(limits=replace(LIMITS, history_complete=False)).take([A, B, NEW])
    assert ("new_write_tool", "page") in {(each.alarm, each.level) for each in write.events}


def test_evicted_sessions_miss_nothing() -> None:
    """An evicted session may go on, so no call of it counts as missing."""
    told = Told(limits=replace(LIMITS, sessions_max=1)).take([A])
    told.monitor.observe(call(50, A, SessionKey("", "other")), 2 * SECOND)

    assert told.monitor.counters.ended["evicted"] == 1
    assert told.events == []
    assert told.drift.missing_writes == 0


def test_arguments_that_come_late_take_a_page_back() -> None:
    """A fuller span has its write judged anew and withdraws the page on it."""
    told = Told().take([A, B, WRITE])
    told.events.clear()
    told.monitor.corrections.amend(call(2, WRITE), call(2, C), 2 * SECOND)

    assert ("new_arguments", True) in told.names
    told.monitor.corrections.retract(call(2, C))
    told.monitor.tick(30 * SECOND)
    assert told.drift.unexpected_writes == 0
    assert told.holding() == Counter()


def test_a_joined_session_tells_only_writes() -> None:
    """A joined session raises no alarm on its path or risk, only on writes."""
    told = Told(limits=replace(LIMITS, history_complete=False))
    told.monitor.state.judging_state.started_ns = 100 * SECOND
    told.take([B, WRITE])
    told.monitor.end(KEY, 3 * SECOND)

    assert told.names == [("new_arguments", False)]
    assert told.events[0].risk is None
    assert counted(told.drift)[:5] == ({}, 1, 0, 0, 0)


def test_a_trace_that_joins_its_session() -> None:
    """Alarms on calls of a trace are withdrawn when the calls move to another session."""
    told = Told()
    trace = SessionKey("", "trace")
    told.monitor.observe(call(0, A), 2 * SECOND)
    told.monitor.observe(call(1, B, trace), 2 * SECOND)
    assert told.names == [("divergence", False), ("first_two", False)]
    told.monitor.corrections.rekey(trace, KEY, "x", 2 * SECOND)

    assert told.names[2:] == [("divergence", True), ("first_two", True)]
    assert {each.session for each in told.events} == {trace}
    told.monitor.tick(30 * SECOND)
    assert counted(told.drift)[:4] == ({}, 0, 0, 0)


# --- counters ---------------------------------------------------------------------------------


def test_first_two_of_a_session_that_is_over() -> None:
    """Two names are compared: a session that ends after one of two differs."""
    told = Told().take([A])
    (before,) = told.monitor.find("s")
    told.monitor.end(KEY, 3 * SECOND)
    (after,) = told.monitor.find("s")

    assert (before["first_two_diverged"], after["first_two_diverged"]) == (False, True)
    assert told.drift.first_two == 1


CALLS = st.sampled_from([A, B, C, D, WRITE, NEW, ("odd", {}), ("find_b", {"x": 9})])


@given(st.lists(CALLS, min_size=1, max_size=8), st.data())
def test_any_arrival(made: list[Made], data: st.DataObject) -> None:
    """Any order of arrival leaves the same alarms and the same counts."""
    order = data.draw(st.permutations(range(len(made))))
    inorder, other = Told().take(made), Told().take(made, order)
    assert other.holding() == inorder.holding()
    for told in (inorder, other):
        told.monitor.tick(30 * SECOND)
    assert counted(other.drift) == counted(inorder.drift)

    for told in (inorder, other):
        told.monitor.end(KEY, 31 * SECOND)
    assert counted(other.drift) == counted(inorder.drift)
    assert other.holding() == inorder.holding()
    assert sum(inorder.drift.divergences.values()) <= 1


@given(st.lists(CALLS, min_size=1, max_size=6), st.integers(0, 5))
def test_told_is_what_is_shown(made: list[Made], cut: int) -> None:
    """The alarms that hold are those of the judgement object, live and at the end."""
    told = Told().take(made, sorted(range(len(made)), key=lambda n: (n * 7 + cut) % 5))
    for end in (False, True):
        if end:
            told.monitor.end(KEY, 3 * SECOND)
        (found,) = told.monitor.find("s")
        alarms = {each["alarm"] for each in found["alarms"]}
        holding = {key[0] for key in told.holding()}
        assert holding - {"divergence"} == alarms
        assert ("divergence" in holding) == (found["divergence"] is not None)


def exported(monitor: Monitor) -> dict[str, list[float]]:
    """The values of each series of what the monitor knows, by name."""
    found: dict[str, list[float]] = {}
    families = monitor_families(monitor.totals, monitor.binder, {})
    for line in lines(families, open_metrics=False):
        for each in line.splitlines():
            if not each.startswith("#"):
                name, value = each.partition("{")[0], each.rpartition(" ")[2]
                found.setdefault(name, []).append(float(value))
    return found


def test_every_way_is_exported_from_zero_on() -> None:
    """A counter born at 1 is invisible: each phase and kind is there with the first call."""
    found = exported(Told().take([A]).monitor)

    assert found["offrails_divergences_total"] == [0] * len(WAYS) == [0] * 12
    assert found["offrails_unexpected_writes_total"] == [0]
    assert "offrails_reference_sessions" not in found
    assert "offrails_harmful_calls_total" not in found
    assert 0 < found["offrails_risk_max"][0] < 1


def test_the_riskiest_live_session() -> None:
    """The gauge covers live sessions only."""
    told = Told().take([NEW])
    (judged,) = told.monitor.find("s")
    top = told.drift.riskiest.first()
    assert top is not None
    assert top.share.risk == judged["risk"]
    told.monitor.end(KEY, 3 * SECOND)

    assert told.drift.riskiest.first() is None
    assert sum(told.drift.risks.counts) == 1


@pytest.mark.parametrize("sessions", [1, WINDOW, WINDOW + 30])
def test_drift_is_of_the_last_sessions(sessions: int) -> None:
    """The window's sums are exactly those of its sessions."""
    drift = Drift()
    seen = [
        DriftSample(
            WAYS[n % 12] if n % 3 else None, n % 7 / 7 if n % 5 else None, n % 2 == 0, n % 4 > 2
        )
        for n in range(sessions)
    ]
    for each in seen:
        drift.add(each)
    last = seen[-WINDOW:]
    known = [each.similarity for each in last if each.similarity is not None]

    assert drift.sessions == len(last)
    assert +drift.ways == Counter(each.way for each in last if each.way is not None)
    assert drift.new_tools == sum(each.new_tools for each in last)
    assert drift.new_arguments == sum(each.new_arguments for each in last)
    assert drift.similar == len(known)
    if known:
        assert drift.similarity == pytest.approx(sum(known) / len(known), abs=1e-12)
