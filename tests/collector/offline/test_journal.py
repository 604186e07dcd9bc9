"""`offrails journal`: what is in a journal, and whether it is whole."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from collector.cli.main import main
from collector.receive.request import Request
from collector.state.journal import Journal, JournalRules
from collector.state.records import RecordKind
from collector.state.segment import new_header
from collector.state.snapshot import SnapshotManifest, save
from monitor.plain_records.blocks import Block, BlockKind
from tests.collector.app.test_service import body
from tests.collector.state.life import START, Clock
from tests.upgrades.make import FOLDERS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A journal with two requests, whose process was killed."""
    journal = Journal(tmp_path, JournalRules(), Clock())
    journal.open()
    journal.begin()
    journal.append(RecordKind.TICK, START)
    for number, tool in enumerate(("unlock_safety", "move")):
        journal.keep(START + number, Request("traces", body(tool), "json", "http_json"))
    journal.release()
    return tmp_path


def _file(folder: Path) -> Path:
    (file,) = folder.glob("journal-*.log")
    return file


def _file_of(folder: Path, number: int) -> Path:
    return folder / f"journal-{number:010}.log"


def test_inspect_lists_files_and_records(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each file has its size, its times and its records by kind."""
    assert main(["journal", "inspect", str(folder)]) == 0
    told = capsys.readouterr().out
    size = _file(folder).stat().st_size
    assert f"journal-0000000001.log  {size:,} bytes  2023-11-14T22:13:20.000Z to" in told
    assert "  2 request, 1 tick\n" in told

    assert main(["journal", "inspect", "--json", str(folder)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["records"] == {"request": 2, "tick": 1}
    assert found["damages"] == []


def test_inspect_lists_what_is_none_of_the_journal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fifo with a name of its own is named, and not opened."""
    os.mkfifo(folder / "odd")
    assert main(["journal", "inspect", str(folder)]) == 0
    assert "odd (a fifo)  not of the journal\n" in capsys.readouterr().out
    assert main(["journal", "inspect", "--json", str(folder)]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {
        "name": "odd",
        "odd": "a fifo",
    }


def test_verify_tells_a_torn_end_from_damage(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A torn end is whole; a flipped bit is damage, with its file and place, and exit code 1."""
    file = _file(folder)
    data = file.read_bytes()
    file.write_bytes(data[:-1])
    assert main(["journal", "verify", str(folder)]) == 0
    assert "1 files, 2 records, 0 files damaged" in capsys.readouterr().out
    place = data.index(b"unlock_safety")
    file.write_bytes(data[:place] + b"U" + data[place + 1 :])
    assert main(["journal", "verify", str(folder)]) == 1
    told = capsys.readouterr().out
    assert "journal-0000000001.log" in told
    assert "damaged:" in told
    assert "1 files, 2 records, 1 files damaged" in told


def test_a_file_that_is_missing_between_others_is_damage(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named by both verbs; files before the first are old ones, and no damage."""
    for number in (3, 4):
        _file_of(folder, number).write_bytes(new_header(number, START).pack())
    assert main(["journal", "verify", str(folder)]) == 1
    told = capsys.readouterr().out
    assert "journal-0000000002.log" in told
    assert "it is missing" in told
    assert "4 files, 3 records, 1 files damaged" in told
    assert main(["journal", "inspect", str(folder)]) == 0
    assert "it is missing" in capsys.readouterr().out

    _file_of(folder, 1).unlink()
    assert main(["journal", "verify", str(folder)]) == 0


@pytest.mark.parametrize("name", ["dde434b", "0adfa84", "1c55949"])
def test_files_of_earlier_versions_are_not_damaged(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A journal of format 1 is read, and a snapshot of an earlier format is named so: nothing is damaged."""
    folder = FOLDERS / name
    assert main(["journal", "verify", str(folder)]) == 0
    told = capsys.readouterr().out
    assert ", 0 files damaged" in told
    assert ("1 of another version" in told) == any(folder.glob("snapshot-*"))


def test_a_file_of_a_newer_version_is_not_damaged(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is named with its format, and not read."""
    (folder / "journal-0000000002.log").write_bytes(
        new_header(2, START)._replace(version=9).pack()
    )
    assert main(["journal", "verify", str(folder)]) == 0
    told = capsys.readouterr().out
    assert "it is of format 9" in told
    assert "0 files damaged, 1 of another version" in told


def test_export_gives_lines_that_replay_reads(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The requests come out as OTLP/JSON, one a line, in order."""
    assert main(["journal", "export", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [
        json.loads(body(tool)) for tool in ("unlock_safety", "move")
    ]


def test_a_folder_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped folder ends with a message and the exit code of usage."""
    with pytest.raises(SystemExit) as ended:
        main(["journal", "inspect", "/nowhere/at/all"])
    assert ended.value.code == 2
    assert "/nowhere/at/all: no such folder" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["inspect", "verify", "export"])
def test_a_folder_without_a_journal_is_told(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So does a folder in which there is none."""
    with pytest.raises(SystemExit) as ended:
        main(["journal", verb, str(tmp_path)])
    assert ended.value.code == 2
    assert "no journal in this folder" in capsys.readouterr().err


def test_snapshots_are_listed_and_verified(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A snapshot has its time and its sessions; a damaged one is told, with exit code 1."""
    about = SnapshotManifest("1.0", 1 << 33, b"", START, b"", [], {}, 1_200)
    path = save(folder, about, [Block(BlockKind.INDEX, b"all of it")])
    assert main(["journal", "inspect", str(folder)]) == 0
    told = capsys.readouterr().out
    size = path.stat().st_size
    assert f"{path.name}  {size} bytes  2023-11-14T22:13:20.000Z, 1,200 sessions\n" in told
    assert main(["journal", "verify", str(folder)]) == 0
    assert "2 files, 3 records, 0 files damaged" in capsys.readouterr().out

    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert main(["journal", "verify", str(folder)]) == 1
    told = capsys.readouterr().out
    assert "not used: it is damaged at byte" in told
    assert "2 files, 3 records, 1 files damaged" in told
    assert main(["journal", "inspect", "--json", str(folder)]) == 0
    found = json.loads(capsys.readouterr().out.splitlines()[1])
    assert found["problem"].startswith("it is damaged")
    assert found["sessions"] == 1_200
