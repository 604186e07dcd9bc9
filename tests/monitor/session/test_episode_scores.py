"""Scores of finished paths, which are remembered."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from monitor.scores.running_scores import PathRows
from monitor.scores.score_records import SessionScores
from monitor.session.judge.judge import Judge, count_code
from monitor.session.judgement.episode_scores import score
from monitor.spec.compiler.compile import compile_text

SPEC = """
id: round
kind: task
alphabet: {a: {tool: a}, b: {tool: b}, c: {tool: c}, r: {tool: r}}
initial: s
accepting: [t]
transitions: {s: {a: t, b: u}, u: {c: v}, v: {a: t}}
reads: [r]
"""
PATHS = st.lists(st.lists(st.integers(0, 2), max_size=6), min_size=1, max_size=8)


def _judge() -> Judge:
    spec, findings = compile_text(SPEC, "round.yaml")
    assert spec is not None, findings
    return Judge(spec)


def _score(
    judge: Judge, path: list[int], asked: list[list[int]] | None = None
) -> SessionScores:
    """The scores of a path; notes for which paths the rows are asked for."""

    def rows() -> PathRows | None:
        if asked is not None:
            asked.append(path)
        if judge.goldens is None:
            return None
        made = PathRows(judge.goldens)
        for token in path:
            made.add(judge.score_tokens[token])
        return made

    tally = judge.tally()
    for _ in path:
        count_code(tally, 0)
    return score(judge, tally, rows, path)


@given(PATHS)
def test_what_is_remembered_is_what_is_worked_out(paths: list[list[int]]) -> None:
    """A cached path has the scores that it was computed with."""
    judge, asked = _judge(), list[list[int]]()
    for path in paths:
        assert _score(judge, path, asked) == _score(_judge(), path)
    assert sorted(asked) == sorted(map(list, {tuple(path) for path in paths}))


def test_what_is_remembered_is_bounded() -> None:
    """Episodes that all differ take no more memory than some hundred equal ones."""
    judge, paths = _judge(), list[bytes]()
    for number in range(2_000):
        path = [number >> bit & 1 for bit in range(11)]
        _score(judge, path)
        paths.append(array("H", path).tobytes())
        assert judge.compared(paths[-1]) is not None
        if number % 50 == 0:
            known = [each for each in paths if judge.compared(each) is not None]
            assert len(known) <= 305
            assert sum(len(each) // 2 + 16 for each in known) <= 8_192 + 27
