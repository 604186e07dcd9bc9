"""Runs of the published tasks, and the recorded runs: each call is decided as it is judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from monitor import Limits, SessionKey
from monitor.decision import Answer
from monitor.spec.spec import MatchRules
from monitor.testing.runs import make_all
from tests.asking import AskedMonitor
from tests.papers.core_data import DATASET, needs_core, spec, tasks

pytestmark = [needs_core, pytest.mark.plain]  # a compiled monitor has no subclasses


@pytest.mark.parametrize("id_", sorted(tasks()) if DATASET.exists() else [])
def test_each_call_of_a_published_task_is_decided_as_it_is_judged(id_: str) -> None:
    """Good and bad runs, every prefix: all is known, so the answer is allow or deny."""
    one = replace(spec(id_), match=MatchRules((), without_rules=True))
    monitor = AskedMonitor([one], Limits(history_complete=True))
    for mode, made in make_all(one, 1).items():
        calls = made.tool_calls(SessionKey("", mode.value), start_ns=10**18)
        for call in calls:
            assert monitor.decide(call, call.end_ns).answer is not Answer.UNKNOWN
            monitor.observe(call, call.end_ns)
    assert monitor.asked > 0
