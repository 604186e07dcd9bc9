"""Made runs of the published tasks, and the authors' recorded runs: each call is decided as it is judged then."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from monitor import Limits, Monitor, SessionKey, ToolCall
from monitor.decision import Answer
from monitor.spec.spec import MatchRules, Spec
from tests.asking import AskedMonitor
from tests.made_runs.runs import MadeCall, Mode, RunCase, make_all
from tests.papers.core_data import CORE, DATASET, needs_core, spec, tasks

pytestmark = [needs_core, pytest.mark.plain]  # a compiled monitor has no subclasses

RECORDED = sorted((CORE / "core_runs").glob("*.json"))
START = 10**18


def judging(id_: str) -> Spec:
    """A published task that judges every session."""
    return replace(spec(id_), match=MatchRules((), without_rules=True))


@pytest.mark.parametrize("id_", sorted(tasks()) if DATASET.exists() else [])
def test_each_call_of_a_made_run_is_decided_as_it_is_judged(id_: str) -> None:
    """Good and bad runs of a task, every prefix, in order: all is known, so the answer is allow or deny."""
    monitor = AskedMonitor([judging(id_)], Limits(history_complete=True))
    for mode, made in make_all(judging(id_), 1).items():
        calls = made.tool_calls(SessionKey("", mode.value), start_ns=START)
        for call in calls:
            assert monitor.decide(call, call.end_ns).answer is not Answer.UNKNOWN
            monitor.observe(call, call.end_ns)
    assert monitor.asked > 0


def recorded(path: Path) -> tuple[Spec, list[ToolCall]]:
    """The task of a recorded run, and its calls."""
    run = json.loads(path.read_text(encoding="utf-8"))
    plain = tuple(MadeCall(each["name"], each["arguments"]) for each in run["calls"])
    made = RunCase(run["prompt_id"], Mode.ACCEPTED, 0, plain, (), None, None)
    calls = made.tool_calls(SessionKey("", path.stem), start_ns=START)
    return judging(run["prompt_id"]), [
        call._replace(error=each["status"] != "ok")
        for call, each in zip(calls, run["calls"], strict=True)
    ]


def observed(monitor: Monitor, calls: Sequence[ToolCall], now: int | None) -> list[Any]:
    """The judgements in the end; each call is received at its end, or all of them at one time."""
    for call in calls:
        monitor.observe(call, call.end_ns if now is None else now)
    return list(monitor.judgements())


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem.split("__")[0])
def test_each_call_of_a_recorded_run_is_decided_as_it_is_judged(path: Path) -> None:
    """In time, all late, backwards and shuffled; and the run ends as if nobody had asked."""
    one, calls = recorded(path)
    late = max((call.end_ns for call in calls), default=START) + 30 * 10**9
    shuffled = random.Random(1).sample(calls, len(calls))
    for order, now in ((calls, None), (calls, late), (calls[::-1], late), (shuffled, late)):
        asked = AskedMonitor([one], Limits(history_complete=True))
        assert observed(asked, order, now) == observed(
            Monitor([one], Limits(history_complete=True)), order, now
        )
        assert asked.asked == len(calls)
