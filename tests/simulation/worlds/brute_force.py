"""What true runs are under a spec, by trying every order: a plain interpreter of the spec language.

It is written from docs/writing-specs.md, docs/uncertainty-rules.md and dfa_specs/README.md, and shares nothing with `monitor`.
It knows the part of the language that `specs` writes:

    alphabet: symbols of a tool, with exact values, `one_of`, `min` and `max`; the most specific symbol wins
    task: `golden`, or `initial`, `accepting`, `transitions`; `reads`; `again`; what is not allowed is harmful
    policy: `forbid`, `at_most`, `precedence`; what no symbol names is not judged
    a failed call changes nothing, and begins no episode; it is harmful where the call is not allowed
    a harmful call leaves the state as it is
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

from tests.simulation.worlds.truth import Answer, Call

State = tuple[Any, ...]
Document = Mapping[str, Any]

# Of a policy: a call that no symbol names. Of a task: one that is unknown.
NO_SYMBOL = None


@dataclass
class Truth:
    """What one run is under one spec.

    Args:
        least: harmful calls. Under `strict`: in the worst order of the calls that overlapped.
        most: under `strict`, in the worst order of all calls that one answer asked for; else `least`.
        by_answer: `most` after each answer of the model.
        harmful: calls that are harmful in some order.
        without_order: calls that are harmful wherever they stand.
    """

    least: int = 0
    most: int = 0
    by_answer: list[int] = field(default_factory=list)
    harmful: set[int] = field(default_factory=set)
    without_order: set[int] = field(default_factory=set)


def judge(document: Document, answers: Sequence[Answer]) -> Truth:
    """The truth of a run: the calls of each answer in every order, the answers one after the other."""
    spec = _Task(document) if document["kind"] == "task" else _Policy(document)
    worst = document["concurrent"] == "strict"
    truth = Truth()
    free: dict[State, int] = {spec.initial: 0}
    timed = dict(free)
    for answer in answers:
        free = _after(spec, free, list(permutations(answer.calls)), worst, truth.harmful)
        timed = _after(spec, timed, list(_timed_orders(answer.calls)), worst, truth.harmful)
        truth.by_answer.append(_total(free, worst))
    truth.most = _total(free, worst)
    truth.least = _total(timed, worst) if worst else truth.most
    truth.without_order = {c.number for a in answers for c in a.calls if spec.never_allows(c)}
    return truth


def _total(costs: Mapping[State, int], worst: bool) -> int:
    return max(costs.values()) if worst else min(costs.values())


def _after(
    spec: _Task | _Policy,
    costs: Mapping[State, int],
    orders: Sequence[Sequence[Call]],
    worst: bool,
    harmful: set[int],
) -> dict[State, int]:
    """The states in which the calls may end, each with its number of harmful calls."""
    found: dict[State, int] = {}
    for before, cost in costs.items():
        for order in orders:
            state, sum_ = before, cost
            for call in order:
                after = spec.step(state, call)
                if after is None:
                    sum_ += 1
                    harmful.add(call.number)
                else:
                    state = after
            known = found.get(state)
            found[state] = (
                sum_ if known is None else max(known, sum_) if worst else min(known, sum_)
            )
    return found


def _timed_orders(calls: Sequence[Call]) -> Iterator[tuple[Call, ...]]:
    """The orders in which a call that had ended stands before those that began then."""
    for order in permutations(calls):
        if all(
            not later.end <= earlier.start
            for place, earlier in enumerate(order)
            for later in order[place + 1 :]
        ):
            yield order


class _Alphabet:
    def __init__(self, document: Document) -> None:
        self._symbols: Mapping[str, Any] = document["alphabet"]

    def symbol_of(self, call: Call) -> str | None:
        """The most specific symbol that matches a call."""
        fitting = [
            name for name, symbol in self._symbols.items() if self._matches(symbol, call)
        ]
        return max(fitting, key=self._rank, default=NO_SYMBOL)

    def _matches(self, symbol: Mapping[str, Any], call: Call) -> bool:
        if symbol["tool"] != call.tool:
            return False
        patterns = symbol.get("arguments", {})
        return all(
            key in call.arguments and _fits(pattern, call.arguments[key])
            for key, pattern in patterns.items()
        )

    def _rank(self, name: str) -> tuple[int, int]:
        patterns = self._symbols[name].get("arguments", {}).values()
        return sum(not isinstance(each, dict) for each in patterns), len(patterns)


def _fits(pattern: Any, value: Any) -> bool:
    if not isinstance(pattern, dict):
        return bool(pattern == value)
    if "one_of" in pattern:
        return value in pattern["one_of"]
    return bool(pattern.get("min", float("-inf")) <= value <= pattern.get("max", float("inf")))


class _Task:
    """A closed world: what is not allowed is harmful."""

    def __init__(self, document: Document) -> None:
        self._alphabet = _Alphabet(document)
        self._reads = document.get("reads", ())
        self._again = document.get("again", False)
        self._edges: dict[tuple[Any, str], Any] = {}
        if "golden" in document:
            self._read_golden(document["golden"])
        else:
            self.initial: State = (document["initial"],)
            self._accepting: set[State] = {(state,) for state in document["accepting"]}
            for state, edges in document["transitions"].items():
                for symbol, to in edges.items():
                    self._edges[(state,), symbol] = (to,)

    def _read_golden(self, golden: Sequence[Sequence[str]]) -> None:
        self.initial = ()
        self._accepting = {tuple(path) for path in golden}
        for path in golden:
            for place, symbol in enumerate(path):
                self._edges[tuple(path[:place]), symbol] = tuple(path[: place + 1])

    def step(self, state: State, call: Call) -> State | None:
        """The state after a call; None for a harmful one."""
        symbol = self._alphabet.symbol_of(call)
        if symbol is None:
            return None
        after = self._edges.get((state, symbol))
        if after is None and symbol in self._reads:
            after = state
        if after is None and self._again and state in self._accepting:
            after = self._edges.get((self.initial, symbol))
        return state if after is not None and call.failed else after

    def never_allows(self, call: Call) -> bool:
        return self._alphabet.symbol_of(call) is None


class _Policy:
    """An open world: constraints over the calls that the alphabet names.

    A state is how often each symbol was called.
    """

    initial: State = ()

    def __init__(self, document: Document) -> None:
        self._alphabet = _Alphabet(document)
        self._constraints: Sequence[Mapping[str, Any]] = document["constraints"]
        self._failed_change = document.get("conventions", {}).get("failed_calls") == "ordinary"

    def step(self, state: State, call: Call) -> State | None:
        """The state after a call; None for a harmful one."""
        symbol = self._alphabet.symbol_of(call)
        if symbol is None:
            return state
        if any(self._refuses(each, state, symbol) for each in self._constraints):
            return None
        return state if call.failed and not self._failed_change else (*state, symbol)

    def _refuses(self, constraint: Mapping[str, Any], state: State, symbol: str) -> bool:
        [(template, of)] = constraint.items()
        if template == "forbid":
            return bool(symbol == of)
        if template == "at_most":
            return bool(symbol == of[0] and state.count(symbol) >= of[1])
        before, after = of
        return bool(symbol == after and before not in state)

    def never_allows(self, call: Call) -> bool:
        symbol = self._alphabet.symbol_of(call)
        return any(each.get("forbid") == symbol for each in self._constraints if symbol)
