"""`offrails export`: what the archive or a service has, as tables for other programs."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import pytest

from collector.archive import search
from collector.archive.reader import ArchiveReader
from collector.archive.record import ArchivedSession, Label, SessionName
from collector.archive.store import ArchiveStore
from collector.cli.program import main
from collector.offline.past_sessions import export
from collector.offline.past_sessions.export import (
    ExportError,
    columns,
    read_sessions,
    rows,
    since_ns,
)
from collector.offline.past_sessions.frame import TIMES, sessions_frame
from collector.offline.past_sessions.labels import read_labels
from collector.telemetry.json_text import as_json
from monitor.engine import Monitor
from monitor.limits import Limits
from tests.collector.api.test_session_list import SPECS, play
from tests.collector.archive.sessions import made

HOSTILE = (
    "a\r=1",
    "=cmd|' /C calc'!A0",
    "+1",
    "-1",
    "@x",
    "\t=1",
    "\uff1d1",
    'a,b\n"c"',
    "\ud800x",
    "\x00=1",
    "\ufeff=1",
    " \u200b@x",
    "plain",
)


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Sessions of hostile tools, with a judgement object of the monitor each."""
    from monitor.spec.read import load_specs

    monitor = Monitor(load_specs([SPECS]).specs, Limits(history_complete=True))
    for number, tool in enumerate(HOSTILE, 1):
        play(monitor, f"s{number}", ("unlock_safety", tool), number)
    store = ArchiveStore(tmp_path / "archive")
    store.write(
        made(
            found["session"], begun=found["started"], last=found["last"], object=as_json(found)
        )
        for found in monitor.judgements()
    )
    store.close()
    return tmp_path / "archive"


def test_lines_are_the_apis_objects(archive: Path, tmp_path: Path) -> None:
    """Without `--steps` a line is the judgement object as it was written."""
    out = tmp_path / "out.jsonl"
    assert main(["export", "--from", str(archive), "--out", str(out)]) == 0
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(lines) == len(HOSTILE)
    for line in lines:
        [(_, [kept])] = ArchiveReader(archive).session(line["session"])
        assert json.loads(kept) == line


@pytest.mark.parametrize("steps", [False, True])
def test_no_cell_begins_a_formula(archive: Path, tmp_path: Path, steps: bool) -> None:
    """Whatever tools are named: a spreadsheet runs none of it, and every row has all columns."""
    out = tmp_path / "out.csv"
    asked = ["export", "--from", str(archive), "--format", "csv", "--out", str(out)]
    assert main([*asked, *(["--steps"] if steps else [])]) == 0
    found = list(csv.reader(io.StringIO(out.read_bytes().decode(), newline="")))
    assert found[0] == list(columns(steps=steps))
    assert len(found) == 1 + len(HOSTILE) * (2 if steps else 1)
    assert all(len(row) == len(found[0]) for row in found)
    assert not [
        cell
        for row in found
        for cell in row
        if cell.strip(" \x00\u200b\ufeff")[:1] in ("=", "+", "-", "@", "\t", "\uff1d")
    ]
    if steps:
        tools = {row[found[0].index("tool")] for row in found[1:]}
        assert {"'+1", "'-1", "plain", 'a,b\n"c"'} <= tools


def test_parquet_has_the_rows_of_csv(archive: Path, tmp_path: Path) -> None:
    """The same rows with types: whole numbers, numbers and switches stay what they are."""
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "out.parquet"
    asked = ["export", "--from", str(archive), "--format", "parquet", "--steps"]
    assert main(asked) == 2
    assert main([*asked, "--out", str(out)]) == 0
    table = parquet.read_table(out).to_pylist()
    assert len(table) == 2 * len(HOSTILE)
    assert list(table[0]) == list(columns(steps=True))
    assert {type(row["start_ns"]) for row in table} == {int}
    assert {row["kind"] for row in table} == {"progress", "harmful"}


def test_since_leaves_out_what_is_older(archive: Path, tmp_path: Path) -> None:
    """A session without a call since then is left out."""
    out = tmp_path / "out.jsonl"
    asked = ["export", "--from", str(archive), "--out", str(out)]
    for late in ("7d", "9999-12-31"):
        assert main([*asked, "--since", late]) == 0
        assert out.read_text() == ""
    assert main([*asked, "--since", "1970-01-01"]) == 0
    assert len(out.read_text().splitlines()) == len(HOSTILE)


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
def test_a_file_that_cannot_be_written_is_told(
    archive: Path, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line names the file and the reason, and the exit code is that of usage."""
    out = tmp_path / "no_folder" / "out"
    with pytest.raises(SystemExit) as ended:
        main(["export", "--from", str(archive), "--format", form, "--out", str(out)])

    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(f"offrails: {out}: ")
    assert "No such file or directory" in told


@pytest.mark.parametrize("text", ["7x", "yesterday", "", "-7d", "99999-01-01", "9" * 400 + "d"])
def test_a_wrong_time_is_told(text: str) -> None:
    """A sentence says what is expected."""
    with pytest.raises(ExportError, match="expected an age"):
        since_ns(text)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("/nowhere", "expected a folder"),
        (".", "no archive there"),
        ("127.0.0.1:1", "127.0.0.1:1"),
    ],
)
def test_what_cannot_be_read_is_told(
    place: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, and a line that names the place."""
    place = str(tmp_path) if place == "." else place
    assert main(["export", "--from", place]) == 1
    assert told in capsys.readouterr().err


def test_labels_are_of_known_verdicts(tmp_path: Path) -> None:
    """Of a session that has gone, or under a spec that did not judge it, nobody knows what was found: no line says so."""

    def judged(session: str, begun: int, **verdicts: int | None) -> ArchivedSession:
        [sample] = made(session, begun=begun).judgements
        objects = [{"spec": spec, "harmful": harmful} for spec, harmful in verdicts.items()]
        return made(session, begun=begun)._replace(
            judgements=tuple(sample._replace(object=as_json(each)) for each in objects)
        )

    def said(session: str, begun: int, spec: str | None, label: str | None) -> Label:
        return Label(SessionName("", session, begun), spec, label, "", "me", 1)

    store = ArchiveStore(tmp_path)
    store.write(
        [
            judged("bad", 5, farm=2, rules=0, usual=None),
            judged("usual", 6, usual=None),
            said("bad", 5, None, "wrong"),
            said("bad", 5, "rules", "right"),
            said("bad", 5, "usual", "right"),
            said("bad", 5, "other", "right"),
            said("bad", 5, "farm", "right"),
            said("bad", 5, "farm", None),
            said("usual", 6, None, "right"),
            said("gone", 1, None, "wrong"),
        ]
    )
    store.close()
    found = {
        (line["session"], line["spec"]): (line["label"], line["harmful"], line["success"])
        for line in read_labels(str(tmp_path))
    }
    assert found == {
        ("bad", None): ("wrong", 2, True),
        ("bad", "rules"): ("right", 0, True),
        ("bad", "usual"): ("right", 0, True),
        ("usual", None): ("right", 0, True),
    }


def test_labels_of_many_sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many sessions are labelled: each is told once, page by page."""
    monkeypatch.setattr(export, "PAGE", 3)
    monkeypatch.setattr(search, "MATCHING_MAX", 4)
    whole = as_json({"spec": "farm", "harmful": 0})
    sessions = [made(f"s{number}", begun=number, object=whole) for number in range(1, 21)]
    store = ArchiveStore(tmp_path)
    store.write(sessions)
    store.write(Label(each.name, None, "right", "", "me", 1) for each in sessions)
    store.write(Label(each.name, "farm", "wrong", "", "me", 1) for each in sessions[:5])
    store.close()
    found = Counter((line["session"], line["label"]) for line in read_labels(str(tmp_path)))
    assert {*found.values()} == {1}
    assert len(found) == 25


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("steps", [False, True])
def test_a_frame_has_what_a_table_has(
    archive: Path, library: Literal["pandas", "polars"], steps: bool
) -> None:
    """Rows, columns and values are those of the export; times are times, and what is not defined is missing."""
    pytest.importorskip(library)
    frame = sessions_frame(archive, steps=steps, library=library)
    expected = list(rows(read_sessions(str(archive)), steps=steps))
    assert list(frame.columns) == list(columns(steps=steps))
    assert len(frame) == len(expected)
    for name, type_ in columns(steps=steps).items():
        found = _values(frame[name])
        if name in TIMES:
            wanted = [row[name] and row[name] // 1_000 * 1_000 for row in expected]
        else:
            wanted = [row[name] for row in expected]
        assert found == wanted, (name, type_)


def _values(column: Any) -> list[Any]:
    """The values of a column of either library; None for what is missing, times in whole microseconds."""
    if hasattr(column, "notna"):
        column = column.astype(object).where(column.notna(), None)
    values = column.tolist() if hasattr(column, "tolist") else column.to_list()
    return [
        round(each.timestamp() * 1e6) * 1_000 if isinstance(each, datetime) else each
        for each in values
    ]


def test_a_frame_of_nothing_has_its_columns(tmp_path: Path) -> None:
    """An archive without sessions gives an empty frame with the types of a full one."""
    pytest.importorskip("pandas")
    ArchiveStore(tmp_path / "archive").close()
    frame = sessions_frame(tmp_path / "archive")
    assert len(frame) == 0
    assert list(frame.columns) == list(columns(steps=False))
    assert frame["harm_rate"].dtype == "Float64"
