"""The Python on pages is run: each block, in the order of its page, prints what stands below it."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import monitor
from tests.console import Block, blocks

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/library.md", "docs/guard.md#Without a service")
"""Pages, or one section of a page."""


def python(page: str) -> list[tuple[str, str]]:
    """The blocks of Python of a page, each with the text block that follows it, if one does."""
    file, _, heading = page.partition("#")
    found = list(blocks(ROOT / file, heading))
    return [
        (block.text, after.text if after.kind == "text" else "")
        for block, after in zip(found, [*found[1:], Block("", "", "")], strict=True)
        if block.kind == "python"
    ]


@pytest.mark.parametrize("page", PAGES)
def test_python_does_what_is_shown(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every block runs at the root of the repository, and its output is what the page shows."""
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    found = python(page)
    assert found
    for text, shown in found:
        out = StringIO()
        with redirect_stdout(out):
            exec(compile(text, page, "exec"), names)
        assert out.getvalue() == shown, text


def test_the_page_lists_what_is_public() -> None:
    """docs/library.md names each export of `monitor`, and no other."""
    text = (ROOT / "docs" / "library.md").read_text().split("## What is public")[1]
    assert set(re.findall(r"`(\w+)`", text)) - {"monitor"} == set(monitor.__all__)


def test_the_objects_beside_a_monitor_have_what_the_page_says() -> None:
    """Each object of the table is there, with each method that its row names."""
    text = (ROOT / "docs" / "library.md").read_text().split("## What is on the side")[1]
    rows = re.findall(r"^\| `monitor\.(\w+)` \|(.*)\|$", text, re.MULTILINE)
    assert len(rows) == 5
    made = monitor.Monitor()
    for name, words in rows:
        beside = getattr(made, name)
        assert [
            each for each in re.findall(r"`(\w+)`", words) if not hasattr(beside, each)
        ] == []
