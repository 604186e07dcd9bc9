"""The file of a snapshot, whole and damaged."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.state.snapshot import (
    Snapshot,
    SnapshotManifest,
    UnusableSnapshotError,
    Version,
    clean,
    newest,
    save,
    snapshots,
)
from monitor.plain_records.blocks import Block, BlockKind

ABOUT = SnapshotManifest(
    program="1.0",
    place=1 << 33,
    salt=b"salt",
    at_ns=1_700_000_000_000_000_000,
    specs=b"specs",
    versions=[Version("rover 1", True, "rover.yaml", "document", b"id: rover", "2026-11-26")],
    settings={"history": "auto"},
    sessions=3,
    files=[(1, 5, True)],
)
LATER = msgspec.structs.replace(ABOUT, place=2 << 33)
BLOCKS = (
    Block(BlockKind.RECORDS, b"first"),
    Block(BlockKind.WORDS, b"numbers"),
    Block(BlockKind.RECORDS, b""),
    Block(BlockKind.INDEX, b"end"),
)


def checked(path: Path) -> Snapshot:
    found = Snapshot(path)
    deque(found.check(), maxlen=0)
    return found


def test_it_holds_what_was_written(tmp_path: Path) -> None:
    """Its head and its blocks come back, by kind and in their order; nobody else may read the file."""
    path = save(tmp_path, ABOUT, BLOCKS)
    found = checked(path)
    assert found.about == ABOUT
    assert list(found.blocks(BlockKind.RECORDS)) == [b"first", b""]
    assert list(found.blocks(BlockKind.WORDS)) == [b"numbers"]
    assert list(found.blocks(BlockKind.INDEX)) == [b"end"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_newest_replaces_the_others(tmp_path: Path) -> None:
    """One is kept, and what a killed writer has left is deleted."""
    assert newest(tmp_path) is None
    first = save(tmp_path, ABOUT, BLOCKS)
    second = save(tmp_path, LATER, BLOCKS)
    assert snapshots(tmp_path) == [second]
    assert not first.exists()
    part = second.with_name(second.name + ".part")
    part.write_bytes(b"half")
    assert newest(tmp_path) == second
    clean(tmp_path, second)
    assert not part.exists()


def test_a_full_disk_leaves_nothing(tmp_path: Path) -> None:
    """What fails in the middle is taken away, and the one before stays."""

    def failing() -> Iterator[Block]:
        yield BLOCKS[0]
        raise OSError(28, "No space left on device")

    before = save(tmp_path, ABOUT, BLOCKS)
    with pytest.raises(OSError, match="No space"):
        save(tmp_path, LATER, failing())
    assert list(tmp_path.iterdir()) == [before]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save(tmp_path_factory.mktemp("whole"), ABOUT, BLOCKS)


@given(st.data())
def test_no_damaged_file_is_used(whole: Path, data: st.DataObject) -> None:
    """A flipped bit, a missing end, other bytes: it says why it cannot be used, and nothing else is raised."""
    raw = bytearray(whole.read_bytes())
    spare = {10, 11}  # of the header
    what = data.draw(st.sampled_from(["flip", "cut", "other", "more"]))
    if what == "flip":
        raw[data.draw(st.integers(0, len(raw) - 1).filter(lambda at: at not in spare))] ^= (
            1 << data.draw(st.integers(0, 7))
        )
    elif what == "cut":
        del raw[data.draw(st.integers(0, len(raw) - 1)) :]
    elif what == "more":
        raw += data.draw(st.binary(min_size=1, max_size=30))
    else:
        raw[:] = data.draw(st.binary(max_size=60))
    path = whole.with_name("other")
    path.write_bytes(raw)
    try:
        found = checked(path)
    except UnusableSnapshotError:
        pass
    else:
        # The spare bytes of a block's head are all that no checksum covers.
        assert [*found.blocks(BlockKind.RECORDS), *found.blocks(BlockKind.WORDS)] == [
            b"first",
            b"",
            b"numbers",
        ]


@pytest.mark.parametrize(
    ("at", "raw", "why"),
    [
        (0, b"X", "it is no snapshot"),
        (
            8,
            b"\x03",
            "it is of format 3, of an earlier version of the program; this one reads 4",
        ),
        (8, b"\x05", "it is of format 5, of a newer version of the program; this one reads 4"),
        (30, b"\xff", "its head is damaged"),
    ],
)
def test_it_says_why(whole: Path, at: int, raw: bytes, why: str) -> None:
    """Another format and damage are told apart."""
    data = bytearray(whole.read_bytes())
    data[at : at + 1] = raw
    path = whole.with_name("wrong")
    path.write_bytes(data)
    with pytest.raises(UnusableSnapshotError, match=why):
        checked(path)


def test_a_file_that_is_gone_is_unusable(tmp_path: Path) -> None:
    """As one that the disk does not give."""
    with pytest.raises(UnusableSnapshotError, match="No such file"):
        Snapshot(tmp_path / "gone")
