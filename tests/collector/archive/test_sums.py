"""The sums of the archive: those of all sessions that were written, each as it was written last."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from collector.archive.pruning import ArchiveBounds
from collector.archive.reader import ArchiveReader
from collector.archive.record import AGENT, HOUR_NS, ArchivedSession
from collector.archive.schema import FIGURES
from collector.archive.search import SumsSearch
from collector.archive.store import FILE, ArchiveStore
from tests.collector.archive.sessions import made

ALL = SumsSearch(0, 1_000)
FOREVER = 1 << 62


@st.composite
def sessions(draw: st.DrawFn) -> ArchivedSession:
    """One of a few sessions, as it may be written first, at a harm, or again."""
    begun = draw(st.integers(1, 3)) * HOUR_NS
    return made(
        draw(st.sampled_from(("a", "b", "c"))),
        begun=begun,
        last=begun + draw(st.integers(0, 4)) * HOUR_NS // 2,
        namespace=draw(st.sampled_from(("", "n"))),
        ended=draw(st.sampled_from((None, "idle"))),
        harmful=draw(st.integers(0, 2)),
        possible=draw(st.integers(0, 1)),
        agent=draw(st.sampled_from(("rover", "mower"))),
        service_version=draw(st.sampled_from(("", "1", "2"))),
    )


@given(st.lists(st.lists(sessions(), max_size=4), max_size=5))
def test_sums_are_those_of_the_sessions(batches: list[list[ArchivedSession]]) -> None:
    """However often sessions are written, in whatever batches: each counts once, in its hours and groups."""
    with TemporaryDirectory() as folder:
        store = ArchiveStore(Path(folder))
        for batch in batches:
            store.write(batch)
        store.close()
        connection = sqlite3.connect(Path(folder) / FILE)
        columns = ", ".join(f"round(sum({name}), 9)" for name in FIGURES.split(", "))
        want = connection.execute(
            f"SELECT grp, hour, {columns} FROM shares GROUP BY grp, hour ORDER BY 1, 2"
        ).fetchall()
        rounded = ", ".join(f"round({name}, 9)" for name in FIGURES.split(", "))
        have = connection.execute(
            f"SELECT grp, hour, {rounded} FROM sums WHERE sessions <> 0 OR calls <> 0 ORDER BY 1, 2"
        ).fetchall()
        assert have == want
        for table, of in (("day_sums", "sums"), ("day_harm_sums", "harm_sums")):
            columns = "grp, {}, sum(sessions)" if of == "harm_sums" else "grp, {}, sum(calls)"
            days, hours = (
                connection.execute(
                    f"SELECT {columns.format(unit)} FROM {name} GROUP BY 1, 2 ORDER BY 1, 2"
                ).fetchall()
                for name, unit in ((table, "day"), (of, "hour / 24"))
            )
            assert days == hours
        harms = connection.execute(
            "SELECT grp, hour, what, name, count(*) FROM harm_shares GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4"
        ).fetchall()
        kept = connection.execute(
            "SELECT grp, hour, what, name, sessions FROM harm_sums WHERE sessions <> 0 ORDER BY 1, 2, 3, 4"
        ).fetchall()
        assert kept == harms
        connection.close()


def test_sums_outlive_harmless_sessions(tmp_path: Path) -> None:
    """What goes for its age stays in the sums, so that the rates of its day stay true; they go with harmful sessions."""
    store = ArchiveStore(tmp_path)
    store.write([made("good", last=HOUR_NS), made("bad", last=HOUR_NS, harmful=1)])
    bounds = ArchiveBounds(HOUR_NS, 10 * HOUR_NS, 1_000, 1 << 30)
    store.prune(bounds, 3 * HOUR_NS)
    assert store.sessions == 1
    [(_, _, figures)] = [
        each for each in ArchiveReader(tmp_path).sums(ALL) if each[1].kind == AGENT
    ]
    assert (figures.sessions, figures.harmed, figures.calls) == (2, 1, 6)
    store.prune(bounds, 12 * HOUR_NS)
    assert ArchiveReader(tmp_path).sums(ALL) == []


def test_sums_have_a_bound(tmp_path: Path) -> None:
    """A file has a sum for each KiB of its bound at most; the oldest hours go first."""
    store = ArchiveStore(tmp_path)
    store.write(made(f"s{n}", begun=n * HOUR_NS, agent=f"a{n}") for n in range(1, 900))
    store.prune(ArchiveBounds(FOREVER, FOREVER, 1_000, 1 << 19), 900 * HOUR_NS)
    hours = Counter(step for step, _, _ in ArchiveReader(tmp_path).sums(ALL))
    assert sum(hours.values()) <= 512
    assert max(hours) == 899


def test_sums_are_asked_for_by_step_and_name(tmp_path: Path) -> None:
    """Steps of a week begin on Monday; names, versions and namespaces choose groups."""
    monday = 24 * 4  # 5 January 1970
    ArchiveStore(tmp_path).write(
        [
            made("sunday", last=(monday - 1) * HOUR_NS, service_version="1"),
            made(
                "monday", last=monday * HOUR_NS, service_version="2", harmful=1, namespace="a/b"
            ),
        ]
    )
    reader = ArchiveReader(tmp_path)
    week = SumsSearch(0, 400, 168, 72)
    assert {step for step, _, _ in reader.sums(week)} == {0, 1}
    assert week.step_of(monday - 1) == 0
    assert {step for step, _, _ in reader.sums(week._replace(service_version="2"))} == {1}
    assert {step for step, _, _ in reader.sums(week._replace(namespaces=("a",)))} == {1}
    assert reader.sums(week._replace(namespaces=())) == []
    assert reader.sums(week._replace(agent="' OR 1=1 --")) == []
    harms = {(what, name, n) for g, what, name, n in reader.harm_sums(week) if g.kind == AGENT}
    assert harms == {
        ("reason", "repeated", 1),
        ("tool", "water", 1),
        ("severity", "critical", 1),
    }
