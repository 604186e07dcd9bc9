"""A monitor that is asked about each call before it observes it; what a decision must be beside a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from monitor import CallDecision, Monitor, ToolCall, Verdict
from monitor.decision import Answer, SpecDecision
from monitor.records import CALL_KINDS, AgentName, Kind, Proof

__all__ = ["AskedMonitor", "check_decision", "check_steps"]


class AskedMonitor(Monitor):
    """Decides each call before it observes it, and compares the two."""

    asked = 0
    """Decisions that a spec has given."""

    def observe(
        self,
        call: ToolCall,
        now: int,
        named: AgentName | None = None,
        *,
        quiet: bool = False,
        doubted: bool = False,
        proof: Proof | None = None,
    ) -> list[Verdict]:
        """Observes the call, which was decided as the verdicts say."""
        decision = self.decide(call, now, named=named, doubted=doubted, proof=proof)
        verdicts = super().observe(call, now, named, quiet=quiet, doubted=doubted, proof=proof)
        check_decision(decision, verdicts, call, quiet=quiet)
        self.asked += len(decision.specs)
        return verdicts


def verdict_of(verdicts: Sequence[Verdict], call: ToolCall, spec: str) -> Verdict | None:
    """The verdict on a call under a spec."""
    found = None
    for each in verdicts:
        mine = each.span_id == call.span_id and each.spec == spec and each.kind in CALL_KINDS
        if mine and each.revised_from is None:
            found = each
    return found


def fields(verdict: Verdict) -> tuple[Any, ...]:
    """What a decision has of a verdict."""
    return (
        *(verdict.spec, verdict.spec_version, verdict.mode, verdict.kind, verdict.reason),
        *(verdict.severity, verdict.symbol, verdict.skipped, verdict.allowed),
        *(verdict.constraint, verdict.state_before, verdict.certain_call),
    )


def fields_of(decision: SpecDecision) -> tuple[Any, ...]:
    """The same of a decision."""
    return (
        *(decision.spec, decision.spec_version, decision.mode, decision.kind, decision.reason),
        *(decision.severity, decision.symbol, decision.skipped, decision.allowed),
        *(decision.constraint, decision.state, decision.certain),
    )


def check_decision(
    decision: CallDecision, verdicts: Sequence[Verdict], call: ToolCall, *, quiet: bool = False
) -> None:
    """The decision has the fields of the call's verdicts, and its answers do not contradict them.

    A call may be denied that is not harmful itself, as a call beside it is harmful then: its fields say why it is
    refused behind that one. With `quiet`, a harmless call has no verdict.
    """
    found = {each.spec: each for each in decision.specs}
    given = {each.spec for each in verdicts if verdict_of(verdicts, call, each.spec)}
    assert found.keys() >= given
    for spec, each in found.items():
        verdict = verdict_of(verdicts, call, spec)
        if verdict is None:
            assert quiet
            assert each.kind is not Kind.HARMFUL or each.answer is Answer.DENY
            continue
        harmful = verdict.kind is Kind.HARMFUL
        if each.answer is Answer.DENY and not harmful and each.kind is Kind.HARMFUL:
            assert not each.certain
            continue
        assert fields_of(each) == fields(verdict)
        assert each.answer is not Answer.ALLOW or not harmful
        if not verdict.certain_call:
            assert each.answer is not Answer.ALLOW
        if verdict.possible:
            assert each.answer is Answer.UNKNOWN
        assert bool(each.missing) == (each.answer is Answer.UNKNOWN)
    order = [Answer.DENY, Answer.UNKNOWN, Answer.ALLOW]
    ranks = [(order.index(each.answer), each.spec) for each in decision.specs]
    assert ranks == sorted(ranks)
    assert decision.answer == (decision.specs[0].answer if decision.specs else Answer.ALLOW)
    assert decision.worst == (decision.specs[0] if decision.specs else None)


def check_steps(decision: CallDecision, monitor: Monitor, call: ToolCall) -> None:
    """The decision is what the judgements show of the call, once it is observed."""
    steps = {
        found["spec"]: step
        for found in monitor.find(call.session.id, call.session.namespace)
        for step in found["steps"]
        if step["span_id"] == call.span_id.hex() and found["spec"]
    }
    assert steps.keys() == {each.spec for each in decision.specs}
    for each in decision.specs:
        step = steps[each.spec]
        if each.answer is Answer.DENY and step["kind"] != "harmful":
            assert each.kind is Kind.HARMFUL
            continue
        assert (each.kind, each.symbol) == (step["kind"], step["symbol"])
        assert each.reason == step.get("possible_reason", step["reason"])
        assert each.skipped == tuple(step.get("possible_skipped", step["skipped"]))
        assert each.allowed == tuple(step.get("possible_allowed", step["allowed"]))
        assert each.constraint == step.get("possible_constraint", step["constraint"])
        if "possible" not in step:
            assert each.certain == step.get("certain_call", True)
