"""What a span costs whose attributes were never seen together: a conversation told again at full length.

    python -m tests.bench.histories

Instrumentations that write each message of a conversation as attributes of its own (OpenInference,
Traceloop) make a new list of keys a turn, and how such a list is read is worked out once for each. Here
every model's span has one that no other has; beside it stand as many spans that are all alike. Each
asks for a tool whose own span comes next, which proves the work.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector import garbage
from collector.pipeline import Pipeline
from collector.receivers.export import Export
from collector.stats import Stats
from monitor import Limits, Monitor, load_spec
from tests.bench.outcome import of_monitor
from tests.bench.traffic import ROVER, SECOND
from tests.bench.wire import Attributes, group, request, span

TURNS = 25
"""Of a request; each a model's span and a tool's."""
REQUESTS = 40
ROUNDS = 10
SESSIONS = 100
MESSAGES = 10
"""That are told again: by each two or four attributes, or six."""

ALIKE = "all alike"
NEW = "each with keys never seen together"
SCOPE = "openinference.instrumentation.langchain"


class Row(NamedTuple):
    """What models' spans of one kind need, with the tools' between them."""

    spans: str
    parse_us: float
    verdict_us: float


def _model(history: list[int], conversation: str) -> Attributes:
    """A model's span that tells a history again: of each message, how many tools it asked for."""
    yield "openinference.span.kind", "LLM"
    yield "session.id", conversation
    for at, tools in enumerate(history):
        message = f"llm.input_messages.{at}.message"
        yield f"{message}.role", "assistant" if tools else "user"
        yield f"{message}.content", "The soil moisture at the north edge is 0.12."
        for each in range(tools):
            asked = f"{message}.tool_calls.{each}.tool_call.function"
            yield f"{asked}.name", "scan"
            yield f"{asked}.arguments", '{"area": "north"}'
    yield "llm.output_messages.0.message.tool_calls.0.tool_call.function.name", "log"


def _spans(chance: random.Random, *, new: bool) -> Iterator[bytes]:
    for number in range(TURNS * REQUESTS):
        conversation = f"rover-{number % SESSIONS}"
        trace, begin = chance.randbytes(16), (1_700_000_000 + number) * SECOND
        history = [chance.randrange(3) for _ in range(MESSAGES)] if new else [1] * MESSAGES
        told = _model(history, conversation)
        asking, kind = chance.randbytes(8), Span.SPAN_KIND_INTERNAL
        yield span(trace, asking, b"", "ChatOpenAI", kind, begin, begin + 1, told)
        own = [
            ("openinference.span.kind", "TOOL"),
            ("session.id", conversation),
            ("tool.name", "log"),
            ("input.value", '{"message": "dry"}'),
        ]
        yield span(trace, chance.randbytes(8), asking, "log", kind, begin + 2, begin + 3, own)


def _bodies(*, new: bool) -> list[bytes]:
    spans = list(_spans(random.Random(7), new=new))
    above, size = group([("service.name", "farm-rover")], SCOPE, "0.1.50"), 2 * TURNS
    return [request([(above, spans[at : at + size])]) for at in range(0, len(spans), size)]


def _judged(bodies: list[bytes]) -> float:
    """CPU seconds to the verdicts, by a monitor that has seen nothing yet."""
    monitor, stats = Monitor([load_spec(ROVER)], Limits(history_complete=True)), Stats()
    consume = Pipeline(monitor, stats, lambda _: None).consume
    export = Export(consume, stats, lambda: 1_800_000_000 * SECOND)
    gc.collect()
    begin = time.process_time()
    for body in bodies:
        export.traces(body, "proto", "grpc")
    spent = time.process_time() - begin
    assert of_monitor(monitor).calls == TURNS * REQUESTS
    return spent


def _parsed(bodies: list[bytes]) -> float:
    begin = time.process_time()
    for body in bodies:
        ExportTraceServiceRequest.FromString(body)
    return time.process_time() - begin


def measure() -> list[Row]:
    """CPU microseconds a span, the least of several rounds."""
    garbage.settle()
    traffic = {ALIKE: _bodies(new=False), NEW: _bodies(new=True)}
    parse, judge = (dict.fromkeys(traffic, float("inf")) for _ in range(2))
    for turn in range(ROUNDS):
        for name, bodies in traffic.items():
            parse[name] = min(parse[name], _parsed(bodies))
            # What is new to one round must not be known from the one before.
            sent = [_renamed(body, turn) for body in bodies] if name == NEW else bodies
            judge[name] = min(judge[name], _judged(sent))
    spans = 2 * TURNS * REQUESTS / 1e6
    return [Row(name, parse[name] / spans, judge[name] / spans) for name in traffic]


def _renamed(body: bytes, turn: int) -> bytes:
    """The same with other keys of the same length."""
    return body.replace(b"message.role", b"message.rol%c" % (ord("a") + turn))


def table(rows: list[Row]) -> str:
    """The rows as a Markdown table."""
    lines = [
        "| models' spans, tools' between them | parse alone | to verdict |",
        "|---|---|---|",
    ]
    lines += [f"| {name} | {parse:.1f} | {judge:.1f} |" for name, parse, judge in rows]
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(measure()))
