"""What people found in sessions: scores they gave, and errors they marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

__all__ = ["IMPACTS", "BadLabelError", "ErrorLabel", "Labels", "ScoreLabel"]

IMPACTS: Final = ("low", "medium", "high")


class BadLabelError(Exception):
    """Labels cannot be read; the message names the file, the place, the key and what was expected."""


class ScoreLabel(NamedTuple):
    """The score that a person gave a session, for the dimension of one judge."""

    session: str
    judge: str
    score: int
    """Points, 0 to 3."""


class ErrorLabel(NamedTuple):
    """An error that a person marked in a session."""

    session: str
    category: str | None = None
    impact: str | None = None
    """One of IMPACTS; None if it was not said."""
    step: str | None = None
    """Short id of the step (`s3`); None if it is named by its span, or not at all."""
    span_id: str | None = None
    """Hex digits of the span, in lower case."""
    judges: frozenset[str] | None = None
    """Judges whose error it is; None if the label leaves that to its category."""


@dataclass(frozen=True, slots=True)
class Labels:
    """All that people said of some sessions."""

    scores: Sequence[ScoreLabel] = ()
    errors: Sequence[ErrorLabel] = ()

    @property
    def sessions(self) -> frozenset[str]:
        """Sessions that something was said of."""
        return frozenset(
            {label.session for label in self.scores} | {label.session for label in self.errors}
        )
