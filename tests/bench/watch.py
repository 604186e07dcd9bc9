"""The cost of comparing a session with a reference: `python -m tests.bench.watch`.

The same sessions are judged under a learnt reference, and under the same document with nothing
learnt; the difference is the watch: the digest of the arguments, the step, the comparison, what is
told and kept. One session of ten leaves the usual way
at its second call and writes the unexpected. Times are of the processor, the best of many rounds.

Once more all that a reference may ask is asked: a risk of sixty trees over every feature, how unlikely the path is, and where
written values come from, with a result of fifty words at each call.
"""

from __future__ import annotations

import gc
import random
import time
import tracemalloc
from dataclasses import replace
from typing import Any, Final

from monitor.engine import Monitor
from monitor.limits import SECOND, Limits
from monitor.records import Evidence, SessionKey, ToolCall
from monitor.reference.document import reference_text
from monitor.reference.learn import learn
from monitor.reference.runs import SeenRun, seen_call
from monitor.spec.compiler.compile import compile_text
from monitor.spec.risk_features import FEATURES
from monitor.spec.risk_model import RiskModel, RiskNode
from monitor.spec.spec import Spec
from tests.bench import bounds
from tests.bench.bounds import Bound
from tests.bench.outcome import Outcome, of_monitor

__all__ = [
    "ALL_US",
    "CALL_US",
    "SESSION_BYTES",
    "bytes_a_session",
    "reference",
    "us_a_call",
    "us_of_all",
]

CALL_US: Final = 5.0
SESSION_BYTES: Final = 200
ALL_US: Final = 50.0
"""Limits: microseconds a call, bytes for each session and reference, microseconds a call where all is asked."""

RESULT: Final = ({"text": " ".join(f"word{n}" for n in range(50)), "id": 28},)

CALLS: Final = 10
SESSIONS: Final = 2_000
TIMED: Final = 500
ROUNDS: Final = 25
START: Final = 1_700_000_000 * SECOND
ATTRIBUTES: Final = {"service.name": "bench"}
TOOLS: Final = ("get_user", "find_flight", "list_seats", "book_seat", "send_mail")

Made = tuple[str, dict[str, Any]]


def _arguments(number: int) -> dict[str, Any]:
    return {"id": f"user_{number % 7}", "rows": [1, 2, 3], "note": "as agreed by telephone"}


def _usual(run: int) -> list[Made]:
    return [(TOOLS[n % len(TOOLS)], _arguments(n + run % 2)) for n in range(CALLS)]


def _odd(run: int) -> list[Made]:
    made = _usual(run)
    return [made[0], ("find_hotel", {}), *made[2:-1], ("book_seat", {"id": "nobody"})]


def reference() -> Spec:
    """Learnt of twenty runs of two kinds."""
    runs = [
        SeenRun(str(n), "", tuple(seen_call(*each, failed=False) for each in _usual(n)))
        for n in range(20)
    ]
    text = reference_text(learn(runs), "usual", match=ATTRIBUTES)
    found, findings = compile_text(text, "usual.yaml")
    assert found is not None, findings
    return found


def _risk() -> RiskModel:
    """As many trees as are trained, of the same depth; together they ask for every feature."""
    count, chance = len(FEATURES), random.Random(1)
    trees = []
    for tree in range(60):
        asked = iter(range(7))
        nodes = [
            RiskNode(
                (7 * tree + next(asked)) % count, chance.choice((0.0, 0.5, 1.5)), right, 0.0
            )
            if right
            else RiskNode(-1, 0.0, 0, chance.uniform(-0.1, 0.1))
            for right in (8, 5, 4, 0, 0, 7, 0, 0, 12, 11, 0, 0, 14, 0, 0)
        ]
        trees.append(tuple(nodes))
    source = {"runs": 1, "failures": 1, "tasks": 1, "agents": 1}
    return RiskModel("bench", tuple(FEATURES), tuple(trees), 0.0, 1.0, 0.0, 0.9, source)


def reference_of_all() -> Spec:
    """The same, with all that a reference may ask."""
    spec = reference()
    assert spec.learnt is not None
    assert spec.learnt.surprise is not None
    return replace(spec, learnt=replace(spec.learnt, provenance=True, model=_risk()))


def _calls(sessions: int) -> list[ToolCall]:
    """Every session makes its first call, then its second, and so on."""
    made = [_usual(n) if n % 10 else _odd(n) for n in range(sessions)]
    return [
        _call(session, number, *made[session][number])
        for number in range(CALLS)
        for session in range(sessions)
    ]


def _call(session: int, number: int, tool: str, arguments: dict[str, Any]) -> ToolCall:
    start = START + number * SECOND
    return ToolCall(
        session=SessionKey("", f"session-{session}"),
        agent="",
        tool=tool,
        arguments=arguments,
        error=False,
        start_ns=start,
        end_ns=start + 1000,
        trace_id=(session + 1).to_bytes(16, "big"),
        span_id=(session * 100 + number + 1).to_bytes(8, "big"),
        parent_span_id=b"parents!",
        call_id="",
        evidence=Evidence.EXECUTED,
        attributes=ATTRIBUTES,
    )


def _judge(spec: Spec, calls: list[ToolCall]) -> Monitor:
    monitor = Monitor([spec], Limits(history_complete=True))
    monitor.on_alarm(lambda _: None)
    for call in calls:
        monitor.observe(call, call.start_ns + 1000, quiet=True)
    assert of_monitor(monitor) == Outcome(len(calls), 0)
    return monitor


def _seconds(spec: Spec, calls: list[ToolCall]) -> float:
    gc.collect()
    begun = time.process_time()
    _judge(spec, calls)
    return time.process_time() - begun


def us_a_call() -> float:
    """Microseconds that the comparison adds to a call."""
    return _us(_calls(TIMED), reference())


def us_of_all() -> float:
    """Microseconds that all a reference may ask adds to a call with a result."""
    return _us([call._replace(result=RESULT) for call in _calls(TIMED)], reference_of_all())


def _us(calls: list[ToolCall], spec: Spec) -> float:
    nothing = replace(spec, learnt=None)
    # In turn, so that both have the same share of a busy machine.
    rounds = [(_seconds(nothing, calls), _seconds(spec, calls)) for _ in range(ROUNDS)]
    plain, watched = min(one for one, _ in rounds), min(other for _, other in rounds)
    return (watched - plain) / len(calls) * 1e6


def _bytes(spec: Spec, calls: list[ToolCall]) -> int:
    gc.collect()
    tracemalloc.start()
    monitor = _judge(spec, calls)
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert monitor.sessions == SESSIONS
    return size


def bytes_a_session() -> float:
    """Bytes that the comparison adds to a session."""
    calls, spec = _calls(SESSIONS), reference()
    return (_bytes(spec, calls) - _bytes(replace(spec, learnt=None), calls)) / SESSIONS


def main() -> None:
    """Prints all three."""
    cost, size = us_a_call(), bytes_a_session()
    every = Bound("more for a call where all is asked", us_of_all(), ALL_US, "us")
    call = Bound("more for a watched call", cost, CALL_US, "us")
    session = Bound("more for a watched session", size, SESSION_BYTES, "bytes")
    print(bounds.lines([call, every, session]))


if __name__ == "__main__":
    main()
