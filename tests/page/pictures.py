"""The pictures of the documentation, which are golden as well: `python -m tests.page.pictures` takes them.

Their sessions are from a fixed time, the page's clock shows a fixed time, and all verdicts are final: so the same
fonts give the same picture, but for what a browser rounds.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import quote

from tests.end_to_end.service import Service
from tests.page.browser import Browser, Page
from tests.page.scenes import play, scenes, serve_scenes

__all__ = ["FOLDER", "SHOTS", "Shot", "serve_pictures", "take"]

FOLDER = Path(__file__).parents[2] / "docs" / "images"
NOW_NS = 1_767_614_400 * 10**9
"""5 January 2026, 12:00 UTC."""


class Shot(NamedTuple):
    """One picture: a session in a window of a size."""

    file: str
    session: str
    wide: int
    high: int
    dark: bool = False


SHOTS: Sequence[Shot] = (
    Shot("session.png", "rover-0417 field 3", 1240, 900),
    Shot("session-dark.png", "rover-0419 field 9", 1100, 700, dark=True),
    Shot("session-narrow-dark.png", "rover-0417 field 3", 390, 940, dark=True),
    Shot("session-reference.png", "refund, second try", 1240, 1000),
)


def serve_pictures(folder: Path) -> Service:
    """A service with the scenes of the pictures, played at their fixed time."""
    service = serve_scenes(folder, OFFRAILS_SESSIONS_WINDOW_SECONDS="1")
    play(service, scenes(NOW_NS))
    return service


def take(page: Page, service: Service, shot: Shot) -> bytes:
    """Opens a session and returns its picture, once all of it is there."""
    page.window(shot.wide, shot.high, dark=shot.dark)
    page.open("about:blank")
    page.still(NOW_NS / 1e9)
    page.open(f"http://{service.addresses['admin']}/#/harvest/{quote(shot.session, safe='')}")
    page.until(lambda: page.text("main h2") == shot.session)
    page.until(lambda: page.text("#live") == "live" and page.text("#count"))
    page.until(lambda: page.run("document.querySelectorAll('#sessions li').length"))
    page.until(lambda: "Not final yet" not in page.run("document.body.textContent"))
    page.until(lambda: page.run("document.fonts.status") == "loaded")
    assert page.problems == []
    return steady(page)


def steady(page: Page) -> bytes:
    """A picture that the next one is equal to."""
    before = page.screenshot()
    for _ in range(20):
        time.sleep(0.1)
        after = page.screenshot()
        if after == before:
            break
        before = after
    return before


def main() -> None:
    """Plays the scenes and takes all pictures."""
    os.environ["no_proxy"] = "127.0.0.1"
    with TemporaryDirectory() as folder:
        service, browser = serve_pictures(Path(folder)), Browser()
        try:
            page = browser.page()
            for shot in SHOTS:
                (FOLDER / shot.file).write_bytes(take(page, service, shot))
        finally:
            browser.close()
            service.kill()


if __name__ == "__main__":
    main()
