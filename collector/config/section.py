"""What settings are made of: sections with fields, and the walk over them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from pydantic import ConfigDict

from monitor.spec.document.validation import StrictModel

__all__ = ["Leaf", "SettingsSection", "leaves"]


class SettingsSection(StrictModel):
    """A section of the settings. Numbers are finite."""

    model_config = ConfigDict(allow_inf_nan=False)


class Leaf(NamedTuple):
    """One setting: a field that is not a section."""

    path: tuple[str, ...]
    default: Any
    description: str


def leaves(model: type[StrictModel], path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    """The settings of a section and of its subsections, in order."""
    for name, field in model.model_fields.items():
        here = (*path, field.alias or name)
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, StrictModel):
            yield from leaves(kind, here)
        else:
            default = field.get_default(call_default_factory=True)
            yield Leaf(here, default, field.description or "")
