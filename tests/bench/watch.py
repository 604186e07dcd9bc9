"""The cost of comparing a session with a reference: `python -m tests.bench.watch`.

The same sessions are judged under a learnt reference, and under the same document with nothing
learnt; the difference is the watch: the digest of the arguments, the step, the comparison, what is
told and kept. One session of ten leaves the usual way
at its second call and writes the unexpected. Times are of the processor, the best of many rounds.
"""

from __future__ import annotations

import gc
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
from monitor.spec.spec import Spec
from tests.bench import bounds
from tests.bench.bounds import Bound
from tests.bench.outcome import Outcome, of_monitor

__all__ = ["CALL_US", "SESSION_BYTES", "bytes_a_session", "reference", "us_a_call"]

CALL_US: Final = 5.0
SESSION_BYTES: Final = 200
"""Limits: microseconds a call, bytes for each session and reference."""

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
    calls, spec = _calls(TIMED), reference()
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
    """Prints both."""
    cost, size = us_a_call(), bytes_a_session()
    call = Bound("more for a watched call", cost, CALL_US, "us")
    session = Bound("more for a watched session", size, SESSION_BYTES, "bytes")
    print(bounds.lines([call, session]))


if __name__ == "__main__":
    main()
