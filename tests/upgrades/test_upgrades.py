"""What earlier versions have left on the disk is read by this one: their sessions go on, and nothing is called damaged."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from collector.app.service import App
from collector.net.watched_files import UnusableFileError
from collector.state import segment, segment_reading
from collector.state.records import RecordKind
from collector.telemetry.logs import captured
from monitor.limits import SECOND
from monitor.spec.compiler.compile import compile_text
from tests.collector.state.life import Life
from tests.upgrades.make import FIELDS, FOLDERS, SPEC, request_of

KIND = re.compile(r'"[a-z \']+"( had other fields|: )')
"""How a kind of records is refused."""
NAMES = sorted(path.name for path in FOLDERS.iterdir())
EVENTS = {
    "journal_damaged",
    "journal_torn",
    "journal_of_newer_version",
    "journal_record_failed",
}


def life_after(name: str, folder: Path, later_ns: int = SECOND) -> tuple[Life, dict[str, Any]]:
    """A service on a copy of a folder, so long after it was stopped, and what was known then."""
    shutil.copytree(FOLDERS / name, folder)
    about: dict[str, Any] = json.loads((folder / "about.json").read_text())
    spec, findings = compile_text(SPEC, "specs/shop.yaml")
    assert spec is not None, findings
    life = Life(folder, [spec], now=about["stopped_ns"] + later_ns, history="complete")
    return life, about["sessions"]


def judged(app: App) -> dict[str, dict[str, Any]]:
    """What is compared of each session."""
    return {
        each["session"]: {name: each[name] for name in FIELDS}
        for each in app.monitor.judgements()
    }


async def send(life: Life, session: str, *tools: str) -> None:
    body = request_of(session, tools, life.clock.now)
    # Other ids than those of its first calls.
    body = body.replace(b'"spanId": "00', b'"spanId": "10').replace(
        b'"traceId": "00', b'"traceId": "10'
    )
    await life.app.export.ingest("traces", body, "json", "http_json", None)


def test_there_are_enough() -> None:
    """Three earlier versions at least have a folder here; each release adds one."""
    assert len(NAMES) >= 3


@pytest.mark.parametrize("name", NAMES)
def test_its_sessions_go_on(name: str, tmp_path: Path) -> None:
    """Every session is what the earlier version said of it; the right next call is right, and counters go on."""

    async def run() -> None:
        life, known = life_after(name, tmp_path / "state")
        with captured() as told:
            await life.start()
        assert not EVENTS & {each["event"] for each in told}
        assert judged(life.app) == known
        await send(life, "goes-on", "pay")
        assert judged(life.app)["goes-on"]["harmful"] == known["goes-on"]["harmful"] == 0
        assert life.app.stats.spans["http_json", "accepted"] == 1 + sum(
            each["calls"] for each in known.values()
        )

    asyncio.run(run())


@pytest.mark.parametrize("name", NAMES)
def test_it_is_read_once_more(name: str, tmp_path: Path) -> None:
    """After this version has gone on with it, and is killed, the next start finds all of it."""

    async def run() -> None:
        life, known = life_after(name, tmp_path / "state")
        await life.start()
        life.pass_to(life.clock.now + 2 * SECOND)
        life.snapshot()
        await life.restart()
        assert judged(life.app) == known

    asyncio.run(run())


@pytest.mark.parametrize("name", NAMES)
def test_after_a_long_pause_no_harm_is_false(name: str, tmp_path: Path) -> None:
    """A session whose first calls may have been made in an upgrade of five minutes does no harm for certain."""

    async def run() -> None:
        life, known = life_after(name, tmp_path / "state", 300 * SECOND)
        await life.start()
        assert judged(life.app) == known
        await send(life, "seen-late", "pay")
        assert judged(life.app)["seen-late"]["harmful"] == 0

    asyncio.run(run())


@pytest.mark.parametrize("name", NAMES)
def test_its_snapshot_is_used_or_refused_by_name(name: str, tmp_path: Path) -> None:
    """One of format 4 is used, or the log names the kind of records that is another one by now; of an earlier one, its format."""
    formats = [format_of(path) for path in (FOLDERS / name).glob("snapshot-*")]

    async def run() -> tuple[list[str], bool]:
        life, _ = life_after(name, tmp_path / "state")
        with captured() as told:
            await life.start()
        [is_used] = [each["snapshot"] for each in told if each["event"] == "state_recovered"]
        return [
            each["reason"] for each in told if each["event"] == "snapshot_not_used"
        ], is_used

    reasons, is_used = asyncio.run(run())
    assert len(reasons) + is_used == len(formats)
    for each, reason in zip(formats, reasons, strict=False):
        old = f"of format {each}, of an earlier version"
        assert old in reason if each < 4 else KIND.match(reason)


# --- the way back --------------------------------------------------------------------------------


def format_of(path: Path) -> int:
    return int.from_bytes(path.read_bytes()[8:10], "little")


def test_a_new_kind_of_record_is_a_new_format() -> None:
    """Each format says which kinds of records it has; the one that is written has all that this program knows."""
    last = [each.last_kind for each in segment.FORMATS.values()]
    assert last == sorted(last)
    assert segment.FORMATS[segment.VERSION].last_kind == max(RecordKind)


@pytest.mark.skipif(not segment.__file__.endswith(".py"), reason="compiled constants stay")
@pytest.mark.parametrize("known", [(1,), (1, 2)])
def test_an_older_program_refuses_a_newer_folder_by_name(
    known: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that knows earlier formats alone says which file is of which format and what to do, and changes nothing."""

    async def run() -> None:
        spec, _ = compile_text(SPEC, "specs/shop.yaml")
        assert spec is not None
        life = Life(tmp_path / "state", [spec])
        await life.start()
        await send(life, "new", "look_up")
        assert life.app.state is not None
        life.app.state.journal.keep_operated(life.clock.now, "end", "new", "")
        life.kill()
        before = {path.name: path.read_bytes() for path in (tmp_path / "state").iterdir()}
        assert {format_of(path) for path in (tmp_path / "state").glob("journal-*")} == {3}
        formats = {n: segment.FORMATS[n] for n in known}
        for module in (segment, segment_reading):
            monkeypatch.setattr(module, "VERSION", max(known))
            monkeypatch.setattr(module, "FORMATS", formats)
        why = r"journal-0000000001\.log: .*of format 3.*newer version of offrails"
        with pytest.raises(UnusableFileError, match=why):
            Life(tmp_path / "state", [spec]).begin()
        assert {p.name: p.read_bytes() for p in (tmp_path / "state").iterdir()} == before

    asyncio.run(run())
