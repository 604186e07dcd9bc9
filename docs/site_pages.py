"""The hook of mkdocs.yml: the site has the pages of the whole repository, where they are.

mkdocs knows one folder of pages. Here pages lie beside what they describe (deploy/, dfa_specs/), and
link to it. So the site mirrors the repository: every page, and every file that a page links to. A link
to a folder leads to its README, or to a list of its files.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from pymdownx.slugs import slugify

ROOT = Path(__file__).parents[1]
FOLDERS = ("docs", "dfa_specs", "deploy", "examples", "grafana", "tests")
_FENCE = re.compile(r"^ *```")
_TITLED = re.compile(r"^( *```\w+) ([\w./-]+)$", re.MULTILINE)
_ITEM = re.compile(r"^(?:-|\d+\.) +")
_LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(?=[#)])")
_TAB = 4


def on_config(config: Any) -> None:
    """Anchors are those of the repository's pages: lower case, a hyphen for each blank."""
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")


def on_files(files: Files, config: Any) -> Files:
    """The pages, what they link to, and the theme's own files."""
    pages = [
        *ROOT.glob("*.md"),
        *(page for each in FOLDERS for page in (ROOT / each).rglob("*.md")),
    ]
    names = {page.relative_to(ROOT).as_posix() for page in pages}
    linked = {target for name in names for target in _targets(name)}
    folders = {each for each in linked if (ROOT / each).is_dir()}
    listed = {f"{each}/README.md" for each in folders} - names
    inside = {
        each.relative_to(ROOT).as_posix()
        for folder in listed
        for each in (ROOT / folder).parent.iterdir()
        if each.is_file()
    }
    theme = [file for file in files if file.src_dir != config.docs_dir]
    found = Files(theme)
    scripts = {str(each) for each in config.extra_javascript}
    for name in sorted(names | (linked - folders) | inside | scripts):
        found.append(File.generated(config, name, abs_src_path=str(ROOT / name)))
    for name in sorted(listed):
        found.append(File.generated(config, name, content=_listing(name)))
    return found


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The text as the site's parser wants it.

    Links to folders lead to a page, blocks have their file as a title, and lists indent by four.
    """
    here = page.file.src_uri

    def link(found: re.Match[str]) -> str:
        target = _resolved(here, found[1])
        return f"{found[1].rstrip('/')}/README.md" if (ROOT / target).is_dir() else found[1]

    text = _TITLED.sub(r'\1 title="\2"', _LINK.sub(link, markdown))
    return "\n".join(indented(text.split("\n")))


def _targets(name: str) -> Iterator[str]:
    """What a page links to in the repository."""
    for link in _LINK.findall((ROOT / name).read_text()):
        target = _resolved(name, link)
        if (ROOT / target).exists() and not target.startswith(".."):
            yield target


def _resolved(name: str, link: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), link))


def _listing(name: str) -> str:
    """A page for a folder that has none."""
    folder = (ROOT / name).parent
    files = sorted(each.name for each in folder.iterdir() if each.is_file())
    lines = [f"# {folder.relative_to(ROOT)}", "", *(f"- [{each}]({each})" for each in files)]
    return "\n".join(lines) + "\n"


def indented(lines: list[str]) -> Iterator[str]:
    """What belongs to an item of a list, indented by a whole tab: by two or three it would not belong."""
    width, fenced, before = 0, False, ""
    for line in lines:
        fence = _FENCE.match(line) is not None
        item = None if fenced else _ITEM.match(line)
        if item:
            if before and not width:
                yield ""  # a list begins after an empty line
            width = len(item[0])
        elif line and not line.startswith(" "):
            width = 0
        yield " " * (_TAB - width) + line if width and line.startswith(" " * width) else line
        fenced ^= fence
        before = line
