"""Files of traces in TRAIL's form and of trajectories of turns: a JSON document, a list of them, or one a line."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from collector.offline.replay import DocumentForm, bytes_of
from collector.transcripts.trail import is_trail
from collector.transcripts.turns import is_turns

__all__ = ["TRAJECTORIES", "are_trails", "are_turns", "trajectories"]

_MARKS: Final = (b'"span_attributes"', b'"history"', b'"trajectory_id"')


def are_turns(documents: Sequence[Any]) -> bool:
    """True for trajectories of AgentRx and Who&When."""
    return bool(documents) and all(map(is_turns, documents))


def are_trails(documents: Sequence[Any]) -> bool:
    """True for traces in TRAIL's form."""
    return bool(documents) and all(map(is_trail, documents))


def _is_either(document: Any) -> bool:
    documents = document if isinstance(document, list) else [document]
    return are_turns(documents) or are_trails(documents)


TRAJECTORIES: Final = DocumentForm(_MARKS, _is_either)
"""What is read in a folder beside recordings; annotations that lie there are not."""


def trajectories(file: Path) -> list[Any]:
    """The documents of a file; none if it is of another form, or cannot be read."""
    try:
        text = bytes_of(file)
        return list(_documents(text)) if any(mark in text for mark in _MARKS) else []
    except (OSError, EOFError, zlib.error, ValueError, RecursionError):
        return []


def _documents(text: bytes) -> Iterator[Any]:
    try:
        whole = json.loads(text)
    except ValueError:
        yield from (json.loads(line) for line in text.splitlines() if line.strip())
        return
    yield from whole if isinstance(whole, list) else [whole]
