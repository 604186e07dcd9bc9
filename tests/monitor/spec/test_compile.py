"""The compiler: alphabet, automaton, golden paths, rules and findings."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.automaton import paths
from monitor.automaton.dfa import UNDEFINED, Automaton
from monitor.findings import Finding
from monitor.records import Conventions, Obstacle, Reason
from monitor.spec.compiler.compile import compile_text
from monitor.spec.constraints import SideBySide
from monitor.spec.document.schema import ReasonName, json_schema
from monitor.spec.spec import Spec

ROOT = Path(__file__).parents[3]
SPECS = Path(__file__).parent / "specs"
CAPTURES = ROOT / ".." / "shared" / "captures"


def document(**keys: Any) -> dict[str, Any]:
    alphabet = {name: {"tool": name} for name in "abc"}
    base = {"id": "s", "alphabet": alphabet, "golden": [["a", "b", "c"]]}
    return {key: value for key, value in {**base, **keys}.items() if value is not None}


def compiled(**keys: Any) -> Spec:
    spec, found = compile_text(json.dumps(document(**keys)), "s.yaml")
    assert spec is not None, [str(each) for each in found]
    return spec


def refused(**keys: Any) -> list[Finding]:
    spec, found = compile_text(json.dumps(document(**keys)), "s.yaml")
    assert spec is None
    return [each for each in found if each.severity == "error"]


def task(spec: Spec) -> Automaton:
    assert isinstance(spec.machine, Automaton)
    return spec.machine


def good(name: str) -> Spec:
    text = (SPECS / "good" / f"{name}.yaml").read_text()
    spec, _ = compile_text(text, f"{name}.yaml")
    assert spec is not None
    return spec


# --- golden sequences -------------------------------------------------------------------------

words = st.lists(st.lists(st.sampled_from("abc"), max_size=4), min_size=1, max_size=5)


@given(words)
def test_golden_sequences_are_the_golden_paths(raw: list[list[str]]) -> None:
    """The automaton of the short form accepts exactly the given words, as its golden paths."""
    spec = compiled(golden=raw)
    wanted = {tuple("abc".index(name) for name in word) for word in raw}
    assert spec.golden is not None
    assert set(spec.golden) == wanted
    assert spec.golden == tuple(sorted(wanted))
    assert spec.golden_count == len(wanted)
    assert spec.golden_lengths == tuple(sorted({len(word) for word in wanted}))


@given(words)
def test_golden_automaton_is_minimal(raw: list[list[str]]) -> None:
    """No two states of the short form are equivalent, and states are named G0, G1, and so on."""
    machine = task(compiled(golden=raw))

    def future(state: int) -> frozenset[tuple[int, ...]]:
        found = {()} if machine.accepts(state) else set[tuple[int, ...]]()
        for symbol, target in machine.progress(state):
            found |= {(symbol, *word) for word in future(target)}
        return frozenset(found)

    states = range(len(machine.states))
    assert len({future(state) for state in states}) == len(machine.states)
    assert machine.states == tuple(f"G{index}" for index in states)
    breadth_first = paths.reachable(machine, (0,))
    assert breadth_first == tuple(states)


def test_golden_shares_prefixes_and_suffixes() -> None:
    """Two orders of two steps are a diamond: one state before, one after."""
    machine = task(good("golden"))
    assert machine.states == ("G0", "G1", "G2", "G3", "G4")
    assert [machine.name(state) for state in machine.accepting] == ["G4"]


def test_reads_as_a_list_loop_wherever_there_is_no_edge() -> None:
    """A symbol that is golden and a read progresses where it has an edge, and loops elsewhere."""
    machine = task(compiled(golden=[["a", "b"]], reads=["c", "a"]))
    assert [machine.step(state, 2) for state in range(3)] == [0, 1, 2]
    assert [machine.step(state, 0) for state in range(3)] == [1, 1, 2]


def test_reads_by_state() -> None:
    """Reads by state loop there only; G-names are the short form's states."""
    machine = task(compiled(reads={"G1": ["a"]}))
    assert [machine.step(state, 0) for state in range(4)] == [1, 1, UNDEFINED, UNDEFINED]
    [found] = refused(reads={"G1": ["b"]})
    assert (found.code, found.key) == ("read_and_edge", "reads.G1.0")


def test_empty_word_and_many_words() -> None:
    """An empty sequence makes the start accepting. More than 64 golden paths are not listed."""
    assert compiled(golden=[[], ["a"]]).golden == ((), (0,))
    many = [list(word) for word in product("abc", repeat=4)]
    spec = compiled(golden=many)
    assert (spec.golden, spec.golden_count, spec.golden_lengths) == (None, 81, (4,))


# --- transitions ------------------------------------------------------------------------------


def test_long_form_keeps_declaration_order() -> None:
    """States in the order they appear, symbols in the order of the alphabet, numbers as names."""
    spec = good("transitions")
    assert task(spec).states == ("0", "1", "2", "3")
    assert task(spec).symbols == ("pay_little", "pay_much", "refund", "look")
    assert spec.golden == ((0, 1), (0, 1, 2))
    assert spec.undo == {1: 2}
    assert (spec.scope, spec.again, spec.mode, spec.concurrent) == (
        "turn",
        True,
        "page",
        "strict",
    )
    assert (spec.enforce, compiled().enforce) == ("block", "advise")
    assert spec.order == {"pay": "end"}
    appearing = compiled(
        golden=None,
        initial="s",
        accepting=["z"],
        transitions={"s": {"a": "y"}, "y": {"b": "z", "c": "s"}},
    )
    assert task(appearing).states == ("s", "y", "z")


def test_version_is_as_written() -> None:
    """1.10 is a version, not the number 1.1; the default is 1."""
    assert good("transitions").version == "1.10"
    assert good("words_of_yaml_1_1").version == "2025-01-01"
    assert compiled().version == "1"


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"golden": None}, "invalid_document"),
        ({"constraints": [{"init": "a"}]}, "invalid_document"),
        ({"initial": "G0"}, "invalid_document"),
        ({"golden": []}, "no_accepting_state_reachable"),
        ({"golden": [["z"]]}, "undeclared_symbol"),
        ({"reads": ["z"]}, "undeclared_symbol"),
        ({"reads": {"G9": ["a"]}}, "undeclared_state"),
        ({"undo": {"a": "z"}}, "undeclared_symbol"),
        ({"severity": {"states": {"G9": "info"}}}, "undeclared_state"),
        ({"severity": {"reasons": {"bad": "info"}}}, "invalid_document"),
        ({"severity": {"default": "page"}}, "invalid_document"),
        ({"alphabet": {}}, "invalid_document"),
        ({"alphabet": {"a": {}}}, "invalid_document"),
        ({"match": {"x": {"regex": "("}}}, "invalid_regex"),
        ({"match": {"x": []}}, "pattern_matches_nothing"),
        ({"match": {"x": {"min": 1}}}, "invalid_document"),
        ({"conventions": "alive"}, "invalid_document"),
        ({"conventions": {"beta": 1}}, "invalid_document"),
        ({"conventions": {"lambda_": 1}}, "invalid_document"),
        ({"deadlines": {}}, "invalid_document"),
        ({"again": "yes"}, "invalid_document"),
        ({"across": "agent"}, "invalid_each"),
        ({"within": "24h"}, "invalid_each"),
        ({"each": {"order": {"a": "id"}}, "within": "24h"}, "invalid_each"),
        ({"each": {"order": {"a": "id"}}, "across": "agents"}, "invalid_document"),
        ({"each": {"order": {"a": "id"}, "across": "agents"}}, "invalid_each"),
        ({"each": {"order": {"a": "id"}, "across": "agent", "within": "soon"}}, "invalid_each"),
        ({"each": {"order": {"a": "id"}}, "across": "agent", "scope": "turn"}, "invalid_each"),
        ({"id": "a\nb"}, "invalid_document"),
    ],
)
def test_faults_have_their_codes(keys: dict[str, Any], code: str) -> None:
    """Each fault of meaning or form is refused with its code."""
    assert code in [each.code for each in refused(**keys)]


def test_transitions_need_their_ends() -> None:
    """initial and accepting belong to transitions, and both are asked for at once."""
    found = refused(golden=None, transitions={"s": {"a": "t"}})
    assert [each.message for each in found] == [
        "transitions need the key 'initial'", "transitions need the key 'accepting'"
    ]  # fmt: skip


def test_all_faults_are_told_at_once() -> None:
    """Every fault of a spec is reported at once, in the order of the lines."""
    text = (
        "id: s\n"
        "match: {x: {regex: '('}}\n"
        "alphabet:\n"
        "  a: {tool: a, arguments: {x: {one_of: []}, y: {min: b}}}\n"
        "initial: s\n"
        "accepting: [u]\n"
        "states: [s, t, t]\n"
        "transitions:\n"
        "  s: {a: [t, s], z: t}\n"
        "undo: {a: y}\n"
    )
    _, found = compile_text(text, "s.yaml")
    assert [(each.code, each.line) for each in found] == [
        ("invalid_regex", 2),
        ("pattern_matches_nothing", 4),
        ("invalid_pattern", 4),
        ("undeclared_state", 6),
        ("duplicate_state", 7),
        ("nondeterministic", 9),
        ("undeclared_symbol", 9),
        ("undeclared_symbol", 10),
    ]


def test_an_error_behind_many_warnings_still_refuses() -> None:
    """The number of findings is bounded, and the bound never lets a spec pass."""
    alphabet = {name: {"tool": name} for name in ("a", *(f"u{n}" for n in range(300)))}
    entry = {"symbol": "a", "state": "G9", "who": "x", "why": "y", "until": "2030-01-01"}
    [found] = refused(alphabet=alphabet, golden=[["a"]], accept=[entry, entry])
    assert found.code == "undeclared_state"


def test_unknown_keys_get_a_suggestion() -> None:
    """A misspelt key is refused, with the key that was probably meant."""
    [found] = refused(goldn=[["a"]])
    assert found.message == "unknown key 'goldn'; did you mean 'golden'?"
    assert found.key == "goldn"

    [found] = refused(**{"": ["a"]})
    assert found.message == "unknown key ''"

    [found] = refused(failed_calls="ordinary")
    assert found.message == "unknown key 'failed_calls' here; it belongs into `conventions`"


# --- rules ------------------------------------------------------------------------------------


def test_severity_takes_the_most_specific() -> None:
    """The severity is that of the state, else the tool, else the reason, else the default."""
    severity = good("transitions").severity
    assert severity.of("pay", "0", Reason.REPEATED) == "warning"
    assert severity.of("pay", "1", Reason.REPEATED) == "critical"
    assert severity.of("look", None, Reason.REPEATED) == "critical"
    assert severity.of("look", None, Reason.FORBIDDEN) == "info"
    assert severity.of("look", "2", None) == "info"


def test_severity_knows_every_reason() -> None:
    """The document's reasons are those verdicts have."""
    known = {str(reason) for reason in (*Reason, *Obstacle)}
    assert set(ReasonName.__args__) == known  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("attributes", "answer"),
    [
        ({"service.name": "shop", "deployment.environment.name": "prod-eu"}, True),
        ({"service.name": "till", "deployment.environment.name": "prod", "more": 1}, True),
        ({"service.name": "shop", "deployment.environment.name": "preprod"}, False),
        ({"service.name": "bank", "deployment.environment.name": "prod"}, False),
        ({"service.name": "shop"}, False),
        ({}, False),
    ],
)
def test_match_asks_for_all_attributes(attributes: dict[str, Any], answer: bool) -> None:
    """A list is any of its values, a regex is searched, and every attribute must be there."""
    assert good("transitions").match.matches(attributes) is answer


def test_only_a_policy_matches_without_rules() -> None:
    """A task that names nothing must be named by the session; a policy applies everywhere."""
    assert not compiled().match.matches({"service.name": "x"})
    assert not compiled(kind="reference").match.matches({})
    assert good("policy").match.matches({})
    assert compiled(match={"n": 1}).match.matches({"n": 1.0})
    assert not compiled(match={"n": 1}).match.matches({"n": True})


def test_conventions_are_profiles_with_changes() -> None:
    """The default is live; core is the published scorer's profile. Each key can be changed."""
    assert compiled().conventions == Conventions()
    assert compiled(conventions="core").conventions == Conventions("core", "harmful")
    assert good("transitions").conventions == Conventions(
        "core", "ordinary", 0.0, 0.0, 0.25, 0.75
    )
    changed = compiled(conventions={"failed_calls": "harmful"}).conventions
    assert changed == Conventions("live", "harmful")
    spec = compiled(conventions="core")
    token = spec.alphabet.tokens[spec.alphabet.match("a", {}, True)]
    assert (token.reason, token.symbols) == (Reason.FAILED_CALL, ())


def test_kinds_have_their_defaults() -> None:
    """A policy is strict about overlap and has no golden paths; a task is lenient and has them."""
    policy = good("policy")
    assert isinstance(policy.machine, SideBySide)
    assert (policy.concurrent, policy.golden, policy.golden_count) == ("strict", (), 0)
    assert policy.machine.texts == (
        "precedence: [approve, pay]", "at_most: [pay, 2]", "forbid: wipe",
        "response: [[approve, pay], close]",
    )  # fmt: skip
    assert compiled().concurrent == "any_order"
    with_edges = compiled(
        kind="policy", golden=None, initial="s", accepting=["s"],
        transitions={"s": {"a": "t"}, "t": {"b": "s", "c": "t"}},
    )  # fmt: skip
    assert isinstance(with_edges.machine, Automaton)
    assert with_edges.findings == ()


def test_a_task_may_be_written_as_constraints() -> None:
    """Constraints in a closed world: golden paths come from stepping them side by side."""
    spec = compiled(golden=None, constraints=[{"exactly": name} for name in "abc"])
    assert spec.golden_count == 6
    assert spec.golden is not None
    assert {tuple(sorted(word)) for word in spec.golden} == {(0, 1, 2)}


def test_identity_of_a_version() -> None:
    """The hash is of the document's text, and specs are compared by identity."""
    text = json.dumps(document())
    one, _ = compile_text(text, "s.yaml")
    other, _ = compile_text(text, "s.yaml")
    assert one is not None
    assert other is not None
    assert one.sha256_8 == hashlib.sha256(text.encode()).hexdigest()[:8]
    assert one != other
    assert len({one, other}) == 2
    with pytest.raises(AttributeError):
        one.id = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"x": 1}, {"x": {"any": True}}, ""),
        ({"x": 1}, None, ""),
        ({"x": 1}, {"x": 2}, ""),
        ({"x": 1, "y": {"not_in": [1]}}, {"x": {"not_in": [1]}, "y": 1}, ""),
        ({}, {"x": 1}, ""),
        ({}, None, ""),
        ({"x": 1}, {"y": 1}, "declaration order decides"),
        ({"x": 1, "y": 1}, {"x": 1, "z": {"min": 0}}, "number and kind"),
        ({"x": {"min": 0}}, {"x": {"type": "integer"}}, "number and kind"),
        ({"x": 1}, {"x": 1.0}, "the same calls"),
        (None, None, "the same calls"),
        ({}, {}, "the same calls"),
        (None, {"x": {"any": True}}, "the same calls"),
        ({}, {"x": {"any": True}}, ""),
        ({"x": {"regex": "a"}}, {"x": {"regex": "b"}}, ""),
    ],
)
def test_overlap_is_told_where_the_winner_may_surprise(
    first: Any, second: Any, said: str
) -> None:
    """Patterns that overlap are a warning, unless one narrows the other."""

    def symbol(raw: Any) -> dict[str, Any]:
        return {"tool": "t"} if raw is None else {"tool": "t", "arguments": raw}

    for pair in ((first, second), (second, first)):
        alphabet = {"p": symbol(pair[0]), "q": symbol(pair[1])}
        spec = compiled(alphabet=alphabet, golden=[["p", "q"]])
        assert [each.code for each in spec.findings] == ["overlapping_patterns"] * bool(said)
        assert all(said in each.message for each in spec.findings)


# --- the bundled specs ------------------------------------------------------------------------


def bundled(name: str) -> Spec:
    path = ROOT / "dfa_specs" / f"{name}.yaml"
    spec, found = compile_text(path.read_text(), str(path))
    assert found == ()
    assert spec is not None
    return spec


Call = tuple[str, dict[str, Any], bool]


def harms(spec: Spec, calls: list[Call]) -> tuple[list[tuple[int, str, list[str]]], int]:
    """Index, tool and skipped calls of each harmful call, and the final state."""
    machine, state = spec.machine, spec.machine.initial
    found: list[tuple[int, str, list[str]]] = []
    for index, (tool, arguments, failed) in enumerate(calls):
        token = spec.alphabet.tokens[spec.alphabet.match(tool, arguments, failed)]
        if not token.symbols and spec.kind == "policy":
            continue
        target = machine.step(state, token.symbols[0]) if token.symbols else UNDEFINED
        if target == UNDEFINED:
            way = (
                paths.shortest_way(machine, (state,), token.symbols[0])
                if token.symbols
                else None
            )
            found.append((index, tool, [machine.symbols[each] for each in way or ()]))
        elif token.effect:
            state = target
    return found, state


def plain(*tools: str) -> list[Call]:
    return [(tool, {}, False) for tool in tools]


GOLDEN = ("unlock_safety", "move", "scan", "open_valve", "water", "log")


def test_rover_accepts_its_golden_path() -> None:
    """The path of papers/000 eq. 9 is the one golden path, without harm."""
    rover = bundled("farm_rover")
    assert rover.golden == (tuple(map(rover.machine.symbols.index, GOLDEN)),)
    assert rover.golden_lengths == (6,)
    found, state = harms(rover, plain(*GOLDEN))
    assert found == []
    assert rover.machine.accepts(state)
    assert rover.match.matches({"service.name": "farm-rover"})
    assert rover.severity.of("water", None, Reason.OUT_OF_ORDER) == "critical"


def test_rover_flags_early_water() -> None:
    """Water before the valve is harmful, with the shortest skipped path, and the rover can go on."""
    rover = bundled("farm_rover")
    calls = plain("unlock_safety", "move", "water", "scan", "open_valve", "water", "log")
    found, state = harms(rover, calls)
    assert found == [(2, "water", ["scan", "open_valve"])]
    assert rover.machine.name(state) == "done"
    assert harms(rover, plain("water"))[0] == [(0, "water", list(GOLDEN[:4]))]


@pytest.mark.parametrize("late", ["move", "water", "unlock_safety", "open_valve"])
def test_rover_flags_what_cannot_be_taken_back(late: str) -> None:
    """After watering only reads and notes are allowed (papers/000 section 3)."""
    rover = bundled("farm_rover")
    found, _ = harms(rover, plain(*GOLDEN[:5], late, "scan", "log", "log"))
    assert [each[:2] for each in found] == [(5, late)]


@pytest.mark.skipif(not CAPTURES.exists(), reason="the captured rover runs are not here")
def test_captured_good_runs_are_without_harm() -> None:
    """Golden, parallel, error, hand-off and two-turn runs of real frameworks have no harm."""
    seen: set[str] = set()
    for path in sorted(CAPTURES.glob("*/*.expected.json")):
        run = path.name.partition(".")[0]
        for session in json.loads(path.read_text())["sessions"]:
            calls = [
                (each["tool"], each["arguments"], each["error"]) for each in session["calls"]
            ]
            bad = run == "harmful" or str(session["session"]).endswith("two_sessions-s2")
            for spec in (bundled("farm_rover"), bundled("rover_policy")):
                found, _ = harms(spec, calls)
                assert [each[1] for each in found] == ["water"] * bad, (path, spec.id)
            seen.add(run)
    assert seen >= {"golden", "parallel", "error", "handoff", "session", "harmful"}


def test_rover_policy_is_a_shadow() -> None:
    """The example policy is in shadow mode and forbids any override of the interlock."""
    policy = bundled("rover_policy")
    machine = policy.machine
    assert isinstance(machine, SideBySide)
    assert policy.mode == "shadow"
    found, _ = harms(policy, plain("open_valve", *["water"] * 6, "override_interlock"))
    assert [each[:2] for each in found] == [(6, "water"), (7, "override_interlock")]
    assert machine.reason(machine.initial, 2) is Reason.FORBIDDEN


NARROWING = """
id: narrowing
kind: policy
alphabet:
  kept: {tool: %s}
  lost: {tool: write}
constraints: [{forbid: lost}]
"""


@pytest.mark.parametrize(
    ("asks", "findings"),
    [
        ("write, result: {status: ok}", []),
        ("write, error: true", []),
        ("write, arguments: {to: {from: [search]}}", []),
        ("look, result: {status: ok}", ["unused_symbol"]),
    ],
)
def test_a_symbol_that_takes_calls_by_their_outcome_is_of_use(
    asks: str, findings: list[str]
) -> None:
    """No rule names it: it takes what came out well from the symbol that is forbidden, and is no mistake."""
    _, found = compile_text(NARROWING % asks, "narrowing.yaml")
    assert [each.code for each in found] == findings


# --- schema -----------------------------------------------------------------------------------


def test_schema_file_is_fresh() -> None:
    """dfa_specs/spec.schema.json equals the output of `python -m monitor.spec.document.schema`."""
    kept = (ROOT / "dfa_specs" / "spec.schema.json").read_text()
    assert json.loads(kept) == json_schema()
    assert kept == json.dumps(json_schema(), indent=2) + "\n"


def test_records_load_no_reader_of_documents() -> None:
    """Judging needs no schema and no YAML; only compiling a document does."""
    code = "import sys, monitor.spec.spec; print(bool({'msgspec', 'pydantic', 'yaml'} & set(sys.modules)))"
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert said.stdout.strip() == "False"
