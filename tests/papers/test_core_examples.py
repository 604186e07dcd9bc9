"""The paper's worked examples and the published runs, number by number (papers/000)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from monitor.automaton.dfa import Automaton, build
from monitor.records import Conventions
from monitor.scores import paper_formulas, refine, running_scores

CORE = Path(__file__).parents[2] / ".." / "shared" / "core"
EXAMPLES = ["A", "B", "C", "HLR"]
PRINTED = Conventions(profile="core", tau_below_two=0.0, undefined_efficiency=0.0)
"""The tables' conventions, where they differ from the text's."""
DIGITS = 5e-4
"""Half of the last printed digit."""

pytestmark = pytest.mark.skipif(
    not (CORE / "paper_examples.json").exists(),
    reason="the published data is not beside the repo",
)


@cache
def load(name: str) -> Any:
    return json.loads((CORE / name).read_text(encoding="utf-8"))


def example(key: str) -> dict[str, Any]:
    return next(one for one in load("paper_examples.json")["examples"] if one["id"] == key)


def task_of(record: dict[str, Any]) -> Automaton:
    """The automaton of a published record (first node is the start)."""
    names = [node["name"] for node in record["nodes"]]
    edges = {
        (node["name"], symbol): edge["to"]
        for node in record["nodes"]
        for edge in node["transitions"]
        for symbol in edge["symbols"]
    }
    final = [node["name"] for node in record["nodes"] if node["is_final"]]
    return build(names, record["alphabet"], names[0], final, edges)


@cache
def task(prompt_id: str) -> Automaton:
    records = load("all_worlds_dataset.json")
    return task_of(next(record for record in records if record["prompt_id"] == prompt_id))


def automaton_of(case: dict[str, Any]) -> Automaton:
    return task(case["task"]) if "task" in case else task_of(case["dfa"])


def path_of(automaton: Automaton, symbols: list[str]) -> list[int]:
    return [automaton.symbols.index(symbol) for symbol in symbols]


def values(case: dict[str, Any], conventions: Conventions) -> dict[str, float | None]:
    """The example's scores under the names its record uses."""
    automaton = automaton_of(case)
    path = path_of(automaton, case["symbols"])
    scores = paper_formulas.evaluate(automaton, path, None, conventions)
    harm = paper_formulas.harm_mask(
        paper_formulas.condense(paper_formulas.label(automaton, path))
    )
    return {
        "H": scores.harmful,
        "eff": scores.efficiency,
        "pc": scores.pc,
        "pc_ktc": scores.pc_ktc,
        "pc_hlr": scores.pc_hlr,
        "harm_rate": scores.harm_rate,
        "prefix_crit_05": scores.prefix_crit,
        "prefix_crit_025": paper_formulas.prefix_crit(harm, 0.25),
    }


@pytest.mark.parametrize("place", range(5))
def test_pairwise_examples(place: int) -> None:
    """The pairs of appendix C and section 4 have the paper's NLD and PC."""
    pair = load("paper_examples.json")["pairwise_pc"][place]
    letters = sorted({*pair["x"], *pair["y"]})
    x, y = ([letters.index(letter) for letter in pair[side]] for side in "xy")
    rows = running_scores.PathRows(running_scores.Goldens([y]))
    for token in x:
        rows.add(token)

    assert paper_formulas.similarity(x, y) == pytest.approx(pair["pc"], abs=1e-12)
    assert paper_formulas.nld(x, y) == pytest.approx(pair.get("nld", 1 - pair["pc"]), abs=1e-12)
    assert rows.pc() == pytest.approx(pair["pc"], abs=1e-12)


@pytest.mark.parametrize("key", EXAMPLES)
def test_examples_by_formula(key: str) -> None:
    """Each worked example has the value of the paper's formulas to 1e-12."""
    case = example(key)
    formula = {k: value for k, value in case["formula"].items() if k != "candidates"}
    found = values(case, Conventions())

    assert {k: found[k] for k in formula} == pytest.approx(formula, abs=1e-12)


@pytest.mark.parametrize("key", EXAMPLES)
def test_examples_as_printed(key: str) -> None:
    """Each printed number comes out under the conventions of the paper's tables."""
    case = example(key)
    found = values(case, PRINTED)
    if key == "B":  # prints PC+HLR where its text says PC
        found["pc"] = found["pc_hlr"]

    assert {k: found[k] for k in case["published"]} == pytest.approx(
        case["published"], abs=DIGITS
    )


def test_hlr_example_lists_the_printed_candidates() -> None:
    """Section 4's example condenses as printed and has exactly the three candidates."""
    case = example("HLR")
    automaton = automaton_of(case)
    condensed = paper_formulas.condense(
        paper_formulas.label(automaton, path_of(automaton, case["symbols"]))
    )
    candidates = paper_formulas.hlr_candidates(
        automaton, condensed, paper_formulas.golden_paths(automaton)
    )

    assert paper_formulas.tokens(condensed) == tuple(path_of(automaton, case["condensed"]))
    assert candidates == {tuple(path_of(automaton, c)) for c in case["formula"]["candidates"]}


# --- The published runs, from their labels and condensed tokens ------------------------------

RUNS = [
    "automation_1",
    "crud_1",
    "crud_5",
    "desktop_manager_5",
    "event_scheduler_5",
    "legal_compliance_1",
    "navigation_4",
    "navigation_6",
    "validation_6",
    "writing_4",
]


def run(prompt_id: str) -> dict[str, Any]:
    runs = load("core_runs_calibration.json")["runs"]
    found: dict[str, Any] = next(one for one in runs if one["prompt_id"] == prompt_id)
    return found


def raw_path(automaton: Automaton, record: dict[str, Any]) -> list[int]:
    """A raw path with the run's labels: the condensed tokens with any read at each self-loop."""
    kept = iter(zip(record["tokens"], record["harm"], strict=True))
    state = automaton.initial
    path = []
    for label in record["labels"]:
        if label == "self-loop":
            path.append(automaton.reads(state)[0])
            continue
        token, harmful = next(kept)
        path.append(paper_formulas.OTHER if token[0] == "!" else automaton.symbols.index(token))
        state = state if harmful else automaton.step(state, path[-1])
    return path


@pytest.mark.parametrize("prompt_id", RUNS)
def test_published_run_ends_with_its_values(prompt_id: str) -> None:
    """A published run has the published end values, batch, to 1e-12."""
    record, automaton = run(prompt_id), task(prompt_id)
    path = raw_path(automaton, record)
    found = paper_formulas.evaluate(automaton, path, None, Conventions(profile="core"))
    condensed = paper_formulas.condense(paper_formulas.label(automaton, path))
    golden = paper_formulas.golden_paths(automaton)
    candidates = paper_formulas.hlr_candidates(automaton, condensed, golden)
    program = refine.pc_hlr(
        automaton,
        golden,
        paper_formulas.tokens(condensed),
        [step.before for step in condensed],
        paper_formulas.harm_mask(condensed),
        found.state,
    )

    assert {
        "pc": found.pc,
        "pc_ktc": found.pc_ktc,
        "prefix_crit": found.prefix_crit,
        "harm_rate": found.harm_rate,
        "H": found.harmful,
        "eff": found.efficiency,
        "accepting": found.accepting,
        "raw_n": found.n,
        "n": found.substantive,
        "pc_hlr": program,
        "pc_hlr_only": paper_formulas.path_correctness(
            paper_formulas.tokens(condensed), candidates
        ),
        "end": automaton.name(found.state),
    } == pytest.approx({k: record[k] for k in FIELDS}, abs=1e-12)


FIELDS = [
    *("pc", "pc_ktc", "prefix_crit", "harm_rate", "H", "eff", "accepting", "raw_n", "n"),
    *("pc_hlr", "pc_hlr_only", "end"),
]


@pytest.mark.parametrize("prompt_id", RUNS)
def test_published_run_has_its_values_after_each_call(prompt_id: str) -> None:
    """After each call of a published run H, HarmRate and PrefixCrit are the published ones."""
    record, automaton = run(prompt_id), task(prompt_id)
    tally = running_scores.HarmTally(0.5)
    found = []
    for step in paper_formulas.label(automaton, raw_path(automaton, record)):
        getattr(tally, step.kind.value)()
        found.append((tally.harmful_steps, tally.harm_rate, tally.prefix_crit))

    expected = [(one["H"], one["harm_rate"], one["prefix_crit_05"]) for one in record["online"]]
    assert found == [pytest.approx(values, abs=1e-12) for values in expected]
