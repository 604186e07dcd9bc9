"""What documents of every kind are made of."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, Tag

from monitor.spec.document.validation import LIST, MAPPING, PLAIN, StrictModel, by_form

__all__ = ["MatchDocument", "Name", "Plain", "RegexDocument"]

Name = Annotated[str, Field(min_length=1, max_length=200)]
"""A symbol, state or tool. Numbers are accepted as they are written."""


class RegexDocument(StrictModel):
    """An attribute that is searched for an expression."""

    regex: Annotated[str, Field(description="RE2, searched unless anchored")]


def _plain(value: Any) -> Any:
    if not isinstance(value, str | int | float):
        raise ValueError("Input should be a text, a number or a boolean")  # noqa: TRY004 - told to users
    return value


Plain = Annotated[str | int | float | bool, BeforeValidator(_plain)]
"""A text, a number or a boolean."""

MatchDocument = Annotated[
    Annotated[Plain, Tag(PLAIN)]
    | Annotated[list[Plain], Tag(LIST)]
    | Annotated[RegexDocument, Tag(MAPPING)],
    by_form(PLAIN, LIST, MAPPING),
]
"""Condition on an attribute: a value, one of several values, or an expression."""
