"""Rules over data in process: a `LocalGuard` answers as its monitor decides, and as the whole run is judged.

Specs have rules for each order, for values that came from results or from the user, and for prices that were looked up.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from monitor import Evidence, Limits, Monitor, SessionKey, ToolCall, tool_call
from monitor.decision import CallDecision, SpecDecision
from monitor.limits import SECOND
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from offrails_guard import Call, Decision, LocalGuard
from tests.property.test_decide import START
from tests.property.test_local_guard import (
    ATTRIBUTES,
    CONFIRM_SECONDS,
    STEP_NS,
    Agent,
    judged,
)

TEXT: Final = """
kind: policy
enforce: block
match: {service.name: shop}
remember:
  price: {at: look_up, result: $.price}
  asked: {at: look_up, argument: id}
alphabet:
  approved: {tool: look_up, result: {status: open}}
  look_up: {tool: look_up}
  fair: {tool: refund, arguments: {amount: {max: {value: price}}}}
  unfair: {tool: refund}
  known: {tool: mail, arguments: {to: {from: [look_up, search, user]}}}
  secret: {tool: mail, arguments: {to: {from: [read_secret]}}}
  mail: {tool: mail}
  last: {tool: close, arguments: {reason: {same_as: asked}}}
  close: {tool: close}
  search: {tool: search}
"""
EACH: Final = 'each: {order: {look_up: id, refund: id, close: "ids[*]"}}'
RULES: Final = (
    "{precedence: [[look_up, approved], [fair, unfair]]}",
    "{alternate_precedence: [approved, [fair, unfair]]}",
    "{at_most: [fair, 1]}",
    "{not_coexistence: [close, fair]}",
    "{precedence: [search, mail]}",
    "{forbid: unfair}",
    "{forbid: mail}",
    "{forbid: secret}",
    "{forbid: close}",
)
TOOLS: Final = (
    "look_up", "look_up", "refund", "refund", "mail", "close", "search", "read_secret",
)  # fmt: skip
ORDERS: Final = ("A1", "B7")
PRICES: Final = (1, 5, 9)
ADDRESSES: Final = ("ann", "bob", "eve")
LIMITS: Final = Limits(history_complete=True)
CONFIRM_NS: Final = int(CONFIRM_SECONDS * SECOND)


def spec_of(chance: Random, id_: str) -> Spec:
    """Some of the rules, for each order, for all of a namespace, or for the whole session."""
    text = [f"id: {id_}", TEXT.strip()]
    if chance.random() < 0.75:
        text.append(EACH)
        if chance.random() < 0.25:
            text.append("across: namespace")
    text.append(f"constraints: [{', '.join(chance.sample(RULES, chance.randint(1, 4)))}]")
    made, findings = compile_text("\n".join(text), f"{id_}.yaml")
    assert made is not None, findings
    return made


def as_told(found: SpecDecision) -> dict[str, Any]:
    """What an answer holds of one spec's decision."""
    fields = found._asdict()
    thing = fields.pop("thing")
    more = {} if thing is None else {"thing": thing.as_json()}
    return {**fields, **more, "decision": found.enforced.value}


def specs_of(chance: Random) -> list[Spec]:
    return [spec_of(chance, f"s{number}") for number in range(chance.randint(1, 2))]


def call_of(chance: Random, unknown: float = 0.0) -> Call:
    """A call with or without the arguments that its rules ask for."""
    tool = chance.choice(TOOLS)
    arguments: dict[str, Any] = {"id": chance.choice(ORDERS)}
    if tool == "refund":
        arguments["amount"] = chance.choice(PRICES)
    elif tool == "close":
        orders = chance.sample(ORDERS, chance.randrange(3))
        arguments = {"ids": orders, "reason": chance.choice(ORDERS)}
    elif tool == "mail":
        arguments = {"to": chance.choice((*ADDRESSES, [*ADDRESSES[:2]]))}
    return Call(tool, None if chance.random() < unknown else arguments)


def result_of(chance: Random, call: Call) -> tuple[Any, ...]:
    """What a call returns; empty where it is not known."""
    if chance.random() < 0.15:
        return ()
    if call.tool == "look_up":
        status, price = chance.choice(("open", "closed")), chance.choice(PRICES)
        return ({"status": status, "price": price, "of": chance.choice(ADDRESSES)},)
    return ({"found": chance.sample(ADDRESSES, chance.randrange(3))},)


# --- as the monitor decides -----------------------------------------------------------------------


class Shopper(Agent):
    """An agent whose questions are also put to a monitor that has the same calls without a guard."""

    def __init__(self, specs: list[Spec], chance: Random) -> None:
        super().__init__(Monitor(specs, LIMITS), chance)
        self.observing = Monitor(specs, LIMITS)
        self.beside: dict[str, ToolCall] = {}
        """Calls that go ahead, by the ids of their decisions."""
        self.heard = [each for each in ("s0", "s1") if chance.random() < 0.6]
        """Sessions whose messages are seen, from the first on: what is counted as final before it would stay so."""
        for each in self.heard:
            self.hear(each)

    def ask(self) -> None:
        if self.heard and self.chance.random() < 0.15:
            self.hear(self.chance.choice(self.heard))
        before = len(self.waiting)
        super().ask()
        asked = self.waiting[before:]
        for one, other in zip(asked, self.decide(asked), strict=True):
            answer = one[0]
            assert answer.decision == other.enforced.value
            assert answer.raw["specs"] == [as_told(each) for each in other.specs]

    def hear(self, session: str) -> None:
        """The user says something."""
        text, now = f"Write to {self.chance.choice(ADDRESSES)}!", self.time()
        for monitor in (self.guard.monitor, self.observing):
            monitor.corrections.hear(SessionKey("", session), [text], now, now)

    def decide(self, asked: list[tuple[Decision, str, Call, int]]) -> list[CallDecision]:
        """What the monitor decides on the same calls, beside those that go ahead."""
        now, monitor = self.now, self.observing
        for id_, each in list(self.beside.items()):
            if each.start_ns + CONFIRM_NS <= now:
                self.count_no_more(id_)
        calls = [
            self.call(place, each, now + (len(asked) > 1)) for place, each in enumerate(asked)
        ]
        beside = [each for each in self.beside.values() if each.session == calls[0].session]
        if len(calls) == 1:
            found = [monitor.decide(calls[0], now, beside=beside)]
        else:
            found = monitor.decide_together(calls, now, beside=beside)
        for (answer, *_), call, decision in zip(asked, calls, found, strict=True):
            if answer.allowed:
                self.beside[answer.decision_id] = call
                monitor.reservations.reserve(call.session, decision.claims, now + CONFIRM_NS)
        return found

    def call(self, place: int, asked: tuple[Decision, str, Call, int], end_ns: int) -> ToolCall:
        _, session, call, start_ns = asked
        return tool_call(
            call.tool,
            call.arguments,
            session=session,
            start_ns=start_ns,
            end_ns=end_ns,
            agent=self.name,
            attributes=ATTRIBUTES,
            span_id=(start_ns + place).to_bytes(8, "big"),
            evidence=Evidence.DECIDED,
        )

    def count_no_more(self, id_: str) -> None:
        call = self.beside.pop(id_, None)
        if call is not None:
            self.observing.reservations.release(call.span_id)

    def settle(self, place: int) -> None:
        id_, before = self.waiting[place][0].decision_id, len(self.made)
        super().settle(place)
        self.count_no_more(id_)
        for call in self.made[before:]:
            self.observing.observe(call, call.end_ns)

    def _call(self) -> Call:
        return call_of(self.chance, unknown=0.05)

    def _returned(self, call: Call) -> tuple[Any, ...]:
        return result_of(self.chance, call)


def history(seed: int) -> Shopper:
    """Asks about calls, alone or in parallel, makes some of them, and compares what both monitors have at the end."""
    chance = Random(seed)
    agent = Shopper(specs_of(chance), chance)
    for _ in range(chance.randint(1, 7)):
        agent.ask()
        while agent.waiting and chance.random() < 0.8:
            agent.settle(chance.randrange(len(agent.waiting)))
    while agent.waiting:
        agent.settle(0)
    for monitor in (agent.guard.monitor, agent.observing):
        monitor.close(agent.now)
    assert judged(agent.guard.monitor) == judged(agent.observing)
    assert agent.guard.counts().get("internal", 0) == 0
    return agent


@given(st.integers(0, 2**32))
def test_a_guard_answers_as_the_monitor_decides(seed: int) -> None:
    """Answer, reason, thing and what is allowed are those of `decide`, beside the calls that are under way."""
    history(seed)


def test_histories_have_something_to_compare() -> None:
    """They have calls, and denials."""
    agents = [history(seed) for seed in range(8)]
    assert sum(len(each.made) for each in agents) > 20
    assert sum(each.denied for each in agents) > 4


# --- as the whole run is judged -------------------------------------------------------------------


def played(seed: int) -> int:
    """Makes each call that is asked about; returns how many were denied."""
    chance, made, denied = Random(seed), list[ToolCall](), set[tuple[str, int]]()
    specs = specs_of(chance)
    times = iter(range(START, START + 10_000 * STEP_NS, STEP_NS))
    guard = LocalGuard(
        Monitor(specs, LIMITS), session="s", service="shop", clock=times.__next__
    )
    for number in range(chance.randint(1, 10)):
        call = call_of(chance)
        decision = guard.check(call.tool, call.arguments)
        failed, result = chance.random() < 0.1, result_of(chance, call)
        guard.outcome(decision.decision_id, "failed" if failed else "ran", result)
        start_ns = START + 2 * number * STEP_NS
        denied |= {
            (each["spec"], start_ns)
            for each in decision.raw["specs"]
            if each["answer"].value == "deny"
        }
        made.append(
            tool_call(
                call.tool,
                call.arguments,
                session="s",
                start_ns=start_ns,
                end_ns=start_ns + STEP_NS,
                error=failed,
                attributes={"service.name": "shop"},
                result=result,
            )
        )
    whole = Monitor(specs, LIMITS)
    for each in chance.sample(made, len(made)):
        whole.observe(each, START + 10_000 * STEP_NS)
    harmful = {
        (found["spec"], step["start_ns"])
        for found in whole.judgements()
        for step in found["steps"]
        if step["kind"] == "harmful"
    }
    assert denied == harmful, seed
    return len(denied)


@given(st.integers(0, 2**32))
def test_what_a_guard_denies_is_what_the_whole_run_is_judged_harmful_for(seed: int) -> None:
    """Made nevertheless, the denied calls are the harmful ones of the whole run, and no others are."""
    played(seed)


def test_runs_have_denials() -> None:
    """Of the runs that are compared, many are denied something."""
    assert sum(map(played, range(8))) > 5
