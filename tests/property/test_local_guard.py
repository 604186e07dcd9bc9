"""A session that is guarded in process is judged as if its calls had only been observed.

A history is a few random specs, and an agent that asks before each of its calls, alone or in groups, in several
sessions. It makes what is allowed and some of what is denied; some calls fail, some are not made after all, and some
outcomes come only when the call has been taken back.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from monitor import Limits, Monitor, ToolCall, tool_call
from monitor.exposition.family import ExemplarLines
from monitor.exposition.metric_samples import families_of
from monitor.limits import SECOND
from offrails_guard import Call, Decision, LocalGuard
from offrails_guard.decision import Outcome
from tests.property.test_decide import LETTERS, START, spec_of

ATTRIBUTES = {"service.name": "shop", "tier": "gold"}
CONFIRM_SECONDS = 1.0
STEP_NS = SECOND // 20
OWN = ("span_id", "trace_id")
"""Ids of spans: the guard has its own."""


class Agent:
    """Asks, and notes the calls that it makes as an observer would see them."""

    def __init__(self, guard: Monitor, chance: Random) -> None:
        self.chance = chance
        self.now = START
        self.name = chance.choice(("", "rover"))
        self.guard = LocalGuard(
            guard,
            agent=self.name,
            service="shop",
            attributes={"tier": "gold"},
            confirm_seconds=CONFIRM_SECONDS,
            clock=self.time,
        )
        self.waiting: list[tuple[Decision, str, Call, int]] = []
        self.made: list[ToolCall] = []
        self.denied = 0

    def time(self) -> int:
        self.now += self.chance.randint(1, 20) * STEP_NS
        return self.now

    def ask(self) -> None:
        """About one call, or about some that are made in parallel."""
        chance = self.chance
        session = chance.choice(("s0", "s1"))
        calls = [self._call() for _ in range(chance.choice((1, 1, 1, 2, 3)))]
        if len(calls) == 1:
            found = [self.guard.check(calls[0].tool, calls[0].arguments, session=session)]
        else:
            found = self.guard.check_all(calls, session=session)
        for decision, call in zip(found, calls, strict=True):
            self.denied += not decision.allowed
            self.waiting.append((decision, session, call, self.now))

    def _call(self) -> Call:
        chance = self.chance
        tool = chance.choice(LETTERS) if chance.random() < 0.95 else "zzz"
        return Call(tool, None if chance.random() < 0.05 else {"n": chance.choice((1, 9))})

    def settle(self, place: int) -> None:
        """Makes a call, or does not. A denied call is made now and then, too."""
        decision, session, call, start_ns = self.waiting.pop(place)
        made = self.chance.random() < (0.9 if decision.allowed else 0.2)
        failed, result = self.chance.random() < 0.1, self._returned(call)
        outcome: Outcome = "skipped" if not made else "failed" if failed else "ran"
        self.guard.outcome(decision.decision_id, outcome, result)
        if made:
            self.made.append(
                tool_call(
                    call.tool,
                    call.arguments,
                    session=session,
                    start_ns=start_ns,
                    end_ns=self.now,
                    error=failed,
                    agent=self.name,
                    attributes=ATTRIBUTES,
                    span_id=len(self.made).to_bytes(8, "big"),
                    result=result,
                )
            )

    def _returned(self, call: Call) -> tuple[Any, ...]:
        """What a call returns; empty where it is not known."""
        return ()


def judged(monitor: Monitor) -> list[Any]:
    """Judgement objects as they end, and the final counts of harmful calls."""
    found = sorted(monitor.judgements(), key=lambda each: (each["session"], each["spec"]))
    harmful = [
        line
        for family in families_of(monitor)
        if family.name == "offrails_harmful_calls"
        for each in family.samples
        for line in str(each.text if isinstance(each, ExemplarLines) else each).splitlines()
    ]
    return [_without_ids(found), sorted(line for line in harmful if not line.endswith(" 0.0"))]


def _without_ids(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _without_ids(each) for key, each in found.items() if key not in OWN}
    return [_without_ids(each) for each in found] if isinstance(found, list) else found


def history(seed: int) -> Agent:
    """Plays one history and compares it with its calls, each observed when it has ended."""
    chance = Random(seed)
    specs = [spec_of(chance, f"s{number}") for number in range(chance.randint(1, 3))]
    limits = Limits(history_complete=True)
    guarded, observing = Monitor(specs, limits), Monitor(specs, limits)
    agent = Agent(guarded, chance)
    for _ in range(chance.randint(1, 14)):
        agent.ask()
        while agent.waiting and chance.random() < 0.8:
            agent.settle(chance.randrange(len(agent.waiting)))
    while agent.waiting:
        agent.settle(0)
    for call in agent.made:
        observing.observe(call, call.end_ns)
    for monitor in (guarded, observing):
        monitor.close(agent.now)
    assert judged(guarded) == judged(observing)
    assert agent.guard.counts().get("internal", 0) == 0
    return agent


@given(st.integers(0, 2**32))
def test_a_guarded_session_is_judged_as_an_observed_one(seed: int) -> None:
    """Same steps, verdicts, scores and positions, whatever was asked, denied, skipped, late or taken back."""
    history(seed)


def test_histories_have_something_to_compare() -> None:
    """They have calls, denials, and calls that were taken back before their outcome came."""
    agents = [history(seed) for seed in range(40)]

    assert sum(len(each.made) for each in agents) > 200
    assert sum(each.denied for each in agents) > 20
    assert sum(each.guard.counts().get("unconfirmed", 0) for each in agents) > 20
