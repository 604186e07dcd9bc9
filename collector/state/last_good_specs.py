"""The last specs that compiled, kept in a file for a start whose specs are refused.

Idea: a reload that is refused leaves the specs in use as they are, all of them. With this file a restart does the same:
what was in use before is in use again, though its files hold something else by now.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Final

import msgspec

from collector.state.records import decoded, encoded
from collector.state.spec_texts import SPECS_BYTES_MAX, compiled, specs_record
from monitor.spec.spec import Spec

__all__ = ["CompiledSpecs", "LastGoodSpecs"]

_FILE: Final = "last-good-specs"
_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_BYTES_MAX: Final = 2 * SPECS_BYTES_MAX


class _Kept(msgspec.Struct):
    """What the file holds."""

    at_ns: int
    texts: list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class CompiledSpecs:
    """Specs that compiled, and when they did, Unix nanoseconds."""

    specs: tuple[Spec, ...]
    texts: Mapping[str, bytes]
    """Texts of the specs by file."""
    at_ns: int


class LastGoodSpecs:
    """A folder in which the last specs that compiled are kept, of this process alone.

    Args:
        folder: made when it is first written to.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / _FILE

    def keep(self, specs: Sequence[Spec], now: int) -> None:
        """Writes them in place of what was kept; whoever reads finds the one or the other.

        Raises:
            OSError: they cannot be written.
            ValueError: their files hold other texts by now, or they have more than 8 MiB.
        """
        texts = specs_record(specs).texts
        if texts is None:
            raise ValueError(
                f"their files have changed, or have more than {SPECS_BYTES_MAX:,} bytes"
            )
        folder = self.file.parent
        folder.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
        beside = folder / f".{_FILE}.{os.getpid()}"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            with os.fdopen(os.open(beside, flags, _FILE_MODE), "wb") as stream:
                stream.write(encoded(_Kept(now, texts)))
                stream.flush()
                os.fsync(stream.fileno())
            beside.replace(self.file)
        except OSError:
            beside.unlink(missing_ok=True)
            raise

    def find(self, now: int) -> CompiledSpecs | None:
        """What is kept, compiled as of now; None if nothing is.

        Raises:
            OSError: it cannot be read.
            ValueError: it is damaged, or one of the specs cannot be compiled any more.
        """
        try:
            if not S_ISREG(self.file.stat().st_mode):  # a fifo would be waited for, for ever
                raise ValueError("it is not a file")
            with self.file.open("rb") as stream:
                raw = stream.read(_BYTES_MAX + 1)
        except FileNotFoundError:
            return None
        if len(raw) > _BYTES_MAX:
            raise ValueError(f"more than {_BYTES_MAX:,} bytes")
        kept = decoded(raw, _Kept)
        specs = compiled(kept.texts, now)
        if specs is None:
            raise ValueError("a spec in it cannot be compiled any more")
        return CompiledSpecs(tuple(specs), dict(kept.texts), kept.at_ns)
