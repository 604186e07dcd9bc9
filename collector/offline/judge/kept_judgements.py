"""Records that earlier runs of `offrails judge --json` have printed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from collector.offline.replay import BadInput
from judges.bounded_file import BoundedFileError, bounded_text

__all__ = ["FILE_BYTES_MAX", "kept_judgements"]

FILE_BYTES_MAX: Final = 256 << 20

_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "session": (str,),
    "judge": (str,),
    "model": (str,),
    "outcome": (str,),
    "score": (int, type(None)),
}
"""Keys that a comparison reads, and what they are."""


def kept_judgements(file: Path) -> list[dict[str, Any]]:
    """The judgements of a file; its lines of figures are passed over.

    Raises:
        BadInput: it cannot be read, is too large, or a line is none that the verb prints.
    """
    try:
        text = bounded_text(file, FILE_BYTES_MAX)
    except BoundedFileError as problem:
        raise BadInput(str(problem)) from None
    return list(_records(file, text))


def _records(file: Path, text: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise BadInput(f"{file}:{number}: expected JSON: {problem}") from None
        if not isinstance(found, dict):
            raise BadInput(f"{file}:{number}: expected an object")
        if "judge" in found:
            yield _checked(found, f"{file}:{number}")


def _checked(found: dict[str, Any], place: str) -> dict[str, Any]:
    for key, kinds in _KINDS.items():
        value = found.get(key)
        if key not in found or not isinstance(value, kinds) or isinstance(value, bool):
            expected = " or ".join(
                "null" if each is type(None) else each.__name__ for each in kinds
            )
            raise BadInput(f"{place}: {key}: expected {expected}, found {value!r:.80}")
    return found
