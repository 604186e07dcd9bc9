"""The client of a service: decisions, deadlines, failures, outcomes."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from collector.dialects.names.name_bound import bounded
from offrails_guard import Call, Decision, Guard
from offrails_guard.lenient_json import UNREAD
from tests.end_to_end.loopback import free_port
from tests.offrails_guard.conftest import Make
from tests.offrails_guard.double import DENIED, Double, running

SOON = 0.02
"""Seconds of a deadline that a test reaches."""

Check = Callable[..., Decision]


def _plain(guard: Guard) -> Check:
    return guard.check


def _awaited(guard: Guard) -> Check:
    def check(*args: Any, **options: Any) -> Decision:
        return asyncio.run(guard.acheck(*args, **options))

    return check


both = pytest.mark.parametrize("form", [_plain, _awaited])


# --- decisions -----------------------------------------------------------------------------------


@both
def test_an_allowed_call(double: Double, make: Make, form: Callable[[Guard], Check]) -> None:
    """The decision allows it, has an id, and the question holds all that is known."""
    guard = make(agent="rover", service="farm", attributes={"tier": "test"})
    decision = form(guard)("scan", {"area": "field 3"}, call_id="c1")

    assert (decision.allowed, decision.decision, decision.message) == (True, "allow", "")
    assert decision.decision_id
    asked = double.asked()
    assert len(asked.pop("question_id")) == 24
    assert asked == {
        "session": "s1",
        "agent": "rover",
        "service": "farm",
        "attributes": {"tier": "test"},
        "tool": "scan",
        "arguments": {"area": "field 3"},
        "call_id": "c1",
        "commit": True,
    }


@both
def test_a_denied_call(make: Make, form: Callable[[Guard], Check]) -> None:
    """The decision denies it, with the service's words for the model."""
    decision = form(make())("water", {})

    assert (decision.allowed, decision.decision, decision.message) == (False, "deny", DENIED)


def test_a_call_that_would_be_denied(make: Make) -> None:
    """Under a spec that advises, the call is allowed, and says that it would be denied."""
    guard = make()
    decision = guard.check("advise", {})

    assert (decision.allowed, decision.would_deny) == (True, True)
    assert guard.counts() == {"allow": 1, "would_deny": 1}


@pytest.mark.parametrize(("setting", "allowed"), [("allow", True), ("deny", False)])
def test_an_unknown_call_is_the_settings(
    double: Double, make: Make, setting: str, allowed: bool
) -> None:
    """Where the service does not know, `on_unknown` decides; a call that is not made is skipped."""
    decision = make(on_unknown=setting).check("what", {})

    assert (decision.allowed, decision.decision) == (allowed, "unknown")
    assert bool(decision.message) is not allowed
    if not allowed:
        assert double.outcome() == (decision.decision_id, "skipped")


@pytest.mark.parametrize(
    ("enforced", "allowed"),
    [(["advise"], True), (["off", "advise"], True), (["advise", "block"], False), ([], False)],
)
def test_specs_that_advise_stop_no_call_that_they_do_not_know(
    double: Double, make: Make, enforced: list[str], allowed: bool
) -> None:
    """`on_unknown` is about specs that block; an answer without specs counts as that of one."""
    double.specs = [{"decision": "unknown", "enforce": each} for each in enforced]
    decision = make(on_unknown="deny").check("what", {})

    assert (decision.allowed, decision.decision) == (allowed, "unknown")


def test_unknown_arguments_are_not_sent(double: Double, make: Make) -> None:
    """None is no key of the question; no arguments are an empty object."""
    guard = make()
    guard.check("scan")
    guard.check("scan", {})

    assert "arguments" not in double.asked()
    assert double.asked()["arguments"] == {}


@pytest.mark.parametrize(
    "odd",
    [
        *(object(), float("nan"), "\ud800", "x" * 2_000_000, 10**5000, {"deep": [UNREAD]}),
        json.loads("[" * 100 + "]" * 100),
    ],
    ids=["no JSON", "NaN", "half a pair", "too long", "too many digits", "unread", "too deep"],
)
def test_a_value_that_cannot_be_sent_is_unknown(double: Double, make: Make, odd: Any) -> None:
    """The call is asked for, with its other arguments."""
    assert make().check("water", {"odd": odd, "field": 3}).decision == "deny"
    asked = double.asked()
    assert (asked["arguments"], asked["unread"]) == ({"field": 3}, ["odd"])


@pytest.mark.parametrize(
    "arguments",
    [{(1, 2): 3}, {str(n): n for n in range(1_025)}, {"n" * 300_000: 1}],
    ids=["no text", "too many", "too long"],
)
def test_names_that_cannot_be_sent_make_all_arguments_unknown(
    double: Double, make: Make, arguments: dict[Any, Any]
) -> None:
    """Nobody knows which argument it is: the call is asked for by its tool alone."""
    assert make().check("water", arguments).decision == "deny"
    assert not {"arguments", "unread"} & set(double.asked())


def test_half_a_pair_in_a_name_takes_no_other_argument_with_it(
    double: Double, make: Make
) -> None:
    """A name with one is no spec's: its argument has another name then."""
    make().check("water", {"\ud800": 1, "field": 3})
    assert double.asked()["arguments"] == {"?": 1, "field": 3}


def test_long_values_take_no_others_with_them(double: Double, make: Make) -> None:
    """Of parallel calls that are too long together, the longest values are unknown, about as few as will do."""
    long, longer = {"x": "é" * 40_000, "y": 1}, {"x": "é" * 130_000, "y": 1}
    calls = [Call("scan", longer), Call("log", long), Call("water", {"field": 3})]
    assert [each.decision for each in make().check_all(calls)] == ["allow", "allow", "deny"]

    asked = [(each["arguments"], each.get("unread", [])) for each in double.asked()["calls"]]
    assert asked == [({"y": 1}, ["x"]), (long, []), ({"field": 3}, [])]


@pytest.mark.parametrize("long", ["x" * 1_300, "é" * 600, "\U0001f600" * 300])
def test_long_ids_are_cut_as_those_of_spans_are(double: Double, make: Make, long: str) -> None:
    """A gateway puts a model's signature into the id of a call: with it whole, the service would refuse the question."""
    make(session=long, agent=long).check("scan", {}, call_id=long)
    asked = double.asked()
    assert [asked[each] for each in ("session", "agent", "call_id")] == [bounded(long)] * 3


def test_arguments_that_the_service_cannot_read_are_unknown(double: Double, make: Make) -> None:
    """A 400 for what an agent says does not let its call pass: it is asked for once more without."""
    double.mode = "arguments_unreadable"

    assert make().check("water", {"field": 3}).decision == "deny"
    asked = [double.asked() for _ in range(2)]
    assert [each.get("arguments") for each in asked] == [{"field": 3}, None]
    assert asked[0]["question_id"] == asked[1]["question_id"]  # it is the same check


@both
def test_each_check_is_a_question_of_its_own(
    make: Make, double: Double, form: Callable[[Guard], Check]
) -> None:
    """Two checks with one call id are two calls, also in a forked process: their questions have two ids."""
    guard = make()
    for _ in range(2):
        form(guard)("scan", {}, call_id="scan", trace_id="a" * 32, span_id="b" * 16)
    guard.check_all([Call("scan", {}, "scan"), Call("scan", {}, "scan")])
    child = os.fork()
    if child == 0:
        guard.check("scan", {}, call_id="scan")
        os._exit(0)
    os.waitpid(child, 0)
    guard.check("scan", {}, call_id="scan")

    assert len({double.asked()["question_id"] for _ in range(5)}) == 5


def test_a_tool_name_that_is_no_text_is_asked_for(double: Double, make: Make) -> None:
    """Half a surrogate pair in a tool's name keeps no call from being asked for."""
    assert make().check("\ud800", {}).decision == "allow"
    assert double.asked()["tool"] == "?"


@both
def test_parallel_calls_are_one_question(
    double: Double, make: Make, form: Callable[[Guard], Check]
) -> None:
    """A batch goes out at once, and its decisions come back in order."""
    guard = make()
    calls = [Call("scan", {}, "c1"), Call("water", {}, "c2"), Call("log", {}, "c3")]
    found = guard.check_all(calls) if form is _plain else asyncio.run(guard.acheck_all(calls))

    assert [each.decision for each in found] == ["allow", "deny", "allow"]
    assert [each["call_id"] for each in double.asked()["calls"]] == ["c1", "c2", "c3"]


def test_only_asking_commits_nothing(double: Double, make: Make) -> None:
    """`commit=False` is passed on."""
    make().check("scan", {}, commit=False)

    assert double.asked()["commit"] is False


def test_the_session_can_be_a_function(double: Double, make: Make) -> None:
    """The id is asked for at each check; a check can name another; one that fails leaves the trace."""
    ids = iter(["a", "b"])
    guard = make(session=lambda: next(ids))
    guard.check("scan")
    guard.check("scan", session="other")
    guard.check("scan")
    guard.check("scan", trace_id="0" * 31 + "1")

    assert [double.asked().get("session") for _ in range(4)] == ["a", "other", "b", None]


def test_one_connection_is_kept(double: Double, make: Make) -> None:
    """It is opened when the guard is made, and serves every check of one thread."""
    guard = make()
    opened = double.connections
    for _ in range(10):
        guard.check("scan")

    assert (opened, double.connections) == (1, 1)


def test_a_unix_socket(tmp_path: Path) -> None:
    """The service can be asked over a socket of the file system."""
    with running(tmp_path / "decide.sock") as double, Guard(double.url) as guard:
        assert guard.check("water", {}, session="s").decision == "deny"


def test_the_token_is_sent(double: Double, make: Make) -> None:
    """With the right token there is an answer; without it the call is the setting's."""
    double.token = "secret"
    right, wrong = make(token="secret"), make(token="other")

    assert right.check("water", {}).decision == "deny"
    assert wrong.check("water", {}).unavailable == "unauthorized"


@pytest.mark.parametrize("url", ["", "decide.example", "ftp://h", "unix:", "http://"])
def test_a_bad_address_is_refused(url: str) -> None:
    """What is no URL of a service is said when the guard is made."""
    with pytest.raises(ValueError, match=r"expected http://HOST:PORT|expected the path"):
        Guard(url)


def test_bad_settings_are_refused(double: Double) -> None:
    """So are settings that are neither allow nor deny, and attributes that JSON does not have."""
    with pytest.raises(ValueError, match="on_unavailable"):
        Guard(double.url, on_unavailable="maybe")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="attributes"):
        Guard(double.url, attributes={"x": object()})


# --- nobody can be asked ---------------------------------------------------------------------------

FAILURES = {
    "hang": "deadline",
    "500": "error",
    "429": "overloaded",
    "503": "overloaded",
    "404": "refused",
    "403": "unauthorized",
    "garbage": "unreadable",
    "no_decision": "unreadable",
    "half": "connection",
}


@both
@pytest.mark.parametrize("mode", FAILURES)
@pytest.mark.parametrize(("setting", "allowed"), [("allow", True), ("deny", False)])
def test_a_failing_service_leaves_it_to_the_setting(
    double: Double,
    make: Make,
    mode: str,
    setting: str,
    allowed: bool,
    form: Callable[[Guard], Check],
) -> None:
    """Whatever fails, the decision is the setting's, says why, and is counted."""
    deadline = {"deadline_seconds": SOON} if mode == "hang" else {}
    guard = make(on_unavailable=setting, **deadline)
    double.mode = mode
    decision = form(guard)("water", {})

    assert (decision.allowed, decision.decision) == (allowed, "unavailable")
    assert decision.unavailable == FAILURES[mode]
    assert ("try it again later" in decision.message) is not allowed
    assert guard.counts() == {FAILURES[mode]: 1, "unjudged": 1}


@both
@pytest.mark.parametrize(("setting", "allowed"), [("allow", True), ("deny", False)])
def test_no_service_at_all(
    make: Make, setting: str, allowed: bool, form: Callable[[Guard], Check]
) -> None:
    """A refused connection is the setting's, too; a batch gets one decision for each call."""
    guard = make(f"http://127.0.0.1:{free_port()}", on_unavailable=setting)

    assert form(guard)("water", {}).unavailable == "connection"
    found = guard.check_all([Call("scan"), Call("water")])
    assert [each.allowed for each in found] == [allowed, allowed]
    assert guard.counts() == {"connection": 3, "unjudged": 3}


def test_it_answers_again_when_the_service_is_back(make: Make) -> None:
    """A guard that was made before its service finds it, without being made again."""
    port = free_port()
    guard = make(f"http://127.0.0.1:{port}")
    before = guard.check("water", {})
    with running(port=port):
        after = guard.check("water", {})

    assert (before.decision, after.decision) == ("unavailable", "deny")


def test_each_kind_of_failure_is_logged_once(
    double: Double, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """Three failures of one kind are one line, and a count of three."""
    double.mode = "500"
    guard = make()
    with caplog.at_level(logging.WARNING, "offrails.guard"):
        for _ in range(3):
            guard.check("scan")

    assert [record.args for record in caplog.records] == [("error", "made")]
    assert guard.counts() == {"error": 3, "unjudged": 3}


@both
@pytest.mark.parametrize("tool", ["scan", "water"])
@pytest.mark.parametrize(("setting", "outcome"), [("allow", "ran"), ("deny", "skipped")])
def test_a_late_answer_is_settled(
    double: Double,
    make: Make,
    setting: str,
    outcome: str,
    tool: str,
    form: Callable[[Guard], Check],
) -> None:
    """The service learns whether a call was made whose answer came late, be it allowed or denied."""
    guard = make(on_unavailable=setting, deadline_seconds=SOON)
    double.mode = "hang"
    assert form(guard)(tool, {}).unavailable == "deadline"
    double.resume.set()

    assert double.outcome() == ("d1", outcome)


def test_a_check_that_is_cancelled_is_skipped(double: Double, make: Make) -> None:
    """An agent that gives up while it waits makes no call, and the service learns that."""
    guard = make()
    double.mode = "hang"

    async def give_up() -> None:
        task = asyncio.create_task(guard.acheck("scan", {}))
        await asyncio.to_thread(double.asked)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())
    double.resume.set()

    assert double.outcome() == ("d1", "skipped")


@pytest.mark.parametrize("bound", ["REQUESTS_MAX", "REQUESTS_BYTES_MAX"])
def test_a_hanging_service_takes_no_more_than_its_share(
    double: Double, make: Make, bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond a bound of questions on their way, and one of their bytes, a call is the setting's at once."""
    guard = make(deadline_seconds=0)
    double.mode = "hang"
    monkeypatch.setattr(
        f"offrails_guard.transport.connection.{bound}", 20 if bound == "REQUESTS_MAX" else 2_000
    )
    for _ in range(20):
        assert guard.check("scan", {"x": "x" * 70}).unavailable in ("deadline", "busy")

    assert guard.check("scan", {"x": "x" * 70}).unavailable == "busy"


def test_a_fault_of_ours_fails_no_agent(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception in the guard is a decision by the setting, and in the log."""
    guard = make()
    monkeypatch.setattr("offrails_guard.question.Question.body", lambda _: 1 / 0)

    assert guard.check("scan").unavailable == "internal"
    assert "ZeroDivisionError" in caplog.text


# --- outcomes --------------------------------------------------------------------------------------


def test_outcomes_are_sent(double: Double, make: Make) -> None:
    """The id and the word arrive; no id is no outcome."""
    guard = make()
    guard.outcome("", "ran")
    guard.outcome("d7", "failed")

    assert double.outcome() == ("d7", "failed")


def test_a_refused_call_is_skipped(double: Double, make: Make) -> None:
    """Whoever obeys a denial says so; the word goes out once, also for a call that the service counted on."""
    guard = make(on_unknown="deny")
    for tool in ("water", "what"):
        guard.refused(guard.check(tool, {}))
    guard.close()

    assert sorted(double.outcome() for _ in range(2)) == [("d1", "skipped"), ("d2", "skipped")]
    assert double.outcomes.empty()


def test_a_denial_alone_is_no_outcome(double: Double, make: Make) -> None:
    """A check does not know whether its caller obeys, so it does not say that the call is not made."""
    guard = make()
    guard.check("water", {})
    guard.close()

    assert double.outcomes.empty()


def test_closing_waits_for_outcomes(double: Double, make: Make) -> None:
    """What is on its way when a guard is closed has arrived afterwards."""
    guard = make()
    for number in range(20):
        guard.outcome(f"d{number}", "ran")
    guard.close()

    assert double.outcomes.qsize() == 20


def test_an_outcome_has_its_result(double: Double, make: Make) -> None:
    """A result arrives as JSON, and what JSON does not have in it as a text."""
    guard = make()
    guard.outcome("d1", "ran", ({"status": "ok", "path": Path("a")},))
    guard.close()

    assert double.results == [{"status": "ok", "path": "a"}]
    assert guard.counts() == {}


UNREAD_RESULTS: list[Any] = [
    float("nan"),
    {(1, 2): "a"},
    "\ud800",
    "a" * (256 << 10),
    json.loads("[" * 100 + "]" * 100),
]
"""Results that no service reads."""


@pytest.mark.parametrize("result", UNREAD_RESULTS, ids=["nan", "key", "half", "long", "deep"])
def test_a_result_that_nobody_reads_costs_no_outcome(
    double: Double, make: Make, result: Any
) -> None:
    """The outcome arrives without it, and the loss is counted."""
    guard = make()
    guard.outcome("d1", "ran", (result,))
    guard.close()

    assert (double.outcome(), double.results) == (("d1", "ran"), [])
    assert guard.counts() == {"results_lost": 1}


def test_a_result_that_the_service_refuses_costs_no_outcome(double: Double, make: Make) -> None:
    """A service of an earlier version, or with a smaller bound, gets the outcome alone."""
    double.mode = "result_unreadable"
    guard = make()
    guard.outcome("d1", "failed", ({"status": "ok"},))
    guard.close()

    assert (double.outcome(), double.results) == (("d1", "failed"), [])
    assert guard.counts() == {"results_lost": 1}


def test_a_lost_outcome_is_counted(double: Double, make: Make) -> None:
    """A service that refuses it, or is gone, costs a count, and no exception."""
    guard = make(f"http://127.0.0.1:{free_port()}")
    guard.outcome("d1", "ran")
    guard.close()

    assert guard.counts() == {"outcomes_lost": 1}


# --- threads, loops, processes -----------------------------------------------------------------------


def test_threads_share_a_guard(double: Double, make: Make) -> None:
    """Checks of many threads at a time each get their own answer."""
    guard = make()
    tools = ["scan", "water", "what", "log"] * 4
    found: list[str] = [""] * len(tools)
    start = threading.Barrier(len(tools))

    def check(number: int) -> None:
        start.wait()
        found[number] = guard.check(tools[number], {}).decision

    threads = [threading.Thread(target=check, args=(n,)) for n in range(len(tools))]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    words = {"water": "deny", "what": "unknown"}
    assert found == [words.get(tool, "allow") for tool in tools]


@both
def test_many_calls_at_once_are_all_asked_about(
    double: Double, make: Make, form: Callable[[Guard], Check]
) -> None:
    """A service that answers one call after the other is healthy: none goes on since it was the last of a turn."""
    double.turn_seconds = 0.02
    guard = make(deadline_seconds=0.5)
    count = 40  # together they take longer than the deadline

    async def tasks() -> list[Decision]:
        return await asyncio.gather(*(guard.acheck("water", {}) for _ in range(count)))

    if form is _plain:
        with ThreadPoolExecutor(count) as pool:
            found = list(pool.map(lambda _: guard.check("water", {}), range(count)))
    else:
        found = asyncio.run(tasks())

    assert {each.decision for each in found} == {"deny"}


def test_tasks_share_a_guard(make: Make) -> None:
    """So do tasks of one event loop, and a second loop after it."""
    guard = make()

    async def both_at_once() -> list[str]:
        checks: list[Awaitable[Decision]] = [guard.acheck("scan"), guard.acheck("water")]
        return [each.decision for each in await asyncio.gather(*checks)]

    assert asyncio.run(both_at_once()) == ["allow", "deny"]
    assert asyncio.run(both_at_once()) == ["allow", "deny"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes do not fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_has_its_own_connection(double: Double, make: Make) -> None:
    """A worker that is forked from a process with a guard can ask through it."""
    guard = make()
    child = os.fork()
    if child == 0:
        os._exit(0 if guard.check("water", {}).decision == "deny" else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert guard.check("water", {}).decision == "deny"
