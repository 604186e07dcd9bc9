"""What a judgement shows of a session that is compared with a learnt reference.

Rebuilt from the log when asked for. Alarms have levels: an unexpected write is worth a page, the
first two calls are a hint, the risk is advice; with one supporting run everything is a hint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from monitor.reference.comparison import Comparison, ComparisonState, Departure, Divergence
from monitor.session.judgement import Judgement

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
"""Supporting runs an alarm needs to be more than a hint."""


def level_of(judgement: Judgement, alarm: str, support: int) -> str:
    """What an alarm is worth that rests on so many seen runs: page, hint or advisory.

    What is missing from a session that may have begun before it was seen is a hint as well.
    """
    level = LEVELS[alarm]
    unseen = alarm == "missing_write" and judgement.doubtful
    return HINT if level == PAGE and (support < SURE_FROM or unseen) else level


def compared(judgement: Judgement, *, ended: bool) -> dict[str, Any]:
    """The fields of the judgement object; none where there is no learnt reference."""
    comparison, at = judgement.judge.comparison, judgement.head.watched
    if comparison is None or at is None:
        return {}
    if judgement.joined:
        # Where the session stands is not known; what nobody has ever written is.
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
    risk = comparison.risk_of(at)
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
        "alarms": list(_alarms(judgement, at, missing, risk, first_two=first_two)),
    }


def risks(judgement: Judgement) -> list[float | None] | None:
    """The risk after each step of the log; None where there is no learnt reference."""
    comparison = judgement.judge.comparison
    if comparison is None:
        return None
    if judgement.joined:
        return [None] * len(judgement.log)
    return [comparison.risk_of(at) for at, _, _ in _walk(judgement, comparison)]


def places(judgement: Judgement) -> Iterator[tuple[int, int, Departure | None]]:
    """(call's index, node it led to, how it departed) for each step that is kept; needs a comparison."""
    comparison = judgement.judge.comparison
    if comparison is not None:
        for place, (at, kind, _) in enumerate(_walk(judgement, comparison)):
            yield judgement.folded + place + 1, at.node, kind


def _walk(
    judgement: Judgement, comparison: Comparison
) -> Iterator[tuple[ComparisonState, Departure | None, int]]:
    """Steps the log again; gives where the session stands, how it departed, and where it stood."""
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
    """A divergence as it is shown: where, how, what was expected, and what the alarm is worth."""
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
