"""`make demo ARGS='--run OUT'`: what a run of the bench has left is sent to a service, which judges it as the run did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cli.program import main
from tests.demo.__main__ import main as demo
from tests.demo.rollouts import faults
from tests.end_to_end.service import ROOT

LAB = ROOT / "tests" / "harness" / "lab"


def shown(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.demo", *arguments],
        cwd=ROOT,
        env={**os.environ, "OFFRAILS_HISTORY": "auto", "OFFRAILS_ADMIN": "off"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_rollouts_are_judged_as_in_their_run(tmp_path: Path) -> None:
    """Each rollout of two worlds, one of them not bundled, is shown with the verdicts that its run has; the demo then ends."""
    out = tmp_path / "out"
    run = ["run", str(LAB), "shop/buy_tea", "--agent", "faulty:1", "--out", str(out)]
    assert main(run) == 0
    rollouts = [json.loads(line) for line in (out / "rollouts.jsonl").read_text().splitlines()]
    ended = shown("--run", str(out), str(LAB), "shop")
    assert (ended.returncode, ended.stderr) == (0, "")
    for each in rollouts:
        assert f"session {each['session']}\n" in ended.stdout
    assert ended.stdout.count("HARMFUL  ") == sum(each["harmful"] for each in rollouts) > 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("--run", "/nowhere"), "rollouts.jsonl: No such file"), (("--run", "{out}"), "There is no task lab/lamp")],
)  # fmt: skip
def test_what_cannot_be_shown_is_said(
    arguments: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    """A folder without a run, and a run whose tasks are not known, end the demo with a sentence."""
    out = tmp_path / "out"
    assert main(["run", str(LAB), "--agent", "golden", "--out", str(out)]) == 0
    with pytest.raises(SystemExit, match=says):
        demo([each.format(out=out) for each in arguments])


def test_a_figure_that_differs_is_named() -> None:
    """A rollout that the service judges otherwise, or not at all, is named; one without a call need not be judged."""
    figures = {"calls": 2, "harmful": 1, "harm_rate": 0.5, "prefix_crit": 0.4, "pc": 0.5}
    run = [{"session": name, **figures} for name in "ab"] + [{"session": "c", "calls": 0}]
    assert faults(run, [{"session": "a", **figures}, {"session": "b", **figures, "pc": 1}]) == [
        "b has pc 1, not 0.5"
    ]
    assert faults(run, [{"session": "a", **figures}]) == ["b is not judged"]
