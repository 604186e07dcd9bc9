"""What a judgement shows of a session that is compared with a learnt reference.

Idea: the fields are rebuilt from the log on request. Alarms have levels: an unexpected or missing
write is worth a page, a divergence is a hint, the risk is advice. With one supporting run, a page
becomes a hint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from monitor.reference.comparison import Comparison, ComparisonState, Departure, Divergence
from monitor.reference.path_distribution import millibits, percentile
from monitor.reference.risk import record_risk, risk_with_record
from monitor.session.judgement.judgement import Judgement
from monitor.spec.learnt_reference import FALSE_PER_1000_MAX, Alarm, LearntReference

__all__ = [
    "PAGE",
    "compared",
    "explained",
    "is_page",
    "level_of",
    "measured",
    "places",
    "risks",
    "surprises",
]

PAGE: Final = "page"
HINT: Final = "hint"
ADVISORY: Final = "advisory"
LEVELS: Final[Mapping[str, str]] = {
    "new_write_tool": PAGE,
    "new_arguments": PAGE,
    "missing_write": PAGE,
    "first_two": HINT,
    "divergence": HINT,
    "risk": ADVISORY,
}
NEW_WRITES: Final = ("new_write_tool", "new_arguments")
ARGUMENTS_PRECISION: Final = 0.7
"""Precision that other arguments than those on which usual runs agree need at least to page."""
RUNS_LEAST: Final = 2
"""Supporting runs that an alarm needs to be worth a page."""
_WRITE_ALARMS: Final = {
    Departure.MISSING: "missing_write",
    Departure.WRONG_ARGUMENTS: "new_arguments",
}
"""Alarms of departures by a write; of all others it is new_write_tool."""


def level_of(judgement: Judgement, alarm: str, *, is_sure: bool = True) -> str:
    """The level of an alarm: page, hint or advisory.

    What would page is a hint if the reference rests on one run, if the alarm was wrong too often on the runs it was
    measured on, if the call is not sure (`NewWrite.is_sure`), and, of a missing write, if first calls may be missing.
    """
    level, comparison = LEVELS[alarm], judgement.judge.comparison
    assert comparison is not None
    if level != PAGE:
        return level
    unseen = alarm == "missing_write" and bool(judgement.sight.maybe)
    return PAGE if is_page(comparison.learnt, alarm, is_sure=is_sure) and not unseen else HINT


def is_page(learnt: LearntReference, alarm: str, *, is_sure: bool) -> bool:
    """Whether an alarm on a call, or on its absence, is worth a page.

    Args:
        learnt: the reference.
        alarm: one that may page.
        is_sure: whether the call is one that may (`NewWrite.is_sure`).
    """
    noisy = _is_noisy(learnt, alarm, measured(learnt, alarm, is_sure=is_sure))
    return is_sure and not noisy and learnt.runs >= RUNS_LEAST


def _is_noisy(learnt: LearntReference, alarm: str, worth: Alarm | None) -> bool:
    bound = learnt.page_false_per_1000
    if bound is not None and not _is_bound(worth, bound):
        return True
    if worth is None:
        return False
    of_arguments = alarm == "new_arguments"
    if worth.precision is None:
        # Outcomes may be known, and it told none of them: other arguments are mostly slips.
        unproven = of_arguments and worth.recall is not None
        return unproven or worth.false_per_1000 > FALSE_PER_1000_MAX
    least = max(learnt.page_precision, ARGUMENTS_PRECISION if of_arguments else 0.0)
    return worth.precision < least


def _is_bound(worth: Alarm | None, per_1000: float) -> bool:
    """Whether the measured runs are enough to promise at most so many false alarms."""
    most = None if worth is None else worth.at_most_per_1000
    return most is not None and most <= per_1000


def measured(learnt: LearntReference, alarm: str, *, is_sure: bool = True) -> Alarm | None:
    """What an alarm was worth on other runs than those that lent the reference; None if that was not measured.

    A reference of few runs, or of an earlier version, has figures of each run judged by the others alone.
    """
    alarms = learnt.split_alarms or learnt.alarms
    if alarm == "new_arguments" and is_sure:
        return alarms.get("agreed_arguments")
    return alarms.get(alarm) or (
        alarms.get("unexpected_write") if alarm in NEW_WRITES else None
    )


def compared(judgement: Judgement, agent: str, *, ended: bool) -> dict[str, Any]:
    """The fields of the judgement object, of a session of an agent; none if the spec is no reference."""
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
            **_unlikelihood(comparison, None, ended=ended),
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
        **_ceiling(comparison),
        **_record(comparison, agent, risk),
        **_unlikelihood(comparison, at, ended=ended),
        "alarms": list(_alarms(judgement, at, missing, risk, first_two=first_two)),
    }


def _ceiling(comparison: Comparison) -> dict[str, float]:
    """What the risk reaches with a whole run, where that was measured."""
    ceiling = comparison.learnt.ceiling
    return {} if ceiling is None or ceiling.area is None else {"risk_ceiling": ceiling.area}


def _record(comparison: Comparison, agent: str, risk: float) -> dict[str, Any]:
    """How the agent did at other tasks, apart from the risk, and the risk with that for a prior.

    Nothing if the reference has no records.
    """
    records = comparison.learnt.agent_records
    if not records:
        return {}
    if agent not in records:
        return {"agent_record": None, "risk_with_record": None}
    successes, failures = records[agent]
    return {
        "agent_record": {
            "successes": successes,
            "failures": failures,
            "risk": record_risk(records, agent),
        },
        "risk_with_record": risk_with_record(risk, records, agent),
    }


def _unlikelihood(
    comparison: Comparison, at: ComparisonState | None, *, ended: bool
) -> dict[str, Any]:
    """How unlikely the path is and what is likely next; nothing if the reference tells no surprise."""
    paths, known = comparison.paths, comparison.learnt.surprise
    if paths is None or known is None:
        return {}
    if at is None or not at.knows_path:
        return {"surprise": None, "surprise_percentile": None, "likely_next": []}
    surprise = paths.surprise(at.path, at.calls, ended=ended)
    return {
        "surprise": surprise,
        "surprise_percentile": None if surprise is None else percentile(surprise, known),
        "likely_next": [
            {"tool": comparison.tool(each.tool), "share": round(each.share, 4)}
            for each in (() if ended else paths.likely(at.path))
        ],
    }


def surprises(judgement: Judgement) -> list[float | None] | None:
    """The bits of each step of the log; None if the spec is no reference that tells them."""
    comparison = judgement.judge.comparison
    if comparison is None or comparison.paths is None:
        return None
    if judgement.joined:
        return [None] * len(judgement.log)
    base = judgement.base
    before = base.run.watched.path if base and base.run.watched else 0
    found: list[float | None] = []
    for at, _, _ in _walk(judgement, comparison):
        bits = millibits(at.path) - millibits(before)
        found.append(bits / 1000 if at.knows_path else None)
        before = at.path
    return found


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
        name = _WRITE_ALARMS.get(found.kind, "new_write_tool")
    alarm = measured(comparison.learnt, name, is_sure=False)
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
    others = {
        "missing_write": bool(missing),
        "first_two": first_two,
        "risk": risk is not None and comparison.is_risky(risk),
    }
    raised = {name: True for name, holds in others.items() if holds}
    for name, is_sure in (_new_writes(judgement, at) | raised).items():
        alarm = measured(comparison.learnt, name, is_sure=is_sure)
        yield {
            "alarm": name,
            "level": level_of(judgement, name, is_sure=is_sure),
            "support": comparison.learnt.runs,
            "precision": alarm.precision if alarm is not None else None,
            "false_per_1000": alarm.false_per_1000 if alarm is not None else None,
        }


def _new_writes(judgement: Judgement, at: ComparisonState) -> dict[str, bool]:
    """The new writes that are raised, by alarm, and whether they are sure.

    What was folded is known by its flags alone: there, a write that is not sure is one of new arguments.
    """
    comparison = judgement.judge.comparison
    assert comparison is not None
    sure = {"new_write_tool": at.new_write_tool, "new_arguments": at.new_agreed}
    found = {name for name, holds in sure.items() if holds}
    if at.unexpected_write:
        log = judgement.log
        new = (comparison.new_write(log.token(place)) for place in range(len(log)))
        found |= {each.alarm for each in new if each is not None}
        if not found:
            found.add("new_arguments")
    return {name: holds for name, holds in sure.items() if name in found}
