"""Verdicts on sessions: the same under any arrival, and what a naive look at all calls says."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from monitor import Limits, Monitor, SessionKey, ToolCall
from monitor.limits import SECOND
from monitor.records import Evidence, Kind
from monitor.spec.compiler.compile import compile_text

TEXT = """
id: timed
match: {service.name: shop}
alphabet:
  a: {tool: a}
  b: {tool: b}
  c: {tool: c}
  fall: {tool: fall}
initial: s
accepting: [s]
transitions: {s: {a: t, c: s, b: s}, t: {b: s, c: t, a: t, fall: pit}, pit: {c: pit, b: pit}}
deadlines:
  - {from: a, to: b, within: 5}
  - {from: [a, b], to: c, within: 3}
idle: {s: 20, t: 7}
"""
START = 1_700_000_000 * SECOND
WINDOW = 10 * SECOND
LAST = 40
"""Seconds in which calls are made."""


def _compiled() -> Any:
    spec, findings = compile_text(TEXT, "timed.yaml")
    assert spec is not None, findings
    return spec


SPEC = _compiled()
Event = tuple[int, ToolCall]
"""When it is received, and a call."""


@st.composite
def calls(draw: st.DrawFn) -> list[ToolCall]:
    found = []
    for number in range(draw(st.integers(1, 12))):
        start = START + draw(st.integers(0, LAST)) * SECOND
        found.append(
            ToolCall(
                session=SessionKey("", "s"),
                agent="",
                tool=draw(st.sampled_from(["a", "b", "c", "c", "fall", "other"])),
                arguments={},
                error=draw(st.integers(0, 5)) == 0,
                start_ns=start,
                end_ns=start + draw(st.integers(0, 4)) * SECOND,
                trace_id=b"t" * 16,
                span_id=(number + 1).to_bytes(8, "big"),
                parent_span_id=(number + 1_000).to_bytes(8, "big"),  # no siblings in a group
                call_id="",
                evidence=Evidence.EXECUTED,
                attributes={"service.name": "shop"},
            )
        )
    return found


def played(events: Sequence[Event], ticks: Sequence[int], fold: bool = True) -> Monitor:
    """Calls and ticks in the order of their times, then enough time for all to be final."""
    monitor = Monitor([SPEC], Limits(history_complete=True, fold=fold))
    queue = sorted([*events, *((at, None) for at in ticks)], key=lambda event: event[0])
    for at, call in queue:
        if call is None:
            monitor.tick(at)
        else:
            monitor.observe(call, at)
    for _ in range(3):  # what is told late is final a window later
        monitor.tick(END + WINDOW)
        monitor.tick(END + 4 * WINDOW)
    return monitor


END = START + 2 * LAST * SECOND


def outcome(monitor: Monitor) -> tuple[Any, ...]:
    [found] = monitor.find("s")
    [pair] = monitor.totals.pairs.values()
    shown = [{**each, "final": None} for each in found["missed"]]
    return shown, found["can_finish"], dict(pair.session_verdicts)


def naive(arrived: Sequence[ToolCall]) -> list[tuple[str, str | None, str]]:
    """The reason, rule and span of each missed limit, found by a search over all calls."""
    machine, state, pit = SPEC.machine, SPEC.machine.initial, False
    ordered = sorted(arrived, key=lambda call: (call.start_ns, call.end_ns, call.span_id))
    took: list[tuple[ToolCall, str]] = []
    found: list[tuple[str, str | None, str]] = []
    until: ToolCall | None = None
    far = END + 4 * WINDOW
    for index, call in enumerate(ordered):
        if call.tool != "other":
            target = machine.step(state, machine.symbols.index(call.tool))
            if target >= 0 and not call.error:
                state = target
                took.append((call, call.tool))
        if machine.name(state) == "pit" and not pit:
            pit = True
            found.append(("trap", None, call.span_id.hex()))
        until = call if until is None or call.end_ns >= until.end_ns else until
        limit = {"s": 20, "t": 7, "pit": 0}[machine.name(state)]
        rest = [each.start_ns for each in ordered[index + 1 :]]
        if limit and min([*rest, far]) > until.end_ns + limit * SECOND:
            found.append(("idle", f"idle {limit} s", until.span_id.hex()))
    rules = (("a", "b", 5, "a -> b within 5 s"), ("ab", "c", 3, "[a, b] -> c within 3 s"))
    for first, then, seconds, rule in rules:
        running: ToolCall | None = None
        for call, symbol in took:
            if running is not None and symbol in then:
                if call.start_ns > running.start_ns + seconds * SECOND:
                    found.append(("deadline", rule, running.span_id.hex()))
                running = None
            if running is None and symbol in first:
                running = call
        if running is not None:
            found.append(("deadline", rule, running.span_id.hex()))
    return sorted(found, key=str)


@given(calls(), st.randoms(use_true_random=False))
def test_any_arrival_ends_alike(arrived: list[ToolCall], chance: random.Random) -> None:
    """Calls received in any order within the window, with time passing in between: one truth."""
    late = [
        (call.end_ns + chance.randrange(WINDOW), call)
        for call in chance.sample(arrived, len(arrived))
    ]
    ticks = [START + chance.randrange(2 * LAST * SECOND) for _ in range(20)]
    together = [(START + (LAST + 5) * SECOND, call) for call in arrived]

    shown, can_finish, counted = outcome(played(late, ticks))

    assert (shown, can_finish) == outcome(played(together, []))[:2]
    found = [(each["reason"], each["rule"], each["span_id"]) for each in shown]
    assert sorted(found, key=str) == naive(arrived)
    assert can_finish is not any(each["kind"] == "cannot_finish" for each in shown)
    assert sum(counted.values()) >= len(shown)


@given(calls(), st.randoms(use_true_random=False))
def test_final_counters_are_alike_within_the_window(
    arrived: list[ToolCall], chance: random.Random
) -> None:
    """Calls received before a limit's window is over give the same counts, in any order."""
    at = START + (LAST + 5) * SECOND
    shuffled = [
        (at + chance.randrange(WINDOW // 2), call)
        for call in chance.sample(arrived, len(arrived))
    ]
    ticks = [at + chance.randrange(WINDOW // 2) for _ in range(8)]

    shown, _, counted = outcome(played(shuffled, ticks))

    assert counted == outcome(played([(at, call) for call in arrived], []))[2]
    kinds = Counter((Kind(each["kind"]), each["reason"]) for each in shown)
    assert {(kind, reason.value): n for (kind, reason), n in counted.items()} == kinds


@given(calls(), st.randoms(use_true_random=False))
def test_what_is_told_and_taken_back_is_what_is_left(
    arrived: list[ToolCall], chance: random.Random
) -> None:
    """Verdicts minus withdrawals equal the verdicts that the judgement shows."""
    monitor = Monitor([SPEC], Limits(history_complete=True))
    told: Counter[tuple[str, bytes]] = Counter()
    now = START
    for call in chance.sample(arrived, len(arrived)):
        now = max(now, call.end_ns) + chance.randrange(3 * SECOND)
        verdicts = monitor.observe(call, now)
        monitor.tick(now + 1)
        for each in [*verdicts, *monitor.news()]:
            if each.kind in (Kind.CANNOT_FINISH, Kind.STALLED):
                told[each.kind.value, each.span_id] += 1
            elif each.revised_from in (Kind.CANNOT_FINISH, Kind.STALLED):
                told[each.revised_from.value, each.span_id] -= 1
    [found] = monitor.find("s")
    shown = Counter((each["kind"], bytes.fromhex(each["span_id"])) for each in found["missed"])
    assert +told == shown
    assert min(told.values(), default=0) >= 0
