"""Tools of a session by number: what it has, and other numbers for them in another process.

Idea: processes number tools in the order in which they meet them. A session that goes to another process takes the names along,
and its steps, clocks and comparisons get the numbers that the names have there.

Example: in one process `scan` is tool 7, in the other it is 3. After `renumber(judgement, {7: 3})` each step of `scan` has 3.
"""

from __future__ import annotations

from collections.abc import Mapping

from monitor.reference.comparison import ComparisonState
from monitor.session.judgement.judgement import Judgement
from monitor.session.log.rows import TOKEN, TOOL
from monitor.session.session import Session

__all__ = ["renumber", "renumber_unknown", "tools", "unknown"]


def tools(session: Session) -> set[int]:
    """The numbers of all tools in the judgements of a session."""
    return {number for each in session.judgements for number in _tools(each)}


def _tools(judgement: Judgement) -> set[int]:
    found = judgement.log.tools()
    if judgement.session_verdicts is not None:
        found |= judgement.session_verdicts.tools()
    if judgement.base is not None and judgement.base.timing is not None:
        found |= judgement.base.timing.tools()
    return found


def renumber(judgement: Judgement, numbers: Mapping[int, int]) -> None:
    """Gives all tools other numbers: those of another process."""
    judgement.log.rewrite(TOOL, numbers)
    if judgement.session_verdicts is not None:
        judgement.session_verdicts.renumber(numbers)
    if judgement.base is not None and judgement.base.timing is not None:
        judgement.base.timing.renumber(numbers)


def unknown(judgement: Judgement) -> dict[int, str]:
    """The tools that no learning run of its reference called, by their numbers in this process."""
    comparison = judgement.judge.comparison
    if comparison is None:
        return {}
    found: dict[int, str] = {}
    for state in _states(judgement):
        found |= comparison.unknown(state)
    return found


def renumber_unknown(judgement: Judgement, numbers: Mapping[int, int]) -> None:
    """Gives these other numbers: those of this process, by those of another one."""
    comparison = judgement.judge.comparison
    assert comparison is not None
    judgement.log.rewrite(TOKEN, comparison.tokens_of(numbers))
    for state in _states(judgement):
        comparison.renumber(state, numbers)


def _states(judgement: Judgement) -> list[ComparisonState]:
    """The states in the comparison with a reference, each once: runs may share one."""
    runs = [judgement.head]
    if judgement.rival is not None:
        runs.append(judgement.rival)
    if judgement.base is not None:
        runs.append(judgement.base.run)  # a reference has no wide reading
    if judgement.resume_points is not None:
        runs += judgement.resume_points.runs()
    found = {id(run.watched): run.watched for run in runs if run.watched is not None}
    return list(found.values())
