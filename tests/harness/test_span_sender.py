"""A receiver that takes no spans holds a run up for a moment, and no longer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness.rollout.span_sender import FAILURES_MAX
from tests.harness.conftest import Bench


class Receiver(BaseHTTPRequestHandler):
    """Answers with the status that its server has."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1  # type: ignore[attr-defined]
        self.send_response(self.server.status(self.server.asked))  # type: ignore[attr-defined]
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.daemon_threads = True
    server.asked = 0  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def run(
    bench: Bench, server: ThreadingHTTPServer, capsys: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """Spans that were lost by four rollouts of eight spans in all, and what was said of it."""
    url = f"http://127.0.0.1:{server.server_address[1]}"
    found = bench.run("shop/price_of_tray", "--agent", "golden", "--n", "4", "--otlp", url)
    return sum(each["spans_lost"] for each in found), capsys.readouterr().err


def test_a_receiver_that_takes_nothing_is_given_up(
    bench: Bench, receiver: ThreadingHTTPServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """After three spans in a row that nobody took no more are sent; all are counted, told in one line, and the exit code is 1."""
    receiver.status = lambda _: 400  # type: ignore[attr-defined]
    lost, said = run(bench, receiver, capsys)
    assert receiver.asked == FAILURES_MAX  # type: ignore[attr-defined]
    assert (lost, bench.code) == (8, 1)
    assert said == "offrails: 8 spans were not taken by the receiver\n"


def test_a_receiver_that_fails_now_and_then_is_sent_on(
    bench: Bench, receiver: ThreadingHTTPServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A span that was taken begins the count anew: what a receiver takes in between is not lost."""
    receiver.status = lambda asked: 200 if asked % FAILURES_MAX == 0 else 400  # type: ignore[attr-defined]
    lost, _ = run(bench, receiver, capsys)
    assert receiver.asked == 8  # type: ignore[attr-defined]
    assert (lost, bench.code) == (6, 1)
