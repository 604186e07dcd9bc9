"""A rover at work, and the verdicts on its calls as they come."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from typing import Any

from tests.demo.processes import Service, agent, say, serving, stay
from tests.demo.words import Paint, heading, places, report, step_lines

__all__ = ["GAUGES", "TASK", "show"]

TASK = "farm_rover"
GAUGES = ("offrails_harm_rate{", "offrails_prefix_crit{")
POLL_SECONDS = 0.03
LINE_SECONDS = 2
"""How long a line waits for the log event that has the time of its verdict."""


def show(paint: Paint, *, staying: bool) -> int:
    """Runs the demo; 0 when both processes ended well."""
    with serving() as service, agent("tests.demo.rover", service) as rover:
        say(
            "A farm rover is at work. offrails judges each of its tool calls as its span arrives."
        )
        for line in places(service.places):
            say(line)
        Watch(service, paint).until(rover)
        for line in report(service.judgements(TASK), service.samples(*GAUGES), paint):
            say(line)
        say(
            "\nYour own agent: make run, then give it OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317"
        )
        failed = rover.returncode
        if staying:
            stay(service)
    return failed or service.process.returncode


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
