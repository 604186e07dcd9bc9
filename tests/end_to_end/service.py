"""A real `offrails serve` process, and the few lines of client the tests need.

Every listener is on port 0 of the loopback, or on a Unix socket; the addresses are read from the
line the service prints when it is ready.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.end_to_end import forks

__all__ = [
    "ANYWHERE",
    "BUILTIN_ONLY",
    "OFFRAILS",
    "SPECS",
    "Reply",
    "Service",
    "eventually",
    "request",
    "run",
]

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "dfa_specs"
FREE = "127.0.0.1:0"
LISTENERS = ("GRPC", "HTTP", "METRICS", "ADMIN", "DECIDE")
ANYWHERE = {f"OFFRAILS_{name}": FREE for name in LISTENERS}
"""Each listener on a free port: the usual ones may be in use."""
OFFRAILS = (
    (os.environ["OFFRAILS_PROGRAM"],)
    if "OFFRAILS_PROGRAM" in os.environ
    else (sys.executable, "-m", "collector")
)
"""The source's, or an installed one, as `tests/packaging` wants it."""

GRPC_SERVER = "OFFRAILS_RECEIVER_GRPC_SERVER"
"""A run of these tests may set it to `grpcio`."""
BUILTIN_ONLY = pytest.mark.skipif(
    os.environ.get(GRPC_SERVER) == "grpcio",
    reason="looks at the builtin server's connections, frames or words",
)
READY_SECONDS = 30
ANSWER_SECONDS = 60
"""A request of megabytes takes as long on a machine that has much else to do."""
RUN_SECONDS = 40
STOP_SECONDS = 20
POLL_SECONDS = 0.02
POLL_SECONDS_MAX = 0.1
"""Pauses grow to this: a scrape takes 0.03 s of CPU time."""

Found = TypeVar("Found")
Labels = tuple[tuple[str, str], ...]


def eventually(probe: Callable[[], Found | None], seconds: float = 45) -> Found:
    """The first truthy value of `probe`; the test fails with the last one when time is up."""
    deadline, pause = time.monotonic() + seconds, POLL_SECONDS
    while not (found := probe()):
        assert time.monotonic() < deadline, f"still {found!r} after {seconds} s"
        time.sleep(pause)
        pause = min(1.3 * pause, POLL_SECONDS_MAX)
    return found


class Reply(NamedTuple):
    """An HTTP answer; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def request(
    address: str,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """One HTTP request on a connection of its own; the path is sent as it is."""
    unix = address.removeprefix("unix:")
    connection = (
        http.client.HTTPConnection(address, timeout=ANSWER_SECONDS)
        if unix == address
        else _UnixConnection(unix, ANSWER_SECONDS)
    )
    try:
        connection.request(method, path, body, dict(headers or {}))
        answer = connection.getresponse()
        names = {name.lower(): value for name, value in answer.getheaders()}
        return Reply(answer.status, names, answer.read())
    finally:
        connection.close()


def _environment(given: Mapping[str, str]) -> dict[str, str]:
    """Ours, without settings that a developer's shell may hold, but for the gRPC server to be tested."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("OFFRAILS_", "OTEL_"))}
    if GRPC_SERVER in os.environ:
        ours[GRPC_SERVER] = os.environ[GRPC_SERVER]
    return {**ours, **given}


def _may_fork(variables: Mapping[str, str]) -> bool:
    """Whether a fork finds what a new process would: other variables are read before the program is.

    Those of exporters are read where one is made.
    """
    ours = all(name.startswith(("OFFRAILS_", "OTEL_EXPORTER_")) for name in variables)
    return forks.POSSIBLE and ours and "OFFRAILS_PROGRAM" not in os.environ


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs `offrails ARGUMENTS` to its end."""
    environment = _environment(variables)
    if _may_fork(variables):
        return forks.run(arguments, environment, RUN_SECONDS)
    return subprocess.run(
        [*OFFRAILS, *arguments],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )


class Service:
    """A running `offrails serve`.

    Args:
        arguments: options after `serve`; without any, the bundled specs on free ports.
        variables: environment, such as OFFRAILS_HISTORY.
        program: what is run as `offrails`, in a process of its own; without one, a fork that has it loaded.
        stdout: as `subprocess` has it; what is no pipe is not followed.
        stderr: likewise.
    """

    def __init__(
        self,
        arguments: Sequence[str] | None = None,
        variables: Mapping[str, str] | None = None,
        program: Sequence[str] | None = None,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
    ) -> None:
        if arguments is None:
            arguments = ("--specs", str(SPECS))
        environment = _environment({**ANYWHERE, **(variables or {})})
        piped = stdout == stderr == subprocess.PIPE
        self.process: subprocess.Popen[str] | forks.ForkedProcess = (
            forks.start(("serve", *arguments), environment)
            if program is None and piped and _may_fork(variables or {})
            else subprocess.Popen(
                [*(program or OFFRAILS), "serve", *arguments],
                env=environment,
                cwd=ROOT,
                stdout=stdout,
                stderr=stderr,
                text=True,
            )
        )
        self.out: list[str] = []
        self.err: list[str] = []
        """Lines of standard error so far: the log."""
        streams = ((self.process.stdout, self.out), (self.process.stderr, self.err))
        self._readers = [self._follow(stream, lines) for stream, lines in streams if stream]
        self.addresses: dict[str, str] = {}

    def _follow(self, stream: IO[str], lines: list[str]) -> threading.Thread:
        def read() -> None:
            with stream:
                for line in stream:
                    lines.append(line.rstrip("\n"))  # noqa: PERF401 - seen as they come

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        return reader

    # --- its life ------------------------------------------------------------------------------

    def wait_ready(self, seconds: float = READY_SECONDS) -> Service:
        """Waits for the line that says where the service listens."""
        line = eventually(self._ready_line, seconds)
        assert line.startswith("offrails ready "), (line, self.err)
        self.addresses = dict(re.findall(r"(grpc|http|metrics|admin|decide)=(\S+)", line))
        return self

    def _ready_line(self) -> str:
        if self.out:
            return self.out[0]
        return "" if self.process.poll() is None else f"exit {self.process.returncode}"

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Waits for its end and returns the exit code; the log is complete then."""
        code = self.process.wait(STOP_SECONDS)
        for reader in self._readers:
            reader.join(STOP_SECONDS)
        return code

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        if self.process.poll() is None:
            self.terminate()
        return self.wait()

    def kill(self) -> None:
        """Ends it in any case; for a test that failed."""
        if self.process.poll() is None:
            self.process.kill()
        self.wait()

    # --- asking it -------------------------------------------------------------------------------

    def get(self, path: str, listener: str = "admin", **headers: str) -> Reply:
        return request(self.addresses[listener], "GET", path, headers=headers)

    def judgements(self, session: str | None = None, **query: str) -> list[dict[str, Any]]:
        """Judgement objects of one session or of all; none if the session is unknown."""
        path = "/api/v1/sessions"
        if session is not None:
            path += "/" + quote(session, safe="")
        reply = self.get(f"{path}?{urlencode(query)}" if query else path)
        if reply.status == 404:
            return []
        assert reply.status == 200, reply
        found: list[dict[str, Any]] = reply.json()["sessions"]
        return found

    def judgement(self, session: str, spec: str = "farm_rover") -> dict[str, Any]:
        """The one judgement of a session under a spec, as soon as there is one."""

        def one() -> dict[str, Any] | None:
            found = [each for each in self.judgements(session) if each["spec"] == spec]
            return found[0] if found else None

        return eventually(one)

    def metrics(self) -> dict[tuple[str, Labels], float]:
        """All samples of /metrics by name and sorted labels."""
        reply = self.get("/metrics", "metrics")
        assert reply.status == 200, reply
        return dict(_samples(reply.body.decode()))

    def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples of a name that have these labels; 0 if there are none."""
        return sum(
            value
            for (found, has), value in self.metrics().items()
            if found == name and labels.items() <= dict(has).items()
        )

    def events(self, name: str) -> list[dict[str, Any]]:
        """Log lines of one event so far: they come by a way of their own, maybe after an answer."""
        found = (json.loads(line) for line in list(self.err))
        return [line for line in found if line["event"] == name]

    def logged(self, name: str, least: int = 1) -> list[dict[str, Any]]:
        """Log lines of one event, as soon as there are so many."""
        eventually(lambda: len(self.events(name)) >= least)
        return self.events(name)

    # --- telling it ------------------------------------------------------------------------------

    def post(
        self,
        body: bytes,
        content_type: str = "application/json",
        path: str = "/v1/traces",
        **headers: str,
    ) -> Reply:
        return request(
            self.addresses["http"],
            "POST",
            path,
            body,
            {"content-type": content_type, **headers},
        )


def _samples(text: str) -> Iterator[tuple[tuple[str, Labels], float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield (sample.name, tuple(sorted(sample.labels.items()))), sample.value
