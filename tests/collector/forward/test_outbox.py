"""Queues of next hops that outlive the process, in one process and over real sockets."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from collector.app.service import App
from collector.config.settings.forward import NextHopSettings
from collector.decode.protobuf.slices import LARGE_BYTES
from collector.forward.next_hop import Destination
from collector.forward.unsent_request import UnsentRequest, bodies_of, unsent_in
from collector.receive.request import Request
from collector.restart.snapshot_content import SnapshotContent
from collector.state.journal import FILE_BYTES_MIN, Journal, JournalRules
from collector.state.journal_files import read_record
from collector.state.records import ConfirmationRecord, ForwardRecord, RecordKind, encoded
from collector.state.segment import number_of, segments
from collector.telemetry.logs import captured
from tests.collector.app.test_service import http
from tests.collector.event_loop import run, until
from tests.collector.forward.hops import OK, GotHttp, HttpHop, answer
from tests.collector.forward.running import app_of, metrics, post, service
from tests.collector.forward.telemetry import SIGNALS, export
from tests.collector.forward.test_annotate import ours, request_of
from tests.collector.forward.test_sync import send

BUSY = answer("503 Busy")
ONE_NS = 1_000_000_000


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with captured():
        yield


class Gate:
    """What a next hop answers: busy, until it is opened."""

    def __init__(self) -> None:
        self.is_open = False
        self.taken: list[bytes] = []

    def __call__(self, got: GotHttp) -> bytes:
        if not self.is_open:
            return BUSY
        self.taken.append(got.body)
        return OK


@asynccontextmanager
async def life(folder: Path, *hops: NextHopSettings, **state: Any) -> AsyncIterator[App]:
    """A service with a journal, which is killed at the end: nothing more is written, nothing more is sent."""
    more = {"state": {"dir": folder, "bridged_seconds": 3600, **state}}
    async with service(*hops, more=more, drain_seconds=0.0) as app:
        yield app
        kill(app)


def kill(app: App) -> None:
    """Ends a process as kill -9 does, as far as the journal and next hops see it."""
    assert app.state is not None
    assert app.forwarding is not None
    journal = app.state.journal
    assert journal.file is not None
    os.close(journal.file.fd)
    journal.file.fd = -1
    journal.release()
    app.state = None  # what stops is no journal any more
    for task in asyncio.all_tasks():
        if getattr(task.get_coro(), "__qualname__", "").startswith(f"{Destination.__name__}."):
            task.cancel()
    for hop in app.forwarding.destinations:
        hop.settled = None
        assert all(hop.queue.drain())


def body_number(number: int) -> bytes:
    """A request for logs that is like no other."""
    text = f'{{"resourceLogs": [], "number": {number}}}'
    return text.encode()


def named(url: str, name: str, **more: Any) -> NextHopSettings:
    return NextHopSettings(endpoint=url, name=name, **more)


@pytest.mark.parametrize("durability", ["process", "power"])
def test_what_waits_is_sent_by_the_next_process(tmp_path: Path, durability: str) -> None:
    """Requests of every signal that were acknowledged and not sent arrive after a kill, byte for byte, with their headers."""

    async def main() -> None:
        gate = Gate()
        async with HttpHop(gate) as hop, HttpHop() as other:
            hops = (
                named(hop.url, "hop", headers_from_sender=("x-tenant",)),
                named(other.url, "other"),
            )
            async with life(tmp_path, *hops, durability=durability) as app:
                for signal in SIGNALS:
                    address = app.addresses["http"]
                    assert await export("http", signal, address, headers={"x-tenant": "farm"})
                await until(lambda: len(other.got) == 3 and hop.got)
                await confirmed(app, "other")
            sent = {each.path: each.body for each in other.got}
            hop.got.clear()
            gate.is_open = True
            async with life(tmp_path, *hops, durability=durability):
                await until(lambda: len(gate.taken) == 3)
        assert {each.path: each.body for each in hop.got} == sent
        assert {each.headers["x-tenant"] for each in hop.got} == {"farm"}
        assert len(other.got) == 3, "what was confirmed is sent again"

    run(main)


async def confirmed(app: App, name: str) -> None:
    """Nothing waits for a next hop, and the journal says so."""
    await until(lambda: not _waits(app, name))
    await asyncio.sleep(0)  # confirmations are written in the next turn


def _waits(app: App, name: str) -> int:
    assert app.forwarding is not None
    (hop,) = [each for each in app.forwarding.destinations if each.name == name]
    return hop.queue.bytes


def test_what_was_confirmed_is_not_sent_again(tmp_path: Path) -> None:
    """Over several kills each request arrives once, as long as none is on its way when the process ends."""

    async def main() -> None:
        async with HttpHop() as hop:
            for round_number in range(4):
                async with life(tmp_path, named(hop.url, "hop")) as app:
                    for number in range(25):
                        sent = body_number(100 * round_number + number)
                        assert await post(app, sent, "/v1/logs") == 200
                    await confirmed(app, "hop")
            async with life(tmp_path, named(hop.url, "hop")) as app:
                assert _waits(app, "hop") == 0
                found = await metrics(app)
        bodies = [each.body for each in hop.got]
        assert len(bodies) == len(set(bodies)) == 100
        ok = 'offrails_forward_requests_total{destination="hop",signal="logs",outcome="ok"}'
        assert found[ok] == 100

    run(main)


def test_one_next_hop_has_it_and_the_other_gets_it(tmp_path: Path) -> None:
    """What is confirmed is known by next hop; one that is set up later gets nothing of before, one that is gone holds nothing up."""

    async def main() -> None:
        gate = Gate()
        async with HttpHop(gate) as late, HttpHop() as quick, HttpHop() as new:
            before = named(late.url, "late"), named(quick.url, "quick")
            async with life(tmp_path, *before) as app:
                for number in range(10):
                    assert await post(app, body_number(number), "/v1/logs") == 200
                await confirmed(app, "quick")
            gate.is_open = True
            after = named(late.url, "late"), named(new.url, "new")
            async with life(tmp_path, *after):
                await until(lambda: len(gate.taken) == 10)
        assert len(quick.got) == 10
        assert not new.got

    run(main)


def test_annotated_requests_are_annotated_after_a_kill(tmp_path: Path) -> None:
    """The verdicts of a request that waits are kept with it: it is not judged again for them."""

    async def main() -> None:
        gate = Gate()
        async with HttpHop(gate) as hop:
            settings = named(hop.url, "hop", annotate=True)
            async with life(tmp_path, settings) as app:
                assert (await send(app, "http", request_of("unlock_safety", "fly"))).code == 200
                await until(lambda: hop.got)
            first = hop.got[0].body
            gate.is_open = True
            async with life(tmp_path, settings):
                await until(lambda: gate.taken)
        assert [each.get("verdict") for each in ours(first)] == [None, "progress", "harmful"]
        assert gate.taken == [first]

    run(main)


def test_a_large_request_is_sent_after_a_kill(tmp_path: Path) -> None:
    """A request that is judged in slices is in the journal once, and goes on from there."""
    sent = request_of(*["unlock_safety"] * 1_500)
    assert len(sent) > LARGE_BYTES

    async def main() -> None:
        gate = Gate()
        async with HttpHop(gate) as hop:
            async with life(tmp_path, named(hop.url, "hop")) as app:
                assert (await send(app, "http", sent)).code == 200
                await until(lambda: hop.got)
            size = sum(path.stat().st_size for _, path in segments(tmp_path))
            assert size < 1.5 * len(sent)
            gate.is_open = True
            async with life(tmp_path, named(hop.url, "hop")):
                await until(lambda: gate.taken)
        assert gate.taken == [sent]

    run(main)


def test_a_stop_leaves_the_rest_to_the_next_process(tmp_path: Path) -> None:
    """With a journal, what a stop could not send is not dropped: it is logged, and sent by the next process."""

    async def main() -> None:
        gate = Gate()
        async with HttpHop(gate) as hop:
            settings = named(hop.url, "hop")
            more = {"state": {"dir": tmp_path}}
            with captured() as lines:
                async with service(settings, more=more, drain_seconds=0.2) as app:
                    assert await post(app, body_number(1), "/v1/logs") == 200
            (line,) = [each for each in lines if each["event"] == "forward_kept"]
            assert (line["destination"], line["requests"]) == ("hop", 1)
            gate.is_open = True
            async with service(settings, more=more) as app:
                await until(lambda: gate.taken)
                found = await metrics(app)
        assert found['offrails_forward_dropped_total{destination="hop",reason="shutdown"}'] == 0
        assert found['offrails_forward_retries_total{destination="hop"}'] >= 1
        assert gate.taken == [body_number(1)]

    run(main)


def test_counters_of_next_hops_go_on(tmp_path: Path) -> None:
    """A stop and a new start change no counter of a next hop."""

    async def main() -> None:
        statuses = [OK, OK, answer("403 Forbidden"), OK]
        async with HttpHop(lambda _: statuses.pop(0)) as hop:
            more = {"state": {"dir": tmp_path}}
            settings = named(hop.url, "hop")
            async with service(settings, more=more) as app:
                for number in range(4):
                    assert await post(app, body_number(number), "/v1/logs") == 200
            async with service(settings, more=more) as app:
                found = await metrics(app)
        name = 'offrails_forward_requests_total{destination="hop",signal="logs",outcome="%s"}'
        assert [found[name % each] for each in ("ok", "refused", "dropped")] == [3, 1, 0]
        assert found['offrails_forward_seconds_count{destination="hop"}'] == 4

    run(main)


def test_a_refused_request_is_not_kept_for_next_hops(tmp_path: Path) -> None:
    """What its sender is to send again goes on once, when it is accepted, also over a kill in between."""

    async def main() -> None:
        statuses = [BUSY]
        async with (
            HttpHop(lambda _: statuses.pop() if statuses else OK) as sync,
            HttpHop() as hop,
        ):
            hops = named(sync.url, "sync", sync=True), named(hop.url, "hop")
            sent = request_of("fly")
            async with life(tmp_path, *hops) as app:
                assert (await send(app, "http", sent)).code == 503
            async with life(tmp_path, *hops) as app:
                assert (await send(app, "http", sent)).code == 200
                await until(lambda: not _waits(app, "hop"))
        assert len(hop.got) == 1
        assert len(sync.got) == 2

    run(main)


def test_a_disk_that_fails_refuses_or_goes_on_without(tmp_path: Path) -> None:
    """If the journal cannot say that a request goes on, its sender is to send it again, or it goes on from memory alone."""

    async def main(on_error: str) -> tuple[int, int]:
        async with HttpHop() as hop:
            settings = named(hop.url, "hop")
            more = {"state": {"dir": tmp_path / on_error, "on_error": on_error}}
            async with service(settings, more=more) as app:
                assert app.state is not None
                journal = app.state.journal

                def fail(*_: Any) -> int:
                    raise OSError(28, "No space left on device")

                vars(journal)["append"] = fail
                status = await post(app, body_number(1), "/v1/logs")
                del vars(journal)["append"]
        return status, len(hop.got)

    import asyncio

    assert asyncio.run(main("refuse")) == (503, 0)
    assert asyncio.run(main("continue")) == (200, 1)


# --- files of the journal ------------------------------------------------------------------------


def test_old_files_with_requests_that_wait_are_kept(tmp_path: Path) -> None:
    """A file that is too old stays while a request waits in it, and goes when that is confirmed."""
    now = [1_700_000_000 * ONE_NS]
    journal = Journal(tmp_path, JournalRules(keep_ns=160 * ONE_NS), lambda: now[0])
    journal.open()
    journal.begin()
    needed = [1]
    journal.needed = lambda: needed[0]

    def files() -> list[int]:
        for _ in range(30):
            now[0] += 11 * ONE_NS
            journal.append(RecordKind.TICK, now[0])
            journal.whole(now[0])
        return [number for number, _ in segments(tmp_path)]

    assert files()[0] == 1
    needed[0] = 5
    assert files()[0] == 5
    needed[0] = 1 << 62
    assert files()[0] > 30
    journal.release()


def test_at_the_journals_bound_what_waits_is_given_up_for_the_next_process(
    tmp_path: Path,
) -> None:
    """The journal keeps to its bytes: what waits in files that go is counted, still sent by this process, and not by the next."""

    async def main() -> None:
        gate = Gate()
        async with HttpHop(gate) as hop:
            settings = named(hop.url, "hop")
            async with life(tmp_path, settings, bytes_max=16 * FILE_BYTES_MIN) as app:
                assert app.state is not None
                for number in range(60):
                    padded = body_number(number) + b" " * FILE_BYTES_MIN
                    assert await post(app, padded, "/v1/logs") == 200
                    app.step()
                    app.step()
                found = await metrics(app)
                unkept = found['offrails_forward_unkept_total{destination="hop"}']
                assert 30 < unkept < 55
                assert app.state.journal.bytes < 18 * FILE_BYTES_MIN
            gate.is_open = True
            async with life(tmp_path, settings) as app:
                await until(lambda: len(gate.taken) == 60 - unkept)
                await until(lambda: not _waits(app, "hop"))
        numbers = sorted(gate.taken, key=lambda each: int(each.split(b":")[2].split(b"}")[0]))
        assert len(set(numbers)) == 60 - unkept

    run(main)


def test_a_request_that_is_in_no_file_is_counted(tmp_path: Path) -> None:
    """If the file with a body has been deleted, and not the record that it goes on, that is a counted loss."""
    journal = Journal(tmp_path, JournalRules(), lambda: 1_700_000_000 * ONE_NS)
    journal.open()
    journal.begin()
    record = ForwardRecord(7 << 36, ["hop"], "traces", "proto", [], [])
    journal.keep_forwarded(1_700_000_000 * ONE_NS, encoded(record))
    journal.release()

    async def main() -> None:
        async with HttpHop() as hop, life(tmp_path, named(hop.url, "hop")) as app:
            found = await metrics(app)
            assert not hop.got
        name = 'offrails_forward_dropped_total{destination="hop",reason="not_in_journal"}'
        assert found[name] == 1
        async with HttpHop() as hop, life(tmp_path, named(hop.url, "hop")) as app:
            assert (await metrics(app))[name] >= 0
            assert not unsent_in(tmp_path)

    run(main)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-5], lambda data: data[:200] + b"!" + data[201:]]
)
def test_damage_costs_what_is_damaged(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """A torn end or a flipped byte loses its own record; the other requests go on."""
    journal = Journal(tmp_path, JournalRules(), lambda: 1_700_000_000 * ONE_NS)
    journal.open()
    journal.begin()
    for number in range(5):
        request = Request("traces", body_number(number), "json", "http_json")
        journal.keep(1_700_000_000 * ONE_NS, request)
        record = ForwardRecord(request.place, ["hop"], "traces", "json", [], [])
        journal.keep_forwarded(1_700_000_000 * ONE_NS, encoded(record))
    place = unsent_in(tmp_path)[3].place
    journal.append(RecordKind.CONFIRMED, 0, encoded(ConfirmationRecord("hop", [place])))
    journal.append(RecordKind.CONFIRMED, 0, b"no such record")
    journal.append(RecordKind.FORWARDED, 0, encoded([1, 2]))
    journal.release()
    assert [number_of(each.place) for each in unsent_in(tmp_path)] == [1] * 4
    ((_, path),) = segments(tmp_path)
    path.write_bytes(damage(path.read_bytes()))

    left = unsent_in(tmp_path)
    bodies = bodies_of(tmp_path, left)
    known = [each for each in bodies if each is not None]
    assert len(known) >= 3
    assert set(known) <= {body_number(number) for number in (0, 1, 2, 4)}


def test_a_place_that_is_no_record_has_no_body(tmp_path: Path) -> None:
    """Any number is a place without a body, unless a record of the right kind is there."""
    journal = Journal(tmp_path, JournalRules(), lambda: 0)
    journal.open()
    journal.begin()
    tick = journal.append(RecordKind.TICK, 0)
    journal.release()
    assert read_record(tmp_path, tick) is not None
    for place in (0, 1, tick - 1, tick + 1, 1 << 36, (1 << 36) + 10_000, 9 << 36):
        assert read_record(tmp_path, place) is None
    unsent = UnsentRequest(tick, 0, 0, ["hop"], "logs", "json", [], [])
    assert bodies_of(tmp_path, [unsent, unsent._replace(request=tick)]) == [None, None]


def test_health_is_answered_while_queues_are_filled(tmp_path: Path) -> None:
    """A service that starts with many requests in its journal is ready, and has all of them in its queue."""

    async def main() -> None:
        gate = Gate()
        async with HttpHop(gate) as hop:
            async with life(tmp_path, named(hop.url, "hop")) as app:
                for number in range(200):
                    await app.export.ingest("logs", body_number(number), "json", "http_json")
            gate.is_open = True
            async with life(tmp_path, named(hop.url, "hop")) as app:
                status, _ = await http(app.addresses["metrics"], "GET", "/-/ready")
                assert status == 200
                await until(lambda: len(gate.taken) == 200)
        assert len(set(gate.taken)) == 200

    run(main)


@pytest.mark.parametrize("annotate", [False, True])
def test_senders_are_answered_before_the_journal_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, annotate: bool
) -> None:
    """With next hops, too, unless they get verdicts; each request arrives once and is counted once, also after another kill."""
    judging, may_judge = asyncio.Event(), asyncio.Event()
    restore = SnapshotContent.restore

    async def late(self: SnapshotContent, *given: Any) -> Any:
        judging.set()
        await may_judge.wait()
        return await restore(self, *given)

    async def main() -> None:
        gate = Gate()
        async with HttpHop(gate) as hop:
            settings = named(hop.url, "hop", annotate=annotate)
            async with life(tmp_path, settings) as app:
                await _post_some(app, range(20))
            gate.is_open = True
            monkeypatch.setattr(SnapshotContent, "restore", late)
            async with early(tmp_path, settings) as (app, started):
                await judging.wait()
                assert ("http" in app.addresses) is not annotate
                if not annotate:
                    await _post_some(app, range(20, 30))
                    await until(lambda: len(gate.taken) == 30)
                may_judge.set()
                await started
                await _post_some(app, range(30, 40))
                await until(lambda: not _waits(app, "hop"))
                await asyncio.sleep(0)
                count = 30 if annotate else 40
                assert len(gate.taken) == len(set(gate.taken)) == count
                assert (await metrics(app))[_OK] == count
                kill(app)
            async with life(tmp_path, settings) as app:
                assert (await metrics(app))[_OK] == count

    run(main)


_OK = 'offrails_forward_requests_total{destination="hop",signal="logs",outcome="ok"}'


async def _post_some(app: App, numbers: range) -> None:
    for number in numbers:
        assert await post(app, body_number(number), "/v1/logs") == 200


@asynccontextmanager
async def early(
    folder: Path, *hops: NextHopSettings
) -> AsyncIterator[tuple[App, asyncio.Task[Any]]]:
    """A service that is starting, and what ends when it has started."""
    more = {"state": {"dir": folder, "bridged_seconds": 3600}}
    app = app_of(*hops, more=more, drain_seconds=0.0)
    started = asyncio.create_task(app.start())
    try:
        yield app, started
    finally:
        await app.stop()
