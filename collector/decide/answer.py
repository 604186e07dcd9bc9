"""Decisions as JSON, with words that a model can act on: what is wrong with a call, and what is allowed now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from collector.calls.deciding import Made, enforced
from monitor.decision import Answer, SpecDecision
from monitor.records import Reason

__all__ = ["ToolOf", "as_json_object", "message"]

ToolOf = Callable[[str, str], str]
"""(spec id, symbol) -> the tool of the symbol; the symbol where that is not known."""

LISTED_MAX: Final = 20
"""Tools that a message lists."""

_BADNESS: Final = {Answer.ALLOW: 0, Answer.UNKNOWN: 1, Answer.DENY: 2}

_MISSING: Final = {
    "arguments": "the arguments of the call",
    "earlier_calls": "earlier calls of the session",
    "order": "the order of calls that overlap",
    "calls_in_flight": "whether calls in flight have taken effect",
}
"""What a decision misses -> its words."""


def as_json_object(made: Made, decision_id: str, tool_of: ToolOf) -> dict[str, Any]:
    """One decision. At the top stands what the spec says that decides; `specs` has each."""
    top = _deciding(made.decision.specs)
    found: dict[str, Any] = {
        "decision_id": decision_id,
        "decision": made.answer.value,
        "would_deny": made.would_deny,
        "answer": made.decision.answer.value,
        "message": message(made, top, tool_of),
        **(_spec(top) if top is not None else _NO_SPEC),
        "committed": made.committed,
        "session": made.session,
        "specs": [_of_spec(each) for each in made.decision.specs],
    }
    return found


def _deciding(specs: Sequence[SpecDecision]) -> SpecDecision | None:
    """The spec that decides: the one that has the client do the worst, then the one that says the worst."""
    best: SpecDecision | None = None
    rank = (-1, -1)
    for each in specs:
        own = _BADNESS[enforced(each)[0]], _BADNESS[each.answer]
        if own > rank:
            best, rank = each, own
    return best


def _spec(found: SpecDecision) -> dict[str, Any]:
    return {
        "enforce": found.enforce,
        "spec": found.spec,
        "spec_version": found.spec_version,
        "mode": found.mode,
        "kind": found.kind.value,
        "reason": found.reason.value if found.reason is not None else None,
        "severity": found.severity,
        "symbol": found.symbol,
        "skipped": found.skipped,
        "allowed": found.allowed,
        "constraint": found.constraint,
        "state": found.state,
        "certain": found.certain,
        "missing": found.missing,
    }


def _of_spec(found: SpecDecision) -> dict[str, Any]:
    return {
        "answer": found.answer.value,
        "decision": enforced(found)[0].value,
        **_spec(found),
    }


_NO_SPEC: Final[dict[str, Any]] = {
    "enforce": None,
    "spec": None,
    "spec_version": None,
    "mode": None,
    "kind": None,
    "reason": None,
    "severity": None,
    "symbol": None,
    "skipped": (),
    "allowed": (),
    "constraint": None,
    "state": None,
    "certain": True,
    "missing": (),
}
"""Where no spec judges the call."""


# --- words ----------------------------------------------------------------------------------------


def message(made: Made, top: SpecDecision | None, tool_of: ToolOf) -> str:
    """What is wrong with a call, and what is allowed now; "" where nothing is.

    Example: "refused: `pay` needs `approve` first. Allowed now: `approve`, `cancel`."
    """
    if top is None or top.answer is Answer.ALLOW:
        return ""
    tool = _quoted(made.tool)
    if top.answer is Answer.UNKNOWN:
        missing = " and ".join(_MISSING[each] for each in top.missing)
        what = f"not certain: whether {tool} is allowed here depends on {missing or 'what is not known'}"
    else:
        is_refused = made.answer is Answer.DENY
        what = (
            f"{'refused' if is_refused else 'against the rules'}: {_fault(tool, top, tool_of)}"
        )
    return f"{what}. {_allowed(top, tool_of)}"


def _fault(tool: str, found: SpecDecision, tool_of: ToolOf) -> str:
    named = f" ({found.constraint})" if found.constraint else ""
    if found.skipped:
        steps = ", then ".join(_named(found, each, tool_of) for each in found.skipped)
        return f"{tool} needs {steps} first{named}"
    return _FAULTS.get(found.reason, "{} is not allowed here").format(tool) + named


_FAULTS: Final[dict[Reason | None, str]] = {
    Reason.FORBIDDEN: "{} is forbidden here",
    Reason.UNKNOWN_TOOL: "{} is not a tool of this task",
    Reason.ARGUMENT_MISMATCH: "{} is not allowed with these arguments",
    Reason.AFTER_FINAL: "the task is finished, and {} is not part of it any more",
    Reason.OUT_OF_ORDER: "{} is not allowed yet",
    Reason.REPEATED: "{} was done already",
    Reason.UNREACHABLE: "{} is not possible any more from here",
}


def _allowed(found: SpecDecision, tool_of: ToolOf) -> str:
    if not found.allowed:
        return "Nothing is allowed now."
    names = [_named(found, each, tool_of) for each in found.allowed[:LISTED_MAX]]
    rest = len(found.allowed) - len(names)
    return f"Allowed now: {', '.join(names)}{f', and {rest} more' if rest else ''}."


def _named(found: SpecDecision, symbol: str, tool_of: ToolOf) -> str:
    """A symbol by its tool, which is what a model knows; with its own name where that says more."""
    tool = tool_of(found.spec, symbol)
    return _quoted(tool) if tool == symbol else f"{_quoted(tool)} ({symbol})"


def _quoted(name: str) -> str:
    return f"`{name}`"
