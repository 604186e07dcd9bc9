"""The progress bar: for people at a terminal, and silent for everybody else."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from collector.offline import progress_bar
from collector.offline.progress_bar import Progress


class Terminal(io.StringIO):
    """A stream that somebody watches."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is long enough for a bar."""
    monkeypatch.setattr(progress_bar, "SHOWN_FROM_BYTES", 100)
    found = tmp_path / "x"
    found.write_bytes(bytes(200))
    return found


def bars(text: str) -> list[str]:
    return [each.strip() for each in text.split("\r") if each]


def test_reading_then_stages(file: Path) -> None:
    """Bytes read, then each stage by its own items; a bar ends its line when it is full."""
    stream = Terminal()
    shown = Progress([file, file], stream)
    for _ in range(2):
        shown.start(file)
        shown.at(100)
        shown.at(200)
    assert list(shown.stage("sessions", "ab")) == ["a", "b"]
    shown.begin("comparing")

    found = bars(stream.getvalue())
    assert [each.split("]")[-1].split("\n")[0].strip() for each in found] == [
        "25 %", "50 %", "75 %", "100 %", "50 %", "100 %"
    ]  # fmt: skip
    assert found[4].startswith("sessions")
    assert stream.getvalue().endswith("100 %\ncomparing ...\n")


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_silence(file: Path, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written without a terminal, nor for short work."""
    if stream.isatty():
        monkeypatch.setattr(progress_bar, "SHOWN_FROM_BYTES", 1_000)
    shown = Progress([file], stream)
    shown.start(file)
    shown.at(150)
    assert list(shown.stage("sessions", [1, 2])) == [1, 2]
    shown.begin("comparing")

    assert stream.getvalue() == ""


def test_equal_bars_are_drawn_once(file: Path) -> None:
    """A thousand lines of a file redraw the bar a hundred times at most."""
    stream = Terminal()
    shown = Progress([file], stream)
    shown.start(file)
    for place in range(201):
        shown.at(place)

    assert len(bars(stream.getvalue())) == 101
