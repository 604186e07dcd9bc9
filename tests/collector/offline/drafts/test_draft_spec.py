"""`learn --spec`: a task spec drafted from runs, which loads, and accepts what it was learnt from."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.cli.main import main
from collector.offline.drafts.draft_spec import draft, learner
from monitor.automaton.dfa import UNDEFINED
from monitor.reference.draft import DraftAutomaton, accepts, draft_text, pruned
from monitor.reference.runs import SeenRun, seen_call
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

TOOLS = ["get", "pay", 'odd "tool"\n: {', "no"]
WORDS = st.lists(
    st.lists(st.sampled_from(TOOLS), max_size=5).map(tuple), min_size=1, max_size=8
)
needs_aalpy = pytest.mark.skipif(not find_spec("aalpy"), reason="AALpy is not installed")


def by_last_tool(words: Any) -> DraftAutomaton:
    """The automaton with a state per tool: every repeated call loops."""
    number = {tool: place for place, tool in enumerate(TOOLS, start=1)}
    edges, ends = {}, set()
    for word in words:
        state = 0
        for tool in word:
            edges[state, tool] = state = number[tool]
        ends.add(state)
    return DraftAutomaton(edges, frozenset(ends))


def fake_alergia(data: Any, **_: Any) -> Any:
    """A prefix tree as a Markov chain: no state is merged."""
    root = SimpleNamespace(output=data[0][0], transitions=[])
    for word in data:
        node = root
        for letter in word[1:]:
            below = next((each for each, _ in node.transitions if each.output == letter), None)
            if below is None:
                below = SimpleNamespace(output=letter, transitions=[])
                node.transitions.append((below, 1.0))
            node = below
    return SimpleNamespace(initial_state=root)


def runs(*told: tuple[str, bool | None]) -> list[SeenRun]:
    return [
        SeenRun(
            str(n), "", tuple(seen_call(t, {}, failed=False) for t in word.split()), success
        )
        for n, (word, success) in enumerate(told)
    ]


def spec_accepts(spec: Spec, word: Any) -> bool:
    state = spec.machine.initial
    for tool in word:
        token = spec.alphabet.match(tool, {}, failed=False)
        if token >= len(spec.alphabet.symbols):
            return False
        state = spec.machine.step(state, token)
        if state == UNDEFINED:
            return False
    return spec.machine.accepts(state)


@given(WORDS)
def test_the_document_is_the_model(words: list[tuple[str, ...]]) -> None:
    """The drafted document accepts exactly the model's words, loops included."""
    model = by_last_tool(words)
    if not model.edges:
        return
    spec, findings = compile_text(draft_text(model, "t", {}, ["told"]), "t.yaml")

    assert spec is not None, findings
    for word in [*words, *product(TOOLS, repeat=2), *product(TOOLS, repeat=3)]:
        assert spec_accepts(spec, word) == accepts(model, word), word


@given(WORDS, st.integers(0, 4))
def test_pruning_leaves_what_is_frequent(words: list[tuple[str, ...]], least: int) -> None:
    """A pruned model accepts no word that the whole one rejects. The whole one accepts every run."""
    whole = by_last_tool(words)
    model = pruned(whole, words, least)

    assert all(accepts(pruned(whole, words, 0), word) for word in words)
    assert all(accepts(whole, word) for word in words if accepts(model, word))
    assert set(model.edges) <= set(whole.edges)
    assert {source for source, _ in model.edges} <= set(model.states)


def test_failed_runs_teach_nothing_but_try_it() -> None:
    """The draft is made of successful runs; the number of failed runs it accepts is reported."""
    told = runs(("get pay", True), ("get pay", True), ("get", False), ("get pay", False))
    found = draft(told, "t", {"gen_ai.agent.name": "bot"}, fake_alergia)
    spec, findings = compile_text(found.text, "t.yaml")

    assert spec is not None, findings
    assert spec.kind == "task"
    assert spec.mode == "shadow"
    assert "accepts 2 of the 2 usual runs" in found.notes
    assert "accepts 1 of the 2 runs that failed, too" in found.notes
    assert all(f"# {line}" in found.text for line in found.notes)


def test_nothing_usual_is_said() -> None:
    """If all runs failed, the verb reports it and ends without an exception."""
    found = draft(runs(("get", False)), "t", {}, fake_alergia)

    assert "accepts 0 of the 0 usual runs" in found.notes
    assert next(each.severity for each in found.findings) == "error"


def test_the_order_of_runs_makes_no_difference() -> None:
    """The same runs in any order give the same document."""
    told = runs(*[("get pay", None), ("get get pay", None), ("pay", None)] * 4)

    assert draft(told, "t", {}, fake_alergia) == draft(told[::-1], "t", {}, fake_alergia)


def test_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the library: exit code 2, how to install it, and no file."""
    for module in ("aalpy", "aalpy.learning_algs"):
        monkeypatch.setitem(sys.modules, module, None)
    file, out, spec = (tmp_path / name for name in ("runs.json", "r.yaml", "t.yaml"))
    file.write_text(json.dumps([{"run": "1", "calls": [{"name": "a"}]}]))

    assert main(["learn", str(file), "--id", "r", "--out", str(out), "--spec", str(spec)]) == 2
    assert "pip install 'offrails[learn]'" in capsys.readouterr().err
    assert not out.exists()
    assert not spec.exists()


@needs_aalpy
@given(WORDS, st.randoms())
def test_alergia_accepts_what_it_learnt_from(words: list[tuple[str, ...]], chance: Any) -> None:
    """The merged automaton accepts every run, whatever the order of the runs."""
    told = runs(*((" ".join(map(str, (TOOLS.index(t) for t in word))), None) for word in words))
    if not any(run.calls for run in told):
        return
    found = draft(told, "t", {}, learner())
    chance.shuffle(told)

    assert f"accepts {len(told)} of the {len(told)} usual runs" in found.notes
    assert draft(told, "t", {}, learner()) == found


@needs_aalpy
def test_the_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both documents load from one folder, and good runs are accepted by the drafted spec."""
    file, out, spec = (tmp_path / name for name in ("runs.jsonl", "r.yaml", "t.yaml"))
    words = [["get", "list", "pay"], ["get", "get", "list", "pay"], ["get", "pay"]] * 8
    file.write_text(
        "".join(
            json.dumps({"run": f"{n}", "agent": "bot", "calls": [{"name": t} for t in word]})
            + "\n"
            for n, word in enumerate(words)
        )
    )

    assert main(["learn", str(file), "--id", "r", "--out", str(out), "--spec", str(spec)]) == 0
    said = capsys.readouterr().out
    assert "a task spec, drafted for review" in said
    assert "learnt by ALERGIA" in said
    assert main(["check", str(out), str(spec), "--runs", str(file)]) == 0
    assert "accepts all 24 runs" in capsys.readouterr().out
