"""Constraints against the finite-trace definitions of their templates."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from monitor.automaton.dfa import UNDEFINED
from monitor.automaton.paths import reachable
from monitor.records import Reason
from monitor.spec.constraints import (
    TEMPLATES,
    Constraint,
    ConstraintError,
    SideBySide,
    parse,
    side_by_side,
)

SYMBOLS = ("a", "b", "c")
LENGTH = 5
AHEAD = 3
"""Steps after which the largest automaton here (four states) has surely been able to finish."""

Definition = Callable[[str], bool]


def places(word: str, letter: str) -> list[int]:
    return [place for place, each in enumerate(word) if each == letter]


def precedence(word: str) -> bool:
    return all("a" in word[:place] for place in places(word, "b"))


def response(word: str) -> bool:
    return all("b" in word[place:] for place in places(word, "a"))


def alternate_precedence(word: str) -> bool:
    return all(
        "a" in word[word.rfind("b", 0, place) + 1 : place] for place in places(word, "b")
    )


def alternate_response(word: str) -> bool:
    return all(
        "b" in word[place + 1 :].split("a", maxsplit=1)[0] for place in places(word, "a")
    )


def chain_precedence(word: str) -> bool:
    return all(word[:place].endswith("a") for place in places(word, "b"))


def chain_response(word: str) -> bool:
    return all(word[place + 1 :].startswith("b") for place in places(word, "a"))


def has(word: str) -> tuple[bool, bool]:
    return "a" in word, "b" in word


PAIRS: dict[str, Definition] = {
    "precedence": precedence,
    "response": response,
    "succession": lambda word: precedence(word) and response(word),
    "alternate_precedence": alternate_precedence,
    "alternate_response": alternate_response,
    "alternate_succession": lambda word: (
        alternate_precedence(word) and alternate_response(word)
    ),
    "chain_precedence": chain_precedence,
    "chain_response": chain_response,
    "chain_succession": lambda word: chain_precedence(word) and chain_response(word),
    "not_succession": lambda word: "b" not in word.partition("a")[2],
    "not_chain_succession": lambda word: "ab" not in word,
    "not_co_existence": lambda word: has(word) != (True, True),
    "co_existence": lambda word: has(word) in {(True, True), (False, False)},
    "responded_existence": lambda word: has(word) != (True, False),
    "choice": lambda word: has(word) != (False, False),
    "exclusive_choice": lambda word: has(word) in {(True, False), (False, True)},
}

SINGLES: dict[str, tuple[Any, Definition]] = {
    "forbid": ("a", lambda word: "a" not in word),
    "existence": ("a", lambda word: "a" in word),
    "existence 2": (["a", 2], lambda word: word.count("a") >= 2),
    "absence": ("a", lambda word: "a" not in word),
    "absence 3": (["a", 3], lambda word: word.count("a") < 3),
    "exactly": ("a", lambda word: word.count("a") == 1),
    "exactly 0": (["a", 0], lambda word: word.count("a") == 0),
    "exactly 2": ({"a": 2}, lambda word: word.count("a") == 2),
    "at_most 1": ({"a": 1}, lambda word: word.count("a") <= 1),
    "at-most 2": (["a", 2], lambda word: word.count("a") <= 2),
    "init": ("a", lambda word: word.startswith("a")),
    "last": ("a", lambda word: word.endswith("a")),
}

CASES: list[tuple[str, Any, Definition]] = [
    *((name, ["a", "b"], definition) for name, definition in PAIRS.items()),
    *((name.split()[0], operand, each) for name, (operand, each) in SINGLES.items()),
]


def machine_of(*raw: Any, symbols: tuple[str, ...] = SYMBOLS) -> SideBySide:
    return side_by_side(symbols, [each for one in raw for each in parse(one, symbols)])


def check_words(machine: SideBySide, definition: Definition) -> int:
    """Walks every word whose calls are all allowed, comparing with the definition."""

    @cache
    def satisfiable(word: str) -> bool:
        if definition(word):
            return True
        return len(word) < LENGTH + 1 + AHEAD and any(
            satisfiable(word + each) for each in SYMBOLS
        )

    todo, seen = [("", machine.initial)], 0
    while todo:
        word, state = todo.pop()
        seen += 1
        assert machine.accepts(state) == definition(word), word
        assert (machine.unsatisfied(state) == ()) == definition(word), word
        if len(word) == LENGTH:
            continue
        for symbol, letter in enumerate(SYMBOLS):
            target = machine.step(state, symbol)
            assert (target == UNDEFINED) == (not satisfiable(word + letter)), word + letter
            if target != UNDEFINED:
                todo.append((word + letter, target))
    return seen


@pytest.mark.parametrize(("template", "operand", "definition"), CASES)
def test_template_is_its_finite_trace_definition(
    template: str, operand: Any, definition: Definition
) -> None:
    """The end verdict is the definition's, and a call is harmful iff nothing can satisfy it."""
    assert check_words(machine_of({template: operand}), definition) >= LENGTH + 1


def test_every_template_is_covered_here() -> None:
    """Each template has a definition above to be compared with."""
    named = {template.replace("-", "_") for template, _, _ in CASES}
    assert named == set(TEMPLATES)


@pytest.mark.parametrize("second", ["response", "chain_precedence", "not_succession"])
def test_side_by_side_is_each_by_itself(second: str) -> None:
    """The joint machine allows and accepts exactly what all its constraints allow and accept."""
    raw: list[Any] = [{"precedence": ["a", "b"]}, {second: ["b", "c"]}, {"at_most": ["c", 1]}]
    joint, alone = machine_of(*raw), [machine_of(each) for each in raw]
    todo = [(joint.initial, tuple(each.initial for each in alone), 0)]
    while todo:
        state, digits, length = todo.pop()
        assert joint.digits(state) == digits
        accepting = [each.accepts(digit) for each, digit in zip(alone, digits, strict=True)]
        assert joint.accepts(state) == all(accepting)
        for symbol in range(len(SYMBOLS)):
            targets = [each.step(at, symbol) for each, at in zip(alone, digits, strict=True)]
            target = joint.step(state, symbol)
            refusing = [index for index, each in enumerate(targets) if each == UNDEFINED]
            assert (target == UNDEFINED) == bool(refusing)
            assert joint.blame(state, symbol) == (refusing[0] if refusing else -1)
            if not refusing and length < LENGTH:
                todo.append((target, tuple(targets), length + 1))


def walk(machine: SideBySide, word: str) -> int:
    state = machine.initial
    for letter in word:
        target = machine.step(state, machine.symbols.index(letter))
        state = state if target == UNDEFINED else target
    return state


@pytest.mark.parametrize(
    ("raw", "word", "call", "reason", "skipped"),
    [
        ({"forbid": "a"}, "", "a", Reason.FORBIDDEN, None),
        ({"absence": "a"}, "b", "a", Reason.FORBIDDEN, None),
        ({"at_most": ["a", 0]}, "", "a", Reason.FORBIDDEN, None),
        ({"precedence": ["a", "b"]}, "", "b", Reason.OUT_OF_ORDER, "a"),
        ({"precedence": [["c", "a"], "b"]}, "", "b", Reason.OUT_OF_ORDER, "a"),
        ({"at_most": ["a", 2]}, "aa", "a", Reason.REPEATED, None),
        ({"exactly": "a"}, "a", "a", Reason.REPEATED, None),
        ({"alternate_response": ["a", "b"]}, "a", "a", Reason.OUT_OF_ORDER, "b"),
        ({"chain_response": ["a", "b"]}, "a", "c", Reason.OUT_OF_ORDER, "b"),
        ({"init": "a"}, "", "b", Reason.OUT_OF_ORDER, "a"),
        ({"not_co_existence": ["a", "b"]}, "a", "b", Reason.UNREACHABLE, None),
        ({"not_succession": ["a", "b"]}, "a", "b", Reason.UNREACHABLE, None),
        ({"not_chain_succession": ["a", "b"]}, "a", "b", Reason.OUT_OF_ORDER, "c"),
    ],
)
def test_refusal_says_why(
    raw: Any, word: str, call: str, reason: Reason, skipped: str | None
) -> None:
    """A harmful call has the constraint's text, its reason, and the shortest way to make it legal."""
    machine = machine_of(raw)
    state, symbol = walk(machine, word), SYMBOLS.index(call)
    assert machine.step(state, symbol) == UNDEFINED
    assert machine.reason(state, symbol) == reason
    way = machine.skipped(state, symbol)
    assert (None if way is None else "".join(SYMBOLS[each] for each in way)) == skipped


def test_forbidden_is_blamed_before_an_earlier_constraint() -> None:
    """Where one constraint asks for order and another forbids outright, the latter is named."""
    machine = machine_of({"precedence": ["a", "b"]}, {"forbid": ["c", "b"]})
    assert machine.texts == ("precedence: [a, b]", "forbid: c", "forbid: b")
    assert machine.blame(machine.initial, 1) == 2
    assert machine.reason(machine.initial, 1) is Reason.FORBIDDEN
    assert machine.blame(machine.initial, 0) == -1
    assert machine.skipped(machine.initial, 0) == ()
    with pytest.raises(ValueError, match="no constraint refuses 'a'"):
        machine.reason(machine.initial, 0)


def test_only_mentioned_symbols_cost() -> None:
    """A step evaluates only the constraints that mention its symbol."""
    machine = machine_of({"precedence": ["a", "b"]}, {"at_most": ["b", 3]})
    assert [machine.mentions(symbol) for symbol in range(3)] == [True, True, False]
    assert machine.step(7, 2) == 7
    assert machine_of({"init": "a"}).mentions(2)


def test_states_are_named_by_what_has_happened() -> None:
    """A joint state's name says which constraints have moved, and where they are."""
    machine = machine_of({"precedence": ["a", "b"]}, {"at_most": ["b", 3]})
    assert machine.name(machine.initial) == "start"
    said = "precedence: [a, b]: after a; at_most: [b, 3]: 1"
    assert machine.name(walk(machine, "ab")) == said
    assert machine.unsatisfied(machine.initial) == ()
    owing = machine_of({"response": ["a", "b"]}, {"existence": "c"})
    assert owing.unsatisfied(walk(owing, "a")) == ("response: [a, b]", "existence: [c, 1]")


def test_too_many_joint_states_are_not_listed() -> None:
    """The joint states of many constraints are never enumerated; stepping them still works."""
    symbols = tuple(f"s{index}" for index in range(40))
    raw = [{"precedence": [symbols[index], symbols[index + 1]]} for index in range(0, 40, 2)]
    machine = machine_of(*raw, {"at_most": {symbols[0]: 9_999}}, symbols=symbols)
    assert machine.everywhere() == ()
    assert reachable(machine, (machine.initial,)) is None
    state = machine.initial
    for symbol in range(40):
        state = machine.step(state, symbol)
    assert machine.digits(state) == (*[1] * 20, 1)


def test_small_machines_list_their_states() -> None:
    """If the joint states are few, they are listed, so a joined session may be in any of them."""
    machine = machine_of({"precedence": ["a", "b"]}, {"at_most": ["a", 1]})
    assert len(machine.everywhere()) == 2


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        ({"precedence": ["a"]}, "invalid_constraint"),
        ({"precedence": "a"}, "invalid_constraint"),
        ({"precedence": ["a", "a"]}, "invalid_constraint"),
        ({"precedence": [["a", "b"], "b"]}, "invalid_constraint"),
        ({"precedence": [[], "b"]}, "invalid_constraint"),
        ({"precedence": ["a", 1]}, "invalid_constraint"),
        ({"precedence": ["a", "z"]}, "undeclared_symbol"),
        ({"at_most": "a"}, "invalid_constraint"),
        ({"at_most": ["a", "b"]}, "invalid_constraint"),
        ({"at_most": ["a", True]}, "invalid_constraint"),
        ({"at_most": ["a", 1.5]}, "invalid_constraint"),
        ({"at_most": ["a", 10**9]}, "invalid_constraint"),
        ({"at_most": {}}, "invalid_constraint"),
        ({"at_most": ["a", -1]}, "unsatisfiable"),
        ({"absence": ["a", 0]}, "unsatisfiable"),
        ({"existence": ["a", 0]}, "invalid_constraint"),
        ({"existence": ["a", "b"]}, "invalid_constraint"),
        ({"forbid": [["a"]]}, "invalid_constraint"),
        ({"forbid": None}, "invalid_constraint"),
        ({"init": {"a": 1}}, "invalid_constraint"),
        ({"presedence": ["a", "b"]}, "invalid_constraint"),
        ({"zzz": ["a", "b"]}, "invalid_constraint"),
        ({"init": "a", "last": "b"}, "invalid_constraint"),
        ("init", "invalid_constraint"),
    ],
)
def test_bad_constraints_are_refused(raw: Any, code: str) -> None:
    """Malformed and unsatisfiable constraints are refused with their code."""
    with pytest.raises(ConstraintError) as caught:
        parse(raw, SYMBOLS)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("name", "template"),
    [
        ("at-most", "at_most"),
        ("atmost", "at_most"),
        ("not co-existence", "not_co_existence"),
        ("Not-Coexistence", "not_co_existence"),
        ("Chain Precedence", "chain_precedence"),
        ("coexistence", "co_existence"),
    ],
)
def test_names_have_their_usual_spellings(name: str, template: str) -> None:
    """Hyphens, spaces and capitals in a template's name do not matter."""
    operand: Any = ["a", 2] if template == "at_most" else ["a", "b"]
    [constraint] = parse({name: operand}, SYMBOLS)
    assert isinstance(constraint, Constraint)
    assert constraint.template == template
    assert constraint.text.startswith(f"{template}: [a, ")
