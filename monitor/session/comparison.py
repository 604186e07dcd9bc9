"""What a judgement shows of a session that is compared with a learnt reference.

Rebuilt from the log when asked for. Alarms have levels: an unexpected write is worth a page, the
first two calls are a hint, the risk is advice; with one supporting run everything is a hint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from monitor.reference.watch import Departure, Divergence, Watch, Watched
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
    watch, at = judgement.judge.watch, judgement.head.watched
    if watch is None or at is None:
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
    found = list(_divergences(judgement, watch))
    end = watch.at_end(at) if ended else None
    if end is not None:
        found.append(end)
    first = at.divergence or end
    missing = watch.missing_writes(at) if ended else ()
    first_two = watch.first_two_at_end(at) if ended else at.first_two_diverged
    risk = watch.risk_of(at)
    text_of = {
        each: explained(watch, judgement.judge.spec.id, each)
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
    watch = judgement.judge.watch
    if watch is None:
        return None
    if judgement.joined:
        return [None] * len(judgement.log)
    return [watch.risk_of(at) for at, _, _ in _walk(judgement, watch)]


def places(judgement: Judgement) -> Iterator[tuple[int, int, Departure | None]]:
    """(call's index, node it led to, how it departed) for each step that is kept; needs a watch."""
    watch = judgement.judge.watch
    if watch is not None:
        for place, (at, kind, _) in enumerate(_walk(judgement, watch)):
            yield judgement.folded + place + 1, at.node, kind


def _walk(
    judgement: Judgement, watch: Watch
) -> Iterator[tuple[Watched, Departure | None, int]]:
    """Steps the log again; gives where the session stands, how it departed, and where it stood."""
    base = judgement.base
    at = base.run.watched.copy() if base and base.run.watched else watch.start()
    for place in range(len(judgement.log)):
        before = at.node
        yield at, watch.step(at, judgement.log.token(place)), before


def _divergences(judgement: Judgement, watch: Watch) -> Iterator[Divergence]:
    for place, (at, kind, before) in enumerate(_walk(judgement, watch)):
        if kind is not None:
            write = watch.is_write(judgement.log.token(place))
            yield Divergence(at.calls, kind, write, before)


def explained(watch: Watch, reference: str, found: Divergence) -> dict[str, Any]:
    """A divergence as it is shown: where, how, what was expected, and what the alarm is worth."""
    phase = watch.phase(found.step)
    name = "first_two" if phase == "first_two" and not found.write else "divergence"
    if found.write:
        name = "missing_write" if found.kind is Departure.MISSING else "unexpected_write"
    alarm = watch.alarm(name)
    return {
        "reference": reference,
        "step": found.step,
        "kind": found.kind.name.lower(),
        "phase": phase,
        "write": found.write,
        "expected": list(watch.expected(found.node)),
        "support": watch.support(found.node),
        "precision": alarm.precision if alarm is not None else None,
    }


def _alarms(
    judgement: Judgement,
    at: Watched,
    missing: tuple[str, ...],
    risk: float | None,
    *,
    first_two: bool,
) -> Iterator[Mapping[str, Any]]:
    """The alarms that are raised, the worst first."""
    watch = judgement.judge.watch
    assert watch is not None
    raised = {
        "unexpected_write": at.unexpected_write,
        "missing_write": bool(missing),
        "first_two": first_two,
        "risk": risk is not None and watch.is_risky(risk),
    }
    support = watch.learnt.runs
    for name in (name for name, holds in raised.items() if holds):
        alarm = watch.alarm(name)
        yield {
            "alarm": name,
            "level": level_of(judgement, name, support),
            "support": support,
            "precision": alarm.precision if alarm is not None else None,
            "false_per_1000": alarm.false_per_1000 if alarm is not None else None,
        }
