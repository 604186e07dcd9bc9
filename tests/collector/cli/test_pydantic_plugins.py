"""Our processes do not search the installed distributions for plugins of pydantic."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROVER = Path(__file__).parents[3] / "dfa_specs" / "farm_rover.yaml"
PROGRAM = """
import sys
from collector.cli.main import main
code = main(["check", sys.argv[1]])
sys.exit(code or "importlib.metadata" in sys.modules)
"""


def test_no_search_for_plugins() -> None:
    """A spec is checked by its model, and the metadata of distributions is not loaded."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROVER)], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
