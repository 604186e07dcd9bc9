"""Judges cost nothing where nobody judges."""

from __future__ import annotations

import subprocess
import sys

SEEN = """
import sys
import collector, collector.cli.program, collector.app.service, collector.offline.replay
print([name for name in sys.modules if name.split('.')[0] in {'judges', 'openai', 'json_repair'}])
"""


def test_a_process_that_receives_loads_no_judge_and_no_client_of_models() -> None:
    """The service, the program's verbs and replaying load neither `judges` nor `openai`."""
    done = subprocess.run(
        [sys.executable, "-c", SEEN], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
