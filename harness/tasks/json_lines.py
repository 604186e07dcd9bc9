"""Files of the bench that have a JSON document a line: results of runs, and recordings of tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["read_lines", "with_keys"]

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
    try:
        # JSON has other ends of lines inside its texts: only this one ends a line of the file.
        lines = file.read_text(encoding="utf-8").split("\n")[:-1]
    except (OSError, UnicodeDecodeError) as problem:
        raise error(f"{file}: {getattr(problem, 'strerror', None) or problem}") from None
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(read(line + "\n"))
        except (ValueError, RecursionError) as problem:
            raise error(f"{file}:{number}: {problem}") from None
        except (LookupError, TypeError, AttributeError) as problem:
            raise error(f"{file}:{number}: {problem!r}") from None
    return found


def with_keys(found: Any, *keys: str) -> dict[str, Any]:
    """The object that a line is.

    Raises:
        ValueError: it is none, or lacks one of these keys.
    """
    missing = [key for key in keys if not isinstance(found, dict) or key not in found]
    if missing:
        raise ValueError(f"expected an object with {', '.join(missing)}")
    return dict(found)
