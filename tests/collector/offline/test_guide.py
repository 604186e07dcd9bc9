"""The guide to writing specs, followed literally."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from textwrap import dedent

import pytest

from collector.cli.main import main

GUIDE = Path(__file__).parents[3] / "docs" / "writing-specs.md"
BLOCK = re.compile(r"^( *)```(\w+) ?(\S*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


def test_the_guide_says_what_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files are written as it says, commands run in order, and each answer is the one it shows."""
    monkeypatch.chdir(tmp_path)
    commands = 0
    for indent, kind, name, indented in BLOCK.findall(GUIDE.read_text()):
        text = dedent(indented) if indent else indented
        if name:
            Path(name).write_text(text)
        elif kind == "console":
            command, _, expected = text.partition("\n")
            main(shlex.split(command.removeprefix("$ offrails ")))
            assert capsys.readouterr().out == expected, command
            commands += 1
    assert commands >= 6
    assert "✗" in Path("shop.svg").read_text()


def test_links_lead_somewhere() -> None:
    """Files of the repository that the guide names exist."""
    for link in re.findall(r"\]\(([^)#]+)\)", GUIDE.read_text()):
        assert (GUIDE.parent / link).exists(), link
