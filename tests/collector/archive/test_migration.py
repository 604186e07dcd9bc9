"""A file that an older version has written: `version_1.sql` is a dump of one, made by the code of that version."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from collector.archive.reader import ArchiveReader
from collector.archive.record import AGENT, HOUR_NS, SessionName
from collector.archive.schema import OlderSchemaError, migrate
from collector.archive.search import ArchiveSearch, SumsSearch
from collector.archive.store import FILE, ArchiveStore
from collector.archive.writer import FAILED_SECONDS, ArchiveWriter
from collector.cli.program import main
from collector.telemetry.logs import captured
from tests.collector.archive.sessions import made
from tests.collector.archive.test_store import ROOM, names
from tests.collector.archive.test_writer import new, wait

DUMP = Path(__file__).with_name("version_1.sql").read_text(encoding="utf-8")
GOOD = SessionName("Team/A", "Ärzte 1", 100 * HOUR_NS)
BAD = SessionName("", "bad", 124 * HOUR_NS)
LIVE = SessionName("", "live", 130 * HOUR_NS)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A folder with a file of version 1: a session without harm, one with harm under two specs, and a live one."""
    connection = sqlite3.connect(tmp_path / FILE)
    connection.executescript(DUMP)
    connection.close()
    return tmp_path


def test_sessions_and_labels_come_back(old: Path) -> None:
    """Each with its name, its state, its objects, its place in a list, and all that people said of it."""
    ArchiveStore(old).close()
    reader = ArchiveReader(old)
    found = [*reader.every(ArchiveSearch(sort="harm", ended=False))]
    assert [each.name for each in found] == [BAD, LIVE, GOOD]
    assert [len(each.objects) for each in found] == [2, 1, 1]
    [(_, [kept])] = reader.session("Ärzte 1", "Team/A")
    assert b'"text": "good"' in kept
    assert reader.live() == [LIVE]
    assert reader.of_id(bytes(range(16))) == [GOOD]
    said = [(each.label, each.spec, each.note, each.who) for each in reader.labels(BAD)]
    assert said == [("right", "rules", "", "ben"), ("wrong", None, "nöte", "ana")]
    assert reader.labelled("right") == [BAD]
    counts = reader.label_counts(SumsSearch(0, 1), since=0)
    assert counts == {"farm": (0, 1), "rules": (1, 0)}


@pytest.mark.parametrize(
    ("search", "found"),
    [
        (ArchiveSearch(text="ärzte"), [GOOD]),
        (ArchiveSearch(text="mäher"), [BAD]),
        (ArchiveSearch(text="öffn"), [GOOD]),
        (ArchiveSearch(text="out of order"), [BAD]),
        (ArchiveSearch(tool="öffnen"), [GOOD]),
        (ArchiveSearch(tool="öffnen", harmful=True), [BAD]),
        (ArchiveSearch(tool="water", reason="forbidden", severity="info"), [BAD]),
        (ArchiveSearch(agent="Mäher", spec="rules", mode="page"), [BAD]),
        (ArchiveSearch(service_version="1.0", namespaces=("Team",)), [GOOD]),
        (ArchiveSearch(label="wrong"), [BAD]),
        (ArchiveSearch(label="right", namespaces=("Team",)), []),
        (ArchiveSearch(unjudged=True, ended=False), [LIVE]),
    ],
)
def test_filters_find_them(old: Path, search: ArchiveSearch, found: list[SessionName]) -> None:
    """By all that they are asked for, in any case and any script."""
    ArchiveStore(old).close()
    assert [each.name for each in ArchiveReader(old).every(search)] == found
    assert ArchiveReader(old).page(search, 0).matching.names == found


def test_the_sums_are_theirs(old: Path) -> None:
    """Calls count in the hour in which they began, the rest in that of the last; an agent's as its busiest spec's."""
    ArchiveStore(old).close()
    reader, every = ArchiveReader(old), SumsSearch(0, 1_000)
    of = {(g.kind, g.agent, hour): figures for hour, g, figures in reader.sums(every)}
    assert [(of[AGENT, "rover", hour].calls, of[AGENT, "rover", hour].sessions) for hour in (100, 101, 130)] == [
        (2, 0), (1, 1), (3, 1),
    ]  # fmt: skip
    assert (of["", "rover", 130].not_judged, of["", "rover", 130].scored) == (3, 0)
    task, policy, agent = (of[kind, "Mäher", 124] for kind in ("task", "policy", AGENT))
    assert [(each.calls, each.harmful, each.harmed) for each in (task, policy, agent)] == [
        (3, 2, 1), (4, 1, 1), (4, 2, 1),
    ]  # fmt: skip
    assert (task.scored, policy.scored, agent.scored) == (1, 0, 1)
    assert agent.harm_rate == task.harm_rate == pytest.approx(2 / 3)
    harms = Counter({(g.kind, what, name): n for g, what, name, n in reader.harm_sums(every)})
    assert harms[AGENT, "severity", "critical"] == harms["task", "tool", "Öffnen"] == 1
    assert harms["policy", "reason", "forbidden"] == 1
    assert harms["policy", "reason", "repeated"] == 0
    days = SumsSearch(96, 144, 24)
    assert sum(each.calls for _, g, each in reader.sums(days) if g.kind == AGENT) == 10


def test_it_goes_on(old: Path) -> None:
    """A live session of the old file ends: its row is replaced, and so are its sums."""
    store = ArchiveStore(old)
    store.write([made("live", begun=LIVE.begun, last=LIVE.begun + 20, harmful=1)])
    assert ArchiveReader(old).live() == []
    sums = ArchiveReader(old).sums(SumsSearch(130, 131))
    assert {(g.kind, each.sessions) for _, g, each in sums if each.sessions} == {
        ("task", 1), (AGENT, 1),
    }  # fmt: skip
    store.prune(ROOM._replace(sessions_max=1), 0)
    assert len(names(old)) == 1


def test_until_then_a_question_says_so(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody brings a file to this version that only reads it; live sessions are known all the same."""
    with pytest.raises(OlderSchemaError):
        ArchiveReader(old).page(ArchiveSearch(), 9)
    assert ArchiveReader(old).live() == [LIVE]
    assert main(["export", "--from", str(old)]) == 1
    assert "version 1; a service with this archive.dir brings it" in capsys.readouterr().err


def test_a_service_does_not_wait_for_it(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file may take minutes, and a probe of the start waits for less: what comes meanwhile is written behind it."""
    may = threading.Event()

    def slow(connection: sqlite3.Connection) -> None:
        assert may.wait(30)
        migrate(connection)

    monkeypatch.setattr("collector.archive.store.migrate", slow)
    writer: ArchiveWriter = new(old)
    with captured() as lines:
        writer.start()
    assert [line["event"] for line in lines] == ["archive_migrating", "archive"]
    writer.settle([])
    assert writer.put(made("new"))
    assert len(writer) == 2
    may.set()
    wait(lambda: writer.written == 1)
    writer.stop(30)
    assert {*names(old)} == {"bad", "live", "Ärzte 1", "new"}
    assert ArchiveReader(old).live() == []
    assert not sum(writer.dropped.values())


def test_a_file_that_cannot_be_brought_is_not_tried_with_every_batch(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read and written whole each time: it is tried again a minute later, and what comes meanwhile is counted."""
    tries: list[int] = []

    def refuse(connection: sqlite3.Connection) -> None:
        tries.append(1)
        raise sqlite3.OperationalError("refused")

    monkeypatch.setattr("collector.archive.store.migrate", refuse)
    writer: ArchiveWriter = new(old)
    with captured() as lines:
        writer.start()
        for number in range(3):
            writer.put(made(f"s{number}"))
            wait(lambda: len(writer) == 0)
        assert (len(tries), writer.dropped["error"]) == (1, 3)
        assert [line["event"] for line in lines].count("archive_failing") == 1
    monkeypatch.undo()
    steady = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: steady() + FAILED_SECONDS)
    writer.put(made("new"))
    wait(lambda: writer.written == 1)
    writer.stop(30)
    assert "new" in names(old)
