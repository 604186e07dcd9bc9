"""Programs of others that `make deploy-tools` builds from the Go proxy; a test without one is skipped."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

__all__ = ["built"]

TOOLS = Path(__file__).parents[2] / ".tools"


def built(name: str) -> str:
    """The program of that name, from `.tools` or else from the PATH."""
    found = shutil.which(name, path=TOOLS) or shutil.which(name)
    if found is None:
        pytest.skip(
            f"{name} is not here: `make deploy-tools` builds it (needs Go and its proxy)"
        )
    return found
