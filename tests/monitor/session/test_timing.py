"""Deadlines, idle limits and traps: fired by time, confirmed or taken back by the calls' times."""

from __future__ import annotations

from typing import Any

import pytest

from monitor import Limits, Monitor
from monitor.limits import SECOND
from monitor.records import AgentName, Evidence, Kind, Obstacle, SessionKey, ToolCall, Verdict
from monitor.spec.compiler.compile import compile_text
from monitor.visibility.cause import Cause
from monitor.visibility.gap import Gap

START = 1_700_000_000 * SECOND
SHOP = """
id: shop
match: {service.name: shop}
severity: {reasons: {deadline: critical}}
alphabet:
  order: {tool: order}
  confirm: {tool: confirm}
  ship: {tool: ship}
  look: {tool: look}
golden: [[order, confirm, ship]]
reads: [look]
deadlines:
  - {from: order, to: [confirm, ship], within: 20s}
idle: 1m
"""
TRAP = """
id: maze
match: {service.name: shop}
alphabet: {in: {tool: in}, out: {tool: out}, fall: {tool: fall}, look: {tool: look}}
initial: gate
accepting: [free]
transitions: {gate: {in: hall}, hall: {out: free, fall: pit}, pit: {look: pit}, free: {}}
"""


def call(tool: str, at: float, number: int = 0, **other: Any) -> ToolCall:
    """A call that starts `at` seconds after the start, and takes no time."""
    start = START + round(at * SECOND)
    known: dict[str, Any] = {
        "session": SessionKey("", "s"), "agent": "", "tool": tool, "arguments": {},
        "error": False, "start_ns": start, "end_ns": start, "trace_id": b"t" * 16,
        "span_id": (number or round(at * 1000) + 1).to_bytes(8, "big"), "parent_span_id": b"",
        "call_id": "", "evidence": Evidence.EXECUTED, "attributes": {"service.name": "shop"},
    }  # fmt: skip
    return ToolCall(**{**known, **other})


class Run:
    """A monitor, and its time in seconds after the start."""

    def __init__(self, text: str = SHOP, **limits: Any) -> None:
        spec, findings = compile_text(text, "s.yaml")
        assert spec is not None, findings
        self.monitor = Monitor([spec], Limits(history_complete=True, **limits))

    def take(self, *calls: ToolCall, at: float | None = None) -> list[tuple[Any, ...]]:
        """Receives calls, each at its end or all at once, and returns the session's verdicts."""
        told = []
        for each in calls:
            now = each.end_ns if at is None else START + round(at * SECOND)
            told += self.monitor.observe(each, now)
        return news(told)

    def tick(self, at: float) -> list[tuple[Any, ...]]:
        self.monitor.tick(START + round(at * SECOND))
        return news(self.monitor.news())

    def object(self) -> dict[str, Any]:
        [found] = self.monitor.find("s")
        return found

    def counted(self) -> dict[tuple[str, str], int]:
        [pair] = self.monitor.totals.pairs.values()
        return {(k.value, o.value): n for (k, o), n in pair.session_verdicts.items()}


def news(verdicts: list[Verdict]) -> list[tuple[Any, ...]]:
    """The kind, reason and step of each new verdict, and each withdrawn one."""
    return [
        (each.kind.value, each.reason.value if each.reason else None, each.step)
        if each.kind in (Kind.CANNOT_FINISH, Kind.STALLED)
        else ("back", str(each.revised_from), each.step)
        for each in verdicts
        if each.kind in (Kind.CANNOT_FINISH, Kind.STALLED)
        or each.revised_from in (Kind.CANNOT_FINISH, Kind.STALLED)
    ]  # fmt: skip


MISSED = ("cannot_finish", "deadline", 1)


def test_a_deadline_fires_when_its_time_is_over() -> None:
    """It fires once, not before its time, and is final and counted after the window."""
    run = Run()
    assert run.take(call("order", 0)) == []
    assert run.tick(19.9) == []
    assert run.object()["can_finish"] is True
    assert run.tick(20) == [MISSED]
    assert (run.tick(29), run.counted()) == ([], {})
    run.tick(30)
    assert run.counted() == {("cannot_finish", "deadline"): 1}
    found = run.object()
    assert found["can_finish"] is False
    assert found["missed"] == [
        {
            "kind": "cannot_finish",
            "reason": "deadline",
            "rule": "order -> [confirm, ship] within 20 s",
            "detail": "`confirm` or `ship` did not follow `order` within 20 s; "
            "it was due at 22:13:40 UTC",
            "step": 1,
            "span_id": "0000000000000001",
            "since_ns": START,
            "due_ns": START + 20 * SECOND,
            "final": True,
        }
    ]


def test_a_deadline_that_is_kept_says_nothing() -> None:
    """The answer stops the clock, at the last moment too; another round starts it anew."""
    run = Run()
    run.take(call("order", 0), call("look", 5), call("confirm", 20))
    assert run.tick(21) == []
    assert run.object()["missed"] == []


def test_a_late_span_that_was_early_enough_takes_it_back() -> None:
    """The call began in time and was reported late: within the window nothing is counted."""
    run = Run()
    run.take(call("order", 0))
    assert run.tick(20) == [MISSED]
    late = call("confirm", 15, end_ns=START + 25 * SECOND)
    assert run.take(late) == [("back", "cannot_finish", 1)]
    run.tick(60)
    assert run.counted() == {}
    assert (run.object()["can_finish"], run.object()["missed"]) == (True, [])


def test_a_late_span_that_was_too_late_confirms_it() -> None:
    """The call's own time counts, not its arrival."""
    run = Run()
    run.take(call("order", 0))
    assert run.tick(20) == [MISSED]
    assert run.take(call("confirm", 21)) == []
    run.tick(30)
    assert run.counted() == {("cannot_finish", "deadline"): 1}


def test_after_the_window_only_the_object_is_corrected() -> None:
    """As with calls, a final counter never changes."""
    run = Run()
    run.take(call("order", 0))
    run.tick(20)
    run.tick(31)
    assert run.take(call("confirm", 15), at=40) == [("back", "cannot_finish", 1)]
    assert run.object()["can_finish"] is True
    run.tick(55)
    assert run.counted() == {("cannot_finish", "deadline"): 1}


def test_old_spans_are_given_time_to_arrive() -> None:
    """A batch that is an hour late misses nothing while its second half is on its way."""
    run = Run()
    run.take(call("order", 0), at=3_600)
    assert run.tick(3_601) == []
    assert run.take(call("confirm", 10), at=3_602) == []
    assert run.tick(3_655) == [("stalled", "idle", 2)]
    quiet = Run()
    quiet.take(call("order", 0), at=3_600)
    assert quiet.tick(3_609) == []
    assert quiet.tick(3_610) == [MISSED, ("stalled", "idle", 1)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"error": True}, {}),
        ({"tool": "confirm"}, {}),
        ({}, {"tool": "ship", "start_ns": START + SECOND}),
    ],
)
def test_only_what_took_effect_counts(first: dict[str, Any], second: dict[str, Any]) -> None:
    """A failed or harmful call neither starts a deadline nor meets one."""
    run = Run()
    run.take(call("order", 0, 1)._replace(**first))
    if second:
        run.take(call("ship", 1, 2))
    assert [each[1] for each in run.tick(21)] == ["deadline"] * bool(second)


def test_a_session_that_stands_still_is_told() -> None:
    """From the end of its last call, in states that are not accepting; the next call is news."""
    run = Run()
    run.take(call("look", 0), call("order", 1, end_ns=START + 5 * SECOND), call("confirm", 9))
    assert run.tick(68) == []
    assert run.tick(69) == [("stalled", "idle", 3)]
    assert run.object()["can_finish"] is True
    assert run.take(call("ship", 70)) == []
    run.tick(80)
    assert run.counted() == {("stalled", "idle"): 1}
    assert run.tick(1_000) == []


def test_a_late_span_fills_the_silence() -> None:
    """A call made in time and received late withdraws the standstill."""
    run = Run()
    run.take(call("order", 0), call("confirm", 1))
    assert run.tick(61) == [("stalled", "idle", 2)]
    assert run.take(call("look", 30), at=62) == [("back", "stalled", 2)]
    assert run.tick(89) == []
    assert run.tick(90) == [("stalled", "idle", 3)]


def test_idle_limits_by_state() -> None:
    """Only named states are limited, each by its own time."""
    run = Run(
        SHOP.replace("idle: 1m", "idle: {G1: 3s, G3: 5s}").replace("within: 20s", "within: 1h")
    )
    assert run.take(call("look", 0)) == []
    assert run.tick(100) == []
    run.take(call("order", 100))
    assert run.tick(102.9) == []
    assert run.tick(103) == [("stalled", "idle", 2)]
    run.take(call("confirm", 104), call("ship", 105))
    assert run.tick(110) == [("stalled", "idle", 4)]


def test_a_trap_is_told_by_the_call_that_leads_into_it() -> None:
    """No call is harmful, but the session can no longer finish. That is reported at this call."""
    run = Run(TRAP)
    assert run.take(call("in", 0)) == []
    assert run.take(call("fall", 1)) == [("cannot_finish", "trap", 2)]
    assert run.take(call("look", 2)) == []
    found = run.object()
    assert (found["harmful"], found["accepting"], found["can_finish"]) == (0, False, False)
    run.tick(20)
    assert run.counted() == {("cannot_finish", "trap"): 1}
    [event] = run.monitor.end(SessionKey("", "s"), START + 30 * SECOND)
    assert (event.missed, event.scores.outcome) == (("trap",), "not_accepted")


def test_a_trap_is_taken_back_by_an_earlier_call() -> None:
    """The call that seemed to lead into it was made elsewhere."""
    run = Run(TRAP)
    assert run.take(call("in", 0), call("fall", 2), at=2) == [("cannot_finish", "trap", 2)]
    assert run.take(call("out", 1), at=3) == [("back", "cannot_finish", 2)]
    assert run.object()["can_finish"] is True


def test_a_trap_goes_with_a_spec_that_was_not_the_sessions() -> None:
    """The agent that a span above the calls names is another one: the verdict under its spec is withdrawn."""
    run = Run(TRAP.replace("service.name: shop", "gen_ai.agent.name: mouse"))
    assert run.take(call("in", 0, agent="mouse"), call("fall", 1, agent="mouse")) == [
        ("cannot_finish", "trap", 2)
    ]
    named = AgentName(START - SECOND, b"above...", "cat")
    late = call("look", 2, agent="mouse")
    assert news(run.monitor.observe(late, late.end_ns, named)) == [("back", "cannot_finish", 2)]


def test_a_constraint_can_be_a_trap() -> None:
    """Rules that together leave no way to be kept: each call was allowed, the session is lost."""
    rules = (
        "id: rules\nkind: policy\nalphabet: {a: {tool: a}, b: {tool: b}, c: {tool: c}}\n"
        "constraints: [{response: [a, b]}, {not_succession: [c, b]}]\n"
    )
    run = Run(rules)
    assert run.take(call("c", 0), call("a", 1)) == [("cannot_finish", "trap", 2)]


def test_the_end_of_a_session_settles_it() -> None:
    """An explicit end means that nothing more comes; being idle or evicted does not."""
    run = Run()
    run.take(call("order", 0))
    [event] = run.monitor.end(SessionKey("", "s"), START + 5 * SECOND)
    assert event.missed == ("deadline: order -> [confirm, ship] within 20 s",)
    assert run.counted() == {("cannot_finish", "deadline"): 1}
    other = Run(sessions_max=1)
    other.take(call("order", 0))
    other.take(call("look", 1, session=SessionKey("", "t")))
    assert other.counted() == {}


def test_an_open_constraint_is_told_at_the_end() -> None:
    """The session-finished event names the rules that were not kept."""
    rules = (
        "id: rules\nkind: policy\nalphabet: {a: {tool: a}, b: {tool: b}}\n"
        "constraints: [{response: [a, b]}, {existence: b}]\n"
    )
    run = Run(rules)
    run.take(call("a", 0))
    [event] = run.monitor.end(SessionKey("", "s"), START + 5 * SECOND)
    assert event.unsatisfied == ("response: [a, b]", "existence: [b, 1]")


def test_uncertain_calls_start_no_clock_and_may_stop_one() -> None:
    """A call that may have been the expected one meets the deadline, so no false page fires."""
    text = SHOP.replace("{tool: confirm}", "{tool: confirm, arguments: {n: 1}}")
    run = Run(text)
    run.take(call("order", 0), call("confirm", 5, arguments=None))
    assert [each for each in run.tick(30) if each[1] == "deadline"] == []
    other = Run(SHOP.replace("{tool: order}", "{tool: order, arguments: {n: 1}}"))
    other.take(call("order", 0, arguments=None))
    assert [each for each in other.tick(30) if each[1] == "deadline"] == []


def test_where_calls_may_be_missing_nothing_is_claimed() -> None:
    """A head-sampled trace: the answer may be among the spans that were not sent."""
    spec, _ = compile_text(SHOP, "s.yaml")
    assert spec is not None
    monitor = Monitor([spec], Limits())
    monitor.observe(call("order", 0, gaps=True), START)
    monitor.tick(START + 100 * SECOND)
    assert monitor.news() == []


def test_limits_live_through_folding() -> None:
    """A deadline that started 200 calls ago still runs, and its verdict stays."""
    run = Run(SHOP.replace("within: 20s", "within: 5m").replace("idle: 1m\n", ""))
    run.take(call("order", 0))
    for second in range(1, 201):
        run.take(call("look", second))
        run.tick(second)
    [judgement] = [each for _, each in run.monitor.reader.open_judgements()]
    assert judgement.folded > 100
    assert run.tick(299) == []
    assert run.tick(300) == [MISSED]
    run.take(call("confirm", 301), call("look", 302), call("order", 303))
    for second in range(304, 600):
        run.take(call("look", second))
        run.tick(second)
    assert [each["step"] for each in run.object()["missed"]] == [1]
    assert run.counted() == {("cannot_finish", "deadline"): 1}


def test_a_session_that_gets_its_id_late_keeps_its_clocks() -> None:
    """Calls and verdicts of a trace move to the session with its deadlines."""
    run = Run()
    run.take(call("order", 0, session=SessionKey("", "trace")))
    run.tick(20)
    run.monitor.corrections.rekey(
        SessionKey("", "trace"), SessionKey("", "s"), "id", START + 21 * SECOND
    )
    assert run.object()["can_finish"] is False
    assert run.take(call("confirm", 10), at=22) == [("back", "cannot_finish", 1)]
    run.take(call("look", 70, session=SessionKey("", "other")))
    run.monitor.corrections.rekey(
        SessionKey("", "other"), SessionKey("", "s"), "id", START + 71 * SECOND
    )
    assert [each["reason"] for each in run.object()["missed"]] == []


def test_a_reference_has_no_limits() -> None:
    """A reference gives no verdicts on sessions."""
    text = SHOP.replace("id: shop", "id: shop\nkind: reference")
    run = Run(text)
    run.take(call("order", 0))
    assert run.tick(1_000) == []
    assert run.object()["can_finish"] is None


def test_without_limits_nobody_is_looked_at() -> None:
    """A spec without limits costs nothing: its sessions have no session_verdicts and no timer."""
    run = Run(SHOP[: SHOP.index("deadlines")])
    run.take(call("order", 0), call("confirm", 1))
    assert run.tick(10_000) == []
    assert all(
        each.session_verdicts is None for _, each in run.monitor.reader.open_judgements()
    )


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ("deadlines: [{from: order, to: z, within: 1m}]", "undeclared_symbol"),
        ("deadlines: [{from: order, to: [], within: 1m}]", "invalid_document"),
        ("deadlines: [{from: order, to: ship, within: 0}]", "invalid_document"),
        ("deadlines: [{from: order, to: ship, within: 1 minute}]", "invalid_document"),
        ("deadlines: [{from: order, to: ship, within: .inf}]", "invalid_document"),
        ("deadlines: [{from: order, within: 1m}]", "invalid_document"),
        ("idle: 2y", "invalid_document"),
        ("idle: {G9: 1m}", "undeclared_state"),
        ("idle: true", "invalid_document"),
    ],
)
def test_faults_of_times_are_found(keys: str, code: str) -> None:
    """Each fault has its code and its position."""
    spec, found = compile_text(SHOP[: SHOP.index("deadlines")] + keys, "s.yaml")
    assert spec is None
    assert [each.code for each in found] == [code]
    assert found[0].line == 12


def test_times_are_written_as_people_say_them() -> None:
    """A number is seconds; otherwise a unit is given."""
    for written, seconds in (("90", 90.0), ("1.5m", 90.0), ("500ms", 0.5), ("2h", 7200.0)):
        spec, _ = compile_text(SHOP.replace("1m", written), "s.yaml")
        assert spec is not None
        assert spec.timing.idle_ns == seconds * SECOND


def test_verdicts_on_sessions_are_worded_like_others() -> None:
    """They name the rule, the call, the allowed calls and the severity."""
    run = Run()
    run.take(call("order", 0))
    run.monitor.tick(START + 20 * SECOND)
    [verdict] = run.monitor.news()
    assert verdict.reason is Obstacle.DEADLINE
    assert verdict.severity == "critical"
    assert (verdict.tool, verdict.symbol, verdict.state) == ("order", "order", "G1")
    assert verdict.constraint == "order -> [confirm, ship] within 20 s"
    assert verdict.allowed == ("confirm", "look")
    assert (verdict.final, verdict.revised_from) == (False, None)


# --- a clock that is set ----------------------------------------------------------------------


@pytest.mark.parametrize("by", [3600, 15, -15, -3600])
def test_a_clock_that_is_set_moves_no_limit(by: int) -> None:
    """Deadline, idle limit and the end of the window come after as much time as without the jump."""
    run, still = Run(), Run()
    for each in (run, still):
        each.take(call("order", 0, 1))
        each.tick(5)
    now = START + 6 * SECOND
    run.monitor.clock_moved(by * SECOND, now + by * SECOND)

    for at in (6, 15, 19, 20.5, 21, 30, 31, 59, 61, 80):
        assert run.tick(at + by) == still.tick(at), at
        assert run.counted() == still.counted(), at
    assert run.object()["missed"] == still.object()["missed"]


@pytest.mark.parametrize("by", [[3600, -3600], [-30, -30], [40, 7, -100]])
def test_a_clock_that_is_set_again_and_again_moves_no_limit(by: list[int]) -> None:
    """Each jump of the clock shifts the limits that run at that time."""
    run, still = Run(), Run()
    for each in (run, still):
        each.take(call("order", 0, 1))
    ahead = 0
    for at, jump in enumerate(by, 2):
        ahead += jump
        run.monitor.clock_moved(jump * SECOND, START + (at + ahead) * SECOND)
    for at in (10, 19, 21, 32, 59, 61):
        assert run.tick(at + ahead) == still.tick(at), at


@pytest.mark.parametrize("tool", ["look", ""])
def test_what_may_be_missing_later_takes_no_verdict_back(tool: str) -> None:
    """Gaps come and go with calls of others, for half a minute: the session stands still all the time, and is told once."""
    run = Run()
    run.take(call("order", 0, 1), call("confirm", 1, 2))
    assert [each[:2] for each in run.tick(62)] == [("stalled", "idle")]
    for at in range(63, 93):
        gap = Gap(Cause.UNPLACED, START + at * SECOND, START + (at + 5) * SECOND, tool)
        run.monitor.gaps.note(gap)
        assert run.tick(at + 0.25) == []
        run.monitor.gaps.lift(gap)
        assert run.tick(at + 0.5) == []


def test_a_gap_in_the_time_of_a_limit_takes_its_verdict_back() -> None:
    """A call that is missing there may have been in time. Once it is placed elsewhere, the verdict is given again."""
    run = Run()
    run.take(call("order", 0, 1), call("confirm", 1, 2))
    assert [each[:2] for each in run.tick(62)] == [("stalled", "idle")]
    gap = Gap(Cause.UNPLACED, START + 61 * SECOND, START + 70 * SECOND)
    run.monitor.gaps.note(gap)
    assert [each[:2] for each in run.tick(63)] == [("back", "stalled")]
    run.monitor.gaps.lift(gap)
    assert [each[:2] for each in run.tick(64)] == [("stalled", "idle")]


@pytest.mark.parametrize("by", [3600, -3600])
def test_a_limit_that_begins_after_a_jump_knows_nothing_of_it(by: int) -> None:
    """A limit that starts after the jump uses the clock as it is now."""
    run = Run()
    run.take(call("look", 0, 1))
    run.monitor.clock_moved(by * SECOND, START + (1 + by) * SECOND)
    run.take(call("order", by + 2, 2), at=by + 2)

    assert run.tick(by + 21) == []
    assert [each[:2] for each in run.tick(by + 23)] == [("cannot_finish", "deadline")]


def test_calls_between_take_no_limit_away_that_begins_after_a_jump() -> None:
    """Calls after the jump are in their order, before and after the limit ends."""
    run = Run()
    run.take(call("look", 0, 1))
    run.monitor.clock_moved(-3600 * SECOND, START - 3599 * SECOND)
    for number, (tool, at) in enumerate(
        (("look", -3598), ("order", -3597), ("look", -3590)), 2
    ):
        run.take(call(tool, at, number))

    assert run.tick(-3578) == []
    assert [each[:2] for each in run.tick(-3576)] == [("cannot_finish", "deadline")]


@pytest.mark.parametrize("by", [3600, -3600])
def test_an_answer_after_a_jump_keeps_a_deadline(by: int) -> None:
    """If only our clock jumps, a call in time by the agent's clock meets the deadline."""
    run = Run(SHOP.replace("idle: 1m\n", ""))
    run.take(call("order", 0, 1))
    run.monitor.clock_moved(by * SECOND, START + (1 + by) * SECOND)
    assert run.tick(by + 10) == []
    assert run.take(call("confirm", 12, 2), at=by + 12) == []
    assert run.tick(by + 25) == []
