"""How alike a session's calls are to those of usual runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from monitor.reference.document import reference_text
from monitor.reference.learn import learn
from monitor.reference.run_features import RunCalls, UsualCalls
from monitor.reference.runs import SeenRun, seen_call
from monitor.spec.compiler.compile import compile_text
from monitor.spec.risk_model import RiskModel, RiskNode

A, B, C, NEW = (1, 0), (2, 0), (3, 1), (9, 1)
"""Tokens and tools of calls."""
VARYING: Final = (-1, 2)
WAYS: Final = [(3, [A, B, C]), (1, [A, C, VARYING])]
SOURCE: Final = {"runs": 1, "failures": 1, "tasks": 1, "agents": 1}
TREES: Final = ((RiskNode(-1, 0, 0, 0.1),),)
MODEL: Final = RiskModel("m", ("calls_likeness",), TREES, 0, 1, 0, 0.5, SOURCE)


def likeness(*calls: tuple[int, int]) -> tuple[float, ...]:
    """Nearest, covered, done, mean, and the number of calls that begin as a usual run does."""
    found, run = UsualCalls(WAYS), RunCalls()
    for token, tool in calls:
        found.take(run, token, tool, told=token >= 0)
    return (*found.likeness(run), run.begun)


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ([], (0, 1, 0, 0, 0)),
        ([A, B, C], (1, 1, 1, (3 + 2 / 4) / 4, 3)),
        ([A, C], (2 / 3, 1, 2 / 3, 2 / 3, 2)),
        ([A, A, B], (2 / 3, 1, 2 / 3, (3 * 2 / 3 + 1 / 4) / 4, 1)),
        ([A, NEW, B], (1 / 2, 2 / 3, 2 / 3, (3 * 1 / 2 + 1 / 5) / 4, 1)),
        # Whatever arguments a call has where usual runs vary, it is theirs.
        ([A, C, (8, 2)], (1, 1, 1, (3 * 2 / 4 + 1) / 4, 3)),
        # Of a call whose arguments are not told, the tool is compared, and that where it comes alone.
        ([A, (-1, 0), C], (2 / 3, 1, 2 / 3, 2 / 3, 3)),
    ],
)
def test_likeness(calls: list[tuple[int, int]], expected: tuple[float, ...]) -> None:
    """All figures of small runs, by hand."""
    assert likeness(*calls) == pytest.approx(expected)


def run(name: str, *orders: int) -> SeenRun:
    calls = (seen_call("get", {"order": order}, failed=False) for order in orders)
    return SeenRun(name, "", (*calls, seen_call("end", None, failed=False)), success=True)


def test_a_document_keeps_the_calls_where_a_model_reads_them() -> None:
    """The calls of usual runs, the most frequent first; without a model they are left out."""
    runs = [run("a", 1), run("b", 2, 1), run("c", 2, 1)]
    learnt = replace(learn(runs), model=MODEL)
    text = reference_text(learnt, "r")
    spec, findings = compile_text(text, "r.yaml")

    assert spec is not None, findings
    assert spec.learnt is not None
    assert spec.learnt.usual_calls == learnt.usual_calls
    assert [(runs, len(calls)) for runs, calls in learnt.usual_calls] == [(2, 3), (1, 2)]
    assert "usual_calls" not in reference_text(learn(runs), "r")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("slope: 1", "slope: .nan", "input should be a finite number"),
        ("base: 0", "base: .inf", "input should be a finite number"),
        (
            '["calls_likeness"]',
            '["call_likeness"]',
            "'call_likeness'; expected 'calls_likeness'?",
        ),
        ('- "0.1"', '- "nan"', "expected nodes, apart by semicolons"),
        ('- "0.1"', '- "0 1.0 1 0.1; 1.0; 2.0"', "expected a feature below 100 and a node on"),
        ('- "0.1"', f'- "{"; ".join(["0.1"] * 64)}"', "a tree of 64 nodes; expected 1 to 63"),
        ('- "1 1:', '- "x 1:', "expected the number of runs, then tool:digest"),
        ('- "1 1:', '- "1 9:', "usual_calls 0 names no tool of the list"),
    ],
)
def test_a_wrong_model_is_told_where_it_is(before: str, after: str, message: str) -> None:
    """Each error names the line, the key and what was expected."""
    text = reference_text(replace(learn([run("a", 1)]), model=MODEL), "r")
    assert before in text
    spec, findings = compile_text(text.replace(before, after), "r.yaml")

    assert spec is None
    (found,) = [each for each in findings if each.severity == "error"]
    assert message in found.message
    if "no tool of the list" not in message:
        assert found.line == text[: text.index(before)].count("\n") + 1
