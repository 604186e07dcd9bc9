"""A process leaves a mark that it ran, and the next one finds it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from collector.app.derived_settings import mark_of
from collector.config.settings.settings import Settings
from collector.config.settings.state import StateSettings
from collector.restart.run_mark import RunMark


def test_the_first_process_has_no_predecessor_and_the_next_one_has(tmp_path: Path) -> None:
    """The mark is left at the start, so that a process that is killed at once counts, too."""
    assert not RunMark(tmp_path, 60).has_predecessor
    assert RunMark(tmp_path, 60).has_predecessor


def test_a_mark_counts_as_long_as_a_session_may_be_idle(tmp_path: Path) -> None:
    """Sessions of a process that ended before that are over."""
    RunMark(tmp_path, 60)
    os.utime(tmp_path / "ran", (1, 1))

    assert not RunMark(tmp_path, 60).has_predecessor
    assert RunMark(tmp_path, 60).has_predecessor


def test_a_process_that_runs_keeps_its_mark_fresh(tmp_path: Path) -> None:
    """Otherwise a restart after a long life would find an old mark."""
    mark = RunMark(tmp_path, 60)
    os.utime(tmp_path / "ran", (1, 1))
    mark.tick()

    assert RunMark(tmp_path, 60).has_predecessor


def test_a_folder_that_cannot_be_used_promises_nothing(tmp_path: Path) -> None:
    """Where nobody can say whether a process ran before, one may have."""
    file = tmp_path / "file"
    file.write_text("")

    assert RunMark(file, 60).has_predecessor
    assert RunMark(tmp_path / "none", 60).has_predecessor


@pytest.mark.parametrize(("past", "has_predecessor"), [(False, True), (True, False)])
def test_a_journal_without_a_past_says_less_than_the_mark(
    tmp_path: Path, *, past: bool, has_predecessor: bool
) -> None:
    """A sidecar that is given a journal, or has lost it, is restarted among running agents all the same."""
    RunMark(tmp_path, 60)
    state = tmp_path / "journal"
    if past:
        state.mkdir()
        (state / "journal-0000000001.log").touch()
    found = mark_of(
        Settings(history="complete", history_mark=tmp_path, state=StateSettings(dir=state))
    )

    assert found is not None
    assert found.has_predecessor is has_predecessor
