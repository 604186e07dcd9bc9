"""Samples of many cases that take long together: a few of them are in `make test`, all are parameters."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

__all__ = ["sampled"]


def sampled(cases: Iterable[Any], few: Collection[Any]) -> list[Any]:
    """The cases as parameters; all but the few are marked `long`, for `make test-long`. A tuple is a value of each."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=() if case in few else pytest.mark.long,
        )
        for case in cases
    ]
