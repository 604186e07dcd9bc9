"""Writes the boards: `python -m grafana.build`. What it writes is checked in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from grafana.boards import BOARDS
from grafana.panels import board_json

__all__ = ["FOLDER", "files"]

FOLDER = Path(__file__).parent / "dashboards"


def files() -> Mapping[Path, str]:
    """Each board's file and its text."""
    return {
        FOLDER / f"{board.uid}.json": json.dumps(board_json(board), indent=1, sort_keys=True)
        + "\n"
        for board in BOARDS
    }


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in files().items():
        file.write_text(text, encoding="utf-8")
