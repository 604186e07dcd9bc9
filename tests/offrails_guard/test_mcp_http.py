"""`offrails mcp-proxy --listen --to`: a process between clients and a server that speak streamable HTTP."""

from __future__ import annotations

import gzip
import http.client
import json
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.end_to_end.loopback import free_port
from tests.end_to_end.service import ROOT, Reply, request
from tests.offrails_guard.double import DENIED, Double

ANSWER = b'{"id": 1,  "jsonrpc":"2.0","result":{"content":[]}}'


class Server:
    """A server that answers calls as it is told to, and keeps what came."""

    def __init__(self) -> None:
        self.requests: queue.Queue[tuple[str, str, dict[str, str], bytes]] = queue.Queue()
        self.events = False
        """Answers with a stream of events."""
        self.open_end = False
        """The stream goes on after the result, until `next` is set."""
        self.next = threading.Event()
        """Set: the stream of a GET goes on."""
        self.gone = threading.Event()
        """The client of a stream has left."""
        self.url = ""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_: Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Says nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self._note(body)
        if self.server_.events:
            open_end = self.server_.open_end
            parts = [b"event: message\ndata: {}\n\n", b"data: " + ANSWER + b"\n\n"]
            self._events(parts, end=not open_end)
            if open_end:
                self.server_.next.wait(20)
                self.close_connection = True
            return
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("mcp-session-id", "m1")
        self.send_header("content-length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def do_DELETE(self) -> None:
        self._note(b"")
        self.send_response(204)
        self.end_headers()

    def do_GET(self) -> None:
        self._note(b"")
        self._events([b": hello\n\n"], end=False)
        self.server_.next.wait(20)
        try:
            while True:  # until the client's end is closed
                self._part(b": more\n\n")
        except OSError:
            self.close_connection = True
            self.server_.gone.set()

    def _events(self, parts: list[bytes], *, end: bool = True) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for part in parts:
            self._part(part)
        if end:
            self.wfile.write(b"0\r\n\r\n")

    def _part(self, part: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))

    def _note(self, body: bytes) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server_.requests.put((self.command, self.path, headers, body))


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients leave when they like."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    found = Server()
    handler = type("Handler", (_Handler,), {"server_": found})
    listener = _Quiet(("127.0.0.1", 0), handler)
    found.url = f"http://127.0.0.1:{listener.server_port}"
    thread = threading.Thread(target=listener.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield found
    found.next.set()
    listener.shutdown()
    listener.server_close()


def start(double: Double, target: str, *options: str) -> tuple[subprocess.Popen[str], str]:
    """The process, and where it listens."""
    given = ("--url", double.url, "--deadline", "20", "--to", target, *options)
    process = subprocess.Popen(
        [sys.executable, "-m", "collector", "mcp-proxy", "--listen", "127.0.0.1:0", *given],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    found = re.search(r"listen=(\S+)", process.stdout.readline())
    assert found
    return process, found[1]


@pytest.fixture
def address(double: Double, server: Server) -> Iterator[str]:
    server.events = server.open_end = False
    server.next.clear()
    while not server.requests.empty():
        server.requests.get()
    process, found = start(double, server.url)
    with process:
        yield found
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def call(address: str, tool: str, **headers: str) -> Reply:
    params = {"name": tool, "arguments": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return request(address, "POST", "/mcp?x=1", json.dumps(message).encode(), names)


def test_an_allowed_call_passes_as_it_came(
    double: Double, server: Server, address: str
) -> None:
    """Path, query, headers and bytes are the client's; the answer is the server's, and settles it."""
    answer = call(address, "scan", mcp_session_id="m1", mcp_protocol_version="2026-07-28")
    method, path, headers, body = server.requests.get(timeout=20)

    assert (method, path, headers["mcp-protocol-version"]) == ("POST", "/mcp?x=1", "2026-07-28")
    assert json.loads(body)["params"]["name"] == "scan"
    assert (answer.status, answer.body, answer.headers["mcp-session-id"]) == (200, ANSWER, "m1")
    assert double.asked()["session"] == "m1"
    assert double.outcome() == ("d1", "ran")


def test_an_answer_in_events_settles_the_call(
    double: Double, server: Server, address: str
) -> None:
    """A server may answer by a stream; it passes as it came."""
    server.events = True
    answer = call(address, "scan", mcp_session_id="m1")

    assert answer.body == b"event: message\ndata: {}\n\ndata: " + ANSWER + b"\n\n"
    assert double.outcome() == ("d1", "ran")


def test_a_client_that_leaves_with_its_result_settles_the_call(
    double: Double, server: Server, address: str
) -> None:
    """The event of the result is enough; the stream's end is not waited for."""
    server.events, server.open_end = True, True
    connection = http.client.HTTPConnection(address, timeout=20)
    params = {"name": "scan", "arguments": {}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    connection.request("POST", "/mcp", json.dumps(message), {"mcp-session-id": "m1"})
    answer = connection.getresponse()
    lines = [answer.readline() for _ in range(4)]
    connection.sock.close()
    answer.close()

    assert lines[-1] == b"data: " + ANSWER + b"\n"
    assert double.outcome() == ("d1", "ran")


def test_a_denied_call_never_reaches_the_server(server: Server, address: str) -> None:
    """The client reads a result that is an error, with the reason."""
    answer = call(address, "water", mcp_session_id="m1")
    result = answer.json()["result"]

    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert (result["isError"], result["content"][0]["text"]) == (True, DENIED)
    assert server.requests.empty()


@pytest.mark.parametrize(("policy", "passes"), [("allow", True), ("deny", False)])
def test_a_client_without_a_session_is_asked_for(
    double: Double, server: Server, policy: str, passes: bool
) -> None:
    """What is denied whatever came before is not made. Where what came before decides, the setting does, and that is said once."""
    while not server.requests.empty():
        server.requests.get()
    server.events = False
    process, address = start(double, server.url, "--on-unavailable", policy)
    with process:
        assert call(address, "water").json()["result"]["isError"] is True
        assert server.requests.empty()
        for _ in range(2):
            call(address, "what")
        assert server.requests.qsize() == 2 * passes
        assert not {"session", "trace_id"} & double.asked().keys()
        process.send_signal(signal.SIGTERM)
        told = process.communicate(timeout=20)[1]
    assert told.count("no decision (no_session: ") == 1
    assert "give a session" in told


def test_a_session_that_the_server_names_is_new(double: Double, address: str) -> None:
    """Its first calls are said to be that, until one has gone on; a session that came with its name is not."""
    opened = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'
    assert request(address, "POST", "/mcp", opened).headers["mcp-session-id"] == "m1"
    for tool in ("water", "scan", "scan"):
        call(address, tool, mcp_session_id="m1")
    call(address, "scan", mcp_session_id="m2")

    assert [double.asked().get("new_session", False) for _ in range(4)] == [
        True,
        True,
        False,
        False,
    ]


WATER = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"water"}}'
NOTE = b'{"jsonrpc":"2.0","method":"tools/call","params":{"name":"water"}}'


@pytest.mark.parametrize(
    ("method", "body", "headers", "status"),
    [
        ("POST", WATER.decode().encode("utf-16"), {}, 200),
        ("POST", WATER, {"content-type": "application/json; charset=UTF-8"}, 200),
        ("PUT", WATER, {}, 200),
        ("POST", NOTE, {}, 403),
        ("POST", b"[" + NOTE + b"]", {}, 403),
        ("POST", WATER[:-1], {}, 400),
        ("POST", gzip.compress(WATER, mtime=0), {"content-encoding": "gzip"}, 415),
        ("POST", WATER, {"content-encoding": "br"}, 415),
        ("POST", b"+AHs-", {"content-type": "application/json; charset=utf-7"}, 415),
        ("POST", b"+AHs-", {"content-type": 'application/json; Charset = "UTF-16LE"'}, 415),
    ],
)
def test_a_denied_call_reaches_no_server_however_it_is_written(
    server: Server, address: str, method: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    """In other encodings it is read; what only the server could decode is not passed on; a notification is a call."""
    answer = request(address, method, "/mcp", body, {"mcp-session-id": "m1", **headers})

    assert (answer.status, server.requests.empty()) == (status, True)


def test_a_client_that_leaves_before_the_decision_makes_no_call(
    double: Double, server: Server, address: str
) -> None:
    """The call has not gone on by then, so it does not; the service learns that."""
    double.mode = "hang"
    connection = http.client.HTTPConnection(address, timeout=20)
    connection.request(
        "POST", "/mcp", WATER.replace(b"water", b"scan"), {"mcp-session-id": "m1"}
    )
    double.asked()
    connection.close()
    request(address, "DELETE", "/mcp")  # the proxy is alive
    double.resume.set()

    assert double.outcome() == ("d1", "skipped")
    assert [server.requests.get()[0] for _ in range(server.requests.qsize())] == ["DELETE"]


def test_the_trace_of_a_request_is_sent(double: Double, address: str) -> None:
    """Where a client has no session, the header of its trace names one."""
    trace = "0af7651916cd43dd8448eb211c80319c"
    call(address, "scan", traceparent=f"00-{trace}-b7ad6b7169203331-01")
    asked = double.asked()

    assert (asked.get("session"), asked["trace_id"]) == (None, trace)


def test_other_methods_pass(double: Double, server: Server, address: str) -> None:
    """The end of a session is the server's business."""
    assert request(address, "DELETE", "/mcp").status == 204
    assert server.requests.get(timeout=20)[0] == "DELETE"
    assert double.decisions.empty()


def test_a_stream_passes_part_by_part(server: Server, address: str) -> None:
    """What a server sends arrives before its stream ends; a client that leaves ends the server's stream."""
    connection = http.client.HTTPConnection(address, timeout=20)
    connection.request("GET", "/mcp", headers={"accept": "text/event-stream"})
    answer = connection.getresponse()
    first = answer.readline()
    server.next.set()
    second = [answer.readline() for _ in range(2)][1]
    connection.sock.close()
    answer.close()

    assert (first, second) == (b": hello\n", b": more\n")
    assert server.gone.wait(20)


def test_a_server_that_is_gone_is_a_502(double: Double) -> None:
    """The client learns that it is the server, and no call is left unsettled in silence."""
    process, address = start(double, f"http://127.0.0.1:{free_port()}")
    with process:
        assert call(address, "scan", mcp_session_id="m1").status == 502
        assert double.outcome() == ("d1", "failed")
        process.terminate()


def test_pages_of_other_sites_are_refused(server: Server, address: str) -> None:
    """A page in the user's browser cannot call tools through the proxy, by name or by origin."""
    by_name = call(address, "scan", host="rebound.example")
    by_origin = call(address, "scan", origin="http://rebound.example")

    assert (by_name.status, by_origin.status) == (403, 403)
    assert server.requests.empty()


@pytest.mark.parametrize(
    "options",
    [
        ("--listen", "127.0.0.1:0"),
        ("--to", "http://h"),
        ("--listen", "127.0.0.1:0", "--to", "http://h", "--", "x"),
    ],
)
def test_half_a_pair_of_options_is_a_usage_error(options: tuple[str, ...]) -> None:
    """Exit code 2 says what is expected."""
    done = subprocess.run(
        [sys.executable, "-m", "collector", "mcp-proxy", *options],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=30,
    )  # fmt: skip

    assert done.returncode == 2
    assert "expected" in done.stderr
