"""The library that decides and scores: tool calls in, verdicts and CORE scores out.

    ToolCall -> session log -> symbol -> DFA step -> Verdict -> scores

Pure and importable without a network stack: time is an argument. Names are loaded when first
used, so that importing the package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from monitor.decision import Answer, CallDecision, SpecDecision
    from monitor.engine import Monitor
    from monitor.errors import CallError, OffrailsError, SpecError
    from monitor.exposition.collector import MonitorCollector
    from monitor.limits import Limits
    from monitor.plain_calls import JudgedCalls, judge_calls, tool_call
    from monitor.records import (
        AgentName,
        Evidence,
        Kind,
        Proof,
        Reason,
        ReferenceAlarm,
        SessionKey,
        ToolCall,
        Verdict,
    )
    from monitor.spec.read import load_spec, load_specs
    from monitor.spec.spec import Spec

__all__ = [
    "AgentName",
    "Answer",
    "CallDecision",
    "CallError",
    "Evidence",
    "JudgedCalls",
    "Kind",
    "Limits",
    "Monitor",
    "MonitorCollector",
    "OffrailsError",
    "Proof",
    "Reason",
    "ReferenceAlarm",
    "SessionKey",
    "Spec",
    "SpecDecision",
    "SpecError",
    "ToolCall",
    "Verdict",
    "judge_calls",
    "load_spec",
    "load_specs",
    "tool_call",
]

_NAMES = {
    "monitor.decision": "Answer CallDecision SpecDecision",
    "monitor.engine": "Monitor",
    "monitor.errors": "CallError OffrailsError SpecError",
    "monitor.exposition.collector": "MonitorCollector",
    "monitor.limits": "Limits",
    "monitor.plain_calls": "JudgedCalls judge_calls tool_call",
    "monitor.records": "AgentName Evidence Kind Proof Reason ReferenceAlarm SessionKey ToolCall Verdict",
    "monitor.spec.read": "load_spec load_specs",
    "monitor.spec.spec": "Spec",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

_FORMER = {"Decision": "CallDecision", "Named": "AgentName", "Raised": "ReferenceAlarm"}
"""Names of the release before, which lead to those of today for one release."""


def __getattr__(name: str) -> Any:
    name = _FORMER.get(name, name)
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
