"""The notebook: its cells run, and what they print is what is kept beside them."""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import pytest

from collector.archive.store import ArchiveStore
from collector.cli.main import main
from tests.collector.archive.sessions import made

NOTEBOOK: Final = Path(__file__).parents[2] / "examples" / "five_agents.ipynb"
OUTPUT_BYTES_MAX: Final = 8_192


def run(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """The outputs of one cell: what it prints, and its last expression, as Jupyter keeps them."""
    tree, shown = ast.parse(source), None
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        shown = compile(ast.Expression(last.value), "cell", "eval")
        tree.body.pop()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = eval(shown, names) if shown is not None else None
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        lines = printed.getvalue().splitlines(keepends=True)
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines})
    if value is not None:
        found = value._repr_svg_() if hasattr(value, "_repr_svg_") else repr(value)
        kind = "image/svg+xml" if hasattr(value, "_repr_svg_") else "text/plain"
        outputs.append({"data": {kind: [found]}, "metadata": {}, "output_type": "display_data"})
    return outputs


def in_this_process(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
    """What the notebook starts, with the program that is loaded already: a start of it takes longer than its work."""
    assert command[:3] == [sys.executable, "-m", "collector"]
    printed = io.BytesIO()
    with contextlib.redirect_stdout(io.TextIOWrapper(printed, write_through=True)):
        code = main(command[3:])
        text = printed.getvalue().decode()
    assert code == 0, command
    return subprocess.CompletedProcess(command, code, text)


@pytest.fixture(autouse=True)
def _starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", in_this_process)


def played(archive: str = "") -> tuple[dict[str, Any], dict[str, Any]]:
    """The notebook with the outputs of its cells, run from above to below, and the names that it leaves."""
    book = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            if archive:
                source = source.replace('ARCHIVE = ""', f"ARCHIVE = {archive!r}")
            cell["outputs"] = run(source, names)
    return book, names


def test_the_notebook_runs_as_it_is_kept() -> None:
    """Five agents, each score within its interval, a front in the picture, rates by day: what a reader sees is what runs."""
    book, names = played()
    if os.environ.get("GOLDEN") == "write":
        NOTEBOOK.write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", "utf-8")
    assert book == json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    outputs = [each["outputs"] for each in book["cells"] if each["cell_type"] == "code"]
    assert len(json.dumps(outputs)) <= OUTPUT_BYTES_MAX
    assert sorted(names["by_agent"]) == sorted(names["AGENTS"])
    assert all(
        low <= value <= high for value, low, high in filter(None, names["table"].values())
    )
    picture = ElementTree.fromstring(names["picture"].svg)
    circles = [each for each in picture if each.tag.endswith("circle")]
    filled = [each for each in circles if each.get("fill") != "white"]
    assert (len(circles), len(filled)) == (5, len(names["best"]))
    assert 0 < len(filled) < 5
    assert len(names["columns"]) == 4


def test_it_is_about_an_archive_if_it_is_given_one(tmp_path: Path) -> None:
    """The sessions of an archive are compared in place of the bench's."""
    whole = {"spec_kind": "task", "exact": True, "pc": 0.5, "pc_ktc": 0.5, "prefix_crit": 0.5}
    with contextlib.closing(ArchiveStore(tmp_path)) as store:
        for number, agent in enumerate(("big", "small", "big")):
            told = {
                "agent": agent,
                "session": str(number),
                "harm_rate": number / 4,
                "started": 0,
            }
            text = json.dumps({**whole, **told, "efficiency": None}).encode()
            store.write([made(str(number), agent=agent, object=text)])
    _, names = played(str(tmp_path))
    assert {agent: len(found) for agent, found in names["by_agent"].items()} == {
        "big": 2,
        "small": 1,
    }
    assert names["table"]["big", "harm_free"][0] == pytest.approx(0.75)
    assert names["table"]["big", "efficiency"] is None
