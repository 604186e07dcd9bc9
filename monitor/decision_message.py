"""A decision in words that a model can act on: what is wrong with a call, and what is allowed now.

Example: "refused: `pay` needs `approve` first. Allowed now: `approve`, `cancel`."
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from monitor.decision import Answer, SpecDecision
from monitor.records import Reason, ReferenceReason

__all__ = ["LISTED_MAX", "decision_message"]

_OTHERS: Final = "Calls that the rules do not name are allowed."

LISTED_MAX: Final = 20
"""Tools that a message lists."""

_MISSING: Final = {
    "tool": "which tool is meant by this name",
    "arguments": "the arguments of the call",
    "earlier_calls": "earlier calls of the session",
    "order": "the order of calls that overlap",
    "calls_in_flight": "whether calls in flight have taken effect",
    "budget": "the order of very many calls that overlap",
}
"""What a decision misses -> its words."""

_FAULTS: Final[dict[Reason | ReferenceReason | None, str]] = {
    Reason.FORBIDDEN: "{} is forbidden here",
    Reason.UNKNOWN_TOOL: "{} is not a tool of this task",
    Reason.ARGUMENT_MISMATCH: "{} is not allowed with these arguments",
    Reason.AFTER_FINAL: "the task is finished, and {} is not part of it any more",
    Reason.OUT_OF_ORDER: "{} is not allowed yet",
    Reason.REPEATED: "{} was done already",
    Reason.UNREACHABLE: "{} is not possible any more from here",
}
"""Reason of a harmful call, where no step is skipped -> its words."""


def decision_message(
    tool: str,
    found: SpecDecision,
    tools: Mapping[str, str],
    *,
    policy: bool = False,
    of_things: Collection[str] = (),
) -> str:
    """The message on one call; "" if nothing is wrong with it.

    Args:
        tool: of the call.
        found: what the spec says that decides.
        tools: its symbols and their tools.
        policy: it judges only the calls that it names.
        of_things: the symbols whose calls are about things.
    """
    if found.answer is Answer.ALLOW:
        return ""
    name = f"{_quoted(tool)}{_of_thing(found)}"
    if found.answer is Answer.UNKNOWN:
        missing = " and ".join([_MISSING[each] for each in found.missing])
        what = f"not certain: whether {name} is allowed here depends on {missing or 'what is not known'}"
        if found.reason is ReferenceReason.UNEXPECTED_WRITE:
            return f"{what}."
    elif found.reason is ReferenceReason.UNEXPECTED_WRITE:
        return f"{_begin(found)}: {name} writes what no usual run wrote ({found.spec})."
    else:
        what = f"{_begin(found)}: {_fault(name, found, tools, of_things)}"
        if found.until is not None:
            what += ". It may be allowed once a call in flight has failed"
    return f"{what}. {_allowed(found, tools, policy=policy)}"


def _begin(found: SpecDecision) -> str:
    if found.enforced is Answer.DENY:
        return "refused"
    return (
        "unusual" if found.reason is ReferenceReason.UNEXPECTED_WRITE else "against the rules"
    )


def _of_thing(found: SpecDecision) -> str:
    """Which thing is meant, to a model that has just named it: it knows no digest."""
    thing = found.thing
    if thing is None:
        return ""
    return f" of this {thing.name}" if thing.digest else f" of {thing}"


def _fault(
    tool: str, found: SpecDecision, tools: Mapping[str, str], of_things: Collection[str]
) -> str:
    named = f" ({found.constraint})" if found.constraint else ""
    if found.skipped:
        thing = _of_thing(found)
        steps = ", then ".join(
            _named(each, tools) + (thing if each in of_things else "") for each in found.skipped
        )
        return f"{tool} needs {steps} first{named}"
    return _FAULTS.get(found.reason, "{} is not allowed here").format(tool) + named


def _allowed(found: SpecDecision, tools: Mapping[str, str], *, policy: bool) -> str:
    if not found.allowed:
        return _OTHERS if policy else "Nothing is allowed now."
    names = [_named(each, tools) for each in found.allowed[:LISTED_MAX]]
    rest = len(found.allowed) - len(names)
    return f"Allowed now: {', '.join(names)}{f', and {rest} more' if rest else ''}."


def _named(symbol: str, tools: Mapping[str, str]) -> str:
    """A symbol by its tool, which is what a model knows; with its own name where that says more."""
    tool = tools.get(symbol, symbol)
    return _quoted(tool) if tool == symbol else f"{_quoted(tool)} ({symbol})"


def _quoted(name: str) -> str:
    return f"`{name}`"
