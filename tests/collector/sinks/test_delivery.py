"""Sinks against real receivers on the loopback: good ones, and all kinds of bad ones."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from pydantic import SecretStr

from collector.api.streams.verdict_feed import VerdictFeed
from collector.config.settings.alerts import AlertSettings, WebhookSettings
from collector.sinks.alert.alert_links import AlertLinks
from collector.sinks.http_client import DeliveryError, HttpSender
from collector.sinks.otlp_logs import OtlpLogs, of_verdict
from collector.sinks.queue import Backoff, SinkQueue
from collector.sinks.sink_dispatch import SinkDispatch
from collector.sinks.webhook import SIGNATURE, payload, signature
from collector.telemetry.logs import captured
from monitor.aggregate.totals import SessionFinished
from monitor.records import Kind, Reason, SessionKey, Verdict
from monitor.scores.score_records import FinalScores
from tests.collector.event_loop import run, until

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"
QUICK = Backoff(first_seconds=0.01, most_seconds=0.02, give_up_seconds=10)
SECOND = 1_000_000_000
NOW = 1_700_000_000 * SECOND


def verdict(reason: Reason | None = Reason.FORBIDDEN, number: int = 1) -> Verdict:
    return Verdict(
        session=SessionKey("", "s"),
        agent="rover",
        spec="farm_rover",
        spec_version="1",
        mode="page",
        kind=Kind.HARMFUL if reason else Kind.PROGRESS,
        reason=reason,
        severity="critical",
        step=number,
        tool="water",
        symbol="water",
        skipped=(),
        allowed=("scan",),
        state_before="scanned",
        state="scanned",
        final=False,
        revised_from=None if reason else Kind.HARMFUL,
        trace_id=b"t" * 16,
        span_id=number.to_bytes(8, "big"),
    )


class Receiver:
    """An HTTP receiver that answers as the test says, and keeps what it received."""

    def __init__(self, answer: bytes | None = OK) -> None:
        self.answer = answer
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.news = asyncio.Event()
        self.url = ""
        self._hung: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Receiver:
        self._server = await asyncio.start_server(self._take, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._hung:
            writer.close()
        await asyncio.sleep(0)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *rest = head.strip().split("\r\n")
            headers = {
                name.lower(): value for name, value in (each.split(": ", 1) for each in rest)
            }
            body = await reader.readexactly(int(headers["content-length"]))
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            return
        self.requests.append((line, headers, body))
        self.news.set()
        if self.answer is None:
            self._hung.append(writer)
            return
        writer.write(self.answer)
        writer.close()

    async def wait(self, count: int = 1) -> None:
        async with asyncio.timeout(10):
            while len(self.requests) < count:
                self.news.clear()
                await self.news.wait()


def test_a_webhook_gets_a_signed_page_and_its_end() -> None:
    """The payload is Alertmanager's; the signature is over its bytes."""

    async def main() -> None:
        async with Receiver() as hook:
            settings = AlertSettings(
                webhook=WebhookSettings(url=hook.url + "/p?q=1", secret=SecretStr("k"))
            )
            alerts = SinkDispatch(settings, AlertLinks(), 60 * SECOND, lambda: NOW)
            alerts.start()
            alerts.deliver([verdict()])
            await hook.wait()
            alerts.deliver([verdict(None)])
            await hook.wait(2)
            await alerts.stop(1)
        (line, headers, body), (_, _, ended) = hook.requests
        page = json.loads(body)
        assert line == "POST /p?q=1 HTTP/1.1"
        assert headers[SIGNATURE] == signature("k", body)
        assert set(page) == {
            "version", "receiver", "status", "groupKey", "groupLabels", "commonLabels",
            "commonAnnotations", "externalURL", "truncatedAlerts", "alerts",
        }  # fmt: skip
        assert (page["version"], page["status"]) == ("4", "firing")
        assert page["alerts"][0]["labels"]["alertname"] == "AgentCriticalHarmfulCall"
        assert page["alerts"][0]["endsAt"] == "0001-01-01T00:00:00Z"
        assert json.loads(ended)["status"] == "resolved"

    run(main)


def test_a_firing_page_is_posted_to_alertmanager_again() -> None:
    """While a page fires it is posted again, with an end further on; resolved, it ends now."""

    async def main() -> None:
        time = [NOW]
        async with Receiver() as manager:
            settings = AlertSettings(
                alertmanager=(manager.url,), repeat_seconds=60, resolve_seconds=0
            )
            alerts = SinkDispatch(settings, AlertLinks(), 600 * SECOND, lambda: time[0])
            alerts.start()
            alerts.deliver([verdict()])
            await manager.wait()
            time[0] += 61 * SECOND
            await manager.wait(2)
            scores = FinalScores("accepted", 1, 1, 1.0, 0.0, None, None, None, None)
            key = SessionKey("", "s")
            alerts.ended([SessionFinished(key, "rover", "farm_rover", "1", "idle", scores)])
            await until(lambda: len(manager.requests) >= 3)
            await alerts.stop(1)
        told = [json.loads(body)[0] for _, _, body in manager.requests]
        assert manager.requests[0][0] == "POST /api/v2/alerts HTTP/1.1"
        assert len({str(alert["labels"]) for alert in told}) == 1
        assert told[0]["startsAt"] < told[0]["endsAt"] < told[1]["endsAt"]
        assert told[-1]["endsAt"] < told[1]["endsAt"]

    run(main)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 503 Busy\r\n\r\n",
        b"\x00\xff garbage that is no HTTP\r\n",
        b"",
        b"x" * 200_000,
    ],
)
def test_a_bad_receiver_is_tried_again(answer: bytes) -> None:
    """After refusals, garbage, silence or endless responses, queued messages arrive once it recovers."""

    async def main() -> None:
        async with Receiver(answer) as hook:
            queue = SinkQueue(_Hook(hook.url), 10, QUICK, lump=1)
            queue.start()
            queue.put({"n": 1})
            await until(lambda: queue.retries >= 2)
            assert len(queue) == 1
            hook.answer = OK
            await until(lambda: queue.results["ok"] == 1)
            await queue.stop(1)

    run(main)


class _Hook:
    name = "webhook"

    def __init__(self, url: str, timeout_seconds: float = 1) -> None:
        self._sender = HttpSender(url, timeout_seconds)

    async def send(self, messages: Sequence[Any]) -> None:
        await self._sender.post(json.dumps(messages).encode(), {})


def test_a_hanging_receiver_costs_a_bounded_queue() -> None:
    """Enqueuing never waits. The oldest messages are dropped and counted; then the newest arrive."""

    async def main() -> None:
        async with Receiver(None) as hook:
            queue = SinkQueue(_Hook(hook.url, 0.2), 10, QUICK, lump=1)
            queue.start()
            loop = asyncio.get_running_loop()
            began = loop.time()
            for number in range(1_000):
                queue.put(number)
            assert loop.time() - began < 0.1
            assert (len(queue), queue.results["dropped"]) == (10, 990)
            await hook.wait()
            hook.answer = OK
            await until(lambda: queue.results["ok"] == 10)
            await queue.stop(1)
        assert json.loads(hook.requests[-1][2]) == [999]

    run(main)


def test_a_hanging_receiver_starves_no_other() -> None:
    """Each sink has its own queue, so the other sinks deliver without delay."""

    async def main() -> None:
        async with Receiver(None) as hanging, Receiver() as good:
            settings = AlertSettings(
                webhook=WebhookSettings(url=hanging.url),
                alertmanager=(hanging.url, good.url),
                group_by="session",
                pages_per_minute=1_000,
                queue=20,
                timeout_seconds=60,
            )
            alerts = SinkDispatch(settings, AlertLinks(), 600 * SECOND, lambda: NOW)
            await alerts.prepare()
            alerts.start()
            stuck, fine, hook = alerts.queues
            for number in range(100):
                alerts.deliver(
                    [verdict(number=number)._replace(session=SessionKey("", f"s{number}"))]
                )
                await until(lambda: len(fine) < 10)
            await until(lambda: fine.results["ok"] == 100 and len(fine) == 0)
            assert (fine.results["dropped"], fine.retries) == (0, 0)
            assert (len(stuck), stuck.results["dropped"]) == (20, 80)
            assert (len(hook), hook.results["dropped"]) == (20, 80)
            await alerts.stop(0)

    run(main)


def test_repeats_never_push_out_what_is_new() -> None:
    """A receiver that is away finds the news when it comes back, not the same page many times."""

    async def main() -> None:
        async with Receiver(None) as hook:
            queue = SinkQueue(_Hook(hook.url, 60), 10, QUICK, lump=1)
            for number in range(3):
                queue.put(number)
            for _ in range(20):
                queue.offer("again")
            assert (len(queue), queue.results["dropped"]) == (5, 0)

    run(main)


def test_an_answer_on_a_kept_connection_is_not_waited_for() -> None:
    """A receiver that keeps the connection open has answered when its answer is whole."""

    async def main() -> None:
        async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            await reader.read()
            writer.close()

        server = await asyncio.start_server(keep, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        loop = asyncio.get_running_loop()
        began = loop.time()
        for _ in range(5):
            sender = HttpSender(f"http://{host}:{port}", 5)
            await sender.post(b"", {})
            await sender.close()
        assert loop.time() - began < 5
        server.close()
        await asyncio.sleep(0.05)

    run(main)


def test_a_refusal_for_good_is_not_tried_again() -> None:
    """A 400 will be a 400; a receiver that is not there is tried until time is up."""

    async def main() -> None:
        async with Receiver(b"HTTP/1.1 400 No\r\n\r\n") as hook:
            queue = SinkQueue(_Hook(hook.url), 10, QUICK)
            queue.start()
            queue.put(1)
            await until(lambda: queue.results["failed"] == 1)
            assert queue.retries == 0
            await queue.stop(1)
        gone = SinkQueue(_Hook(hook.url), 10, Backoff(0.01, 0.02, give_up_seconds=0.1))
        gone.start()
        gone.put(1)
        await until(lambda: gone.results["failed"] == 1)
        assert gone.retries > 0
        await gone.stop(1)

    run(main)


def test_what_is_given_up_takes_nothing_young_along() -> None:
    """Of several messages that wait, only those whose time is up are given up; the others are tried on without a pause."""

    async def main() -> None:
        receiver = _Away()
        queue = SinkQueue(receiver, 10, Backoff(0.01, 0.02, give_up_seconds=0.3))
        queue.start()
        queue.put("old")
        await until(lambda: receiver.tries > 5)
        queue.put("young")
        await until(lambda: queue.results["failed"] == 1)
        assert receiver.taken == []
        receiver.is_back = True
        await until(lambda: queue.results["ok"] == 1)
        assert receiver.taken == ["young"]
        await queue.stop(1)

    run(main)


class _Away:
    """A receiver of all messages at once that is away at first."""

    name = "away"

    def __init__(self) -> None:
        self.is_back = False
        self.tries = 0
        self.taken: list[Any] = []

    async def send(self, messages: Sequence[Any]) -> None:
        self.tries += 1
        if not self.is_back:
            raise DeliveryError("away")
        self.taken += messages


def test_a_fault_of_a_sink_is_not_the_end() -> None:
    """A message that cannot be rendered is dropped, and the next one is delivered."""

    class Faulty:
        name = "faulty"
        sent: list[Any] = []  # noqa: RUF012

        async def send(self, messages: Sequence[Any]) -> None:
            if messages == [1]:
                raise ZeroDivisionError
            self.sent.extend(messages)

    async def main() -> None:
        queue = SinkQueue(Faulty(), 10, QUICK, lump=1)
        queue.start()
        queue.put(1)
        queue.put(2)
        await until(lambda: queue.results["ok"] == 1)
        await queue.stop(1)
        assert (Faulty.sent, queue.results["failed"]) == ([2], 1)

    run(main)


def test_a_failing_sink_is_logged_once_a_series() -> None:
    """One line a series, however many pages; and nothing of the path, which is a secret."""

    async def main(events: list[Any]) -> None:
        async with Receiver(b"HTTP/1.1 404 No\r\n\r\n") as hook:
            settings = AlertSettings(webhook=WebhookSettings(url=hook.url + "/T0K/EN?k=S3CRET"))
            alerts = SinkDispatch(settings, AlertLinks(), 60 * SECOND, lambda: NOW)
            (queue,) = alerts.queues
            alerts.start()
            for number in range(5):
                queue.put(alert_of(number))
            await until(lambda: queue.results["failed"] == 5)
            hook.answer = OK
            for number in range(3):
                queue.put(alert_of(number))
            await until(lambda: queue.results["ok"] == 3)
            await alerts.stop(1)
        failing, recovered = events
        assert (failing["event"], failing["level"]) == ("alerts_failing", "warning")
        assert (failing["sink"], failing["reason"]) == ("webhook", "status 404")
        assert (failing["waiting"], failing["lost"]) == (5, 0)
        assert failing["place"].startswith(hook.url)
        assert (recovered["event"], recovered["lost"]) == ("alerts_recovered", 5)
        assert not any(secret in str(events) for secret in ("T0K", "EN?", "S3CRET"))

    with captured() as events:
        run(lambda: main(events))


def alert_of(number: int) -> dict[str, Any]:
    return {"status": "firing", "labels": {"n": str(number)}, "annotations": {}}


def test_a_sink_that_keeps_failing_is_logged_once_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is logged once a minute, even if some deliveries succeed."""

    class Moody:
        name = "moody"

        async def send(self, messages: Sequence[Any]) -> None:
            if messages != ["good"]:
                raise DeliveryError("moody", again=False)

    async def main(events: list[Any]) -> None:
        queue = SinkQueue(Moody(), 10, QUICK, lump=1)
        queue.start()

        async def told(*messages: str) -> list[str]:
            events.clear()
            for message in messages:
                queue.put(message)
            await until(lambda: len(queue) == 0)
            return [event["event"] for event in events]

        assert await told("bad", "good", "bad", "good", "bad") == [
            "alerts_failing",
            "alerts_recovered",
        ]
        monkeypatch.setattr("collector.sinks.queue.LOG_SECONDS", 0.0)
        assert await told("bad", "bad") == ["alerts_failing"] * 2
        await queue.stop(1)

    with captured() as events:
        run(lambda: main(events))


def test_stopping_sends_what_waits_or_counts_it() -> None:
    """Within the grace period messages are sent; the rest is dropped, counted and logged."""

    async def main() -> None:
        async with Receiver(None) as hook:
            queue = SinkQueue(_Hook(hook.url, 30), 10, QUICK)
            queue.start()
            queue.put(1)
            await queue.stop(0.05)
        assert queue.results["dropped"] == 1

    with captured() as events:
        run(main)
    (left,) = events
    assert (left["event"], left["sink"], left["messages"]) == (
        "alerts_undelivered",
        "webhook",
        1,
    )


def test_a_dripping_receiver_is_bounded_in_time() -> None:
    """One byte now and then is no answer: the whole request has its time."""

    async def main() -> None:
        async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while True:
                    writer.write(b"H")
                    await writer.drain()
                    await asyncio.sleep(0.01)
            except ConnectionError:
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(drip, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        with pytest.raises(DeliveryError, match="in time"):
            await HttpSender(f"http://{host}:{port}", 0.1).post(b"", {})
        server.close()
        await asyncio.sleep(0.05)

    run(main)


def test_lines_and_log_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each harmful verdict is a line, and an event on the judged span; scores at the end."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    async def main() -> None:
        file = tmp_path / "verdicts.jsonl"
        async with Receiver() as logs:
            settings = AlertSettings(jsonl=file, otlp_endpoint=logs.url)
            alerts = SinkDispatch(settings, AlertLinks(), SECOND, lambda: NOW)
            alerts.start()
            alerts.deliver([verdict(), verdict(None)._replace(revised_from=None)])
            scores = FinalScores("accepted", 1, 1, 1.0, 0.0, None, None, None, None)
            key = SessionKey("", "s")
            alerts.ended([SessionFinished(key, "rover", "farm_rover", "1", "idle", scores)])
            await alerts.stop(5)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        assert [(line["kind"], line["reason"]) for line in lines] == [("harmful", "forbidden")]
        records = [
            record
            for _, _, body in logs.requests
            for group in ExportLogsServiceRequest.FromString(body).resource_logs
            for scope in group.scope_logs
            for record in scope.log_records
        ]
        told = [{a.key: a.value for a in record.attributes} for record in records]
        names = [each["gen_ai.evaluation.name"].string_value for each in told]
        assert {record.event_name for record in records} == {"gen_ai.evaluation.result"}
        assert names == ["dfa.transition", "HarmRate", "PrefixCrit"]
        assert (records[0].trace_id, records[0].span_id) == (b"t" * 16, (1).to_bytes(8, "big"))
        assert told[0]["gen_ai.evaluation.score.label"].string_value == "harmful"
        assert told[1]["gen_ai.evaluation.score.value"].double_value == 1.0

    run(main)


def test_log_events_wait_for_a_receiver_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver of events that refuses and hangs costs its queue; when it is back they arrive."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    async def main() -> None:
        async with Receiver(b"HTTP/1.1 400 No\r\ncontent-length: 0\r\n\r\n") as logs:
            queue = SinkQueue(OtlpLogs(logs.url, 0.3), 10, QUICK)
            queue.start()
            hostile = verdict()._replace(tool="wa\ud800ter\n")
            queue.put(of_verdict(hostile, NOW))
            await until(lambda: queue.retries >= 1)
            logs.answer = None
            await until(lambda: queue.retries >= 2)
            logs.answer = OK
            await until(lambda: queue.results["ok"] == 1)
            await queue.stop(1)
        body = logs.requests[-1][2]
        assert b"gen_ai.evaluation.result" in body
        assert b"wa?ter" in body

    run(main)


def test_without_the_exporter_a_sentence_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """If an endpoint is set and the extra is missing, the error names the extra."""
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http", None)
    with pytest.raises(OSError, match=r"offrails\[otlp\]"):
        OtlpLogs("http://127.0.0.1:1", 1)


def test_a_slow_reader_of_the_feed_loses_the_oldest() -> None:
    """It gets the number it missed. Nobody waits for it, and nothing is left when it leaves."""

    async def main() -> None:
        attended: list[bool] = []
        feed = VerdictFeed(attended.append)
        stream = feed.lines()
        assert await anext(stream) == b"\n"
        feed.deliver([verdict(number=n) for n in range(1_500)])
        lump = await anext(stream)
        feed.close()
        assert [line async for line in stream] == []
        lines = [json.loads(line) for line in lump.splitlines()]
        assert lines[-1] == {"missed": 500}
        assert (lines[0]["step"], lines[-2]["step"]) == (500, 1_499)
        assert attended == [True, False]

    run(main)


def test_common_labels_are_those_all_share() -> None:
    """Common labels are those of Alertmanager's own payload."""
    alerts = [
        {"status": "resolved", "labels": {"a": "1", "b": x}, "annotations": {}} for x in "12"
    ]

    found = payload(alerts)

    assert found["commonLabels"] == {"a": "1"}
    assert found["status"] == "resolved"
