"""`offrails mcp-proxy -- COMMAND`: a process between a client and a server on standard input and output."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.loopback import free_port
from tests.end_to_end.service import ROOT
from tests.offrails_guard.double import DENIED, Double

SERVER = Path(__file__).with_name("mcp_server.py")


def call_of(tool: str, id_: int) -> bytes:
    params = {"name": tool, "arguments": {"field": 3}}
    message = {"jsonrpc": "2.0", "id": id_, "method": "tools/call", "params": params}
    return json.dumps(message).encode()


class Client:
    """Writes lines to the proxy and reads lines from it."""

    def __init__(self, process: subprocess.Popen[bytes], notes: Path) -> None:
        self.process = process
        self._notes = notes

    def write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def send(self, line: bytes) -> bytes:
        """One line, and the line that answers it."""
        self.write(line)
        return self.read()

    def call(self, tool: str, id_: int = 1) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.send(call_of(tool, id_)))
        return found

    def noted(self) -> list[bytes]:
        """What the server has read."""
        return self._notes.read_bytes().splitlines() if self._notes.exists() else []


Start = Callable[..., Client]


@pytest.fixture
def start(double: Double, tmp_path: Path) -> Iterator[Start]:
    """Starts the proxy before the tiny server."""
    with ExitStack() as stack:

        def client(*options: str, url: str = "", command: tuple[str, ...] = ()) -> Client:
            notes = tmp_path / "notes"
            server = command or (sys.executable, str(SERVER), str(notes))
            given = ("--url", url or double.url, "--deadline", "20", *options)
            process = subprocess.Popen(
                [sys.executable, "-m", "collector", "mcp-proxy", *given, "--", *server],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return Client(process, notes)

        yield client


def test_everything_else_passes_as_it_came(start: Start, double: Double) -> None:
    """Bytes in both directions are those of the client and of the server; nobody is asked."""
    client = start()
    line = b'{"method" : "tools/list","id":1.0,   "jsonrpc":"2.0","x":"\\u00e9\xc3\xa9"}'

    assert client.send(line) == b'{"jsonrpc":"2.0" , "echo":' + line + b"}\n"
    assert client.noted() == [line]
    assert double.decisions.empty()


def test_an_allowed_call_passes_as_it_came(start: Start, double: Double) -> None:
    """The service is asked; the answer of the server comes back as the server wrote it."""
    client = start("--agent", "rover", "--service", "farm")
    line = b'{"jsonrpc":"2.0", "id":1 ,"method":"tools/call","params":{"name":"scan","arguments":{"a":1}}}'
    answer = client.send(line)

    assert answer.startswith(b'{"id" : 1, "jsonrpc" : "2.0"')
    assert client.noted() == [line]
    asked = double.asked()
    assert asked["session"].startswith("mcp-")
    assert (asked["agent"], asked["service"]) == ("rover", "farm")
    assert asked["calls"] == [{"tool": "scan", "arguments": {"a": 1}}]


def test_a_denied_call_never_reaches_the_server(start: Start, double: Double) -> None:
    """The client reads an error with the reason, the service learns of it, and the next call goes on."""
    client = start()
    denied, allowed = client.call("water", 1), client.call("scan", 2)

    assert denied["result"]["isError"] is True
    assert denied["result"]["content"][0]["text"] == DENIED
    assert allowed["result"]["content"][0]["text"] == "scan"
    assert [json.loads(line)["id"] for line in client.noted()] == [2]
    assert sorted(double.outcome() for _ in range(2)) == [("d1", "skipped"), ("d2", "ran")]


@pytest.mark.parametrize(
    ("tool", "outcome"),
    [("scan", "ran"), ("fail", "failed"), ("crash", "failed"), ("ask", "skipped")],
)
def test_the_outcome_is_sent(start: Start, double: Double, tool: str, outcome: str) -> None:
    """What the server answers settles the decision."""
    start().call(tool)

    assert double.outcome() == ("d1", outcome)


def test_calls_of_one_process_are_one_session(start: Start, double: Double) -> None:
    """A client has a server of its own; --session and a trace of the client's go before."""
    client = start()
    client.call("scan", 1)
    client.call("scan", 2)
    trace = "0af7651916cd43dd8448eb211c80319c"
    meta = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
    params = {"name": "scan", "_meta": meta}
    line = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params}
    client.send(json.dumps(line).encode())
    first, second, third = (double.asked() for _ in range(3))

    assert first["session"] == second["session"]
    assert (first.get("new_session"), second.get("new_session")) == (True, None)
    assert "session" not in third
    assert third["trace_id"] == trace
    assert third["calls"][0]["parent_span_id"] == "b7ad6b7169203331"
    start("--session", "s1").call("scan")
    assert double.asked()["session"] == "s1"


@pytest.mark.parametrize(("setting", "made"), [("allow", True), ("deny", False)])
def test_without_a_service_it_is_the_setting(start: Start, setting: str, made: bool) -> None:
    """The call goes on, or is answered with what the model can do about it."""
    client = start("--on-unavailable", setting, url=f"http://127.0.0.1:{free_port()}")
    result = client.call("water")["result"]

    assert result["isError"] is not made
    assert ("try it again later" in result["content"][0]["text"]) is not made


@pytest.mark.parametrize(("setting", "passes"), [("allow", True), ("deny", False)])
def test_what_cannot_be_read_is_the_settings(start: Start, setting: str, passes: bool) -> None:
    """The server says what is wrong with it, unless nothing may pass unseen."""
    client = start("--on-unavailable", setting)
    line = b'{"id":1,"id":1,"jsonrpc":"2.0","method":"tools/list"}'
    answer = client.send(line)

    assert (client.noted() == [line]) is passes
    assert (b"error" in answer) is not passes


def test_calls_are_asked_about_side_by_side(start: Start, double: Double) -> None:
    """A call does not wait for the decision on the one before it, and what is no call waits for none."""
    client = start()
    double.mode = "hang"
    for number in range(3):
        client.write(call_of("scan", number))
    asked = [double.asked()["calls"][0]["tool"] for _ in range(3)]
    ping = client.send(b'{"jsonrpc":"2.0","id":9,"method":"ping"}')
    double.resume.set()
    answers = [json.loads(client.read())["id"] for _ in range(3)]

    assert asked == ["scan"] * 3
    assert b'"id":9' in ping
    assert sorted(answers) == [0, 1, 2]


def cancellation(id_: int) -> bytes:
    params = {"requestId": id_}
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    return json.dumps(message).encode()


def test_a_call_that_is_cancelled_before_its_decision_is_not_made(
    start: Start, double: Double
) -> None:
    """It gets no answer, the service learns that it is not made, and the server hears of neither."""
    client = start()
    double.mode = "hang"
    client.write(call_of("scan", 1))
    double.asked()
    client.write(cancellation(1))
    client.send(b'{"jsonrpc":"2.0","id":9,"method":"ping"}')  # the cancellation was read
    double.resume.set()

    assert double.outcome() == ("d1", "skipped")
    double.mode = "decide"
    assert client.call("log", 2)["id"] == 2
    assert [json.loads(line)["id"] for line in client.noted()] == [9, 2]


def test_the_cancellation_of_a_call_that_has_gone_on_passes(
    start: Start, double: Double
) -> None:
    """What the server has, it can give up."""
    client = start()
    client.call("scan", 1)
    client.send(cancellation(1))

    assert client.noted()[1:] == [cancellation(1)]


@pytest.mark.parametrize("setting", ["allow", "deny"])
@pytest.mark.parametrize(
    "line",
    [
        b'{"method":"tools/call","params":{"name":"scan","name":"water"},"id":1}',
        b'{"method":"tools/call","params":{"name":"water"},"id":1',
        b'{"method":"tools/call","params":{"arguments":{}},"id":1}',
    ],
)
def test_what_may_be_a_call_of_no_known_tool_goes_nowhere(
    start: Start, setting: str, line: bytes
) -> None:
    """The client reads an error, whatever is set for a service that cannot be asked."""
    client = start("--on-unavailable", setting)

    assert "error" in json.loads(client.send(line))
    assert client.noted() == []


def test_it_ends_with_its_client(start: Start) -> None:
    """Where the client closes our input, the server's input ends, and then the proxy."""
    client = start()
    client.call("scan")
    out, err = client.process.communicate(timeout=30)

    assert (client.process.returncode, out, err) == (0, b"", b"")


def test_it_ends_with_its_server(start: Start) -> None:
    """The exit code is the server's, though the client's end is still open."""
    client = start()
    assert client.send(b'{"jsonrpc":"2.0","method":"exit"}') == b""

    assert client.process.wait(30) == 7


def test_a_signal_ends_both(start: Start) -> None:
    """SIGTERM to the proxy is the server's, too; the exit code is that of a shell."""
    client = start()
    client.call("scan")
    client.process.send_signal(signal.SIGTERM)

    assert client.process.wait(30) == 128 + signal.SIGTERM


def test_a_command_that_is_none_is_said(start: Start) -> None:
    """One line names it; the exit code is 1."""
    client = start(command=("/nowhere/server",))
    _, err = client.process.communicate(timeout=30)

    assert client.process.returncode == 1
    assert err.decode().splitlines() == ["offrails: /nowhere/server: No such file or directory"]


def test_no_command_is_a_usage_error() -> None:
    """Exit code 2 says what is expected."""
    done = subprocess.run(
        [sys.executable, "-m", "collector", "mcp-proxy"],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip

    assert done.returncode == 2
    assert "expected -- COMMAND..., or --listen and --to" in done.stderr
