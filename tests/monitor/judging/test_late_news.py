"""Late facts: fuller spans, withdrawn calls, names, and ends that were none."""

from __future__ import annotations

from typing import Any

import pytest

from monitor import AgentName, Limits, Monitor, SessionKey, ToolCall
from monitor.limits import SECOND
from monitor.records import Evidence, Kind
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

START = 1_700_000_000 * SECOND
NOW = START + 300 * SECOND
KEY = SessionKey("", "s")
ATTRIBUTES = {"service.name": "shop"}
TASK = """
id: shop
kind: task
match: {service.name: shop}
alphabet: {look: {tool: look}, pick: {tool: pick}, pay: {tool: pay}}
golden: [[pick, pay]]
reads: [look]
"""
POLICY = """
id: policy
kind: policy
alphabet: {pay: {tool: pay, arguments: {amount: {min: 11}}}}
constraints: [{forbid: pay}]
"""
CLERKS = """
id: clerks
kind: task
match: {gen_ai.agent.name: clerk}
alphabet: {pick: {tool: pick}, pay: {tool: pay}}
golden: [[pick, pay]]
"""


def specs(*texts: str) -> list[Spec]:
    found = []
    for text in texts:
        spec, findings = compile_text(text, "spec.yaml")
        assert spec is not None, findings
        found.append(spec)
    return found


def monitor(*texts: str, **limits: Any) -> Monitor:
    return Monitor(specs(*texts), Limits(**{"history_complete": True, **limits}))


def call(number: int, tool: str, **changes: Any) -> ToolCall:
    """The call that starts at second `number`; its span id is the number."""
    made = ToolCall(
        session=KEY,
        agent="",
        tool=tool,
        arguments={},
        error=False,
        start_ns=START + number * SECOND,
        end_ns=START + number * SECOND + SECOND // 2,
        trace_id=b"t" * 16,
        span_id=(number + 1).to_bytes(8, "big"),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes=ATTRIBUTES,
        source="inner",
        session_from="trace",
    )
    return made._replace(**changes)


def folded(*texts: str) -> Monitor:
    """A session of 200 looks, a second each, the first of them folded by now."""
    judge = monitor(*texts)
    for number in range(200):
        judge.observe(call(number, "look"), START + (number + 1) * SECOND)
        judge.tick(START + (number + 1) * SECOND)
    return judge


# --- fuller spans ---------------------------------------------------------------------------------


def test_a_folded_call_is_not_judged_again() -> None:
    """A fuller span of a folded call leaves it as it was judged, and is counted as late."""
    judge = folded(TASK)
    before = judge.find("s")[0]
    pair = judge.totals.pairs["shop", "shop"]
    counted = dict(pair.calls)
    old = call(3, "look")

    news = judge.corrections.amend(old, old._replace(tool="pay"), START + 201 * SECOND)
    (found,) = judge.find("s")

    assert before["steps_folded"] > 4
    assert news == []
    assert (found["calls"], found["harmful"], found["late_calls"]) == (200, 0, 1)
    assert (dict(pair.calls), pair.late) == (counted, 1)


def test_a_policy_may_name_a_folded_call_only_now() -> None:
    """A folded call that no policy named is judged when its arguments arrive late."""
    judge = folded(TASK, POLICY)
    bare = call(3, "look")

    news = judge.corrections.amend(
        bare, bare._replace(tool="pay", arguments={"amount": 50}), START + 201 * SECOND
    )

    assert [(each.spec, each.kind) for each in news] == [("policy", Kind.HARMFUL)]
    found = {each["spec"]: each for each in judge.find("s")}
    assert (found["policy"]["calls"], found["shop"]["calls"]) == (1, 200)


def test_a_place_that_is_folded_is_late_once() -> None:
    """A call that turns out to have started among folded ones is counted late, and only once."""
    judge = folded(TASK)
    old = call(199, "look")
    early = old._replace(start_ns=START + SECOND + 1)
    earlier = old._replace(start_ns=START + SECOND)

    judge.corrections.amend(old, early, START + 201 * SECOND)
    judge.corrections.amend(early, earlier, START + 201 * SECOND)
    (found,) = judge.find("s")

    assert (found["calls"], found["late_calls"]) == (200, 1)
    assert judge.totals.pairs["shop", "shop"].late == 1
    assert found["steps"][0]["span_id"] == old.span_id.hex()


def test_a_retracted_folded_call_is_counted_as_late() -> None:
    """A folded call cannot be withdrawn, so the withdrawal is counted."""
    judge = folded(TASK)
    assert judge.retract(call(3, "look")) == []
    (found,) = judge.find("s")

    assert (found["calls"], found["late_calls"]) == (200, 1)


def test_an_amended_call_becomes_final() -> None:
    """A call that a policy names only by its late arguments is final when the window has passed."""
    judge, told = monitor(POLICY), list[Any]()
    judge.on_final(told.append)
    bare = call(1, "look")
    judge.observe(bare, NOW)
    judge.tick(NOW + 11 * SECOND)
    judge.corrections.amend(
        bare, bare._replace(tool="pay", arguments={"amount": 50}), NOW + 12 * SECOND
    )
    judge.tick(NOW + 23 * SECOND)

    assert [verdict.tool for verdict in told] == ["pay"]


def test_a_fuller_span_wakes_an_ended_session() -> None:
    """A late span of an ended session corrects it; the sums of live sessions stay right."""
    judge = monitor(TASK, POLICY, idle_ns=60 * SECOND)
    bare = call(1, "look")
    judge.observe(bare, NOW)
    judge.tick(NOW + 61 * SECOND)
    pay = bare._replace(tool="pay", arguments={"amount": 50})
    judge.corrections.amend(bare, pay, NOW + 62 * SECOND)
    assert {each["ended"] for each in judge.find("s")} == {None}
    judge.tick(NOW + 123 * SECOND)

    assert {each["ended"] for each in judge.find("s")} == {"idle"}
    assert {pair.active for pair in judge.totals.pairs.values()} == {0}


@pytest.mark.parametrize("outer_first", [True, False])
def test_who_read_a_call_does_not_depend_on_the_order(outer_first: bool) -> None:
    """If two dialects read two spans of a call, the outermost span's dialect is named, in any order."""
    judge = monitor(TASK)
    inner = call(1, "pick")
    outer = inner._replace(source="outer", start_ns=inner.start_ns - 1, span_id=b"outer123")
    judge.observe(call(0, "look"), NOW)
    if outer_first:
        judge.observe(outer, NOW)
    else:
        judge.observe(inner, NOW)
        judge.corrections.amend(inner, outer, NOW)
    (found,) = judge.find("s")

    assert found["source"] == "inner, outer"
    assert found["steps"][1]["span_id"] == outer.span_id.hex()


def test_a_call_that_was_none_leaves_nothing() -> None:
    """A withdrawn call leaves neither its times nor its dialect on the session."""
    judge, other = monitor(TASK), monitor(TASK)
    for each in (judge, other):
        each.observe(call(5, "pick"), NOW)
    gone = call(1, "pick", source="requested", end_ns=START + 90 * SECOND)
    judge.observe(gone, NOW)
    judge.retract(gone)

    assert judge.find("s") == other.find("s")


def test_a_call_with_gaps_is_known_late() -> None:
    """A later span shows that calls are missing: the session claims no harm of order."""
    judge = Monitor(specs(TASK), Limits())
    pay = call(1, "pay")
    judge.observe(call(0, "look"), NOW)
    judge.observe(pay, NOW)
    judge.corrections.amend(pay, pay._replace(gaps=True), NOW)
    judge.observe(call(2, "dance"), NOW)
    (found,) = judge.find("s")

    assert (found["joined"], found["exact"], found["harm_rate"]) == (True, False, None)
    assert [step["kind"] for step in found["steps"]][1:] == ["progress", "harmful"]


# --- names ----------------------------------------------------------------------------------------


def heard(judge: Monitor, name: str, start_ns: int = START) -> None:
    judge.learn(
        KEY,
        NOW,
        attributes=ATTRIBUTES,
        start_ns=start_ns,
        named=AgentName(start_ns, b"root", name),
    )


@pytest.mark.parametrize("before", [True, False])
def test_an_agent_is_named_before_or_after_the_first_call(before: bool) -> None:
    """A turn without a call names the agent of the session, and so binds its specs, in any order."""
    judge = monitor(CLERKS)
    if before:
        heard(judge, "clerk")
    judge.observe(call(1, "pick"), NOW)
    judge.observe(call(2, "pick"), NOW)
    if not before:
        heard(judge, "clerk")
    (found,) = judge.find("s")

    assert (found["agent"], found["spec"], found["harmful"]) == ("clerk", "clerks", 1)
    assert (found["joined"], found["bound_late"]) == (False, False)


@pytest.mark.parametrize("name", ["chief", "clerk"])
def test_a_spec_bound_for_a_passing_name_is_let_go(name: str) -> None:
    """A part's name comes before the whole's: its spec judges nothing that the whole does."""
    judge = monitor(CLERKS)
    judge.observe(call(1, "dance"), NOW)
    told = judge.learn(
        KEY,
        NOW,
        attributes=ATTRIBUTES,
        start_ns=START,
        named=AgentName(START + SECOND, b"part", "clerk"),
    )
    assert [verdict.kind for verdict in told] == [Kind.HARMFUL]
    told = judge.learn(
        KEY, NOW, attributes=ATTRIBUTES, start_ns=START, named=AgentName(START, b"root", name)
    )
    judge.tick(NOW + 11 * SECOND)
    (found,) = judge.find("s")

    assert (found["agent"], found["calls"]) == (name, 1)
    if name == "clerk":
        assert (found["spec"], found["harmful"], told) == ("clerks", 1, [])
        return
    assert found["spec"] is None
    assert [(each.kind, each.revised_from) for each in told] == [(Kind.SELF_LOOP, Kind.HARMFUL)]
    assert not any(pair.final for pair in judge.totals.pairs.values())
    assert judge.totals.pairs["clerk", "clerks"].active == 0


def test_a_final_verdict_keeps_its_spec() -> None:
    """A better name after the window affects only later verdicts."""
    judge = monitor(CLERKS)
    judge.observe(call(1, "dance"), NOW)
    heard(judge, "clerk", START + SECOND)
    judge.tick(NOW + 11 * SECOND)
    heard(judge, "chief", START)
    (found,) = judge.find("s")

    assert (found["agent"], found["spec"], found["harmful"]) == ("chief", "clerks", 1)
    assert judge.totals.pairs["clerk", "clerks"].final.total() == 1


def test_the_earliest_name_is_remembered() -> None:
    """Of several spans before the first call, the one that started first names the agent."""
    judge = monitor(TASK)
    heard(judge, "second", START + SECOND)
    heard(judge, "first", START)
    heard(judge, "third", START + 2 * SECOND)
    judge.observe(call(1, "pick"), NOW)

    assert judge.find("s")[0]["agent"] == "first"


def test_what_was_heard_moves_with_the_id() -> None:
    """An agent's name known from a trace without calls moves to the conversation, which has calls."""
    judge = monitor(TASK)
    trace = SessionKey("", "trace")
    judge.learn(
        trace,
        NOW,
        attributes=ATTRIBUTES,
        start_ns=START,
        named=AgentName(START, b"root", "clerk"),
    )
    judge.observe(call(1, "pick"), NOW)
    assert judge.rekey(trace, KEY, "gen_ai.conversation.id", NOW)

    assert judge.find("s")[0]["agent"] == "clerk"


def test_a_session_heard_of_before_the_start_is_joined() -> None:
    """A span without a call that began before the process started makes the session joined."""
    judge = Monitor(specs(TASK), Limits(), started_ns=START + SECOND)
    heard(judge, "clerk", START)
    judge.observe(call(5, "pay"), NOW)
    (found,) = judge.find("s")

    assert (found["joined"], found["harmful"]) == (True, 0)


@pytest.mark.parametrize("first", ["shop", "office"])
def test_specs_of_two_services_judge_all_calls(first: str) -> None:
    """A conversation of two services is judged under the specs of both, from its first call."""
    office = TASK.replace("id: shop", "id: office").replace(
        "service.name: shop", "service.name: office"
    )
    judge = monitor(TASK, office)
    mine = call(1, "pick")
    theirs = call(2, "pay", attributes={"service.name": "office"})
    for each in (mine, theirs) if first == "shop" else (theirs, mine):
        judge.observe(each, NOW)
    found = {each["spec"]: each for each in judge.find("s")}

    assert {spec: each["calls"] for spec, each in found.items()} == {"shop": 2, "office": 2}
    assert all(each["exact"] and each["state"] == "G2" for each in found.values())


def test_a_spec_that_binds_after_minutes_says_so() -> None:
    """Calls that waited without a spec are judged whenever one binds: verdicts come late then."""
    judge = monitor(CLERKS)
    judge.observe(call(1, "pick"), NOW)
    judge.tick(NOW + 11 * SECOND)
    heard(judge, "clerk")
    judge.tick(NOW + 22 * SECOND)
    (found,) = judge.find("s")

    assert (found["bound_late"], found["calls"], found["joined"]) == (True, 1, False)
    assert found["steps"][0]["final"] is True


# --- ends -----------------------------------------------------------------------------------------


def test_a_session_that_returns_counts_once() -> None:
    """Back within the hold time it is one session in the gauges; and one when it ends again."""
    judge = monitor(TASK, idle_ns=60 * SECOND, hold_ns=600 * SECOND)
    judge.observe(call(1, "pay"), NOW)
    judge.tick(NOW + 61 * SECOND)
    pair = judge.totals.pairs["shop", "shop"]
    assert (pair.active, pair.sessions, pair.harmful) == (0, 1, 1)

    judge.observe(call(2, "pay"), NOW + 62 * SECOND)
    assert (pair.active, pair.sessions, pair.harmful) == (1, 1, 2)
    assert pair.scores["pc"] == (0, 0)
    judge.tick(NOW + 123 * SECOND)
    assert (pair.active, pair.sessions, pair.harmful, pair.finished) == (0, 1, 2, 1)
    assert pair.scores["pc"][1] == 1
    judge.tick(NOW + 800 * SECOND)
    assert (pair.sessions, pair.harmful, pair.scores["pc"]) == (0, 0, (0, 0))


def test_returning_sessions_keep_within_the_bound() -> None:
    """A session that comes back when all places are taken evicts the least recently active."""
    judge = monitor(TASK, idle_ns=60 * SECOND, sessions_max=2)
    judge.observe(call(1, "pick"), NOW)
    judge.tick(NOW + 61 * SECOND)
    for name in ("a", "b"):
        judge.observe(call(2, "pick", session=SessionKey("", name)), NOW + 62 * SECOND)
    judge.observe(call(3, "pay"), NOW + 63 * SECOND)

    assert judge.sessions == 2
    assert judge.find("a")[0]["ended"] == "evicted"
    assert judge.find("s")[0]["ended"] is None
    assert judge.counters.ended == {"idle": 1, "evicted": 1}


# --- what is left of calls that were taken back -----------------------------------------------------


RESPONSE = """
id: response
kind: policy
alphabet: {pay: {tool: pay}, book: {tool: book}}
constraints: [{response: [pay, book]}]
idle: 2
"""


def test_the_times_of_calls_that_are_none_are_forgotten() -> None:
    """A session's times are those of its calls, also where no spec names all of them."""
    judge = monitor(RESPONSE)
    seen = [call(5, "pay"), call(6, "greet"), call(8, "pay"), call(9, "greet")]
    gone = [
        call(0, "pay", end_ns=START + 90 * SECOND),
        call(1, "greet", end_ns=START + 99 * SECOND),
    ]
    for each in [*seen, *gone]:
        judge.observe(each, NOW)
    for each in gone:
        judge.retract(each)
    (found,) = judge.find("s")

    assert (found["started"], found["last"]) == (seen[0].start_ns, seen[-1].end_ns)


def test_the_times_of_a_call_follow_its_fuller_span() -> None:
    """A call that is read again has one start and one end, those of its latest span."""
    judge = monitor(RESPONSE)
    old, other = call(0, "greet", end_ns=START + 90 * SECOND), call(5, "pay")
    for each in (old, other):
        judge.observe(each, NOW)
    new = call(6, "greet", span_id=old.span_id)
    judge.corrections.amend(old, new, NOW)
    (found,) = judge.find("s")

    assert (found["started"], found["last"]) == (other.start_ns, new.end_ns)


def test_folded_calls_keep_their_part_of_the_times() -> None:
    """A withdrawn call leaves the times of the folded calls unchanged."""
    judge = folded(TASK)
    late = call(300, "look")
    judge.observe(late, START + 301 * SECOND)
    judge.retract(late)
    (found,) = judge.find("s")

    assert found["steps_folded"]
    assert (found["started"], found["last"]) == (START, call(199, "look").end_ns)


def test_a_session_that_ended_goes_on_after_its_call_was_taken_back() -> None:
    """A later call withdraws the end's verdicts, even if no spec names that call."""
    judge = monitor(RESPONSE)
    made = call(0, "pay")
    judge.observe(made, START + SECOND)
    judge.tick(START + 20 * SECOND)
    assert [each.kind for each in judge.news()] == [Kind.STALLED]
    judge.end(KEY, START + 21 * SECOND)
    judge.retract(made)
    told = judge.observe(call(22, "greet"), START + 23 * SECOND)

    assert [(each.kind, each.revised_from) for each in told] == [(Kind.SELF_LOOP, Kind.STALLED)]


def test_a_session_with_two_names_is_counted_once() -> None:
    """A name that arrives after the first final verdicts does not count the session twice."""
    judge = monitor(TASK)
    judge.observe(call(0, "pick", session=SessionKey("", "trace")), START + SECOND)
    judge.tick(START + 20 * SECOND)
    judge.observe(call(20, "pay"), START + 21 * SECOND)
    assert judge.rekey(SessionKey("", "trace"), KEY, "x", START + 22 * SECOND)
    judge.tick(START + 60 * SECOND)

    assert judge.totals.pairs["shop", "shop"].started == 1


def test_what_was_told_under_the_id_of_a_part_is_taken_back() -> None:
    """A call whose fuller span has another id: its alarm goes over to it, and neither id keeps a wrong one."""
    judge = monitor(TASK)
    part = call(2, "pay")
    whole = part._replace(span_id=b"outerspn")
    [first] = judge.observe(part, NOW)
    gone, anew = judge.corrections.amend(part, whole, NOW)
    revised = judge.observe(call(1, "pick"), NOW)

    assert first.kind is Kind.HARMFUL
    assert (gone.span_id, gone.kind, gone.revised_from) == (
        part.span_id,
        Kind.SELF_LOOP,
        Kind.HARMFUL,
    )
    assert (anew.span_id, anew.kind, anew.revised_from) == (
        whole.span_id,
        Kind.HARMFUL,
        None,
    )
    assert [(each.span_id, each.kind) for each in revised if each.revised_from] == [
        (whole.span_id, Kind.PROGRESS)
    ]


TURNS = """
id: turns
kind: task
match: {service.name: shop}
scope: turn
alphabet: {pick: {tool: pick}, pay: {tool: pay}}
golden: [[pick, pay]]
"""


@pytest.mark.parametrize(
    ("text", "changes"),
    [(TURNS, {"trace_id": b"another trace..."}), (POLICY, {"arguments": {"amount": 5}})],
    ids=["another part", "no call of the spec"],
)
def test_a_harm_that_leaves_its_part_is_taken_back(text: str, changes: dict[str, Any]) -> None:
    """A fuller span may put a call into another turn, or out of a policy: what was told of it there is withdrawn."""
    judge = monitor(text)
    old = call(1, "pay", arguments={"amount": 50})
    [told] = judge.observe(old, NOW)
    gone, *_ = judge.corrections.amend(old, old._replace(span_id=b"outerspn", **changes), NOW)

    assert told.kind is Kind.HARMFUL
    assert (gone.span_id, gone.kind, gone.revised_from) == (
        old.span_id,
        Kind.SELF_LOOP,
        Kind.HARMFUL,
    )


def test_verdicts_of_one_call_come_in_their_order() -> None:
    """A harm that a merge has brought comes before the verdict that a correction revises it to."""
    judge = monitor(TASK)
    trace = SessionKey("", "trace")
    pay, pick = call(5, "pay"), call(1, "pick", session=trace)
    [first] = judge.observe(pay, NOW)
    judge.observe(pick, NOW)
    assert judge.rekey(trace, KEY, "x", NOW)
    pick = pick._replace(session=KEY)
    told = judge.retract(pick)

    assert first.kind is Kind.HARMFUL
    assert [each.kind for each in told if each.span_id == pay.span_id] == [
        Kind.PROGRESS,
        Kind.HARMFUL,
    ]
    assert judge.news() == []
