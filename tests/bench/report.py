"""Writes what was measured here into docs/performance.md, and draws it.

    python -m tests.bench.report

What stands between two marks is replaced; the text around them is written by hand.
"""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from tests.bench import pipeline, process, startup, trajectory
from tests.bench.plot import svg

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "images" / "performance.svg"


def main() -> None:
    """Measures, and replaces the marked parts of the page."""
    rows = process.measure()
    PICTURE.write_text(svg(rows))
    parts = {
        "machine": _machine(),
        "process": process.table(rows),
        "pipeline": pipeline.table(pipeline.measure()),
        "trajectory": trajectory.table(trajectory.measure()),
        "startup": startup.table(startup.measure(), startup.import_seconds()),
    }
    text = PAGE.read_text()
    for name, part in parts.items():
        before, rest = text.split(f"<!-- {name} -->\n")
        _, after = rest.split(f"<!-- /{name} -->")
        text = f"{before}<!-- {name} -->\n{part}\n<!-- /{name} -->{after}"
    PAGE.write_text(text)


def _machine() -> str:
    """What it was measured on."""
    cpu = re.search(r"model name\s*: (.+)", Path("/proc/cpuinfo").read_text())
    name = cpu[1] if cpu else platform.machine()
    return f"{os.cpu_count()} cores of {name}, Python {platform.python_version()}."


if __name__ == "__main__":
    main()
