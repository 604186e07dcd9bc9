"""Specs as the texts of their files, which outlive the process; compiled again, they are the specs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Final

from collector.state.records import SpecsRecord
from monitor.spec.acceptance import day_of
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec

__all__ = ["compiled", "specs_record"]

SPECS_BYTES_MAX: Final = 8 << 20
"""Texts of specs that are written; larger ones are named by their digest alone."""


def specs_record(specs: Sequence[Spec], kept: Mapping[str, bytes] | None = None) -> SpecsRecord:
    """The specs with the texts of their files, as far as these are still the ones that were compiled.

    Args:
        specs: compiled, sound.
        kept: texts by file, for files that hold other ones by now.
    """
    digest = blake2b(digest_size=16)
    texts: list[tuple[str, bytes]] | None = []
    size = 0
    for spec in specs:
        digest.update(f"{spec.file}\0{spec.sha256_8}\0{spec.version}\0".encode())
        text = _text(spec, kept or {})
        size += len(text or b"")
        if text is None or size > SPECS_BYTES_MAX:
            texts = None
        elif texts is not None:
            texts.append((spec.file, text))
    return SpecsRecord(digest.digest(), texts)


def _text(spec: Spec, kept: Mapping[str, bytes]) -> bytes | None:
    """The text that a spec was compiled from; None if neither the file nor `kept` has it any more."""
    try:
        text = Path(spec.file).read_bytes()
    except (OSError, ValueError):
        text = b""
    for each in (text, kept.get(spec.file, b"")):
        if sha256(each).hexdigest().startswith(spec.sha256_8):
            return each
    return None


def compiled(texts: Sequence[tuple[str, bytes]], now: int) -> list[Spec] | None:
    """The specs in some texts; None if one cannot be compiled any more."""
    found = []
    for file, text in texts:
        spec, _ = compile_text(text.decode("utf-8", "replace"), file, day_of(now))
        if spec is None:
            return None
        found.append(spec)
    return found
