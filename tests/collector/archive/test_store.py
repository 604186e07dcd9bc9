"""The archive's file: one row a session, bounds, and what a reader finds."""

from __future__ import annotations

import random
import sqlite3
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

from collector.archive import reader as reader_module
from collector.archive.pruning import ORPHAN_NS, ArchiveBounds
from collector.archive.reader import ArchiveReader
from collector.archive.record import ArchivedSession, Label, ModelJudgement, SessionName
from collector.archive.schema import LONG_NS, MIGRATIONS, VERSION, NewerSchemaError
from collector.archive.search import MATCHING_MAX, ArchiveSearch, SumsSearch
from collector.archive.store import (
    FILE,
    LOST,
    ArchiveStore,
    file_bytes,
)
from tests.collector.archive.sessions import made
from tests.samples import sampled

FOREVER = 1 << 62
ROOM = ArchiveBounds(FOREVER, FOREVER, 1_000_000, 1 << 40)


def names(folder: Path, search: ArchiveSearch | None = None) -> list[str]:
    found = ArchiveReader(folder).every(search or ArchiveSearch(ended=False))
    return [each.name.session for each in found]


def stored(folder: Path, *sessions: ArchivedSession) -> ArchiveStore:
    store = ArchiveStore(folder)
    store.write(sessions)
    return store


def test_a_session_that_goes_on_after_its_end_replaces_its_row(tmp_path: Path) -> None:
    """A session is there once: at a harm, at its end, at its next end, and with an earlier first call."""
    store = stored(tmp_path, made(ended=None, text="harm"))
    for begun, last, text in ((5, 20, "end"), (5, 30, "next end"), (4, 40, "earlier call")):
        store.write([made(begun=begun, last=last, text=text)])
        [(name, objects)] = ArchiveReader(tmp_path).session("s")
        assert name == SessionName("", "s", begun)
        assert text in objects[0].decode()


def test_another_session_of_the_same_id_has_its_own_row(tmp_path: Path) -> None:
    """What begins later under an id that has ended is another session; the latest comes first."""
    stored(tmp_path, made(begun=5, last=20), made(begun=30, last=40))
    begun = [name.begun for name, _ in ArchiveReader(tmp_path).session("s")]
    assert begun == [30, 5]
    assert [n.begun for n, _ in ArchiveReader(tmp_path).session("s", begun=5)] == [5]


def test_what_is_written_again_while_all_are_read_is_read_as_it_is_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that was written again is given once, as it is now; another that has got its row is not given for it."""
    monkeypatch.setattr(reader_module, "LUMP", 1)
    store = stored(tmp_path, *[made(f"s{n}", last=20 + n, text=f"old {n}") for n in (1, 2, 3)])
    reading = ArchiveReader(tmp_path).every(ArchiveSearch(ended=False))
    found = [next(reading)]
    store.write([made("s1", last=21, text="new 1"), made("other", last=90, text="another")])
    found += reading
    told = [(each.name.session, each.objects[0].decode()) for each in found]
    assert [name for name, _ in told] == ["s3", "s2", "s1"]
    for (_, text), wanted in zip(told, ("old 3", "old 2", "new 1"), strict=True):
        assert wanted in text


def test_a_row_under_a_traces_id_goes_when_the_session_is_known(tmp_path: Path) -> None:
    """A session that was written at a harm under its trace's id is found under its own alone, and by the trace."""
    trace = bytes(range(16))
    store = stored(tmp_path, made(trace.hex(), ended=None, trace=trace))
    store.write([made("chat-1", trace=trace)])
    assert names(tmp_path) == ["chat-1"]
    assert ArchiveReader(tmp_path).of_id(trace) == [SessionName("", "chat-1", 5)]


def test_sessions_without_harm_go_first(tmp_path: Path) -> None:
    """Beyond a bound those without a harmful call go first, the oldest of them first; possible harm is no harm."""
    store = stored(
        tmp_path,
        made("harmful-old", begun=1, harmful=1),
        made("possible", begun=2, possible=1),
        made("harmless", begun=3),
        made("harmful-new", begun=4, harmful=1),
    )
    kept = []
    for count in (3, 2, 1):
        store.prune(ROOM._replace(sessions_max=count), 100)
        kept.append(set(names(tmp_path)))
    assert kept == [
        {"harmful-old", "harmless", "harmful-new"},
        {"harmful-old", "harmful-new"},
        {"harmful-new"},
    ]


def test_harmful_sessions_are_kept_longer(tmp_path: Path) -> None:
    """Age is counted from the last call, and is another one for sessions with a harmful call."""
    store = stored(tmp_path, made("good", last=50), made("bad", last=50, harmful=1))
    bounds = ROOM._replace(keep_ns=10, keep_harmful_ns=100)
    assert store.prune(bounds, 61) == {"age": 1, "sessions": 0, "bytes": 0}
    assert names(tmp_path) == ["bad"]
    assert store.prune(bounds, 151)["age"] == 1


def test_all_files_stay_under_the_bound(tmp_path: Path) -> None:
    """After a look at the bounds all files of the folder take `bytes_max` at most, and what is left is the newest."""
    store = ArchiveStore(tmp_path)
    # Texts that no compression makes smaller.
    store.write(
        made(f"s{n:04}", begun=n, summary=n.to_bytes(2, "big") * 4_000) for n in range(1, 800)
    )
    store.prune(ROOM._replace(bytes_max=1 << 20), 1_000)
    assert file_bytes(tmp_path) <= (1 << 20) + (64 << 10)  # what is free has left the file
    assert 0 < store.sessions < 800
    assert names(tmp_path)[0] == "s0799"


def test_sessions_of_a_process_that_is_gone_have_ended(tmp_path: Path) -> None:
    """What lives by its row and not in the monitor has ended, nobody knows how."""
    store = stored(tmp_path, made("gone", ended=None), made("here", ended=None))
    store.settle([("", "here")])
    rows = sqlite3.connect(tmp_path / FILE).execute("SELECT session, ended FROM sessions")
    assert dict(rows.fetchall()) == {"gone": LOST, "here": None}


def test_a_file_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    """Neither a writer nor a reader touches it."""
    stored(tmp_path, made()).close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    with pytest.raises(NewerSchemaError):
        ArchiveStore(tmp_path)
    with pytest.raises(NewerSchemaError):
        ArchiveReader(tmp_path).session("s")


def test_texts_that_are_no_unicode_can_be_written(tmp_path: Path) -> None:
    """Half a surrogate pair becomes a question mark; the session is there."""
    stored(tmp_path, made("a\ud800b", agent="\udfff"))
    assert names(tmp_path) == ["a?b"]


def test_pages_follow_each_other(tmp_path: Path) -> None:
    """Each session is on one page, in every order, also where many are alike."""
    stored(tmp_path, *(made(f"s{n}", begun=n // 3, harmful=n % 2) for n in range(3, 40)))
    reader = ArchiveReader(tmp_path)
    for sort in ("recent", "harm", "harm_rate", "prefix_crit", "severity", "risk"):
        seen: list[str] = []
        after = None
        while page := reader.page(ArchiveSearch(sort=sort), 5, after).sessions:
            seen += [each.name.session for each in page]
            after = page[-1].key, page[-1].name
        assert sorted(seen) == sorted(f"s{n}" for n in range(3, 40))


@pytest.mark.parametrize("seed", sampled(range(1, 5), [1]))
def test_short_pages_have_all_that_match(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Where the time is up after two sessions: pages go on from where they stopped, have each that matches once, and in order."""
    chance, half = random.Random(seed), LONG_NS // 2
    monkeypatch.setattr(reader_module, "LUMP", 3)
    monkeypatch.setattr("collector.archive.page_search.STRETCH", 2)
    sessions = []
    for number in range(60):
        begun = chance.randint(1, 9) * half
        touched = begun + chance.choice((0, half, 5 * half))
        harmful, agent = chance.randint(0, 2), chance.choice(("rover", "rare"))
        sessions.append(
            made(f"s{number}", begun=begun, touched=touched, harmful=harmful, agent=agent)
        )
    stored(tmp_path, *sessions)
    reader = ArchiveReader(tmp_path)
    gone = {each.name for each in sessions[::7]}
    rare = ArchiveSearch(agent="rare")
    for sort, asked in product(
        ("recent", "harm", "severity"),
        (ArchiveSearch(), rare._replace(harmful=True), rare._replace(until=6 * half)),
    ):
        search = asked._replace(sort=sort)
        at_once = [each.name for each in reader.page(search, 100, without=gone).sessions]
        with monkeypatch.context() as walked:
            walked.setattr(reader_module, "LOOKED_AT_MAX", 0)
            walked.setattr(reader_module, "MATCHING_MAX", 0)
            walked.setattr("collector.archive.page_search.MATCHING_MAX", 0)
            found: list[SessionName] = []
            after, pages = None, 0
            while pages == 0 or after is not None:
                page = reader.page(search, 3, after, without=gone, seconds=0.0)
                found += [each.name for each in page.sessions]
                full = page.sessions and len(page.sessions) == 3
                after = (
                    (page.sessions[-1].key, page.sessions[-1].name) if full else page.reached
                )
                pages += 1
            every = [each.name for each in reader.every(search)]
        assert found == at_once
        assert [each for each in every if each not in gone] == at_once
        assert pages > 3


def test_a_short_text_is_looked_for_in_the_latest_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One or two characters: those that were written last are looked at, and a count of fewer than all says so."""
    stored(tmp_path, *(made(f"s{number}xy", begun=number) for number in range(1, 21)))
    reader = ArchiveReader(tmp_path)
    monkeypatch.setattr("collector.archive.search.SHORT_TEXT_LOOKED_AT_MAX", 5)
    monkeypatch.setattr(reader_module, "SHORT_TEXT_LOOKED_AT_MAX", 5)
    for text, found in (("xy", 5), ("zz", 0), ("0x", 1)):
        page = reader.page(ArchiveSearch(text=text), 50)
        assert (len(page.sessions), page.matching.is_all) == (found, False)
    assert reader.page(ArchiveSearch(text="9xy"), 50).matching.is_all
    steps: list[int] = []
    with reader._opened() as connection:  # noqa: SLF001 - the steps of this statement alone are counted
        assert isinstance(connection, sqlite3.Connection)
        connection.set_progress_handler(lambda: steps.append(1), 10)
        assert reader._is_cut(connection, ArchiveSearch(text="xy"))  # noqa: SLF001 - the steps of this statement alone are counted
    assert len(steps) < 10, "what there is beside them is not looked at"
    monkeypatch.setattr(reader_module, "SHORT_TEXT_LOOKED_AT_MAX", 20)
    assert reader.page(ArchiveSearch(text="zz"), 50).matching.is_all


def test_a_kind_of_harm_that_none_has_is_told_by_an_index(tmp_path: Path) -> None:
    """However many harmful calls have the reason: what is read of them does not grow with them."""
    stored(tmp_path, *(made(f"s{number}", begun=number, harmful=1) for number in range(500)))
    reader, steps = ArchiveReader(tmp_path), []
    search = ArchiveSearch(reason="repeated", tool="move")
    with reader._opened() as connection:  # noqa: SLF001 - the steps of this statement alone are counted
        assert isinstance(connection, sqlite3.Connection)
        connection.set_progress_handler(lambda: steps.append(1), 100)
        assert reader._smallest(connection, search, 10) == (set(), True)  # noqa: SLF001 - the steps of this statement alone are counted
    assert len(steps) < 10
    for tool, severity in (("wat", ""), ("", "critical"), ("wat", "critical")):
        assert len([*reader.every(search._replace(tool=tool, severity=severity))]) == 500
    assert [*reader.every(search._replace(tool="", severity="info"))] == []


def test_sessions_are_passed_over(tmp_path: Path) -> None:
    """A page is whole without them, in every order, and the next one goes on behind it."""
    sessions = [made(f"s{n}", begun=n, harmful=n % 2) for n in range(20)]
    stored(tmp_path, *sessions)
    gone = {each.name for each in sessions[5:]}
    reader = ArchiveReader(tmp_path)
    for sort in ("recent", "harm"):
        first = reader.page(ArchiveSearch(sort=sort), 3, without=gone).sessions
        after = first[-1].key, first[-1].name
        rest = reader.page(ArchiveSearch(sort=sort), 3, after, without=gone).sessions
        seen = [each.name.session for each in (*first, *rest)]
        assert (len(first), sorted(seen)) == (3, ["s0", "s1", "s2", "s3", "s4"])


@pytest.mark.parametrize(
    ("search", "found"),
    [
        (ArchiveSearch(harmful=True), ["bad"]),
        (ArchiveSearch(text="good"), ["good"]),
        (ArchiveSearch(text="repea"), ["bad"]),
        (ArchiveSearch(text="%"), []),
        (ArchiveSearch(text="' OR 1=1 --"), []),
        (ArchiveSearch(reason="repeated", severity="critical", tool="wat"), ["bad"]),
        (ArchiveSearch(reason="repeated", tool="move"), []),
        (ArchiveSearch(tool="move"), ["bad", "good"]),
        (ArchiveSearch(agent="rover", spec="farm", mode="page"), ["bad", "good"]),
        (ArchiveSearch(agent="rove"), []),
        (ArchiveSearch(namespaces=("a",)), ["bad"]),
        (ArchiveSearch(namespaces=()), []),
        (ArchiveSearch(since=25), ["bad"]),
        (ArchiveSearch(until=10), ["good"]),
        (ArchiveSearch(ids=(b"\7" * 16,)), ["bad"]),
        (ArchiveSearch(label="right"), []),
        (ArchiveSearch(label="wrong"), ["bad"]),
    ],
)
def test_filters(tmp_path: Path, search: ArchiveSearch, found: list[str]) -> None:
    """Each filter is of one harmful call, one judgement or one session; the latest label counts."""
    bad = made("bad", begun=20, harmful=1, namespace="a/b", trace=b"\7" * 16)
    stored(tmp_path, made("good"), bad).write(
        [
            Label(bad.name, None, label, "", "me", at)
            for at, label in enumerate(("right", "wrong"))
        ]
    )
    assert names(tmp_path, search) == found
    assert len(ArchiveReader(tmp_path).page(search, 0).matching.names) == len(found)


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        ([(None, "right")], (1, 0)),
        ([("farm", "wrong")], (0, 1)),
        ([("other", "wrong")], None),
        ([(None, "right"), ("farm", "wrong")], (0, 1)),
        ([("farm", "wrong"), (None, "right")], (1, 0)),
        ([(None, "right"), ("farm", "wrong"), ("farm", None)], (1, 0)),
        ([(None, "right"), (None, None)], None),
        ([(None, "right"), (None, "right")], (1, 0)),
    ],
)
def test_labels_of_harmful_sessions_count(
    tmp_path: Path, said: list[tuple[str | None, str | None]], counts: tuple[int, int] | None
) -> None:
    """Of a session the latest label for the spec, or for all, counts once; one that was taken back does not."""
    bad = made("bad", begun=20, harmful=1, namespace="a/b")
    good, old = made("good", begun=20), made("old", begun=1, last=2, harmful=1)
    labels = [Label(bad.name, spec, label, "", "me", 1) for spec, label in said]
    others = [Label(each.name, None, "right", "", "me", 1) for each in (good, old)]
    stored(tmp_path, good, bad, old).write([*labels, *others])
    reader = ArchiveReader(tmp_path)

    found = reader.label_counts(SumsSearch(0, 1), since=10)
    assert found == ({} if counts is None else {"farm": counts})
    for hidden in (
        SumsSearch(0, 1, namespaces=("c",)),
        SumsSearch(0, 1, namespace="a"),
        SumsSearch(0, 1, agent="x"),
    ):
        assert reader.label_counts(hidden, since=10) == {}
    assert reader.label_counts(SumsSearch(0, 1, namespaces=("a",)), since=10) == found


@pytest.mark.parametrize(
    "part",
    [
        'a"b',
        "don't",
        "@nasa",
        "multi-agent",
        "NEAR(",
        "50%",
        "x*y",
        "a:b",
        "[br]",
        "Straße",
        "\u0130I",
        "ünïcode@x",
        "日本語の",
        '"',
        "?",
        "AND OR",
    ],
)
def test_any_part_of_an_id_is_found(tmp_path: Path, part: str) -> None:
    """Whatever a search engine's own language makes of it, in any case: the session that has it, and no other."""
    stored(tmp_path, made(f"chat {part} 1"), made("chat other"))
    reader = ArchiveReader(tmp_path)
    for text in (part, part.upper(), f" {part} "):
        search = ArchiveSearch(text=text.casefold())
        assert [each.name.session for each in reader.every(search)] == [f"chat {part} 1"]
        assert len(reader.page(search, 0).matching.names) == 1


@pytest.mark.parametrize(
    ("search", "counted", "is_all"),
    [
        (ArchiveSearch(), 40, True),
        (ArchiveSearch(agent="rover"), 6, False),
        (ArchiveSearch(agent="rover", since=44), 2, True),
        (ArchiveSearch(agent="rover", harmful=True), 6, False),
        (ArchiveSearch(agent="rover", text="repeated", harmful=True, since=44), 1, True),
        (ArchiveSearch(agent="rover", until=5), 1, True),
    ],
)
def test_a_count_looks_at_so_many_and_says_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    search: ArchiveSearch,
    counted: int,
    is_all: bool,
) -> None:
    """Where a filter alone has few sessions all that match are counted; else those of one filter, and there may be others."""
    monkeypatch.setattr(reader_module, "LOOKED_AT_MAX", 5)
    stored(tmp_path, *(made(f"s{n}", begun=n, last=n + 1, harmful=n % 2) for n in range(5, 45)))
    found = ArchiveReader(tmp_path).page(search, 0).matching
    assert (len(found.names), found.is_all) == (counted, is_all)


@pytest.mark.parametrize("seed", sampled((1, 2, 3), [1]))
@pytest.mark.parametrize("most", [0, MATCHING_MAX])
def test_the_pages_of_a_time_have_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, seed: int
) -> None:
    """Whatever the beginnings, ends and receipts of sessions, and whether a set of them is small: by recency, each once."""
    monkeypatch.setattr("collector.archive.reader.MATCHING_MAX", most)
    chance, half = random.Random(seed), LONG_NS // 2
    sessions = []
    for number in range(40):
        begun = chance.randint(4, 20) * half
        last = begun + chance.choice((1, half, 2 * half, 2 * half + 1, 7 * half))
        touched = begun + chance.choice((-3 * half, 0, 2 * half, 2 * half + 1, 9 * half))
        sessions.append(made(f"s{number}", begun=begun, last=last, touched=touched))
    store = stored(tmp_path, *sessions)
    store.close()
    sessions.sort(key=lambda each: (each.touched, each.name.begun, each.name.session))
    for since, until in product((0, 9 * half), (0, 9 * half, 14 * half)):
        search = ArchiveSearch(since=since, until=until)
        reader, after = ArchiveReader(tmp_path), None
        found: list[str] = []
        while page := reader.page(search, 3, after).sessions:
            found += [each.name.session for each in page]
            after = page[-1].key, page[-1].name
        assert found == [
            each.name.session
            for each in reversed(sessions)
            if each.last >= since and (not until or each.name.begun <= until)
        ]


def test_a_page_of_a_time_passes_over_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where many sessions match, and many came later or earlier: a page takes about what it takes of all."""
    monkeypatch.setattr("collector.archive.reader.LOOKED_AT_MAX", 50)
    monkeypatch.setattr("collector.archive.page_search.MATCHING_MAX", 50)
    monkeypatch.setattr("collector.archive.page_search.STRETCH", 20)
    monkeypatch.setattr("collector.archive.reader._STEPS", 100)
    stored(
        tmp_path, *(made(f"s{number}", begun=number * LONG_NS) for number in range(1, 2_001))
    ).close()
    looks: list[float] = []

    def monotonic() -> float:
        looks.append(0.0)
        return 0.0

    monkeypatch.setattr("collector.archive.reader.time", SimpleNamespace(monotonic=monotonic))
    reader = ArchiveReader(tmp_path)
    for time in (200 * LONG_NS, 1_000 * LONG_NS, 1_800 * LONG_NS):
        cost = []
        for search in (
            ArchiveSearch(),
            ArchiveSearch(until=time),
            ArchiveSearch(since=time),
            ArchiveSearch(since=time - 99 * LONG_NS, until=time),
        ):
            looks.clear()
            assert len(reader.page(search, 20).sessions) == 20
            cost.append(len(looks))
        assert max(cost) < cost[0] + 40, (time, cost)


def said(session: str = "s", *, begun: int = 5, at: int = 0, text: str = "") -> ModelJudgement:
    """What a model says of a session."""
    return ModelJudgement(SessionName("", session, begun), "TC", "m", at, text.encode())


def test_judgements_by_models_stay_with_their_session(tmp_path: Path) -> None:
    """What a model says is there once for a judge and a model, moves with the session's beginning, and goes with the session."""
    store = stored(tmp_path, made(begun=5, last=20), made("other", begun=5))
    reader = ArchiveReader(tmp_path)
    store.write([said(text="first"), said(text="second"), said("other", text="other")])
    assert reader.judged(SessionName("", "s", 5)) == [b"second"]
    store.write([made(begun=4, last=30)])  # an earlier call has arrived
    assert reader.judged(SessionName("", "s", 4)) == [b"second"]
    assert reader.judged(SessionName("", "s", 5)) == []
    store.prune(ROOM._replace(sessions_max=1), 2 * ORPHAN_NS)
    assert names(tmp_path) == ["s"]
    assert reader.judged(SessionName("", "other", 5)) == []
    assert reader.judged(SessionName("", "s", 4)) == [b"second"]
    store.prune(ROOM._replace(keep_ns=10, keep_harmful_ns=10), 2 * ORPHAN_NS)
    assert reader.judged(SessionName("", "s", 4)) == []


def test_an_archive_of_the_first_version_takes_judgements_by_models(tmp_path: Path) -> None:
    """A file that was written before there were judgements by models keeps its sessions, and takes them."""
    with sqlite3.connect(tmp_path / FILE) as connection:
        for step in MIGRATIONS[0]:
            connection.execute(step)
        connection.execute("PRAGMA user_version = 1")
        connection.execute(
            "INSERT INTO sessions VALUES (1, '', 's', 5, 20, 20, 'idle', 0, 0, 0, 0, -1, 's')"
        )
    stored(tmp_path).write([said(text="first")])
    assert names(tmp_path) == ["s"]
    assert ArchiveReader(tmp_path).judged(SessionName("", "s", 5)) == [b"first"]
