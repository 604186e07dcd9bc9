"""The authors' runs under the imported specs: their values, and what the conventions change."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from typing import Any

import pytest

from collector.offline.replay import replay
from monitor.automaton.dfa import Automaton
from monitor.records import SessionKey
from monitor.scores import paper_formulas
from monitor.spec.compiler.compile import compile_text
from monitor.spec.core_import.dataset import document
from monitor.spec.core_import.forms import read_task
from monitor.spec.core_import.repairs import repair
from monitor.spec.spec import Spec
from tests.made_runs.doubles import judge
from tests.made_runs.runs import MadeCall, Mode, RunCase
from tests.papers.core_data import CORE, load, needs_core, spec, specs, tasks

pytestmark = needs_core

EXACT = 1e-12
NAMES = {
    "pc": "pc",
    "pc_ktc": "pc_ktc",
    "pc_hlr": "pc_hlr",
    "prefix_crit": "prefix_crit",
    "harm_rate": "harm_rate",
    "efficiency": "eff",
    "harmful": "H",
    "calls": "raw_n",
    "substantive": "n",
    "accepting": "accepting",
    "state": "end",
}
"""Our name of a value -> the calibration's."""

FILES = sorted((CORE / "core_runs").glob("*.json"))


@cache
def replayed() -> dict[tuple[str, str], dict[str, Any]]:
    """Judgement objects of all stored runs, by task and run."""
    found = replay(FILES, specs())
    return {(each["spec"], each["session"]): each for each in found}


def same(ours: Any, theirs: Any) -> bool:
    """Equal; for numbers, to 1e-12."""
    if isinstance(ours, float) and isinstance(theirs, float | int):
        return abs(ours - theirs) <= EXACT
    return bool(ours == theirs)


def expected_runs() -> list[dict[str, Any]]:
    if not FILES:
        return []
    runs: list[dict[str, Any]] = load("core_runs_calibration.json")["runs"]
    return runs


def tokens(judgement: dict[str, Any]) -> list[str]:
    """The condensed path as the calibration writes it, with `!` for a token of its own."""
    return [
        "!" if step["symbol"] is None or step["error"] else step["symbol"]
        for step in judgement["steps"]
        if step["kind"] != "self_loop"
    ]


@pytest.mark.parametrize("run", expected_runs(), ids=lambda run: run["prompt_id"])
def test_the_published_values_by_replay(run: dict[str, Any]) -> None:
    """Labels, tokens, states and all scores of ten runs agree to 1e-12."""
    found = replayed()[run["prompt_id"], run["run"]]

    assert [step["kind"].replace("_", "-") for step in found["steps"]] == run["labels"]
    assert [step["state"] for step in found["steps"]] == [
        each["state"] for each in run["online"]
    ]
    assert tokens(found) == ["!" if text[0] == "!" else text for text in run["tokens"]]
    for ours, theirs in NAMES.items():
        assert same(found[ours], run[theirs]), ours
    assert found["agent"] == "gpt-4.1-nano"


def test_every_stored_run_equals_the_formulas() -> None:
    """All 26 runs: the judgement is what the paper's formulas give on the whole path."""
    assert len(replayed()) == 26
    for (task, _), found in replayed().items():
        one = spec(task)
        machine = one.machine
        assert isinstance(machine, Automaton)
        path = [
            paper_formulas.OTHER
            if step["symbol"] is None
            else machine.symbols.index(step["symbol"])
            for step in found["steps"]
        ]
        failed = [step["error"] for step in found["steps"]]
        scores = paper_formulas.evaluate(machine, path, failed, one.conventions)
        for name, value in asdict(scores).items():
            if name not in ("n", "state"):
                assert same(found[name], value), (task, name)


# --- conventions ------------------------------------------------------------------------------


def with_conventions(id_: str, text: str) -> Spec:
    """An imported task under other conventions."""
    if id_ == "C":
        example = next(e for e in load("paper_examples.json")["examples"] if e["id"] == "C")
        task, _ = repair(read_task("C", example))
    else:
        task, _ = repair(tasks()[id_])
    changed = document(task).replace("conventions: core", f"conventions: {text}")
    found, findings = compile_text(changed, f"{id_}.yaml")
    assert found is not None, findings
    return found


def judged(one: Spec, *calls: tuple[str, dict[str, Any], bool]) -> dict[str, Any]:
    """The judgement of calls (tool, arguments, failed) one after the other."""
    plain = tuple(MadeCall(tool, arguments) for tool, arguments, _ in calls)
    made = RunCase(one.id, Mode.ACCEPTED, 0, plain, (), None, None)
    sent = made.tool_calls(SessionKey("", "s"), start_ns=10**18)
    marked = [call._replace(error=bad) for call, (*_, bad) in zip(sent, calls, strict=True)]
    [found] = judge(one, marked)
    return found


@pytest.mark.parametrize(
    ("conventions", "kind", "reason", "moved"),
    [
        ("core", "harmful", "failed_call", False),
        ("live", "self_loop", "failed_call", False),
        ("{profile: live, failed_calls: harmful}", "harmful", "failed_call", False),
        ("{profile: core, failed_calls: no_effect}", "self_loop", "failed_call", False),
        ("{profile: core, failed_calls: ordinary}", "progress", None, True),
    ],
)
def test_a_failed_call_that_would_have_been_right(
    conventions: str, kind: str, reason: str | None, moved: bool
) -> None:
    """Such a call is harmful under core, without effect under live, and as if successful under ordinary."""
    one = with_conventions("crud_1", conventions)
    right = ("add_user", {"name": "Alice", "age": 25, "email": "x"}, True)
    found = judged(one, right)
    [step] = found["steps"]

    assert step["symbol"] == "A"
    assert (step["kind"], step["reason"]) == (kind, reason)
    assert (found["state"] == "G1") is moved
    assert found["harmful"] == (kind == "harmful")
    assert found["substantive"] == (kind != "self_loop")


@pytest.mark.parametrize("conventions", ["core", "live"])
def test_a_failed_call_that_is_not_allowed_is_harmful(conventions: str) -> None:
    """Whatever the profile: undefined here, and moving nothing."""
    found = judged(
        with_conventions("crud_1", conventions), ("delete_user", {"user_id": 1}, True)
    )

    assert found["steps"][0]["kind"] == "harmful"
    assert (found["harmful"], found["state"]) == (1, "G0")


@pytest.mark.parametrize(
    ("conventions", "pc_ktc", "efficiency"),
    [
        ("core", 0.5, None),
        ("live", 0.5, None),
        ("{profile: core, tau_below_two: 0, undefined_efficiency: 0}", 0.25, 0.0),
        ("{tau_below_two: 0}", 0.25, None),
        ("{undefined_efficiency: 0}", 0.5, 0.0),
        ("{lambda: 1}", 0.5, None),
        ("{lambda: 0, tau_below_two: 0.25}", 0.25, None),
    ],
)
def test_example_a_under_its_conventions(
    conventions: str, pc_ktc: float, efficiency: float | None
) -> None:
    """The skipped check of section 5: as the text has it, and as the tables print it."""
    one = with_conventions("legal_compliance_4", conventions)
    symbol = one.alphabet.symbols.index("F")
    patterns = one.alphabet.patterns[symbol] or {}
    arguments = {name: each.operand for name, each in patterns.items() if each.kind == "exact"}
    found = judged(one, (one.alphabet.tools[symbol], arguments, False))

    assert found["steps"][0]["symbol"] == "F"
    assert (found["harmful"], found["pc"]) == (1, 0.5)
    assert same(found["pc_ktc"], pc_ktc)
    assert found["efficiency"] == efficiency


@pytest.mark.parametrize(
    ("beta", "key"), [("0.25", "prefix_crit_025"), ("0.5", "prefix_crit_05")]
)
def test_example_c_under_both_bases(beta: str, key: str) -> None:
    """The missing step of section 5: PrefixCrit by its base."""
    example = next(
        each for each in load("paper_examples.json")["examples"] if each["id"] == "C"
    )
    one = with_conventions("C", f"{{profile: core, beta: {beta}}}")
    found = judged(one, *((name, {}, False) for name in example["symbols"]))

    assert same(found["prefix_crit"], example["formula"][key])
    assert found["harmful"] == example["published"]["H"]


def test_the_judgement_says_which_conventions_are_in_force() -> None:
    """A judgement has the profile and every key, so that two results can be compared."""
    one = with_conventions("crud_1", "{profile: core, beta: 0.25, lambda: 0.75}")
    found = judged(one, ("list_users", {}, False))

    assert found["conventions"] == {
        "profile": "core",
        "failed_calls": "harmful",
        "tau_below_two": 0.5,
        "undefined_efficiency": None,
        "beta": 0.25,
        "lambda": 0.75,
    }
