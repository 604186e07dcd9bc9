"""Types of settings: texts as numbers, switches, paths and lists, and the errors for other values."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, Self

import pytest
from pydantic import ConfigDict, Field, model_validator

from collector.config.field_types import File, Names, Number, Switch, Whole
from monitor.spec.document.validation import DocumentFault, StrictModel, validated


class Setting(StrictModel):
    """A setting that a variable may set."""

    model_config = ConfigDict(allow_inf_nan=False)

    count: Annotated[Whole, Field(ge=1)] = 1
    seconds: Number = 1.0
    on: Switch = False
    file: File | None = None
    words: Names = ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.on and self.file is None:
            raise ValueError("on needs a file")
        return self


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("count", "7", 7),
        ("count", "7.0", 7),
        ("count", 7.0, 7),
        ("count", "1e3", 1000),
        ("count", " 1_000 ", 1000),
        ("seconds", "0.5", 0.5),
        ("seconds", 2, 2.0),
        ("on", "no", False),
        ("on", "OFF", False),
        ("on", 0, False),
        ("file", "a/b", Path("a/b")),
        ("words", "a,b", ("a", "b")),
    ],
)
def test_a_text_may_stand_for_a_number(key: str, text: Any, value: Any) -> None:
    """Variables of the environment are texts."""
    found, faults = validated(Setting, {key: text})

    assert faults == []
    assert getattr(found, key) == value
    assert type(getattr(found, key)) is type(value)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("count", "x", "Input should be a valid integer, unable to parse string as an integer"),
        (
            "count",
            "1.5",
            "Input should be a valid integer, got a number with a fractional part",
        ),
        ("count", 1.5, "Input should be a valid integer, got a number with a fractional part"),
        ("count", "0", "Input should be greater than or equal to 1"),
        ("count", math.inf, "Input should be a finite number"),
        ("seconds", "x", "Input should be a valid number, unable to parse string as a number"),
        ("seconds", "nan", "Input should be a finite number"),
        ("seconds", math.inf, "Input should be a finite number"),
        ("seconds", 10**400, "Input should be a finite number"),
        ("count", True, "Input should be a valid integer"),
        (
            "count",
            "nan",
            "Input should be a finite number",
        ),
        ("seconds", True, "Input should be a valid number"),
        ("on", 1.0, "Input should be a valid boolean, unable to interpret input"),
        ("words", 1, "Input should be a valid list"),
        ("on", "perhaps", "Input should be a valid boolean, unable to interpret input"),
        ("file", 1, "Input is not a valid path"),
    ],
)
def test_texts_that_are_no_numbers(key: str, value: Any, said: str) -> None:
    """Texts that are no numbers are refused, and so are numbers out of range."""
    assert validated(Setting, {key: value}) == (None, [DocumentFault((key,), "value", said)])


def test_a_record_as_a_whole() -> None:
    """An error that concerns several fields is reported for the whole record."""
    assert validated(Setting, {"on": True})[1] == [
        DocumentFault((), "value", "on needs a file")
    ]
    assert validated(Setting, {"on": True, "file": "x"})[1] == []
