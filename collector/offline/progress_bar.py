"""A progress bar on standard error, for input that takes a while."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO, TypeVar

__all__ = ["Progress"]

SHOWN_FROM_BYTES = 8 * 1024 * 1024
"""Shorter input is done before a bar could be read."""

_WIDTH = 30
_LABEL = 10

T = TypeVar("T")


class Progress:
    """Bytes read of all bytes to read, then the stages of what is done with them.

    Silent where nobody watches, or where it is soon over.
    """

    def __init__(self, files: Sequence[Path], stream: TextIO | None = None) -> None:
        self._total = sum(file.stat().st_size for file in files if file.is_file())
        self._stream = stream or sys.stderr
        self._shown = self._stream.isatty() and self._total >= SHOWN_FROM_BYTES
        self._before = 0
        self._size = 0
        self._drawn = ""

    def start(self, file: Path) -> None:
        """The next file is begun."""
        self._before += self._size
        self._size = file.stat().st_size

    def at(self, place: int) -> None:
        """So many bytes of the file are read."""
        if self._shown:
            self._draw("reading", self._before + place, self._total)

    def stage(self, label: str, items: Sequence[T]) -> Iterable[T]:
        """The items, one after the other, with a bar of their own."""
        return self._staged(label, items) if self._shown else items

    def _staged(self, label: str, items: Sequence[T]) -> Iterator[T]:
        for done, item in enumerate(items, start=1):
            yield item
            self._draw(label, done, len(items))

    def begin(self, label: str) -> None:
        """A stage of unknown length is begun."""
        if self._shown:
            self._write(f"{label} ...\n")

    def _draw(self, label: str, done: int, total: int) -> None:
        percent = min(100, 100 * done // total)
        filled = "#" * (_WIDTH * percent // 100)
        end = "\n" if percent == 100 else ""
        self._write(f"\r{label:<{_LABEL}} [{filled:<{_WIDTH}}] {percent:3d} %{end}")

    def _write(self, text: str) -> None:
        if text != self._drawn:
            self._drawn = text
            self._stream.write(text)
            self._stream.flush()
