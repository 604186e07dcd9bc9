"""Builds of our distributions: what builds them is installed once in a run of tests, whichever process asks first."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest

__all__ = ["ROOT", "built", "pip"]

ROOT: Final = Path(__file__).parents[2]
OURS: Final = ("PYTHONPATH", "PYTHONSAFEPATH", "OFFRAILS_NATIVE")


def pip(*arguments: str | Path, environment: dict[str, str] | None = None) -> None:
    """Runs pip; skips the test where the package index cannot be reached."""
    bare = {key: value for key, value in os.environ.items() if key not in OURS}
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)],
        env=environment or bare, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode and "No matching distribution" in done.stderr:
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr[-3000:]


def built(source: Path, place: Path, temporary: pytest.TempPathFactory) -> Path:
    """The plain wheel of a source, made by the build backend that its `pyproject.toml` names."""
    wanted: dict[str, Any] = tomllib.loads((source / "pyproject.toml").read_text())[
        "build-system"
    ]
    assert wanted["build-backend"] == "hatchling.build"
    bare = {key: value for key, value in os.environ.items() if key not in OURS}
    code = "import sys, hatchling.build as b; b.build_wheel(sys.argv[1])"
    place.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", code, str(place)], cwd=source,
        env={**bare, "PYTHONPATH": str(_backend(wanted["requires"], temporary)), "PYTHONSAFEPATH": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    [found] = place.glob("*.whl")
    return found


def _backend(requires: list[str], temporary: pytest.TempPathFactory) -> Path:
    """Where what a build requires is installed."""
    base = temporary.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    place = base / "build-backend"
    with (base / "build-backend.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            pip("install", "--no-compile", "--target", place, *requires)
    return place
