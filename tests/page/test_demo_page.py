"""The demo with its page open, as on a first try of offrails."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.end_to_end.service import ROOT
from tests.page.browser import Page


@pytest.fixture
def demo() -> Iterator[subprocess.Popen[str]]:
    """A demo that stays; it ends as by Ctrl-C."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.demo", "--stay"],
        cwd=ROOT,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()  # SIGINT is ignored where the tests run in the background
            process.wait(20)


@pytest.mark.long
def test_demo_is_on_the_page(demo: subprocess.Popen[str], page: Page) -> None:
    """The printed address shows sessions as they come, and why the worst call was harmful."""
    assert demo.stdout is not None
    address = next(
        found[1] for line in demo.stdout if (found := re.match(r"  page +(\S+)", line))
    )
    page.open(address)
    page.until(lambda: page.text("#live") == "live")
    told = next(line for line in demo.stdout if "until you press Ctrl-C" in line)
    assert address in told
    page.until(lambda: page.run("document.querySelectorAll('#sessions li').length") == 7)
    page.until(lambda: "water again and again" in page.text("#sessions li:first-child .name"))
    page.run("document.querySelector('#sessions a').click()")
    page.until(lambda: "The task is done." in page.text(".verdict"))
    assert "2 of 8 calls were harmful" in page.text(".verdict")
    assert page.problems == []
