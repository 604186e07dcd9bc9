"""Harmful verdicts and their revisions as JSON lines, appended to a file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collector.sinks.http_client import DeliveryError
from collector.telemetry.json_text import as_json

__all__ = ["JsonLines"]


class JsonLines:
    """One file, opened for each lump of lines: it may be rotated at any time.

    Args:
        path: the file; its folder must be there.
    """

    name = "jsonl"

    def __init__(self, path: Path) -> None:
        self._path = path

    async def send(self, messages: Sequence[dict[str, Any]]) -> None:
        """Each message is a line."""
        text = b"".join(as_json(message) + b"\n" for message in messages)
        try:
            await asyncio.to_thread(self._append, text)
        except OSError as problem:
            raise DeliveryError(str(problem)) from None

    def _append(self, text: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(text)
