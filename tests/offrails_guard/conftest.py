"""The double that guards are tested against."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from offrails_guard import Guard
from tests.offrails_guard.double import Double, running

Make = Callable[..., Guard]

PATIENT = 20.0
"""Seconds of a deadline that no test reaches."""


@pytest.fixture
def double() -> Iterator[Double]:
    """A service that decides, until it is set to something else."""
    with running() as found:
        yield found


@pytest.fixture
def make(double: Double) -> Iterator[Make]:
    """Makes guards of the double, with a deadline that no test reaches unless it is named."""
    with ExitStack() as stack:

        def guard(url: str = "", **options: Any) -> Guard:
            options = {"session": "s1", "deadline_seconds": PATIENT, **options}
            return stack.enter_context(Guard(url or double.url, **options))

        yield guard
        double.resume.set()
