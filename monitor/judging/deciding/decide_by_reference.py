"""Answers what a write would be under a learnt reference, before it is made.

Idea: whether usual runs wrote the same depends on the call, and, where the reference asks, on the results and messages before
it. So the answer is what the alarm on the made call would be: deny where it would page.

Example: `delete_file` is asked about, and no usual run called it. With `enforce: block` the answer is deny.
"""

from __future__ import annotations

from monitor.decision import Answer, Missing, SpecDecision
from monitor.records import Kind, ReferenceReason, ToolCall
from monitor.reference.comparison import Comparison
from monitor.session.judge.judge import Judge
from monitor.session.report.reference_report import is_page

__all__ = ["decided_by_reference"]


def decided_by_reference(judge: Judge, call: ToolCall, token: int) -> SpecDecision | None:
    """What a reference says of a call that is not made yet; None if it is not asked to (`enforce: off`).

    Args:
        judge: of the reference.
        call: the call.
        token: of the call under it.
    """
    comparison, spec = judge.comparison, judge.spec
    if comparison is None or spec.enforce == "off":
        return None
    token &= ~1  # it is not made yet, so it has not failed
    new = comparison.new_write(token)
    pages = new is not None and is_page(comparison.learnt, new.alarm, is_sure=new.is_sure)
    missing: tuple[Missing, ...] = ()
    answer = Answer.DENY if pages else Answer.ALLOW
    if not pages and _may_be_off(comparison, call, token):
        answer, missing = Answer.UNKNOWN, ("arguments",)
    wrong = answer is not Answer.ALLOW
    return SpecDecision(
        spec=spec.id,
        spec_version=spec.version,
        mode=spec.mode,
        enforce=spec.enforce,
        answer=answer,
        # A reference judges no harm.
        kind=Kind.SELF_LOOP,
        reason=ReferenceReason.UNEXPECTED_WRITE if wrong else None,
        severity="critical" if pages else "info",
        symbol=None,
        skipped=(),
        allowed=(),
        constraint=None,
        state=None,
        certain=True,
        missing=missing,
    )


def _may_be_off(comparison: Comparison, call: ToolCall, token: int) -> bool:
    """Whether the arguments are not known, and usual runs agree on some."""
    untold = comparison.is_untold(token >> 1)
    return (
        untold
        and bool(comparison.learnt.agreed_arguments.get(call.tool))
        and is_page(comparison.learnt, "new_arguments", is_sure=True)
    )
