"""Recordings of requests."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from collector.config.field_types import Expressions, File, Number, Whole
from collector.config.section import SettingsSection

__all__ = ["RecordSettings"]


class RecordSettings(SettingsSection):
    """Recordings of accepted trace requests, as OTLP/JSON lines for `learn` and `replay`."""

    folder: Annotated[
        File | None,
        Field(description="Folder of the recordings. If empty, nothing is recorded."),
    ] = None
    file_bytes: Annotated[
        Whole,
        Field(
            ge=1, description="A recording file is closed at this size, in uncompressed bytes."
        ),
    ] = 64 * 1024 * 1024
    age_seconds: Annotated[
        Number, Field(gt=0, description="A recording file is closed at this age.")
    ] = 3600.0
    total_bytes: Annotated[
        Whole,
        Field(
            ge=1,
            description="Bytes of all recording files. Beyond it, the oldest files are deleted.",
        ),
    ] = 1024 * 1024 * 1024
    redact: Annotated[
        Expressions,
        Field(
            description="RE2 expressions. Their matches in texts and numbers of recordings are replaced."
        ),
    ] = ()
