"""Published automata in every form they come in, their defects, and what is repaired."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.automaton.dfa import Automaton
from monitor.spec.compiler.compile import compile_text
from monitor.spec.core_import.dataset import Task, defects, document
from monitor.spec.core_import.forms import FormError, read_task, records
from monitor.spec.core_import.repairs import repair
from monitor.spec.document import yaml_text
from monitor.spec.document.write import flow, name
from monitor.spec.spec import Spec

ALPHABET = {
    "A": {"name": "World__open", "arguments": {"what": {"value": "door", "type": "str"}}},
    "B": {"name": "look", "arguments": {}},
    "C": {"name": "close"},
}
EDGES = {("G0", "A"): "G1", ("G1", "C"): "G2", ("G0", "B"): "G0", ("G2", "B"): "G2"}


def edge(symbols: Any, source: str, target: str) -> dict[str, Any]:
    return {"symbols": symbols, "from": source, "to": target}


NODES = [
    {"name": "G0", "is_final": False,
     "transitions": [edge(["A"], "G0", "G1"), edge(["B"], "G0", "G0")]},
    {"name": "G1", "is_final": False, "transitions": [edge(["C"], "G1", "G2")]},
    {"name": "G2", "is_final": True, "transitions": [edge(["B"], "G2", "G2")]},
]  # fmt: skip

ROWS = {"G0": {"A": "G1", "B": "G0"}, "G1": {"C": "G2"}, "G2": {"B": "G2"}}
TRIPLES = [[source, symbol, target] for (source, symbol), target in EDGES.items()]
OBJECTS = [
    {"source": source, "symbol": symbol, "target": target}
    for (source, symbol), target in EDGES.items()
]

FORMS: dict[str, Any] = {
    "nodes": {"nodes": NODES},
    "list of nodes": NODES,
    "nodes by name": {node["name"]: node for node in NODES},
    "nodes under states": {"states": NODES, "initial_state": "G0"},
    "rows": {"states": ["G0", "G1", "G2"], "initial": "G0", "accepting": ["G2"],
             "transitions": ROWS},
    "rows without states": {"start": ["G0"], "final_states": "G2", "transitions": ROWS},
    "nodes with rows": {"states": {state: {"transitions": row, "final": state == "G2"}
                                   for state, row in ROWS.items()}},
    "triples": {"Q": ["G0", "G1", "G2"], "q0": "G0", "F": ["G2"], "delta": TRIPLES},
    "objects": {"states": ["G0", "G1", "G2"], "start_state": "G0", "accept_states": ["G2"],
                "edges": OBJECTS},
    "marked initial": {"nodes": [*NODES[1:], {**NODES[0], "is_initial": True}]},
}  # fmt: skip


def compiled(task: Task) -> Spec:
    spec, findings = compile_text(document(task), "made.yaml")
    assert spec is not None, findings
    return spec


def edges_of(spec: Spec) -> dict[tuple[str, str], str]:
    machine = spec.machine
    assert isinstance(machine, Automaton)
    return {
        (machine.states[state], machine.symbols[symbol]): machine.states[
            machine.step(state, symbol)
        ]
        for state in range(len(machine.states))
        for symbol in machine.defined(state)
    }


def single(dfa: Any, **more: Any) -> dict[str, Any]:
    return {"dfa": dfa, "alphabet": ALPHABET, "expected_sequence": ["A", "C"], **more}


@pytest.mark.parametrize("form", FORMS)
def test_one_automaton_in_many_forms(form: str) -> None:
    """Nodes or states, lists or mappings: the same automaton comes out."""
    [(id_, record)] = records(json.loads(json.dumps(single(FORMS[form]))), "one")
    task = read_task(id_, record)
    spec = compiled(task)

    assert (id_, spec.id, defects(task)) == ("one", "one", ())
    assert edges_of(spec) == EDGES
    assert spec.machine.name(spec.machine.initial) == "G0"
    assert spec.golden == ((0, 2),)
    assert spec.alphabet.tools == ("open", "look", "close")


def test_the_ids_of_records() -> None:
    """The id is the prompt's in a data set, and the file's name for a single automaton."""
    record = {"prompt_id": "p_1", "nodes": NODES, "alphabet": ALPHABET}

    assert [id_ for id_, _ in records([record, {"nodes": []}], "file")] == ["p_1", "file[1]"]
    assert [id_ for id_, _ in records(record, "file")] == ["p_1"]
    assert [id_ for id_, _ in records(single(NODES, prompt_id="p_2"), "file")] == ["file"]
    assert [id_ for id_, _ in records({"x": single(NODES), "y": record}, "file")] == [
        "x",
        "p_1",
    ]


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ([], "expected an object, found a list"),
        ({"dfa": 1, "alphabet": ALPHABET}, "dfa: expected an object or a list of nodes"),
        ({"dfa": NODES}, "there is no alphabet"),
        ({"dfa": {"states": []}, "alphabet": ALPHABET}, "there are no nodes"),
        (single([{"transitions": []}]), "nodes[0].name: expected a name, found nothing"),
        (single([{"name": "G0", "transitions": [{"symbols": ["A"], "from": "G0"}]}]),
         "transitions of G0[0].to: expected a name, found nothing"),
        (single([{"name": "G0", "transitions": ["A"]}]), "expected an edge with from, symbols"),
        (single({"nodes": NODES, "initial": ["G0", "G1"]}), "initial: expected one state"),
        ({"dfa": NODES, "alphabet": {"A": 1}}, "alphabet.A: expected a tool's name"),
        ({"dfa": NODES, "alphabet": {"A": {"arguments": {}}}}, "alphabet.A.name: expected"),
        ({"dfa": NODES, "alphabet": {"A": {"name": "a", "arguments": 3}}},
         "alphabet.A.arguments: expected an object"),
    ],
)  # fmt: skip
def test_what_is_no_automaton_is_told_with_its_place(record: Any, said: str) -> None:
    """A message that names the key, never a Python error."""
    with pytest.raises(FormError) as problem:
        read_task("x", record)

    assert said in str(problem.value)


@pytest.mark.parametrize(
    ("slot", "pattern"),
    [
        ({"value": 3, "excluded_values": None, "type": "float"}, 3),
        ({"value": None, "excluded_values": None, "type": "str"}, {"any": True}),
        ({"value": None, "excluded_values": [], "type": "str"}, {"any": True}),
        ({"value": None, "excluded_values": ["a", 1]}, {"not_in": ["a", 1]}),
        ({"value": "x", "excluded_values": ["x"]}, "x"),
        ({"value": {"k": 1}}, {"exact": {"k": 1}}),
        ({"value": [1, 2]}, [1, 2]),
        ({"value": False}, False),
        ({"type": "int"}, {"any": True}),
        ({"city": "Rome"}, {"exact": {"city": "Rome"}}),
        ("plain", "plain"),
        (None, {"any": True}),
    ],
)
def test_argument_slots(slot: Any, pattern: Any) -> None:
    """Equality, anything but, or anything at all; the type is a hint and decides nothing."""
    alphabet = {"A": {"name": "t", "arguments": {"a": slot}}}
    task = read_task("x", {"dfa": NODES, "alphabet": alphabet})

    assert task.alphabet["A"].arguments == {"a": pattern}


def mended(nodes: Any, alphabet: Any = ALPHABET) -> tuple[Task, list[tuple[str, str]]]:
    task, repairs = repair(read_task("x", {"dfa": nodes, "alphabet": alphabet}))
    return task, [(each.defect.code, each.done) for each in repairs]


def test_two_targets_keep_the_first() -> None:
    """An edge listed second for a symbol is dropped, its other symbols stay."""
    first = {
        "name": "G0",
        "transitions": [edge(["A"], "G0", "G1"), edge(["A", "B"], "G0", "G0")],
    }
    task, done = mended([first, *NODES[1:]])

    assert done == [("nondeterministic", "the second edge is dropped")]
    assert edges_of(compiled(task)) == EDGES


def test_a_symbol_nobody_declared_is_dropped() -> None:
    """No call could match it, so it is dropped, and so are edges without other symbols."""
    first = {"name": "G0", "transitions": [
        edge(["A", "Z"], "G0", "G1"), edge(["Y"], "G0", "G2"), edge(["B"], "G0", "G0")
    ]}  # fmt: skip
    task, done = mended([first, *NODES[1:]])

    assert done == [("undeclared_symbol", "it is dropped: no call could match it")] * 2
    assert edges_of(compiled(task)) == EDGES


def test_a_wrong_source_and_a_copy() -> None:
    """An edge starts at the state that lists it. A state listed twice alike counts once."""
    second = {"name": "G1", "transitions": [edge(["C"], "G0", "G2")]}
    task, done = mended([NODES[0], second, NODES[2], NODES[2]])

    assert sorted(code for code, _ in done) == ["duplicate_state", "wrong_edge_source"]
    assert edges_of(compiled(task)) == EDGES


def test_what_would_need_a_guess_is_not_repaired() -> None:
    """Two states of one name, an unlisted state and an unreachable end are errors."""
    twice = [*NODES, {"name": "G1", "transitions": []}]
    nowhere = [{"name": "G0", "transitions": [edge(["A"], "G0", "G9")]}, *NODES[1:]]
    endless = [{**node, "is_final": False} for node in NODES]
    cut = [NODES[0], {"name": "G1", "transitions": []}, NODES[2]]

    for nodes, codes in (
        (twice, {"duplicate_state"}),
        (nowhere, {"undeclared_state", "no_accepting_state_reachable"}),
        (endless, {"no_accepting_state_reachable"}),
        (cut, {"no_accepting_state_reachable"}),
    ):
        task, _ = mended(nodes)
        assert {each.code for each in defects(task)} == codes


def test_a_published_repair_is_for_the_task_as_published_only() -> None:
    """A task of that name without the defect, or with another one, is not rewritten."""
    record = {"prompt_id": "transactions_7", "nodes": NODES, "alphabet": ALPHABET}
    sound = read_task("transactions_7", record)
    other = {"name": "G0", "transitions": [edge(["A", "D''"], "G0", "G1")]}
    defective = read_task("transactions_7", {**record, "nodes": [other, *NODES[1:]]})

    assert repair(sound) == (sound, ())
    assert [each.done for each in repair(defective)[1]] == [
        "it is dropped: no call could match it"
    ]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False)
        | st.text(st.characters(exclude_categories=["Cs"])),
        lambda inner: st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4),
        max_leaves=8,
    )
)  # fmt: skip
def test_written_values_read_back(value: Any) -> None:
    """Any JSON value survives a round trip through our YAML."""
    read, findings = yaml_text.parse(f"key: {flow(value)}\n", "made.yaml")

    assert findings == []
    assert read is not None
    assert json.dumps(read.data) == json.dumps({"key": value})


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_written_names_read_back(text: str) -> None:
    """Names too, as keys and as values, in a row and alone."""
    source = f"{name(text)}: {{{name(text)}: [{name(text)}]}}\n"
    read, findings = yaml_text.parse(source, "made.yaml")

    assert findings == []
    assert read is not None
    assert read.data == {text: {text: [text]}}
