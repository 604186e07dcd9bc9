"""Families as text: OpenMetrics with exemplars, or Prometheus' text format.

This renderer is the larger part of a large scrape, so it takes one pass and copies ready lines. It
yields in between, so that other tasks may run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf, isinf, isnan

from monitor.aggregate.totals import Exemplar
from monitor.exposition.family import ExemplarLines, Family

__all__ = ["OPEN_METRICS", "PLAIN", "is_open_metrics", "lines"]

OPEN_METRICS_END = "# EOF\n"
OPEN_METRICS = (
    b"application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores"
)
PLAIN = b"text/plain; version=0.0.4; charset=utf-8"


def is_open_metrics(accept: str) -> bool:
    """True if a scraper accepts OpenMetrics 1.0.

    Args:
        accept: the `Accept` header of its request.
    """
    for each in accept.split(","):
        kind, *parameters = (part.strip() for part in each.split(";"))
        versions = [part[8:] for part in parameters if part.startswith("version=")]
        if kind == "application/openmetrics-text" and versions in ([], ["1.0.0"]):
            return True
    return False


def lines(families: Iterable[Family], *, open_metrics: bool) -> Iterator[str]:
    """The exposition, one or several lines at a time; each family begins with help and type."""
    for family in families:
        yield _head(family, open_metrics=open_metrics)
        name = family.name
        ending = "_total" if family.kind == "counter" else ""
        for sample in family.samples:
            if isinstance(sample, str):
                yield sample
                continue
            if isinstance(sample, ExemplarLines):
                yield _marked(sample) if open_metrics else sample.text
                continue
            suffix, labels, value, exemplar, _ = sample
            text = f"{value}.0" if type(value) is int else number(value)
            end = ""
            if open_metrics and exemplar is not None:
                end = _exemplar(exemplar, sample.observed)
            if labels:
                yield f"{name}{suffix or ending}{{{labels}}} {text}{end}\n"
            else:
                yield f"{name}{suffix or ending} {text}{end}\n"
    if open_metrics:
        yield OPEN_METRICS_END


def _head(family: Family, *, open_metrics: bool) -> str:
    name, text = family.name, family.help.replace("\\", r"\\").replace("\n", r"\n")
    if open_metrics:
        text = text.replace('"', r"\"")
    elif family.kind == "counter":
        name += "_total"
    return f"# HELP {name} {text}\n# TYPE {name} {family.kind}\n"


def _marked(sample: ExemplarLines) -> str:
    """Lines with their exemplars. No label contains a line break."""
    lines = sample.text.split("\n")
    for place, (exemplar, observed) in sample.exemplars.items():
        lines[place] += _exemplar(exemplar, observed)
    return "\n".join(lines)


def _exemplar(exemplar: Exemplar, observed: float) -> str:
    return (
        f' # {{trace_id="{exemplar.trace_id.hex()}",span_id="{exemplar.span_id.hex()}"}}'
        f" {number(observed)} {exemplar.at_ns / 1e9:.3f}"
    )


def number(value: float) -> str:
    """A value in the form of both formats."""
    if isinstance(value, int):
        return f"{value}.0"
    if isinf(value):
        return "+Inf" if value == inf else "-Inf"
    return "NaN" if isnan(value) else repr(value)
