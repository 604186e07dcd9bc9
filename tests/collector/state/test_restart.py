"""A service that is killed and goes on, in this process, with a clock of our own."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import AsyncMock, patch

import pytest

from collector.config.settings.alerts import AlertSettings
from collector.config.settings.receiver import ReceiverSettings
from collector.config.settings.sessions import SessionSettings
from collector.config.settings.tls_and_auth import AuthSettings, BearerSettings
from collector.decode.protobuf.message_classes import varint
from collector.decode.protobuf.slices import LARGE_BYTES
from collector.decode.span import Resource, Span
from collector.net.watched_files import UnusableFileError
from collector.sinks.alertmanager import Alertmanager
from collector.sinks.printable_text import stamp
from collector.telemetry.logs import captured
from monitor.limits import SECOND
from monitor.spec.compiler.compile import compile_text
from monitor.spec.read import load_specs
from monitor.spec.spec import Spec
from monitor.visibility.cause import Cause
from monitor.visibility.gap import EVER
from tests.collector.state.life import START, Life, body_of
from tests.samples import sampled
from tests.simulation import wire
from tests.simulation.exporter import Request, Road, deliver
from tests.simulation.world import SPECS as SHADOWS
from tests.simulation.world import World

SPECS = tuple(replace(spec, mode="page") for spec in SHADOWS)
ALERTS = AlertSettings(alertmanager=("http://127.0.0.1:1/",))


def traffic(seed: int, sessions: int = 6) -> list[Request]:
    """Sessions of all kinds over half a minute."""
    chance = Random(seed)
    world = World(chance)
    spans = []
    for number in range(sessions):
        spans += world.session(f"s{number}", START + chance.randrange(1, 20 * SECOND)).spans
    return deliver(spans, Road(), chance)


def bulky(requests: Iterable[Request]) -> list[Span]:
    """Their spans, each with a kilobyte that nobody reads: few of them are a request that is judged in slices."""
    return [
        span.but(shape=(*span.shape, "note"), values=(*span.values, "x" * 1_000))
        for request in requests
        for span in request.spans
    ]


async def _live(
    life: Life,
    requests: list[Request],
    deaths: set[int],
    snapshots: frozenset[int] = frozenset(),
) -> None:
    await life.start()
    for number, request in enumerate(requests):
        if number in snapshots:
            life.snapshot()
        life.pass_to(request.now)
        await life.send(request.spans)
        if number in deaths:
            now = life.clock.now
            await life.restart(0)
            assert life.clock.now == now
    life.pass_to(life.clock.now + 20 * SECOND)


@cache
def undisturbed(seed: int) -> Life:
    """A service that was never killed, at the end of its traffic."""
    life = Life(None, SPECS, alerts=ALERTS)
    asyncio.run(_live(life, traffic(seed), set()))
    return life


def assert_as_undisturbed(killed: Life, seed: int) -> None:
    """Judgements, metrics, counters and pages are those of a service that was never killed."""
    true = undisturbed(seed)
    assert killed.objects() == true.objects()
    assert killed.families() == true.families()
    assert killed.counters() == true.counters()
    assert killed.firing() == true.firing()


@pytest.mark.parametrize("seed", sampled(range(12), range(2)))
def test_a_killed_service_goes_on_as_if_nothing_had_been(seed: int, tmp_path: Path) -> None:
    """Judgements, metrics, counters and pages are those of a service that was never killed."""
    requests = traffic(seed)
    chance = Random(seed)
    deaths = {chance.randrange(len(requests)) for _ in range(3)}
    killed = Life(tmp_path, SPECS, alerts=ALERTS)
    asyncio.run(_live(killed, requests, deaths))
    assert_as_undisturbed(killed, seed)


@pytest.mark.parametrize("seed", sampled(range(24), range(4)))
def test_a_service_goes_on_from_a_snapshot_as_if_nothing_had_been(
    seed: int, tmp_path: Path
) -> None:
    """The same, where snapshots were taken at random: only what came behind the last one is judged again."""
    requests = traffic(seed)
    chance = Random(seed)
    deaths = {chance.randrange(len(requests)) for _ in range(3)}
    snapshots = frozenset(chance.randrange(max(deaths) + 1) for _ in range(6))
    killed = Life(tmp_path, SPECS, alerts=ALERTS)
    with captured() as told:
        asyncio.run(_live(killed, requests, deaths, snapshots))
    unused = [each["reason"] for each in told if each["event"] == "snapshot_not_used"]
    assert not unused
    assert any(each.get("snapshot") for each in told)
    assert_as_undisturbed(killed, seed)


def spec_of(text: str) -> Spec:
    spec, findings = compile_text(text, "rover.yaml")
    assert spec is not None, findings
    return spec


ROVER = """
id: rover
kind: task
mode: page
match: {service.name: rover}
alphabet: {unlock: {tool: unlock}, move: {tool: move}, lock: {tool: lock}}
golden: [[unlock, move, lock]]
"""
HOUR_NS = 3_600 * SECOND


class Rover:
    """An agent that calls tools in sessions, one call a request, by the clock of a service."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self._serial = 0
        self._resource = Resource({"service.name": "rover"})

    async def call(self, session: str, tool: str, **sent: Any) -> Span:
        """One call that ends now."""
        self.life.pass_to(self.life.clock.now + SECOND)
        self._serial += 1
        span = wire.tool(
            self._resource,
            tool,
            {},
            conversation=session,
            trace_id=session.encode().ljust(16, b"."),
            span_id=self._serial.to_bytes(8, "big"),
            start_ns=self.life.clock.now - 1_000,
            end_ns=self.life.clock.now,
        )
        await self.life.send([span], **sent)
        return span

    async def ask(self, session: str, tool: str) -> None:
        """A model asks for a call now."""
        self.life.pass_to(self.life.clock.now + SECOND)
        self._serial += 1
        part = {"type": "tool_call", "id": f"c{self._serial}", "name": tool, "arguments": {}}
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": session,
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": [part]}]),
        }
        span = wire.span_of(
            self._resource,
            "chat",
            attributes,
            trace_id=session.encode().ljust(16, b"."),
            span_id=self._serial.to_bytes(8, "big"),
            start_ns=self.life.clock.now - 1_000,
            end_ns=self.life.clock.now,
        )
        await self.life.send([span])

    def judgement(self, session: str) -> dict[str, Any]:
        (found,) = self.life.app.monitor.find(session)
        return found


def skip(life: Life, by: int) -> None:
    """Time goes on at once, as for a machine that slept, and its agents with it."""
    life.clock.now += by
    life.app.pauses.begin()
    life.pass_to(life.clock.now + SECOND)


async def _started(
    folder: Path, state: Mapping[str, Any] | None = None, **more: Any
) -> tuple[Life, Rover]:
    """A service that is older than any session may be."""
    life = Life(folder, [spec_of(ROVER)], state=state, alerts=ALERTS, **more)
    await life.start()
    skip(life, HOUR_NS)
    return life, Rover(life)


def test_a_down_time_that_senders_bridge_needs_no_leniency(tmp_path: Path) -> None:
    """A session that began before goes on exactly, and a new one is judged fully from its first call."""

    async def run() -> None:
        life, rover = await _started(tmp_path, {"bridged_seconds": 10})
        await rover.call("old", "unlock")
        await life.restart(5 * SECOND)
        await rover.call("old", "lock")
        await rover.call("new", "move")
        for session in ("old", "new"):
            found = rover.judgement(session)
            assert (found["exact"], found["joined"], found["harmful"]) == (True, False, 1)
        assert not life.app.young_until

    asyncio.run(run())


def test_after_a_long_down_time_sessions_count_as_joined(tmp_path: Path) -> None:
    """Calls may have been missed then: what goes on is joined, and what is new may have begun before.

    A session that ended before stays as it was.
    """

    async def run() -> None:
        life, rover = await _started(tmp_path)
        for session in ("done", "old"):
            await rover.call(session, "unlock")
        await life.restart(60 * SECOND)
        assert life.app.state is not None
        assert 60 <= life.app.state.journal.down_seconds < 61
        await rover.call("old", "lock")
        await rover.call("new", "move")
        old, new, done = (rover.judgement(each) for each in ("old", "new", "done"))
        assert (old["joined"], old["exact"], old["harmful"]) == (True, False, 0)
        assert new["harmful"] == 0
        assert (done["joined"], done["exact"]) == (False, True)
        true = [old, new, done]
        await life.restart(0)  # a replay knows of the down-time before
        found = [rover.judgement(each) for each in ("old", "new", "done")]
        assert found == true

    asyncio.run(run())


def test_a_start_that_fails_ends_no_down_time(tmp_path: Path) -> None:
    """A process that could not open its receivers has received nothing: the down-time goes on."""

    async def run() -> None:
        life, rover = await _started(tmp_path)
        await rover.call("s", "unlock")
        settings = life.settings
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            receiver = ReceiverSettings(grpc="off", http=address)
            for _ in range(3):
                life.kill()
                life.clock.now += 8 * SECOND
                life.settings = settings.model_copy(update={"receiver": receiver})
                with pytest.raises(OSError, match=address):
                    await life.start()
        life.settings = settings
        await life.restart(8 * SECOND)
        assert life.app.state is not None
        assert 32 <= life.app.state.journal.down_seconds < 33
        await rover.call("s", "lock")
        assert rover.judgement("s")["joined"]

    asyncio.run(run())


def test_counters_go_on_when_the_oldest_files_are_gone(tmp_path: Path) -> None:
    """Deleted files take sessions along, which count as joined when they go on, but no counter."""

    async def run() -> None:
        life, rover = await _started(tmp_path, {"keep_seconds": 64.0})
        await rover.call("old", "move")
        before = life.families()
        for number in range(8):
            life.pass_to(life.clock.now + 20 * SECOND)
            await rover.call(f"s{number}", "unlock")
        life.pass_to(life.clock.now + 120 * SECOND)
        await rover.call("last", "unlock")
        life.pass_to(life.clock.now + 20 * SECOND)
        assert "offrails_harmful_calls" in before
        true, counters = life.families(), life.counters()
        await life.restart(0)
        assert life.app.monitor.find("old") == []
        found = life.families()
        for name in COUNTED:
            assert found[name] == true[name], name
        assert life.counters() == counters
        await rover.call("old", "move")
        old = rover.judgement("old")
        assert (old["joined"], old["harmful"]) == (True, 0)
        await rover.call("fresh", "move")
        fresh = rover.judgement("fresh")
        assert (fresh["joined"], fresh["exact"], fresh["harmful"]) == (False, True, 1)

    asyncio.run(run())


def test_a_start_that_is_killed_at_once_loses_nothing(tmp_path: Path) -> None:
    """What came in the last minutes is judged again by each process, however short sessions are: the archive may not have it."""

    async def run() -> None:
        life, rover = await _started(tmp_path, sessions=SessionSettings(idle_seconds=1.0))
        await rover.call("s", "unlock")
        for number in range(5):
            with captured() as told:
                await life.restart(10 * SECOND)
            [recovered] = [each for each in told if each["event"] == "state_recovered"]
            assert recovered["requests"] == 1 + number
            await rover.call("other", "unlock")

    asyncio.run(run())


def test_a_request_that_is_forgotten_leaves_no_doubt_for_ever(tmp_path: Path) -> None:
    """A tool may be silent while a request for it waits; where that is gone with its file, the doubt ends there."""

    async def run() -> None:
        life, rover = await _started(tmp_path, {"keep_seconds": 64.0})
        await rover.call("old", "unlock")
        await rover.ask("old", "move")
        (gap,) = life.app.monitor.state.judging_state.ledger
        assert (gap.cause, gap.until_ns) == (Cause.SILENT_TOOL, EVER)
        for number in range(8):
            life.pass_to(life.clock.now + 20 * SECOND)
            await rover.call(f"s{number}", "unlock")
        life.pass_to(life.clock.now + 140 * SECOND)
        await life.restart(0)
        (gap,) = life.app.monitor.state.judging_state.ledger
        assert gap.since_ns < gap.until_ns < life.clock.now
        life.pass_to(life.clock.now + 20 * SECOND)
        await life.restart(0)
        assert len(life.app.monitor.state.judging_state.ledger) == 1
        skip(life, HOUR_NS)
        await rover.call("fresh", "unlock")
        await rover.call("fresh", "lock")
        fresh = rover.judgement("fresh")
        assert (fresh["exact"], fresh["harmful"]) == (True, 1)

    asyncio.run(run())


COUNTED = (
    "offrails_calls",
    "offrails_harmful_calls",
    "offrails_harmful_calls_provisional",
    "offrails_sessions_started",
    "offrails_sessions_joined",
)


def test_a_session_keeps_the_spec_it_began_with(tmp_path: Path) -> None:
    """A spec that changed while the service was down judges new sessions; old ones keep their version."""

    async def run() -> None:
        file = tmp_path / "rover.yaml"
        file.write_text(ROVER)
        life = Life(tmp_path / "state", load_specs([file]).specs)
        await life.start()
        skip(life, HOUR_NS)
        rover = Rover(life)
        await rover.call("old", "unlock")
        file.write_text(ROVER.replace("[unlock, move, lock]", "[unlock, lock, move]"))
        life.specs = load_specs([file]).specs
        await life.restart(0)
        for session in ("old", "new"):
            if session == "new":
                await rover.call(session, "unlock")
            await rover.call(session, "move")
        assert rover.judgement("old")["harmful"] == 0
        assert rover.judgement("new")["harmful"] == 1
        await life.restart(0)
        assert rover.judgement("old")["harmful"] == 0
        assert rover.judgement("new")["harmful"] == 1

    asyncio.run(run())


def test_a_clean_stop_is_no_end(tmp_path: Path) -> None:
    """A service that was stopped goes on like one that was killed: nothing is made final before its time."""

    async def run() -> None:
        life, rover = await _started(tmp_path)
        await rover.call("s", "move")
        true = rover.judgement("s")
        await life.app.stop()
        life.clock.now += SECOND
        await life.start()
        assert rover.judgement("s") == true
        await rover.call("s", "unlock")
        assert rover.judgement("s")["harmful"] == 1

    asyncio.run(run())


def test_a_clock_that_was_set_back_is_followed(tmp_path: Path) -> None:
    """A start before the last record moves what is known along, so that nothing lives too long."""

    async def run() -> None:
        life, rover = await _started(tmp_path)
        await rover.call("s", "unlock")
        await life.restart(-1_000 * SECOND)
        skip(life, HOUR_NS // 2 + SECOND)
        assert life.app.monitor.sessions == 0
        await life.restart(0)
        assert life.app.monitor.sessions == 0

    asyncio.run(run())


def test_a_large_request_survives(tmp_path: Path) -> None:
    """A request that is judged in slices, and counters written in the middle of it, come back right."""

    async def run() -> None:
        spans = bulky(traffic(3, sessions=20)) * 2
        assert len(body_of(spans)) > LARGE_BYTES
        results = []
        for folder in (None, tmp_path):
            life = Life(folder, SPECS, alerts=ALERTS)
            await life.start()
            life.pass_to(START + 60 * SECOND)
            sent = asyncio.create_task(life.send(spans))
            while not sent.done():
                await asyncio.sleep(0)
                if folder is not None:
                    life.app.state.heads.tick(life.clock.now)  # type: ignore[union-attr]
            await sent
            if folder is not None:
                await life.restart(0)
            life.pass_to(START + 90 * SECOND)
            results.append((life.objects(), life.families(), life.counters()))
        assert results[0] == results[1]

    asyncio.run(run())


def test_a_request_that_fills_a_file_is_behind_a_whole_head(tmp_path: Path) -> None:
    """A request that is larger than a file leaves the head of its file to be written: older files can go."""

    async def main() -> None:
        life = Life(tmp_path, SPECS, state={"bytes_max": 1 << 20})
        app = await life.start()
        for number in range(40):
            spans = World(Random(number)).session(f"s{number}", life.clock.now, "shop").spans
            bulk = (
                b"\xfa\x3f" + varint(128 << 10) + bytes(128 << 10)
            )  # a field that nobody knows
            await app.export.ingest("traces", body_of(spans) + bulk, "proto", "grpc")
            life.pass_to(life.clock.now + SECOND)
        assert app.state is not None
        journal = app.state.journal
        assert journal.records["whole"] >= 39
        assert journal.bytes < (1 << 20) + (256 << 10)
        assert not [key for key in app.stats.counts if key[0] == "internal_errors"]

    with captured():
        asyncio.run(main())


def test_senders_come_back(tmp_path: Path) -> None:
    """The name of a sender's token is part of the session's name, also when it is judged again."""

    async def run() -> None:
        tokens = tmp_path / "tokens"
        tokens.write_text("anna: secret\n")
        auth = AuthSettings(bearer=BearerSettings(tokens_file=tokens))
        life, rover = await _started(
            tmp_path / "state", receiver=ReceiverSettings(grpc="off", http="off", auth=auth)
        )
        await rover.call("s", "unlock", sender="anna")
        (before,) = life.app.monitor.find("s")
        await life.restart(0)
        assert life.app.monitor.find("s") == [before]
        assert before["namespace"].startswith("anna")

    asyncio.run(run())


def test_duplicates_are_known_after_a_restart(tmp_path: Path) -> None:
    """A span that is sent again because its answer was lost is dropped."""

    async def run() -> None:
        life, rover = await _started(tmp_path)
        span = await rover.call("s", "unlock")
        await life.restart(0)
        await life.send([span])
        assert rover.judgement("s")["calls"] == 1
        assert life.counters()["dropped"]["duplicate"] == 1

    asyncio.run(run())


def test_damage_costs_what_is_damaged(tmp_path: Path) -> None:
    """A flipped bit loses one request, and is logged with file and place; with `strict` it refuses the start."""

    async def run() -> None:
        life, rover = await _started(tmp_path)
        for session in ("one", "two", "three"):
            await rover.call(session, "unlock")
        life.kill()
        file, place = _spoil(tmp_path, b"two")
        with captured() as lines:
            await life.start()
        (told,) = [line for line in lines if line["event"] == "journal_damaged"]
        assert told["file"] == file.name
        assert told["offset"] < place
        assert [bool(life.app.monitor.find(s)) for s in ("one", "two", "three")] == [
            True,
            False,
            True,
        ]
        life.kill()
        life.settings = life.settings.model_copy(
            update={"state": life.settings.state.model_copy(update={"strict": True})}
        )
        with pytest.raises(UnusableFileError, match=r"state\.dir: .*damaged at byte \d+"):
            await life.start()

    asyncio.run(run())


def _spoil(folder: Path, text: bytes) -> tuple[Path, int]:
    """Flips a bit of a text; gives its file, and its place there."""
    for file in sorted(folder.glob("journal-*.log")):
        data = bytearray(file.read_bytes())
        place = data.find(text)
        if place >= 0:
            data[place] ^= 1
            file.write_bytes(data)
            return file, place
    raise AssertionError(text)


def test_a_service_without_traffic_writes_next_to_nothing(tmp_path: Path) -> None:
    """A minute in which nothing happens takes a record every few seconds, and no counters."""

    async def run() -> None:
        life = Life(tmp_path, [spec_of(ROVER)])
        await life.start()
        life.pass_to(START + 10 * SECOND)
        journal = life.app.state.journal if life.app.state is not None else None
        assert journal is not None
        before = journal.records.copy()
        life.pass_to(START + 70 * SECOND)
        assert journal.records["counters"] == before["counters"]
        assert 10 <= journal.records["tick"] - before["tick"] <= 13

    asyncio.run(run())


# --- pages ---------------------------------------------------------------------------------------


def waiting(life: Life) -> list[dict[str, Any]]:
    """What waits to be sent to the Alertmanager."""
    (queue,) = life.app.alerts.queues
    return [message for _, message in queue.waiting()]


async def deliver_all(life: Life) -> None:
    """The Alertmanager takes what waits."""
    (queue,) = life.app.alerts.queues
    with patch.object(Alertmanager, "send", AsyncMock()):
        queue.start()
        await queue.stop(30)


def test_a_page_that_was_delivered_is_not_delivered_again(tmp_path: Path) -> None:
    """It still fires after the restart, and is resolved when its session ends."""

    async def run() -> None:
        life, rover = await _started(tmp_path)
        await rover.call("s", "move")
        life.pass_to(life.clock.now + SECOND)
        assert len(waiting(life)) == 1
        await deliver_all(life)
        await life.restart()
        assert waiting(life) == []
        assert len(life.firing()) == 1
        skip(life, HOUR_NS)
        assert life.firing() == set()
        last = waiting(life)[-1]
        assert last["labels"]["agent"] == "rover"
        assert last["endsAt"] <= stamp(life.clock.now)

    asyncio.run(run())


def test_a_page_that_was_due_is_delivered_by_the_next_process(tmp_path: Path) -> None:
    """One that settled, or waited in the queue, when the process was killed leaves once it is back."""

    async def run() -> None:
        for waits_ns in (0, SECOND):
            life, rover = await _started(tmp_path / str(waits_ns))
            await rover.call("s", "move")
            life.pass_to(life.clock.now + waits_ns)
            assert len(waiting(life)) == (waits_ns > 0)
            await life.restart(5 * SECOND)
            life.pass_to(life.clock.now + SECOND)
            (alert,) = waiting(life)
            assert alert["labels"]["severity"] == "warning"
            assert alert["endsAt"] > stamp(life.clock.now)
            await deliver_all(life)
            await life.restart()
            assert waiting(life) == []

    asyncio.run(run())
