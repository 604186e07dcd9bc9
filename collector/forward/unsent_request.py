"""Requests in a journal that an earlier process has not sent to all of their next hops.

Idea: the files are read once for who has got what, and bodies are read afterwards, of those requests alone that go on.

Nothing here raises for what is in a file: what cannot be read is as if it were not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from collector.receive.request import Encoding, Signal
from collector.state.journal_files import found_in, read_file, read_record
from collector.state.records import (
    ConfirmationRecord,
    ForwardRecord,
    RecordKind,
    decoded,
    request_of,
)
from collector.state.segment import place_of
from collector.state.segment_reading import Record
from collector.telemetry.logs import log

__all__ = ["UnsentRequest", "bodies_of", "unsent_in"]

_Mark = tuple[bytes, str, str, str, float | None, bool]


class UnsentRequest(NamedTuple):
    """A request that next hops still have to get."""

    place: int
    at_ns: int
    """When it went on, Unix nanoseconds."""
    request: int
    """The place of its body; 0 if that stands at `place`."""
    hops: list[str]
    signal: Signal
    encoding: Encoding
    metadata: list[tuple[bytes, bytes]]
    marks: list[_Mark]


def unsent_in(folder: Path) -> list[UnsentRequest]:
    """What is not confirmed, the oldest first.

    Raises:
        OSError: the folder cannot be read.
    """
    found: dict[int, UnsentRequest] = {}
    for file in found_in(folder):
        if file.problem:
            continue
        try:
            for record in read_file(file.path):
                if isinstance(record, Record):
                    _take(found, place_of(file.number, record.offset), record)
        except OSError as problem:
            why = problem.strerror or str(problem)
            log.warning("journal_damaged", file=file.path.name, reason=why)
    return [found[place] for place in sorted(found)]


def _take(found: dict[int, UnsentRequest], place: int, record: Record) -> None:
    try:
        if record.kind == RecordKind.FORWARDED:
            has = decoded(record.payload, ForwardRecord)
            if has.signal in ("traces", "metrics", "logs"):
                found[place] = UnsentRequest(
                    place,
                    record.at_ns,
                    has.request,
                    has.hops,
                    has.signal,  # type: ignore[arg-type]
                    has.encoding,
                    has.metadata,
                    has.marks,
                )
        elif record.kind == RecordKind.CONFIRMED:
            confirmed = decoded(record.payload, ConfirmationRecord)
            for each in confirmed.places:
                _confirm(found, each, confirmed.hop)
    except ValueError:
        return  # of a version that writes it otherwise


def _confirm(found: dict[int, UnsentRequest], place: int, hop: str) -> None:
    unsent = found.get(place)
    if unsent is not None and hop in unsent.hops:
        unsent.hops.remove(hop)
        if not unsent.hops:
            del found[place]


def bodies_of(folder: Path, unsent: Sequence[UnsentRequest]) -> list[bytes | None]:
    """The body of each request; None if it is in no file any more."""
    return [_body_of(folder, each) for each in unsent]


def _body_of(folder: Path, unsent: UnsentRequest) -> bytes | None:
    try:
        record = read_record(folder, unsent.request or unsent.place)
        if record is None:
            return None
        if unsent.request:
            is_request = record.kind == RecordKind.REQUEST
            return request_of(record.payload).body if is_request else None
        is_forwarded = record.kind == RecordKind.FORWARDED
        return decoded(record.payload, ForwardRecord).body if is_forwarded else None
    except (OSError, ValueError):
        return None
