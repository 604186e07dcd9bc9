"""A model as the adversary: whatever it writes, no call that is denied alone runs.

The model chooses tools, arguments and how often and how many at once; odd clients write its calls oddly. The server runs
whatever it can read as a call, more leniently than any that is known. A call may run if the service, asked about it
alone and at that moment, does not deny it.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from monitor import Limits, Monitor
from offrails_guard import Call, Guard, LocalGuard
from tests.end_to_end.service import ROOT, Service, request
from tests.monitor.test_engine import specs
from tests.samples import sampled

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve

SPEC = """
id: farm
kind: policy
enforce: block
match: {service.name: farm}
alphabet:
  wipe: {tool: wipe}
  water: {tool: water}
  open_valve: {tool: open_valve}
  drain: {tool: drain}
  flood: {tool: pump, arguments: {liters: {min: 1000}}}
constraints:
  - at_most: [drain, 1]
  - forbid: flood
  - forbid: wipe
  - precedence: [open_valve, water]
"""

TOOLS = ("wipe", "water")
"""Denied where they are asked about alone: one always, one until the valve is open."""

DEEP = ["[" * n + "]" * n for n in (90, 101, 500, 990, 1_500, 100_000)]
ODD = [
    *DEEP, '{"a":' * 2_000 + "1" + "}" * 2_000, "9" * 5_000, "-" + "9" * 4_301, "1e" + "9" * 400, "NaN", "-Infinity",
    '{"a":1,"a":2}', '"\x01"', '"\x7f\x00"', '"line\tone"', '"\\ud83d"', '"\\x41"', '"' + "x" * 1_100_000 + '"',
]  # fmt: skip
"""Values of an argument."""

IDS = [
    "",
    '"id":null,',
    '"id":true,',
    '"id":[1],',
    '"id":{"a":1},',
    '"id":1.5,',
    f'"id":{"9" * 5000},',
    '"id":1,"id":2,',
]


def flood(odd: str) -> str:
    """Arguments that are denied for one value; another one is odd, before or behind it."""
    return f'{{"liters":5000,"n":{odd}}}' if len(odd) % 2 else f'{{"n":{odd},"liters":5000}}'


def call(tool: str, arguments: str = "{}", id_: str = '"id":1,') -> str:
    return f'{{"jsonrpc":"2.0",{id_}"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}'


def with_odd(value: str) -> str:
    return f'{{"n":{value}}}'


def messages(tool: str) -> list[bytes]:
    """A call of a tool, in every way that a model or an odd client may write it."""
    plain, good = call(tool), call("look", id_='"id":7,')
    texts = [
        *(call(tool, with_odd(odd)) for odd in ODD),
        *(call(tool, odd) for odd in ("null", "[]", '"{}"', "9" * 5_000)),
        *(call(tool, id_=id_) for id_ in IDS),
        *(f"[{good},{call(tool, id_=id_)}]" for id_ in IDS),
        *(f"[{call(tool, with_odd(odd))},{good}]" for odd in ODD[:4]),
        "[" + ",".join(call(tool, id_=f'"id":{n},') for n in range(70)) + "]",
        f"{good}{plain}", f"{good} {plain}", f"{good}\r{plain}", f"[{good}]{plain}", f"[[{plain}]]",
        plain.replace("tools/call", "tools\\/call"),
        plain.replace("tools/call", "\\u0074ools/call"),
        plain.replace('"method"', '"\\u006dethod"'),
        plain.replace(f'"{tool}"', f'"\\u{ord(tool[0]):04x}{tool[1:]}"'),
        plain.replace('"name"', '"name":"look","name"'),
        plain.replace('"params":', '"params":{"name":"look"},"params":'),
        plain.replace('"method":', '"method":"tools/list","method":'),
        plain[:-1] + ',"method":"tools/list"}',
        plain[:-1], plain[:-1] + ",}", "\ufeff" + plain,
        plain[:-1] + ',"params":{"name":"look"}}',
        plain.replace('"method"', '"Method"'), plain.replace('"name":', '"name":"look","NAME":'),
        plain.replace('"params"', '"params":{"name":"look"},"param\u017f"'),
        '{"x":"y"/*"*/,' + plain[1:-1] + '/*"*/}',
    ]  # fmt: skip
    return [text.encode() for text in texts] + [plain.encode().replace(b"{}", b'{"n":"\xff"}')]


# --- servers that run what they can read -------------------------------------------------------------

_NAME = re.compile(r'"name"\s*:\s*"([^"]*)"')
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")


def runs(body: bytes) -> set[str]:
    """The tools that the most lenient server would run: every name in a text that may be read as a call."""
    found = set()
    for encoding in ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32"):
        text = body.decode(encoding, errors="replace")
        text = _ESCAPED.sub(lambda each: chr(int(each[1], 16)), text)
        found |= set(_NAME.findall(text))
    return found & {*TOOLS, "pump", "look"}


STDIO = """
import sys
with open(sys.argv[1], "ab", buffering=0) as notes:
    while part := sys.stdin.buffer.readline():
        notes.write(part)
        sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":1,"result":{}}\\n')
        sys.stdout.flush()
"""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    ran: queue.Queue[bytes]

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        """Says nothing."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers["content-encoding"] == "gzip":
            body = gzip.decompress(body)
        self.ran.put(body)
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_PUT = do_PATCH = do_DELETE = do_POST  # noqa: N815 - their names there


@contextmanager
def http_server() -> Iterator[tuple[str, queue.Queue[bytes]]]:
    ran: queue.Queue[bytes] = queue.Queue()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"ran": ran}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", ran
    server.shutdown()
    server.server_close()


# --- the service, and what it says of a call alone ----------------------------------------------------


@pytest.fixture
def farm(serve: Serve, tmp_path: Path) -> Service:
    file = tmp_path / "farm.yaml"
    file.write_text(SPEC)
    return serve("--specs", str(file), OFFRAILS_HISTORY="complete")


def options(farm: Service, *more: str) -> list[str]:
    return [
        "--url",
        f"http://{farm.addresses['decide']}",
        "--service",
        "farm",
        "--deadline",
        "20",
        *more,
    ]


def denied_alone(farm: Service, session: str) -> set[str]:
    """The tools that are denied if they are asked about alone."""
    with guard_of(farm, session) as guard:
        return {tool for tool in TOOLS if not guard.check(tool, {}, commit=False).allowed}


def guard_of(farm: Service, session: str, **options: Any) -> Guard:
    return Guard(
        f"http://{farm.addresses['decide']}",
        session=session,
        service="farm",
        deadline_seconds=20,
        **options,
    )


# --- by each way to a tool ----------------------------------------------------------------------------


@pytest.mark.parametrize("setting", sampled(["allow", "deny"], ["deny"]))
def test_over_standard_input(farm: Service, tmp_path: Path, setting: str) -> None:
    """No line that a server could read as a denied call reaches it; good calls do."""
    notes = tmp_path / "notes"
    texts = [each for tool in TOOLS for each in messages(tool) if b"\n" not in each]
    texts += [call("pump", flood(odd)).encode() for odd in ODD if "\n" not in odd]
    lines = [
        each + b"\n" for each in [*texts, *texts[:3], call("look").encode()]
    ]  # denials are repeated
    command = options(farm, "--session", "s1", "--on-unavailable", setting)
    done = subprocess.run(
        [sys.executable, "-m", "collector", "mcp-proxy", *command, "--", sys.executable, "-c", STDIO, notes],
        cwd=ROOT, input=b"".join(lines), capture_output=True, check=False, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    ran = runs(notes.read_bytes())

    assert denied_alone(farm, "s1") == {"wipe", "water"}
    assert ran == {"look"}


def test_over_http(farm: Service) -> None:
    """No body that a server could read as a denied call reaches it, whatever its encoding, method and session."""
    with http_server() as (target, ran):
        process = subprocess.Popen(
            [sys.executable, "-m", "collector", "mcp-proxy", "--listen", "127.0.0.1:0", "--to", target, *options(farm)],
            cwd=ROOT, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        with process:
            assert process.stdout is not None
            found = re.search(r"listen=(\S+)", process.stdout.readline())
            assert found
            for tool in TOOLS:
                plain = call(tool).encode()
                for body in messages(tool):
                    request(found[1], "POST", "/mcp", body, {"mcp-session-id": "s1"})
                for encoding in ("utf-16", "utf-16-le", "utf-16-be", "utf-32"):
                    body = plain.decode().encode(encoding)
                    request(found[1], "POST", "/mcp", body, {"mcp-session-id": "s1"})
                for method in ("PUT", "PATCH", "DELETE"):
                    request(found[1], method, "/mcp", plain, {"mcp-session-id": "s1"})
                headers = {"mcp-session-id": "s1", "content-encoding": "gzip"}
                request(found[1], "POST", "/mcp", gzip.compress(plain), headers)
                trace = "0af7651916cd43dd8448eb211c80319c"  # a sub-agent, which has a trace and no session
                parent = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
                request(found[1], "POST", "/mcp", plain, parent)
            for odd in ODD:
                body = call("pump", flood(odd)).encode()
                request(found[1], "POST", "/mcp", body, {"mcp-session-id": "s1"})
            for body in messages("wipe"):  # a client that has no session at all
                request(found[1], "POST", "/mcp", body)
            request(found[1], "POST", "/mcp", call("look").encode(), {"mcp-session-id": "s1"})
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        bodies = [ran.get() for _ in range(ran.qsize())]

    assert set().union(*map(runs, bodies)) == {"look"}
    assert denied_alone(farm, "s1") == {"wipe", "water"}


@pytest.fixture
def runtime() -> Iterator[Path]:
    """A short path: that of a socket has a bound."""
    with TemporaryDirectory() as folder:
        yield Path(folder)


def test_by_hooks(farm: Service, runtime: Path) -> None:
    """Each event of a denied call is answered by a denial: odd arguments, sub-agents, repeated, without other keys."""
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
    program = [sys.executable, "-m", "collector", "hook"]
    with subprocess.Popen(
        [*program, "--serve", *options(farm)],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True,
    ) as helper:  # fmt: skip
        assert helper.stdout is not None
        assert "ready" in helper.stdout.readline()
        path = str(runtime / "offrails-hook-helper" / "socket")
        for tool in TOOLS:
            texts = [event(tool, with_odd(odd)) for odd in ODD]
            texts += [event(tool, odd) for odd in ("null", "[]", "1")]
            texts += [
                event(tool, agent='"agent_type":"Explore",'),
                event(tool).replace('"tool_use_id":"t1",', ""),
            ]
            for text in [*texts, *texts[:3]]:
                answer = through(path, text)
                assert b'"permissionDecision": "deny"' in answer, text[:200]
        for odd in ODD:
            answer = through(path, event("pump", flood(odd)))
            assert b'"permissionDecision": "deny"' in answer, odd[:200]
        assert through(path, event("look")) == b""
        helper.terminate()
    for text in (event("wipe", f'{{"n":{DEEP[-1]}}}'), event("water", f'{{"n":{"9" * 5000}}}')):
        done = subprocess.run(
            [*program, "claude-code", *options(farm)],
            cwd=ROOT, env=environment, input=text.encode(), capture_output=True, check=False, timeout=50,
        )  # fmt: skip
        assert (done.returncode, b"refused" in done.stderr) == (2, True)


def event(tool: str, arguments: str = "{}", agent: str = "") -> str:
    return (
        f'{{"session_id":"s1","hook_event_name":"PreToolUse",{agent}"tool_use_id":"t1",'
        f'"tool_input":{arguments},"tool_name":"{tool}"}}'
    )


def through(path: str, text: str) -> bytes:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        line.sendall(text.encode(errors="surrogatepass"))
        line.shutdown(socket.SHUT_WR)
        with line.makefile("rb") as answer:
            return answer.read()


def odd_values() -> dict[str, Any]:
    """Arguments as a framework may hand them over."""
    deep: Any = []
    for _ in range(50_000):
        deep = [deep]
    circle: dict[str, Any] = {}
    circle["self"] = circle
    return {
        "deep": {"n": deep}, "circle": circle, "big": {"n": 10**6000}, "nan": {"n": float("nan")}, "bytes": {"n": b"\xff"},
        "half a pair": {"\ud800": "\ud800"}, "keys": {(1,): 2}, "many": {str(n): n for n in range(2_000)},
        "long": {"n": "x" * 2_000_000}, "a list": [1], "a text": "{", "levels": json.loads('{"n":' + "[" * 150 + "]" * 150 + "}"),
    }  # fmt: skip


def test_by_a_guard_in_the_agent(farm: Service) -> None:
    """Odd arguments, long ids of calls, and many at once: alone, and beside others, whose arguments stay known."""
    with guard_of(farm, "s1") as guard:
        for odd, given in odd_values().items():
            for tool in TOOLS:
                calls = [Call("look", given), Call(tool, given, "c" * 5_000), Call(tool, {})]
                alone = guard.check(tool, given, call_id="c" * 5_000, agent="a" * 5_000)
                found = [alone, *guard.check_all(calls)]
                assert [each.decision for each in found] == ["deny", "allow", "deny", "deny"], (
                    odd
                )
        for odd, given in odd_values().items():
            if isinstance(given, dict) and odd not in (
                "keys",
                "many",
            ):  # their names are not known
                assert guard.check("pump", {**given, "liters": 5_000}).decision == "deny", odd
        assert guard.counts().get("unjudged", 0) == 0
    monitor = Monitor(specs(SPEC), Limits(history_complete=True))
    local = LocalGuard(monitor, session="s1", service="farm")
    found = [local.check(tool, each) for tool in TOOLS for each in odd_values().values()]
    assert {each.decision for each in found} == {"deny"}


RENAMED = (
    *("Wipe", "WIPE", "wipe ", "\twipe", "wipe\n", "wi-pe", "wipe_", "wipe()", "wi\u200bpe", "w\u0456pe", "\uff57ipe"),
    *("functions.wipe", "mcp__farm__wipe", "farm/wipe", "farm:wipe"),
)  # fmt: skip
"""Names under which a lenient server may run `wipe`."""


def test_by_other_spellings_of_a_tool(farm: Service) -> None:
    """A name that is nearly that of a forbidden tool is not let through as allowed: it is said what is not known of it."""
    with guard_of(farm, "s1") as guard:
        for name in RENAMED:
            alone, beside = guard.check(name, {}), guard.check_all([Call("look"), Call(name)])
            assert {alone.decision, beside[1].decision} == {"unknown"}, ascii(name)
            assert alone.raw["specs"][0]["missing"] == ["tool"], ascii(name)
            assert "which tool is meant by this name" in alone.message
    with guard_of(farm, "s2", on_unknown="deny") as strict:
        assert not any(strict.check(name, {}).allowed for name in RENAMED)


def test_by_equal_ids(farm: Service, runtime: Path) -> None:
    """A limit of one is one call, though its server gives each call the tool's name as its id: at once, in turn, by hooks."""
    again: dict[str, Any] = {
        "call_id": "drain",
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
    }

    async def at_once(guard: Guard) -> list[str]:
        found = await asyncio.gather(*(guard.acheck("drain", {}, **again) for _ in range(5)))
        return sorted(each.decision for each in found)

    def in_turn(guard: Guard) -> list[str]:
        found = []
        for _ in range(3):
            decision = guard.check("drain", {}, **again)
            found.append(decision.decision)
            guard.outcome(decision.decision_id, "ran" if decision.allowed else "skipped")
        return found

    with guard_of(farm, "batch") as guard:
        found = guard.check_all([Call("drain", {}, "drain")] * 3)
        assert [each.decision for each in found] == ["allow", "deny", "deny"]
    with guard_of(farm, "at once") as guard:
        assert asyncio.run(at_once(guard)) == ["allow", "deny", "deny", "deny", "deny"]
    with guard_of(farm, "in turn") as guard:
        assert in_turn(guard) == ["allow", "deny", "deny"]
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(runtime)}
    program = [sys.executable, "-m", "collector", "hook", "claude-code", *options(farm)]
    hooks = [
        subprocess.run(program, cwd=ROOT, env=environment, input=event("drain").encode(), capture_output=True, check=False)
        for _ in range(2)
    ]  # fmt: skip
    assert [each.returncode for each in hooks] == [0, 2]


def test_by_equal_ids_of_messages(farm: Service, tmp_path: Path) -> None:
    """A client that numbers all its requests alike gets one call through, singly and in a batch."""
    for number, text in enumerate([call("drain"), f"[{call('drain')},{call('drain')}]"]):
        notes = tmp_path / f"notes{number}"
        command = options(farm, "--session", f"s{number}")
        done = subprocess.run(
            [sys.executable, "-m", "collector", "mcp-proxy", *command, "--", sys.executable, "-c", STDIO, notes],
            cwd=ROOT, input=f"{text}\n".encode() * 3, capture_output=True, check=False, timeout=100,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert notes.read_bytes().count(b"drain") == (1, 0)[number]


def test_by_hundreds_of_calls_at_once(farm: Service) -> None:
    """A turn of three hundred calls, each asked about by itself: all are denied."""

    async def turn(guard: Guard) -> set[str]:
        found = await asyncio.gather(*(guard.acheck("wipe", {"n": n}) for n in range(300)))
        return {each.decision for each in found}

    with guard_of(farm, "s1") as guard:
        assert asyncio.run(turn(guard)) == {"deny"}
