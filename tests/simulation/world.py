"""Agents in a simulated world: sessions of turns, turns of calls, as spans.

All is drawn from one `Random`, so a seed gives one world, ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from collector.decode.span import Resource, Span
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.simulation import wire
from tests.simulation.wire import SECOND

__all__ = ["GOOD_HABITS", "SPECS", "START", "Action", "Habits", "Session", "World"]

START = 1_700_000_000 * SECOND

ORDERS = """
id: orders
kind: task
match: {service.name: shop}
severity: {default: warning, tools: {pay: critical}}
alphabet:
  look: {tool: look}
  pick: {tool: pick, arguments: {item: {any: true}}}
  pay: {tool: pay, arguments: {amount: {max: 10}}}
  pay_much: {tool: pay, arguments: {amount: {min: 11}}}
  approve: {tool: approve}
  ship: {tool: ship}
golden: [[pick, pay, ship], [pick, approve, pay_much, ship]]
reads: [look]
"""
APPROVAL = """
id: approval
kind: policy
alphabet:
  approve: {tool: approve}
  pay_much: {tool: pay, arguments: {amount: {min: 11}}}
  wipe: {tool: wipe}
constraints: [{precedence: [approve, pay_much]}, {at_most: [approve, 1]}, {forbid: wipe}]
"""
DESKS = """
id: desks
kind: task
scope: turn
match: {service.name: desk}
alphabet: {open: {tool: open}, note: {tool: note}, close: {tool: close}}
initial: shut
accepting: [shut]
transitions: {shut: {open: opened}, opened: {note: opened, close: shut}}
"""
CLERKS = """
id: clerks
kind: task
match: {gen_ai.agent.name: clerk}
alphabet: {file: {tool: file}, stamp: {tool: stamp}}
golden: [[file, stamp]]
"""


def _compiled(*texts: str) -> tuple[Spec, ...]:
    specs = []
    for text in texts:
        spec, findings = compile_text(text, "simulated.yaml")
        assert spec is not None, findings
        specs.append(spec)
    return tuple(specs)


SPECS = _compiled(ORDERS, APPROVAL, DESKS, CLERKS)

GOOD: Mapping[str, tuple[tuple[tuple[str, Any], ...], ...]] = {
    "shop": (
        (("pick", {"item": 1}), ("pay", {"amount": 5}), ("ship", {})),
        (
            ("look", {}),
            ("pick", {"item": "x"}),
            ("look", {}),
            ("approve", {}),
            ("pay", {"amount": 50}),
            ("ship", {}),
        ),
    ),
    "desk": ((("open", {}), ("note", {"text": "n"}), ("note", {}), ("close", {})),),
    "office": ((("file", {}), ("stamp", {})),),
}
"""By service, what a right agent calls."""

WRONG = ("wipe", "dance")


class Habits(NamedTuple):
    """How often things go otherwise: chances between 0 and 1."""

    wrong: float = 0.15
    """A call is left out, doubled, moved, or is none of the spec's."""
    parallel: float = 0.2
    unknown: float = 0.05
    """Arguments are not on the wire."""
    failed: float = 0.03
    unnamed: float = 0.1
    """A turn whose spans tell no session."""
    doubled: float = 0.1
    """A call leaves two spans: the framework's around the client's."""
    nested: float = 0.1
    """A call makes another one, on a host whose clock may be behind."""
    helped: float = 0.1
    """Another service works on the same conversation from its start."""


GOOD_HABITS = Habits(wrong=0, failed=0, parallel=0, unnamed=0, nested=0, helped=0)
"""Of agents that do no harm."""


class Action(NamedTuple):
    """A call as the agent made it."""

    tool: str
    arguments: Mapping[str, Any] | None
    error: bool
    start_ns: int
    end_ns: int


@dataclass
class Session:
    """One conversation: its spans, with the moment each is ready to be exported."""

    name: str
    service: str
    spans: list[Span] = field(default_factory=list)
    faulty: bool = False


class World:
    """Makes sessions.

    Args:
        chance: all that is random.
        habits: how often things go otherwise.
    """

    def __init__(self, chance: Random, habits: Habits | None = None) -> None:
        self.chance = chance
        self.habits = habits or Habits()
        self._serial = 0
        self._resources = {
            service: Resource({"service.name": service}) for service in (*GOOD, "stranger")
        }

    def _id(self, size: int) -> bytes:
        self._serial += 1
        return self._serial.to_bytes(4, "big") + self.chance.randbytes(size - 4)

    def session(self, name: str, start_ns: int, service: str = "") -> Session:
        """A conversation of one or two turns that begins at `start_ns`."""
        made = Session(name, service or self.chance.choice(sorted(GOOD)))
        now = start_ns
        plans = list(self._plans(made))
        turns = self.chance.choice((1, 1, 2)) if made.service == "shop" else 1
        cut = self.chance.randint(1, max(1, len(plans) - 1)) if turns == 2 else len(plans)
        if self._often(self.habits.helped):
            self._help(made, start_ns)
        for part in (plans[:cut], plans[cut:]):
            if part:
                now = self._turn(made, part, now) + self._some(2 * SECOND)
        return made

    def _help(self, made: Session, start_ns: int) -> None:
        """A turn of another service, which joins the session from its first span."""
        other = self.chance.choice(
            [service for service in sorted(GOOD) if service != made.service]
        )
        helper = Session(made.name, other)
        plans: list[tuple[str, Any]] = list(self.chance.choice(GOOD[other]))[:2]
        self._turn(helper, plans, start_ns)
        made.spans += [*helper.spans, self._greeting(helper, start_ns)]

    def _greeting(self, made: Session, start_ns: int) -> Span:
        """A root span at the start of a turn that names agent and session: what is below the turn's own may name a part."""
        first = made.spans[0]
        return wire.agent(
            first.resource,
            "clerk" if made.service == "office" else "buyer",
            conversation=made.name,
            trace_id=first.trace_id,
            span_id=self._id(8),
            parent=b"",
            start_ns=start_ns,
            end_ns=start_ns + 1,
        )

    def long_session(self, name: str, start_ns: int, calls: int) -> Session:
        """A right desk that takes `calls` notes in one turn, one after the other."""
        made = Session(name, "desk")
        notes: list[tuple[str, Any]] = [("note", {})] * calls
        self._turn(made, [("open", {}), *notes, ("close", {})], start_ns)
        # Its name comes at once: what is counted as final stays under the name of that time.
        made.spans.append(self._greeting(made, start_ns))
        return made

    def lone_call(self, name: str, agent: str, tool: str, start_ns: int) -> list[Span]:
        """A turn with one call, of a session by name."""
        service = agent if agent in GOOD else {"buyer": "shop", "clerk": "office"}[agent]
        made = Session(name, service)
        action = Action(tool, {}, error=False, start_ns=start_ns, end_ns=start_ns + 1000)
        trace, root = self._id(16), self._id(8)
        self._call(made, action, trace, root)
        self._chat(made, trace, root, name, start_ns + SECOND // 4)
        return made.spans

    def _some(self, most_ns: int) -> int:
        return self.chance.randrange(1, most_ns)

    def _often(self, chance: float) -> bool:
        return self.chance.random() < chance

    def _plans(self, made: Session) -> Iterator[tuple[str, Any]]:
        for tool, arguments in self.chance.choice(GOOD[made.service]):
            if not self._often(self.habits.wrong):
                yield tool, arguments
                continue
            made.faulty = True
            kind = self.chance.choice(("leave", "double", "wrong", "argument"))
            if kind == "wrong":
                yield self.chance.choice(WRONG), {}
            if kind == "argument":
                yield tool, {"amount": 7, "item": 1}
            elif kind != "leave":
                yield tool, arguments
            if kind == "double":
                yield tool, arguments

    def _turn(self, made: Session, plans: list[tuple[str, Any]], now: int) -> int:
        """One trace; returns when it is over."""
        trace, root = self._id(16), self._id(8)
        told = "" if self._often(self.habits.unnamed) else made.name
        begun = now
        for tool, arguments in plans:
            parallel = self._often(self.habits.parallel)
            start = now - self._some(SECOND // 10) if parallel and now > begun else now
            action = self._action(tool, arguments, start)
            self._call(made, action, trace, root)
            now = max(now, action.end_ns) + self._some(SECOND // 2)
            if self._often(0.3):
                self._chat(made, trace, root, told, now)
        times = {"trace_id": trace, "span_id": root, "start_ns": begun - 1, "end_ns": now}
        name = "clerk" if made.service == "office" else "buyer"
        made.spans.append(
            wire.agent(self._resources[made.service], name, conversation=told, **times)
        )
        return now

    def _action(self, tool: str, arguments: Any, start: int) -> Action:
        known = None if self._often(self.habits.unknown) else arguments
        error = self._often(self.habits.failed)
        return Action(tool, known, error, start, start + self._some(SECOND))

    def _chat(self, made: Session, trace: bytes, root: bytes, told: str, now: int) -> None:
        made.spans.append(
            wire.chat(
                self._resources[made.service],
                conversation=told,
                trace_id=trace,
                span_id=self._id(8),
                parent=root,
                start_ns=now - SECOND // 20,
                end_ns=now,
            )
        )

    def _call(self, made: Session, action: Action, trace: bytes, root: bytes) -> None:
        resource, outer = self._resources[made.service], self._id(8)
        common: dict[str, Any] = {"trace_id": trace, "call_id": f"call-{self._serial}"}
        made.spans.append(
            wire.tool(
                resource,
                action.tool,
                action.arguments,
                error=action.error,
                span_id=outer,
                parent=root,
                start_ns=action.start_ns,
                end_ns=action.end_ns,
                **common,
            )
        )
        if self._often(self.habits.nested):
            self._nested(made, action, trace, outer)
        if self._often(self.habits.doubled):
            made.spans.append(
                wire.tool(
                    resource,
                    action.tool,
                    None,
                    span_id=self._id(8),
                    parent=outer,
                    start_ns=action.start_ns + 1,
                    end_ns=action.end_ns - 1,
                    **common,
                )
            )

    def _nested(self, made: Session, action: Action, trace: bytes, outer: bytes) -> None:
        """A call that a call makes; by its host's clock it may begin before."""
        start = action.start_ns + self.chance.randrange(-SECOND // 5, SECOND // 5)
        tool = self.chance.choice(("look", "note", "approve"))
        inner = Action(tool, {}, error=False, start_ns=start, end_ns=start + SECOND // 10)
        self._call(made, inner, trace, outer)
