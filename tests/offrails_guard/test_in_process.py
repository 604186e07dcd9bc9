"""The guard of a monitor in this process: the same interface, without a service."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from monitor import Limits, Monitor, Verdict
from monitor.limits import SECOND
from offrails_guard import Call, DeniedError, LocalGuard
from offrails_guard.awaiting_outcome.decision_ids import DecisionIds
from offrails_guard.in_process.local_guard import HELD_MAX
from offrails_guard.mcp.gate import Gate
from tests.monitor.test_engine import specs

SHOP = """
id: shop
enforce: block
match: {service.name: shop}
alphabet: {approve: {tool: approve}, pay: {tool: pay, arguments: {amount: {max: 100}}}}
golden: [[approve, pay]]
"""
REFUSED = "refused: `pay` needs `approve` first. Allowed now: `approve`."


class Clock:
    """A second passes whenever the time is asked for."""

    def __init__(self) -> None:
        self.now = 1_800_000_000 * SECOND

    def __call__(self) -> int:
        self.now += SECOND
        return self.now


def make(text: str = SHOP, **options: Any) -> LocalGuard:
    options = {"session": "s1", "agent": "till", "service": "shop", **options}
    monitor = Monitor(specs(text), Limits(history_complete=True))
    return LocalGuard(monitor, clock=Clock(), **options)


def judgement(guard: LocalGuard, session: str = "s1") -> dict[str, Any]:
    [found] = guard.monitor.find(session)
    return found


def test_a_harmful_call_is_denied_until_it_is_right() -> None:
    """Denied with the words of a service, in no score; allowed once what was missing is done."""
    guard = make()
    denied = guard.check("pay", {"amount": 5})
    guard.refused(denied)
    for tool, arguments in (("approve", {}), ("pay", {"amount": 5})):
        decision = guard.check(tool, arguments)
        assert decision.allowed
        guard.outcome(decision.decision_id, "ran")

    assert (denied.allowed, denied.decision, denied.message) == (False, "deny", REFUSED)
    found = judgement(guard)
    assert (found["calls"], found["harmful"], found["accepting"]) == (2, 0, True)
    assert guard.counts() == {"deny": 1, "allow": 2}


def test_a_spec_that_advises_lets_the_call_pass() -> None:
    """The decision says that it would be denied, and why; made, the call is judged as harmful."""
    guard = make(SHOP.replace("block", "advise"))
    decision = guard.check("pay", {"amount": 5})
    guard.outcome(decision.decision_id, "ran")

    assert (decision.allowed, decision.would_deny) == (True, True)
    assert decision.message == REFUSED.replace("refused", "against the rules")
    assert judgement(guard)["harmful"] == 1


@pytest.mark.parametrize(("setting", "allowed"), [("allow", True), ("deny", False)])
def test_an_unknown_call_is_the_settings(setting: Any, allowed: bool) -> None:
    """Where the arguments decide and are not known, `on_unknown` does; what is not allowed does not count."""
    guard = make(on_unknown=setting)
    guard.outcome(guard.check("approve", {}).decision_id, "ran")
    decision = guard.check("pay")

    assert (decision.decision, decision.allowed) == ("unknown", allowed)
    assert "depends on the arguments of the call" in decision.message
    assert decision.raw["committed"] is allowed
    assert judgement(guard)["calls"] == 1


def test_a_spec_that_advises_stops_no_call_that_it_does_not_know() -> None:
    """As it stops none that is harmful: `on_unknown` is about specs that block."""
    guard = make(SHOP.replace("block", "advise"), on_unknown="deny")
    guard.outcome(guard.check("approve", {}).decision_id, "ran")
    decision = guard.check("pay")

    assert (decision.decision, decision.allowed) == ("unknown", True)
    assert decision.raw["committed"]


@pytest.mark.parametrize(("tool", "asked"), [("pay", HELD_MAX + 10), ("look", 600)])
def test_a_call_on_its_way_is_not_pushed_out_by_questions(tool: str, asked: int) -> None:
    """However often a model asks about calls that are denied, or change nothing, its payment counts until it is made."""
    text = SHOP.replace("alphabet: {", "reads: [look]\nalphabet: {look: {tool: look}, ")
    milliseconds = itertools.count(1_800_000_000_000)
    guard = LocalGuard(
        Monitor(specs(text), Limits(history_complete=True)),
        clock=lambda: next(milliseconds) * SECOND // 1_000,
        session="s1",
        service="shop",
    )
    guard.outcome(guard.check("approve", {}).decision_id, "ran")
    paid = guard.check("pay", {"amount": 5})
    for _ in range(asked):
        guard.check(tool, {"amount": 5} if tool == "pay" else {})

    assert paid.allowed
    assert not guard.check("pay", {"amount": 5}).allowed
    guard.outcome(paid.decision_id, "ran")
    assert not guard.check("pay", {"amount": 5}).allowed


def test_guards_of_one_monitor_know_each_others_calls() -> None:
    """A sub-agent with a guard of its own is not allowed what its agent has in flight in the same session."""
    first = make()
    second = LocalGuard(
        first.monitor, clock=Clock(), session="s1", service="shop", lock=first.lock
    )
    first.outcome(first.check("approve", {}).decision_id, "ran")
    paid = first.check("pay", {"amount": 5})
    assert paid.allowed
    assert not second.check("pay", {"amount": 5}).allowed
    first.outcome(paid.decision_id, "failed")
    assert second.check("pay", {"amount": 5}).allowed


def test_a_denied_call_that_is_made_is_judged() -> None:
    """Whoever does not obey says `ran`, and the session has a harmful call."""
    guard = make()
    decision = guard.check("pay", {"amount": 5})
    guard.outcome(decision.decision_id, "ran")

    assert [each["kind"] for each in judgement(guard)["steps"]] == ["harmful"]


def test_parallel_calls_are_one_group() -> None:
    """They are judged as overlapping ones: of the second it is not certain that it comes second."""
    guard = make()
    found = guard.check_all([Call("approve", {}), Call("pay", {"amount": 5})])
    for each in found:
        guard.outcome(each.decision_id, "ran")

    assert [each.decision for each in found] == ["allow", "unknown"]
    assert [each.allowed for each in found] == [True, True]
    assert judgement(guard)["harmful"] == 0


def test_functions_are_asked_for() -> None:
    """A decorated function runs or raises as with a service, plain and async."""
    guard = make()

    @guard.tool
    def approve() -> str:
        return "approved"

    @guard.tool
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    with pytest.raises(DeniedError, match="needs `approve` first"):
        asyncio.run(pay(amount=5))
    assert (approve(), asyncio.run(pay(amount=5))) == ("approved", "paid 5")
    assert judgement(guard)["accepting"]


def test_adapters_take_it() -> None:
    """What stands before a tool takes any guard: here the gate before an MCP server."""
    guard = make()
    gate, held = Gate(guard, "deny"), DecisionIds()
    call = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":{"amount":5}}}'

    def ask(text: bytes) -> bytes | None:
        incoming = gate.read(text)
        assert not isinstance(incoming, bytes)
        return asyncio.run(gate.ask(incoming, held))

    answer = ask(call % (1, b"pay"))
    assert answer is not None
    assert b"needs `approve` first" in answer
    assert ask(call % (2, b"approve")) is None
    gate.settle(b'{"jsonrpc":"2.0","id":2,"result":{}}', held)
    assert judgement(guard)["calls"] == 1


def test_only_asking_changes_nothing() -> None:
    """With `commit=False` there is no session afterwards, and nothing to say of the call."""
    guard = make()
    decision = guard.check("approve", {}, commit=False)

    assert (decision.allowed, decision.decision_id, guard.monitor.sessions) == (True, "", 0)


def test_the_answer_has_the_keys_of_a_services() -> None:
    """Whoever reads `raw` finds the same there, whoever decides."""
    raw = make().check("pay", {"amount": 5}).raw

    assert (raw["decision"], raw["reason"], raw["committed"]) == ("deny", "out_of_order", False)
    assert (raw["skipped"], raw["allowed"], raw["session"]) == (
        ("approve",),
        ("approve",),
        "s1",
    )
    assert [(each["spec"], each["decision"]) for each in raw["specs"]] == [("shop", "deny")]


# --- outcomes that do not come -------------------------------------------------------------------


APPROVALS = """
id: approvals
kind: policy
enforce: block
match: {service.name: shop}
alphabet:
  approved: {tool: ask, result: {status: approved}}
  delete: {tool: delete}
constraints: [{alternate_precedence: [approved, delete]}]
"""


@pytest.mark.parametrize(
    ("result", "answer"),
    [
        (({"status": "approved"},), "allow"),
        (({"status": "denied"},), "deny"),
        (('{"status": "approved"}',), "allow"),
        ((), "unknown"),
    ],
)
def test_an_outcome_may_carry_what_the_tool_returned(
    result: tuple[Any, ...], answer: str
) -> None:
    """The next check depends on the answer, as with a service; without it, every answer is possible."""
    guard = make(APPROVALS)
    guard.outcome(guard.check("ask", {}).decision_id, "ran", result)

    assert guard.check("delete", {}).decision == answer


def test_a_call_without_an_outcome_is_taken_back() -> None:
    """After the time, at the next question; its outcome counts all the same when it comes."""
    guard = make(confirm_seconds=2)
    late = guard.check("approve", {})
    for _ in range(3):
        last = guard.check("pay", {"amount": 5}, commit=False)

    assert (last.allowed, guard.counts()["unconfirmed"]) == (False, 1)
    guard.outcome(late.decision_id, "ran")
    assert guard.check("pay", {"amount": 5}).allowed


def test_closing_takes_back_what_is_open() -> None:
    """Of a call that nobody speaks of it is not known that it was made."""
    guard = make()
    guard.check("approve", {})
    guard.close()

    assert guard.monitor.find("s1") == []
    assert guard.counts() == {"allow": 1, "unconfirmed": 1}


def test_calls_on_their_way_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    """Beyond the bound the oldest is forgotten: it is taken back, and its outcome is counted as lost."""
    guard = make(confirm_seconds=10 * HELD_MAX)
    with caplog.at_level(logging.WARNING, "offrails.guard"):
        first, *_ = [
            guard.check("approve", {}, session=f"s{number}") for number in range(HELD_MAX + 1)
        ]
        guard.outcome(first.decision_id, "ran")

    assert guard.counts() == {"allow": HELD_MAX + 1, "unconfirmed": 1, "outcomes_lost": 1}
    assert len(caplog.records) == 2


# --- faults --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("setting", "allowed"), [("allow", True), ("deny", False)])
def test_without_a_session_it_is_the_setting(setting: Any, allowed: bool) -> None:
    """Neither session nor trace: nobody knows which calls came before. What no order allows is denied all the same."""
    guard = make(session="", on_unavailable=setting)
    decision = guard.check("pay", {"amount": 5})

    assert (decision.unavailable, decision.allowed) == ("no_session", allowed)
    assert guard.check("rob").decision == "deny"
    assert guard.counts() == {"no_session": 1, "unjudged": 1, "deny": 1}
    assert guard.check("pay", {}, trace_id="0" * 31 + "1").decision == "deny"


@pytest.mark.parametrize(("setting", "allowed"), [("allow", True), ("deny", False)])
def test_a_fault_of_ours_fails_no_agent(
    monkeypatch: pytest.MonkeyPatch, setting: Any, allowed: bool
) -> None:
    """An exception while deciding is a decision by the setting, for each call; counted, and logged once."""
    guard = make(on_unavailable=setting)
    monkeypatch.setattr(guard, "_call", lambda *_: 1 / 0)
    found = guard.check_all([Call("pay"), Call("approve")])

    assert [(each.unavailable, each.allowed) for each in found] == [("internal", allowed)] * 2
    assert guard.counts() == {"internal": 2, "unjudged": 2}


def test_a_fault_of_who_takes_verdicts_decides_nothing() -> None:
    """It is counted, and the call is decided and judged."""

    def deliver(verdicts: Sequence[Verdict]) -> None:
        raise KeyError(len(verdicts))

    guard = make(deliver=deliver)
    decision = guard.check("approve", {})
    guard.outcome(decision.decision_id, "ran")
    assert decision.allowed
    assert guard.counts() == {"allow": 1, "deliveries_lost": 1}


def test_verdicts_are_delivered() -> None:
    """Of a call that is made, once its outcome is said."""
    found: list[Verdict] = []
    guard = make(deliver=found.extend)
    approve = guard.check("approve", {})
    assert found == []
    guard.outcome(approve.decision_id, "ran")
    guard.check("pay", {"amount": 500})

    assert [(each.tool, each.kind.value) for each in found] == [("approve", "progress")]


def test_bad_settings_are_refused() -> None:
    """As of any guard."""
    with pytest.raises(ValueError, match="on_unknown"):
        make(on_unknown="maybe")


# --- time and threads ----------------------------------------------------------------------------


def test_time_passes_with_the_calls() -> None:
    """Sessions that are idle end without a caller who ticks; `tick` is for times without calls."""
    monitor = Monitor(specs(SHOP), Limits(history_complete=True, idle_ns=10 * SECOND))
    guard = LocalGuard(monitor, session="s1", service="shop", clock=Clock())
    guard.outcome(guard.check("approve", {}).decision_id, "ran")
    for number in range(20):
        guard.outcome(guard.check("approve", {}, session=f"t{number}").decision_id, "ran")
    assert 0 < monitor.sessions < 10

    for _ in range(20):
        guard.tick()
    assert monitor.sessions == 0


def test_a_clock_that_stands_still_keeps_the_order() -> None:
    """Calls that are asked for in one tick of the clock are judged in their order."""
    guard = LocalGuard(
        Monitor(specs(SHOP), Limits(history_complete=True)),
        session="s1",
        service="shop",
        clock=lambda: 1_800_000_000 * SECOND,
    )
    for tool in ("approve", "pay"):
        guard.outcome(guard.check(tool, {"amount": 5}).decision_id, "ran")

    assert [each["tool"] for each in judgement(guard)["steps"]] == ["approve", "pay"]
    assert judgement(guard)["accepting"]


def test_guards_of_one_monitor_share_its_lock() -> None:
    """Two agents' threads ask at once; each session is judged, and no call is lost."""
    monitor = Monitor(specs(SHOP), Limits(history_complete=True))
    lock = threading.RLock()
    guards = [LocalGuard(monitor, agent=name, service="shop", lock=lock) for name in ("a", "b")]

    def work(guard: LocalGuard, thread: int) -> None:
        for number in range(20):
            for tool in ("approve", "pay"):
                decision = guard.check(
                    tool, {"amount": 5}, session=f"{guard.agent}-{thread}-{number}"
                )
                guard.outcome(decision.decision_id, "ran")

    threads = [
        threading.Thread(target=work, args=(guard, n)) for guard in guards for n in range(3)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    found = list(monitor.judgements())
    assert len(found) == 120
    assert {(each["calls"], each["harmful"], each["accepting"]) for each in found} == {
        (2, 0, True)
    }
