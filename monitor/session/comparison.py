"""What a judgement shows of a session that is compared with a learnt reference.

Rebuilt from the log when asked for. Alarms have levels: an unexpected write is worth a page, the
first two calls are a hint, the risk is advice; with one supporting run everything is a hint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from monitor.reference.watch import Departure, Divergence, Watch, Watched
from monitor.session.judgement import Judgement

__all__ = ["compared", "places", "risks"]

PAGE, HINT, ADVISORY = "page", "hint", "advisory"
SURE_FROM: Final = 2
"""Supporting runs an alarm needs to be more than a hint."""


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
            "alarms": list(_alarms(watch, at, (), None)),
        }
    found = list(_divergences(judgement, watch))
    end = watch.at_end(at) if ended else None
    if end is not None:
        found.append(end)
    first = at.divergence or end
    missing = watch.missing_writes(at) if ended else ()
    risk = watch.risk_of(at)
    said = {
        each: _shown(judgement, watch, each) for each in [*found, *([first] if first else [])]
    }
    return {
        "divergence": said[first] if first is not None else None,
        "divergences": [said[each] for each in found],
        "first_two_diverged": at.first_two_diverged,
        "unexpected_write": at.unexpected_write,
        "missing_writes": list(missing),
        "risk": risk,
        "alarms": list(_alarms(watch, at, missing, risk)),
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


def _shown(judgement: Judgement, watch: Watch, found: Divergence) -> dict[str, Any]:
    phase = watch.phase(found.step)
    name = "first_two" if phase == "first_two" and not found.write else "divergence"
    if found.write:
        name = "missing_write" if found.kind is Departure.MISSING else "unexpected_write"
    alarm = watch.alarm(name)
    return {
        "reference": judgement.judge.spec.id,
        "step": found.step,
        "kind": found.kind.name.lower(),
        "phase": phase,
        "write": found.write,
        "expected": list(watch.expected(found.node)),
        "support": watch.support(found.node),
        "precision": alarm.precision if alarm is not None else None,
    }


def _alarms(
    watch: Watch, at: Watched, missing: tuple[str, ...], risk: float | None
) -> Iterator[Mapping[str, Any]]:
    """The alarms that are raised, the worst first."""
    levels = {
        "unexpected_write": PAGE if at.unexpected_write else None,
        "missing_write": PAGE if missing else None,
        "first_two": HINT if at.first_two_diverged and risk is not None else None,
        "risk": ADVISORY if risk is not None and watch.is_risky(risk) else None,
    }
    support = watch.learnt.runs
    for name, level in levels.items():
        if level is None:
            continue
        alarm = watch.alarm(name)
        yield {
            "alarm": name,
            "level": level if support >= SURE_FROM or level == ADVISORY else HINT,
            "support": support,
            "precision": alarm.precision if alarm is not None else None,
            "false_per_1000": alarm.false_per_1000 if alarm is not None else None,
        }
