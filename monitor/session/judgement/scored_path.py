"""The path that is scored: one of the best orders of all calls of a judgement.

Idea: verdicts are given call by call, as calls arrive. Scores are of one path. Where calls overlap, a later call may show
which order was the best, so the path is found when somebody asks for scores: the log is stepped with lineages kept,
and the best way is traced back.

Example: `a` and `b` overlap, and both orders are right. Then `c` arrives, which is right after `b, a` alone. The path is
`b, a, c`.
"""

from __future__ import annotations

from monitor.session.judge.judge import is_substantive
from monitor.session.judge.run import AutomatonRun
from monitor.session.judgement.checkpoint import FoldedScores
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.replay import traced
from monitor.session.judgement.step_marks import CODE, JudgedStep
from monitor.session.log.rows import mark_of

__all__ = ["scored_path", "substantive"]


def scored_path(
    judgement: Judgement,
) -> tuple[AutomatonRun, FoldedScores | None, list[JudgedStep]]:
    """One of the best orders of all calls, the nearest to the start order.

    A step may differ from its verdict here, if a later call showed which order was the best.

    Returns:
        The run before the log, the folded part of the way, and its steps in the log.
    """
    base = judgement.base
    if not _has_paths(judgement):
        return judgement.origin(wide=judgement.swapped), base, judgement.walk()
    run, replay = judgement.origin(wide=False), judgement.replay_log(wide=False)
    roots = replay.trace(run)
    number, places = traced(run.taken, roots)
    root = base.root(number) if base else judgement.origin(wide=False)
    steps = replay.retrace(root.copy(), places)
    return root, base.of(number) if base else None, steps


def _has_paths(judgement: Judgement) -> bool:
    """True if scores depend on the order of overlapping calls."""
    base = judgement.base
    if not judgement.judge.scored or judgement.swapped or judgement.sight.sure:
        return False
    if judgement.judge.comparison is not None:
        return False
    if base is not None and (base.run.ways is not None or base.trail is not None):
        return True
    return judgement.log.grouped and bool(judgement.log.groups())


def substantive(judgement: Judgement) -> tuple[FoldedScores | None, list[int]]:
    """The folded part of the way taken, and the tokens of its substantive steps in the log."""
    if _has_paths(judgement):
        _, folded, steps = scored_path(judgement)
        return folded, _tokens(judgement, steps)
    log = judgement.log
    rows = log.unpacked(0, len(log))
    if log.grouped and log.groups(0, rows):
        return judgement.base, _tokens(judgement, judgement.walk())
    plain_of = judgement.judge.plain_of
    return judgement.base, [
        plain_of(token) for _, _, meta, token in rows if is_substantive(mark_of(meta) & CODE)
    ]


def _tokens(judgement: Judgement, steps: list[JudgedStep]) -> list[int]:
    return [judgement.token(each.place) for each in steps if is_substantive(each.code)]
