"""Decisions whose calls are on their way, kept from one process to the next."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path
from typing import Final

from offrails_guard.own_folder import is_ours, own_folder

__all__ = ["FILES_MAX", "DecisionIdFiles"]

FILES_MAX: Final = 1024
"""Calls on their way, of all sessions of a user."""


class DecisionIdFiles:
    """Remembers the decision's id of a call from one process to the next: a small file each.

    Several calls may have one id; the newest is taken first (`DecisionIds`). Of two processes that take one, the one that
    removes the file has it.

    Without such a folder of its own it remembers nothing: spans confirm the calls then.

    Args:
        folder: only its user may read it; made where it is missing.
        scope: of what is remembered, such as the address of the service; another one has its own.
    """

    def __init__(self, folder: Path | None = None, scope: str = "") -> None:
        self._scope = scope
        self._folder = folder or Path(own_folder("offrails-hook"))

    def put(self, call: str, decision_id: str) -> None:
        """Remembers the decision of a call; "" is none."""
        if not decision_id:
            return
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._is_ours():
                return
            self._make_room()
            own = hashlib.sha256(decision_id.encode()).hexdigest()[:16]
            (self._folder / f"{self._name(call)}-{own}").write_text(decision_id)

    def take(self, call: str) -> str:
        """The decision's id, which is forgotten then; "" where there is none."""
        for file in self._files(call):
            with suppress(OSError):  # another process was faster
                found = file.read_text()
                file.unlink()
                return found
        return ""

    def has(self, call: str) -> bool:
        """True where something is remembered of a call, or of a session."""
        return bool(self._files(call))

    def is_first(self, what: str) -> bool:
        """True if nobody has asked for this before, as far as is remembered."""
        known = self.has(what)
        self.put(what, "1")
        return not known

    def _name(self, call: str) -> str:
        name = f"{self._scope} {call}".encode(errors="surrogatepass")
        return hashlib.sha256(name).hexdigest()[:32]

    def _files(self, call: str) -> list[Path]:
        """What is remembered of a call, the newest first."""
        with suppress(OSError):
            if self._is_ours():
                found = [
                    (each.stat().st_mtime_ns, each)
                    for each in self._folder.glob(f"{self._name(call)}-*")
                ]
                return [file for _, file in sorted(found, reverse=True)]
        return []

    def _is_ours(self) -> bool:
        return is_ours(str(self._folder))

    def _make_room(self) -> None:
        files = list(self._folder.iterdir())
        if len(files) >= FILES_MAX:
            oldest = sorted(files, key=lambda file: file.stat().st_mtime_ns)
            for file in oldest[: len(files) - FILES_MAX + 1]:
                file.unlink(missing_ok=True)
