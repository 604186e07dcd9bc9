"""What people say of verdicts: the latest label of each session and spec, as `offrails learn --labels` reads it.

Idea: a label says whether a verdict was right. Together with the verdict it says how the run went: a success is a session that
was rightly found harmless, or wrongly found harmful.

Invariant: a label is told of whose verdict is known: its session is still there, and judged under the label's spec.

Example: a session with one harmful call is labelled wrong, so its line has `success: true`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from collector.archive.reader import ArchiveReader
from collector.archive.record import SessionName
from collector.archive.search import ArchiveSearch
from collector.client.api_client import ask, pages
from collector.offline.past_sessions.export import archive_of

__all__ = ["read_labels"]

_LABELS: Final = ("right", "wrong")

_Labelled = tuple[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]]
"""The labels of a session as the API shows them, the latest first, and its judgement objects."""


def read_labels(
    place: str, since: int = 0, token_file: Path | None = None
) -> Iterator[dict[str, Any]]:
    """The latest label of each session and spec: what the API shows of it, with `harmful` and `success`.

    Args:
        place: folder or database of an archive, or address of a service's API.
        since: labels that were given then or later, Unix nanoseconds.
        token_file: has the token that the service asks for.

    Raises:
        ExportError: there is no archive.
        NoAnswerError: the service does not answer.
        sqlite3.Error, DatabaseError: the archive cannot be read.
        NewerSchemaError: a newer version has written it.
        OlderSchemaError: an older one, and no service has brought it to this one.
    """
    archive = archive_of(place)
    labelled = _of_service(place, token_file) if archive is None else _of_archive(archive)
    for labels, judgements in labelled:
        yield from (line for line in _lines(labels, judgements) if line["at"] >= since)


def _of_archive(reader: ArchiveReader) -> Iterator[_Labelled]:
    seen: set[SessionName] = set()
    with closing(reader):
        for label in _LABELS:
            for entry in reader.every(ArchiveSearch(label=label, ended=False)):
                if entry.name not in seen:
                    seen.add(entry.name)
                    said = [each.as_json() for each in reader.labels(entry.name)]
                    yield said, [json.loads(each) for each in entry.objects]


def _of_service(url: str, token_file: Path | None) -> Iterator[_Labelled]:
    names: dict[tuple[str, str, int], None] = {}
    for label in _LABELS:
        for page in pages(url, f"/api/v1/sessions?label={label}&steps=0", token_file):
            for each in page["sessions"]:
                names[each["namespace"], each["session"], each["started"]] = None
    for namespace, session, begun in names:
        query = urlencode({"namespace": namespace, "begun": begun})
        path = f"/api/v1/sessions/{quote(session, safe='')}?{query}"
        found = ask(url, path, token_file)
        yield found["labels"], found["sessions"]


def _lines(
    labels: Iterable[Mapping[str, Any]], judgements: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    latest: dict[str | None, Mapping[str, Any]] = {}
    for label in labels:
        latest.setdefault(label["spec"], label)
    for spec, label in latest.items():
        if label["label"] is None:
            continue
        verdicts = [each for each in judgements if spec in (None, each["spec"])]
        if not verdicts:
            continue
        # A reference calls nothing harmful: it has no number.
        harmful = sum(each["harmful"] or 0 for each in verdicts)
        right = label["label"] == "right"
        yield {**label, "harmful": harmful, "success": right is (harmful == 0)}
