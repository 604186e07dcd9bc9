"""Latency of the real service under a steady load, open loop, while it is scraped.

    python -m tests.bench.latency

Requests are sent at their scheduled times, whatever the answers do; the time from the scheduled
send to the answer is what a sender sees, the histogram of the service what a verdict takes.
"""

from __future__ import annotations

import asyncio
import time

from tests.bench.service import service
from tests.bench.traffic import SECOND, generate

SECONDS = 8


async def _post(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes
) -> None:
    head = (
        "POST /v1/traces HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: application/x-protobuf\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    status = await reader.readline()
    assert b" 200 " in status, status
    length = 0
    while (line := await reader.readline()) != b"\r\n":
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    await reader.readexactly(length)


async def _get(port: int, path: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
    )
    text = (await reader.read()).decode()
    writer.close()
    return text


async def _load(port: int, rate: int, batch: int) -> list[float]:
    """Sends `rate` spans a second in requests of `batch`; returns seconds from schedule to answer."""
    # All of it is over by now: a call from the future would be placed by its receipt.
    begun = time.time_ns() - 10_000 * SECOND
    traffic = generate(batch, rate * SECONDS // batch, start_ns=begun)
    free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    for _ in range(16):
        free.put_nowait(await asyncio.open_connection("127.0.0.1", port))
    took: list[float] = []
    begin = time.perf_counter() + 0.1

    async def send(number: int, body: bytes) -> None:
        due = begin + number * batch / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        connection = await free.get()
        await _post(*connection, body)
        took.append(time.perf_counter() - due)
        free.put_nowait(connection)

    await asyncio.gather(*(send(n, body) for n, body in enumerate(traffic.requests)))
    return sorted(took)


async def _scrape(port: int, text: list[str]) -> None:
    while True:
        text[:] = [await _get(port, "/metrics")]
        await asyncio.sleep(1)


async def _measure(ports: dict[str, int]) -> None:
    seen: list[str] = []
    scraper = asyncio.create_task(_scrape(ports["metrics"], seen))
    for rate, batch in ((1_000, 10), (10_000, 10)):
        took = await _load(ports["http"], rate, batch)
        p50, p99 = (took[int(len(took) * share)] * 1e3 for share in (0.5, 0.99))
        print(
            f"{rate} spans/s in requests of {batch}: answered p50 {p50:.2f} ms, p99 {p99:.2f} ms"
        )
    scraper.cancel()
    text = await _get(ports["metrics"], "/metrics")
    print("receipt to verdict, all of the above:")
    for line in text.splitlines():
        if "verdict_latency_seconds_bucket" in line and "http_proto" in line:
            print("  ", line)
    calls = [float(line.split()[-1]) for line in text.splitlines() if "_calls_total{" in line]
    assert sum(calls) > 0


async def main() -> None:
    """Starts the service, loads it, prints what it took."""
    with service() as server:
        await _measure(server.ports)


if __name__ == "__main__":
    asyncio.run(main())
