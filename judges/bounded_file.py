"""Files that users write: rubrics, instructions, prices, labels, judgements of earlier runs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["MARKDOWN_BYTES_MAX", "BoundedFileError", "bounded_text"]

MARKDOWN_BYTES_MAX: Final = 100_000
"""Bytes of a rubric, and of instructions."""


class BoundedFileError(Exception):
    """A file cannot be read; the message names it and says why."""


def bounded_text(file: Path, most: int) -> str:
    """The text of a file, without a byte order mark.

    Args:
        file: UTF-8.
        most: bytes that it may have.

    Raises:
        BoundedFileError: it cannot be read, has more bytes, or is no UTF-8.
    """
    try:
        with file.open("rb") as stream:
            found = stream.read(most + 1)
        if len(found) > most:
            raise BoundedFileError(f"{file}: expected at most {most} bytes")
        return found.decode("utf-8-sig")
    except OSError as problem:
        raise BoundedFileError(f"{file}: {problem.strerror or problem}") from None
    except UnicodeDecodeError as problem:
        raise BoundedFileError(f"{file}: {problem}") from None
