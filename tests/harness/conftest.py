"""Runs of `offrails harness` in this process, on a world that misbehaves when it is asked to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.bench.results_folder import read_rollouts
from harness.cli.program import main

LAB = Path(__file__).parent / "lab"

Turns = Sequence[dict[str, Any]]

OPEN: dict[str, Any] = {"tool": "open_door", "arguments": {"key": "brass"}}
LIGHT: dict[str, Any] = {"tool": "light", "arguments": {"level": 3}}
NOTE: dict[str, Any] = {"tool": "note", "arguments": {"text": "done"}}
DONE: dict[str, Any] = {"say": "Done."}


class Bench:
    """Runs of `offrails harness run`, each into a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._number = count()
        self.code = 0

    def out(self) -> Path:
        return self.folder / f"out{next(self._number)}"

    def run(self, *arguments: str, out: Path | None = None) -> list[dict[str, Any]]:
        """The rollouts of a run; its exit code is `code`."""
        folder = out or self.out()
        self.code = main(["run", *arguments, "--out", str(folder)])
        return read_rollouts(folder)

    def script(self, turns: Any) -> str:
        """The agent that takes these turns."""
        file = self.folder / f"script{next(self._number)}.json"
        file.write_text(json.dumps(turns))
        return f"scripted:{file}"

    def scripted(self, turns: Turns, *options: str) -> dict[str, Any]:
        """The one rollout of a script in the lab."""
        [found] = self.run(str(LAB), "--agent", self.script(turns), *options)
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)
