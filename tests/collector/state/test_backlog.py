"""A service that receives while it goes through the time of an earlier process, in this process, with a clock of our own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from collector.decode.protobuf.slices import LARGE_BYTES
from collector.receive import export
from collector.receive.status_codes import ExportStatus, Refusal
from collector.restart import recovery
from collector.state.segment import HEAD_BYTES, number_of, numbered, offset_of
from collector.telemetry.logs import captured
from monitor.limits import SECOND
from tests.collector.state.life import TICK_NS, Life, body_of
from tests.collector.state.test_restart import (
    ALERTS,
    SPECS,
    assert_as_undisturbed,
    bulky,
    traffic,
)
from tests.samples import sampled
from tests.simulation.exporter import Request


@pytest.fixture(autouse=True)
def _in_short_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The replay lets others in behind each record; what is received takes one turn, however slow the machine is."""
    monkeypatch.setattr(recovery, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(export, "TURN_SECONDS", 3_600.0)


async def opened(life: Life) -> None:
    """Waits until the service keeps what it receives."""
    while life.app.export.judges:  # noqa: ASYNC110 - there is nothing to await in a service
        await asyncio.sleep(0)


async def replaying(life: Life, past: Sequence[Request]) -> asyncio.Task[None]:
    """Has a service judge these, kills it, and starts the next one, which keeps what it receives."""
    await life.start()
    for request in past:
        await life.send(request.spans)
    life.kill()
    replay = life.begin()
    await opened(life)
    return replay


def pass_early(life: Life, now: int) -> None:
    """Time goes on while the service goes through its journal: it is written there, and nothing else happens."""
    state = life.app.state
    assert state is not None
    while life.clock.now + TICK_NS <= now:
        life.clock.now += TICK_NS
        state.journal.tick(life.clock.now, busy=True)
    life.clock.now = max(life.clock.now, now)


async def lived(life: Life, requests: list[Request], deaths: dict[int, int]) -> int:
    """Sends all, and kills the service behind some of them: so many of the next ones arrive in its replay.

    Returns:
        Requests that did.
    """
    await life.start()
    replay: asyncio.Task[None] | None = None
    early = left = 0
    for number, request in enumerate(requests):
        if replay is not None and (not left or replay.done()):
            await replay
            replay = None
        if replay is None:
            life.pass_to(request.now)
        else:
            pass_early(life, request.now)
            early, left = early + 1, left - 1
        await life.send(request.spans)
        if number in deaths:
            if replay is not None:
                replay.cancel()
            life.kill()
            replay, left = life.begin(), deaths[number]
            await opened(life)
    if replay is not None:
        await replay
    life.pass_to(life.clock.now + 20 * SECOND)
    return early


@pytest.mark.parametrize("seed", sampled(range(12), range(2)))
def test_what_arrives_meanwhile_is_judged_in_its_turn(seed: int, tmp_path: Path) -> None:
    """Requests may arrive in a replay, and another kill may come there: all is as if nothing had been."""
    requests = traffic(seed)
    chance = Random(seed)
    deaths = {chance.randrange(len(requests) // 4, len(requests)): 6 for _ in range(4)}
    killed = Life(tmp_path, SPECS, alerts=ALERTS)
    assert asyncio.run(lived(killed, requests, deaths)) > 0
    assert_as_undisturbed(killed, seed)


def test_a_large_request_is_kept_whole(tmp_path: Path) -> None:
    """One that is read in slices is kept as one, and judged in its turn."""

    async def run() -> None:
        spans = bulky(traffic(3, sessions=20)) * 2
        body = body_of(spans)
        assert len(body) > LARGE_BYTES
        found = []
        for folder in (None, tmp_path):
            life = Life(folder, SPECS, alerts=ALERTS)
            await life.start()
            for request in traffic(4, sessions=20):
                for span in request.spans:
                    await life.send([span])
            if folder is not None:
                life.kill()
                replay = life.begin()
                await opened(life)
                with captured() as lines:
                    await life.send(spans)
                    await replay
                (told,) = [line for line in lines if line["event"] == "state_recovered"]
                assert told["received_meanwhile"] == 1
            else:
                await life.send(spans)
            life.pass_to(life.clock.now + 20 * SECOND)
            found.append((life.objects(), life.families(), life.counters()))
        assert found[0] == found[1]

    asyncio.run(run())


def test_what_is_refused_meanwhile_is_counted(tmp_path: Path) -> None:
    """A malformed request is refused at once; spans without an id are reported, and counted once."""

    async def run() -> None:
        life = Life(tmp_path, SPECS, alerts=ALERTS)
        replay = await replaying(life, traffic(1)[:20])
        export = life.app.export
        with pytest.raises(Refusal) as refused:
            export.ingest_now("traces", b"\xff", "proto", "grpc")
        assert refused.value.status is ExportStatus.MALFORMED
        export.stats.request("grpc", "traces", "INVALID_ARGUMENT")
        assert not replay.done()
        span = traffic(2)[0].spans[0]
        answer = export.ingest_now(
            "traces", body_of([span, span.but(span_id=b"")]), "proto", "grpc"
        )
        export.stats.request("grpc", "traces", "OK")
        assert answer.rejected == 1
        assert answer.message
        await replay
        stats = life.app.stats
        assert export.stats is stats
        assert stats.requests["grpc", "traces", "INVALID_ARGUMENT"] == 1
        assert stats.requests["grpc", "traces", "OK"] == 21
        assert stats.spans["grpc", "rejected"] == 1
        assert sum(n for key, n in stats.counts.items() if key[0] == "spans_rejected") == 1

    asyncio.run(run())


def test_files_that_fill_meanwhile_are_gone_through(tmp_path: Path) -> None:
    """What arrives may fill several files; they follow each other, and each process after it reads them, too."""

    async def run() -> list[dict[str, Any]]:
        life = Life(tmp_path, SPECS, alerts=ALERTS, state={"bytes_max": 1 << 20})
        replay = await replaying(life, traffic(1)[:40])
        requests = traffic(2, sessions=40)
        for request in requests:
            await life.send(request.spans)
        assert not replay.done()
        with captured() as lines:
            await replay
        (told,) = [line for line in lines if line["event"] == "state_recovered"]
        assert told["received_meanwhile"] == len(requests)
        assert told["flaws"] == told["failed"] == 0
        objects = life.objects()
        await life.restart(0)
        assert life.objects() == objects
        return objects

    assert len(asyncio.run(run())) > 40
    numbers = sorted(int(file.stem[-10:]) for file in tmp_path.glob("journal-*.log"))
    assert len(numbers) > 4
    assert all(second == first + 1 for first, second in pairwise(numbers))


def test_damage_of_what_arrived_costs_what_is_damaged(tmp_path: Path) -> None:
    """A request that is spoilt on the disk before it is judged is told as lost; those around it are judged."""

    async def run() -> None:
        life = Life(tmp_path, SPECS, alerts=ALERTS)
        requests = traffic(1)
        replay = await replaying(life, requests[:20])
        state = life.app.state
        assert state is not None
        places = []
        for request in requests[20:23]:
            places.append(state.journal.end)
            await life.send(request.spans)
        file = numbered(tmp_path, number_of(places[1]))
        data = bytearray(file.read_bytes())
        data[offset_of(places[1]) + HEAD_BYTES] ^= 1
        file.write_bytes(data)
        assert not replay.done()
        with captured() as lines:
            await replay
        told = {line["event"]: line for line in lines}
        assert told["state_recovered"]["received_meanwhile"] == 2
        assert told["journal_damaged"]["offset"] == offset_of(places[1])
        assert told["journal_damaged"]["file"] == file.name
        assert state.journal.flaws == 1

    asyncio.run(run())


def test_a_disk_that_is_full_refuses_meanwhile_too(tmp_path: Path) -> None:
    """What cannot be kept is not acknowledged: it is to be sent again."""

    async def run() -> None:
        life = Life(tmp_path, SPECS, alerts=ALERTS)
        requests = traffic(1)
        replay = await replaying(life, requests[:20])
        with pytest.MonkeyPatch.context() as patch, captured():
            patch.setattr("os.writev", _full)
            with pytest.raises(Refusal) as refused:
                await life.send(requests[20].spans)
            assert refused.value.status is ExportStatus.UNAVAILABLE
        await life.send(requests[20].spans)
        assert not replay.done()
        await replay
        assert life.app.stats.requests["grpc", "traces", "OK"] == 21

    asyncio.run(run())


def _full(*_: Any) -> None:
    raise OSError(28, "No space left on device")
