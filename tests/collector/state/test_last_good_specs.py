"""The file of the last specs that compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from collector.state import spec_texts
from collector.state.last_good_specs import LastGoodSpecs
from collector.state.spec_texts import specs_record
from monitor.spec.read import load_spec

SPEC = "id: a\nalphabet: {x: {tool: x}}\ngolden: [[x]]\n"
NOW = 1_700_000_000_000_000_000


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A spec."""
    made = tmp_path / "a.yaml"
    made.write_text(SPEC)
    return made


def test_what_is_kept_is_found(tmp_path: Path, file: Path) -> None:
    """The specs come back as they compiled, with their files and their time, whatever the files hold by then."""
    store = LastGoodSpecs(tmp_path / "deep" / "kept")
    assert store.find(NOW) is None
    spec = load_spec(file)
    store.keep([spec], NOW)
    file.unlink()
    found = store.find(NOW + 5)
    assert found is not None
    assert [(each.id, each.file, each.sha256_8) for each in found.specs] == [
        (spec.id, str(file), spec.sha256_8)
    ]
    assert found.at_ns == NOW
    assert found.texts == {str(file): SPEC.encode()}
    assert store.file.stat().st_mode & 0o777 == 0o600
    assert store.file.parent.stat().st_mode & 0o777 == 0o700


def test_what_cannot_be_written_leaves_what_was_kept(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, specs that are too large and files that have changed: the old ones stay, and nothing lies beside them."""
    store = LastGoodSpecs(tmp_path / "kept")
    spec = load_spec(file)
    store.keep([spec], NOW)
    before = store.file.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("collector.state.last_good_specs.os.fsync", full)
        with pytest.raises(OSError, match="No space"):
            store.keep([spec], NOW + 1)
    with monkeypatch.context() as patch:
        patch.setattr(spec_texts, "SPECS_BYTES_MAX", 3)
        with pytest.raises(ValueError, match="bytes"):
            store.keep([spec], NOW + 1)
    file.write_text(SPEC + "\n")
    with pytest.raises(ValueError, match="changed"):
        store.keep([spec], NOW + 1)
    assert store.file.read_bytes() == before
    assert list(store.file.parent.iterdir()) == [store.file]


@pytest.mark.parametrize("cut", [0, 1, 20])
def test_a_damaged_file_is_refused(tmp_path: Path, file: Path, cut: int) -> None:
    """A file that is cut short is no specs."""
    store = LastGoodSpecs(tmp_path / "kept")
    store.keep([load_spec(file)], NOW)
    store.file.write_bytes(store.file.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"."):
        store.find(NOW)


def test_specs_that_no_longer_compile_are_refused(tmp_path: Path, file: Path) -> None:
    """What an earlier version took, and this one does not, is not used in part."""
    store = LastGoodSpecs(tmp_path / "kept")
    store.keep([load_spec(file)], NOW)
    raw = store.file.read_bytes()
    store.file.write_bytes(raw.replace(b"golden", b"goldne"))
    with pytest.raises(ValueError, match="compiled"):
        store.find(NOW)


def test_a_journal_has_the_texts_of_kept_specs(tmp_path: Path, file: Path) -> None:
    """Where the files hold something else by now, the texts that are kept go into the journal."""
    store = LastGoodSpecs(tmp_path / "kept")
    store.keep([load_spec(file)], NOW)
    file.write_text("id: [")
    found = store.find(NOW)
    assert found is not None
    assert specs_record(found.specs).texts is None
    assert specs_record(found.specs, found.texts).texts == [(str(file), SPEC.encode())]
