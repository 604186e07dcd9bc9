"""The fields of a judgement that lists show.

Idea: a list ranks many sessions, which must not step their logs. So what it ranks by comes from the
running numbers of the head. Only for the rows of the page that is shown, the log of a session with
harm is stepped again, to say why its latest harmful call is harmful.

Example: `prefix_crit` sorts by (1 - PrefixCrit, harmful calls, last activity), greatest first. So the
session with the lowest PrefixCrit leads the list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from monitor.records import SEVERITIES
from monitor.session.judge.episodes import EpisodesTally
from monitor.session.judge.judge import count_code
from monitor.session.judgement.judgement import Judgement
from monitor.session.judgement.scored_path import scored_path
from monitor.session.judgement.step_marks import JudgedStep
from monitor.session.report.harms import Harm, explanation, harms
from monitor.session.report.obstacles import cannot_finish
from monitor.session.session import Session

__all__ = [
    "SORTS",
    "Key",
    "ListedHarms",
    "agent_of",
    "service_version",
    "sort_key",
    "summary",
    "things_of",
    "trail",
]

Key = tuple[float, float, int]


def agent_of(session: Session, judgement: Judgement) -> str:
    """The agent of the calls: the judgement's own under `scope: agent`, else the session's."""
    part = judgement.part if judgement.judge.spec.scope == "agent" else ""
    return part or session.agent


def service_version(session: Session) -> str:
    """`service.version` of the session's resource, the latest that says one; "" if none does."""
    for each in session.attributes:
        found: Any = each.get("service.version")
        if isinstance(found, str) and found:
            return found
    return ""


def things_of(
    judgement: Judgement, shown: Callable[[str], str] = str
) -> tuple[tuple[str, str], ...]:
    """Name and value (or digest) of each thing that the judgement object lists; () under a spec without `each`."""
    if judgement.judge.each is None:
        return ()
    # Loaded with the first spec that has things.
    from monitor.session.things.things_report import shown_things

    return tuple((each.name, shown(each.known_by)) for each in shown_things(judgement))


def _judged(judgement: Judgement) -> bool:
    return judgement.judge.spec.kind != "reference"


def _scored(judgement: Judgement) -> bool:
    return judgement.judge.scored and judgement.head.exact


def _by_harm(session: Session, judgement: Judgement) -> Key:
    tally = judgement.head.tally
    return (
        float(tally.harmful_steps if _judged(judgement) else 0),
        tally.harm_rate,
        session.touched_ns,
    )


def _by_rate(session: Session, judgement: Judgement) -> Key:
    tally = judgement.head.tally
    rate = tally.harm_rate if _scored(judgement) else 0.0
    return rate, float(tally.harmful_steps), session.touched_ns


def _by_crit(session: Session, judgement: Judgement) -> Key:
    tally = judgement.head.tally
    lost = 1.0 - tally.prefix_crit if _scored(judgement) else 0.0
    return lost, float(tally.harmful_steps), session.touched_ns


def _risk(judgement: Judgement) -> float | None:
    """The risk of failure by a learnt reference; None if there is none, or if the session is joined."""
    comparison, at = judgement.judge.comparison, judgement.head.watched
    return (
        None if comparison is None or at is None or judgement.joined else comparison.risk_of(at)
    )


def _by_risk(session: Session, judgement: Judgement) -> Key:
    risk = _risk(judgement)
    _, lost, touched = _by_crit(session, judgement)
    return -1.0 if risk is None else risk, lost, touched


def _by_time(session: Session, _judgement: Judgement) -> Key:
    return 0.0, 0.0, session.touched_ns


def _by_severity(text_of: Callable[[int], str], session: Session, judgement: Judgement) -> Key:
    worst = min(harms(judgement, text_of), key=_worst_first, default=None)
    tally = judgement.head.tally
    if worst is None:
        return 0.0, 0.0, session.touched_ns
    return (
        float(SEVERITIES.index(worst.severity) + 1),
        float(tally.harmful_steps),
        session.touched_ns,
    )


def sort_key(name: str, text_of: Callable[[int], str]) -> Callable[[Session, Judgement], Key]:
    """What a list is sorted by, the greatest first. `text_of` maps the number of a tool to its name."""
    return partial(_by_severity, text_of) if name == "severity" else _KEYS[name]


_KEYS: Final[Mapping[str, Callable[[Session, Judgement], Key]]] = {
    "harm": _by_harm,
    "harm_rate": _by_rate,
    "prefix_crit": _by_crit,
    "risk": _by_risk,
    "recent": _by_time,
}
"""Sort keys of a list by the names of what it is sorted by, but for severity."""

SORTS: Final = (*_KEYS, "severity")
"""What a list may be sorted by."""


class ListedHarms(NamedTuple):
    """The harmful calls of a judgement that lists show; the log is stepped once, for their positions."""

    harms: Sequence[Harm]
    """All of the log, the latest first."""
    walked: Sequence[JudgedStep]
    """The steps of the log; () without harm."""

    @classmethod
    def of(cls, judgement: Judgement, text_of: Callable[[int], str]) -> ListedHarms:
        """Those of the log as it is now."""
        found = [*harms(judgement, text_of)]
        return cls(found, judgement.walk() if found else ())

    def shown(
        self, judgement: Judgement, harm: Harm | None, text_of: Callable[[int], str]
    ) -> dict[str, Any] | None:
        """One of them as it is shown."""
        if harm is None:
            return None
        place = harm.step - judgement.folded - 1
        steps = (each for each in self.walked if each.place == place)
        why = next((explanation(judgement, each) for each in steps), "")
        return {
            "step": harm.step,
            "tool": text_of(harm.tool),
            "reason": harm.reason.value,
            "severity": harm.severity,
            "detail": why or None,
        }


def _worst_first(harm: Harm) -> tuple[int, int]:
    return -SEVERITIES.index(harm.severity), harm.step


def summary(
    session: Session,
    judgement: Judgement,
    text_of: Callable[[int], str],
    listed: ListedHarms | None = None,
) -> dict[str, Any]:
    """The short judgement object, with the latest harmful call, and the first of the worst, instead of the steps.

    Args:
        session: of the judgement.
        judgement: the judgement to show.
        text_of: maps the number of a tool to its name.
        listed: its harmful calls, of who has them already.
    """
    listed = ListedHarms.of(judgement, text_of) if listed is None else listed
    last, worst = (
        next(iter(listed.harms), None),
        min(listed.harms, key=_worst_first, default=None),
    )
    judge, run = judgement.judge, judgement.head
    spec, tally, scored = judge.spec, run.tally, _scored(judgement)
    judged = _judged(judgement)
    return {
        "session": session.key.id,
        "namespace": session.key.namespace,
        "agent": agent_of(session, judgement),
        "spec": spec.id or None,
        "spec_version": spec.version if spec.id else None,
        "spec_kind": spec.kind if spec.id else None,
        "mode": spec.mode if spec.id else None,
        "turn": judgement.part if spec.scope == "turn" else None,
        "joined": judgement.joined,
        "calls": tally.calls,
        "substantive": tally.substantive if judged else None,
        "harmful": tally.harmful_steps if judged else None,
        "last_harm": listed.shown(judgement, last, text_of),
        "worst_harm": listed.shown(judgement, worst, text_of),
        "harm_rate": tally.harm_rate if scored else None,
        "prefix_crit": tally.prefix_crit if scored else None,
        "accepting": judge.accepts(run.position) if judged else None,
        "state": judge.state(run.position) if judged else None,
        "can_finish": not cannot_finish(judgement) if judged else None,
        "risk": _risk(judgement),
        "exact": run.exact,
        "started": session.started_ns,
        "last": session.last_ns,
        "ended": session.ended,
    }


def trail(judgement: Judgement) -> list[tuple[int, float, float]]:
    """(number of the call, HarmRate, PrefixCrit) after each call of the log, in the order taken.

    The scores are equations 7 and 6 of papers/000, on each prefix of the call's episode. The list is
    empty if the judgement has no scores.
    """
    if not _scored(judgement):
        return []
    judge, (run, _, steps) = judgement.judge, scored_path(judgement)
    tally = run.tally.copy()
    rows = []
    for step in steps:
        if isinstance(tally, EpisodesTally) and judge.opens(
            step.before, judgement.token(step.place)
        ):
            tally.start_episode()
        count_code(tally, step.code)
        rows.append((judgement.folded + step.place + 1, tally.harm_rate, tally.prefix_crit))
    return rows
