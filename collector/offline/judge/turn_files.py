"""Files of trajectories that are lists of turns: a JSON document, a list of them, or one a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from collector.offline.replay import BadInput
from collector.transcripts.step import TranscriptStep
from collector.transcripts.trail import BadTraceError
from collector.transcripts.turns import is_turns, turn_steps

__all__ = ["turn_sessions"]

_MARKS: Final = (b'"history"', b'"trajectory_id"')
"""What one of these files has: others are not read as JSON here."""


def turn_sessions(file: Path) -> list[tuple[str, list[TranscriptStep]]]:
    """Sessions with their steps; none if the file is of another form.

    Raises:
        BadInput: a trajectory cannot be used.
    """
    try:
        text = file.read_bytes()
        if not any(mark in text for mark in _MARKS):
            return []
        documents = list(_documents(text))
    except (OSError, ValueError, RecursionError):
        return []
    if not documents or not all(is_turns(each) for each in documents):
        return []
    try:
        return [turn_steps(each, file.stem) for each in documents]
    except BadTraceError as problem:
        raise BadInput(f"{file}: {problem}") from None


def _documents(text: bytes) -> Iterator[Any]:
    try:
        whole = json.loads(text)
    except ValueError:
        yield from (json.loads(line) for line in text.splitlines() if line.strip())
        return
    yield from whole if isinstance(whole, list) else [whole]
