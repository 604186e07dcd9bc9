"""The archive."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from collector.config.field_types import Duration, File, Whole
from collector.config.section import SettingsSection

__all__ = ["ArchiveSettings"]

DAY: int = 24 * 3_600


def _database(url: SecretStr) -> SecretStr:
    text = url.get_secret_value()
    if text and not text.startswith(("postgresql://", "postgres://")):
        raise ValueError("expected an address as in postgresql://user@host:5432/name")
    return url


class ArchiveSettings(SettingsSection):
    """Sessions of the last days, in a SQLite file or a PostgreSQL database, behind the API's own paths (docs/past-sessions.md)."""

    dir: Annotated[
        File | None,
        Field(
            description="Folder of the archive, of this process alone. If empty, a session is gone from the API half an hour after it has ended."
        ),
    ] = None
    url: Annotated[
        SecretStr,
        AfterValidator(_database),
        Field(
            description="Address of a PostgreSQL database that several monitors share as their archive, such as `postgresql://offrails@db:5432/offrails`, in place of `archive.dir` (`pip install 'offrails[postgresql]'`). A password in it is not shown; `PGPASSFILE` works, too."
        ),
    ] = SecretStr("")
    keep: Annotated[
        Duration,
        Field(
            gt=0,
            description="How long sessions are kept after their last call: seconds, or a text as in `7d`, `12h` or `30m`.",
        ),
    ] = float(7 * DAY)
    keep_harmful: Annotated[
        Duration,
        Field(
            gt=0,
            description="The same of sessions with a harmful call. Possible harm is not harmful.",
        ),
    ] = float(30 * DAY)
    sessions_max: Annotated[
        Whole,
        Field(
            ge=1,
            description="Sessions that are kept. Beyond it, those without a harmful call go first, the oldest of them first.",
        ),
    ] = 10_000_000
    bytes_max: Annotated[
        Whole,
        Field(
            ge=1 << 20,
            description="Bytes of the archive. Beyond it, sessions go as they do beyond `archive.sessions_max`. All its files together may be 8 MiB larger, and for a minute more.",
        ),
    ] = 1 << 30

    @property
    def is_on(self) -> bool:
        """True if sessions are kept."""
        return self.dir is not None or bool(self.url.get_secret_value())

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if self.dir is not None and self.url.get_secret_value():
            raise ValueError("expected one of dir and url, not both")
        return self
