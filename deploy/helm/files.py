"""Copies into the chart what Helm cannot read outside of it: rules, boards, a spec, and the router's configuration.

python -m deploy.helm.files
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

__all__ = ["CHART", "copies"]

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "offrails"


def copies() -> Iterator[tuple[Path, Path]]:
    """Each file of the chart that is a copy, and what it is a copy of."""
    yield CHART / "route-by-session.yaml", ROOT / "deploy/otelcol/route-by-session.yaml"
    yield CHART / "specs/farm_rover.yaml", ROOT / "dfa_specs/farm_rover.yaml"
    yield CHART / "rules/offrails.yml", ROOT / "deploy/prometheus/rules/offrails.yml"
    for board in sorted((ROOT / "grafana/dashboards").glob("*.json")):
        yield CHART / "dashboards" / board.name, board


if __name__ == "__main__":
    for copy, original in copies():
        copy.write_text(original.read_text(encoding="utf-8"), encoding="utf-8")
