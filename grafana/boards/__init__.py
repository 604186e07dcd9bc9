"""The five boards, a file each: each answers a question that lets somebody decide."""

from __future__ import annotations

from typing import Final

from grafana.boards.drift import DRIFT_BOARD
from grafana.boards.judges import JUDGES_BOARD
from grafana.boards.monitor import MONITOR_BOARD
from grafana.boards.overview import AGENTS_BOARD
from grafana.boards.sessions import SESSIONS_BOARD

__all__ = ["BOARDS"]

BOARDS: Final = (AGENTS_BOARD, SESSIONS_BOARD, DRIFT_BOARD, JUDGES_BOARD, MONITOR_BOARD)
