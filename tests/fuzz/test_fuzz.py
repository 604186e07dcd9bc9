"""Inputs that once were not survived, the seeds, and a moment of new ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.mutate import fuzz
from tests.fuzz.targets import CRASHES, TARGETS, seeds

SECONDS = 0.4
FOUND = sorted(path for path in CRASHES.iterdir() if "-" in path.name)


@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.name)
def test_old_crashes_are_survived(path: Path) -> None:
    """Inputs that once crashed a target no longer do."""
    TARGETS[path.name.partition("-")[0]](path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_survived(name: str) -> None:
    """Every seed, captures of real agents included."""
    for body in seeds()[name]:
        TARGETS[name](body)


@pytest.mark.plain
@pytest.mark.parametrize("name", TARGETS)
def test_a_moment_of_fuzzing(name: str) -> None:
    """Mutations of the seeds crash nothing; `make fuzz` takes longer."""
    tried, lines, crash = fuzz(TARGETS[name], seeds()[name], SECONDS, seed=1)

    assert crash is None, crash
    assert tried > 10
    assert lines > 10
