"""`make demo`: what it prints, how long it takes, and that hostile text does no harm there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from typing import Any

import pytest

from tests.demo.words import Paint, heading, report, step_lines
from tests.end_to_end.service import ROOT

pytestmark = pytest.mark.timeout(240)

SECONDS_MAX = 20
KNOWN_MS_MAX = 1_000
ESCAPE = "\x1b"
PLAIN = Paint(coloured=False)


def run() -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.demo"],
        cwd=ROOT,
        env={**os.environ, "OFFRAILS_HISTORY": "auto", "OFFRAILS_ADMIN": "off"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def known_ms(out: str) -> list[int]:
    return [int(found) for found in re.findall(r"known (\d+) ms after", out)]


@pytest.fixture(scope="module")
def told() -> subprocess.CompletedProcess[str]:
    return run()


def test_it_ends_by_itself(told: subprocess.CompletedProcess[str]) -> None:
    """Exit 0, and nothing on standard error."""
    assert (told.returncode, told.stderr) == (0, "")


def test_harm_is_explained(told: subprocess.CompletedProcess[str]) -> None:
    """Each harmful call says why, and how soon after its span it was known."""
    out = told.stdout

    assert out.count("HARMFUL") == 5
    for reason in ("out of order", "repeated", "unknown tool", "failed call"):
        assert reason in out
    assert "skipped: open_valve" in out
    assert "policy:  precedence: [open_valve, water]" in out
    assert len(known_ms(out)) == 5


@pytest.mark.long
def test_it_is_quick() -> None:
    """It takes less than twenty seconds, and each harm is known within a second of its span."""
    began = time.monotonic()
    out = run().stdout

    assert time.monotonic() - began < SECONDS_MAX
    assert max(known_ms(out)) < KNOWN_MS_MAX


def test_it_closes_with_scores_and_gauges(told: subprocess.CompletedProcess[str]) -> None:
    """The table has each session, the gauges are the means over them."""
    table = told.stdout.partition("all sessions")[2]
    rows = re.findall(
        r"^  (\d .+?) +(\d+) +(\d+) +(\d\.\d{3}) +(\d\.\d{3})  done$", table, re.MULTILINE
    )

    assert [(calls, harmful) for _, calls, harmful, _, _ in rows] == [
        ("6", "0"),
        ("7", "1"),
        ("8", "2"),
        ("7", "1"),
        ("7", "0"),
        ("7", "1"),
        ("9", "0"),
    ]
    gauges = dict(re.findall(r"^  (offrails_\w+)\{.*\} (\S+)$", table, re.MULTILINE))
    for gauge, column in (("offrails_harm_rate", 3), ("offrails_prefix_crit", 4)):
        mean = sum(float(row[column]) for row in rows) / len(rows)
        assert float(gauges[gauge]) == pytest.approx(mean, abs=0.001)


def test_no_colour_where_nobody_looks(told: subprocess.CompletedProcess[str]) -> None:
    """A pipe gets plain text."""
    assert ESCAPE not in told.stdout


def step(**changes: Any) -> dict[str, Any]:
    return {
        "index": 1,
        "tool": "water",
        "arguments": {},
        "kind": "harmful",
        "reason": "unknown_tool",
        "skipped": [],
        "allowed": ["a"],
        "state": "s",
        **changes,
    }


def test_hostile_text_is_escaped() -> None:
    """An agent's text never reaches the terminal as a control sequence."""
    evil = f"{ESCAPE}[2J\r\n\u202e"
    found = {
        "session": evil,
        "calls": 1,
        "harmful": 1,
        "harm_rate": 1.0,
        "prefix_crit": 0.0,
        "state": evil,
    }
    lines = [
        heading(found, PLAIN).lstrip("\n"),
        *step_lines(step(tool=evil, allowed=[evil], skipped=[evil]), 1, evil, PLAIN),
        *step_lines(step(arguments={evil: evil}), None, None, PLAIN),
        *report([found], [], PLAIN),
    ]

    assert all(line.isprintable() for line in lines)
    assert any("\\x1b" in line for line in lines)


def test_colours_on_a_terminal() -> None:
    """Harm is red, and every colour ends where it began."""
    first, *_ = step_lines(step(), 1, None, Paint(coloured=True))

    assert f"{ESCAPE}[1;31mHARMFUL" in first
    assert first.count(ESCAPE) == 2


def test_undefined_scores_are_dashes() -> None:
    """A joined session has no scores."""
    found = {
        "session": "s",
        "calls": 1,
        "harmful": 0,
        "harm_rate": None,
        "prefix_crit": None,
        "state": None,
    }

    row = list(report([found], [], PLAIN))[3]
    assert row.split() == ["s", "1", "0", "-", "-", "-"]
