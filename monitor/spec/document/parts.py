"""What documents of every kind are made of."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

__all__ = ["MatchDocument", "Name", "Part", "RegexDocument"]

Name = Annotated[str, Meta(min_length=1, max_length=200)]
"""A symbol, state or tool. Numbers are accepted as they are written."""


class Part(Struct, frozen=True, forbid_unknown_fields=True):
    """A mapping whose keys are known."""


class RegexDocument(Part, frozen=True):
    """An attribute that is searched for an expression."""

    regex: Annotated[str, Meta(description="RE2, searched unless anchored")]


Plain = str | int | float | bool

MatchDocument = Plain | list[Plain] | RegexDocument
