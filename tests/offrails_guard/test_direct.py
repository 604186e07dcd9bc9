"""The guard of a process that asks once, and whose time its deadline counts."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from offrails_guard import Call
from offrails_guard.cli.direct import DirectGuard
from offrails_guard.transport.patience import SLICE_SECONDS, Patience
from tests.end_to_end.certificates import authority, have_openssl, issue
from tests.end_to_end.loopback import free_port
from tests.offrails_guard.double import DENIED, Double, running
from tests.offrails_guard.test_client import FAILURES, SOON

PATIENT = 20.0


def make(double: Double, **options: Any) -> DirectGuard:
    options = {"session": "s1", "deadline_seconds": PATIENT, **options}
    return DirectGuard(options.pop("url", double.url), **options)


def test_it_asks_as_the_other_guard_does(double: Double) -> None:
    """Decisions, groups, outcomes, and arguments that the service cannot read."""
    guard = make(double, token="secret")
    double.token = "secret"
    assert guard.check("water", {}).message == DENIED
    assert [each.decision for each in guard.check_all([Call("scan"), Call("what")])] == [
        "allow",
        "unknown",
    ]
    assert asyncio.run(guard.acheck("water", {})).decision == "deny"
    guard.outcome("d2", "ran")
    assert double.outcome() == ("d2", "ran")
    double.mode = "arguments_unreadable"
    assert guard.check("water", {"field": 3}).decision == "deny"
    assert guard.counts() == {"deny": 3, "allow": 1, "unknown": 1}


def test_a_result_that_is_not_read_costs_no_outcome(double: Double) -> None:
    """Whether JSON does not have it or the service refuses it, the outcome arrives, and the loss is counted."""
    guard = make(double)
    guard.outcome("d1", "ran", (float("nan"),))
    double.mode = "result_unreadable"
    guard.outcome("d2", "failed", ({"status": "ok"},))

    assert [double.outcome(), double.outcome()] == [("d1", "ran"), ("d2", "failed")]
    assert (double.results, guard.counts()) == ([], {"results_lost": 2})


@pytest.mark.parametrize("mode", FAILURES)
@pytest.mark.parametrize(("setting", "allowed"), [("allow", True), ("deny", False)])
def test_a_failing_service_leaves_it_to_the_setting(
    double: Double, mode: str, setting: str, allowed: bool
) -> None:
    """Whatever fails, the decision is the setting's, says why, and is counted."""
    deadline = SOON if mode == "hang" else PATIENT
    guard = make(double, on_unavailable=setting, deadline_seconds=deadline)
    double.mode = mode
    decision = guard.check("water", {})

    assert (decision.allowed, decision.unavailable) == (allowed, FAILURES[mode])
    assert guard.counts() == {FAILURES[mode]: 1, "unjudged": 1}


def test_nobody_is_there(double: Double) -> None:
    """A refused connection, and an outcome that is lost by it."""
    guard = make(double, url=f"http://127.0.0.1:{free_port()}")
    guard.outcome("d1", "ran")

    assert guard.check("scan").unavailable == "connection"
    assert guard.counts() == {"connection": 1, "unjudged": 1, "outcomes_lost": 1}


def test_a_unix_socket(tmp_path: Path) -> None:
    """The service can be asked over a socket of the file system; one that is gone is said."""
    with running(tmp_path / "decide.sock") as double:
        assert make(double).check("water", {}).decision == "deny"
    assert make(double, url=f"unix:{tmp_path}/none").check("water").unavailable == "connection"


@contextmanager
def dripping(text: bytes) -> Iterator[str]:
    """A service that sends its answer byte by byte, and never ends it."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            line, _ = listener.accept()
            with line, suppress(OSError):
                for place in range(len(text)):
                    line.sendall(text[place : place + 1])
                    over.wait(SLICE_SECONDS / 4)
                over.wait()

        thread = threading.Thread(target=drip)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        over.set()
        thread.join()


def test_an_answer_that_drips_is_waited_for_no_longer(double: Double) -> None:
    """Each wait for a byte counts, also if it is shorter than the guard was ready for."""
    with dripping(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n") as url:
        guard = make(double, url=url, deadline_seconds=4 * SLICE_SECONDS)
        assert guard.check("water").unavailable == "deadline"


@pytest.mark.skipif(not have_openssl(), reason="needs openssl")
def test_tls(tmp_path: Path) -> None:
    """A service behind TLS is asked if its authority is trusted; else there is no answer."""
    ours, others = authority(tmp_path), authority(tmp_path, "others")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*issue(ours, tmp_path, "server"))
    with running(tls=context) as double:
        assert make(double, ca=str(ours.cert)).check("water", {}).decision == "deny"
        stranger = make(double, ca=str(others.cert))
        assert stranger.check("water", {}).unavailable == "connection"


# --- whose time it is --------------------------------------------------------------------------------


class Host:
    """A clock, and a file that is ready after so many waits; each wait takes as long as it is told to."""

    def __init__(self, ready_after: int, takes: float) -> None:
        self.now = 0.0
        self.waits = 0
        self._ready_after = ready_after
        self._takes = takes

    def monotonic(self) -> float:
        return self.now

    def select(
        self, read: list[int], write: list[int], _: list[int], seconds: float
    ) -> tuple[list[int], list[int], list[int]]:
        self.waits += 1
        self.now += max(seconds, self._takes)
        return (read, write, []) if self.waits > self._ready_after else ([], [], [])


def test_time_without_the_processor_is_not_the_services(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where each wait takes ten seconds since others run, a patience of a second has as many waits as on a quiet host."""
    waits = []
    for takes in (0.0, 10.0):
        host = Host(ready_after=10_000, takes=takes)
        monkeypatch.setattr("offrails_guard.transport.patience.time", host)
        monkeypatch.setattr("offrails_guard.transport.patience.select", host)
        patience = Patience(1.0)
        with pytest.raises(TimeoutError):
            patience.wait(0)
        waits.append(host.waits)

    assert waits[0] == pytest.approx(1.0 / SLICE_SECONDS, abs=1)
    assert waits[1] == pytest.approx(waits[0], abs=1)
