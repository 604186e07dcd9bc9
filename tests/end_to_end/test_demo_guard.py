"""`make demo ARGS=--guard`: the rover asks first, reads why not, and finishes its task."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from monitor import load_specs
from tests.demo.guarded import blocking, faults
from tests.demo.guarded_rover import tools_allowed
from tests.demo.rover import jobs
from tests.end_to_end.service import ROOT

READ = re.compile(r"^ +(\w+)\(.*\) +DENIED\n +the rover reads: (.+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def ended() -> subprocess.CompletedProcess[str]:
    """One run, with settings in the environment that are not the demo's."""
    return subprocess.run(
        [sys.executable, "-m", "tests.demo", "--guard"],
        cwd=ROOT,
        env={**os.environ, "OFFRAILS_HISTORY": "auto", "OFFRAILS_ADMIN": "off"},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_it_ends_by_itself_with_success(ended: subprocess.CompletedProcess[str]) -> None:
    """Exit 0, and nothing on standard error: every promise of the demo was kept."""
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "NOT as promised" not in ended.stdout


def test_the_rover_reads_why_and_takes_an_allowed_step(
    ended: subprocess.CompletedProcess[str],
) -> None:
    """Each denial names what is wrong and what is allowed; the next call is one of these, and runs."""
    denials = READ.findall(ended.stdout)
    assert [tool for tool, _ in denials] == ["water", "water", "fly", "no_such_tool"]
    assert denials[0][1] == (
        "refused: `water` needs `open_valve` first. "
        "Allowed now: `scan`, `open_valve`, `log`, `irrigate`."
    )
    for _, told in denials:
        after = ended.stdout.partition(f"{told}\n")[2].splitlines()[0]
        assert after.split("(")[0].strip() in tools_allowed(told)
        assert after.endswith("  ok")


def test_the_same_jobs_without_harm(ended: subprocess.CompletedProcess[str]) -> None:
    """The service counts no harmful call, and shows each denied one as prevented in its session."""
    table, _, listed = ended.stdout.partition("all sessions")[2].partition("what was prevented")
    rows = re.findall(
        r"^  (\d .+?) +(\d+) +(\d+) +(\d+) +0\.000 +1\.000  done$", table, re.MULTILINE
    )

    assert [name for name, *_ in rows] == list(jobs())
    assert [(calls, harmful, denied) for _, calls, harmful, denied in rows] == [
        ("6", "0", "0"),
        ("6", "0", "1"),
        ("6", "0", "1"),
        ("6", "0", "1"),
        ("7", "0", "0"),
        ("6", "0", "1"),
        ("9", "0", "0"),
    ]
    assert 'offrails_decisions_total{decision="deny",spec="farm_rover"} 4.0' in table
    reasons = re.findall(r" (\w+) +(out of order|repeated|unknown tool)$", listed, re.MULTILINE)
    assert [tool for tool, _ in reasons] == ["water", "water", "fly", "no_such_tool"]


def test_a_broken_promise_is_told() -> None:
    """Harm, an unfinished task, and a run without a denial each have a line, so the demo exits with 1."""
    well: dict[str, Any] = {"session": "s", "harmful": 0, "accepting": True, "state": "done"}

    assert faults([well], {"s": [{"tool": "water"}]}) == []
    assert faults([well], {"s": []}) == ["no call was prevented"]
    for bad in ({"harmful": 1}, {"accepting": False, "state": "watered"}):
        [line] = faults([{**well, **bad}], {"s": [{"tool": "water"}]})
        assert line.startswith("session s has ")


def test_the_task_blocks_in_the_demo(tmp_path: Path) -> None:
    """The specs are the bundled ones, but for `enforce: block` of the task."""
    specs = load_specs([str(blocking(tmp_path))]).specs

    assert {spec.id: spec.enforce for spec in specs} == {
        "farm_rover": "block",
        "rover_policy": "advise",
    }
