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

pytestmark = [pytest.mark.alone, pytest.mark.timeout(240)]

SECONDS_MAX = 20
ESCAPE = "\x1b"
PLAIN = Paint(coloured=False)


@pytest.fixture(scope="module")
def told() -> tuple[int, str, str, float]:
    """Exit code, standard output, standard error and seconds of one run."""
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-m", "tests.demo"],
        cwd=ROOT,
        env={**os.environ, "OFFRAILS_HISTORY": "auto", "OFFRAILS_ADMIN": "off"},
        capture_output=True,
        text=True,
        timeout=55,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr, time.monotonic() - began


def test_it_ends_by_itself(told: tuple[int, str, str, float]) -> None:
    """Exit 0 in less than twenty seconds, and nothing on standard error."""
    code, _, err, seconds = told

    assert (code, err) == (0, "")
    assert seconds < SECONDS_MAX


def test_harm_is_known_within_a_second(told: tuple[int, str, str, float]) -> None:
    """Each harmful call says why, and how soon after its span it was known."""
    _, out, _, _ = told

    assert out.count("HARMFUL") == 5
    for reason in ("out of order", "repeated", "unknown tool", "failed call"):
        assert reason in out
    assert "skipped: open_valve" in out
    assert "policy:  precedence: [open_valve, water]" in out
    milliseconds = [int(found) for found in re.findall(r"known (\d+) ms after", out)]
    assert len(milliseconds) == 5
    assert max(milliseconds) < 1_000


def test_it_closes_with_scores_and_gauges(told: tuple[int, str, str, float]) -> None:
    """The table has each session, the gauges are the means over them."""
    _, out, _, _ = told
    table = out.partition("all sessions")[2]
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


def test_no_colour_where_nobody_looks(told: tuple[int, str, str, float]) -> None:
    """A pipe gets plain text."""
    assert ESCAPE not in told[1]


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
