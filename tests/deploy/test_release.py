"""A release has one version, wherever it is written."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

import offrails_guard
from collector import __version__
from tests.upgrades.make import FOLDERS

ROOT = Path(__file__).parents[2]
IMAGE = re.compile(r"\boffrails(?:-demo)?:(\d+\.\d+\.\d+)")
SECTION = re.compile(r"^## \[(\d+\.\d+\.\d+)\]", re.MULTILINE)
LINE_MAX = 140


def test_the_chart_and_the_images_have_the_version_of_the_program() -> None:
    """The chart's two versions, and each image that a manifest or a page of deploy/ names."""
    chart = yaml.safe_load((ROOT / "deploy/helm/offrails/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    texts = [
        page.read_text()
        for kind in ("*.yaml", "*.md")
        for page in (ROOT / "deploy").rglob(kind)
    ]
    assert {version for text in texts for version in IMAGE.findall(text)} == {__version__}


def test_the_guard_has_the_version_of_the_program() -> None:
    """Its package, and what its extras install of offrails."""
    project = (ROOT / "offrails_guard" / "pyproject.toml").read_text()
    assert offrails_guard.__version__ == __version__
    assert set(re.findall(r"offrails(?:\[sdk\])?==([\d.]+)", project)) == {__version__}


def test_the_latest_release_of_the_changelog_is_this_version() -> None:
    """The changelog's first section with a version is that of the program, and its folder is kept."""
    assert SECTION.findall((ROOT / "CHANGELOG.md").read_text())[0] == __version__
    assert (FOLDERS / __version__).is_dir()


def test_a_release_has_one_line_a_change() -> None:
    """Each entry of the newest release is one line, and no heading comes twice in it.

    The text of the first release, in paragraphs, was published as it is.
    """
    text = (ROOT / "CHANGELOG.md").read_text()
    newest = text.partition(f"## [{__version__}]")[2].partition("\n## [")[0]
    lines = newest.partition("\n### ")[2].splitlines()[1:]
    assert len(lines) > 1
    assert not [line for line in lines if line.startswith("  ")]
    assert not [line for line in lines if len(line) > LINE_MAX]
    headings = [line for line in lines if line.startswith("### ")]
    assert len(headings) == len(set(headings))
