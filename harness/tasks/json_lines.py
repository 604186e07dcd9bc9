"""Files that have a JSON document a line: results of runs, recordings of tools, and what other benchmarks write."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["documents", "read_lines", "with_keys"]

Read = TypeVar("Read")


def read_lines(
    file: Path, read: Callable[[str], Read], error: Callable[[str], Exception]
) -> list[Read]:
    """What each line of a file says. A last line that does not end is left out: who wrote it was killed.

    Args:
        file: of JSON lines.
        read: makes what is wanted of a line, its end with it.
        error: makes what is raised where the file cannot be read, or `read` does not find what it needs.
    """
    found = []
    for number, line in enumerate(_lines(file, error)[:-1], start=1):
        try:
            found.append(read(line + "\n"))
        except (ValueError, RecursionError) as problem:
            raise error(f"{file}:{number}: {problem}") from None
        except (LookupError, TypeError, AttributeError) as problem:
            raise error(f"{file}:{number}: {problem!r}") from None
    return found


def documents(file: Path, error: Callable[[str], Exception]) -> Iterator[tuple[str, Any]]:
    """What each line says that is not blank, the last one too, with its place: file and line.

    Args:
        file: of JSON lines.
        error: makes what is raised where the file cannot be read, or a line is no JSON.
    """
    for number, line in enumerate(_lines(file, error), start=1):
        if line.strip():
            try:
                yield f"{file}:{number}", json.loads(line)
            except (ValueError, RecursionError) as problem:
                raise error(f"{file}:{number}: {problem}") from None


def _lines(file: Path, error: Callable[[str], Exception]) -> list[str]:
    try:
        # JSON has other ends of lines inside its texts: only this one ends a line of the file.
        return file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as problem:
        raise error(f"{file}: {getattr(problem, 'strerror', None) or problem}") from None


def with_keys(found: Any, *keys: str) -> dict[str, Any]:
    """The object that a line is.

    Raises:
        ValueError: it is none, or lacks one of these keys.
    """
    missing = [key for key in keys if not isinstance(found, dict) or key not in found]
    if missing:
        raise ValueError(f"expected an object with {', '.join(missing)}")
    return dict(found)
