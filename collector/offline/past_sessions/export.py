"""Past sessions for other programs: the archive, or a running service, as JSON lines, CSV or Parquet.

Idea: a row is a judgement, or a call of one. Columns are the plain fields of the judgement object by their names there, so
that a table says what the API says. JSON lines of judgements are the objects themselves.

Invariant: no cell of a CSV file begins a formula: a text that a spreadsheet would run has an apostrophe before it.

Example: `offrails export --from /var/lib/offrails/archive --since 7d --format csv --steps` prints a line for each call of the
last seven days.
"""

from __future__ import annotations

import csv
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

from collector.archive.reader import ArchiveReader
from collector.archive.search import ArchiveSearch
from collector.archive.store import FILE
from collector.client.api_client import pages
from collector.client.verb_error import VerbError
from collector.config.duration import seconds_of
from collector.telemetry.json_text import as_json

__all__ = [
    "FORMATS",
    "STEP_COLUMNS",
    "ExportError",
    "archive_of",
    "columns",
    "is_address",
    "is_database",
    "place_told",
    "read_sessions",
    "rows",
    "since_ns",
    "write_csv",
    "write_jsonl",
    "write_parquet",
]

FORMATS: Final = ("jsonl", "csv", "parquet")
PAGE: Final = 200
"""Sessions that are asked for at once."""
LUMP: Final = 10_000
"""Rows of one group of a Parquet file."""

_SESSION_COLUMNS: Final[Mapping[str, str]] = {
    "session": "text",
    "namespace": "text",
    "agent": "text",
    "spec": "text",
    "spec_version": "text",
    "spec_kind": "text",
    "mode": "text",
    "turn": "text",
    "started": "whole",
    "last": "whole",
    "ended": "text",
    "joined": "switch",
    "exact": "switch",
    "calls": "whole",
    "substantive": "whole",
    "harmful": "whole",
    "harm_rate": "number",
    "prefix_crit": "number",
    "pc": "number",
    "pc_ktc": "number",
    "pc_hlr": "number",
    "efficiency": "number",
    "risk": "number",
    "accepting": "switch",
    "can_finish": "switch",
    "state": "text",
    "services": "text",
    "source": "text",
    "session_from": "text",
    "late_calls": "whole",
    "steps_folded": "whole",
    "missed": "text",
    "unsatisfied": "text",
}
"""Types of the columns of a judgement. Lists and objects are JSON."""

STEP_COLUMNS: Final[Mapping[str, str]] = {
    "session": "text",
    "namespace": "text",
    "agent": "text",
    "spec": "text",
    "spec_version": "text",
    "started": "whole",
    "index": "whole",
    "tool": "text",
    "arguments": "text",
    "symbol": "text",
    "kind": "text",
    "reason": "text",
    "constraint": "text",
    "detail": "text",
    "possible": "switch",
    "state": "text",
    "skipped": "text",
    "allowed": "text",
    "error": "switch",
    "evidence": "text",
    "final": "switch",
    "risk": "number",
    "call_id": "text",
    "trace_id": "text",
    "span_id": "text",
    "start_ns": "whole",
    "end_ns": "whole",
}
"""Types of the columns of a call."""

_NS_MAX: Final = (1 << 63) - 1
"""What an archive can be asked for: the year 2262."""
_DATABASE: Final = ("postgresql://", "postgres://")
"""How the address of a database begins."""
_ABOUT: Final = ("session", "namespace", "agent", "spec", "spec_version", "started")
"""Columns of a call that are of its session."""
_FORMULA: Final = re.compile(
    r"[\t\r\n]|[\s\x00-\x1f\x7f\u200b-\u200f\u2060\ufeff]*[=+\-@\uff1d\uff0b\uff0d\uff20]"
)
"""What begins a formula, in full width, too, and behind what some spreadsheets leave out."""


class ExportError(VerbError):
    """What was asked for cannot be exported; the message says why."""


def columns(*, steps: bool) -> Mapping[str, str]:
    """The columns of a table, with the type of each: text, whole, number or switch."""
    return STEP_COLUMNS if steps else _SESSION_COLUMNS


def since_ns(text: str) -> int:
    """A time as Unix nanoseconds: an age as in 7d or 12h, or a date of ISO 8601 (UTC if it says no zone).

    Raises:
        ExportError: it is neither.
    """
    with suppress(ValueError, OverflowError):
        age = seconds_of(text)
        if age is not None:
            return max(0, time.time_ns() - int(age * 1e9))
        at = datetime.fromisoformat(text.strip())
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return min(max(0, int(at.timestamp()) * 1_000_000_000), _NS_MAX)
    raise ExportError(
        f"--since {text}: expected an age as in 7d or 12h, or a date as in 2026-11-20"
    )


def read_sessions(
    place: str, since: int = 0, token_file: Path | None = None
) -> Iterator[dict[str, Any]]:
    """Judgement objects, the most recently active session first.

    Args:
        place: folder or database of an archive, or address of a service's API.
        since: sessions whose last call ended then or later, Unix nanoseconds.
        token_file: has the token that the service asks for.

    Raises:
        ExportError: there is no archive.
        NoAnswerError: the service does not answer.
        sqlite3.Error, DatabaseError: the archive cannot be read.
        NewerSchemaError: a newer version has written it.
        OlderSchemaError: an older one, and no service has brought it to this one.
    """
    archive = archive_of(place)
    if archive is None:
        yield from _of_service(place, since, token_file)
        return
    with closing(archive):
        for entry in archive.every(ArchiveSearch(since=since, ended=False)):
            yield from (json.loads(each) for each in entry.objects)


def archive_of(place: str) -> ArchiveReader | None:
    """The archive of a folder or a database; None if the place is meant as the address of a service.

    Raises:
        ExportError: there is no archive in the folder, or it is none of these, or the extra is not installed.
    """
    if is_database(place):
        return _database(place)
    folder = Path(place)
    if not folder.is_dir():
        if is_address(place):
            return None
        raise ExportError(f"{place}: expected a folder with an archive, or an address")
    if not (folder / FILE).exists():
        raise ExportError(f"{place}: no archive there (no {FILE})")
    return ArchiveReader(folder)


def _database(url: str) -> ArchiveReader:
    try:
        from collector.archive.postgresql import PostgresReader, checked
    except ImportError as problem:
        why = "PostgreSQL needs psycopg: pip install 'offrails[postgresql]'"
        raise ExportError(why) from problem
    try:
        checked(url)
    except ValueError as problem:
        raise ExportError(f"{_DATABASE[0]}: {problem}") from None
    return PostgresReader(url)


def is_database(place: str) -> bool:
    """Whether a place is the address of a database."""
    return place.startswith(_DATABASE)


def place_told(place: str) -> str:
    """A place as messages name it: of a database without what is secret."""
    if not is_database(place):
        return place
    from collector.archive.postgresql import shown

    return shown(place)


def is_address(place: str) -> bool:
    """Whether a place is meant as the address of a service, not as a folder."""
    return "://" in place or re.fullmatch(r"[^/]*:[0-9]+", place) is not None


def _of_service(url: str, since: int, token_file: Path | None) -> Iterator[dict[str, Any]]:
    for found in pages(url, f"/api/v1/sessions?limit={PAGE}&since={since}", token_file):
        if "archive_error" in found:
            raise ExportError(f"{url}: {found['archive_error']}")
        yield from found["sessions"]


def rows(judgements: Iterable[Mapping[str, Any]], *, steps: bool) -> Iterator[dict[str, Any]]:
    """The rows of a table: a judgement each, or with `steps` a call each."""
    names = columns(steps=steps)
    for judgement in judgements:
        # A call has a state and maybe a risk of its own: the session's are others.
        about = {name: judgement.get(name) for name in _ABOUT} if steps else {}
        for found in judgement["steps"] if steps else (judgement,):
            whole = {**about, **found}
            yield {name: _cell(whole.get(name), type_) for name, type_ in names.items()}


def _cell(value: Any, type_: str) -> Any:
    if type_ == "text" and value is not None and not isinstance(value, str):
        return as_json(value).decode()
    return value


def write_jsonl(judgements: Iterable[Mapping[str, Any]], out: IO[bytes], *, steps: bool) -> int:
    """Writes judgement objects as they are, or the rows of calls; returns how many."""
    count = 0
    for found in rows(judgements, steps=True) if steps else judgements:
        out.write(as_json(found) + b"\n")
        count += 1
    return count


def write_csv(judgements: Iterable[Mapping[str, Any]], out: IO[str], *, steps: bool) -> int:
    """Writes a table with a head; returns the rows below it."""
    names = list(columns(steps=steps))
    writer = csv.DictWriter(out, names, lineterminator="\n")
    quoted = csv.DictWriter(out, names, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writeheader()
    count = 0
    for row in rows(judgements, steps=steps):
        cells = {name: _harmless(value) for name, value in row.items()}
        # For a spreadsheet a carriage return without quotes ends the row, and what is behind it begins a cell.
        has_return = any("\r" in each for each in cells.values() if isinstance(each, str))
        (quoted if has_return else writer).writerow(cells)
        count += 1
    return count


def _harmless(value: Any) -> Any:
    """A value as a cell that no spreadsheet runs, in one line of text that is Unicode."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return value
    text = value.encode(errors="replace").decode()
    return f"'{text}" if _FORMULA.match(text) else text


def write_parquet(judgements: Iterable[Mapping[str, Any]], file: Path, *, steps: bool) -> int:
    """Writes a table to a file; returns the rows.

    Raises:
        ExportError: pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as problem:
        raise ExportError("Parquet needs pyarrow: pip install 'offrails[parquet]'") from problem
    types = {
        "text": pyarrow.string(),
        "whole": pyarrow.int64(),
        "number": pyarrow.float64(),
        "switch": pyarrow.bool_(),
    }
    schema = pyarrow.schema([(name, types[t]) for name, t in columns(steps=steps).items()])
    found, count = rows(judgements, steps=steps), 0
    with parquet.ParquetWriter(file, schema) as writer:
        while lump := list(islice(found, LUMP)):
            plain = [{name: _unicode(value) for name, value in row.items()} for row in lump]
            writer.write_table(pyarrow.Table.from_pylist(plain, schema=schema))
            count += len(lump)
    return count


def _unicode(value: Any) -> Any:
    return value.encode(errors="replace").decode() if isinstance(value, str) else value
