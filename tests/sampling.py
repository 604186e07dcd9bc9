"""Cases of one sentence, of which `make test` takes a sample and `make test-long` all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

__all__ = ["sample"]


def sample(cases: Iterable[Any], *, every: int) -> list[Any]:
    """All cases; those between each `every`-th are marked `long`."""
    return [
        pytest.param(case, marks=pytest.mark.long) if number % every else case
        for number, case in enumerate(cases)
    ]
