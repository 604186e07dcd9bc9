"""The two processes of a demo: a real `offrails serve`, and an agent whose spans go to it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import ProxyHandler, Request, build_opener

from tests.demo.tied import command, orphaned

__all__ = ["SPECS", "Service", "agent", "say", "serving", "stay"]

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "dfa_specs"
ORPHAN_SECONDS = 0.5
"""How soon it is noticed that who started the demo is gone."""

DIRECT = build_opener(ProxyHandler({}))
"""The service is next door, whatever proxy leads to the world."""

NOT_FOUND = 404

LISTENERS = ("GRPC", "HTTP", "METRICS", "ADMIN", "DECIDE")
SETTINGS = {
    **{f"OFFRAILS_{name}": "127.0.0.1:0" for name in LISTENERS},
    # Each session is seen from its first call: without this, a session that begins in the middle
    # of its task is taken for one that was running before us, and gets the benefit of the doubt.
    "OFFRAILS_HISTORY": "complete",
    # Arguments are shown nowhere unless asked for.
    "OFFRAILS_SHOW_ARGUMENTS": "true",
}


def say(line: str) -> None:
    """Prints a line at once."""
    print(line, flush=True)


class Service:
    """A running `offrails serve`, its API and its log."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self.places = dict(re.findall(r"(\w+)=(\S+)", process.stdout.readline()))
        if not self.places:
            sys.exit(f"The service did not start:\n{process.stderr.read()}")
        self.known_ns: dict[str, int] = {}
        """Span id -> when its call was known to be harmful, Unix nanoseconds."""
        threading.Thread(target=self._follow, args=(process.stderr,), daemon=True).start()

    def _follow(self, log: IO[str]) -> None:
        """The service writes one JSON line for each harmful call, and hardly any other."""
        with suppress(ValueError):  # the pipe is closed at the end of the demo
            for line in log:
                self._note(json.loads(line))

    def _note(self, event: dict[str, Any]) -> None:
        if event["event"] == "harmful_call":
            moment = datetime.fromisoformat(event["timestamp"])
            self.known_ns.setdefault(event["span_id"], int(moment.timestamp() * 1e9))

    def judgements(self, spec: str) -> list[dict[str, Any]]:
        """Judgement objects under one spec, the oldest session first."""
        found = json.loads(self._get("admin", f"/api/v1/sessions?spec={spec}"))["sessions"]
        return sorted(found, key=lambda judgement: judgement["started"])

    def judgements_of(self, session: str) -> list[dict[str, Any]]:
        """Judgement objects of one session; none if it is not known yet."""
        try:
            found = json.loads(
                self._get("admin", f"/api/v1/sessions/{quote(session, safe='')}")
            )
        except HTTPError as problem:
            if problem.code != NOT_FOUND:
                raise
            return []
        judgements: list[dict[str, Any]] = found["sessions"]
        return judgements

    def send(self, request: bytes) -> None:
        """Sends spans, as a request in OTLP's JSON form."""
        headers = {"Content-Type": "application/json"}
        url = f"http://{self.places['http']}/v1/traces"
        with DIRECT.open(Request(url, request, headers), timeout=30):
            pass

    def prevented(self, session: str) -> list[dict[str, Any]]:
        """The calls of a session that were denied and not made, the earliest first."""
        found = json.loads(self._get("admin", f"/api/v1/sessions/{quote(session, safe='')}"))
        prevented: list[dict[str, Any]] = found["prevented"]
        return prevented

    def samples(self, *beginnings: str) -> list[str]:
        """The lines of /metrics that begin so."""
        lines = self._get("metrics", "/metrics").decode().splitlines()
        return [line for line in lines if line.startswith(beginnings)]

    def _get(self, listener: str, path: str) -> bytes:
        with DIRECT.open(f"http://{self.places[listener]}{path}", timeout=5) as answer:
            body: bytes = answer.read()
        return body


def _bare() -> dict[str, str]:
    """The environment without settings that are meant for others."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("OFFRAILS_", "OTEL_"))}


@contextmanager
def serving(specs: Path = SPECS) -> Iterator[Service]:
    """A service on free ports, which ends with the block."""
    with subprocess.Popen(
        command("collector", "serve"),
        cwd=ROOT,
        env={**_bare(), **SETTINGS, "OFFRAILS_SPECS": str(specs)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Service(process)
        finally:
            process.terminate()


@contextmanager
def agent(module: str, service: Service, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """An agent, which ends with the block; it knows where its spans go by the variables of any exporter."""
    variables = {
        "OTEL_SERVICE_NAME": "farm-rover",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{service.places['grpc']}",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "no_proxy": "127.0.0.1",
        **more,
    }
    with subprocess.Popen(
        command(module),
        cwd=ROOT,
        env={**_bare(), **variables},
        stdin=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def stay(service: Service) -> None:
    """Keeps the service until Ctrl-C, or until whoever started the demo is gone."""
    say(f"\nAll of it is at http://{service.places['admin']}/ until you press Ctrl-C.")
    with suppress(KeyboardInterrupt):
        while not orphaned():
            with suppress(subprocess.TimeoutExpired):
                service.process.wait(ORPHAN_SECONDS)
                return
