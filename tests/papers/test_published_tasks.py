"""The 84 published tasks as our specs: what is repaired, and that they mean what they meant."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random
from typing import Any

import pytest

from monitor.automaton.dfa import UNDEFINED, Automaton, build
from monitor.records import SessionKey
from monitor.scores import paper_formulas
from monitor.spec.core_import.dataset import defects
from monitor.spec.spec import Spec
from tests.made_runs.doubles import judge
from tests.made_runs.runs import MadeCall, Mode, RunCase, make
from tests.made_runs.sample_arguments import arguments_for
from tests.papers.core_data import DATASET, load, needs_core, repaired, spec, specs, tasks

pytestmark = needs_core

REPAIRS = {
    "crud_3": [
        ("nondeterministic", "'B' leads from 'G3' to G4 and to G3",
         "the loop of G3 is D, E, E', E'', B'"),
    ],
    "desktop_manager_6": [
        ("wrong_edge_source",
         "an edge listed under 'G2' says that it starts from 'G1'",
         "it starts from the state it is listed under"),
    ],
    "event_scheduler_4": [
        ("undeclared_symbol", "\"F'\" on an edge of 'G1' is not in the alphabet",
         "the loop of G1 is E, F"),
    ],
    "file_management_5": [
        ("undeclared_symbol", "\"KK'\" on an edge of 'G2' is not in the alphabet",
         "the loop of G2 is C, F, J, K, K', M, N"),
    ],
    "transactions_3": [
        ("duplicate_state", "state 'G6' is listed twice",
         "the loop of G5 is D, D'', F; the copy is dropped"),
        ("nondeterministic", "\"D'\" leads from 'G5' to G6 and to G5",
         "the loop of G5 is D, D'', F; the copy is dropped"),
    ],
    "transactions_7": [
        ("undeclared_symbol", "\"D''\" on an edge of 'G2' is not in the alphabet",
         "five states, A B G C in a row, the loop D, D', F on each; "
         "B: amount 1000 (B' excludes it); C: account D001, amount 300"),
    ],
    "configurations_5": [
        ("nondeterministic", "\"B'\" leads from 'G3' to G5 and to G3",
         "the second edge is dropped"),
    ],
    "validation_6": [
        ("overlapping_patterns", "'A' and \"A'\" have the same pattern",
         "the one declared first wins"),
    ],
}  # fmt: skip

WRONG_AUTOMATA = {"automation_2", "automation_3", "automation_5", "transactions_6"}


def edges(id_: str, state: str) -> dict[str, str]:
    """Target by symbol in a state of an imported spec."""
    machine = spec(id_).machine
    assert isinstance(machine, Automaton)
    number = machine.states.index(state)
    return {
        machine.symbols[symbol]: machine.states[machine.step(number, symbol)]
        for symbol in machine.defined(number)
    }


def test_every_repair_is_told_and_no_other_is_made() -> None:
    """The eight defective tasks, each defect with what was done; 76 tasks are left alone."""
    found = {
        id_: [(each.defect.code, each.defect.message, each.done) for each in repaired(id_)[1]]
        for id_ in tasks()
    }

    assert len(found) == 84
    assert {id_: done for id_, done in found.items() if done} == REPAIRS


def test_the_defects_are_found_without_repairing() -> None:
    """A reader of defects alone sees the same eight tasks."""
    assert {id_ for id_, task in tasks().items() if defects(task)} == set(REPAIRS)


@pytest.mark.parametrize(
    ("id_", "state", "expected"),
    [
        ("crud_3", "G3", {"D": "G3", "E": "G3", "E'": "G3", "E''": "G3", "B'": "G3", "B": "G4"}),
        ("desktop_manager_6", "G2",
         {"E'": "G3", "C": "G2", "D": "G2", "F": "G2", "F'": "G2"}),
        ("event_scheduler_4", "G1", {"C": "G2", "E": "G1", "F": "G1"}),
        ("file_management_5", "G2",
         {"C": "G2", "F": "G2", "J": "G2", "K": "G2", "K'": "G2", "M": "G2", "N": "G2"}),
        ("transactions_3", "G5", {"D'": "G6", "D": "G5", "D''": "G5", "F": "G5"}),
        ("configurations_5", "G3", {"B": "G4", "B'": "G5", "B''": "G3"}),
        ("transactions_7", "G2", {"G": "G3", "D": "G2", "D'": "G2", "F": "G2"}),
        ("transactions_7", "G3", {"C": "G4", "D": "G3", "D'": "G3", "F": "G3"}),
    ],
)  # fmt: skip
def test_the_repaired_state_has_these_edges(
    id_: str, state: str, expected: dict[str, str]
) -> None:
    """The automaton has the edges of the table of repairs."""
    assert edges(id_, state) == expected


def symbol(id_: str, tool: str, **arguments: Any) -> str | None:
    """The symbol of a call in an imported spec."""
    alphabet = spec(id_).alphabet
    token = alphabet.match(tool, arguments, failed=False)
    return alphabet.symbols[token] if token < len(alphabet.symbols) else None


def test_transactions_7_asks_for_what_its_prompt_says() -> None:
    """1000 is deposited and 300 withdrawn, both at D001."""
    task = "transactions_7"

    assert spec(task).golden_lengths == (4,)
    assert symbol(task, "deposit", account_id="D001", amount=1000) == "B"
    assert symbol(task, "deposit", account_id="D001", amount=100) is None
    assert symbol(task, "deposit", account_id="X", amount=1) == "B'"
    assert symbol(task, "deposit", account_id="X", amount=1000) is None
    assert symbol(task, "withdraw", account_id="D001", amount=300.0) == "C"
    assert symbol(task, "withdraw", account_id="D001", amount=301) is None


def test_the_tie_goes_to_the_symbol_declared_first() -> None:
    """validation_6 has one pattern twice: A, with a finding."""
    codes = {(found.code, found.key) for found in spec("validation_6").findings}

    assert symbol("validation_6", "validate_email", email="a@b.c") == "A"
    assert ("overlapping_patterns", "alphabet.A'") in codes


def test_the_counts_of_the_data_set() -> None:
    """84 tasks of 14 worlds, 106 symbols without arguments; golden paths as published."""
    found = specs()
    patterns = [each for one in found for each in one.alphabet.patterns]

    assert len({task.world for task in tasks().values()}) == 14
    assert sum(each is not None and not each for each in patterns) == 106
    assert Counter(one.golden_count for one in found) == {1: 79, 2: 3, 4: 2}
    assert {len(one.golden_lengths) for one in found} == {1}
    assert {one.golden_lengths[0] for one in found} == set(range(1, 10))


def test_imported_specs_carry_the_published_conventions() -> None:
    """The id is the prompt's, failed calls are harmful, and start and end are the data set's."""
    for id_, task in tasks().items():
        one = spec(id_)
        machine = one.machine
        assert isinstance(machine, Automaton)
        assert one.id == task.id == id_
        assert one.description == task.description
        assert (one.kind, one.conventions.profile) == ("task", "core")
        assert one.conventions.failed_calls == "harmful"
        assert machine.states[machine.initial] == task.states[0].name
        assert {machine.states[end] for end in machine.accepting} == {
            state.name for state in task.states if state.final
        }


def test_computations_and_writing_have_no_reads() -> None:
    """Any extra call is harmful in these two worlds."""
    for id_, task in tasks().items():
        if task.world in ("computations", "writing"):
            machine = spec(id_).machine
            assert isinstance(machine, Automaton)
            assert not any(map(machine.reads, range(len(machine.states))))


@pytest.mark.parametrize(
    ("id_", "tool", "arguments", "expected"),
    [
        ("configurations_1", "print_config", {}, "B"),  # a wildcard may be missing
        ("configurations_1", "print_config", {"key": 1, "more": 2}, "B"),  # more is ignored
        ("configurations_1", "set_config",
         {"key": "theme", "value": "dark mode", "category": "UI"}, None),  # not this one
        ("crud_1", "list_users", {}, "D"),
        ("crud_1", "list_users", {"all": True}, None),  # no argument at all
        ("validation_6", "generate_otp", {"length": 8.0}, "E"),
        ("validation_6", "generate_otp", {"length": True}, "E'"),
        ("validation_6", "generate_otp", {"length": "8"}, "E'"),
    ],
)  # fmt: skip
def test_calls_are_read_as_the_published_scorer_reads_them(
    id_: str, tool: str, arguments: dict[str, Any], expected: str | None
) -> None:
    """Missing, additional and odd arguments, one by one."""
    assert symbol(id_, tool, **arguments) == expected


@pytest.mark.parametrize("id_", sorted(tasks()) if DATASET.exists() else [])
def test_golden_paths_are_accepted_with_perfect_scores(id_: str) -> None:
    """Each golden path as calls: progress throughout, and nothing to improve."""
    one = spec(id_)
    assert one.golden is not None
    ways = {tuple(one.machine.symbols[letter] for letter in path) for path in one.golden}

    seen = set()
    for seed in range(40):
        made = make(one, Mode.ACCEPTED, seed)
        seen.add(tuple(each.symbol for each in made.expected))
        [found] = judge(one, made.tool_calls(SessionKey("", id_), start_ns=10**18))
        assert [step["kind"] for step in found["steps"]] == ["progress"] * len(made.calls)
        assert (found["accepting"], found["exact"], found["harmful"]) == (True, True, 0)
        assert found["harm_rate"] == 0
        perfect = ("prefix_crit", "pc", "pc_ktc", "pc_hlr", "efficiency")
        expected = dict.fromkeys(perfect, 1.0)
        if len(made.calls) == 1:  # tau+ is 0.5 where fewer than two calls can match
            expected["pc_ktc"] = 0.75
        assert {name: found[name] for name in perfect} == expected
        if seen == ways:
            break
    assert seen == ways


def accepted(one: Spec, calls: list[dict[str, Any]]) -> bool:
    """Whether the calls lead from the initial to an accepting state without a harm."""
    state = one.machine.initial
    for call in calls:
        token = one.alphabet.match(call["name"], call["arguments"], failed=False)
        state = (
            UNDEFINED if token >= len(one.alphabet.symbols) else one.machine.step(state, token)
        )
        if state == UNDEFINED:
            return False
    return one.machine.accepts(state)


def test_the_authors_reference_sequences() -> None:
    """80 of the 91 are accepted. The rest show the four wrong automata and three slips."""
    references = load("reference_sequences.json")
    refused = {
        each["prompt_id"]
        for each in references
        if not accepted(spec(each["prompt_id"]), each["calls"])
    }

    count = sum(accepted(spec(each["prompt_id"]), each["calls"]) for each in references)
    assert (len(references), count) == (91, 80)
    assert refused >= WRONG_AUTOMATA
    # A full stop too many, a category left out, `powers` for `power`, `defaul@example.com`.
    slips = {"configurations_1", "configurations_2", "computations_5", "crud_3"}
    assert refused == WRONG_AUTOMATA | slips


# --- against the published JSON itself, read as plainly as can be ------------------------------


def equal(value: Any, wanted: Any) -> bool:
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, list) and isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(equal, value, wanted))
    return bool(value == wanted)


def fits(slots: dict[str, Any], arguments: dict[str, Any]) -> bool:
    if not slots:
        return not arguments
    for key, slot in slots.items():
        value, excluded = slot["value"], slot["excluded_values"] or []
        if value is None and not excluded:
            continue
        if key not in arguments:
            return False
        if value is not None and not equal(arguments[key], value):
            return False
        if value is None and any(equal(arguments[key], each) for each in excluded):
            return False
    return True


def plainly(record: dict[str, Any], tool: str, arguments: dict[str, Any]) -> str | None:
    """The symbol of a call by the published rules: the most specific, then the first."""

    def specificity(slots: dict[str, Any]) -> tuple[int, int]:
        exact = sum(slot["value"] is not None for slot in slots.values())
        return exact, exact + sum(bool(slot["excluded_values"]) for slot in slots.values())

    found = [
        (specificity(meaning["arguments"]), -place, symbol)
        for place, (symbol, meaning) in enumerate(record["alphabet"].items())
        if meaning["name"] == tool and fits(meaning["arguments"], arguments)
    ]
    return max(found)[2] if found else None


ODD: tuple[Any, ...] = (None, True, False, 0, 1, 1.0, "1", "", "other", 2.5, [], [1], {"a": 1})


def odd_call(record: dict[str, Any], chance: Random) -> tuple[str, dict[str, Any]]:
    """A call near one of the task's: values of its tool's symbols, odd ones, some missing."""
    meanings = list(record["alphabet"].values())
    tool = chance.choice(meanings)["name"]
    slots = [each["arguments"] for each in meanings if each["name"] == tool]
    arguments = {}
    for key in sorted({key for each in slots for key in each}):
        known = [each[key] for each in slots if key in each]
        values = [slot["value"] for slot in known if slot["value"] is not None]
        values += [value for slot in known for value in slot["excluded_values"] or []]
        if chance.random() < 0.9:
            pool = values if values and chance.random() < 0.7 else ODD
            arguments[key] = chance.choice(list(pool))
    if chance.random() < 0.1:
        arguments["more"] = 1
    return tool, arguments


def test_random_calls_are_the_symbols_the_published_rules_say() -> None:
    """4,200 right, wrong and odd calls over the 84 tasks have the published symbols."""
    chance, seen = Random(1), Counter[bool]()
    for record in load("all_worlds_dataset.json"):
        id_ = record["prompt_id"]
        if id_ == "transactions_7":  # its patterns are repaired
            continue
        for _ in range(50):
            tool, arguments = odd_call(record, chance)
            wanted = plainly(record, tool, arguments)
            assert symbol(id_, tool, **arguments) == wanted, (id_, tool, arguments)
            seen[wanted is None] += 1
    assert min(seen.values()) > 500


@pytest.mark.parametrize("walks", [200, pytest.param(1_000, marks=pytest.mark.long)])
def test_random_paths_have_the_scores_of_the_formulas(walks: int) -> None:
    """Walks over the tasks as published have the verdicts and scores of the formulas, to 1e-12."""
    chance = Random(2)
    sound = [
        record
        for record in load("all_worlds_dataset.json")
        if record["prompt_id"] not in REPAIRS
    ]
    for number in range(walks):
        record = sound[number % len(sound)]
        one = spec(record["prompt_id"])
        plain = task_of(record)
        path = walk(plain, chance)
        calls = tuple(
            MadeCall(one.alphabet.tools[letter], sample(one, letter)) for letter in path
        )
        made = RunCase(one.id, Mode.ACCEPTED, 0, calls, (), None, None)
        [found] = judge(one, made.tool_calls(SessionKey("", "s"), start_ns=10**18))
        scores = paper_formulas.evaluate(plain, path, None, one.conventions)
        for name in ("pc", "pc_ktc", "pc_hlr", "harm_rate", "prefix_crit", "harmful"):
            assert abs(found[name] - getattr(scores, name)) <= 1e-12, (one.id, path, name)
        assert found["efficiency"] == scores.efficiency
        assert (found["accepting"], found["state"]) == (
            scores.accepting,
            plain.states[scores.state],
        )


def walk(automaton: Automaton, chance: Random) -> list[int]:
    """Calls mostly along the way, with some that are not allowed."""
    state, path = automaton.initial, []
    for _ in range(chance.randint(1, 12)):
        allowed = automaton.defined(state)
        letter = (
            chance.choice(allowed)
            if allowed and chance.random() < 0.7
            else chance.randrange(len(automaton.symbols))
        )
        path.append(letter)
        target = automaton.step(state, letter)
        state = state if target == UNDEFINED else target
    return path


@cache
def sample(one: Spec, letter: int) -> dict[str, Any]:
    return arguments_for(one.alphabet, letter, Random(letter))


def task_of(record: dict[str, Any]) -> Automaton:
    names = [node["name"] for node in record["nodes"]]
    found = {
        (node["name"], letter): edge["to"]
        for node in record["nodes"]
        for edge in node["transitions"]
        for letter in edge["symbols"]
    }
    ends = [node["name"] for node in record["nodes"] if node["is_final"]]
    return build(names, record["alphabet"], names[0], ends, found)
