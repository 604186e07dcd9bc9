"""How many usual runs a reference needs, as `learn` tells it."""

from __future__ import annotations

import random

from monitor.reference.runs import SeenRun, seen_call
from monitor.reference.runs_needed import runs_needed, runs_needed_lines


def run(number: int, *tools: str, success: bool | None = None) -> SeenRun:
    calls = tuple(seen_call(tool, {}, failed=False) for tool in tools)
    return SeenRun(str(number), "", calls, success)


def mixed() -> list[SeenRun]:
    """Ten successes write in one of two ways, four failures by a tool of their own."""
    good = [run(n, "get_a", "book_c" if n % 2 else "send_d", success=True) for n in range(10)]
    return good + [run(10 + n, "get_a", "delete_all", success=False) for n in range(4)]


def test_more_runs_are_more_precise() -> None:
    """With more usual runs fewer ways are new: precision grows, recall stays, and the number needed is told."""
    found = runs_needed([mixed()], None)
    precisions = [each.precision for each in found]
    lines = list(runs_needed_lines(found))

    assert [each.references for each in found] == [1, 2, 3, 4, 5]
    assert precisions[0] == 80 / (80 + 100)
    assert precisions[-1] is not None
    assert precisions[-1] > 0.8
    assert all(each.hits == each.failures for each in found)
    assert lines[-1] == "precision 0.5 needs 2 usual runs"


def test_order_makes_no_difference() -> None:
    """Runs in any order give the same figures."""
    runs = mixed()
    random.Random(1).shuffle(runs)

    assert runs_needed([runs], None) == runs_needed([mixed()], None)


def test_few_runs_and_no_outcomes() -> None:
    """Two usual runs tell nothing; without outcomes there are false alarms and no precision."""
    assert list(runs_needed_lines(runs_needed([[run(1, "a"), run(2, "a")]], None))) == [
        "too few usual runs to tell how many a reference needs"
    ]
    found = runs_needed([[run(n, "send_a" if n else "send_b") for n in range(4)]], None)

    assert [each.references for each in found] == [1, 2]
    assert all(each.precision is None and each.false for each in found)


def test_writes_that_are_given_count() -> None:
    """A tool that writes by name or because it is given is new; one that reads is not."""
    runs = [run(n, "look", success=True) for n in range(4)]
    runs.append(run(4, "look", "frob", success=False))

    assert [each.hits > 0 for each in runs_needed([runs], None)] == [False, False]
    assert [each.hits > 0 for each in runs_needed([runs], ["frob"])] == [True, True]
