"""The PrometheusRule resource for Kubernetes, made from the plain rule file.

python deploy/prometheus/prometheusrule.py > deploy/prometheus/prometheusrule.yaml

With an address, the runbooks' links lead there:

python deploy/prometheus/prometheusrule.py https://offrails.example.com > prometheusrule.yaml
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

__all__ = ["PLACE", "RULES", "resource"]

PLACE = "http://127.0.0.1:4319"
"""Of the admin listener, unless the settings name another."""

RULES = Path(__file__).parent / "rules" / "offrails.yml"

_HEAD = """\
# Generated from rules/offrails.yml: python deploy/prometheus/prometheusrule.py
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: offrails
  labels:
    app.kubernetes.io/name: offrails
spec:
"""


def resource(rules: str) -> str:
    """The resource around the groups of a rule file, which must be one mapping `groups`."""
    groups = yaml.safe_load(rules)["groups"]
    text: str = yaml.safe_dump({"groups": groups}, sort_keys=False, width=1_000)
    return _HEAD + "".join(f"  {line}\n" for line in text.splitlines())


if __name__ == "__main__":
    place = sys.argv[1].rstrip("/") if len(sys.argv) > 1 else PLACE
    sys.stdout.write(resource(RULES.read_text().replace(PLACE, place)))
