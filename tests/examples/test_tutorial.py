"""docs/tutorial.md, followed literally, with the recordings in place of the frameworks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.examples.test_examples import AGENTS
from tests.examples.tutorial import follow

pytestmark = pytest.mark.timeout(240)
STAND_IN = Path(__file__).with_name("stand_in.py")


@pytest.mark.long
@pytest.mark.parametrize("agent", AGENTS)
def test_the_tutorial_says_what_happens(agent: str, tmp_path: Path) -> None:
    """Each command gives the answer that is shown, up to the page in Alertmanager where it is installed."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} {STAND_IN} "$@"\n')
    python.chmod(0o755)
    home = tmp_path / "clone"
    home.mkdir()
    left_out: list[str] = []

    given = follow(home, agent, python, left_out.append)

    assert given + len(left_out) >= 25
    if left_out:
        pytest.skip(f"not installed: {', '.join(each.split()[0] for each in left_out)}")
