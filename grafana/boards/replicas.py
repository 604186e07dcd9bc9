"""Two replicas that get the same spans count once."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from grafana.panels import Board, Panel

__all__ = ["once"]

_RATED: Final = re.compile(
    r"\b(?:rate|increase)\(offrails_\w+\{[^{}]*\}\[[^\]]+\](?: offset [^)]+)?\)"
)
_SUMMED: Final = re.compile(r"(\bsum(?: by \([^)]*\) )?\()(offrails_\w+\{[^{}]*\})(?=\))")
"""What two replicas would count twice: means and extremes of both are those of one."""


def once(board: Board) -> Board:
    """The board, on which monitors that get the same spans (label `replica`) count once; others lack the label."""
    rows = tuple(
        replace(row, panels=tuple(_panel_once(panel) for panel in row.panels))
        for row in board.rows
    )
    return replace(board, rows=rows)


def _panel_once(panel: Panel) -> Panel:
    return replace(
        panel,
        targets=tuple(replace(each, expr=_expr_once(each.expr)) for each in panel.targets),
    )


def _expr_once(expr: str) -> str:
    """Each rate, and each gauge that is summed, of the replica that has most."""
    rated = _RATED.sub(r"max without (replica) (\g<0>)", expr)
    return _SUMMED.sub(r"\1max without (replica) (\2)", rated)
