"""A compiled spec: frozen, shared by all sessions it judges."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Literal, NamedTuple

from monitor.alphabet.alphabet import Alphabet, build_alphabet
from monitor.alphabet.things import EachRule
from monitor.automaton.dfa import Machine
from monitor.automaton.dfa import build as build_automaton
from monitor.findings import Finding
from monitor.records import Conventions, Obstacle, Reason
from monitor.spec.constraints import SideBySide
from monitor.spec.data_rules import DataRules
from monitor.spec.learnt_reference import LearntReference
from monitor.spec.timing import NO_TIMING, SpecTiming
from monitor.spec.traps import Trap

__all__ = [
    "GOLDEN_LISTED_MAX",
    "GOLDEN_MAX",
    "Acceptance",
    "MatchRules",
    "SeverityRules",
    "Spec",
]

GOLDEN_LISTED_MAX: Final = 64
"""Golden paths up to which running rows are kept; above, scores are computed on demand."""


GOLDEN_MAX: Final = 10_000
"""A spec with more golden paths is refused."""


@dataclass(frozen=True, slots=True)
class SeverityRules:
    """How bad a harmful call is: by state, else by tool, else by reason, else the default."""

    default: str
    tools: Mapping[str, str]
    states: Mapping[str, str]
    reasons: Mapping[str, str]

    def of(self, tool: str, state: str | None, reason: Reason | Obstacle | None) -> str:
        """Severity of a harmful call of `tool`, made in `state` (None: several are possible)."""
        if state is not None and state in self.states:
            return self.states[state]
        if tool in self.tools:
            return self.tools[tool]
        return self.default if reason is None else self.reasons.get(reason, self.default)

    @property
    def levels(self) -> tuple[str, ...]:
        """Every severity a harmful call can have here."""
        rules = (self.tools, self.states, self.reasons)
        return tuple(
            sorted({self.default, *(level for rule in rules for level in rule.values())})
        )


@dataclass(frozen=True, slots=True)
class MatchRules:
    """Which sessions a spec judges, by their attributes."""

    rules: tuple[tuple[str, Callable[[Any], bool]], ...]
    """Attribute and what its value must be; all must hold."""
    without_rules: bool
    """The answer where there are none: a policy applies everywhere, a task must be named."""
    written: tuple[tuple[str, str], ...] = ()
    """Attribute and what its value must be, as text for people."""

    @property
    def keys(self) -> frozenset[str]:
        """The attributes the answer depends on."""
        return frozenset(name for name, _ in self.rules)

    def matches(self, attributes: Mapping[str, Any]) -> bool:
        """True when a session with these resource and span attributes is judged by the spec."""
        if not self.rules:
            return self.without_rules
        return all(
            name in attributes and matches(attributes[name]) for name, matches in self.rules
        )


class Acceptance(NamedTuple):
    """A harmful call that somebody has accepted until the end of a day."""

    symbol: str
    state: str
    constraint: str | None
    """Whose state it is, where the spec has constraints."""
    who: str
    why: str
    until: date
    """The last day, in UTC."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Spec:
    """One version of one spec document, compiled. Compared by identity."""

    id: str
    version: str
    description: str
    kind: Literal["task", "policy", "reference"]
    mode: Literal["shadow", "page"]
    severity: SeverityRules
    match: MatchRules
    scope: Literal["session", "turn", "agent"]
    again: bool
    alphabet: Alphabet
    machine: Machine
    golden: tuple[tuple[int, ...], ...] | None
    """Golden paths in declaration order; None if they are more than `GOLDEN_LISTED_MAX`."""
    golden_count: int
    golden_lengths: tuple[int, ...]
    """The different lengths of the golden paths, ascending."""
    conventions: Conventions
    concurrent: Literal["any_order", "strict"]
    order: Mapping[str, Literal["start", "end"]]
    """Place by which a tool's calls are ordered; `start` for other tools."""
    undo: Mapping[int, int]
    """Symbol -> the symbol that undoes it."""
    file: str
    sha256_8: str
    """First 8 hexadecimal digits of the SHA-256 of the document's text."""
    findings: tuple[Finding, ...] = ()
    """Warnings."""
    learnt: LearntReference | None = None
    """Reference learnt from runs, to which sessions are compared."""
    timing: SpecTiming = NO_TIMING
    """Limits on time."""
    enforce: Literal["off", "advise", "block"] = "advise"
    """Answer to a question about a harmful call (`monitor.decision`)."""
    accepted: tuple[Acceptance, ...] = ()
    """Accepted calls in force: `machine` has a self-loop for each."""
    bare: Machine | None = None
    """The machine without them; None if there are none."""
    traps: tuple[Trap, ...] = ()
    """States of `machine` from which no session can finish any more."""
    data: DataRules | None = None
    """What it compares with what was seen before; None if nothing."""
    each: EachRule | None = None
    """What there is an automaton for each of; None for one automaton for all calls."""

    @classmethod
    def observer(cls) -> Spec:
        """What judges sessions that no spec matches: it sees their calls and says nothing."""
        return cls(
            id="",
            version="",
            description="",
            kind="reference",
            mode="shadow",
            severity=SeverityRules("info", {}, {}, {}),
            match=MatchRules((), without_rules=False),
            scope="session",
            again=False,
            alphabet=build_alphabet({}, "no_effect"),
            machine=build_automaton(["start"], [], "start", [], {}),
            golden=None,
            golden_count=0,
            golden_lengths=(),
            conventions=Conventions(),
            concurrent="any_order",
            order={},
            undo={},
            file="",
            sha256_8="",
        )

    def diagrams(self) -> tuple[tuple[str, Machine], ...]:
        """What can be drawn: (title, machine); one for each constraint where there are some."""
        if isinstance(self.machine, SideBySide):
            return tuple((each.text, each.automaton) for each in self.machine.constraints)
        return ((self.id, self.machine),)
