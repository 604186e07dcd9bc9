"""From a span to a page: directly, through Alertmanager, and by scrape and rule."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.end_to_end.alerting import CRITICAL, Pages, paging_specs, sdk_calls
from tests.end_to_end.service import Service, eventually
from tests.end_to_end.traffic import Rover, send

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve


@pytest.fixture
def pages() -> Iterator[Pages]:
    made = Pages()
    yield made
    made.close()


@pytest.fixture
def specs(tmp_path: Path) -> Path:
    return paging_specs(tmp_path)


def test_a_page_within_a_second(serve: Serve, pages: Pages, specs: Path) -> None:
    """A critical call that a real SDK sends is at the webhook in less than a second."""
    service = serve(
        "--specs",
        str(specs),
        OFFRAILS_HISTORY="complete",
        OFFRAILS_ALERTS_GROUP_BY="session",
        OFFRAILS_ALERTS_WEBHOOK_URL=pages.url,
    )

    took = []
    for session in ("direct-1", "direct-2", "direct-3"):
        began = sdk_calls(service, session, "unlock_safety", "water")
        at, alert = eventually(partial(pages.of, session))[0]
        took.append(at - began)

    print(f"span to webhook, with 0.5 s to settle: {min(took):.3f} s")
    assert min(took) < 1
    assert alert["labels"]["alertname"] == CRITICAL
    assert alert["labels"]["reason"] == "out_of_order"
    assert "Skipped: move, scan, open_valve." in alert["annotations"]["description"]
    assert service.metric("offrails_alerts_sent_total", sink="webhook", result="ok") >= 1


def test_a_revised_call_pages_nobody(serve: Serve, pages: Pages, specs: Path) -> None:
    """A call that looked harmful because it arrived first, and is corrected at once, pages nobody."""
    service = serve(
        "--specs",
        str(specs),
        OFFRAILS_HISTORY="complete",
        OFFRAILS_ALERTS_WEBHOOK_URL=pages.url,
        OFFRAILS_ALERTS_SETTLE_SECONDS="2",
    )
    session = Rover("turned", 7).calls("unlock_safety", "move", "scan", "open_valve")

    send(service, session.spans[3:])
    send(service, session.spans[:3])
    send(service, Rover("wrong", 8).calls("made_up_tool").spans)
    eventually(lambda: pages.of("wrong"))
    eventually(lambda: service.metric("offrails_alerts_withheld_total", reason="revised"))

    time.sleep(2.1)  # the time to settle, and a little: nothing may come in it
    assert pages.of("turned") == []


def test_a_page_is_resolved(serve: Serve, pages: Pages, specs: Path) -> None:
    """A revision after it was raised, or the end of the session, takes the page back."""
    service = serve(
        "--specs",
        str(specs),
        OFFRAILS_HISTORY="complete",
        OFFRAILS_ALERTS_GROUP_BY="session",
        OFFRAILS_ALERTS_WEBHOOK_URL=pages.url,
        OFFRAILS_ALERTS_SETTLE_SECONDS="0.05",
        OFFRAILS_SESSIONS_IDLE_SECONDS="1",
    )
    session = Rover("late", 7).calls("unlock_safety", "move", "scan")
    send(service, session.spans[1:2])
    eventually(lambda: pages.of("late"))
    send(service, session.spans[:1])
    eventually(lambda: pages.of("late", "resolved"))

    send(service, Rover("idle", 9).calls("water").spans)
    eventually(lambda: pages.of("idle", "resolved"))

    assert service.metric("offrails_alerts_firing") == 0


def test_a_cheap_harm_first_hides_no_critical_one(
    serve: Serve, pages: Pages, specs: Path
) -> None:
    """The page changes from warning to critical, even if other warnings used up the minute's quota."""
    service = serve(
        "--specs",
        str(specs),
        OFFRAILS_HISTORY="complete",
        OFFRAILS_ALERTS_GROUP_BY="session",
        OFFRAILS_ALERTS_WEBHOOK_URL=pages.url,
        OFFRAILS_ALERTS_PAGES_PER_MINUTE="4",
    )
    send(service, Rover("cheap", 7).calls("unlock_safety", "open_valve").spans)
    eventually(lambda: pages.of("cheap"))
    for number in range(9):
        send(service, Rover(f"other-{number}", 20 + number).calls("open_valve").spans)
    eventually(
        lambda: service.metric("offrails_alerts_withheld_total", reason="rate_limit") >= 7
    )
    send(service, Rover("cheap", 7).calls("unlock_safety", "open_valve", "water").spans[2:])

    (_, first), (_, worst) = eventually(lambda: pages.of("cheap")[1:] and pages.of("cheap"))
    ((_, ended),) = pages.of("cheap", "resolved")
    assert first["labels"]["alertname"] == "AgentHarmfulCall"
    assert worst["labels"]["alertname"] == CRITICAL
    assert ended["fingerprint"] == first["fingerprint"]
    assert first["fingerprint"] != worst["fingerprint"]
    assert worst["annotations"]["tool"] == "water"


def test_shadow_specs_are_counted_and_page_nobody(serve: Serve, pages: Pages) -> None:
    """The shipped specs are in shadow mode. The metrics count what would have paged."""
    service = serve(OFFRAILS_HISTORY="complete", OFFRAILS_ALERTS_WEBHOOK_URL=pages.url)
    send(service, Rover("shadow", 5).calls("made_up_tool").spans)

    eventually(lambda: service.metric("offrails_harmful_calls_provisional_total"))
    time.sleep(0.2)
    assert pages.taken == []
    assert service.metric("offrails_spec_info", mode="shadow") >= 1


def test_a_dead_webhook_leaves_ingest_alone(serve: Serve, specs: Path) -> None:
    """A receiver that hangs fills a bounded queue and is counted; calls are judged as usual."""
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        port = hanging.getsockname()[1]
        service = serve(
            "--specs",
            str(specs),
            OFFRAILS_HISTORY="complete",
            OFFRAILS_ALERTS_GROUP_BY="session",
            OFFRAILS_ALERTS_WEBHOOK_URL=f"http://127.0.0.1:{port}",
            OFFRAILS_ALERTS_QUEUE="5",
            OFFRAILS_ALERTS_TIMEOUT_SECONDS="0.3",
            OFFRAILS_DRAIN_SECONDS="0.2",
        )
        took = []
        for number in range(40):
            spans = Rover(f"s{number}", number + 1).calls("made_up_tool").spans
            began = time.monotonic()
            send(service, spans)
            took.append(time.monotonic() - began)
        eventually(lambda: service.metric("offrails_alerts_sent_total", result="dropped") >= 30)

    assert sorted(took)[20] < 0.1
    assert service.metric("offrails_calls_total", verdict="harmful") == 40
    assert service.metric("offrails_alert_queue_length", sink="webhook") <= 5


def test_log_events_leave_by_the_exporter(serve: Serve, shared: Service) -> None:
    """Harm is an event at an OTLP receiver of logs; our own log stays one of JSON lines."""
    before = shared.metric("offrails_ingest_requests_total", signal="logs")
    service = serve(
        OFFRAILS_HISTORY="complete",
        OFFRAILS_ALERTS_OTLP_ENDPOINT=f"http://{shared.addresses['http']}",
        OFFRAILS_ALERTS_TIMEOUT_SECONDS="1",
    )
    send(service, Rover("told", 3).calls("made_up_tool").spans)

    eventually(lambda: service.metric("offrails_alerts_sent_total", sink="otlp", result="ok"))
    assert shared.metric("offrails_ingest_requests_total", signal="logs") > before
    assert service.logged("harmful_call")


def test_tail_shows_verdicts_as_they_come(serve: Serve) -> None:
    """`offrails tail URL` shows harmless calls as well, and ends with the service."""
    service = serve(OFFRAILS_HISTORY="complete")
    url = f"http://{service.addresses['admin']}"
    command = [sys.executable, "-m", "collector", "tail", url, "--spec", "farm_rover", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as shown:
        assert shown.stdout is not None
        found: list[dict[str, Any]] = []
        stream = shown.stdout
        reader = threading.Thread(
            target=lambda: found.extend(json.loads(line) for line in stream), daemon=True
        )
        reader.start()
        numbers = iter(range(10, 1_000))

        def seen() -> bool:
            number = next(numbers)
            session = Rover(f"tail-{number}", number).calls("unlock_safety", "water")
            send(service, session.spans)
            time.sleep(0.05)
            return {"progress", "harmful"} <= {each["kind"] for each in found}

        eventually(seen)
        began = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - began < 5
        assert shown.wait(10) == 1
        reader.join(5)
