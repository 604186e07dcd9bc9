"""How long a good client waits at most while others flood the listener for decisions, beside its wait when it is quiet.

    python -m tests.bench.decide_floods

A good agent asks, tells the outcome and sends the span of each call, one request after the other, on its own connections.
Meanwhile another process sends one kind of request as fast as four connections take it (`tests/end_to_end/decide_floods.py`).
All of it goes through the real service with tokens. Each answer to the good agent is checked, and at the end its session:
each call once. The bound is 300 ms; on a machine whose quiet waits are long, three times the longest of these.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.bench.bounds import Bound
from tests.bench.service import ROOT, Server, service
from tests.conformance.target import JSON, Target
from tests.end_to_end.decide_floods import BAD, FLOODS, GOOD, SPECS
from tests.end_to_end.traffic import Sent, as_json

__all__ = ["Waits", "bounds_of", "floods", "table"]

SECONDS: Final = 2.0
"""Of the good agent's work beside each flood, and in quiet."""
CONNECTIONS: Final = 4
LONGEST_MS: Final = 300.0
QUIET_TIMES: Final = 3


class Waits(NamedTuple):
    """The longest waits of the good agent, in milliseconds."""

    quiet: float
    beside: dict[str, float]
    """By flood."""

    @property
    def most(self) -> float:
        """The bound."""
        return max(LONGEST_MS, QUIET_TIMES * self.quiet)


def floods() -> Waits:
    """All floods in turn, each beside the same service."""
    with tempfile.TemporaryDirectory() as folder:
        specs, tokens = Path(folder) / "specs", Path(folder) / "tokens"
        specs.mkdir()
        for name, text in SPECS.items():
            (specs / name).write_text(text)
        tokens.write_text(f"good: {GOOD}\nbad: {BAD}\n")
        os.environ["OFFRAILS_RECEIVER_AUTH_BEARER_TOKENS_FILE"] = str(tokens)
        try:
            with service("--decide", "127.0.0.1:0", specs=specs) as server:
                agent = Agent(server)
                agent.longest(
                    SECONDS / 4
                )  # what is loaded at the first request is no wait of anybody else
                quiet = agent.longest(SECONDS)
                beside: dict[str, float] = {}
                for name in FLOODS:
                    with sending(server, name):
                        beside[name] = agent.longest(SECONDS)
                return Waits(quiet, beside)
        finally:
            del os.environ["OFFRAILS_RECEIVER_AUTH_BEARER_TOKENS_FILE"]


class Agent:
    """Asks before each call, tells what became of it, and exports its span."""

    def __init__(self, server: Server) -> None:
        self._decide = Target(http=f"127.0.0.1:{server.ports['decide']}", token=GOOD)
        self._receiver = Target(http=f"127.0.0.1:{server.ports['http']}", token=GOOD)
        self._calls = 0

    def longest(self, seconds: float) -> float:
        """The longest wait in so many seconds, in milliseconds."""
        asking, exporting = self._decide.connection(), self._receiver.connection()
        until, found = time.perf_counter() + seconds, 0.0

        def timed(send: Callable[[], Any]) -> Any:
            nonlocal found
            began = time.perf_counter()
            reply = send()
            found = max(found, time.perf_counter() - began)
            assert reply.status == 200, reply
            return reply

        def ask(path: str, body: dict[str, Any]) -> Any:
            text = json.dumps(body).encode()
            reply = timed(
                lambda: self._decide.request(text, JSON, path=path, connection=asking)
            )
            return json.loads(reply.body)

        while time.perf_counter() < until:
            self._calls += 1
            call_id, arguments = f"c{self._calls}", {"n": self._calls}
            body = {"session": "s", "service": "shop", "tool": "look", "call_id": call_id}
            answer = ask("/api/v1/decide", {**body, "arguments": arguments})
            assert (answer["decision"], answer["committed"]) == ("allow", True), answer
            ask("/api/v1/outcome", {"decision_id": answer["decision_id"], "outcome": "ran"})
            span = _span(call_id, arguments)
            timed(lambda: self._receiver.request(span, JSON, connection=exporting))  # noqa: B023 - called at once
            denied = ask("/api/v1/decide", {**body, "tool": "pay", "commit": False})
            assert denied["decision"] == "deny", denied
        asking.close()
        exporting.close()
        return found * 1e3


def _span(call_id: str, arguments: dict[str, Any]) -> bytes:
    now = time.time_ns()
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": call_id,
        "gen_ai.tool.call.arguments": json.dumps(arguments),
        "gen_ai.conversation.id": "s",
    }
    span = Sent(os.urandom(16), os.urandom(8), "execute_tool look", now, now + 1, attributes)
    return as_json([span], resource={"service.name": "shop"})


# --- the flood --------------------------------------------------------------------------------------


@contextmanager
def sending(server: Server, name: str) -> Iterator[None]:
    """Another process sends the flood, until the block ends."""
    command = [
        sys.executable,
        "-m",
        "tests.bench.decide_floods",
        str(server.ports["decide"]),
        name,
    ]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "sent\n"
        yield
        process.communicate()
        assert process.returncode == 0


def _flood(port: int, name: str) -> None:
    """Sends until the standard input ends."""
    from tests.end_to_end.test_connection_floods import beside
    from tests.end_to_end.test_connection_floods import sending as hostile

    what, _ = FLOODS[name]
    with beside(hostile(f"127.0.0.1:{port}", what), CONNECTIONS):
        time.sleep(0.2)  # until the service is at work
        print("sent", flush=True)
        sys.stdin.read()


# --- what is shown ----------------------------------------------------------------------------------


def bounds_of(found: Waits) -> list[Bound]:
    """The longest wait of all floods."""
    name = max(found.beside, key=lambda each: found.beside[each])
    what = f"longest wait of a good client beside a flood ({name})"
    return [Bound(what, found.beside[name], found.most, "ms")]


def table(found: Waits) -> str:
    """As a Markdown table."""
    lines = [
        f"| a good client beside {CONNECTIONS} connections of | longest wait, ms |",
        "|---|---|",
        f"| nobody | {found.quiet:.0f} |",
    ]
    lines += [f"| {name} | {wait:.0f} |" for name, wait in found.beside.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _flood(int(sys.argv[1]), sys.argv[2])
    else:
        from tests.bench import bounds

        waits = floods()
        print(table(waits))
        print(bounds.lines(bounds_of(waits)))
