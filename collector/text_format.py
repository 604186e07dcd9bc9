"""Families as text: OpenMetrics with exemplars, or Prometheus' text format.

Written here because a scrape of a large process is mostly this: one pass, no object a sample
beyond the one it is made of, and a stop now and then where other tasks may run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf, isinf, isnan

from monitor.exposition import Family, Sample

__all__ = ["lines"]

OPEN_METRICS_END = "# EOF\n"


def lines(families: Iterable[Family], *, open_metrics: bool) -> Iterator[str]:
    """The exposition, line by line; the first of a family holds its help and type as well."""
    for family in families:
        yield _head(family, open_metrics=open_metrics)
        name = family.name
        ending = "_total" if family.kind == "counter" else ""
        for sample in family.samples:
            suffix, labels, value, exemplar, _ = sample
            text = f"{value}.0" if type(value) is int else number(value)
            end = _exemplar(sample) if open_metrics and exemplar is not None else ""
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


def _exemplar(sample: Sample) -> str:
    exemplar = sample.exemplar
    assert exemplar is not None
    return (
        f' # {{trace_id="{exemplar.trace_id.hex()}",span_id="{exemplar.span_id.hex()}"}}'
        f" {number(sample.observed)} {exemplar.at_ns / 1e9:.3f}"
    )


def number(value: float) -> str:
    """A value as both formats write it."""
    if isinstance(value, int):
        return f"{value}.0"
    if isinf(value):
        return "+Inf" if value == inf else "-Inf"
    return "NaN" if isnan(value) else repr(value)
