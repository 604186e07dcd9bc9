"""The scores of CORE by name: the records that hold them, and what is shown of each.

A new score is a field at the end of each record here, a row of `SCORES`, and its formula (docs/how-to-change-it.md).
Metrics, tables, boards and what a restart keeps follow from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = [
    "NO_SCORES",
    "SCORES",
    "SPREADS",
    "Compared",
    "Episode",
    "FinalScores",
    "ScoreDescription",
    "ScoreSpread",
    "SessionScores",
    "without_scores",
]


class SessionScores(NamedTuple):
    """CORE's scores of one judgement; None if undefined, not exact, or not under a task."""

    harm_rate: float | None = None
    prefix_crit: float | None = None
    pc: float | None = None
    pc_ktc: float | None = None
    pc_hlr: float | None = None
    efficiency: float | None = None


NO_SCORES: Final = SessionScores()

Compared = tuple[float | None, float | None, float | None]
"""PC, PC-KTC and PC+HLR of a condensed path; None if undefined, or not kept."""


class Episode(NamedTuple):
    """A finished episode; its scores are None if undefined or not exact."""

    calls: int
    substantive: int
    harmful: int
    harm_rate: float | None = None
    prefix_crit: float | None = None
    pc: float | None = None
    pc_ktc: float | None = None
    pc_hlr: float | None = None
    efficiency: float | None = None


def without_scores(episode: Episode) -> Episode:
    """The episode without its scores, as it is not exact."""
    return Episode(episode.calls, episode.substantive, episode.harmful)


class FinalScores(NamedTuple):
    """The scores of one finished session; None if undefined or not exact."""

    outcome: str
    calls: int
    harmful: int
    harm_rate: float | None = None
    prefix_crit: float | None = None
    pc: float | None = None
    pc_ktc: float | None = None
    pc_hlr: float | None = None
    efficiency: float | None = None


class ScoreDescription(NamedTuple):
    """What is shown of a score."""

    title: str
    """Title in tables and boards."""
    family: str
    """Metric family without `offrails_`: the mean over sessions."""
    mean: str = ""
    """The description of the mean over finished sessions; "" if there is one over live sessions instead."""
    lower_is_better: bool = False


SCORES: Final[Mapping[str, ScoreDescription]] = {
    "harm_rate": ScoreDescription("HarmRate", "harm_rate", lower_is_better=True),
    "prefix_crit": ScoreDescription("PrefixCrit", "prefix_crit"),
    "pc": ScoreDescription(
        "PC",
        "path_correctness",
        "Mean PC (CORE eq. 4) of sessions finished in the window.",
    ),
    "pc_ktc": ScoreDescription(
        "PC-KTC",
        "path_correctness_ktc",
        "Mean PC-KTC (CORE eq. 5) of sessions finished in the window.",
    ),
    "pc_hlr": ScoreDescription(
        "PC+HLR",
        "path_correctness_hlr",
        "Mean PC+HLR (CORE section 4) of sessions finished in the window.",
    ),
    "efficiency": ScoreDescription(
        "Efficiency",
        "efficiency",
        "Mean Efficiency (CORE eq. 8) of sessions finished in the window, where defined.",
    ),
}
"""Descriptions by the fields of `SessionScores`, in their order."""


class ScoreSpread(NamedTuple):
    """The histogram of a score over all finished sessions."""

    help: str
    bounds: tuple[float, ...]
    """Upper bounds of the buckets, ascending."""


_TENTHS: Final[tuple[float, ...]] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)

# fmt: off
SPREADS: Final[Mapping[str, ScoreSpread]] = {
    "harm_rate": ScoreSpread(
        "HarmRate of finished sessions; le=0 are those without harm.",
        (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0),
    ),
    "prefix_crit": ScoreSpread(
        "PrefixCrit of finished sessions.",
        (0.0, 0.1, 0.25, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 0.9999, 1.0),
    ),
    "efficiency": ScoreSpread("Efficiency of finished sessions, where defined.", _TENTHS),
    "pc": ScoreSpread("PC of finished sessions.", _TENTHS),
}
"""Spreads of the scores that have one."""
# fmt: on
