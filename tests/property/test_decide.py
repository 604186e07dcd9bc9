"""Deciding: the answer before a call is the verdict that observing it gives then, and asking changes nothing.

A history is a few random specs, and the calls of some sessions in the order in which they arrive: in
time, late and out of order, some with unknown arguments, some in flight, some with signs that
earlier calls are missing. Specs bind at once, late, or by the agent's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from monitor import Limits, Monitor, SessionKey, ToolCall
from monitor.decision import Answer
from monitor.exposition.metric_samples import families_of
from monitor.judging.deciding.decide_calls import overlapping
from monitor.limits import SECOND
from monitor.records import AgentName, Evidence, Proof
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.asking import check_decision, check_steps

START = 1_700_000_000 * SECOND
LETTERS = "abcd"
TEMPLATES = (
    *("precedence", "alternate_precedence", "chain_precedence", "response", "succession"),
    *("not_succession", "not_chain_succession", "not_co_existence", "exclusive_choice"),
)
AGENTS = ("", "", "rover", "scout")


class Arrival(NamedTuple):
    """A call as it is observed, with what comes with it."""

    now: int
    call: ToolCall
    named: AgentName | None
    proof: Proof | None
    doubted: bool


# --- histories ------------------------------------------------------------------------------------


def spec_of(chance: Random, id_: str) -> Spec:
    """A task or a policy with any of the keys that change how calls are judged."""
    alphabet = {each: {"tool": each} for each in LETTERS}
    text = [f"id: {id_}", f"enforce: {chance.choice(('off', 'advise', 'block'))}"]
    match = chance.choice(
        ("service.name: shop", "service.name: shop", "tier: gold", "gen_ai.agent.name: rover")
    )
    text.append(f"match: {{{match}}}")
    named = [f"{name}: {{tool: {each['tool']}}}" for name, each in alphabet.items()]
    if chance.random() < 0.5:
        named[1] = "b: {tool: b, arguments: {n: {max: 5}}}"
    if chance.random() < 0.5:
        named[3] = "d: {tool: b, arguments: {n: {min: 6}}}"
    text.append(f"alphabet: {{{', '.join(named)}}}")
    if chance.random() < 0.5:
        rules = []
        for _ in range(chance.randint(1, 3)):
            pair = ", ".join(chance.sample(LETTERS, 2))
            limit = f"{{at_most: [{chance.choice(LETTERS)}, {chance.randint(1, 2)}]}}"
            rules.append(chance.choice((f"{{{chance.choice(TEMPLATES)}: [{pair}]}}", limit)))
        text += ["kind: policy", f"constraints: [{', '.join(rules)}]"]
    else:
        paths = [chance.choices(LETTERS, k=chance.randint(1, 4)) for _ in range(3)]
        text.append(f"golden: [{', '.join('[' + ', '.join(path) + ']' for path in paths)}]")
        if chance.random() < 0.3:
            text.append("again: true")
    if chance.random() < 0.5:
        text.append(f"concurrent: {chance.choice(('strict', 'any_order'))}")
    if chance.random() < 0.3:
        text.append(f"scope: {chance.choice(('turn', 'agent'))}")
    if chance.random() < 0.3:
        convention = chance.choice(("no_effect", "harmful", "ordinary"))
        text.append(f"conventions: {{failed_calls: {convention}}}")
    if chance.random() < 0.2:
        text.append("order: {a: end}")
    if chance.random() < 0.3:
        text.append("severity: {default: info, tools: {zzz: critical, a: warning}}")
    spec, _ = compile_text("\n".join(text), f"{id_}.yaml")
    return spec_of(chance, id_) if spec is None else spec


class Maker:
    """Makes the calls of some sessions."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.attributes = [
            {"service.name": "shop"},
            {"service.name": "shop", "tier": "gold"},
            {"service.name": "other"},
        ]
        self.usual = chance.choice(self.attributes)
        self.rare = chance.choice((0.0, 0.05, 0.3))
        """How often something unusual is."""
        self.number = 0

    def unusual(self) -> bool:
        return self.chance.random() < self.rare

    def call(self, key: SessionKey, start: int) -> ToolCall:
        """A call that starts some tenths of a second after `START`."""
        chance = self.chance
        self.number += 1
        tool = chance.choice("abbcd") if chance.random() < 0.95 else "zzz"
        arguments: dict[str, int] | None = {"n": chance.choice((1, 9))} if tool == "b" else {}
        length = chance.choice((0, 0, 0, 1, 2, 5))
        parent = chance.randint(1, 3) if self.unusual() else 0
        if self.unusual() and self.number > 3:
            parent = -chance.randint(1, 3)
        start_ns = START + start * SECOND // 10
        return ToolCall(
            session=key,
            agent=chance.choice(AGENTS) if self.unusual() else "",
            tool=tool,
            arguments=None if self.unusual() else arguments,
            error=self.unusual(),
            start_ns=0 if chance.random() < self.rare / 10 else start_ns,
            end_ns=start_ns
            + length * SECOND // 10
            + (200 * SECOND if chance.random() < self.rare / 10 else 0),
            trace_id=(chance.choice("tu") if self.unusual() else "t").encode() * 16,
            span_id=self.number.to_bytes(8, "big"),
            parent_span_id=b"" if not parent else _parent(parent, self.number),
            call_id=f"c{self.number}" if self.unusual() else "",
            evidence=chance.choice(tuple(Evidence)) if self.unusual() else Evidence.EXECUTED,
            attributes=chance.choice(self.attributes) if self.unusual() else self.usual,
            control=chance.random() < self.rare / 5,
            gaps=chance.random() < self.rare / 5,
        )

    def arrivals(self, most: int) -> list[Arrival]:
        """The calls of one to three sessions, as they arrive."""
        chance, found, start = self.chance, [], 0
        keys = [SessionKey("", f"s{number}") for number in range(chance.randint(1, 3))]
        for _ in range(chance.randint(1, most)):
            start += chance.choice((0, 1, 1, 3, 20) if self.rare else (1, 3))
            call = self.call(chance.choice(keys), start)
            found.append(self.arrival(call, start))
        order = chance.choice(("in time", "jittered", "late"))
        if order == "late":
            end = START + start * SECOND // 10 + SECOND
            found = [each._replace(now=end + place) for place, each in enumerate(found)]
            chance.shuffle(found)
        elif order == "jittered":
            late = [chance.choice((0, 0, 5, 30)) * SECOND // 10 for _ in found]
            found = [
                each._replace(now=each.now + by) for each, by in zip(found, late, strict=True)
            ]
        return sorted(found, key=lambda each: each.now)

    def arrival(self, call: ToolCall, start: int) -> Arrival:
        named = proof = None
        if self.unusual():
            named = AgentName(START, b"above...", self.chance.choice(AGENTS[2:]))
        if self.unusual():
            proof = Proof(
                START - self.chance.randint(0, 1), call.trace_id, holds=not self.unusual()
            )
        now = START + start * SECOND // 10
        return Arrival(now, call, named, proof, self.unusual())


def _parent(number: int, own: int) -> bytes:
    """A span that is no call, or (below 0) an earlier call."""
    return (own + number if number < 0 else 1_000 + number).to_bytes(8, "big")


def monitor_of(chance: Random, specs: Sequence[Spec]) -> Monitor:
    limits = Limits(
        window_ns=chance.choice((SECOND, 10 * SECOND)),
        idle_ns=chance.choice((5 * SECOND, 1_800 * SECOND)),
        history_complete=chance.random() < 0.3,
        sessions_max=chance.choice((2, 100)),
    )
    started = chance.choice((0, 0, START - SECOND, START + SECOND))
    return Monitor(specs, limits, started_ns=started)


# --- the laws -------------------------------------------------------------------------------------


def state(monitor: Monitor) -> dict[str, Any]:
    """All that can be seen of a monitor."""
    return {
        "objects": list(monitor.judgements()),
        "families": [
            (family.name, [str(each) for each in family.samples])
            for family in families_of(monitor)
        ],
        "counts": (
            *(
                monitor.counters.skewed,
                monitor.counters.orders_left_out,
                monitor.counters.out_of_order,
            ),
            *(
                monitor.counters.folded_young,
                monitor.sessions,
                monitor.kept.memory()["sessions"],
                monitor.counters.resumed,
            ),
            *(
                monitor.counters.without_spec,
                monitor.counters.without_calls,
                monitor.counters.tools_overflowed,
            ),
            *(
                monitor.counters.timed_verdicts,
                monitor.reader.touched_ns,
                monitor.counters.sessions_lost,
            ),
        ),
        "memory": monitor.kept.memory(),
        "ended": monitor.counters.ended,
        "news": monitor.news(),
    }


def history(seed: int, most: int = 12) -> int:
    """Plays a history to a monitor that is asked before each call, and to one that is not.

    Returns the number of decisions with a spec.
    """
    chance = Random(seed)
    specs = [spec_of(chance, f"s{number}") for number in range(chance.randint(1, 3))]
    maker = Maker(chance)
    arrivals, made = maker.arrivals(most), chance.getrandbits(64)
    asked, other = (monitor_of(Random(made), specs) for _ in range(2))
    decided, tick = 0, START
    for place, each in enumerate(arrivals):
        now, call, named, proof, doubted = each
        while tick < now:
            assert asked.tick(tick) == other.tick(tick)
            tick += SECOND
        for _ in range(chance.choice((0, 0, 1, 2))):
            strange = maker.call(SessionKey("", chance.choice(("s0", "s1", "new"))), place)
            asked.decide(strange, now, doubted=maker.unusual())
            asked.decide_together([strange, call], now)
        decision = asked.decide(call, now, named=named, doubted=doubted, proof=proof)
        again = asked.decide(call, now, named=named, doubted=doubted, proof=proof)
        assert again == decision
        verdicts = [
            monitor.observe(call, now, named, doubted=doubted, proof=proof)
            for monitor in (asked, other)
        ]
        assert verdicts[0] == verdicts[1]
        check_decision(decision, verdicts[0], call)
        decided += len(decision.specs)
        if chance.random() < 0.1:
            for monitor in (asked, other):
                monitor.corrections.retract(call)
    assert state(asked) == state(other)
    group = [
        maker.call(SessionKey("", chance.choice(("s0", "new"))), start) for start in (99, 99)
    ]
    # By no clock that is ahead; a question comes from one client.
    resource = group[0].attributes
    group = [one._replace(end_ns=one.start_ns, attributes=resource) for one in group]
    decisions = asked.decide_together(group, tick)
    dropped = asked.sessions + len(group) > asked.limits.sessions_max
    for one in group:
        together = [two for two in group if two.session == one.session]
        called = overlapping(together)[together.index(one)]
        for monitor in (asked, other):
            monitor.observe(called, tick)
    # A session that the first call drops takes along what the decision on the second knew.
    for one, answer in zip(group, decisions, strict=True) if not dropped else ():
        check_steps(answer, asked, one)
    end = tick + 60 * SECOND
    assert asked.tick(end) == other.tick(end)
    assert asked.close(end) == other.close(end)
    assert state(asked) == state(other)
    return decided


@given(st.integers(0, 2**32))
def test_a_decision_is_the_verdict_to_come_and_changes_nothing(seed: int) -> None:
    """For every call of a history: same fields as its verdict, and a monitor as if never asked."""
    history(seed)


def test_histories_have_decisions_to_compare() -> None:
    """The histories that are compared are not empty: most calls are judged by some spec."""
    assert sum(history(seed) for seed in range(40)) > 100


@given(st.integers(0, 2**32))
def test_what_is_said_of_a_session_that_nobody_knows_holds_of_any(seed: int) -> None:
    """Where a call names no session: a denial or a permission is what any session's history has, if its agent's spec binds."""
    chance = Random(seed)
    monitor = Monitor([spec_of(chance, "s")], Limits(history_complete=True))
    maker = Maker(chance)
    maker.rare = 0.0
    *before, asked = [maker.call(SessionKey("", "s"), 10 * place) for place in range(5)]
    now = START + 10 * SECOND
    unknown = monitor.decide(asked._replace(session=SessionKey("", "")), now)
    for call in before[: chance.randint(0, 4)]:
        monitor.observe(call, now)
    known = monitor.decide(asked, now)
    if unknown.answer is not Answer.UNKNOWN:
        assert known.answer is unknown.answer
    assert monitor.sessions <= 1


def test_nobody_knows_what_came_before_a_call_without_a_session() -> None:
    """A forbidden tool is denied, a free one allowed, and one that needs another first is neither."""
    text = "id: s\nenforce: block\nmatch: {service.name: shop}\nkind: policy\nalphabet: {a: {tool: a}, b: {tool: b}, c: {tool: c}}\n"
    spec, problems = compile_text(
        text + "constraints: [{precedence: [a, b]}, {forbid: c}]", "s.yaml"
    )
    assert spec is not None, problems
    monitor = Monitor([spec], Limits(history_complete=True))
    maker = Maker(Random(1))
    maker.rare, maker.usual = 0.0, maker.attributes[0]
    calls = [
        maker.call(SessionKey("", ""), 0)._replace(tool=tool, arguments={}) for tool in "abcc"
    ]
    found = [monitor.decide(each, START + SECOND).answer for each in calls]
    assert found == [Answer.ALLOW, Answer.UNKNOWN, Answer.DENY, Answer.DENY]
    asked = monitor.decide_together(calls, START + SECOND)
    assert [each.answer for each in asked] == found
