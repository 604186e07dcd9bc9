"""A progress bar on standard error, for input that takes a while."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TextIO

__all__ = ["Progress"]

SHOWN_FROM_BYTES = 8 * 1024 * 1024
"""Shorter input is done before a bar could be read."""

_WIDTH = 30


class Progress:
    """Bytes read of all bytes to read. Silent where nobody watches, or where it is soon over."""

    def __init__(self, files: list[Path], stream: TextIO | None = None) -> None:
        self._total = sum(file.stat().st_size for file in files if file.is_file())
        self._stream = stream or sys.stderr
        self._shown = self._stream.isatty() and self._total >= SHOWN_FROM_BYTES
        self._before = 0
        self._size = 0
        self._percent = -1

    def start(self, file: Path) -> None:
        """The next file is begun."""
        self._before += self._size
        self._size = file.stat().st_size

    def at(self, place: int) -> None:
        """So many bytes of the file are read."""
        if not self._shown:
            return
        percent = min(100, 100 * (self._before + place) // self._total)
        if percent != self._percent:
            self._percent = percent
            filled = "#" * (_WIDTH * percent // 100)
            self._stream.write(f"\r[{filled:<{_WIDTH}}] {percent:3d} %")
            if percent == 100:
                self._stream.write("\n")
            self._stream.flush()
