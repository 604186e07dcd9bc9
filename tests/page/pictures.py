"""Takes the documentation's pictures of the page: `python -m tests.page.pictures`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from urllib.parse import quote

from tests.end_to_end.service import Service
from tests.page.browser import Browser, Page
from tests.page.scenes import play, serve_scenes

FOLDER = Path(__file__).parents[2] / "docs" / "images"


class Shot(NamedTuple):
    """One picture: a session in a window of a size."""

    file: str
    session: str
    wide: int
    high: int
    dark: bool = False


SHOTS: Sequence[Shot] = (
    Shot("session.png", "rover-0417 field 3", 1280, 1000),
    Shot("session-narrow-dark.png", "rover-0417 field 3", 390, 1120, dark=True),
    Shot("session-reference.png", "refund, second try", 1280, 1180),
)


def take(page: Page, service: Service, shot: Shot) -> None:
    """Opens a session and writes its picture, once all of it is there."""
    page.window(shot.wide, shot.high, dark=shot.dark)
    page.open("about:blank")
    page.open(f"http://{service.addresses['admin']}/#/harvest/{quote(shot.session, safe='')}")
    page.until(lambda: page.text("main h2") == shot.session)
    page.until(lambda: page.text("#live") == "live" and "session" in page.text("#count, main"))
    page.until(lambda: page.run("document.querySelectorAll('#sessions li').length"))
    assert page.problems == []
    page.picture(FOLDER / shot.file)


def main() -> None:
    """Plays the scenes and takes all pictures."""
    os.environ["no_proxy"] = "127.0.0.1"
    with TemporaryDirectory() as folder:
        service, browser = serve_scenes(Path(folder)), Browser()
        try:
            play(service)
            page = browser.page()
            for shot in SHOTS:
                take(page, service, shot)
        finally:
            browser.close()
            service.kill()


if __name__ == "__main__":
    main()
