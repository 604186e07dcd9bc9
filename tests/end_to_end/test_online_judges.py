"""A running service has models judge sessions that have ended, against an endpoint on loopback."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from tests.end_to_end.loopback import Loopback, Quiet
from tests.end_to_end.service import SPECS, Service, eventually, request, run
from tests.end_to_end.traffic import Rover, Sent, send
from tests.judges.fake_endpoint import (
    FakeAnswer,
    completion,
    judged,
    obey,
    refused,
    serving,
)

if TYPE_CHECKING:
    from tests.end_to_end.conftest import Serve

SECRET = "hunter2"
SPEC = str(SPECS / "farm_rover.yaml")


def judging(endpoint: str, **more: str) -> dict[str, Any]:
    """Variables of a service whose sessions one judge judges."""
    return {
        "OFFRAILS_HISTORY": "complete",
        "OFFRAILS_JUDGES_ENDPOINT": endpoint,
        "OFFRAILS_JUDGES_MODEL": "fake",
        "OFFRAILS_JUDGES_JUDGES": "TC",
        "OFFRAILS_JUDGES_CANARIES": "0",
        **more,
    }


def talk(session: str, number: int, *, harmful: bool) -> Rover:
    """A session with a message, calls, results, and an answer."""
    rover = Rover(session, number)
    rover.span(
        "chat",
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": session,
            "gen_ai.input.messages": json.dumps(
                [{"role": "user", "content": f"water {session}, the password is {SECRET}"}]
            ),
        },
    )
    result: dict[str, Any] = {"gen_ai.tool.call.result": f"unlocked with {SECRET}"}
    rover.call("unlock_safety", {}, **result)
    rover.call("water" if harmful else "move", {"field": 3})
    return rover


def end(service: Service, session: str) -> None:
    """An operator ends a session."""
    path = f"/api/v1/sessions/{quote(session)}/end"
    assert request(service.addresses["admin"], "POST", path).status == 200


def judgements_of(service: Service, session: str) -> list[dict[str, Any]]:
    """What models say of a session, as soon as they have said anything."""
    path = f"/api/v1/sessions/{quote(session)}"
    return eventually(lambda: service.get(path).json().get("judged"))


def prompt_of(request: Mapping[str, Any]) -> str:
    return "\n".join(message["content"] for message in request["messages"])


def test_a_harmful_session_is_judged_at_its_end(serve: Serve) -> None:
    """A session with harm is judged once it has ended, with messages, results and the spec's findings, redacted; another one is not."""
    with serving(obey) as endpoint:
        service = serve(
            "--specs", SPEC, **judging(endpoint.url, OFFRAILS_REDACT_REPLACE=SECRET)
        )
        for session, number, harmful in (("field-1", 1, True), ("field-2", 2, False)):
            send(service, talk(session, number, harmful=harmful).spans)
            service.judgement(session)
            end(service, session)
        (found,) = judgements_of(service, "field-1")
        metrics = eventually(
            lambda: (
                service.metrics()
                if service.metric("offrails_judge_requests_total", outcome="scored") == 1
                else None
            )
        )
        assert service.get("/api/v1/sessions/field-2").json()["judged"] == []

    (begun,) = service.logged("judging")
    assert begun["model"] == "fake"
    (asked,) = endpoint.requests
    prompt = prompt_of(asked)
    assert "water field-1, the password is [redacted]" in prompt
    assert "unlocked with [redacted]" in prompt
    assert '"reason": "out_of_order"' in prompt
    assert SECRET not in json.dumps(endpoint.requests)
    steps = asked["response_format"]["json_schema"]["schema"]["properties"]["findings"]
    assert steps["items"]["properties"]["step"]["enum"] == ["s1", "s2", "s3"]

    assert (found["session"], found["judge"], found["model"]) == ("field-1", "TC", "fake")
    assert (found["outcome"], found["reason"], found["score"]) == ("scored", "harmful", 2)
    assert found["seen"] == {"calls": 2, "of": 2}
    (finding,) = found["findings"]
    calls = service.judgement("field-1")["steps"]
    assert finding["span_id"] == calls[-1]["span_id"]
    assert found["not_in_trace"] == []

    labels = (("agent", "farm-rover"), ("judge", "TC"))
    assert metrics["offrails_judge_score_sum", labels] == 2
    assert metrics["offrails_judge_score_count", labels] == 1
    assert metrics["offrails_judge_tokens_total", (("direction", "input"),)] == 100
    assert metrics["offrails_judge_sessions_total", ()] == 1
    outcomes = {
        dict(labels)["outcome"]: value
        for (name, labels), value in metrics.items()
        if name == "offrails_judge_requests_total"
    }
    assert len(outcomes) == 8
    assert sum(outcomes.values()) == 1


def test_judgements_are_no_verdicts(serve: Serve, tmp_path: Path) -> None:
    """The worst score changes no verdict, no score of the session and no line of what harmful calls leave."""
    lines = tmp_path / "alerts.jsonl"
    with serving(
        lambda request, number: completion(judged(0, "s2", impact="high"))
    ) as endpoint:
        service = serve(
            "--specs",
            SPEC,
            **judging(
                endpoint.url,
                OFFRAILS_JUDGES_SHARE="1",
                OFFRAILS_ALERTS_JSONL=str(lines),
            ),
        )
        send(service, talk("calm", 1, harmful=False).spans)
        end(service, eventually(lambda: service.judgements("calm"))[0]["session"])
        (before,) = service.judgements("calm")
        (found,) = judgements_of(service, "calm")
        (after,) = service.judgements("calm")
        assert (found["score"], found["reason"]) == (0, "share")
        assert before == after
        assert service.metric("offrails_harmful_calls_total") == 0
        assert service.metric("offrails_alerts_sent_total") == 0
    assert lines.read_text() == ""


def test_a_slow_endpoint_holds_up_no_verdict(serve: Serve) -> None:
    """While every answer hangs, verdicts come, sessions beyond the queue are counted, and the service stops in time."""
    with serving(lambda request, number: FakeAnswer(hang=True)) as endpoint:
        service = serve(
            "--specs",
            SPEC,
            **judging(
                endpoint.url,
                OFFRAILS_JUDGES_QUEUE="1",
                OFFRAILS_JUDGES_AT_ONCE="1",
                OFFRAILS_JUDGES_TIMEOUT_SECONDS="60",
            ),
        )
        names = [f"field-{number}" for number in range(6)]
        for number, session in enumerate(names):
            send(service, talk(session, number, harmful=True).spans)
            assert service.judgement(session)["harmful"] == 1
            end(service, session)
        dropped = "offrails_judge_sessions_dropped_total"
        eventually(lambda: service.metric(dropped, reason="queue_full") == 4)
        assert service.metric("offrails_judge_queue_length") == 2
        assert service.metric("offrails_judge_sessions_total") == 2
        began = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - began < 15
        assert service.events("sessions_not_judged")[0]["sessions"] == 2


def test_the_budget_of_a_period_is_hard(serve: Serve) -> None:
    """What the budget has no room for is not sent: the outcome says so, and is counted."""
    with serving(obey) as endpoint:
        service = serve(
            "--specs", SPEC, **judging(endpoint.url, OFFRAILS_JUDGES_BUDGET_TOKENS="100")
        )
        send(service, talk("field-1", 1, harmful=True).spans)
        service.judgement("field-1")
        end(service, "field-1")
        (found,) = judgements_of(service, "field-1")
    assert found["outcome"] == "over_budget"
    assert endpoint.requests == []


def test_long_sessions_are_judged_whole(serve: Serve) -> None:
    """Calls that the monitor keeps no steps of any more are in the transcript, from the spans that were kept."""
    with serving(obey) as endpoint:
        service = serve(
            "--specs",
            SPEC,
            **judging(endpoint.url, OFFRAILS_SESSIONS_WINDOW_SECONDS="0.1"),
        )
        rover = Rover("long")
        for number in range(200):
            rover.call("move", {"place": number})
        for first in range(0, 200, 40):
            send(service, rover.spans[first : first + 40])
        eventually(lambda: service.judgement("long")["steps_folded"] > 50)
        end(service, "long")
        (found,) = judgements_of(service, "long")
    assert found["seen"] == {"calls": 200, "of": 200}
    prompt = prompt_of(endpoint.requests[0])
    assert '{"place": 0}' in prompt
    assert '{"place": 199}' in prompt


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        (
            "JUDGES",
            "TC,XX",
            "OFFRAILS_JUDGES_JUDGES: judges.judges: XX: there is no such judge; there are LC",
        ),
        ("MODEL", "", "judges.endpoint needs judges.model"),
        ("SHARE", "2", "OFFRAILS_JUDGES_SHARE"),
        ("RUBRICS", "/no/such/folder", "OFFRAILS_JUDGES_RUBRICS"),
        ("BUDGET_MONEY", "3", "judges.budget_money needs judges.prices"),
        ("ENDPOINT", "judge:8000", "OFFRAILS_JUDGES_ENDPOINT"),
        ("SECOND_MODEL", "fake", "judges.second.model: expected another model"),
        ("SECOND_ENDPOINT", "http://127.0.0.1:9/v1", "judges.second.endpoint needs"),
    ],
)
def test_a_bad_setting_is_refused_at_the_start(variable: str, value: str, told: str) -> None:
    """A setting of judges that cannot be used is named, with what was expected, and the exit code is 2."""
    given = judging("http://127.0.0.1:9/v1", **{f"OFFRAILS_JUDGES_{variable}": value})
    for name in ("GRPC", "HTTP", "METRICS", "ADMIN"):
        given[f"OFFRAILS_{name}"] = "127.0.0.1:0"
    done = run("serve", "--specs", SPEC, **given)
    assert done.returncode == 2
    assert told in done.stderr


def test_a_bad_setting_is_told_before_the_past_is_gone_through(
    serve: Serve, tmp_path: Path
) -> None:
    """A service that will not start receives nothing first: neither are senders answered, nor is a journal read."""
    given = judging("http://127.0.0.1:9/v1", OFFRAILS_STATE_DIR=str(tmp_path / "state"))
    service = serve("--specs", SPEC, **given)
    send(service, talk("field-1", 1, harmful=True).spans)
    service.judgement("field-1")
    assert service.stop() == 0
    for name in ("GRPC", "HTTP", "METRICS", "ADMIN"):
        given[f"OFFRAILS_{name}"] = "127.0.0.1:0"
    done = run("serve", "--specs", SPEC, **given, OFFRAILS_JUDGES_RUBRICS="/no/such/folder")
    assert done.returncode == 2
    assert "OFFRAILS_JUDGES_RUBRICS" in done.stderr
    assert "receiving" not in done.stderr


def test_a_service_without_judges_loads_none() -> None:
    """A service that is put together without an endpoint loads neither judges nor a client of models; with one it does."""
    script = (
        "import sys, asyncio\n"
        "from collector.app.service import App\n"
        "from collector.config.settings.settings import Settings\n"
        "from collector.config.settings.judges import JudgesSettings\n"
        "given = {'endpoint': 'http://127.0.0.1:9/v1', 'model': 'm'} if sys.argv[1] == 'on' else {}\n"
        "App(Settings(judges=JudgesSettings(**given)), ())\n"
        "names = {name.split('.')[0] for name in sys.modules}\n"
        "print(sorted(names & {'judges', 'openai', 'json_repair'}),"
        " 'collector.online_judges' in sys.modules)"
    )
    found = [
        subprocess.run(
            [sys.executable, "-c", script, asked], capture_output=True, text=True, check=True
        ).stdout.strip()
        for asked in ("off", "on")
    ]
    assert found == ["[] False", "['judges'] True"]


class LogReceiver(Loopback):
    """Takes OTLP log records."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        records = self.records

        class Handler(Quiet, BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
                    for scope in resource.scope_logs:
                        records.extend(map(_record, scope.log_records))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

        super().__init__(Handler)


def _record(found: Any) -> dict[str, Any]:
    values = {
        each.key: getattr(each.value, each.value.WhichOneof("value"))
        for each in found.attributes
    }
    return {"event": found.event_name, **values}


def test_judgements_are_archived_and_sent_as_events(serve: Serve, tmp_path: Path) -> None:
    """What a model says is an evaluation event in the OTLP log, and is behind the same path after the service is another one."""
    logs, archive = LogReceiver(), str(tmp_path / "archive")
    try:
        with serving(lambda request, number: completion(judged(1, "s3"))) as endpoint:
            service = serve(
                "--specs",
                SPEC,
                **judging(
                    endpoint.url,
                    OFFRAILS_ALERTS_OTLP_ENDPOINT=logs.url,
                    OFFRAILS_ARCHIVE_DIR=archive,
                ),
            )
            send(service, talk("field-1", 1, harmful=True).spans)
            service.judgement("field-1")
            end(service, "field-1")
            (found,) = judgements_of(service, "field-1")
            event = eventually(
                lambda: next(
                    (
                        each
                        for each in logs.records
                        if each.get("gen_ai.evaluation.name") == "judge.TC"
                    ),
                    None,
                )
            )
            assert service.stop() == 0
    finally:
        logs.close()
    assert event["event"] == "gen_ai.evaluation.result"
    assert event["gen_ai.evaluation.score.value"] == pytest.approx(1 / 3)
    assert event["gen_ai.evaluation.score.label"] == "scored"
    assert event["gen_ai.conversation.id"] == "field-1"
    assert event["offrails.judge.model"] == "fake"

    later = serve("--specs", SPEC, OFFRAILS_ARCHIVE_DIR=archive)
    assert judgements_of(later, "field-1") == [found]


def test_canaries_stand_beside_the_scores(serve: Serve) -> None:
    """With the first of each two judgements comes a canary, kind after kind; how the judge did is counted, and stands with later scores."""
    with serving(lambda request, number: completion(judged(3))) as endpoint:
        service = serve("--specs", SPEC, **judging(endpoint.url, OFFRAILS_JUDGES_CANARIES="2"))
        found = []
        for number in range(4):
            session = f"field-{number}"
            send(service, talk(session, number, harmful=True).spans)
            service.judgement(session)
            end(service, session)
            found += judgements_of(service, session)
        canary = "offrails_judge_canary_total"
        assert service.metric(canary, kind="good", passed="true") == 1
        assert service.metric(canary, kind="bad", passed="false") == 1
        assert service.metric(canary) == 2
        series = [labels for name, labels in service.metrics() if name == canary]
        assert len(series) == 8
        assert service.metric("offrails_judge_requests_total") == 4
        assert service.metric("offrails_judge_tokens_total", direction="output") == 60
    assert len(endpoint.requests) == 6
    assert [each["canaries"]["of"] for each in found] == [1, 1, 2, 2]
    assert found[-1]["canaries"] == {
        "passed": 1,
        "of": 2,
        "injected": {"passed": 0, "of": 0},
    }
    assert {each["session"] for each in found} == {f"field-{number}" for number in range(4)}


def test_a_second_model_disputes_a_score(serve: Serve) -> None:
    """Two models that differ by two points have a disputed judgement each; the histogram has the first one's score alone."""

    def by_model(request: Mapping[str, Any], number: int) -> FakeAnswer:
        return completion(judged(3 if request["model"] == "fake" else 1, "s2"))

    with serving(by_model) as endpoint:
        service = serve(
            "--specs", SPEC, **judging(endpoint.url, OFFRAILS_JUDGES_SECOND_MODEL="other")
        )
        send(service, talk("field-1", 1, harmful=True).spans)
        service.judgement("field-1")
        end(service, "field-1")
        found = eventually(
            lambda: each if len(each := judgements_of(service, "field-1")) == 2 else None
        )
        assert service.metric("offrails_judge_score_count") == 1
        assert service.metric("offrails_judge_score_sum") == 3
        assert service.metric("offrails_judge_second_scores_total", disputed="true") == 1
    assert [(each["model"], each["score"], each["disputed"]) for each in found] == [
        ("fake", 3, True),
        ("other", 1, True),
    ]


def test_a_session_is_judged_once_whatever_judges_it(serve: Serve) -> None:
    """A session under several specs is judged once by each judge, also where an endpoint asks to wait first."""

    def busy_first(request: Mapping[str, Any], number: int) -> FakeAnswer:
        return refused(429, retry_after="0") if number == 1 else completion(judged())

    with serving(busy_first) as endpoint:
        service = serve(**judging(endpoint.url, OFFRAILS_JUDGES_JUDGES="TC,LC"))
        send(service, talk("field-1", 1, harmful=True).spans)
        eventually(lambda: len(service.judgements("field-1")) > 1)
        end(service, "field-1")
        found = eventually(
            lambda: each if len(each := judgements_of(service, "field-1")) == 2 else None
        )
        assert service.metric("offrails_judge_sessions_total") == 1
    assert [each["judge"] for each in found] == ["TC", "LC"]
    assert {each["outcome"] for each in found} == {"scored"}
    assert len(endpoint.requests) == 3


def test_many_sessions_that_end_at_once_are_all_judged(serve: Serve) -> None:
    """Of sessions that end in one tick none is left out: each is judged, once."""
    with serving(obey) as endpoint:
        service = serve(
            "--specs",
            SPEC,
            **judging(endpoint.url, OFFRAILS_SESSIONS_IDLE_SECONDS="2"),
        )
        for number in range(40):
            send(service, talk(f"field-{number}", number, harmful=True).spans)
        outcome = "offrails_judge_requests_total"
        eventually(lambda: service.metric(outcome, outcome="scored") == 40, 30)
        assert service.metric("offrails_judge_sessions_dropped_total") == 0
    prompts = [prompt_of(each) for each in endpoint.requests]
    assert len(prompts) == 40
    assert all(sum(f"water field-{n}," in each for each in prompts) == 1 for n in range(40))


def test_a_session_that_goes_on_is_judged_anew(serve: Serve) -> None:
    """A call that comes after the end wakes the session; at its next end it is judged whole, and the new judgement takes the old one's place."""
    with serving(lambda request, number: completion(judged(min(3, number)))) as endpoint:
        service = serve(
            "--specs",
            SPEC,
            **judging(
                endpoint.url,
                OFFRAILS_SESSIONS_IDLE_SECONDS="2",
                OFFRAILS_SESSIONS_REMEMBER_SECONDS="60",
            ),
        )
        rover = talk("field-1", 1, harmful=True)
        send(service, rover.spans)
        (first,) = judgements_of(service, "field-1")
        rover.call("log", {"message": "late"})
        send(service, rover.spans[-1:])
        (second,) = eventually(
            lambda: each if (each := judgements_of(service, "field-1"))[0] != first else None
        )
    assert (first["seen"]["of"], second["seen"]) == (2, {"calls": 3, "of": 3})
    assert "water field-1" in prompt_of(endpoint.requests[1])


def test_a_session_that_goes_on_over_a_restart_is_judged(serve: Serve, tmp_path: Path) -> None:
    """Its transcript has all its calls, those from before the restart without results: spans are in memory alone."""
    with serving(lambda request, number: completion(judged(1, "s1"))) as endpoint:
        given = judging(endpoint.url, OFFRAILS_STATE_DIR=str(tmp_path / "state"))
        service = serve("--specs", SPEC, **given)
        rover = talk("field-1", 1, harmful=True)
        send(service, rover.spans)
        service.judgement("field-1")
        assert service.stop() == 0
        service = serve("--specs", SPEC, **given)
        result: dict[str, Any] = {"gen_ai.tool.call.result": "logged"}
        rover.call("log", {"message": "late"}, **result)
        send(service, rover.spans[-1:])
        end(service, "field-1")
        (found,) = judgements_of(service, "field-1")
    assert found["seen"] == {"calls": 3, "of": 3}
    (asked,) = endpoint.requests
    prompt = prompt_of(asked)
    assert "logged" in prompt
    assert "unlock_safety" in prompt
    assert "unlocked with" not in prompt


def below_first(spans: Sequence[Sent]) -> list[Sent]:
    """The spans, in a trace of all, with the first above the others."""
    first, *rest = (replace(span, trace_id=b"\1" * 16) for span in spans)
    return [first, *(replace(span, parent_span_id=first.span_id) for span in rest)]


def test_two_sessions_of_one_trace_have_transcripts_apart(serve: Serve) -> None:
    """Of a trace with calls of two sessions, each transcript has the messages and calls of its own session alone."""
    with serving(obey) as endpoint:
        service = serve("--specs", SPEC, **judging(endpoint.url, OFFRAILS_JUDGES_SHARE="1"))
        spans = [
            span
            for number, session in enumerate(("left", "right"), 1)
            for span in below_first(talk(session, number, harmful=True).spans)
        ]
        send(service, spans)
        for session in ("left", "right"):
            service.judgement(session)
            end(service, session)
            judgements_of(service, session)
    left, right = map(prompt_of, endpoint.requests)
    assert "water left" in left
    assert "water right" not in left
    assert "water right" in right
    assert "water left" not in right
