"""What models say of a session, in a real browser: beside its verdicts, and with how far it can be trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.end_to_end.service import SPECS, Service, request
from tests.end_to_end.traffic import Rover, send
from tests.judges.fake_endpoint import FakeAnswer, completion, judged, serving
from tests.page.browser import Page
from tests.page.test_session_page import MARKUP, known, url


def answer(asked: Mapping[str, Any], number: int) -> FakeAnswer:
    """One model finds fault with the last call, in hostile words; the other one does not."""
    if asked["model"] == "other":
        return completion(judged(3))
    found = json.loads(judged(1, "s4", impact="medium"))
    found["findings"][0]["what"] = MARKUP
    found["criteria"] = "it came too early"
    return completion(json.dumps(found))


def test_what_models_say_stands_beside_the_calls(page: Page) -> None:
    """An open page shows judgements once they come: score, trust, words, and each finding beside the call that it cites, as plain text."""
    with serving(answer) as endpoint:
        service = Service(
            ("--specs", str(SPECS / "farm_rover.yaml")),
            {
                "OFFRAILS_HISTORY": "complete",
                "OFFRAILS_JUDGES_ENDPOINT": endpoint.url,
                "OFFRAILS_JUDGES_MODEL": "fake",
                "OFFRAILS_JUDGES_JUDGES": "TC",
                "OFFRAILS_JUDGES_SECOND_MODEL": "other",
            },
        ).wait_ready()
        try:
            tools = ("unlock_safety", "move", "scan", "water", "open_valve")
            send(service, Rover("judged", 101).calls(*tools).spans)
            known(service, "judged")
            page.open(url(service, "judged"))
            page.until(lambda: "out of order" in page.text("main .calls"))
            assert not page.run("document.querySelector('#judged')")
            request(service.addresses["admin"], "POST", "/api/v1/sessions/judged/end")
            page.until(lambda: page.run("document.querySelectorAll('#judged li').length") == 2)
            said = page.text("#judged")
            assert "1 of 3" in said
            assert "it came too early" in said
            assert "disputed by another model" in said
            assert "passed 0 of 1 canaries" in said
            assert "fake" in said
            beside = page.text("#call-4 .said")
            assert beside.startswith("TC (disputed): medium · Tool-related:")
            assert MARKUP in beside
            assert page.run("document.querySelectorAll('.said').length") == 1
            assert page.run("document.querySelectorAll('#judged img, .said img').length") == 0
            page.run("document.querySelector('#judged .to-call').click()")
            assert page.run("document.activeElement.id") == "call-4"
            assert page.text(".verdict").startswith("1 of 5 calls was harmful")
            assert page.problems == []
        finally:
            service.kill()
