"""Folders that one can keep in mind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]

FILES_MAX: Final = 15
"""Files of one folder that a reader keeps in mind."""

LARGER: Final = {
    "collector/cli/verbs": "one module a verb: a reader opens the one that they type",
    "collector/config/settings": "one module a section: a reader opens the one that they set",
    "collector/dialects/python": "tables, one a framework: a reader opens the one of theirs",
    "collector/api/session_view/script": "one module a part of the page, served from one address",
}
"""Folders with more files, and why."""


def packages() -> list[str]:
    """The packages that the import contracts know."""
    contracts = ConfigParser()
    contracts.read(ROOT / ".importlinter")
    return contracts["importlinter"]["root_packages"].split()


def sources(package: str) -> Iterator[Path]:
    """The files of a package, without what is built from them."""
    for path in (ROOT / package).rglob("*"):
        if path.is_file() and path.suffix not in {".pyc", ".so"}:
            yield path.relative_to(ROOT)


def sizes() -> Counter[str]:
    """Folder -> number of its files, without those of its subfolders."""
    return Counter(
        path.parent.as_posix() for package in packages() for path in sources(package)
    )


def test_no_folder_has_more_files_than_one_keeps_in_mind() -> None:
    """A folder has at most 15 files; one with more is named here, with the reason."""
    over = {folder for folder, count in sizes().items() if count > FILES_MAX}
    assert over <= LARGER.keys(), over - LARGER.keys()


def test_a_folder_that_was_split_is_no_longer_named_as_larger() -> None:
    """A reason to be larger is for a folder that is larger: when it shrinks, its line goes."""
    counts = sizes()
    assert [folder for folder in LARGER if counts[folder] <= FILES_MAX] == []
