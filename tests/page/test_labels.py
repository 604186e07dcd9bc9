"""Labels of a verdict, in a real browser: two buttons with a note for operators, what was said for everybody."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from tests.end_to_end.service import SPECS, Service, eventually
from tests.end_to_end.traffic import Rover, send
from tests.page.browser import Page
from tests.page.test_session_page import MARKUP, known, url


def test_two_buttons_label_the_verdict(page: Page, tmp_path: Path) -> None:
    """A click keeps the label with its note for the spec that is shown; notes enter as text, and are there after a reload."""
    service = Service(
        ("--specs", str(SPECS / "farm_rover.yaml")),
        {"OFFRAILS_HISTORY": "complete", "OFFRAILS_ARCHIVE_DIR": str(tmp_path / "archive")},
    ).wait_ready()
    try:
        send(service, Rover("told", 403).calls("unlock_safety", "water").spans)
        known(service, "told")
        page.open(url(service, "told"))
        page.until(lambda: page.run("document.querySelector('#label-wrong') !== null"))
        page.run(
            "(() => { const note = document.querySelector('#label-note');"
            f" note.value = {json.dumps(MARKUP)}; note.dispatchEvent(new Event('input'));"
            " document.querySelector('#label-wrong').click(); })()"
        )
        page.until(lambda: MARKUP in page.text("main"))
        assert page.text("#labels .chip") == "wrong"
        assert page.run("document.querySelector('#label-note').value") == ""

        def labels() -> list[tuple[str, str, str]]:
            found = json.loads(service.get("/api/v1/sessions/told").body)["labels"]
            return [(each["label"], each["note"], each["spec"]) for each in found]

        eventually(lambda: labels() == [("wrong", MARKUP, "farm_rover")])
        page.run("document.querySelector('#label-right').click()")
        eventually(lambda: len(labels()) == 2)
        page.open(url(service, "told"))
        page.until(partial(page.run, "document.querySelectorAll('#labels li').length === 2"))
        assert page.text("#labels .chip") == "right"
        assert page.run("document.querySelectorAll('#labels img').length") == 0
        assert page.problems == []
    finally:
        service.kill()


def test_without_an_archive_nothing_can_be_labelled(page: Page, monitor: Service) -> None:
    """Where no label would be kept, no button is shown."""
    send(monitor, Rover("unkept", 404).calls("unlock_safety", "water").spans)
    known(monitor, "unkept")
    page.open(url(monitor, "unkept"))
    page.until(lambda: "out of order" in page.text("main .calls"))
    assert page.run("document.querySelector('#label-wrong') === null")
