"""The composition root: built, started and stopped in this process, with a clock of our own."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from collector.app import ticker
from collector.app.derived_settings import instance_of, limits_of
from collector.app.service import App
from collector.config.settings.alerts import AlertSettings
from collector.config.settings.decide import DecideSettings
from collector.config.settings.receiver import ReceiverSettings
from collector.config.settings.record import RecordSettings
from collector.config.settings.sessions import SessionSettings
from collector.config.settings.settings import Settings
from collector.net.watched_files import UnusableFileError
from collector.receive.listener.address import AddressInUse
from collector.telemetry.clock import ClockWatch
from collector.telemetry.logs import captured
from monitor.limits import SECOND
from monitor.spec.compiler.compile import compile_text
from monitor.spec.read import load_specs
from monitor.visibility.cause import Cause
from tests.collector.event_loop import until

SPECS = load_specs([Path(__file__).parents[3] / "dfa_specs" / "farm_rover.yaml"]).specs
FREE = "127.0.0.1:0"
T = TypeVar("T")


class Clock:
    """A clock that moves only when the test moves it."""

    def __init__(self) -> None:
        self.now = 1_000 * SECOND

    def __call__(self) -> int:
        return self.now


def settings(**changes: Any) -> Settings:
    given: dict[str, Any] = {
        "receiver": ReceiverSettings(grpc="off", http=FREE),
        "metrics": FREE,
        "admin": FREE,
        "decide": DecideSettings(listen=FREE),
        "history": "complete",
        **changes,
    }
    return Settings(**given)


def body(tool: str) -> bytes:
    """A request with one call of the rover."""
    texts = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.conversation.id": "s",
    }
    span = {
        "traceId": "01" * 16,
        "spanId": "02" * 8,
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "attributes": [{"key": k, "value": {"stringValue": v}} for k, v in texts.items()],
    }
    service = [{"key": "service.name", "value": {"stringValue": "farm-rover"}}]
    group = {"resource": {"attributes": service}, "scopeSpans": [{"spans": [span]}]}
    return json.dumps({"resourceSpans": [group]}).encode()


async def http(address: str, method: str, path: str, sent: bytes = b"") -> tuple[int, bytes]:
    """One request on a connection of its own."""
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (
        f"{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(sent)}\r\n\r\n"
    )
    writer.write(head.encode() + sent)
    answer = await reader.read()
    writer.close()
    head_bytes, _, rest = answer.partition(b"\r\n\r\n")
    return int(head_bytes.split()[1]), rest


def running(use: Callable[[App, Clock], Awaitable[T]], **changes: Any) -> T:
    """Starts an app, runs `use` on it, and stops it."""

    async def run() -> T:
        clock = Clock()
        app = App(settings(**changes), SPECS, clock)
        await app.start()
        try:
            return await use(app, clock)
        finally:
            await app.stop()

    return asyncio.run(run())


TIMED = """
id: timed
match: {service.name: farm-rover}
alphabet: {move: {tool: move}, log: {tool: log}}
golden: [[move, log]]
deadlines: [{from: move, to: log, within: 20s}]
"""


def test_a_missed_deadline_is_streamed_counted_and_logged(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A deadline that no call answers is in the stream of verdicts, the metrics and the log."""

    async def use(app: App, clock: Clock) -> tuple[dict[str, Any], str, list[dict[str, Any]]]:
        old = b'"startTimeUnixNano": "1", "endTimeUnixNano": "2"'
        now = str(clock.now).encode()
        sent = body("move").replace(old, old.replace(b'"1"', now).replace(b'"2"', now))
        assert (await http(app.addresses["http"], "POST", "/v1/traces", sent))[0] == 200
        host, port = app.addresses["admin"].split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /api/v1/verdicts HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        clock.now += 20 * SECOND
        line = b""
        while not line.startswith(b"{"):
            line = await reader.readline()
        writer.close()
        clock.now += 30 * SECOND
        page = b""
        while b'verdict="cannot_finish",reason="deadline"} 1' not in page:
            _, page = await http(app.addresses["metrics"], "GET", "/metrics")
        _, found = await http(app.addresses["admin"], "GET", "/api/v1/sessions/s")
        return json.loads(line), page.decode(), json.loads(found)["sessions"]

    async def run() -> tuple[dict[str, Any], str, list[dict[str, Any]]]:
        spec, findings = compile_text(TIMED, "timed.yaml")
        assert spec is not None, findings
        clock = Clock()
        app = App(settings(), [spec], clock)
        await app.start()
        try:
            return await use(app, clock)
        finally:
            await app.stop()

    verdict, _, [judged] = asyncio.run(run())
    assert (verdict["kind"], verdict["reason"]) == ("cannot_finish", "deadline")
    assert verdict["constraint"] == "move -> log within 20 s"
    assert (judged["can_finish"], judged["missed"][0]["final"]) == (False, True)
    assert "session_cannot_finish" in capsys.readouterr().err


def test_settings_become_limits() -> None:
    """Settings in seconds become nanoseconds, and words become switches."""
    made = limits_of(
        Settings(
            sessions=SessionSettings(
                max=5, idle_seconds=1.5, window_seconds=0, hold_seconds=2, remember_seconds=7
            ),
            history="complete",
            show_arguments=True,
        )
    )

    assert (made.sessions_max, made.idle_ns, made.window_ns, made.hold_ns) == (
        5,
        1_500_000_000,
        0,
        2 * SECOND,
    )
    assert made.remember_ns == 7 * SECOND
    assert (made.history_complete, made.keep_arguments, made.fold) == (True, True, True)


def test_bytes_to_verdict_to_gauge() -> None:
    """A request in, the judgement and the gauge out, in one process."""

    async def use(app: App, _: Clock) -> tuple[Any, ...]:
        taken = await http(app.addresses["http"], "POST", "/v1/traces", body("water"))
        sessions = await http(app.addresses["admin"], "GET", "/api/v1/sessions/s")
        metrics = await http(app.addresses["metrics"], "GET", "/metrics")
        return taken, json.loads(sessions[1]), metrics[1].decode()

    taken, found, metrics = running(use)

    assert taken == (200, b"{}")
    assert found["sessions"][0]["steps"][0]["reason"] == "out_of_order"
    assert 'offrails_harm_rate{agent="farm-rover",spec="farm_rover"} 1.0' in metrics


def test_the_clock_alone_makes_counters_final_and_ends_sessions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Final counters and idle ends come with the clock, without any request."""
    monkeypatch.setattr(ticker, "TICK_SECONDS", 0.001)

    async def use(app: App, clock: Clock) -> None:
        await http(app.addresses["http"], "POST", "/v1/traces", body("water"))
        pair = app.monitor.totals.pairs["farm-rover", "farm_rover"]
        assert pair.final.total() == 0
        clock.now += 11 * SECOND
        await until(lambda: pair.final.total() == 1)
        assert app.monitor.sessions == 1
        clock.now += 1_800 * SECOND
        await until(lambda: app.monitor.sessions == 0)

    running(use)


@pytest.mark.plain
def test_a_fault_of_one_tick_does_not_stop_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of one tick is counted, and the next tick runs."""
    monkeypatch.setattr(ticker, "TICK_SECONDS", 0.001)

    async def use(app: App, _: Clock) -> str:
        ticks, enough = 0, asyncio.Event()

        def broken(_: int) -> list[Any]:
            nonlocal ticks
            ticks += 1
            if ticks == 3:
                enough.set()
            raise ZeroDivisionError

        monkeypatch.setattr(app.monitor, "tick", broken)
        await asyncio.wait_for(enough.wait(), 10)
        return (await http(app.addresses["metrics"], "GET", "/metrics"))[1].decode()

    assert 'offrails_internal_errors_total{error="ZeroDivisionError"}' in running(use)


def test_listeners_that_are_off() -> None:
    """Listeners that are off have no address and open no port."""

    async def use(app: App, _: Clock) -> dict[str, str]:
        return app.addresses

    off = DecideSettings(listen="off")
    assert set(running(use, metrics="off")) == {"http", "admin", "decide"}
    assert set(running(use, metrics="off", decide=off)) == {"http", "admin"}
    none = ReceiverSettings(grpc="off", http="off")
    assert set(running(use, receiver=none)) == {"metrics", "admin", "decide"}


def test_a_failed_start_leaves_nothing_open() -> None:
    """The listeners that were bound before the taken one are free again."""

    async def start(taken: str) -> dict[str, str]:
        app = App(settings(admin=taken), SPECS)
        with pytest.raises(AddressInUse):
            await app.start()
        return app.addresses

    with socket.create_server(("127.0.0.1", 0)) as other:
        bound = asyncio.run(start(f"127.0.0.1:{other.getsockname()[1]}"))

    assert set(bound) == {"http", "decide", "metrics"}
    for address in bound.values():
        host, port = address.split(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=5)


def test_a_start_with_an_unusable_file_leaves_no_thread(tmp_path: Path) -> None:
    """The recorder's thread has begun when the file of lines turns out to be a folder."""

    async def start() -> None:
        changes = {
            "record": RecordSettings(folder=tmp_path / "recorded"),
            "alerts": AlertSettings(jsonl=tmp_path),
        }
        app = App(settings(**changes), SPECS)
        with pytest.raises(UnusableFileError) as problem:
            await app.start()
        assert problem.value.setting == "alerts.jsonl"

    before = set(threading.enumerate())
    asyncio.run(start())
    assert [each.name for each in set(threading.enumerate()) - before] == []


def test_stopping_twice_is_stopping() -> None:
    """`running` stops it once more."""

    async def use(app: App, _: Clock) -> None:
        await app.stop()

    running(use)
    running(use, receiver=ReceiverSettings(grpc=FREE, http=FREE))


def test_readiness_follows_the_receivers() -> None:
    """503 before the start and while stopping; the health paths answer to the last."""

    async def use(app: App, _: Clock) -> tuple[int, int, int]:
        ready = (await http(app.addresses["metrics"], "GET", "/-/ready"))[0]
        app.health.ready = False
        unready = (await http(app.addresses["metrics"], "GET", "/-/ready"))[0]
        return ready, unready, (await http(app.addresses["metrics"], "GET", "/-/healthy"))[0]

    assert running(use) == (200, 503, 200)


@pytest.mark.parametrize("by", [86_400, -86_400])
def test_a_clock_that_is_set_is_logged_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, by: int
) -> None:
    """The jump is one line and one count; the session is live, and its verdict final."""
    monkeypatch.setattr(ticker, "TICK_SECONDS", 0.001)
    wall, steady = Clock(), Clock()
    wall.now = 1_700_000_000 * SECOND

    async def run() -> str:
        app = App(settings(), SPECS, wall, steady)
        await app.start()
        try:
            await http(app.addresses["http"], "POST", "/v1/traces", body("water"))
            wall.now += by * SECOND
            pair = app.monitor.totals.pairs["farm-rover", "farm_rover"]
            async with asyncio.timeout(10):
                while pair.final.total() == 0:  # noqa: ASYNC110 - a state, not an event
                    await asyncio.sleep(0.001)
            assert app.monitor.sessions == 1
            return (await http(app.addresses["metrics"], "GET", "/metrics"))[1].decode()
        finally:
            await app.stop()

    with captured() as events:
        metrics = asyncio.run(run())
    assert "offrails_clock_jumps_total 1" in metrics
    assert [each["seconds"] for each in events if each["event"] == "clock_moved"] == [by]


def test_a_pause_right_after_the_start_is_noticed() -> None:
    """The receivers are open from then on: a process that is stopped before its first look at the time has missed calls."""
    wall, steady = Clock(), Clock()
    wall.now = 1_700_000_000 * SECOND

    async def run() -> int:
        app = App(settings(), SPECS, wall, steady)
        await app.start()
        try:
            wall.now += 7 * SECOND
            steady.now += 7 * SECOND
            app.step()
            return app.monitor.gaps.doubts[Cause.OUTAGE]
        finally:
            await app.stop()

    with captured() as events:
        assert asyncio.run(run()) == 1
    assert [each["seconds"] for each in events if each["event"] == "paused"] == [7]


def test_small_corrections_of_a_clock_are_no_jumps() -> None:
    """Small corrections are not reported, even if they add up; a jump of five seconds is, either way."""
    wall, steady = Clock(), Clock()
    watch = ClockWatch(wall, steady)
    for seconds, expected in ((4.9, 0), (0.2, 0), (5, 5), (-5, -5), (0, 0)):
        wall.now += 60 * SECOND + int(seconds * SECOND)
        steady.now += 60 * SECOND
        assert watch.moved() == expected * SECOND


@pytest.mark.plain
def test_a_sink_that_fails_keeps_verdicts_from_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The sender gets its answer, the other sinks the verdict, and the fault is counted."""

    async def use(app: App, _: Clock) -> tuple[Any, ...]:
        def broken(_: Any) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(app.alerts, "deliver", broken)
        with captured() as events:
            taken = await http(app.addresses["http"], "POST", "/v1/traces", body("water"))
        metrics = await http(app.addresses["metrics"], "GET", "/metrics")
        return taken[0], [each["event"] for each in events], metrics[1].decode()

    status, events, metrics = running(use)
    assert status == 200
    assert events == ["a sink failed", "harmful_call"]
    assert 'offrails_internal_errors_total{error="ZeroDivisionError"} 1' in metrics


MISTYPED = """
id: mistyped
kind: policy
match: {service.name: farm-rowver}
alphabet: {move: {tool: move}}
constraints: [{at_most: [move, 1]}]
"""


def test_a_spec_that_no_session_matches_is_logged_once() -> None:
    """Ten minutes after the start, once; the agent's own line names the specs that judge it."""

    async def use() -> None:
        spec, findings = compile_text(MISTYPED, "mistyped.yaml")
        assert spec is not None, findings
        clock = Clock()
        app = App(settings(), [*SPECS, spec], clock)
        await app.start()
        try:
            assert (
                await http(app.addresses["http"], "POST", "/v1/traces", body("unlock_safety"))
            )[0] == 200
            for _ in range(2):
                clock.now += 601 * SECOND
                app.step()
        finally:
            await app.stop()

    with captured() as events:
        asyncio.run(use())

    [agent] = [each for each in events if each["event"] == "agent_seen"]
    [told] = [each for each in events if each["event"] == "spec_without_sessions"]
    assert (agent["service"], agent["specs"]) == ("farm-rover", ["farm_rover"])
    assert (told["spec"], told["match"]) == ("mistyped", ["service.name"])


def test_direct_alerts_bear_the_instance_of_the_scrape() -> None:
    """The metrics listener's address; a wildcard is the host's name, as a scrape by name has it."""
    host = socket.gethostname()
    assert instance_of("127.0.0.1:9464") == "127.0.0.1:9464"
    assert instance_of("0.0.0.0:9464") == instance_of("[::]:9464") == f"{host}:9464"
    assert instance_of("off") == instance_of("unix:/run/metrics") == host
