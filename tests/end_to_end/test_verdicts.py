"""Verdicts of the service, as a client sees them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.service import eventually
from tests.end_to_end.traffic import GOLDEN, send

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve
    from tests.end_to_end.service import Service
    from tests.end_to_end.traffic import Rover

Rovers = Callable[..., "Rover"]


def kinds(judgement: dict[str, Any]) -> list[str]:
    return [step["kind"] for step in judgement["steps"]]


def test_the_golden_path_is_accepted(shared: Service, rover: Rovers) -> None:
    """Six calls in order: no harm, every score at its best, the session in its final state."""
    session = rover().calls(*GOLDEN)

    send(shared, session.spans)
    found = shared.judgement(session.session)

    assert kinds(found) == ["progress"] * 6
    assert (found["calls"], found["substantive"], found["harmful"]) == (6, 6, 0)
    assert (found["harm_rate"], found["prefix_crit"]) == (0, 1)
    assert (found["pc"], found["pc_ktc"], found["efficiency"]) == (1, 1, 1)
    assert (found["accepting"], found["state"], found["exact"]) == (True, "done", True)


def test_water_before_the_valve(shared: Service, rover: Rovers) -> None:
    """It is harmful, out of order; the shortest way is named, and nothing has moved."""
    session = rover().calls("unlock_safety", "move", "scan", "water")

    send(shared, session.spans)
    before, harm = shared.judgement(session.session)["steps"][-2:]

    assert (harm["kind"], harm["reason"]) == ("harmful", "out_of_order")
    assert harm["symbol"] == "water"
    assert harm["skipped"] == ["open_valve"]
    assert "water" not in harm["allowed"]
    assert "open_valve" in harm["allowed"]
    assert before["state"] == harm["state"] == "scanned"


@pytest.mark.parametrize(
    ("done", "skipped"),
    [
        ([], ["unlock_safety", "move", "scan", "open_valve"]),
        (["unlock_safety"], ["move", "scan", "open_valve"]),
        (["unlock_safety", "move"], ["scan", "open_valve"]),
        (["unlock_safety", "move", "scan"], ["open_valve"]),
    ],
)
def test_skipped_is_the_true_shortest_way(
    shared: Service, rover: Rovers, done: list[str], skipped: list[str]
) -> None:
    """In each state, `skipped` leads to one where water is allowed."""
    session = rover().calls(*done, "water")

    send(shared, session.spans)
    harm = shared.judgement(session.session)["steps"][-1]
    repaired = rover().calls(*done, *skipped, "water")
    send(shared, repaired.spans)

    assert harm["skipped"] == skipped
    assert set(kinds(shared.judgement(repaired.session))) == {"progress"}


def test_open_valve_still_progresses_after_the_harm(shared: Service, rover: Rovers) -> None:
    """The right call gets the rover on, to the end."""
    session = rover().calls(
        "unlock_safety", "move", "scan", "water", "open_valve", "water", "log"
    )

    send(shared, session.spans)
    found = shared.judgement(session.session)

    assert kinds(found) == ["progress"] * 3 + ["harmful"] + ["progress"] * 3
    assert (found["harmful"], found["substantive"]) == (1, 7)
    assert found["harm_rate"] == pytest.approx(1 / 7, abs=1e-12)
    assert found["accepting"] is True


def test_every_reason_a_rover_can_give(shared: Service, rover: Rovers) -> None:
    """Unknown tools, repetitions and calls after the end have different reasons."""
    session = rover().calls("fly", *GOLDEN[:5], "water", "log", "move")

    send(shared, session.spans)
    found = shared.judgement(session.session)

    reasons = {(step["tool"], step["reason"]) for step in found["steps"] if step["reason"]}
    assert reasons == {("fly", "unknown_tool"), ("water", "repeated"), ("move", "after_final")}
    unknown = found["steps"][0]
    assert (unknown["symbol"], unknown["skipped"]) == (None, [])


def test_a_failed_call_has_no_effect(shared: Service, rover: Rovers) -> None:
    """A failure where the call is defined is a self-loop with a reason; the retry progresses."""
    session = rover().calls("unlock_safety").call("move", {}, error=True).calls("move")

    send(shared, session.spans)
    _, failed, again = shared.judgement(session.session)["steps"]

    assert (failed["kind"], failed["reason"], failed["error"]) == (
        "self_loop",
        "failed_call",
        True,
    )
    assert (failed["symbol"], failed["state"]) == ("move", "unlocked")
    assert (again["kind"], again["reason"]) == ("progress", None)


def test_the_policy_judges_only_what_it_names(shared: Service, rover: Rovers) -> None:
    """The second judgement of a session has two of its calls, and no scores."""
    session = rover().calls("unlock_safety", "water", "open_valve")

    send(shared, session.spans)
    found = shared.judgement(session.session, "rover_policy")

    assert [step["tool"] for step in found["steps"]] == ["water", "open_valve"]
    assert found["steps"][0]["constraint"] == "precedence: [open_valve, water]"
    scores = ("harm_rate", "prefix_crit", "pc", "pc_ktc", "pc_hlr", "efficiency")
    assert {found[score] for score in scores} == {None}


def test_a_session_no_spec_matches(shared: Service, rover: Rovers) -> None:
    """The API gives one object with its steps, without verdicts."""
    session = rover().calls("unlock_safety", "water")

    send(shared, session.spans, resource={"service.name": "somebody-else"})
    (found,) = eventually(lambda: shared.judgements(session.session))

    assert found["spec"] is None
    assert [(s["tool"], s["kind"]) for s in found["steps"]] == [
        ("unlock_safety", None),
        ("water", None),
    ]


def test_both_dialects_are_read_alike(shared: Service, rover: Rovers) -> None:
    """OpenInference spans give the same steps as those of the GenAI conventions."""
    ours, theirs = rover(), rover()
    for tool in ("unlock_safety", "water", "move"):
        ours.call(tool, {"n": 1})
        theirs.openinference(tool, {"n": 1})

    send(shared, ours.spans)
    send(shared, theirs.spans)

    def gist(session: str) -> list[tuple[Any, ...]]:
        keys = ("tool", "arguments", "symbol", "kind", "reason", "state")
        steps = shared.judgement(session)["steps"]
        return [tuple(json.dumps(step[key]) for key in keys) for step in steps]

    assert gist(ours.session) == gist(theirs.session)


def test_unreadable_arguments_are_judged_and_counted(shared: Service, rover: Rovers) -> None:
    """A call whose arguments are no JSON is a call all the same: `arguments` is null."""
    before = shared.metric("offrails_arguments_unreadable_total", dialect="gen_ai")
    session = rover().call("unlock_safety", "{'not': json").call("move", '"a text"')

    send(shared, session.spans)
    found = shared.judgement(session.session)

    assert [step["arguments"] for step in found["steps"]] == [None, None]
    assert kinds(found) == ["progress", "progress"]
    assert found["calls"] == 2
    after = shared.metric("offrails_arguments_unreadable_total", dialect="gen_ai")
    assert after - before == 2


def test_the_session_id_may_come_last(shared: Service, rover: Rovers) -> None:
    """Calls wait under their trace until one of its spans names the session."""
    session = rover(told_on="root").calls("unlock_safety", "move").root("driver")
    calls, root = session.spans[:-1], session.spans[-1:]

    send(shared, calls)
    (waiting,) = [
        each
        for each in shared.judgements(session.spans[0].trace_id.hex())
        if each["spec"] == "farm_rover"
    ]
    send(shared, root)
    found = shared.judgement(session.session)

    assert (waiting["session_from"], waiting["calls"]) == ("trace", 2)
    assert (found["session_from"], found["calls"]) == ("gen_ai.conversation.id", 2)
    assert found["agent"] == "driver"
    assert shared.judgements(session.spans[0].trace_id.hex()) == [found]


def test_two_turns_of_one_conversation(shared: Service, rover: Rovers) -> None:
    """Traces with one conversation id are one session, in order of their starts."""
    session = rover(told_on="root").calls(*GOLDEN[:3]).root().calls(*GOLDEN[3:]).root()
    first, second = session.spans[:4], session.spans[4:]

    send(shared, second)
    send(shared, first)
    found = shared.judgement(session.session)

    assert [step["tool"] for step in found["steps"]] == list(GOLDEN)
    assert found["harmful"] == 0


def test_namespaces_keep_sessions_apart(shared: Service, rover: Rovers) -> None:
    """Session "1" of two deployments is two sessions; the API can be asked for one."""
    ours, theirs = rover("one").calls("unlock_safety"), rover("one").calls("water")

    send(shared, ours.spans, resource={"service.name": "farm-rover", "service.namespace": "a"})
    send(
        shared, theirs.spans, resource={"service.name": "farm-rover", "service.namespace": "b"}
    )

    both = [e for e in shared.judgements("one") if e["spec"] == "farm_rover"]
    assert {(each["namespace"], each["harmful"]) for each in both} == {("a", 0), ("b", 1)}
    only = [e for e in shared.judgements("one", namespace="a") if e["spec"] == "farm_rover"]
    assert [each["harmful"] for each in only] == [0]


def test_show_arguments_shows_them(shared: Service, rover: Rovers) -> None:
    """With the setting, the API shows the span's arguments; {} and missing arguments differ."""
    session = rover().call("unlock_safety", {}).call("move", {"x": 3, "y": [1, None]})
    session.call("scan")

    send(shared, session.spans)
    steps = shared.judgement(session.session)["steps"]

    assert [s["arguments"] for s in steps] == [{}, {"x": 3, "y": [1, None]}, None]


def test_arguments_appear_nowhere_by_default(serve: Serve, rover: Rovers) -> None:
    """Without the setting, no listener and no log line shows arguments."""
    service = serve(OFFRAILS_HISTORY="complete")
    session = rover().call("water", {"liters": "s3cr3t-value"}).call("s3cr3t", "s3cr3t-value")

    send(service, session.spans)
    api = json.dumps(service.judgements())
    text = service.get("/metrics", "metrics").body.decode()
    service.stop()

    assert "s3cr3t-value" not in api + text + "\n".join(service.err)
    assert '"tool": "s3cr3t"' in api


def test_a_harmful_call_is_one_log_line(serve: Serve, rover: Rovers) -> None:
    """It is JSON, says why, and names span and trace; other spans write nothing."""
    service = serve("--specs", "dfa_specs/farm_rover.yaml", OFFRAILS_HISTORY="complete")
    session = rover().calls("unlock_safety", "move", "scan", "water", "open_valve")

    send(service, session.spans)
    send(service, session.spans)
    service.stop()
    started, event, stopped = map(json.loads, service.err)

    assert (started["event"], stopped["event"]) == ("started", "stopped")
    assert (event["event"], event["level"]) == ("harmful_call", "warning")
    assert (event["session"], event["spec"], event["tool"]) == (
        session.session,
        "farm_rover",
        "water",
    )
    assert (event["reason"], event["severity"]) == ("out_of_order", "critical")
    assert event["skipped"] == ["open_valve"]
    assert event["span_id"] == session.spans[3].span_id.hex()
    assert event["trace_id"] == session.trace_id.hex()
    assert "arguments" not in event
