"""The cost of a span with a new list of keys: a conversation that is written again at full length.

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

from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.app import gc_tuning
from tests.bench.pipeline import JUDGE, PARSE, WAYS
from tests.bench.traffic import SECOND, Traffic, harms
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
    """The cost of models' spans of one kind, with the tools' spans between them."""

    spans: str
    parse_us: float
    verdict_us: float


def _model(history: list[int], conversation: str) -> Attributes:
    """A model's span that repeats a history, given as the number of requested tools per message."""
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


def _traffic(*, new: bool) -> Traffic:
    spans = list(_spans(random.Random(7), new=new))
    above, size = group([("service.name", "farm-rover")], SCOPE, "0.1.50"), 2 * TURNS
    bodies = [request([(above, spans[at : at + size])]) for at in range(0, len(spans), size)]
    calls = TURNS * REQUESTS
    harmful = SESSIONS * harms(["log"] * (calls // SESSIONS))
    return Traffic(bodies, len(spans), calls, harmful, late=0)


def _cpu_us(way: str, traffic: Traffic) -> float:
    """Microseconds a span of one way of the pipeline's, its work checked."""
    run = WAYS[way](traffic)
    gc.collect()
    begin = time.process_time()
    run()
    return (time.process_time() - begin) / traffic.spans * 1e6


def measure() -> list[Row]:
    """CPU microseconds a span, the least of several rounds."""
    gc_tuning.settle()
    kinds = {ALIKE: _traffic(new=False), NEW: _traffic(new=True)}
    parse, judge = (dict.fromkeys(kinds, float("inf")) for _ in range(2))
    for turn in range(ROUNDS):
        for name, traffic in kinds.items():
            parse[name] = min(parse[name], _cpu_us(PARSE, traffic))
            # What is new to one round must not be known from the one before.
            sent = _renamed(traffic, turn) if name == NEW else traffic
            judge[name] = min(judge[name], _cpu_us(JUDGE, sent))
    return [Row(name, parse[name], judge[name]) for name in kinds]


def _renamed(traffic: Traffic, turn: int) -> Traffic:
    """The same with other keys of the same length."""
    other = b"message.rol%c" % (ord("a") + turn)
    return traffic._replace(
        requests=[body.replace(b"message.role", other) for body in traffic.requests]
    )


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
