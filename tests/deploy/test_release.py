"""A release has one version, wherever it is written."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from collector import __version__
from tests.upgrades.make import FOLDERS

ROOT = Path(__file__).parents[2]
IMAGE = re.compile(r"\boffrails(?:-demo)?:(\d+\.\d+\.\d+)")
SECTION = re.compile(r"^## \[(\d+\.\d+\.\d+)\]", re.MULTILINE)


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


def test_the_latest_release_of_the_changelog_is_this_version() -> None:
    """The changelog's first section with a version is that of the program, and its folder is kept."""
    assert SECTION.findall((ROOT / "CHANGELOG.md").read_text())[0] == __version__
    assert (FOLDERS / __version__).is_dir()
