"""What documents of every kind are made of."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Discriminator, Field, StringConstraints, Tag

__all__ = ["MatchDocument", "Name", "Part", "RegexDocument", "form"]

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
"""A symbol, state or tool. Numbers are accepted as they are written."""


def form(value: Any) -> str:
    """Which of the forms of a value this is."""
    return (
        "mapping" if isinstance(value, dict) else "list" if isinstance(value, list) else "plain"
    )


class Part(BaseModel):
    """A mapping whose keys are known."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class RegexDocument(Part):
    """An attribute that is searched for an expression."""

    regex: str = Field(description="RE2, searched unless anchored")


Plain = str | int | float | bool

MatchDocument = Annotated[
    Annotated[Plain, Tag("plain")]
    | Annotated[list[Plain], Tag("list")]
    | Annotated[RegexDocument, Tag("mapping")],
    Discriminator(form),
]
