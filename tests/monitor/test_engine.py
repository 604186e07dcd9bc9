"""The monitor: sessions, binding, uncertainty and ends."""

from __future__ import annotations

from typing import Any

import pytest

from monitor import AgentName, Limits, Monitor, SessionKey, ToolCall, Verdict
from monitor.aggregate.totals import BEHIND_MAX, fixed
from monitor.decision import Answer
from monitor.limits import SECOND
from monitor.records import Evidence, Kind, Reason
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

START = 1_700_000_000 * SECOND
NOW = START + 60 * SECOND

ROVER = """
id: rover
kind: task
match: {service.name: rover}
severity: {default: warning, tools: {water: critical}}
alphabet:
  unlock: {tool: unlock}
  open: {tool: open}
  water: {tool: water, arguments: {liters: {max: 10}}}
  flood: {tool: water, arguments: {liters: {min: 11}}}
golden: [[unlock, open, water]]
"""
POLICY = """
id: policy
kind: policy
alphabet: {wipe: {tool: wipe, arguments: {path: {regex: ^/etc}}}, water: {tool: water}}
constraints: [{forbid: wipe}, {at_most: [water, 1]}]
"""
BY_AGENT = """
id: named
kind: task
match: {gen_ai.agent.name: gardener}
alphabet: {dig: {tool: dig}}
golden: [[dig]]
"""


def specs(*texts: str) -> list[Spec]:
    found = []
    for text in texts:
        spec, findings = compile_text(text, "spec.yaml")
        assert spec is not None, findings
        found.append(spec)
    return found


def call(number: int, tool: str, **changes: Any) -> ToolCall:
    """The call that starts at second `number`; its span id is the number."""
    made = ToolCall(
        session=SessionKey("", "s"),
        agent="",
        tool=tool,
        arguments={},
        error=False,
        start_ns=START + number * SECOND,
        end_ns=START + number * SECOND + SECOND // 2,
        trace_id=b"t" * 16,
        span_id=number.to_bytes(8, "big"),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes=ATTRIBUTES,
        source="test",
        session_from="trace",
    )
    return made._replace(**changes)


ATTRIBUTES = {"service.name": "rover"}


def monitor(*texts: str, **limits: Any) -> Monitor:
    return Monitor(specs(*texts), Limits(**{"history_complete": True, **limits}))


def only(verdicts: list[Verdict]) -> Verdict:
    (verdict,) = verdicts
    return verdict


def water(number: int, liters: int | None = 5, **changes: Any) -> ToolCall:
    arguments = None if liters is None else {"liters": liters}
    return call(number, "water", arguments=arguments, **changes)


# --- verdicts ------------------------------------------------------------------------------------


def test_a_harmful_call_says_why_and_moves_nothing() -> None:
    """It has reason, shortest path and allowed calls, and a later allowed call still progresses."""
    judge = monitor(ROVER)
    judge.observe(call(1, "unlock"), NOW)
    verdict = only(judge.observe(water(2), NOW))

    assert (verdict.kind, verdict.reason) == (Kind.HARMFUL, Reason.OUT_OF_ORDER)
    assert verdict.skipped == ("open",)
    assert verdict.allowed == ("open",)
    assert verdict.state_before == verdict.state == "G1"
    assert verdict.severity == "critical"
    assert only(judge.observe(call(3, "open"), NOW)).kind is Kind.PROGRESS


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (call(9, "dance"), Reason.UNKNOWN_TOOL),
        (call(9, "water"), Reason.ARGUMENT_MISMATCH),
        (call(9, "open"), Reason.AFTER_FINAL),
    ],
)
def test_reasons_after_the_end(made: ToolCall, reason: Reason) -> None:
    """An unmatched call and a call after the end have different reasons."""
    judge = monitor(ROVER)
    for done in (call(1, "unlock"), call(2, "open"), water(3)):
        judge.observe(done, NOW)

    assert only(judge.observe(made, NOW)).reason is reason


def test_a_repeated_call_is_told_from_an_unreachable_one() -> None:
    """The reason is repeated if the symbol progressed before, and unreachable if no path leads to it."""
    judge = monitor(ROVER)
    judge.observe(call(1, "unlock"), NOW)
    judge.observe(call(2, "open"), NOW)

    assert only(judge.observe(call(3, "unlock"), NOW)).reason is Reason.REPEATED
    assert only(judge.observe(water(4, 50), NOW)).reason is Reason.UNREACHABLE


def test_an_earlier_call_that_comes_late_revises() -> None:
    """The out-of-order verdict is withdrawn when the call that belongs before it arrives."""
    judge = monitor(ROVER)
    judge.observe(call(1, "unlock"), NOW)
    judge.observe(water(3), NOW)
    own, revised = judge.observe(call(2, "open"), NOW)

    assert (own.kind, own.revised_from) == (Kind.PROGRESS, None)
    assert (revised.kind, revised.revised_from) == (Kind.PROGRESS, Kind.HARMFUL)
    pair = judge.totals.pairs["rover", "rover"]
    assert pair.provisional.total() == 1
    judge.tick(NOW + 11 * SECOND)
    assert pair.final.total() == 0


def test_a_tool_is_told_by_its_name_however_it_is_known() -> None:
    """Verdicts show the tool's name: for a symbol, for failed calls, and without a spec."""
    judge = monitor(ROVER)
    tools = ["unlock", "unlock", "nothing"]
    made = [call(number, tool) for number, tool in enumerate(tools, 1)]
    made.append(call(4, "unlock", error=True))
    found = [judge.observe(each, NOW)[0].tool for each in made]

    assert found == [each.tool for each in made]


def test_sums_are_of_now_whenever_they_are_read() -> None:
    """The sums of harmful sessions are computed when read, and drop sessions that left."""
    judge = monitor(ROVER)
    judge.observe(water(1), NOW)
    pair = judge.totals.pairs["rover", "rover"]
    assert (pair.harm_rate, pair.prefix_crit, pair.harmful) == (fixed(1.0), 0, 1)
    assert (pair.sessions, pair.clean, pair.scored_calls) == (1, 0, 1)

    judge.observe(call(2, "unlock"), NOW)
    judge.observe(water(3), NOW)
    [found] = judge.judgements()
    assert pair.scored_calls == 3
    assert pair.prefix_crit == fixed(found["prefix_crit"])
    top = pair.worst.first()
    assert top is not None
    assert top.share.harm_rate == pair.harm_rate == fixed(found["harm_rate"])

    judge.observe(water(4), NOW)
    [ended] = judge.close(NOW)
    assert (pair.sessions, pair.harmful) == (1, 3)
    assert pair.harm_rate == fixed(ended.scores.harm_rate or 0.0)
    assert pair.worst.first() is None


def test_what_waits_to_be_weighed_is_bounded() -> None:
    """Beyond the bound all that waits is taken into the sums at once."""
    judge = monitor(ROVER)
    for number in range(BEHIND_MAX + 1):
        key = SessionKey("", str(number))
        judge.observe(water(1)._replace(session=key), NOW)
        judge.observe(call(2, "unlock")._replace(session=key), NOW)
    pair = judge.totals.pairs["rover", "rover"]

    def behind() -> int:
        return sum(each.is_behind for _, each in judge.reader.open_judgements())

    assert behind() == 1
    assert pair.harmful == BEHIND_MAX + 1
    assert behind() == 0


def test_final_counters_wait_for_the_window() -> None:
    """A harmful call is counted as final when its window has passed, once."""
    judge = monitor(ROVER)
    judge.observe(water(1), NOW)
    pair = judge.totals.pairs["rover", "rover"]

    judge.tick(NOW + 9 * SECOND)
    assert pair.final.total() == 0
    judge.tick(NOW + 10 * SECOND)
    judge.tick(NOW + 30 * SECOND)
    assert pair.final == {(Reason.OUT_OF_ORDER, "critical"): 1}


def test_a_bad_clock_is_placed_by_receipt() -> None:
    """A call that says it starts at zero, or ends before it starts, counts as the latest."""
    judge = monitor(ROVER)
    judge.observe(call(1, "unlock"), NOW)
    broken = call(2, "open", start_ns=0, end_ns=0)

    assert only(judge.observe(broken, NOW)).kind is Kind.PROGRESS


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (1, 0, 2)])
def test_a_call_is_never_before_the_call_it_is_a_part_of(order: tuple[int, ...]) -> None:
    """Another host's clock is behind: the child is placed behind its parent, and counted."""
    parent = call(5, "unlock", end_ns=START + 9 * SECOND)
    child = call(2, "open", parent_span_id=parent.span_id)
    judge = monitor(ROVER)
    made = (parent, child, water(6))
    for index in order:
        judge.observe(made[index], NOW)
    (found,) = judge.find("s")

    assert [step["tool"] for step in found["steps"]] == ["unlock", "open", "water"]
    assert [step["start_ns"] - START for step in found["steps"]] == [
        5 * SECOND,
        2 * SECOND,
        6 * SECOND,
    ]
    assert (found["harmful"], judge.counters.skewed) == (0, 1)


def test_a_wrapper_that_is_ordered_by_its_end_stays_behind_its_children() -> None:
    """An agent as a tool is done when it returns: its own calls come first."""
    judge = monitor(ROVER + "order: {water: end}\n")
    wrapper = water(1, end_ns=START + 9 * SECOND)
    for number, tool in ((2, "unlock"), (3, "open")):
        judge.observe(call(number, tool, parent_span_id=wrapper.span_id), NOW)
    judge.observe(wrapper, NOW)
    (found,) = judge.find("s")

    assert [step["tool"] for step in found["steps"]] == ["unlock", "open", "water"]
    assert (found["harmful"], judge.counters.skewed) == (0, 0)


# --- missing knowledge ---------------------------------------------------------------------------


def test_unknown_arguments_are_never_guessed() -> None:
    """A call without its arguments is any symbol of its tool; scores are no longer given."""
    judge = monitor(ROVER)
    for done in (call(1, "unlock"), call(2, "open")):
        judge.observe(done, NOW)

    assert only(judge.observe(water(3, None), NOW)).kind is Kind.PROGRESS
    found = judge.find("s")[0]
    assert (found["exact"], found["harm_rate"], found["harmful"]) == (False, None, 0)
    assert judge.totals.pairs["rover", "rover"].sessions == 0


def test_the_harm_rate_of_a_session_is_its_judgements() -> None:
    """`harm_rate` is what the judgement has, and None where that is not scored or not known."""
    judge = monitor(ROVER, POLICY)
    key = SessionKey("", "s")
    for done in (call(1, "unlock"), call(2, "fly"), call(3, "open")):
        judge.observe(done, NOW)
        assert judge.harm_rate(key, "rover") == judge.find("s")[0]["harm_rate"]
    assert judge.harm_rate(key, "rover") == 1 / 3
    assert judge.harm_rate(key, "policy") is None
    assert judge.harm_rate(SessionKey("", "other"), "rover") is None
    judge.observe(water(4, None), NOW)
    assert judge.harm_rate(key, "rover") is None


def test_unknown_arguments_do_not_hide_a_certain_harm() -> None:
    """If no reading is allowed, the call is harmful for any arguments."""
    judge = monitor(ROVER)

    assert only(judge.observe(water(1, None), NOW)).kind is Kind.HARMFUL


def test_a_policy_does_not_claim_what_arguments_could_refute() -> None:
    """A forbidden call is certain only when its arguments are known."""
    judge = monitor(POLICY)

    assert only(judge.observe(call(1, "wipe", arguments=None), NOW)).kind is Kind.SELF_LOOP
    verdict = only(judge.observe(call(2, "wipe", arguments={"path": "/etc/x"}), NOW))
    assert (verdict.reason, verdict.constraint) == (Reason.FORBIDDEN, "forbid: wipe")


def test_a_session_joined_in_the_middle_is_not_paged_for() -> None:
    """Spans from before our start: only certain harms are claimed, and no scores."""
    judge = Monitor(specs(ROVER), Limits(), started_ns=NOW)

    assert only(judge.observe(water(1), NOW)).kind is Kind.PROGRESS
    assert only(judge.observe(call(2, "dance"), NOW)).reason is Reason.UNKNOWN_TOOL
    found = judge.find("s")[0]
    assert (found["joined"], found["exact"], found["harmful"]) == (True, False, 1)


def test_a_session_that_fits_the_middle_better_is_taken_as_joined() -> None:
    """Soon after our start, a session whose calls fit from a later state gives no harm."""
    judge = Monitor(specs(ROVER), Limits(), started_ns=START)

    assert only(judge.observe(call(1, "open"), NOW)).kind is Kind.PROGRESS
    assert judge.find("s")[0]["joined"] is True


def test_a_session_that_fits_the_start_is_exact() -> None:
    """A session that begins as the spec says is not doubted, even soon after our start."""
    judge = Monitor(specs(ROVER), Limits(), started_ns=START)
    for done in (call(1, "unlock"), call(2, "open"), water(3)):
        judge.observe(done, NOW)

    found = judge.find("s")[0]
    assert (found["joined"], found["exact"], found["pc"]) == (False, True, 1.0)


def test_long_after_the_start_nothing_is_doubted() -> None:
    """If a session must have been seen from its first call, a skipped step is harmful."""
    judge = Monitor(specs(ROVER), Limits(idle_ns=10 * SECOND), started_ns=START)

    assert only(judge.observe(call(50, "open"), NOW)).kind is Kind.HARMFUL


# --- specs and sessions ----------------------------------------------------------------------------


def test_an_unmatched_session_is_shown_all_the_same() -> None:
    """A session no spec matches has an object with its steps, and no verdicts."""
    judge = monitor(ROVER)
    verdicts = judge.observe(call(1, "dig", attributes={"service.name": "other"}), NOW)
    found = judge.find("s")[0]

    assert verdicts == []
    assert (found["spec"], found["calls"], found["agent"]) == (None, 1, "other")
    assert [(step["tool"], step["kind"]) for step in found["steps"]] == [("dig", None)]


def test_a_spec_bound_late_judges_the_calls_that_waited() -> None:
    """The agent's name comes with its last span: its calls are judged then, from the first."""
    judge = monitor(BY_AGENT)
    judge.observe(call(1, "dig"), NOW)
    judge.observe(call(2, "dig"), NOW)
    verdicts = judge.learn(
        SessionKey("", "s"),
        NOW,
        attributes=ATTRIBUTES,
        start_ns=START,
        named=AgentName(START, b"root", "gardener"),
    )

    assert [verdict.kind for verdict in verdicts] == [Kind.PROGRESS, Kind.HARMFUL]
    (found,) = judge.find("s")
    assert (found["spec"], found["agent"], found["exact"]) == ("named", "gardener", True)
    # Within the window the order of arrival tells nothing.
    assert found["bound_late"] is False


def test_an_attribute_names_a_task_outright() -> None:
    """`offrails.spec` binds a task whatever its match rules say, and only that task."""
    judge = monitor(ROVER, BY_AGENT)
    attributes = {**ATTRIBUTES, "offrails.spec": "named"}
    judge.observe(call(1, "dig", attributes=attributes), NOW)

    assert [found["spec"] for found in judge.find("s")] == ["named"]


def test_calls_filed_under_a_trace_move_to_their_session() -> None:
    """When a trace's session is learnt, its calls take their places among the session's."""
    judge = monitor(ROVER)
    trace, session = SessionKey("", "74" * 16), SessionKey("", "s")
    judge.observe(call(1, "unlock"), NOW)
    judge.observe(water(3), NOW)
    judge.observe(call(2, "open", session=trace), NOW)
    judge.observe(call(4, "dance", session=trace), NOW)
    assert judge.rekey(trace, session, "session.id", NOW)

    (found,) = judge.find("s")
    kinds = [(step["tool"], step["kind"]) for step in found["steps"]]
    assert kinds == [
        ("unlock", "progress"),
        ("open", "progress"),
        ("water", "progress"),
        ("dance", "harmful"),
    ]
    assert found["session_from"] == "session.id"
    assert judge.find("74" * 16) == []
    assert judge.totals.pairs["rover", "rover"].sessions == 1


def test_a_trace_that_becomes_a_session_keeps_its_judgement() -> None:
    """Renaming a session changes nothing but its name."""
    judge = monitor(ROVER)
    trace = SessionKey("", "74" * 16)
    judge.observe(call(1, "unlock", session=trace), NOW)
    judge.rekey(trace, SessionKey("", "s"), "session.id", NOW)

    (found,) = judge.find("s")
    assert (found["calls"], found["state"]) == (1, "G1")
    judge.tick(NOW + 11 * SECOND)
    assert judge.find("s")[0]["steps"][0]["final"] is True


def test_namespaces_keep_tenants_apart() -> None:
    """Two tenants' session "s" never meet."""
    judge = monitor(ROVER)
    judge.observe(call(1, "unlock", session=SessionKey("a", "s")), NOW)
    judge.observe(call(2, "unlock", session=SessionKey("b", "s")), NOW)

    assert [found["harmful"] for found in judge.find("s")] == [0, 0]
    assert [found["namespace"] for found in judge.find("s", "b")] == ["b"]


def test_sessions_are_bounded() -> None:
    """Beyond the bound the least recently active session ends as evicted, and is counted."""
    judge = monitor(ROVER, sessions_max=2)
    for number, name in enumerate(("one", "two", "one", "three"), start=1):
        judge.observe(call(number, "unlock", session=SessionKey("", name)), NOW)

    ended = {found["session"]: found["ended"] for found in judge.judgements()}
    assert ended == {"one": None, "two": "evicted", "three": None}
    assert judge.counters.ended == {"evicted": 1}
    told = judge.tick(SECOND)
    assert [(event.session.id, event.ended) for event in told] == [("two", "evicted")]
    assert judge.tick(SECOND) == []
    assert judge.sessions == 2


def test_an_idle_session_ends_with_its_scores() -> None:
    """After the idle time a session is finished: an event, final verdicts, finished scores."""
    judge = monitor(ROVER, idle_ns=60 * SECOND)
    for done in (call(1, "unlock"), call(2, "open"), water(3)):
        judge.observe(done, NOW)
    assert judge.tick(NOW + 59 * SECOND) == []
    (event,) = judge.tick(NOW + 60 * SECOND)

    assert (event.ended, event.scores.outcome, event.scores.pc) == ("idle", "accepted", 1.0)
    assert judge.find("s")[0]["ended"] == "idle"
    pair = judge.totals.pairs["rover", "rover"]
    assert (pair.active, pair.sessions, pair.finished) == (0, 1, 1)
    judge.tick(NOW + 500 * SECOND)
    assert (pair.sessions, pair.scores["pc"]) == (0, (0, 0))


def test_a_returning_session_goes_on_where_it_was() -> None:
    """A call after the end wakes the session with its state."""
    judge = monitor(ROVER, idle_ns=60 * SECOND)
    judge.observe(call(1, "unlock"), NOW)
    judge.tick(NOW + 61 * SECOND)
    verdict = only(judge.observe(call(100, "open"), NOW + 70 * SECOND))

    assert (verdict.kind, verdict.step) == (Kind.PROGRESS, 2)
    assert judge.find("s")[0]["ended"] is None


def test_what_comes_after_the_end_changes_no_final_counter() -> None:
    """A late span corrects the object of an ended session; its final scores were counted once."""
    judge = monitor(ROVER, idle_ns=60 * SECOND)
    judge.observe(call(1, "unlock"), NOW)
    judge.observe(water(3), NOW)
    pair = judge.totals.pairs["rover", "rover"]
    judge.tick(NOW + 61 * SECOND)
    before = (pair.finished, pair.final.total(), dict(pair.outcomes))
    judge.observe(call(2, "open"), NOW + 62 * SECOND)
    judge.tick(NOW + 125 * SECOND)
    (found,) = judge.find("s")

    assert before == (pair.finished, pair.final.total(), dict(pair.outcomes))
    assert before[:2] == (1, 1)
    assert (found["harmful"], found["state"], found["ended"]) == (0, "G3", "idle")


def test_a_harmful_verdict_that_became_final_is_told_once() -> None:
    """Listeners get each final harmful verdict once, and none that was revised before."""
    judge, told = monitor(ROVER), list[Verdict]()
    judge.on_final(told.append)
    judge.observe(call(1, "unlock"), NOW)
    judge.observe(water(3), NOW)
    judge.observe(call(2, "open"), NOW + SECOND)
    judge.observe(call(4, "dance"), NOW)
    judge.tick(NOW + 9 * SECOND)
    assert told == []
    judge.tick(NOW + 11 * SECOND)
    judge.close(NOW + 12 * SECOND)

    assert [(verdict.tool, verdict.final, verdict.step) for verdict in told] == [
        ("dance", True, 4)
    ]


def test_who_fails_to_hear_of_one_session_hears_of_the_others() -> None:
    """If a listener raises, the other due sessions are handled at the next tick."""
    judge, told = monitor(ROVER), list[str]()
    for name in "abc":
        judge.observe(call(1, "dance", session=SessionKey("", name)), NOW)

    def tell(verdict: Verdict) -> None:
        told.append(verdict.session.id)
        assert verdict.session.id != "a"

    judge.on_final(tell)
    with pytest.raises(AssertionError):
        judge.tick(NOW + 11 * SECOND)
    judge.tick(NOW + 11 * SECOND)

    assert told == ["a", "b", "c"]


def test_sessions_without_a_call_are_counted() -> None:
    """A conversation that never calls a tool is counted when it is idle."""
    judge = monitor(ROVER, idle_ns=60 * SECOND)
    for name in ("quiet", "s"):
        key = SessionKey("", name)
        judge.learn(key, NOW, attributes=ATTRIBUTES, start_ns=START)
    judge.observe(call(1, "unlock"), NOW + SECOND)
    judge.tick(NOW + 59 * SECOND)
    assert judge.counters.without_calls == 0
    judge.tick(NOW + 100 * SECOND)

    assert judge.counters.without_calls == 1


def test_a_spec_bound_late_beside_another_has_missed_nothing() -> None:
    """A policy judges at once; the task that waits for the agent's name judges from the start."""
    judge = monitor(BY_AGENT, POLICY)
    judge.observe(water(1), NOW)
    judge.observe(call(2, "dig"), NOW)
    key, named = SessionKey("", "s"), AgentName(START, b"root", "gardener")
    judge.learn(key, NOW, attributes=ATTRIBUTES, start_ns=START, named=named)
    found = {each["spec"]: each for each in judge.find("s")}

    assert (found["named"]["calls"], found["named"]["exact"]) == (2, True)
    assert found["policy"]["calls"] == 1


def test_a_spec_bound_after_the_window_has_missed_calls() -> None:
    """Calls that were no longer kept are not judged: the session is joined under that spec."""
    judge = monitor(BY_AGENT, POLICY)
    judge.observe(water(1), NOW)
    judge.tick(NOW + 11 * SECOND)
    key, named = SessionKey("", "s"), AgentName(START, b"root", "gardener")
    judge.learn(key, NOW + 12 * SECOND, attributes=ATTRIBUTES, start_ns=START, named=named)
    judge.observe(call(80, "dig"), NOW + 30 * SECOND)
    found = {each["spec"]: each for each in judge.find("s")}

    assert (found["named"]["joined"], found["named"]["harmful"]) == (True, 0)
    assert found["named"]["bound_late"] is True
    assert found["named"]["coverage"]["not_judged"] == {"no_spec": 1}


def test_calls_missed_between_seen_ones_are_no_harm() -> None:
    """Before the start, any call may have been received by an earlier process."""
    judge = Monitor(specs(ROVER), Limits(), started_ns=START + 10 * SECOND)
    judge.observe(call(1, "unlock"), NOW)
    judge.observe(water(9), NOW)
    judge.observe(call(11, "dance"), NOW)
    (found,) = judge.find("s")

    assert [step["kind"] for step in found["steps"]] == ["progress", "progress", "harmful"]


def test_a_control_tool_is_shown_and_not_judged() -> None:
    """A framework's own tool is in no score, unless an alphabet names it."""
    judge = monitor(ROVER)
    verdict = only(judge.observe(call(1, "final_answer", control=True), NOW))
    judge.observe(call(2, "unlock", control=True), NOW)
    found = judge.find("s")[0]

    assert verdict.kind is Kind.CONTROL
    assert (found["calls"], found["harmful"], found["state"]) == (1, 0, "G1")
    assert [step["kind"] for step in found["steps"]] == ["control", "progress"]


CHAIN = """
id: chain
kind: policy
match: {service.name: rover}
alphabet: {look: {tool: look}, open: {tool: open}, water: {tool: water}}
constraints: [{chain_precedence: [open, water]}]
"""


def test_a_control_call_behind_overlapping_calls_is_decided_and_observed() -> None:
    """A strict policy that may be in several states after a group judges a control call by none of them."""
    judge = monitor(CHAIN)
    later = {"end_ns": START + 5 * SECOND, "parent_span_id": b"p" * 8}
    for number, tool in enumerate(("open", "look"), 1):
        judge.observe(call(number, tool, **later), NOW)
    control = call(6, "final_answer", control=True)
    water_ = call(7, "water")

    [decided] = judge.decide(control, NOW).specs
    verdict = only(judge.observe(control, NOW))
    assert (decided.answer, decided.kind) == (Answer.ALLOW, Kind.CONTROL)
    assert verdict.kind is Kind.CONTROL
    assert judge.decide(water_, NOW).answer is Answer.UNKNOWN  # by either end of the group


def test_arguments_are_dropped_once_judged() -> None:
    """Arguments are kept only if they are to be shown."""
    quiet, open_ = monitor(ROVER), monitor(ROVER, keep_arguments=True)
    for each in (quiet, open_):
        each.observe(water(1, 7, call_id="c1"), NOW)

    assert quiet.find("s")[0]["steps"][0]["arguments"] is None
    assert open_.find("s")[0]["steps"][0]["arguments"] == {"liters": 7}
    assert quiet.find("s")[0]["steps"][0]["call_id"] == "c1"


def test_quiet_gives_only_what_is_news() -> None:
    """With `quiet`, harmless verdicts are counted and not returned."""
    judge = monitor(ROVER)

    assert judge.observe(call(1, "unlock"), NOW, quiet=True) == []
    assert only(judge.observe(water(2), NOW, quiet=True)).kind is Kind.HARMFUL
    assert judge.totals.pairs["rover", "rover"].calls[Kind.PROGRESS] == 1


# --- overlapping calls -----------------------------------------------------------------------------


def overlapping(number: int, tool: str, **changes: Any) -> ToolCall:
    """A call that starts at its second and lasts ten."""
    return call(number, tool, end_ns=START + (number + 10) * SECOND, **changes)


def test_parallel_calls_of_a_task_may_have_had_the_legal_order() -> None:
    """Siblings that overlap are judged in the order with the fewest harms."""
    judge = monitor(ROVER)
    judge.observe(overlapping(1, "open"), NOW)
    judge.observe(overlapping(2, "unlock"), NOW)
    found = judge.find("s")[0]

    assert found["harmful"] == 0
    assert [step["tool"] for step in found["steps"]] == ["open", "unlock"]
    assert found["state"] == "G2"


def test_parallel_calls_of_a_strict_policy_are_taken_at_their_worst() -> None:
    """Pay issued together with approve did not wait for the approval, so it is harmful."""
    text = """
id: approval
kind: policy
alphabet: {approve: {tool: approve}, pay: {tool: pay}}
constraints: [{precedence: [approve, pay]}]
"""
    judge = monitor(text)
    judge.observe(overlapping(1, "approve"), NOW)
    own, *_ = judge.observe(overlapping(2, "pay"), NOW)

    assert (own.kind, own.reason) == (Kind.HARMFUL, Reason.OUT_OF_ORDER)


def test_calls_that_touch_are_a_sequence() -> None:
    """A call that starts when another ends follows it."""
    judge = monitor(ROVER)
    judge.observe(call(1, "open", end_ns=START + 2 * SECOND), NOW)
    judge.observe(call(2, "unlock"), NOW)

    assert judge.find("s")[0]["harmful"] == 1


def test_calls_of_different_parents_are_not_siblings() -> None:
    """Only calls of one parent are issued together."""
    judge = monitor(ROVER)
    judge.observe(overlapping(1, "open", parent_span_id=b"p" * 8), NOW)
    judge.observe(overlapping(2, "unlock", parent_span_id=b"q" * 8), NOW)

    assert judge.find("s")[0]["harmful"] == 1


def test_many_parallel_calls_of_a_task_may_have_had_the_legal_order() -> None:
    """However many calls there are, those that are alike leave few orders to try."""
    judge = monitor(ROVER)
    for number, tool in enumerate(("open", *["unlock"] * 40), start=1):
        judge.observe(call(number, tool, end_ns=START + 100 * SECOND), NOW)

    assert judge.find("s")[0]["steps"][0]["kind"] == "progress"
    assert judge.counters.orders_left_out == 0


@pytest.mark.parametrize("made", [["approve"] * 6, ["approve", *["look"] * 80]])
@pytest.mark.parametrize("seen", ["", ", {at_most: [look, 1000]}", ", {init: approve}"])
def test_a_strict_policy_is_not_switched_off_by_many_calls(seen: str, made: list[str]) -> None:
    """Pay issued together with its approval is harmful, among any number of other calls."""
    text = f"""
id: approval
kind: policy
alphabet: {{approve: {{tool: approve}}, pay: {{tool: pay}}, look: {{tool: look}}}}
constraints: [{{precedence: [approve, pay]}}{seen}]
"""
    judge, end_ns = monitor(text), START + 200 * SECOND
    for number, tool in enumerate([*made, "pay"], start=1):
        judge.observe(call(number, tool, end_ns=end_ns), end_ns)

    assert judge.find("s")[0]["steps"][-1]["kind"] == "harmful"


def test_orders_that_are_left_out_are_counted() -> None:
    """Twenty different calls have more orders than are tried. The counter never decreases."""
    tools = [f"t{number}" for number in range(20)]
    text = f"""
id: twenty
match: {{service.name: rover}}
kind: task
alphabet: {{{", ".join(f"{tool}: {{tool: {tool}}}" for tool in tools)}}}
golden: [[{", ".join(tools)}]]
"""
    judge = monitor(text)
    for number, tool in enumerate(reversed(tools), start=1):
        judge.observe(call(number, tool, end_ns=START + 100 * SECOND), NOW)
    left_out = judge.counters.orders_left_out
    harmful = judge.find("s")[0]["harmful"]
    judge.use([])

    assert 0 < left_out == judge.counters.orders_left_out
    assert harmful == 0


# --- sampled traces --------------------------------------------------------------------------------


def test_a_sampled_session_is_never_paged_for_what_may_be_missing() -> None:
    """Where calls may be missing anywhere, any order is possible; an unknown tool is still harm."""
    judge = Monitor(specs(ROVER), Limits(), started_ns=0)
    for number, tool in enumerate(("open", "unlock"), start=1):
        verdict = only(judge.observe(call(number, tool, gaps=True), NOW))
        assert verdict.kind is not Kind.HARMFUL

    verdict = only(judge.observe(call(3, "dance", gaps=True), NOW))
    assert (verdict.kind, verdict.reason) == (Kind.HARMFUL, Reason.UNKNOWN_TOOL)
    found = judge.find("s")[0]
    assert (found["joined"], found["exact"], found["harmful"]) == (True, False, 1)


def test_a_mark_that_comes_late_revises_the_session() -> None:
    """A harmful verdict is withdrawn when a span says that its session's traces are sampled."""
    judge = Monitor(specs(ROVER), Limits(idle_ns=1), started_ns=0)
    assert only(judge.observe(water(1), NOW)).kind is Kind.HARMFUL
    judge.observe(call(2, "open", gaps=True), NOW)

    assert judge.find("s")[0]["harmful"] == 0


def test_a_complete_history_has_no_gaps() -> None:
    """With `history: complete`, no call is missing, whatever the sampling marks."""
    judge = monitor(ROVER)

    assert only(judge.observe(call(1, "open", gaps=True), NOW)).kind is Kind.HARMFUL


def test_calls_out_of_order_are_counted() -> None:
    """A call that began before one already received is counted; calls in order are not."""
    judge = monitor(ROVER)
    for number in (1, 3, 2, 4):
        judge.observe(call(number, "unlock"), NOW)

    assert judge.counters.out_of_order == 1


def test_sessions_without_calls_are_counted() -> None:
    """A session without calls leaves only its count."""
    judge = monitor(ROVER)
    judge.learn(SessionKey("", "silent"), NOW, attributes={}, start_ns=NOW)
    judge.tick(NOW + SECOND)
    assert judge.counters.without_calls == 0
    judge.tick(NOW + judge.limits.idle_ns + SECOND)
    assert judge.counters.without_calls == 1


def test_skewed_calls_are_counted_across_a_reload() -> None:
    """The counter never decreases, whichever specs are in use."""
    judge = monitor(ROVER)
    parent = call(5, "unlock", end_ns=START + 9 * SECOND)
    judge.observe(parent, NOW)
    judge.observe(call(1, "unlock")._replace(parent_span_id=parent.span_id), NOW)
    before = judge.counters.skewed
    judge.use([])

    assert before == judge.counters.skewed == 1


def test_names_of_the_release_before_lead_to_the_objects_beside_a_monitor() -> None:
    """Programs that learn, rekey, retract or hand over by the monitor itself go on for one release."""
    before, after = (
        Monitor([], Limits(history_complete=True)),
        Monitor([], Limits(history_complete=True)),
    )
    made = call(1, "a")
    before.observe(made, NOW)
    before.learn(made.session, NOW, attributes={}, start_ns=1)
    assert before.rekey(made.session, SessionKey("", "moved"), "id", NOW)
    assert [each["session"] for each in before.judgements()] == ["moved"]
    after.handover("1").take_over(
        before.handover("1").hand_over([SessionKey("", "moved")]), NOW
    )
    assert (before.sessions, after.sessions) == (0, 1)
    assert after.retract(made._replace(session=SessionKey("", "moved"))) == []
    assert not list(after.judgements())
