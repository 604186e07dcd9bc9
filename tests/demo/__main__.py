"""`make demo`: the real service, a real agent, and the verdicts as they come.

    tests/demo/rover.py    the agent: how to make one observable, in ten lines
    tests/demo/words.py    how a verdict is put into words
    tests/demo/tied.py     how both processes end with the demo
    this file              starts the two processes, reads the API, ends them

Everything is on free ports of the loopback and ends by itself; with `--stay` the service and its
page stay until Ctrl-C, or until the demo is ended in any other way.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any
from urllib.request import ProxyHandler, build_opener

from tests.demo.tied import command, end_by_signals, orphaned
from tests.demo.words import Paint, heading, report, step_lines

ROOT = Path(__file__).parents[2]
TASK = "farm_rover"
POLL_SECONDS = 0.03
ORPHAN_SECONDS = 0.5
"""How soon it is noticed that who started the demo is gone."""

LINE_SECONDS = 2
"""How long a line waits for the log event that has the time of its verdict."""

DIRECT = build_opener(ProxyHandler({}))
"""The service is next door, whatever proxy leads to the world."""

LISTENERS = ("GRPC", "HTTP", "METRICS", "ADMIN", "DECIDE")
SETTINGS = {
    **{f"OFFRAILS_{name}": "127.0.0.1:0" for name in LISTENERS},
    "OFFRAILS_SPECS": str(ROOT / "dfa_specs"),
    # Each session is seen from its first call: without this, a session that begins in the middle
    # of its task is taken for one that was running before us, and gets the benefit of the doubt.
    "OFFRAILS_HISTORY": "complete",
    # Arguments are shown nowhere unless asked for.
    "OFFRAILS_SHOW_ARGUMENTS": "true",
}


def main(*, stay: bool = False) -> int:
    """Runs the demo; 0 when everything went well.

    Args:
        stay: keep the service until Ctrl-C, to look at the sessions on its page.
    """
    paint = Paint(coloured=_wants_colour())
    with _service() as service, _rover(service) as rover:
        say(
            "A farm rover is at work. offrails judges each of its tool calls as its span arrives."
        )
        say(f"  spans    grpc://{service.places['grpc']}")
        say(f"  metrics  http://{service.places['metrics']}/metrics")
        say(f"  API      http://{service.places['admin']}/api/v1/sessions")
        say(f"  page     http://{service.places['admin']}/")
        Watch(service, paint).until(rover)
        for line in report(service.judgements(TASK), service.gauges(), paint):
            say(line)
        say(
            "\nYour own agent: make run, then give it OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317"
        )
        failed = rover.returncode
        if stay:
            _stay(service)
    return failed or service.process.returncode


def _stay(service: Service) -> None:
    say(f"\nAll of it is at http://{service.places['admin']}/ until you press Ctrl-C.")
    with suppress(KeyboardInterrupt):
        while not orphaned():
            with suppress(subprocess.TimeoutExpired):
                service.process.wait(ORPHAN_SECONDS)
                return


def say(line: str) -> None:
    print(line, flush=True)


def _wants_colour() -> bool:
    return (
        sys.stdout.isatty()
        and not os.environ.get("NO_COLOR")
        and os.environ.get("TERM") != "dumb"
    )


# --- the two processes ---------------------------------------------------------------------------


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

    def gauges(self) -> list[str]:
        """The two gauges, as /metrics shows them."""
        lines = self._get("metrics", "/metrics").decode().splitlines()
        return [
            line
            for line in lines
            if line.startswith(("offrails_harm_rate{", "offrails_prefix_crit{"))
        ]

    def _get(self, listener: str, path: str) -> bytes:
        with DIRECT.open(f"http://{self.places[listener]}{path}", timeout=5) as answer:
            body: bytes = answer.read()
        return body


def _bare() -> dict[str, str]:
    """The environment without settings that are meant for others."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("OFFRAILS_", "OTEL_"))}


@contextmanager
def _service() -> Iterator[Service]:
    with subprocess.Popen(
        command("collector", "serve"),
        cwd=ROOT,
        env={**_bare(), **SETTINGS},
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
def _rover(service: Service) -> Iterator[subprocess.Popen[bytes]]:
    variables = {
        "OTEL_SERVICE_NAME": "farm-rover",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{service.places['grpc']}",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "no_proxy": "127.0.0.1",
    }
    with subprocess.Popen(
        command("tests.demo.rover"),
        cwd=ROOT,
        env={**_bare(), **variables},
        stdin=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


# --- watching --------------------------------------------------------------------------------------


class Watch:
    """Prints each judged call once, in the order of the calls."""

    def __init__(self, service: Service, paint: Paint) -> None:
        self._service = service
        self._paint = paint
        self._shown: dict[str, int] = {}
        self._waiting_since: float | None = None

    def until(self, rover: subprocess.Popen[bytes]) -> None:
        """Shows what comes while the rover is at work, and what came last."""
        gone = False
        while not gone or self._waiting_since is not None:
            gone = rover.poll() is not None
            self._look()
            time.sleep(POLL_SECONDS)

    def _look(self) -> None:
        judgements = self._service.judgements(TASK)
        broken = (
            self._broken()
        )  # asked for last: it knows of every call that is about to be shown
        for judgement in judgements:
            first = self._shown.setdefault(judgement["session"], 0)
            for step in judgement["steps"][first:]:
                if self._must_wait(step):
                    return
                if step["index"] == 1:
                    say(heading(judgement, self._paint))
                after_ms, rule = self._after_ms(step), broken.get(step["span_id"])
                for line in step_lines(step, after_ms, rule, self._paint):
                    say(line)
                self._shown[judgement["session"]] += 1

    def _broken(self) -> dict[str, str]:
        """Span id -> the rule of the policy that its call breaks."""
        return {
            step["span_id"]: step["constraint"]
            for judgement in self._service.judgements("rover_policy")
            for step in judgement["steps"]
            if step["kind"] == "harmful"
        }

    def _must_wait(self, step: Mapping[str, Any]) -> bool:
        """True while the log, which has the time of the verdict, is still on its way."""
        if step["kind"] != "harmful" or step["span_id"] in self._service.known_ns:
            self._waiting_since = None
            return False
        self._waiting_since = self._waiting_since or time.monotonic()
        return time.monotonic() - self._waiting_since < LINE_SECONDS

    def _after_ms(self, step: Mapping[str, Any]) -> float | None:
        known_ns = self._service.known_ns.get(step["span_id"])
        return None if known_ns is None else (known_ns - step["end_ns"]) / 1e6


if __name__ == "__main__":
    end_by_signals()
    try:
        sys.exit(main(stay="--stay" in sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
