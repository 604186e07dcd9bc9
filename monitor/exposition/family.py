"""What a Prometheus family is: its description, its samples, its labels as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from monitor.aggregate.totals import Exemplar

__all__ = ["ExemplarLines", "Family", "MetricDescription", "Sample", "labels_text"]


class MetricDescription(NamedTuple):
    """One row of the table of metrics; the name is without `offrails_` and `_total`."""

    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str


class Sample(NamedTuple):
    """One line: what follows the family's name, the labels as text, the value."""

    suffix: str
    labels: str
    value: float
    exemplar: Exemplar | None = None
    observed: float = 1.0
    """The value that the exemplar stands for."""


class ExemplarLines(NamedTuple):
    """Several lines as text, some of which have an exemplar."""

    text: str
    exemplars: Mapping[int, tuple[Exemplar, float]]
    """Exemplars by line, each with the value that it stands for."""


class Family(NamedTuple):
    """A family of metrics; its samples are made while they are read, and only once.

    Where there are many, they come as text: whole lines.
    """

    name: str
    kind: str
    help: str
    samples: Iterable[Sample | ExemplarLines | str]


_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def labels_text(names: Iterable[str], values: Iterable[str]) -> str:
    """Labels as they stand between the braces. Values are hostile text."""
    return ",".join(
        f'{name}="{value.translate(_ESCAPES)}"'
        for name, value in zip(names, values, strict=True)
    )
