"""How judges do against labels, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from collector.offline.tables import aligned

__all__ = ["label_table_lines"]

_RATES: Final = ("precision", "recall", "f1", "f2", "accuracy")
_SCORES: Final = ("acc_ob1", "acc_3pt", "correlation", "nmae")


def label_table_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """A line a judge for errors caught, localised, and for scores; then all errors, and those of each impact.

    Args:
        found: `label_lines`' figures of judges, and of `all`.
    """
    judges = {judge: figures for judge, figures in found.items() if judge != "all"}
    for name in ("caught", "localised"):
        rows = [[judge, *map(_cell, _rates(each[name]))] for judge, each in judges.items()]
        yield from ("", *aligned([[name, *_RATES], *rows], texts=1))
    rows = [[judge, *(_cell(each[name]) for name in _SCORES)] for judge, each in judges.items()]
    yield from ("", *aligned([["scores", *_SCORES], *rows], texts=1))
    whole = {"all": found["all"], **found["all"]["by_impact"]}
    rows = [[name, *_coverage(each)] for name, each in whole.items()]
    yield from ("", *aligned([["errors", "labelled", "caught", "localised"], *rows], texts=1))


def _rates(figures: Mapping[str, Any]) -> Iterator[float | None]:
    return (figures[name] for name in _RATES)


def _coverage(figures: Mapping[str, Any]) -> list[str]:
    return [
        str(figures["errors"]),
        f"{figures['caught']} ({_cell(figures['coverage'])})",
        f"{figures['localised']} ({_cell(figures['localisation'])})",
    ]


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
