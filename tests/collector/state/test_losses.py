"""What a journal has lost is told, and is doubt about the sessions around it: never harm."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from collector.net.watched_files import UnusableFileError
from collector.state.records import RecordKind
from collector.state.segment import HEADERS_BYTES, new_header, number_of, numbered, segments
from collector.telemetry.logs import captured
from monitor.limits import SECOND
from tests.collector.state.life import Life
from tests.collector.state.test_restart import HOUR_NS, ROVER, Rover, skip, spec_of


def life_in(folder: Path, **state: object) -> Life:
    return Life(folder, [spec_of(ROVER)], state={"snapshot_seconds": 0, **state})


async def run_once(life: Life) -> Rover:
    """A session of the first call, long after the start, so that it is seen whole."""
    await life.start()
    skip(life, HOUR_NS)
    rover = Rover(life)
    await rover.call("s", "unlock")
    return rover


async def is_in_doubt(rover: Rover) -> bool:
    """True if a new session that skips its first step may have begun before: its harm is not certain."""
    await rover.call("new", "move")
    return bool(rover.judgement("new")["harmful"] == 0)


def spoil_record(folder: Path, text: bytes) -> None:
    """A byte of the record that holds a text is not what it was."""
    [path] = [path for _, path in segments(folder) if text in path.read_bytes()]
    raw = bytearray(path.read_bytes())
    raw[raw.index(text)] ^= 1
    path.write_bytes(raw)


def test_a_damaged_record_is_doubt_about_the_sessions_around_it(tmp_path: Path) -> None:
    """A call behind a damaged record is not harmful, and its session does not say that it is whole."""

    async def run() -> None:
        life = life_in(tmp_path)
        rover = await run_once(life)
        await rover.call("s", "move")
        spoil_record(tmp_path, b"unlock")
        with captured() as told:
            await life.restart(0)
        assert "journal_damaged" in [each["event"] for each in told]
        assert rover.judgement("s")["harmful"] == 0
        assert await is_in_doubt(rover)
        assert life.app.state is not None
        assert life.app.state.journal.gaps["damage"] == 1

    asyncio.run(run())


def test_a_file_that_is_missing_is_told(tmp_path: Path) -> None:
    """Where a file between others is gone, the log names it, and sessions around it are in doubt."""

    async def run() -> None:
        life = life_in(tmp_path)
        rover = await run_once(life)
        assert life.app.state is not None
        journal = life.app.state.journal
        journal.renew()
        await rover.call("t", "unlock")
        gone = numbered(tmp_path, number_of(journal.end))
        journal.renew()
        await rover.call("u", "unlock")
        gone.unlink()
        with captured() as told:
            await life.restart(0)
        [line] = [each for each in told if each["event"] == "journal_damaged"]
        assert line["file"] == gone.name
        assert "missing" in line["reason"]
        assert await is_in_doubt(rover)

    asyncio.run(run())


def test_a_fifo_in_the_folder_keeps_nobody_waiting(tmp_path: Path) -> None:
    """What is no file is named, and not opened: reading a fifo would never end."""

    async def run() -> None:
        life = life_in(tmp_path)
        await run_once(life)
        life.kill()
        os.mkfifo(numbered(tmp_path, 5_000))
        fifo = tmp_path / f"snapshot-{9:020d}"
        os.mkfifo(fifo)
        os.mkfifo(tmp_path / "attempts")
        with captured() as told:
            await life.start()
        reasons = {each["file"]: each["reason"] for each in told if "file" in each}
        assert reasons[numbered(tmp_path, 5_000).name] == "it is not a file"
        assert reasons[fifo.name] == "it is not a file"

    asyncio.run(run())


def test_what_is_none_of_the_journal_is_told(tmp_path: Path) -> None:
    """Files of any other name are named once at a start, what is no file as a warning; files of ours are not, nor folders."""

    async def run() -> None:
        life = life_in(tmp_path)
        await run_once(life)
        life.kill()
        for name in ("archive.lock", ".hidden", "last-good-specs", "alerts.jsonl"):
            (tmp_path / name).write_bytes(b"")
        (tmp_path / "lost+found").mkdir()
        with captured() as told:
            await life.start()
        [line] = [each for each in told if each["event"] == "journal_other_files"]
        assert (line["level"], line["files"]) == ("info", ["alerts.jsonl"])
        life.kill()
        os.mkfifo(tmp_path / "journal-odd.log")
        (tmp_path / "leads").symlink_to("nowhere")
        with captured() as told:
            await life.start()
        [line] = [each for each in told if each["event"] == "journal_other_files"]
        assert line["level"] == "warning"
        assert line["files"] == [
            "alerts.jsonl",
            "journal-odd.log (a fifo)",
            "leads (a link that leads nowhere)",
        ]

    asyncio.run(run())


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _newer_file(folder: Path) -> None:
    header = new_header(9, 1)._replace(version=99)
    numbered(folder, 9).write_bytes(header.pack() + b"whatever")


def test_a_newer_folder_is_refused_by_name_and_stays_as_it_is(tmp_path: Path) -> None:
    """However often an older program is started, it says what is newer and what to do, and changes nothing."""

    async def run() -> None:
        life = life_in(tmp_path)
        await run_once(life)
        life.kill()
        _newer_file(tmp_path)
        before = contents(tmp_path)
        for _ in range(8):
            with pytest.raises(
                UnusableFileError, match=r"of format 99.*newer version of offrails"
            ):
                life.begin()
        assert contents(tmp_path) == before

    asyncio.run(run())


def test_a_record_of_a_newer_version_is_named_so(tmp_path: Path) -> None:
    """A kind of record that this program does not know is passed over, told as newer, and is doubt."""

    async def run() -> None:
        life = life_in(tmp_path)
        rover = await run_once(life)
        assert life.app.state is not None
        journal = life.app.state.journal
        assert journal.file is not None
        journal.file.append(max(RecordKind) + 40, life.clock.now, (b"?",))
        await rover.call("u", "unlock")
        with captured() as told:
            await life.restart(0)
        events = [each["event"] for each in told]
        assert "journal_of_newer_version" in events
        assert "journal_damaged" not in events
        assert await is_in_doubt(rover)

    asyncio.run(run())


def test_a_killed_process_leaves_no_doubt(tmp_path: Path) -> None:
    """A torn record at the end of a file was never acknowledged: nothing is missing."""

    async def run() -> None:
        life = life_in(tmp_path)
        rover = await run_once(life)
        life.kill()
        (_, newest) = segments(tmp_path)[-1]
        with newest.open("ab") as file:
            file.write(newest.read_bytes()[HEADERS_BYTES : HEADERS_BYTES + 20])
        await life.start()
        assert not await is_in_doubt(rover)

    asyncio.run(run())


@pytest.mark.parametrize("bridged", [0, 10])
def test_senders_are_trusted_only_if_somebody_says_so(bridged: int, tmp_path: Path) -> None:
    """After a second without the service calls may be missing, unless all senders are known to try again."""

    async def run() -> None:
        life = life_in(tmp_path, bridged_seconds=bridged)
        rover = await run_once(life)
        await life.restart(SECOND)
        assert await is_in_doubt(rover) == (bridged == 0)

    asyncio.run(run())


def _delete_all(folder: Path) -> None:
    for _, path in segments(folder):
        path.unlink()


def _delete_folder(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


@pytest.mark.parametrize("delete", [_delete_all, _delete_folder])
def test_deleted_files_are_told_and_begun_anew(
    delete: Callable[[Path], None], tmp_path: Path
) -> None:
    """Within seconds the log names what somebody has deleted, and what comes then is in a file that is there."""

    async def run() -> None:
        life = life_in(tmp_path)
        rover = await run_once(life)
        delete(tmp_path)
        with captured() as told:
            life.pass_to(life.clock.now + 6 * SECOND)
        assert [each["event"] for each in told].count("journal_files_deleted") == 1
        await rover.call("t", "unlock")
        await life.restart(0)
        assert rover.judgement("t")["calls"] == 1

    asyncio.run(run())
