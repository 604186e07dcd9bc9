"""Calls that are moved to their session late are judged as if they had been filed there at once."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from monitor.engine import Monitor
from monitor.limits import SECOND, Limits
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

LIMITS = replace(Limits(), history_complete=True)
SESSION = SessionKey("", "s")
TOOLS = "ab"
AGENTS = ("", "whole", "part")
FACTS: tuple[dict[str, Any], ...] = (
    {"service.name": "x"},
    {"service.name": "y"},
    {"service.name": "x", "team": "t"},
)


def spec_of(id_: str, match: dict[str, str], forbidden: str) -> Spec:
    document = {
        "id": id_,
        "kind": "policy",
        "match": match,
        "alphabet": {tool: {"tool": tool} for tool in TOOLS},
        "constraints": [{"forbid": forbidden}],
    }
    spec, findings = compile_text(json.dumps(document), f"{id_}.yaml")
    assert spec is not None, findings
    return spec


def task_of(id_: str, match: dict[str, str]) -> Spec:
    document = {
        "id": id_,
        "match": match,
        "alphabet": {tool: {"tool": tool} for tool in TOOLS},
        "golden": [["a", "b"]],
    }
    spec, findings = compile_text(json.dumps(document), f"{id_}.yaml")
    assert spec is not None, findings
    return spec


SPECS = (
    spec_of("part", {"gen_ai.agent.name": "part"}, "a"),
    spec_of("whole", {"gen_ai.agent.name": "whole"}, "b"),
    spec_of("both", {"gen_ai.agent.name": "whole", "team": "t"}, "a"),
    spec_of("team", {"team": "t"}, "b"),
    task_of("task", {"gen_ai.agent.name": "part", "service.name": "x"}),
    task_of("other", {"service.name": "y"}),
)

Made = tuple[str, str, int, int]
"""Tool, agent, facts, trace."""


def call(number: int, made: Made, session: SessionKey) -> ToolCall:
    tool, agent, facts, trace = made
    start = SECOND * (1_000 + number)
    return ToolCall(
        session, agent, tool, {}, False, start, start + 5, bytes([trace + 1]) * 16,
        (number + 1).to_bytes(8, "big"), b"", "", Evidence.EXECUTED, attributes=FACTS[facts],
    )  # fmt: skip


NOW = 2_000 * SECOND


def outcome(monitor: Monitor) -> Any:
    """The session as shown, and its counts at the end.

    A session that nobody names has the name of the service whose call came first.
    """
    services = {each["service.name"] for each in FACTS}
    shown = sorted(
        (each["spec"] or "", "" if each["agent"] in services else each["agent"], each["calls"], each["harmful"] or 0,
         [(step["span_id"], step["kind"]) for step in each["steps"]])
        for each in monitor.judgements()
    )  # fmt: skip
    monitor.close(NOW + 100 * SECOND)
    final: Counter[tuple[str, ...]] = Counter()
    for (agent, spec), pair in monitor.totals.pairs.items():
        for reason, count in pair.final.items():
            final["" if agent in services else agent, spec, str(reason)] += count
    return shown, +final


def at_once(made: list[Made]) -> Monitor:
    monitor = Monitor(SPECS, LIMITS)
    for number, each in enumerate(made):
        monitor.observe(call(number, each, SESSION), NOW)
    return monitor


def moved(made: list[Made], order: list[int], when: list[int], known: set[int]) -> Monitor:
    """The calls are filed under the trace until `when` of them have come; then the session is known."""
    monitor = Monitor(SPECS, LIMITS)
    told = set(known)
    for count, number in enumerate(order):
        trace = made[number][3]
        key = SESSION if trace in told else SessionKey("", f"trace {trace}")
        monitor.observe(call(number, made[number], key), NOW)
        for each in range(3):
            if each not in told and when[each] == count:
                told.add(each)
                monitor.corrections.rekey(SessionKey("", f"trace {each}"), SESSION, "id", NOW)
    for each in range(3):
        if each not in told:
            monitor.corrections.rekey(SessionKey("", f"trace {each}"), SESSION, "id", NOW)
    return monitor


@given(
    st.lists(
        st.tuples(
            st.sampled_from(TOOLS),
            st.sampled_from(AGENTS),
            st.integers(0, len(FACTS) - 1),
            st.integers(0, 2),
        ),
        min_size=1,
        max_size=6,
    ),
    st.data(),
)
def test_moved_calls_are_judged_as_if_filed_at_once(
    made: list[Made], data: st.DataObject
) -> None:
    """Specs, harm, steps and final counters do not depend on when the session id arrives."""
    order = data.draw(st.permutations(range(len(made))))
    when = data.draw(st.lists(st.integers(0, len(made)), min_size=3, max_size=3))
    known = data.draw(st.sets(st.integers(0, 2), max_size=2))

    late = moved(made, order, when, known)

    assert outcome(late) == outcome(at_once(made))


def test_what_a_part_was_harmful_for_is_taken_back() -> None:
    """The harm of a spec that was bound by a part's name is revised when its calls are moved."""
    monitor = Monitor(SPECS[:1], LIMITS)
    monitor.observe(call(0, ("b", "whole", 0, 0), SESSION), NOW)
    key = SessionKey("", "trace")
    first = monitor.observe(call(1, ("a", "part", 0, 1), key), NOW)
    assert [each.kind.value for each in first] == ["harmful"]
    monitor.corrections.rekey(key, SESSION, "id", NOW)
    (news,) = monitor.news()
    assert (news.revised_from, news.spec, news.session) == (first[0].kind, "part", key)
    assert [each["spec"] for each in monitor.judgements()] == [None]
    monitor.close(NOW + 100 * SECOND)
    assert not any(pair.final for pair in monitor.totals.pairs.values())


def test_what_is_final_stays() -> None:
    """Once a verdict is final, its spec stays, whichever session the call moves to."""
    monitor = Monitor(SPECS[:1], replace(LIMITS, fold=False))
    monitor.observe(call(0, ("b", "whole", 0, 0), SESSION), NOW)
    key = SessionKey("", "trace")
    monitor.observe(call(1, ("a", "part", 0, 1), key), NOW)
    monitor.tick(NOW + 60 * SECOND)
    monitor.corrections.rekey(key, SESSION, "id", NOW + 60 * SECOND)
    assert [each["harmful"] for each in monitor.judgements()] == [1]
