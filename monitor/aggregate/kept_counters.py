"""Counters that outlive the process: those of one pair, as plain data and back.

Only what is counted once and for all is kept. What live sessions add (means, active sessions, the worst ones) is not:
it comes back with the sessions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, TypeVar

from monitor.aggregate.drift import Drift
from monitor.aggregate.score_histogram import ScoreHistogram
from monitor.aggregate.totals import Pair, Totals
from monitor.records import Kind, Obstacle, Reason

__all__ = ["pair_counters", "set_pair_counters", "set_totals_counters", "totals_counters"]

_NUMBERS: Final = (
    "started",
    "late",
    "things_dropped",
    "compensations",
    "joined",
    "possible",
    "progress",
    "loops",
    "harms",
    "controls",
    "finished",
)
_DRIFT_NUMBERS: Final = (
    "unexpected_writes",
    "paging_writes",
    "first_two",
    "missing_writes",
)
_TOTALS_NUMBERS: Final = ("read_in_parts", "left_early")

First = TypeVar("First", bound=StrEnum)


def pair_counters(pair: Pair) -> dict[str, Any]:
    """The counters of a pair, with what it takes to make the pair anew."""
    drift = pair.drift
    return {
        "agent": pair.agent,
        "spec": pair.spec,
        "namespace": pair.namespace,
        "beta": pair.beta,
        "severities": list(pair.severities),
        "scored": "harm_rate" in pair.spreads,
        "bounded": pair.bounded,
        "numbers": {name: getattr(pair, name) for name in _NUMBERS},
        "final": [[reason.value, severity, n] for (reason, severity), n in pair.final.items()],
        "provisional": [
            [reason.value, severity, n] for (reason, severity), n in pair.provisional.items()
        ],
        "revisions": [[old.value, new.value, n] for (old, new), n in pair.revisions.items()],
        "session_verdicts": [
            [kind.value, why.value, n] for (kind, why), n in pair.session_verdicts.items()
        ],
        "outcomes": dict(pair.outcomes),
        "spreads": {name: _spread(spread) for name, spread in pair.spreads.items()},
        "drift": None if drift is None else _drift(drift),
    }


def _spread(spread: ScoreHistogram) -> list[Any]:
    return [list(spread.counts), spread.total]


def _drift(drift: Drift) -> dict[str, Any]:
    return {
        "numbers": {name: getattr(drift, name) for name in _DRIFT_NUMBERS},
        "divergences": [[phase, kind, n] for (phase, kind), n in drift.divergences.items()],
        "steps": _spread(drift.steps),
        "risks": _spread(drift.risks),
    }


def set_pair_counters(totals: Totals, found: Mapping[str, Any]) -> None:
    """Sets the counters of a pair, which is made where there is none.

    What a later version has added, or dropped, stays as it is.
    """
    severities = tuple(found.get("severities", ()))
    pair = totals.pair(
        found["agent"],
        found["spec"],
        found.get("beta", 1.0),
        severities,
        scored=found.get("scored", True),
        namespace=found.get("namespace", ""),
    )
    pair.bounded = pair.bounded or bool(found.get("bounded"))
    _set_numbers(pair, _NUMBERS, found.get("numbers", {}))
    _set(pair.final, found.get("final", ()), _of(Reason), str)
    _set(pair.provisional, found.get("provisional", ()), _of(Reason), str)
    _set(pair.revisions, found.get("revisions", ()), _of(Kind), _of(Kind))
    _set(pair.session_verdicts, found.get("session_verdicts", ()), _of(Kind), _of(Obstacle))
    pair.outcomes.clear()
    pair.outcomes.update(found.get("outcomes", {}))
    for name, spread in pair.spreads.items():
        _set_spread(spread, found.get("spreads", {}).get(name))
    drift = found.get("drift")
    if drift is not None:
        pair.drift = pair.drift or Drift()
        _set_drift(pair.drift, drift)


def _set_drift(drift: Drift, found: Mapping[str, Any]) -> None:
    _set_numbers(drift, _DRIFT_NUMBERS, found.get("numbers", {}))
    _set(drift.divergences, found.get("divergences", ()), str, str)
    _set_spread(drift.steps, found.get("steps"))
    _set_spread(drift.risks, found.get("risks"))


def _set_numbers(of: object, names: Iterable[str], found: Mapping[str, int]) -> None:
    for name in names:
        if name in found:
            setattr(of, name, found[name])


def _of(kind: type[First]) -> Callable[[str], First | None]:
    """Reads a member of an enumeration; None for one that this version does not have."""
    members = {each.value: each for each in kind}
    return members.get


def _set(
    counter: Counter[Any],
    rows: Iterable[Sequence[Any]],
    first: Callable[[str], Any],
    second: Callable[[str], Any],
) -> None:
    counter.clear()
    for one, other, count in rows:
        key = first(one), second(other)
        if None not in key:
            counter[key] = count


def _set_spread(spread: ScoreHistogram, found: Sequence[Any] | None) -> None:
    """Other bounds are another histogram: it begins anew."""
    if found is not None and len(found[0]) == len(spread.counts):
        spread.counts[:] = found[0]
        spread.total = found[1]


def totals_counters(totals: Totals) -> dict[str, Any]:
    """The counters that belong to no pair."""
    return {
        "numbers": {name: getattr(totals, name) for name in _TOTALS_NUMBERS},
        "folded": dict(totals.folded),
        "by_tool": [[spec, tool, n] for (spec, tool), n in totals.by_tool.items()],
    }


def set_totals_counters(totals: Totals, found: Mapping[str, Any]) -> None:
    """Sets them."""
    _set_numbers(totals, _TOTALS_NUMBERS, found.get("numbers", {}))
    for label, count in found.get("folded", {}).items():
        totals.folded[label] = count
    _set(totals.by_tool, found.get("by_tool", ()), str, str)
