"""A service that goes on from a snapshot: what is in it, when it is taken, and when it is not used."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from collector.config.settings.alerts import AlertSettings
from collector.config.settings.sessions import SessionSettings
from collector.decode.span import Resource
from collector.receive.memory_guard import MemoryGuard
from collector.restart import snapshot_schedule as app_snapshots
from collector.restart.snapshot_schedule import SnapshotSchedule
from collector.state.snapshot import newest, save
from collector.state.snapshot import snapshots as files
from collector.telemetry.logs import captured
from monitor.limits import SECOND
from monitor.plain_records.blocks import Block, BlockKind
from monitor.records import SessionKey
from monitor.spec.read import load_specs
from tests.collector.state.life import Life
from tests.collector.state.test_restart import HOUR_NS, ROVER, Rover, skip, spec_of
from tests.simulation import wire

AT_ONCE = {"snapshot_seconds": 0.0001}
LONG = 10_000.0
"""Seconds that a snapshot takes on a slow machine."""
ALERTS = AlertSettings(alertmanager=("http://127.0.0.1:1/",))


def snapshots_of(life: Life) -> SnapshotSchedule:
    assert life.app.state is not None
    return life.app.state.snapshots


class Steady:
    """The steady clock, which may be set forward."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._now = time.monotonic

    def __call__(self) -> float:
        return self._now() + self.seconds


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> Steady:
    """In place of the process's own."""
    found = Steady()
    monkeypatch.setattr(time, "monotonic", found)
    return found


async def started(folder: Path, **more: Any) -> tuple[Life, Rover]:
    """A service that is older than any session may be, with a session that pages."""
    life = Life(folder, [spec_of(ROVER)], alerts=ALERTS, **more)
    await life.start()
    skip(life, HOUR_NS)
    rover = Rover(life)
    await rover.call("s", "move")
    return life, rover


def recovered(told: list[dict[str, Any]]) -> list[tuple[bool, int]]:
    """Of each start, whether a snapshot was used, and the requests that were judged again."""
    events = [each for each in told if each["event"] == "state_recovered"]
    return [(each["snapshot"], each["requests"]) for each in events]


def test_only_what_came_behind_is_judged_again(tmp_path: Path) -> None:
    """One request before the snapshot and two behind it: two are judged again."""

    async def run() -> None:
        life, rover = await started(tmp_path)
        life.snapshot()
        await rover.call("s", "unlock")
        await rover.call("t", "unlock")
        true = life.objects(), life.families(), life.firing()
        with captured() as told:
            await life.restart(0)
        assert recovered(told) == [(True, 2)]
        assert (life.objects(), life.families(), life.firing()) == true

    asyncio.run(run())


SHOP = """
id: shop
kind: policy
match: {service.name: shop}
each: {order: {look_up: order, refund: order}}
remember: {price: {at: look_up, result: $.price}}
alphabet:
  look_up: {tool: look_up}
  fair: {tool: refund, arguments: {amount: {max: {value: price}}}}
  unfair: {tool: refund}
  known: {tool: mail, arguments: {to: {from: [user]}}}
  unknown: {tool: mail}
constraints: [{precedence: [look_up, fair]}, {forbid: unfair}, {forbid: unknown}]
"""


class Shop:
    """An agent of a shop, in one session."""

    def __init__(self, life: Life, session: str = "s", *, first: int = 0) -> None:
        self._life = life
        self._session = session
        self._serial = first

    async def send(self, name: str, told: dict[str, Any]) -> None:
        self._life.pass_to(self._life.clock.now + SECOND)
        self._serial += 1
        span = wire.span_of(
            Resource({"service.name": "shop"}),
            name,
            {"gen_ai.conversation.id": self._session, **told},
            trace_id=self._session.encode().rjust(16, b"t"),
            span_id=self._serial.to_bytes(8, "big"),
            start_ns=self._life.clock.now - 1_000,
            end_ns=self._life.clock.now,
        )
        await self._life.send([span])

    async def say(self, text: str) -> None:
        message = {"role": "user", "parts": [{"type": "text", "content": text}]}
        told = {"gen_ai.input.messages": json.dumps([message])}
        await self.send("chat", {"gen_ai.operation.name": "chat", **told})

    async def call(self, tool: str, arguments: dict[str, Any], result: Any = None) -> None:
        told = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": tool,
            "gen_ai.tool.call.arguments": json.dumps(arguments),
            "gen_ai.tool.call.result": json.dumps(result),
        }
        await self.send(f"execute_tool {tool}", told)


@pytest.mark.parametrize("is_taken", [True, False])
def test_what_was_seen_of_values_and_things_outlives_the_process(
    tmp_path: Path, *, is_taken: bool
) -> None:
    """A message, a price and a look-up before a kill count for the calls behind it, from a snapshot or from the journal."""

    async def run() -> None:
        life = Life(tmp_path, [spec_of(SHOP)])
        await life.start()
        skip(life, HOUR_NS)
        shop = Shop(life)
        await shop.say("mail it to ann@example.com")
        await shop.call("look_up", {"order": "A"}, {"price": 40})
        if is_taken:
            life.snapshot()
        held = life.app.monitor.kept.memory()["sessions"]
        await life.restart(0)
        assert life.app.monitor.kept.memory()["sessions"] == held
        for arguments in ({"order": "A", "amount": 40}, {"order": "A", "amount": 90}):
            await shop.call("refund", arguments)
        await shop.call("refund", {"order": "B", "amount": 1})
        for to in ("ann@example.com", "eve@example.com"):
            await shop.call("mail", {"to": to})
        [found] = life.app.monitor.find("s")
        kinds = [step["kind"] == "harmful" for step in found["steps"]]
        assert kinds == [False, False, True, True, False, True]

    asyncio.run(run())


ONCE = """
id: once
kind: policy
match: {service.name: shop}
each: {order: {look_up: order, refund: order}}
across: namespace
alphabet:
  look_up: {tool: look_up}
  refund: {tool: refund}
constraints: [{precedence: [look_up, refund]}, {at_most: [refund, 1]}]
"""


@pytest.mark.parametrize("is_taken", [True, False])
def test_what_sessions_did_with_their_things_outlives_the_process(
    tmp_path: Path, *, is_taken: bool
) -> None:
    """Two sessions, of which one has ended, share orders over a kill, from a snapshot or from the journal."""

    async def run() -> None:
        life = Life(tmp_path, [spec_of(ONCE)])
        await life.start()
        skip(life, HOUR_NS)
        first, second, third = (
            Shop(life, name, first=100 * place) for place, name in enumerate("abc")
        )
        await first.call("look_up", {"order": "A"})
        await second.call("refund", {"order": "A"})
        await first.call("look_up", {"order": "B"})
        life.app.monitor.end(SessionKey("", "a"), life.clock.now)
        if is_taken:
            life.snapshot()
        await life.restart(0)
        await third.call("refund", {"order": "A"})
        await second.call("refund", {"order": "B"})
        [[last], [before]] = (life.app.monitor.find(name) for name in "cb")
        assert [step["kind"] for step in last["steps"]] == ["harmful"]
        assert [step["kind"] for step in before["steps"]] == ["progress", "progress"]

    asyncio.run(run())


def test_sessions_outlive_their_requests(tmp_path: Path) -> None:
    """Of a session whose requests are in deleted files, the snapshot has all."""

    async def run() -> None:
        life, rover = await started(tmp_path, state={"keep_seconds": 60.0})
        true = rover.judgement("s")
        for _ in range(40):
            skip(life, 30 * SECOND)
            await rover.call("other", "unlock")
            if life.app.monitor.find("s"):
                life.snapshot()
        journal = life.app.state.journal  # type: ignore[union-attr]
        assert min(each.number for each in journal.old) > 1
        await life.restart(0)
        assert rover.judgement("s") == {**rover.judgement("s"), "harmful": true["harmful"]}
        await rover.call("s", "lock")
        assert rover.judgement("s")["joined"] is False

    asyncio.run(run())


def test_pages_that_had_not_left_leave(tmp_path: Path) -> None:
    """A message that waited when the snapshot was taken is sent by the next process, once."""

    async def run() -> None:
        life, _ = await started(tmp_path)
        skip(life, 60 * SECOND)
        before = [queue.waiting() for queue in life.app.alerts.queues]
        assert len(before[0]) == 1
        life.snapshot()
        await life.restart(0)
        after = [queue.waiting() for queue in life.app.alerts.queues]
        assert [key for key, _ in after[0]] == [key for key, _ in before[0]]
        [(key, _)] = after[0]
        queue = life.app.alerts.queues[0]
        assert life.app.state is not None
        life.snapshot()
        life.app.state.journal.settled(queue.id, [key])
        await life.restart(0)
        assert life.app.alerts.queues[0].waiting() == []

    asyncio.run(run())


def _damage(path: Path, life: Life) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3] ^= 1  # within a block: in its head, a wrong length reads as a lost end
    path.write_bytes(raw)


def _cut(path: Path, life: Life) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def _nonsense(path: Path, life: Life) -> None:
    about = snapshots_of(life).content.about()
    save(
        path.parent,
        about,
        [Block(BlockKind.RECORDS, b"nonsense"), Block(BlockKind.INDEX, b"end")],
    )


def _set(path: Path, life: Life) -> None:
    life.settings = life.settings.model_copy(
        update={"sessions": SessionSettings(idle_seconds=1_000.0)}
    )


def _leave_behind(path: Path, life: Life) -> None:
    about = snapshots_of(life).content.about()
    about.place = 999 << 40
    save(path.parent, about, [Block(BlockKind.INDEX, b"end")])


def _renumber(path: Path, life: Life) -> None:
    """As where another journal has come to the same number."""
    about = snapshots_of(life).content.about()
    about.salt = bytes(20)
    save(path.parent, about, [Block(BlockKind.INDEX, b"end")])


@pytest.mark.parametrize(
    ("happens", "why"),
    [
        (_damage, "damaged"),
        (_cut, "its end is missing"),
        (_nonsense, "DecodeError"),
        (_set, "another value of sessions.idle_seconds"),
        (_leave_behind, "does not go on behind it"),
        (_renumber, "does not go on behind it"),
    ],
)
def test_one_that_cannot_be_used_costs_only_time(
    happens: Callable[[Path, Life], None], why: str, tmp_path: Path
) -> None:
    """Damaged, or of something else: the log says why, and all of the journal is judged again."""

    async def run() -> None:
        life, rover = await started(tmp_path)
        life.snapshot()
        await rover.call("s", "unlock")
        true = rover.judgement("s")
        path = newest(tmp_path)
        assert path is not None
        happens(path, life)
        with captured() as told:
            await life.restart(0)
        [reason] = [each["reason"] for each in told if each["event"] == "snapshot_not_used"]
        assert why in reason
        assert recovered(told) == [(False, 2)]
        found = rover.judgement("s")
        assert {**found, "spec_version": ""} == {**true, "spec_version": ""}
        life.snapshot()
        assert len(files(tmp_path)) == 1

    asyncio.run(run())


def test_sessions_keep_the_versions_of_their_specs(tmp_path: Path) -> None:
    """Specs that change while the service runs, and while it is down: each session goes on under its own version."""
    orders = ("[unlock, move, lock]", "[unlock, lock, move]", "[move, unlock, lock]")

    async def run() -> None:
        file = tmp_path / "rover.yaml"
        life = Life(tmp_path / "state", [])

        def write(order: str) -> None:
            file.write_text(ROVER.replace(orders[0], order))
            life.specs = load_specs([file]).specs

        write(orders[0])
        await life.start()
        skip(life, HOUR_NS)
        rover = Rover(life)
        for number, order in enumerate(orders):
            write(order)
            life.app.use(life.specs)
            await rover.call(f"s{number}", order[1:-1].split(", ")[0])
        life.snapshot()
        with captured() as told:
            await life.restart(0)
        assert recovered(told) == [(True, 0)]
        true = life.objects()
        file.write_text(ROVER + "# again\n")
        life.specs = load_specs([file]).specs
        life.snapshot()
        with captured() as told:
            await life.restart(0)
            life.snapshot()
            await life.restart(0)
        assert recovered(told) == [(True, 0), (True, 0)]
        assert life.objects() == true
        for number, order in enumerate([*orders, orders[0]]):
            for tool in order[1:-1].split(", ")[number < 3 :]:
                await rover.call(f"s{number}", tool)
                assert rover.judgement(f"s{number}")["harmful"] == 0, (number, tool)
        await rover.call("s1", "lock")
        assert rover.judgement("s1")["harmful"] == 1

    asyncio.run(run())


def test_a_version_whose_text_is_gone_has_all_judged_again(tmp_path: Path) -> None:
    """A spec that no file has any more, and that was too large for the journal, cannot be compiled again."""

    async def run() -> None:
        life, rover = await started(tmp_path)
        life.snapshot()
        life.specs = [spec_of(ROVER + "# other\n")]
        with captured() as told:
            await life.restart(0)
        [reason] = [each["reason"] for each in told if each["event"] == "snapshot_not_used"]
        assert "the text of rover.yaml of then is not known" in reason
        assert recovered(told) == [(False, 1)]
        assert rover.judgement("s")["harmful"] == 1

    asyncio.run(run())


def test_none_is_taken_where_memory_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process above half of its limit does not fork; the log says it once."""

    async def run() -> None:
        memory = MemoryGuard(100 << 20, lambda: 80 << 20)
        life, rover = await started(tmp_path, state=AT_ONCE, memory=memory)
        monkeypatch.setattr(app_snapshots, "BYTES_MIN", 1)
        snapshots = snapshots_of(life)
        with captured() as told:
            for _ in range(3):
                await rover.call("s", "unlock")
                await asyncio.sleep(0.002)
                snapshots.tick()
        assert snapshots.results["skipped"] >= 1
        assert [each["event"] for each in told].count("snapshot_skipped") == 1
        assert newest(tmp_path) is None

    asyncio.run(run())


def test_one_that_was_skipped_is_tried_again_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steady: Steady
) -> None:
    """A skip costs nothing: however long the last snapshot took, the next try is a pause of the settings away."""

    async def run() -> None:
        resident = [10 << 20]
        memory = MemoryGuard(100 << 20, lambda: resident[0])
        life, rover = await started(tmp_path, state={"snapshot_seconds": 60.0}, memory=memory)
        monkeypatch.setattr(app_snapshots, "BYTES_MIN", 1)
        snapshots = snapshots_of(life)
        steady.seconds += 60
        snapshots.tick()
        steady.seconds += LONG
        await _settle(snapshots)
        await rover.call("s", "unlock")
        resident[0] = 80 << 20
        steady.seconds += 2 * app_snapshots.SHARE * LONG
        snapshots.tick()
        assert snapshots.results["skipped"] == 1
        resident[0] = 10 << 20
        snapshots.tick()
        assert not snapshots.child
        steady.seconds += 60
        snapshots.tick()
        assert snapshots.child
        await _settle(snapshots)
        assert snapshots.results == {"ok": 2, "failed": 0, "skipped": 1}

    asyncio.run(run())


def test_one_is_taken_before_the_journal_forgets_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steady: Steady
) -> None:
    """However long the last one took: half of the journal's bound later the next one is due, once."""

    async def run() -> None:
        life, rover = await started(tmp_path, state=AT_ONCE)
        monkeypatch.setattr(app_snapshots, "BYTES_MIN", 1)
        assert life.app.state is not None
        snapshots, journal = life.app.state.snapshots, life.app.state.journal
        snapshots.tick()
        steady.seconds += LONG
        await _settle(snapshots)
        before = journal.written
        journal.rules = journal.rules._replace(bytes_max=60_000)
        while journal.written - before < 30_000:
            snapshots.tick()
            assert not snapshots.child
            await rover.call("s", "unlock")
        snapshots.tick()
        assert snapshots.child
        steady.seconds += LONG
        await _settle(snapshots)
        await rover.call("s", "unlock")
        snapshots.tick()
        assert not snapshots.child
        assert snapshots.results == {"ok": 2, "failed": 0, "skipped": 0}

    asyncio.run(run())


async def _settle(snapshots: SnapshotSchedule) -> None:
    """Until the process that writes has ended."""
    while snapshots.child:
        await asyncio.sleep(0.001)
        snapshots.tick()


def test_another_process_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where one is due, a forked process writes it; what goes on meanwhile is not in it."""

    async def run() -> None:
        life, rover = await started(tmp_path, state=AT_ONCE)
        monkeypatch.setattr(app_snapshots, "BYTES_MIN", 1)
        snapshots = snapshots_of(life)
        with captured() as told:
            snapshots.tick()
            assert snapshots.child
            await rover.call("s", "unlock")
            await _settle(snapshots)
            assert snapshots.results == {"ok": 1, "failed": 0, "skipped": 0}, told
            assert snapshots.bytes == newest(tmp_path).stat().st_size  # type: ignore[union-attr]
            true = rover.judgement("s")
            await life.restart(0)
        assert recovered(told) == [(True, 1)]
        assert rover.judgement("s") == true

    asyncio.run(run())


def test_a_writer_that_is_killed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted and logged, the next one is taken in its time, and what it left is deleted at the start."""

    async def run() -> None:
        life, _ = await started(tmp_path, state=AT_ONCE)
        monkeypatch.setattr(app_snapshots, "BYTES_MIN", 1)
        snapshots = snapshots_of(life)
        with captured() as told:
            snapshots.tick()
            os.kill(snapshots.child, signal.SIGKILL)
            await _settle(snapshots)
        results = snapshots.results
        assert results["failed"] + results["ok"] == 1
        if results["failed"]:
            assert "its process ended with -9" in str(told)
        (tmp_path / "snapshot-00000000000000000009.part").write_bytes(b"half")
        await life.restart(0)
        assert not await asyncio.to_thread(lambda: list(tmp_path.glob("*.part")))

    asyncio.run(run())


def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot that does not fit is counted and logged; the journal goes on."""

    async def run() -> None:
        life, rover = await started(tmp_path, state=AT_ONCE)

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("collector.state.snapshot.save", full)
        snapshots = snapshots_of(life)
        with captured() as told:
            monkeypatch.setattr(app_snapshots, "BYTES_MIN", 1)
            snapshots.tick()
            await _settle(snapshots)
        assert snapshots.results["failed"] == 1
        reasons = {each["reason"] for each in told if each["event"] == "snapshot_failed"}
        assert reasons == {"the disk refuses it"}
        await rover.call("s", "unlock")
        true = rover.judgement("s")
        await life.restart(0)
        assert rover.judgement("s") == true

    asyncio.run(run())


def test_a_clean_stop_takes_one(tmp_path: Path) -> None:
    """After a stop by SIGTERM the next process judges nothing again, and goes on as if there had been no pause."""

    async def run() -> None:
        life, rover = await started(tmp_path)
        true = rover.judgement("s")
        with captured() as told:
            await life.app.stop()
            await life.start()
        assert recovered(told) == [(True, 0)]
        assert rover.judgement("s") == true
        assert life.firing()
        await rover.call("s", "unlock")
        assert rover.judgement("s")["harmful"] == 1

    asyncio.run(run())


def test_without_a_wish_none_is_taken(tmp_path: Path) -> None:
    """With `snapshot_seconds: 0` there is the journal alone."""

    async def run() -> None:
        life, _ = await started(tmp_path, state={"snapshot_seconds": 0})
        for _ in range(3):
            snapshots_of(life).tick()
        await life.app.stop()
        assert newest(tmp_path) is None
        with captured() as told:
            await life.start()
        assert recovered(told) == [(False, 1)]

    asyncio.run(run())


def test_it_holds_all_specs(tmp_path: Path) -> None:
    """Rules, references and tasks: what a session knows under each comes back."""

    texts = [ROVER, POLICY]

    async def run() -> None:
        life = Life(tmp_path, [spec_of(text) for text in texts], alerts=ALERTS)
        await life.start()
        skip(life, HOUR_NS)
        rover = Rover(life)
        for tool in ("unlock", "move", "move", "lock", "dance"):
            await rover.call("s", tool)
            life.snapshot()
            true = life.objects(), life.families()
            await life.restart(0)
            assert (life.objects(), life.families()) == true

    asyncio.run(run())


POLICY = """
id: care
kind: policy
mode: page
match: {service.name: rover}
alphabet: {unlock: {tool: unlock}, move: {tool: move}}
constraints:
  - precedence: [unlock, move]
  - at_most: [move, 1]
"""


def test_a_stop_does_not_wait_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the last snapshot takes too long, the stop ends without it, and the next process judges more again."""

    async def run() -> None:
        life, rover = await started(tmp_path)
        true = rover.judgement("s")
        monkeypatch.setattr(app_snapshots, "LAST_SECONDS", 0.0)
        with captured() as told:
            await life.app.stop()
            await life.start()
        reasons = [each["reason"] for each in told if each["event"] == "snapshot_failed"]
        assert reasons == ["the stop could not wait for it"]
        assert recovered(told) == [(False, 1)]
        assert rover.judgement("s") == true

    asyncio.run(run())


def test_without_its_journal_it_is_nothing(tmp_path: Path) -> None:
    """Where somebody has deleted the journal's files, the service begins with nothing."""

    async def run() -> None:
        life, rover = await started(tmp_path)
        life.snapshot()
        life.kill()
        await asyncio.to_thread(_delete, tmp_path)
        await life.start()
        assert newest(tmp_path) is None
        assert life.app.monitor.find("s") == []
        await rover.call("s", "unlock")
        await life.restart(0)
        assert rover.judgement("s")["calls"] == 1

    asyncio.run(run())


def _delete(folder: Path) -> None:
    for file in folder.glob("journal-*"):
        file.unlink()
