"""`make demo ARGS=--data`: rules over data deny a refund of an order that was not looked up, by name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from monitor import load_specs
from tests.demo.data import PREVENTED, blocking, faults
from tests.demo.desk import POLICIES
from tests.end_to_end.service import ROOT


@pytest.fixture(scope="module")
def ended() -> subprocess.CompletedProcess[str]:
    """One run."""
    return subprocess.run(
        [sys.executable, "-m", "tests.demo", "--data"],
        cwd=ROOT,
        env={**os.environ, "OFFRAILS_HISTORY": "auto", "OFFRAILS_ADMIN": "off"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def test_it_ends_by_itself_with_success(ended: subprocess.CompletedProcess[str]) -> None:
    """Exit 0, and nothing on standard error: every promise of the demo was kept."""
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "NOT as promised" not in ended.stdout


def test_the_refund_of_another_order_is_denied_by_name(
    ended: subprocess.CompletedProcess[str],
) -> None:
    """The desk looked up B7: a refund of A1 is denied and named, and runs once A1 was looked up."""
    job = ended.stdout.partition("session 2 ")[2].partition("\nsession 3 ")[0]
    made = re.findall(r'^ +(\w+)\(order_id="(\w+)"\) +(ok|DENIED)$', job, re.MULTILINE)
    assert made == [
        ("look_up_order", "B7", "ok"),
        ("refund", "A1", "DENIED"),
        ("look_up_order", "A1", "ok"),
        ("refund", "A1", "ok"),
    ]
    assert (
        "refused: `refund` of order A1 needs `look_up_order` (look_up) of order A1 first" in job
    )


def test_the_second_refund_and_the_address_of_a_page_are_denied(
    ended: subprocess.CompletedProcess[str],
) -> None:
    """One refund an order; mail goes to an address of the contacts, and not to one of a page."""
    listed = ended.stdout.partition("what was prevented")[2]
    assert re.findall(r"(\d) .+? (\w+) +(out of order|repeated|forbidden)$", listed, re.MULTILINE) == [
        ("2", "refund", "out of order"),
        ("3", "refund", "repeated"),
        ("4", "send_email", "forbidden"),
    ]  # fmt: skip
    assert "`refund` of order A1 was done already" in ended.stdout


def test_a_broken_promise_is_told() -> None:
    """Harm, and a call too many or too few that is denied, each have a line, so the demo exits with 1."""
    well: dict[str, Any] = {"session": "s", "spec": "looked_up_first", "harmful": 0}
    denied = {name: [{"tool": tool} for tool in tools] for name, tools in PREVENTED.items()}

    assert faults([well], denied) == []
    assert len(faults([{**well, "harmful": 1}], denied)) == 1
    assert len(faults([well], {**denied, "1 by the book": [{"tool": "refund"}]})) == 1
    assert len(faults([], {})) == 3


def test_the_policies_block_in_the_demo(tmp_path: Path) -> None:
    """The specs are the two bundled policies, but for `enforce: block`."""
    specs = load_specs([str(blocking(tmp_path))]).specs

    assert {spec.id: spec.enforce for spec in specs} == dict.fromkeys(POLICIES, "block")
