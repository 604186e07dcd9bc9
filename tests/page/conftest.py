"""A browser for the whole run, and a service with its page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.service import SPECS, Service
from tests.page.browser import MISSING, Browser, Page


@pytest.fixture(scope="session", autouse=True)
def _no_proxy() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("no_proxy", "127.0.0.1")
        yield


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The distribution's Chromium, where it is installed."""
    if MISSING:
        pytest.skip(MISSING)
    browser = Browser()
    try:
        yield browser
    finally:
        browser.close()


class Tabs:
    """A tab for one test after the other: to make a profile, and what Chromium runs for it, takes as long as most tests."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._kept: Page | None = None

    def clear(self) -> Page:
        """A tab as a new one."""
        if self._kept is None:
            self._kept = self._browser.page()
        self._kept.clear()
        return self._kept

    def drop(self) -> None:
        """The next test has another one."""
        if self._kept is not None:
            self._kept.close()
        self._kept = None


@pytest.fixture(scope="session")
def tabs(browser: Browser) -> Iterator[Tabs]:
    """The tab of tests that leave nothing behind in it."""
    tabs = Tabs(browser)
    yield tabs
    tabs.drop()


@pytest.fixture
def page(tabs: Tabs) -> Iterator[Page]:
    """A tab as a new one, of a usual size; it is left, so that it has no connections to a service that ends."""
    page = tabs.clear()
    yield page
    if page.is_as_new:
        page.open("about:blank")
    else:
        tabs.drop()


@pytest.fixture(scope="session")
def monitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with the bundled specs, and one whose names are as bad as names can be."""
    folder: Path = tmp_path_factory.mktemp("specs")
    (folder / "hostile.yaml").write_text(HOSTILE, encoding="utf-8")
    (folder / "maze.yaml").write_text(MAZE, encoding="utf-8")
    (folder / "guarded.yaml").write_text(GUARDED, encoding="utf-8")
    service = Service(
        ("--specs", str(SPECS), "--specs", str(folder)),
        {
            "OFFRAILS_HISTORY": "complete",
            "OFFRAILS_SHOW_ARGUMENTS": "true",
            "OFFRAILS_TRACE_URL": "https://traces.example/{trace_id}?span={span_id}",
        },
    )
    try:
        yield service.wait_ready()
        assert service.stop() == 0
    finally:
        service.kill()


HOSTILE = """\
id: <img src=x onerror=alert(1)>
match: {service.name: hostile}
alphabet:
  "<script>alert(2)</script>": {tool: start}
  two: {tool: two, arguments: {x: {max: 1}}}
golden: [["<script>alert(2)</script>", two]]
"""


MAZE = """\
id: maze
match: {service.name: maze}
alphabet: {enter: {tool: enter}, leave: {tool: leave}, fall: {tool: fall}}
initial: gate
accepting: [free]
transitions: {gate: {enter: hall}, hall: {leave: free, fall: pit}, pit: {}, free: {}}
"""


GUARDED = """\
id: guarded
enforce: block
match: {service.name: guarded}
alphabet: {approve: {tool: approve}, pay: {tool: pay}}
initial: start
accepting: [paid]
transitions: {start: {approve: approved}, approved: {pay: paid}}
"""


@pytest.fixture
def serve_page() -> Iterator[Service]:
    """A service that the test itself ends."""
    service = Service(variables={"OFFRAILS_HISTORY": "complete"})
    try:
        yield service.wait_ready()
    finally:
        service.kill()
