"""A live session that diverges at its first call: in the API, on /metrics, and as an event."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from monitor.reference.document import reference_text
from monitor.reference.learn import learn
from monitor.reference.runs import SeenRun, seen_call
from tests.end_to_end.alerting import Pages
from tests.end_to_end.service import Service, eventually

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve

Made = tuple[str, dict[str, Any]]
USUAL: tuple[Made, ...] = (
    ("get_booking", {"id": 7}),
    ("find_seat", {"row": 1}),
    ("book_seat", {"seat": "1A"}),
)
ODD: Made = ("delete_booking", {"id": 7})


def reference(folder: Path, service: str = "desk", made: tuple[Made, ...] = USUAL) -> Path:
    """A reference of two runs, as `offrails learn` writes it, set to page."""
    calls = tuple(seen_call(*each, failed=False) for each in made)
    learnt = learn([SeenRun(each, "clerk", calls) for each in "ab"])
    text = reference_text(learnt, "usual", match={"service.name": service})
    file = folder / "usual.yaml"
    file.write_text(text.replace("kind: reference", "kind: reference\nmode: page"))
    return file


def sdk_calls(service: Service, session: str, *calls: Made) -> None:
    """A real SDK sends each call as it ends."""
    url = f"http://{service.addresses['http']}/v1/traces"
    provider = TracerProvider(resource=Resource({"service.name": "desk"}))
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(endpoint=url)))
    tracer = provider.get_tracer("clerk")
    for tool, arguments in calls:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.arguments": json.dumps(arguments),
            "gen_ai.conversation.id": session,
            "gen_ai.agent.name": "clerk",
        }
        with tracer.start_as_current_span(f"execute_tool {tool}", attributes=attributes):
            pass
    provider.shutdown()


def test_divergence_at_the_first_call(serve: Serve, tmp_path: Path) -> None:
    """One odd write is in the judgement, the counters, the feed and the log, and pages."""
    pages, lines = Pages(), tmp_path / "alarms.jsonl"
    service = serve(
        "--specs",
        str(reference(tmp_path)),
        OFFRAILS_HISTORY="complete",
        OFFRAILS_ALERTS_WEBHOOK_URL=pages.url,
        OFFRAILS_ALERTS_JSONL=str(lines),
        OFFRAILS_SESSIONS_WINDOW_SECONDS="0.5",
    )
    count = partial(service.metric, agent="clerk", spec="usual")
    shown = Shown(service)
    try:
        sdk_calls(service, "usual-1", *USUAL)
        eventually(lambda: count("offrails_sessions_started_total"))
        assert count("offrails_unexpected_writes_total") == 0
        assert count("offrails_divergences_total", phase="first_two", kind="wrong_tool") == 0
        shown.until_attended(service)

        sdk_calls(service, "odd-1", ODD)

        (alert,) = [alert for _, alert in eventually(lambda: pages.of("odd-1"))]
        assert alert["labels"]["alertname"] == "AgentUnexpectedWrite"
        assert "none of 2 runs of usual" in alert["annotations"]["description"]
        assert pages.of("usual-1") == []

        (found,) = [each for each in service.judgements("odd-1") if each["spec"] == "usual"]
        assert (found["divergence"]["step"], found["divergence"]["phase"]) == (1, "first_two")
        assert (found["unexpected_write"], found["first_two_diverged"]) == (True, True)

        eventually(lambda: count("offrails_unexpected_writes_total"))
        assert count("offrails_unexpected_writes_total") == 1
        assert count("offrails_first_two_diverged_total") == 1
        assert count("offrails_divergences_total", phase="first_two", kind="wrong_tool") == 1
        assert count("offrails_divergence_step_bucket", le="1.0") == 1
        assert count("offrails_risk_max") == found["risk"]
        assert service.metric("offrails_reference_runs", spec="usual") == 2

        def written() -> set[str]:
            return {json.loads(line)["alarm"] for line in lines.read_text().splitlines()}

        def logged() -> set[str]:
            found = service.events("alarm_raised")
            return {each["alarm"] for each in found if each["session"] == "odd-1"}

        alarms = {"new_write_tool", "divergence", "first_two"}
        eventually(lambda: alarms <= {each.get("alarm") for each in shown.found})
        eventually(lambda: alarms <= written())
        eventually(lambda: alarms <= logged())
    finally:
        shown.close()
        pages.close()


class Shown:
    """`offrails tail --json` of a service, as it runs."""

    def __init__(self, service: Service) -> None:
        url = f"http://{service.addresses['admin']}"
        command = [sys.executable, "-m", "collector", "tail", url, "--json"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.found: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()

    def _follow(self) -> None:
        assert self._process.stdout is not None
        self.found.extend(json.loads(line) for line in self._process.stdout)

    def until_attended(self, service: Service) -> None:
        """Returns when it shows what is sent."""
        numbers = iter(range(1_000))

        def seen() -> bool:
            sdk_calls(service, f"probe-{next(numbers)}", USUAL[0])
            return bool(self.found)

        eventually(seen)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(10)
        self._reader.join(5)
        assert self._process.stdout is not None
        self._process.stdout.close()
