"""Retries and queue of one next hop, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.config.settings.forward import NextHopSettings
from collector.forward.message import MESSAGE_BYTES, ForwardMessage, ForwardReply
from collector.forward.next_hop import (
    IN_FLIGHT_MAX,
    PAUSE_SECONDS_MAX,
    WAIT_SECONDS_MAX,
    Destination,
)
from collector.forward.queue import ForwardQueue
from collector.receive.export import Encoding
from collector.receive.status_codes import ExportStatus
from collector.telemetry.logs import captured
from tests.collector.forward.virtual_time import run_virtual

OK = ForwardReply(ExportStatus.OK)
BUSY = ForwardReply(ExportStatus.UNAVAILABLE, "status 503")
MINUTES_10 = 600.0


class FakeHop:
    """A next hop that answers by the time and the message; None: it hangs until its timeout."""

    encodings: frozenset[Encoding] = frozenset({"proto"})

    def __init__(self, answer: Callable[[float, ForwardMessage], ForwardReply | None]) -> None:
        self.answer = answer
        self.attempts: list[tuple[float, bytes]] = []
        self.taken: list[bytes] = []
        self.at_once = 0
        self.most_at_once = 0
        self.timeout = 10.0

    async def prepare(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def send(self, message: ForwardMessage) -> ForwardReply:
        now = asyncio.get_running_loop().time()
        self.attempts.append((now, message.body))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(0.01)
            reply = self.answer(now, message)
            if reply is None:
                await asyncio.sleep(self.timeout)
                return ForwardReply(ExportStatus.UNAVAILABLE, "no answer in time")
        finally:
            self.at_once -= 1
        if reply.status is ExportStatus.OK:
            self.taken.append(message.body)
        return reply


def destination(hop: FakeHop, seed: int = 1, **settings: Any) -> Destination:
    made = NextHopSettings(endpoint="http://hop:4318", **settings)
    return Destination(made, hop, ForwardQueue(made.queue_bytes), Random(seed))


def message(number: int, size: int = 10) -> ForwardMessage:
    return ForwardMessage("traces", number.to_bytes(4, "big") + bytes(size), "proto")


async def drained(of: Destination) -> None:
    await passing(lambda: not of.queue.bytes)


async def passing(probe: Callable[[], Any]) -> None:
    """Time passes until `probe` is true."""
    while not probe():  # noqa: ASYNC110 - what is probed has no event
        await asyncio.sleep(0.1)


async def passing_until(seconds: float) -> None:
    """Time passes until the clock shows so many seconds."""
    await asyncio.sleep(seconds - asyncio.get_running_loop().time())


def test_messages_are_sent_in_order() -> None:
    """A next hop that answers is sent each message once, the oldest first."""
    hop = FakeHop(lambda *_: OK)

    async def main() -> None:
        to = destination(hop)
        to.start()
        for number in range(50):
            to.offer(message(number))
        await drained(to)
        await to.stop(1)
        assert [body for _, body in hop.attempts] == [message(n).body for n in range(50)]
        assert sorted(hop.taken) == [body for _, body in hop.attempts]
        assert to.counts.results["traces", "ok"] == 50
        assert to.counts.latency.count == 50
        assert hop.most_at_once == IN_FLIGHT_MAX

    run_virtual(main)


def test_a_next_hop_that_is_down_for_ten_minutes_loses_nothing() -> None:
    """Everything that fits into the queue arrives, soon after the next hop is back."""
    hop = FakeHop(lambda now, _: OK if now > MINUTES_10 else BUSY)

    async def main() -> None:
        to = destination(hop)
        to.start()
        for number in range(600):
            to.offer(message(number))
            await asyncio.sleep(1)
        assert not to.is_up
        assert len(hop.attempts) < 100
        await drained(to)
        assert asyncio.get_running_loop().time() < MINUTES_10 + PAUSE_SECONDS_MAX + 10
        assert sorted(hop.taken) == [message(number).body for number in range(600)]
        assert to.is_up
        assert to.counts.retries == len(hop.attempts) - 600
        await to.stop(1)

    with captured() as lines:
        run_virtual(main)
    events = [line["event"] for line in lines]
    assert 9 <= events.count("forward_failing") <= 11
    assert events.count("forward_recovered") == 1
    assert events[-1] == "forward_recovered"


def test_a_next_hop_that_fails_now_and_then_does_not_flood_the_log() -> None:
    """The log has at most one line a minute that it fails, and one for each of these that it answers again."""
    hop = FakeHop(lambda now, _: BUSY if int(now * 7) % 2 else OK)

    async def main() -> None:
        to = destination(hop)
        to.start()
        for number in range(1_000):
            to.offer(message(number))
            await asyncio.sleep(0.3)
        await drained(to)
        await to.stop(1)
        assert to.counts.retries > 100

    with captured() as lines:
        run_virtual(main)
    assert 4 <= len(lines) <= 14


def test_pauses_grow_with_full_jitter() -> None:
    """The pauses of many next hops spread over the whole range up to a bound that doubles up to 30 s."""
    pauses: list[list[float]] = []

    def attempt(seed: int) -> None:
        hop = FakeHop(lambda *_: BUSY)

        async def main() -> None:
            to = destination(hop, seed)
            to.start()
            to.offer(message(1))
            await passing(lambda: len(hop.attempts) >= 10)
            times = [at for at, _ in hop.attempts]
            pauses.append([b - a - 0.01 for a, b in pairwise(times)])
            await to.stop(0)

        run_virtual(main)

    for seed in range(100):
        attempt(seed)
    for place in range(9):
        most = min(0.5 * 2**place, PAUSE_SECONDS_MAX)
        found = [each[place] for each in pauses]
        assert min(found) < 0.05 * most
        assert 0.95 * most < max(found) <= most + 1e-6
        assert 0.4 * most < sum(found) / len(found) < 0.6 * most


@pytest.mark.parametrize(("asked", "least"), [(7.0, 7.0), (10**6, WAIT_SECONDS_MAX)])
def test_a_next_hop_is_left_alone_for_the_time_it_asks_for(asked: float, least: float) -> None:
    """Retry-After and RetryInfo hold for all messages of the next hop, up to a bound."""
    throttled = ForwardReply(ExportStatus.THROTTLED, "status 429", wait_seconds=asked)
    hop = FakeHop(lambda now, _: throttled if now < 1 else OK)

    async def main() -> None:
        to = destination(hop)
        to.start()
        for number in range(20):
            to.offer(message(number))
        await drained(to)
        await to.stop(1)
        first = [at for at, _ in hop.attempts[:IN_FLIGHT_MAX]]
        later = [at for at, _ in hop.attempts[IN_FLIGHT_MAX:]]
        assert first == [0.0] * IN_FLIGHT_MAX
        assert least <= min(later) - 0.01 < least + 2
        assert len(hop.taken) == 20

    run_virtual(main)


def test_one_attempt_at_a_time_while_it_fails() -> None:
    """After the attempts that were under way when it began to fail, the next hop is tried one by one."""
    hop = FakeHop(lambda now, _: OK if now > 120 else None)

    async def main() -> None:
        to = destination(hop)
        to.start()
        for number in range(100):
            to.offer(message(number))
        await passing_until(11)
        hop.most_at_once = 0
        await passing_until(119)
        assert hop.most_at_once <= 1
        await drained(to)
        await to.stop(1)
        assert len(hop.taken) == 100

    run_virtual(main)


def test_a_message_that_is_never_taken_does_not_block_the_others() -> None:
    """It goes behind the others each time, and is given up when it is too old."""
    poison = message(0).body
    hop = FakeHop(lambda _, each: BUSY if each.body == poison else OK)

    async def main() -> None:
        to = destination(hop, give_up_seconds=300.0)
        to.start()
        for number in range(200):
            to.offer(message(number))
            await asyncio.sleep(0.5)
        assert len(hop.taken) > 190
        await drained(to)
        assert len(hop.taken) == 199
        assert to.counts.dropped["gave_up"] == 1
        assert to.counts.results["traces", "dropped"] == 1
        await to.stop(1)

    run_virtual(main)


@pytest.mark.parametrize(
    "outcome",
    [each for each in ExportStatus if not each.value.retryable and each is not ExportStatus.OK],
)
def test_what_is_not_retryable_is_counted_and_not_sent_again(outcome: ExportStatus) -> None:
    """A request that the next hop refuses for good is sent once."""
    hop = FakeHop(lambda *_: ForwardReply(outcome, "no"))

    async def main() -> None:
        to = destination(hop)
        to.start()
        to.offer(message(1))
        await drained(to)
        await to.stop(1)
        assert len(hop.attempts) == 1
        assert to.counts.results["traces", "refused"] == 1
        assert to.is_up

    run_virtual(main)


def test_partial_success_is_counted() -> None:
    """The items that the next hop leaves out are counted, and the log says so once a minute."""
    hop = FakeHop(lambda *_: ForwardReply(ExportStatus.OK, "bad ids", rejected=3))

    async def main() -> None:
        to = destination(hop)
        to.start()
        for number in range(10):
            to.offer(message(number))
        await drained(to)
        await to.stop(1)
        assert to.counts.results["traces", "partial"] == 10
        assert to.counts.rejected["traces"] == 30

    with captured() as lines:
        run_virtual(main)
    (line,) = [each for each in lines if each["event"] == "forward_partial"]
    assert (line["rejected"], line["reason"]) == (3, "bad ids")


def test_a_full_queue_drops_what_is_new() -> None:
    """The queue never holds more than its bound, and each message that finds no room is counted."""
    hop = FakeHop(lambda now, _: OK if now > 100 else BUSY)
    size = message(0).size

    async def main() -> None:
        to = destination(hop, queue_bytes=10 * size)
        to.start()
        for number in range(30):
            to.offer(message(number))
            assert to.queue.bytes <= to.queue.bytes_max
            await asyncio.sleep(0.1)
        await drained(to)
        await to.stop(1)
        assert len(hop.taken) == 10
        assert to.counts.dropped["queue_full"] == 20

    run_virtual(main)


def test_a_request_larger_than_the_queue_is_taken_if_the_queue_is_empty() -> None:
    """No request is too large for ever."""
    queue = ForwardQueue(1024)

    assert queue.reserve(5_000)
    assert not queue.reserve(1)
    queue.release(5_000)
    assert queue.reserve(1)


def test_what_is_left_at_the_end_is_counted_and_logged() -> None:
    """A stop lasts as long as the grace, no longer."""
    hop = FakeHop(lambda *_: None)

    async def main() -> None:
        to = destination(hop)
        to.start()
        for number in range(20):
            to.offer(message(number))
        await asyncio.sleep(1)
        before = asyncio.get_running_loop().time()
        await to.stop(5)
        assert asyncio.get_running_loop().time() - before < 5.1
        assert to.counts.dropped["shutdown"] == 20
        assert to.queue.bytes == 0

    with captured() as lines:
        run_virtual(main)
    (line,) = [each for each in lines if each["event"] == "forward_undelivered"]
    assert (line["destination"], line["requests"]) == ("hop:4318", 20)


@pytest.mark.parametrize("steps", range(6))
def test_a_message_that_comes_while_a_stop_ends_is_counted(steps: int) -> None:
    """Its attempt may be taken back before it has begun: wherever the stop is, the message is dropped by name."""
    hop = FakeHop(lambda *_: None)

    async def main() -> None:
        to = destination(hop)
        to.start()
        to.offer(message(1))
        await passing(lambda: hop.attempts)
        stop = asyncio.create_task(to.stop(0))
        for _ in range(steps):
            await asyncio.sleep(0)
        was_open = not stop.done()
        to.offer(message(2))
        await stop
        assert to.counts.dropped["shutdown"] + len(to.queue) == 2
        assert len(to.queue) <= (not was_open)

    run_virtual(main)


def test_a_stop_does_not_wait_for_a_long_pause() -> None:
    """A next hop that is back gets what waits, though the pause after its failures would last longer."""
    hop = FakeHop(lambda now, _: OK if now > MINUTES_10 else BUSY)

    async def main() -> None:
        to = destination(hop, seed=3)
        to.start()
        to.offer(message(1))
        await passing_until(MINUTES_10 + 0.1)
        assert to.queue.bytes
        await to.stop(5)
        assert hop.taken == [message(1).body]
        assert to.counts.dropped["shutdown"] == 0

    run_virtual(main)


def test_a_fault_of_ours_costs_one_message() -> None:
    """An error in sending is logged and counted; the messages behind it are sent."""

    def answer(_now: float, each: ForwardMessage) -> ForwardReply:
        if each.body == message(0).body:
            raise RuntimeError
        return OK

    hop = FakeHop(answer)

    async def main() -> None:
        to = destination(hop)
        to.start()
        for number in range(3):
            to.offer(message(number))
        await drained(to)
        await to.stop(1)
        assert to.counts.dropped["internal_error"] == 1
        assert to.counts.results["traces", "dropped"] == 1
        assert to.counts.results["traces", "ok"] == len(hop.taken) == 2

    with captured() as lines:
        run_virtual(main)
    assert [each["event"] for each in lines].count("forward_failed") == 1


@given(
    st.lists(st.sampled_from(["ok", "busy", "no", "partial", "hangs", "fault"]), max_size=40),
    st.integers(0, 9),
)
def test_each_message_is_counted_once(answers: list[str], seed: int) -> None:
    """Whatever the next hop does, each message ends in one result, and the queue is empty at the end."""
    left = list(answers)

    def answer(*_: Any) -> ForwardReply | None:
        kind = left.pop() if left else "ok"
        if kind == "fault":
            raise RuntimeError
        found = {
            "ok": OK,
            "busy": BUSY,
            "no": ForwardReply(ExportStatus.MALFORMED, "no"),
            "partial": ForwardReply(ExportStatus.OK, "some", 2),
        }
        return found.get(kind)

    async def main() -> None:
        to = destination(FakeHop(answer), seed, queue_bytes=20 * (MESSAGE_BYTES + 14))
        to.start()
        for number in range(30):
            to.offer(message(number))
            if number % 7 == 0:
                await asyncio.sleep(3)
        await asyncio.sleep(20 * seed)
        await to.stop(5)
        assert sum(to.counts.results.values()) == 30
        assert sum(to.counts.dropped.values()) == to.counts.results["traces", "dropped"]
        assert to.queue.bytes == 0

    with captured():
        run_virtual(main)
