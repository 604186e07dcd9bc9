"""What the overview, or one of its parts, is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from collector.api.access import ANYBODY, Access
from collector.api.session_query import WHOLE_MAX, whole_number
from collector.archive.record import HOUR_NS

if TYPE_CHECKING:
    from collector.archive.search import SumsSearch

__all__ = ["NAMES", "STEPS", "OverviewQuery"]

STEPS: Final[Mapping[str, int]] = {"hour": 1, "day": 24, "week": 7 * 24}
"""Hours of a step. Days and weeks are those of UTC; weeks begin on Monday."""
_WEEK_OFFSET: Final = 3 * 24
"""1970 began on a Thursday."""
STEPS_MAX: Final = 1_000
"""Steps of one timeline."""
DEFAULT_HOURS: Final = 7 * 24
_HOURS_MAX: Final = WHOLE_MAX // HOUR_NS - 2 * 24
"""The latest hour; the end of its day is a time in nanoseconds, too."""

NAMES: Final = (
    *("since", "until", "step", "agent", "spec", "spec_version", "service_version"),
    "namespace",
)
"""Parameters."""


class OverviewQuery(NamedTuple):
    """A time and a choice of groups. Names are as they are shown."""

    search: SumsSearch
    step: str
    access: Access = ANYBODY

    @classmethod
    def read(
        cls,
        query: Mapping[str, str],
        now: int,
        shown: Callable[[str], str],
        access: Access = ANYBODY,
    ) -> OverviewQuery:
        """Reads the parameters of a request.

        Args:
            query: by name.
            now: Unix nanoseconds.
            shown: what is shown of a name that is asked for, however it is written.
            access: of who asks.

        Raises:
            ValueError: a sentence.
        """
        until = _hour(query, "until", now) + 1
        since = _hour(query, "since", (until - DEFAULT_HOURS) * HOUR_NS)
        if since >= until:
            raise ValueError("since must be earlier than until")
        step = query.get("step") or _step_for(until - since)
        if step not in STEPS:
            raise ValueError(f"step must be one of {', '.join(STEPS)}")
        if until - since > STEPS_MAX * STEPS[step]:
            raise ValueError(f"that is more than {STEPS_MAX} steps: ask for longer ones")
        hours = min(STEPS[step], STEPS["day"])
        since, until = since // hours * hours, -(-until // hours) * hours
        names = {name: shown(query[name]) for name in _CHOICES if query.get(name)}
        from collector.archive.search import SumsSearch

        search = SumsSearch(
            since,
            until,
            STEPS[step],
            _WEEK_OFFSET if step == "week" else 0,
            names.pop("namespace", query.get("namespace")),
            namespaces=access.namespaces,
            **names,
        )
        return cls(search, step, access.view)

    @property
    def begins(self) -> list[int]:
        """The beginnings of all steps, in Unix nanoseconds."""
        search = self.search
        numbers = range(search.step_of(search.since), search.step_of(search.until - 1) + 1)
        return [(number * search.step - search.offset) * HOUR_NS for number in numbers]


_CHOICES: Final = ("agent", "spec", "spec_version", "service_version", "namespace")


def _hour(query: Mapping[str, str], name: str, otherwise: int) -> int:
    given = query.get(name)
    return min((whole_number(given, name) if given else otherwise) // HOUR_NS, _HOURS_MAX)


def _step_for(hours: int) -> str:
    return "hour" if hours <= 72 else "day" if hours <= 24 * 92 else "week"
