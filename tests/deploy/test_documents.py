"""Links and names on Markdown pages resolve: files, headings, modules, options and settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from collector.cli.main import main

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "dfa_specs", "deploy", "examples", "grafana", "tests")
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(page for folder in FOLDERS for page in (ROOT / folder).rglob("*.md")),
    ]
)
FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`+[^`]*`+")
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6} +(.*?) *#*$", re.MULTILINE)
NAMED = re.compile(
    r"`((?:collector|guard|monitor|tests|docs|deploy|examples|grafana|dfa_specs)/[\w./-]*)`"
)
MODULE = re.compile(r"python -m ([a-z_.]+)")
VERB = re.compile(r"offrails ([a-z][a-z-]*)\b([^\n`]*)")
OPTION = re.compile(r"(?<!\w)--[a-z][a-z-]*")
KEY = re.compile(r"`([a-z_]+(?:\.[a-z_]+)+)`")
PUNCTUATION = re.compile(r"[^\w\- ]")


@cache
def prose(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return FENCE.sub("", page.read_text())


def links(page: Path) -> Iterator[str]:
    """The links of a page into the repository, as written."""
    for found in LINK.finditer(SPAN.sub("", prose(page))):
        target = found[1] or found[2]
        if "://" not in target and not target.startswith("mailto:"):
            yield target


@cache
def anchors(page: Path) -> frozenset[str]:
    """The anchors that a page has: its headings in lower case, blanks as hyphens."""
    seen: dict[str, int] = {}
    for heading in HEADING.findall(prose(page)):
        anchor = PUNCTUATION.sub("", heading.lower()).replace(" ", "-")
        seen[anchor] = seen.get(anchor, 0) + 1
    return frozenset(
        f"{anchor}-{number}" if number else anchor
        for anchor, times in seen.items()
        for number in range(times)
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    """A page links to no file and no heading that is missing."""
    lost = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)

    assert lost == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_and_modules_exist(page: Path) -> None:
    """Paths of the repository and modules to run, as a page names them, are there."""
    text = page.read_text()
    paths = {name for name in NAMED.findall(text) if not (ROOT / name).exists()}
    modules = {
        name
        for name in MODULE.findall(text)
        if (ROOT / name.split(".")[0]).is_dir()
        and not (ROOT / name.replace(".", "/")).with_suffix(".py").exists()
        and not (ROOT / name.replace(".", "/") / "__main__.py").exists()
    }

    assert (paths, modules) == (set(), set())


def test_verbs_have_the_options_that_pages_show(capsys: pytest.CaptureFixture[str]) -> None:
    """Each option beside a verb, in any page, is one that its help lists."""
    shown: dict[str, set[str]] = {}
    for page in PAGES:
        for verb, rest in VERB.findall(page.read_text()):
            shown.setdefault(verb, set()).update(OPTION.findall(rest.partition("#")[0]))

    for verb, options in shown.items():
        if not options:
            continue
        with pytest.raises(SystemExit):
            main([verb, *(["core"] if verb == "import" else []), "--help"])
        assert options <= set(OPTION.findall(capsys.readouterr().out)), verb


def test_settings_that_pages_name_exist() -> None:
    """Each key in backticks whose first part is a section of the settings is in docs/settings.md."""
    text = (ROOT / "docs" / "settings.md").read_text()
    keys = set(re.findall(r"^\| `([^`]+)`", text, re.MULTILINE))
    known = keys | {key.rpartition(".")[0] for key in keys}
    sections = {key.partition(".")[0] for key in keys}

    for page in PAGES:
        named = {
            key for key in KEY.findall(page.read_text()) if key.partition(".")[0] in sections
        }
        assert named <= known, page


def test_every_page_is_in_the_index() -> None:
    """docs/README.md lists each page below docs/, but for the decision records: those have their own."""
    docs = ROOT / "docs"
    listed = {
        (index.parent / link.partition("#")[0]).resolve()
        for index in (docs / "README.md", docs / "decisions" / "README.md")
        for link in links(index)
    }

    assert set(docs.rglob("*.md")) - {docs / "README.md"} <= listed


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("## The `log` in short", "the-log-in-short"),
        ("# 1. Record, and read", "1-record-and-read"),
    ],
)
def test_anchors_are_those_of_the_web(heading: str, anchor: str, tmp_path: Path) -> None:
    """A heading's anchor has no punctuation, and a hyphen for each blank."""
    page = tmp_path / "page.md"
    page.write_text(f"{heading}\n")

    assert anchors(page) == {anchor}
