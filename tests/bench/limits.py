"""Does the process stay below its memory limit? Large requests, and a flood of new sessions.

    python -m tests.bench.limits [--limit-mib 512] [--load flood] [--seconds 15]

Prints the most that the process took (VmHWM), and what its senders were answered.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.end_to_end.service import Service

MIB = 1 << 20
LARGE_BYTES = 54_000_000
FLOOD_SPANS = 1_500
SENDERS = 4
ANSWER_SECONDS = 300.0
TRACE, SPAN, SESSION = b"\xaa" * 16, b"\xbb" * 8, b"#" * 16
"""Held places of the ids in the template."""


def template() -> bytes:
    """One span as a request of its own; concatenated, such requests are one request."""
    made = ExportTraceServiceRequest()
    group = made.resource_spans.add()
    service = group.resource.attributes.add(key="service.name")
    service.value.string_value = "farm-rover"
    now = time.time_ns()
    span = group.scope_spans.add().spans.add(
        trace_id=TRACE,
        span_id=SPAN,
        name="execute_tool move",
        start_time_unix_nano=now,
        end_time_unix_nano=now + 1,
    )
    texts = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "move",
        "gen_ai.conversation.id": SESSION.decode(),
        "gen_ai.tool.call.arguments": '{"to": "field 7", "note": "' + "n" * 200 + '"}',
    }
    for key, text in texts.items():
        span.attributes.add(key=key).value.string_value = text
    return made.SerializeToString()


def bodies(count: Iterator[int], spans: int) -> bytes:
    """A request of this many spans, each with its own session and trace."""
    made, parts = template(), []
    for number in itertools.islice(count, spans):
        text = made.replace(TRACE, number.to_bytes(16, "big"))
        text = text.replace(SPAN, number.to_bytes(8, "big"))
        parts.append(text.replace(SESSION, b"%016d" % number))
    return b"".join(parts)


def peak(service: Service) -> int:
    """The most that the process took so far, in bytes."""
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def at_once(send: Callable[[int], None]) -> None:
    """Runs the senders, each in a thread."""
    threads = [threading.Thread(target=send, args=(number,)) for number in range(SENDERS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def post(service: Service, body: bytes, answers: Counter[str]) -> None:
    """One request; what it is answered, or that the connection was closed, is counted."""
    connection = http.client.HTTPConnection(service.addresses["http"], timeout=ANSWER_SECONDS)
    try:
        head = {"content-type": "application/x-protobuf"}
        connection.request("POST", "/v1/traces", body, head)
        answers[str(connection.getresponse().status)] += 1
    except OSError as problem:
        answers[type(problem).__name__] += 1
    finally:
        connection.close()


def large(service: Service) -> Counter[str]:
    """Four requests of 54 MB at once."""
    answers: Counter[str] = Counter()
    count = itertools.count(1)
    made = [bodies(count, LARGE_BYTES // len(template())) for _ in range(SENDERS)]
    at_once(lambda number: post(service, made[number], answers))
    return answers


def flood(service: Service, seconds: float) -> Counter[str]:
    """New sessions as fast as they are taken, by four senders."""
    answers: Counter[str] = Counter()
    ends = time.monotonic() + seconds

    def send(number: int) -> None:
        count = itertools.count((number + 1) << 40)
        while time.monotonic() < ends:
            post(service, bodies(count, FLOOD_SPANS), answers)

    at_once(send)
    return answers


def measured(
    limit: int, load: Callable[[Service], Counter[str]]
) -> tuple[int, int, Counter[str]]:
    """Bytes that an idle process takes, the most under a load, and the answers."""
    service = Service(
        variables={"OFFRAILS_MEMORY_LIMIT": str(limit), "OFFRAILS_LOG_LEVEL": "error"}
    )
    try:
        service.wait_ready()
        idle = peak(service)
        answers = load(service)
        return idle, peak(service), answers
    finally:
        service.kill()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--limit-mib", type=int, action="append", help="0: without a limit")
    parser.add_argument("--load", choices=("large", "flood"), help="one of them alone")
    parser.add_argument("--seconds", type=float, default=15.0)
    options = parser.parse_args()
    print("| limit | load | idle | most | answers |\n|---|---|---|---|---|")
    for mib in options.limit_mib or (0, 128, 192, 512):
        loads: dict[str, Callable[[Service], Counter[str]]] = {
            "large": large,
            "flood": lambda one: flood(one, options.seconds),
        }
        for name, load in loads.items():
            if options.load not in (None, name):
                continue
            idle, most, answers = measured(mib * MIB, load)
            told = ", ".join(f"{count} x {what}" for what, count in sorted(answers.items()))
            print(
                f"| {mib} MiB | {name} | {idle / MIB:.0f} | {most / MIB:.0f} | {told} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
