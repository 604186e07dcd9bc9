"""Answers that stand, kept in a folder: what was asked once is not asked again, and a run that stopped goes on.

The key is a digest of the prompt without its nonce, endpoint, model, sampling settings and repetition. The folder
holds answers of models, which may quote sessions: it is readable by its owner alone.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

__all__ = ["FILES_MAX", "AnswerCache"]

FILES_MAX: Final = 50_000
"""Answers that are kept; of more, the oldest are removed when the cache is opened."""
_BYTES_MAX: Final = 1 << 20


class AnswerCache:
    """A folder of answers, one file each. A folder that cannot be written is no failure: nothing is kept then."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self.problem: OSError | None = None
        """Why the first answer that was not kept was not."""
        if folder is not None:
            _prune(folder)

    @staticmethod
    def key(parts: Iterable[str]) -> str:
        """The key of an answer: a digest of everything that it depends on."""
        text = json.dumps(list(parts)).encode()
        return hashlib.blake2b(text, digest_size=20).hexdigest()

    def get(self, key: str) -> dict[str, Any] | None:
        """The answer under a key; None if there is none, or it cannot be read."""
        if self._folder is None:
            return None
        with suppress(OSError, ValueError):
            found = json.loads(self._path(self._folder, key).read_bytes())
            return found if isinstance(found, dict) else None
        return None

    def put(self, key: str, answer: dict[str, Any]) -> None:
        """Keeps an answer."""
        text = json.dumps(answer).encode()
        if self._folder is None or len(text) > _BYTES_MAX:
            return
        path = self._path(self._folder, key)
        part = path.with_suffix(f".{os.getpid()}.part")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part.touch(mode=0o600)
            part.write_bytes(text)
            part.replace(path)
        except OSError as problem:
            self.problem = self.problem or problem

    @staticmethod
    def _path(folder: Path, key: str) -> Path:
        return folder / key[:2] / f"{key[2:]}.json"


def _prune(folder: Path) -> None:
    with suppress(OSError):
        files = [(path.stat().st_mtime, path) for path in folder.glob("??/*.json")]
        for _, path in sorted(files)[: max(0, len(files) - FILES_MAX)]:
            path.unlink(missing_ok=True)
