"""An archive in PostgreSQL: what holds of a file holds there, and several monitors share it."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from collector.app.derived_settings import owner_of
from collector.app.service import App
from collector.archive import writer as writer_module
from collector.archive.connection import DatabaseError
from collector.archive.postgresql import (
    FORGOTTEN_NS,
    SCHEMA,
    PostgresConnection,
    PostgresReader,
    PostgresStore,
    PostgresWriter,
    checked,
    shown,
)
from collector.archive.reader import ArchiveReader
from collector.archive.record import (
    ArchivedSession,
    ArchiveRecord,
    Label,
    ModelJudgement,
    SessionName,
)
from collector.archive.schema import VERSION, NewerSchemaError, OlderSchemaError
from collector.archive.search import MATCHING_MAX, ArchiveSearch, SumsSearch
from collector.archive.store import LOST, ArchiveStore
from collector.cli.program import main
from collector.config.settings.archive import ArchiveSettings
from collector.config.settings.receiver import ReceiverSettings
from collector.config.settings.sessions import SessionSettings
from collector.telemetry.json_text import as_json
from collector.telemetry.logs import captured
from tests.collector.app.test_archive import end, get, send, written
from tests.collector.app.test_service import Clock, http, running
from tests.collector.archive.postgres_server import missing, server
from tests.collector.archive.sessions import made
from tests.collector.archive.test_store import ROOM
from tests.collector.archive.test_writer import wait
from tests.collector.event_loop import until
from tests.samples import sampled

pytestmark = [
    pytest.mark.skipif(bool(missing()), reason=missing() or "it is there"),
    pytest.mark.xdist_group("postgresql"),
]


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    """A server."""
    with server() as url:
        yield url


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test opens is closed behind it."""
    opened: list[Any] = []
    connect = psycopg.connect

    def noted(*given: Any, **more: Any) -> Any:
        opened.append(connect(*given, **more))
        return opened[-1]

    monkeypatch.setattr(psycopg, "connect", noted)
    yield
    for each in opened:
        each.close()


@pytest.fixture
def url(database: str) -> str:
    """The same, without tables."""
    emptied(database)
    return database


def emptied(url: str) -> None:
    with contextlib.closing(PostgresConnection(url)) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


def stored(url: str, *records: ArchiveRecord, owner: str = "one") -> PostgresStore:
    store = PostgresStore(url, owner)
    store.write(records)
    return store


def names(url: str, search: ArchiveSearch | None = None) -> list[str]:
    found = PostgresReader(url).every(search or ArchiveSearch(ended=False))
    return [each.name.session for each in found]


TEXTS = ("a", "B", "Ärzte 1", "50%_x\\y", "nul\0l", "ab/c", "ab", "chat-17")
TRACE = bytes(range(16))


def drawn(chance: random.Random) -> ArchivedSession:
    """Some session."""
    one_of = chance.choice
    return made(
        one_of(TEXTS),
        begun=chance.randint(1, 60),
        last=chance.randint(60, 90),
        namespace=one_of(("", "team", "team/a", "teamx")),
        ended=one_of(("idle", None)),
        harmful=chance.randint(0, 2),
        agent=one_of(("rover", "Mäher")),
        trace=one_of((b"", TRACE)),
        service_version=one_of(("", "1")),
        things=one_of(((), (("order", "A1"),), (("order", "B 7"), ("order", "A1")))),
    )


SEARCHES = [
    ArchiveSearch(ended=False),
    *(
        ArchiveSearch(sort=each, ended=False)
        for each in ("harm", "prefix_crit", "severity", "risk")
    ),
    *(
        ArchiveSearch(text=each, ended=False)
        for each in ("rzte", "%_x", "ove", "repeated", "1", "a")
    ),
    ArchiveSearch(harmful=True, ended=False),
    ArchiveSearch(tool="wat", reason="repeated", severity="critical"),
    ArchiveSearch(agent="Mäher", namespaces=("team",)),
    ArchiveSearch(thing="A1", ended=False),
    ArchiveSearch(thing="order B 7"),
    ArchiveSearch(ids=(TRACE,), since=70, until=50),
    ArchiveSearch(until=30, ended=False),
    ArchiveSearch(since=70, until=50),
    ArchiveSearch(label="wrong", ended=False),
    ArchiveSearch(unjudged=True),
    ArchiveSearch(service_version="1", spec="farm", mode="page"),
]


def answers(reader: ArchiveReader) -> list[Any]:
    """What a reader says to each question, texts without a NUL."""

    def plain(name: SessionName) -> SessionName:
        return name._replace(session=name.session.replace("\0", "\ufffd"))

    found: list[Any] = []
    for search in SEARCHES:
        rows = reader.page(search, 3).sessions
        found.append([(plain(each.name), each.key, each.objects) for each in rows])
        if rows:
            after = rows[-1].key, rows[-1].name
            behind = reader.page(search, 50, after, steps=True).sessions
            found.append([(plain(each.name), each.objects) for each in behind])
        found.append(sorted(map(plain, reader.page(search, 0).matching.names)))
    for sums in (SumsSearch(0, 1), SumsSearch(0, 24, 24, namespaces=("team",))):
        found.append(sorted(reader.sums(sums)))
        found.append(sorted(reader.harm_sums(sums)))
        found.append(reader.label_counts(sums, since=0))
    for name in sorted(reader.page(SEARCHES[0], 0).matching.names, key=plain):
        labels = [each._replace(name=plain(name)) for each in reader.labels(name)]
        found.append((labels, reader.judged(name)))
    found += [reader.of_id(TRACE)[:1], sorted(map(plain, reader.live()))]
    found += [sorted(map(plain, reader.labelled("wrong"))), reader.named("Ärzte 1", "team")]
    return found


@pytest.mark.parametrize(
    ("seed", "most"),
    sampled(
        [*((seed, MATCHING_MAX) for seed in (1, 2, 3)), (4, 0)], [(1, MATCHING_MAX), (4, 0)]
    ),
)
def test_every_question_has_the_answer_of_a_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, most: int
) -> None:
    """Whatever is written, and written anew: lists in any order and page, filters, figures, labels, what models say.

    Also where no set of sessions is small.
    """
    monkeypatch.setattr("collector.archive.reader.MATCHING_MAX", most)
    chance = random.Random(seed)
    with (
        contextlib.closing(ArchiveStore(tmp_path)) as file,
        contextlib.closing(PostgresStore(url, "one")) as shared,
    ):
        for number in range(40):
            session = drawn(chance)
            records: list[ArchiveRecord] = [session]
            label = chance.choice(("right", "wrong", ""))
            if label:
                records.append(Label(session.name, None, label, "nöte", "ana", 100 + number))
                records.append(ModelJudgement(session.name, "risk", "m", number, b'{"a": 1}'))
            for store in (file, shared):
                store.write(records)
    for one, two in zip(
        answers(PostgresReader(url)), answers(ArchiveReader(tmp_path)), strict=True
    ):
        assert one == two


def test_bounds_are_of_all_monitors_together(url: str) -> None:
    """Age, number and bytes: what one has written another one deletes, without harm first."""
    first = stored(url, made("old", touched=5), made("bad", harmful=1, touched=50))
    second = stored(url, made("new", touched=90), owner="two")
    assert second.prune(ROOM._replace(keep_ns=50), 100)["age"] == 1
    assert first.prune(ROOM._replace(sessions_max=1), 100)["sessions"] == 1
    assert names(url) == ["bad"]
    stored(url, *(made(f"s{number}", touched=number) for number in range(100)))
    gone = first.prune(ROOM._replace(bytes_max=50 * 2_200), 100)["bytes"]
    assert 40 <= gone <= 70
    assert names(url, ArchiveSearch(ended=False, harmful=True)) == ["bad"]
    assert first.file_bytes() > 0


def test_a_monitor_ends_its_own_live_rows_alone(url: str) -> None:
    """At the start of one, what lives by the other's rows still lives; what nobody touched for a day does not."""
    stored(url, made("mine", ended=None, touched=10), owner="one").close()
    stored(url, made("theirs", ended=None, touched=FORGOTTEN_NS), owner="two")
    store = stored(url)
    store.settle([])
    reader = PostgresReader(url)
    assert [each.session for each in reader.live()] == ["theirs"]
    assert names(url, ArchiveSearch()) == ["mine"]
    store.prune(ROOM, 2 * FORGOTTEN_NS + 1)
    assert reader.live() == []
    assert LOST == "unknown"


def test_monitors_that_write_at_once_add_up(url: str) -> None:
    """Four of them, each with sessions of its own under the same agents and tools: all are there, and so are their sums."""
    PostgresStore(url, "one").close()

    def write(owner: int) -> None:
        with contextlib.closing(PostgresStore(url, str(owner))) as store:
            for number in range(10):
                store.write(
                    made(f"{owner}-{number}-{each}", agent=f"a{(owner + each) % 3}", harmful=1)
                    for each in range(5)
                )

    threads = [threading.Thread(target=write, args=(owner,)) for owner in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reader = PostgresReader(url)
    assert len(reader.page(ArchiveSearch(), 0).matching.names) == 200
    total = [
        figures for _, group, figures in reader.sums(SumsSearch(0, 1)) if group.kind == "task"
    ]
    assert (sum(each.sessions for each in total), sum(each.calls for each in total)) == (
        200,
        600,
    )


def test_names_are_deleted_when_nobody_writes(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name without a row, which one monitor is about to give one, is there when another looks for such names."""
    first, second = stored(url, made("old", touched=1)), PostgresStore(url, "two")
    assert first.prune(ROOM._replace(keep_ns=50), 100)["age"] == 1
    monkeypatch.setattr("collector.archive.pruning.SWEPT_EVERY", 1)
    swept: list[dict[str, int]] = []
    sweep = threading.Thread(target=lambda: swept.append(second.prune(ROOM, 100)))

    def records() -> Iterator[ArchiveRecord]:
        yield made("new", touched=90)
        sweep.start()
        wait(lambda: is_waiting(url))

    first.write(records())
    sweep.join()
    assert len(swept) == 1
    assert names(url) == ["new"]


def is_waiting(url: str) -> bool:
    """True if a connection waits for a lock."""
    with contextlib.closing(PostgresConnection(url)) as connection:
        (found,) = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        ).fetchone()
        return bool(found)


def test_a_server_that_goes_and_comes_back(url: str) -> None:
    """A connection that is cut is made anew by writer and reader, and nothing is lost or twice there."""
    writer, reader = PostgresWriter(url, ROOM, lambda: 100, "one"), PostgresReader(url)
    writer.start()
    writer.put(made("first"))
    wait(lambda: writer.written == 1)
    assert len(reader.page(ArchiveSearch(), 0).matching.names) == 1
    cut(url)
    writer.put(made("second"))
    wait(lambda: writer.written == 2)
    with contextlib.suppress(DatabaseError):
        reader.page(ArchiveSearch(), 0)
    assert sorted(names(url)) == ["first", "second"]
    assert len(reader.page(ArchiveSearch(), 0).matching.names) == 2
    writer.stop(30)
    assert sum(writer.dropped.values()) == 0


def cut(url: str) -> None:
    """Ends all other connections of the database."""
    with contextlib.closing(PostgresConnection(url)) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchall()


def test_a_server_that_is_not_there_holds_up_nobody() -> None:
    """The service starts, and what cannot be written is counted; the log has no password."""
    url = "postgresql://monitor:geheim@127.0.0.1:1/history"
    writer = PostgresWriter(url, ROOM, lambda: 100, "one")
    with captured() as lines:
        writer.start()
        writer.put(made())
        writer.stop(30)
    assert writer.dropped["unreachable"] == 1
    assert any(line.get("reason") == "unreachable" for line in lines)
    assert "geheim" not in str(lines)
    with pytest.raises(DatabaseError):
        PostgresReader(url).live()


def test_a_start_without_a_server_ends_its_earlier_rows_later(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it is there, what lived by the rows of an earlier process has ended, and what came since lives."""
    stored(url, made("before", ended=None, touched=10)).close()
    away = iter((True, True))

    def opened(*given: str) -> ArchiveStore:
        if next(away, False):
            raise DatabaseError("unreachable", "it is away")
        return PostgresStore(*given)

    monkeypatch.setattr("collector.archive.postgresql.PostgresStore", opened)
    monkeypatch.setattr(writer_module, "RETRY_SECONDS", 0.01)
    writer = PostgresWriter(url, ROOM, lambda: 100, "one")
    writer.start()
    writer.settle([])
    writer.put(made("now", ended=None, touched=20))
    wait(lambda: writer.written == 1)
    writer.stop(30)
    assert [each.session for each in PostgresReader(url).live()] == ["now"]


def test_a_server_that_does_not_answer_holds_up_no_start() -> None:
    """The service is ready, and answers, while whoever listens there has said nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]

        async def check(app: App, _clock: Clock) -> None:
            assert (await http(app.addresses["admin"], "GET", "/-/ready"))[0] == 200
            silent.close()

        url = SecretStr(f"postgresql://monitor@127.0.0.1:{port}/history?connect_timeout=50")
        running(check, archive=ArchiveSettings(url=url))


def test_tables_of_another_version(url: str) -> None:
    """Newer ones are left alone, by the writer and by the reader; until there are any, a question says so."""
    with pytest.raises(OlderSchemaError, match=r"archive\.url"):
        PostgresReader(url).page(ArchiveSearch(), 0)
    stored(url, made())
    with contextlib.closing(PostgresConnection(url)) as connection:
        connection.execute(f"UPDATE {SCHEMA}.version SET version = ?", (VERSION + 1,))
    with pytest.raises(NewerSchemaError):
        PostgresReader(url).page(ArchiveSearch(), 0)
    with pytest.raises(NewerSchemaError):
        PostgresStore(url, "one")


def test_an_address_is_looked_at_without_being_told() -> None:
    """What is wrong with it is said without it; the log names host and database alone."""
    checked("postgresql://a:geheim@db:5432/x")
    for wrong in ("postgresql://a:geheim@[db/x", "postgresql:///x"):
        with pytest.raises(ValueError, match="expected an address") as found:
            checked(wrong)
        assert "geheim" not in str(found.value)
    assert shown("postgresql://a:geheim@db:5432/x?sslmode=require") == "postgresql://db:5432/x"


def test_two_monitors_of_one_host_keep_their_live_rows(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start of one ends no session that lives by the other's rows; the other's own next start does."""
    first, second = (
        ReceiverSettings(http=f"unix:{tmp_path / name}", grpc="off") for name in "ab"
    )
    stored(url, made("left", ended=None), owner=owner_of(first)).close()

    settle, starts = PostgresStore.settle, list[PostgresStore]()

    def noted(store: PostgresStore, alive: Iterable[tuple[str, str]]) -> None:
        settle(store, alive)
        starts.append(store)

    monkeypatch.setattr(PostgresStore, "settle", noted)

    async def settled(app: App, clock: Clock) -> None:
        starts.clear()
        await until(lambda: len(starts) == 1)

    archive = ArchiveSettings(url=SecretStr(url))
    running(settled, archive=archive, receiver=second)
    assert [each.session for each in PostgresReader(url).live()] == ["left"]
    running(settled, archive=archive, receiver=first)
    assert PostgresReader(url).live() == []


def test_two_monitors_of_one_name_and_addresses(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As containers with one host name have: neither ends or replaces what lives by the other's rows, also after connections were cut.

    Whoever starts once the first has gone ends what the first has left.
    """
    monkeypatch.setattr("collector.archive.postgresql.OWNER_TRIES", 2)
    first = PostgresWriter(url, ROOM, lambda: 100, "host [::]:4318")
    first.start()
    first.put(made("chat", begun=6, last=8, ended=None, touched=10))
    first.put(made("of-one", ended=None, touched=10))
    wait(lambda: first.written == 2)
    second = PostgresWriter(url, ROOM, lambda: 100, "host [::]:4318")
    with captured() as lines:
        second.start()
        second.settle([])
        second.put(made("chat", begun=5, last=9, ended=None, touched=11))
        wait(lambda: second.written == 1)
    assert [line["owner"] for line in lines if line["event"] == "archive_owner"] == [
        "host [::]:4318 #2"
    ]
    reader = PostgresReader(url)
    live = [("chat", 5), ("chat", 6), ("of-one", 5)]
    assert sorted((each.session, each.begun) for each in reader.live()) == live
    cut(url)
    for name, writer in (("second", second), ("first", first)):
        writer.put(made(f"later-{name}", touched=12))
    wait(lambda: (first.written, second.written) == (3, 2))
    assert sorted((each.session, each.begun) for each in PostgresReader(url).live()) == live
    first.put(made("chat", begun=6, last=20, touched=20))
    wait(lambda: first.written == 4)
    assert [each.begun for each in PostgresReader(url).live() if each.session == "chat"] == [5]
    first.stop(30)
    third = PostgresWriter(url, ROOM, lambda: 100, "host [::]:4318")
    third.start()
    third.settle([])
    wait(lambda: not len(third))
    assert [each.session for each in PostgresReader(url).live()] == ["chat"]
    for writer in (second, third):
        writer.stop(30)


def test_export_reads_a_database(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has the lines and the labels of a file with the same records; what is wrong is told without a password."""
    whole = as_json({"spec": "farm", "harmful": 1, "steps": [{"tool": "=ä"}]})
    records = [made(f"s{n}", begun=n, object=whole) for n in range(1, 4)]
    label = Label(SessionName("", "s2", 2), None, "right", "=1", "me", 7)
    stored(url, *records, label)
    with contextlib.closing(ArchiveStore(tmp_path)) as store:
        store.write([*records, label])
    for more in ([], ["--labels"], ["--since", "1970-01-02"], ["--steps"]):
        told = []
        for place in (url, url.replace("postgresql:", "postgres:"), str(tmp_path)):
            assert main(["export", "--from", place, *more]) == 0
            told.append(capsys.readouterr())
        assert told[0] == told[1] == told[2]
    emptied(url)
    for address, why in (
        (url.replace("monitor@", "monitor:geheim@"), "a service with this archive.url"),
        ("postgresql://a:geheim@127.0.0.1:1/x?password=geheim", "cannot be read"),
        ("postgresql://a:geheim@[x/y", "expected an address"),
    ):
        assert main(["export", "--from", address]) == 1
        error = capsys.readouterr().err
        assert why in error
        assert "geheim" not in error


def test_two_services_share_it(url: str) -> None:
    """What one has judged the other shows when it has ended; and what somebody says of it there is kept."""

    async def first(app: App, clock: Clock) -> None:
        await send(app, "water")
        await written(app, 1)
        await end(app, clock)

    async def second(app: App, clock: Clock) -> None:
        found = await get(app, "/api/v1/sessions/s")
        assert found["sessions"][0]["harmful"] == 1
        path, text = "/api/v1/sessions/s/label", b'{"label": "right"}'
        assert app.archive is not None
        writer = app.archive.writer
        done = writer.done
        assert (await http(app.addresses["admin"], "POST", path, text))[0] == 200
        await until(lambda: writer.done > done)
        assert (await get(app, "/api/v1/sessions?steps=0&label=right"))["matching"] == 1
        everything = await get(app, "/api/v1/overview?since=0&until=7200000000000")
        assert everything["total"]["harmed_sessions"] == 1

    more = {
        "archive": ArchiveSettings(url=SecretStr(url)),
        "sessions": SessionSettings(idle_seconds=1, remember_seconds=1),
    }
    running(first, **more)
    running(second, **more)


def test_tables_of_an_older_version_are_brought_to_this_one(url: str) -> None:
    """Those of version 4 have no index of long sessions, or of kinds of harm: the next start makes them, and what is there stays."""
    stored(url, made("old"))
    with contextlib.closing(PostgresConnection(url)) as connection:
        for statement in (
            f"DROP INDEX {SCHEMA}.sessions_long, {SCHEMA}.harms_kind",
            f"UPDATE {SCHEMA}.version SET version = 4",
        ):
            connection.execute(statement)
    with pytest.raises(OlderSchemaError):
        PostgresReader(url).page(ArchiveSearch(), 9)
    stored(url, made("new"))
    assert sorted(names(url)) == ["new", "old"]
    with contextlib.closing(PostgresConnection(url)) as connection:
        there = connection.execute(
            f"SELECT to_regclass('{SCHEMA}.sessions_long') IS NOT NULL"
            f" AND to_regclass('{SCHEMA}.harms_kind') IS NOT NULL"
        ).fetchone()
    assert there == (True,)
