"""Which writes of recorded runs have values of their own: known not to come from an earlier result.

Idea: the same is asked of live sessions under a reference with `provenance`. So runs are judged under such a reference, one of
no run at all, and its judgement says it of each write.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from collector.offline.plain_runs import AgentRun, judge_run
from monitor.limits import Limits
from monitor.reference.learn import usual
from monitor.reference.runs import SeenRun
from monitor.spec.spec import MatchRules, Spec

__all__ = ["own_values", "value_watch"]

_LIMITS: Final = replace(Limits(), history_complete=True, fold=False)


def value_watch(writes: Iterable[str] | None) -> Spec:
    """The reference that all runs are judged under.

    Args:
        writes: tools that change something; None: inferred from their names.
    """
    nothing = usual([SeenRun("", "", ())], writes, None)
    return replace(
        Spec.observer(),
        id="values",
        match=MatchRules((), without_rules=True),
        learnt=replace(nothing, provenance=True),
    )


def own_values(run: AgentRun, watch: Spec) -> list[bool]:
    """Of each call of a plain run, whether it is a write whose values are its own. False without any result."""
    if not any(call.returned for call in run.calls):
        return [False] * len(run.calls)
    (judged,) = judge_run(replace(run, spec=watch.id), [watch], _LIMITS)
    return [step["own_values"] for step in judged["steps"]]
