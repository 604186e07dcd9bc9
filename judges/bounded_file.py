"""Markdown files that users write: rubrics and instructions."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["FILE_BYTES_MAX", "bounded_text"]

FILE_BYTES_MAX: Final = 100_000


def bounded_text(file: Path) -> str:
    """The text of a file.

    Raises:
        OSError: it cannot be read.
        ValueError: it has over `FILE_BYTES_MAX` bytes, or is no UTF-8.
    """
    with file.open("rb") as stream:
        found = stream.read(FILE_BYTES_MAX + 1)
    if len(found) > FILE_BYTES_MAX:
        raise ValueError(f"expected at most {FILE_BYTES_MAX} bytes")
    return found.decode()
