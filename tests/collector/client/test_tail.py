"""Verdicts in a terminal: one line each, whatever an agent calls itself."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.client.api_client import NoAnswerError
from collector.client.tail import Filters, formatted, lines, tail
from collector.sinks.event import as_event
from monitor.records import Kind, Reason, SessionKey, Verdict
from tests.end_to_end.loopback import Loopback, Quiet

HARMFUL: dict[str, Any] = {
    "agent": "rover",
    "spec": "farm_rover",
    "session": "s",
    "step": 2,
    "tool": "water",
    "kind": "harmful",
    "reason": "out_of_order",
    "severity": "critical",
    "allowed": ["move"],
    "skipped": ["move", "scan"],
    "revised_from": None,
}


class Service(Loopback):
    """A stand-in for the admin listener."""

    def __init__(self, body: bytes, status: int = 200) -> None:
        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body)

        super().__init__(Handler)


@pytest.fixture
def service() -> Iterator[Service]:
    made = [HARMFUL, {**HARMFUL, "kind": "progress", "agent": "other"}, {"missed": 3}]
    running = Service(b"\n" + b"".join(json.dumps(each).encode() + b"\n" for each in made))
    yield running
    running.close()


def _shown(service: Service, filters: Filters) -> list[str]:
    found: list[str] = []
    tail(service.url, filters, found.append, colour=False)
    return found


def test_who_waits_reads_that_the_connection_is_there(service: Service) -> None:
    """One sentence, before the first verdict, without the address's user and password."""
    found: list[str] = []
    url = service.url.replace("http://", "http://me:secret@")
    tail(url, Filters(), found.append, colour=False, note=found.append)
    address = service.url.removeprefix("http://")
    assert found[0] == f"connected to http://{address}, waiting for the first verdict"
    assert len(found) == 4


def test_a_harmful_call_says_why() -> None:
    """Reason, severity, what was allowed and what was skipped are on its line."""
    assert formatted(HARMFUL, colour=False) == (
        "harmful    rover  farm_rover  s#2  water  out_of_order (critical)"
        "  allowed: move  skipped: move, scan"
    )
    assert formatted(HARMFUL, colour=True).startswith("\x1b[1;31mharmful  \x1b[0m")


def test_a_sentence_says_why() -> None:
    """It stands behind the reason, on its line and with everything escaped that is not printable."""
    why = '`amount` ("9\n\x1b[2J") is not "5"; the nearest symbol is `pay`'
    line = formatted({**HARMFUL, "reason": "argument_mismatch", "detail": why}, colour=False)
    assert 'argument_mismatch (critical)  `amount` ("9\\n\\x1b[2J") is not "5"' in line
    assert line.isprintable()
    assert "nearest" not in formatted(
        {**HARMFUL, "kind": "progress", "detail": None}, colour=False
    )


def test_a_withdrawn_harm_says_so() -> None:
    """A revision names what the call was before."""
    line = formatted({**HARMFUL, "kind": "progress", "revised_from": "harmful"}, colour=True)

    assert line.startswith("\x1b[33m")
    assert line.endswith("(was harmful)")


def test_a_verdict_on_a_session_says_which_limit() -> None:
    """The rule that was not kept stands beside the reason."""
    told = {**HARMFUL, "kind": "cannot_finish", "reason": "deadline", "skipped": []}
    assert formatted({**told, "constraint": "open -> water within 20 s"}, colour=False) == (
        "cannot_finish  rover  farm_rover  s#2  water  deadline (critical)"
        "  open -> water within 20 s  allowed: move"
    )
    back = formatted({**HARMFUL, "kind": "self_loop", "revised_from": "stalled"}, colour=True)
    assert back.startswith("\x1b[33m")


@given(st.text())
def test_hostile_text_stays_text(text: str) -> None:
    """No name moves the cursor, changes the colour, or begins another line."""
    hostile = {**HARMFUL, "agent": text, "tool": text, "session": text, "allowed": [text]}

    assert formatted(hostile, colour=False).isprintable()


def test_filters(service: Service) -> None:
    """Verdicts are filtered by agent, spec, session and kind. Missed verdicts are always reported."""
    missed = "... 3 verdicts missed: this reader is too slow"
    assert len(_shown(service, Filters())) == 3
    assert _shown(service, Filters(agent="nobody")) == [missed]
    assert len(_shown(service, Filters(agent="other"))) == 2
    assert len(_shown(service, Filters(kinds=frozenset({"harmful"})))) == 2
    assert _shown(service, Filters(spec="another", session="s")) == [missed]


def test_no_service_there() -> None:
    """A sentence that names the place."""
    gone = Service(b"")
    gone.close()
    for url in (gone.url, "ftp://x", "http://127.0.0.1:nonsense"):
        with pytest.raises(NoAnswerError, match=r"127\.0\.0\.1|ftp"):
            tail(url, Filters(), print, colour=False)


def test_a_service_that_refuses() -> None:
    """The error shows the status of the response."""
    refusing = Service(b"", 404)
    with pytest.raises(NoAnswerError, match="404"):
        tail(refusing.url, Filters(), print, colour=False)
    refusing.close()


def test_who_hangs_up_may_speak_tls() -> None:
    """If the listener hangs up, the error suggests TLS: a TLS listener answers plain HTTP with nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up() -> None:
            client, _ = server.accept()
            with client:
                client.recv(4096)

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(
            NoAnswerError, match="without response; if it speaks TLS, ask for https"
        ):
            tail(f"127.0.0.1:{server.getsockname()[1]}", Filters(), print, colour=False)
        thread.join()


def test_empty_lines_keep_alive() -> None:
    """Empty lines keep the connection alive and are no verdicts."""
    assert list(lines([b"\n", b"{}\n", b"[]\n"])) == [{}]


def test_the_verb(service: Service) -> None:
    """`offrails tail URL --kind harmful --json` prints one object; it says that the service stopped."""
    done = subprocess.run(
        [sys.executable, "-m", "collector", "tail", service.url, "--kind", "harmful", "--json"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"offrails: connected to {service.url}, waiting for the first verdict",
        "offrails: the service has stopped",
    ]
    assert json.loads(done.stdout.splitlines()[0]) == HARMFUL


def test_the_page_of_the_api_shows_a_verdict_as_it_is() -> None:
    """The example has every field that a line of the stream has, in its order, and no other."""
    text = (Path(__file__).parents[3] / "docs" / "api.md").read_text()
    shown = json.loads(text.partition("```json\n")[2].partition("```")[0])
    verdict = Verdict(
        session=SessionKey("", "field-7"),
        agent="rover",
        spec="farm_rover",
        spec_version="1",
        mode="page",
        kind=Kind.HARMFUL,
        reason=Reason.OUT_OF_ORDER,
        severity="critical",
        step=2,
        tool="water",
        symbol="water",
        skipped=("move", "scan", "open_valve"),
        allowed=("move",),
        state_before="unlocked",
        state="unlocked",
        final=False,
        revised_from=None,
        trace_id=(1).to_bytes(16, "big"),
        span_id=bytes.fromhex("0000000200000002"),
        detail="`water` is not allowed yet in state `unlocked`",
    )

    assert list(shown) == list(as_event(verdict))
    assert shown == as_event(verdict)
