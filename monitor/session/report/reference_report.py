"""What a judgement shows of a session that is compared with a learnt reference.

Idea: the fields are rebuilt from the log on request. Alarms have levels: an unexpected or missing
write is worth a page, a divergence is a hint, the risk is advice. With one supporting run, a page
becomes a hint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from monitor.reference.comparison import Comparison, ComparisonState, Departure, Divergence
from monitor.session.judgement.judgement import Judgement

__all__ = ["PAGE", "compared", "explained", "level_of", "places", "risks"]

PAGE: Final = "page"
HINT: Final = "hint"
ADVISORY: Final = "advisory"
LEVELS: Final[Mapping[str, str]] = {
    "unexpected_write": PAGE,
    "missing_write": PAGE,
    "first_two": HINT,
    "divergence": HINT,
    "risk": ADVISORY,
}
SURE_FROM: Final = 2
"""Supporting runs that an alarm needs to be worth a page."""


def level_of(judgement: Judgement, alarm: str, support: int) -> str:
    """The level of an alarm with `support` recorded runs: page, hint or advisory.

    A missing write of a session whose first calls may be missing is a hint.
    """
    level = LEVELS[alarm]
    unseen = alarm == "missing_write" and bool(judgement.sight.maybe)
    return HINT if level == PAGE and (support < SURE_FROM or unseen) else level


def compared(judgement: Judgement, *, ended: bool) -> dict[str, Any]:
    """The fields of the judgement object; none if the spec is no reference."""
    comparison, at = judgement.judge.comparison, judgement.head.watched
    if comparison is None or at is None:
        return {}
    if judgement.joined:
        # The position in the reference is unknown, but a write of no recorded run is known.
        return {
            "divergence": None,
            "divergences": [],
            "first_two_diverged": None,
            "unexpected_write": at.unexpected_write,
            "missing_writes": [],
            "risk": None,
            "alarms": list(_alarms(judgement, at, (), None, first_two=False)),
        }
    found = list(_divergences(judgement, comparison))
    end = comparison.at_end(at) if ended else None
    if end is not None:
        found.append(end)
    first = at.divergence or end
    missing = comparison.missing_writes(at) if ended else ()
    first_two = comparison.first_two_at_end(at) if ended else at.first_two_diverged
    risk = comparison.risk_of(at, ended=ended)
    reasons = comparison.risk_reasons(at, ended=ended)
    text_of = {
        each: explained(comparison, judgement.judge.spec.id, each)
        for each in [*found, *([first] if first else [])]
    }
    return {
        "divergence": text_of[first] if first is not None else None,
        "divergences": [text_of[each] for each in found],
        "first_two_diverged": first_two,
        "unexpected_write": at.unexpected_write,
        "missing_writes": list(missing),
        "risk": risk,
        **({} if reasons is None else {"risk_reasons": reasons}),
        "alarms": list(_alarms(judgement, at, missing, risk, first_two=first_two)),
    }


def risks(judgement: Judgement) -> list[float | None] | None:
    """The risk after each step of the log; None if the spec is no reference."""
    comparison = judgement.judge.comparison
    if comparison is None:
        return None
    if judgement.joined:
        return [None] * len(judgement.log)
    return [comparison.risk_of(at) for at, _, _ in _walk(judgement, comparison)]


def places(judgement: Judgement) -> Iterator[tuple[int, int, Departure | None]]:
    """(number of the call, node after it, departure if any) for each step of the log."""
    comparison = judgement.judge.comparison
    if comparison is not None:
        for place, (at, kind, _) in enumerate(_walk(judgement, comparison)):
            yield judgement.folded + place + 1, at.node, kind


def _walk(
    judgement: Judgement, comparison: Comparison
) -> Iterator[tuple[ComparisonState, Departure | None, int]]:
    """Steps the log again: (state of the comparison, departure if any, node before the step)."""
    base = judgement.base
    at = base.run.watched.copy() if base and base.run.watched else comparison.start()
    for place in range(len(judgement.log)):
        before = at.node
        yield at, comparison.step(at, judgement.log.token(place)), before


def _divergences(judgement: Judgement, comparison: Comparison) -> Iterator[Divergence]:
    for place, (at, kind, before) in enumerate(_walk(judgement, comparison)):
        if kind is not None:
            write = comparison.is_write(judgement.log.token(place))
            yield Divergence(at.calls, kind, write, before)


def explained(comparison: Comparison, reference: str, found: Divergence) -> dict[str, Any]:
    """The fields of a divergence: where, how, what was expected, and the precision of its alarm."""
    phase = comparison.phase(found.step)
    name = "first_two" if phase == "first_two" and not found.write else "divergence"
    if found.write:
        name = "missing_write" if found.kind is Departure.MISSING else "unexpected_write"
    alarm = comparison.alarm(name)
    return {
        "reference": reference,
        "step": found.step,
        "kind": found.kind.name.lower(),
        "phase": phase,
        "write": found.write,
        "expected": list(comparison.expected(found.node)),
        "support": comparison.support(found.node),
        "precision": alarm.precision if alarm is not None else None,
    }


def _alarms(
    judgement: Judgement,
    at: ComparisonState,
    missing: tuple[str, ...],
    risk: float | None,
    *,
    first_two: bool,
) -> Iterator[Mapping[str, Any]]:
    """The alarms that are raised, the worst first."""
    comparison = judgement.judge.comparison
    assert comparison is not None
    raised = {
        "unexpected_write": at.unexpected_write,
        "missing_write": bool(missing),
        "first_two": first_two,
        "risk": risk is not None and comparison.is_risky(risk),
    }
    support = comparison.learnt.runs
    for name in (name for name, holds in raised.items() if holds):
        alarm = comparison.alarm(name)
        yield {
            "alarm": name,
            "level": level_of(judgement, name, support),
            "support": support,
            "precision": alarm.precision if alarm is not None else None,
            "false_per_1000": alarm.false_per_1000 if alarm is not None else None,
        }
