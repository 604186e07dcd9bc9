"""What a decision before a call costs: in process, and over HTTP beside telemetry.

    python -m tests.bench.decide

In process: CPU microseconds of one `Monitor.decide`, the least of several rounds. Over HTTP: 64 agents ask the real
service at scheduled times (`tests/bench/decide_load.py`) and tell what became of each call, while another process sends
spans (`tests/bench/load.py`). The time of an answer counts from when its question was due. Beside it stands the time
within the service, from its own histogram. Each figure is the median of several rounds, and the least of them in
brackets: what else runs on the machine is in the former. Each round proves every answer, every outcome and every span.

Last come the longest waits of a good client while others flood the listener (`tests/bench/decide_floods.py`).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from statistics import median
from typing import Final, NamedTuple

from monitor import Limits, Monitor, SessionKey, ToolCall, load_spec
from monitor.records import Evidence, Kind
from tests.bench import bounds
from tests.bench.bounds import Bound
from tests.bench.decide_load import AGENTS, Asked
from tests.bench.latency import buckets, quantile
from tests.bench.load import Loaded
from tests.bench.outcome import Outcome, of_metrics
from tests.bench.service import COMPILED, ROOT, Server, service
from tests.bench.traffic import ROVER, RUNS, SECOND, is_harmful

ROUNDS: Final = 5
SESSIONS: Final = 200
"""In process, at each of which one call is decided in turn."""
CALL_US_MAX: Final = 25.0 if COMPILED else 150.0

RATES: Final[dict[int, int]] = {500: 3, 2_000: 3}
"""Decisions a second -> seconds of a round."""
SPANS_A_SECOND: Final = 1_000
AGO_SECONDS: Final = 50
"""When the load's sessions began: calls that come over a minute late may be missing in the sessions of now."""
SPANS_A_REQUEST: Final = 10
P50_MS_MAX: Final = 0.3
P99_MS_MAX: Final = 1.0

SECONDS: Final = "offrails_decision_seconds_bucket{"


# --- in process -----------------------------------------------------------------------------------


class Call(NamedTuple):
    """The cost of one way, in CPU microseconds a decision."""

    way: str
    cpu_us: float


FIRST: Final = "first call of a session"
NEXT: Final = "next call"
FLYING: Final = "next call, the one before in flight"


def in_process() -> list[Call]:
    """All ways."""
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        for flying in (False, True):
            for way, cost in _round(flying=flying).items():
                best[way] = min(best.get(way, cost), cost)
    return [Call(*each) for each in best.items()]


def _round(*, flying: bool) -> dict[str, float]:
    """One round: each call of the sessions is decided, then observed; each decision is checked."""
    monitor = Monitor([load_spec(ROVER)], Limits(history_complete=True))
    spent, count = {FIRST: 0.0, FLYING if flying else NEXT: 0.0}, {FIRST: 0, NEXT: 0, FLYING: 0}
    for place in range(max(map(len, RUNS))):
        way = FIRST if place == 0 else FLYING if flying else NEXT
        calls = [
            session_call(number, place, flying=flying)
            for number in range(SESSIONS)
            if place < len(RUNS[number % len(RUNS)])
        ]
        begin = time.process_time()
        decisions = [monitor.decide(call, call.end_ns) for call in calls]
        spent[way] += time.process_time() - begin
        count[way] += len(calls)
        for call, decision in zip(calls, decisions, strict=True):
            number = int(call.session.id)
            harmful = is_harmful(RUNS[number % len(RUNS)][:place], call.tool)
            [one] = decision.specs
            assert (one.kind is Kind.HARMFUL) is harmful, (call, one)
            monitor.observe(call, call.end_ns)
            if flying and place:  # the call before has ended by now
                before = session_call(number, place - 1, flying=True)
                monitor.corrections.amend(
                    before, session_call(number, place - 1, flying=False), call.end_ns
                )
    return {way: took / count[way] * 1e6 for way, took in spent.items()}


def session_call(number: int, place: int, *, flying: bool) -> ToolCall:
    """The call of a session at one place of its run; one that is flying has not ended."""
    start_ns = 1_700_000_000 * SECOND + place * SECOND
    return ToolCall(
        session=SessionKey("", str(number)),
        agent="rover",
        tool=RUNS[number % len(RUNS)][place],
        arguments={},
        error=False,
        start_ns=start_ns,
        end_ns=start_ns if flying else start_ns + SECOND // 2,
        trace_id=number.to_bytes(16),
        span_id=(number * 100 + place + 1).to_bytes(8),
        parent_span_id=b"",
        call_id="",
        evidence=Evidence.DECIDED if flying else Evidence.EXECUTED,
        attributes=ATTRIBUTES,
    )


ATTRIBUTES: Final = {"service.name": "farm-rover"}


# --- over HTTP ------------------------------------------------------------------------------------


class Round(NamedTuple):
    """One round at one rate."""

    asked: Asked
    loaded: Loaded
    p50: float
    p99: float
    """Milliseconds within the service, from the last byte of a question to its answer."""
    cpu_us: float
    """CPU of the service for a decision and the outcome of its call, with the telemetry beside."""


class Row(NamedTuple):
    """One rate."""

    a_second: int
    rounds: list[Round]


def over_http() -> list[Row]:
    """All rates in turn, round by round, of one service."""
    rows = [Row(rate, []) for rate in RATES]
    with service("--decide", "127.0.0.1:0") as server:
        for number in range(ROUNDS):
            for row in rows:
                row.rounds.append(measure_round(server, row.a_second, number))
    return rows


def measure_round(server: Server, rate: int, number: int) -> Round:
    """One round at one of the rates, its work checked."""
    before, begun = server.metrics(), server.cpu_ns()
    seed = rate * 100 + number
    asking = _started("decide_load", server.ports["decide"], rate, RATES[rate], seed)
    sending = _started(
        "load",
        server.ports["http"],
        SPANS_A_SECOND,
        SPANS_A_REQUEST,
        RATES[rate],
        seed,
        AGO_SECONDS,
    )
    asked = Asked(**json.loads(_said(asking)))
    loaded = Loaded(**json.loads(_said(sending)))
    spent, after = server.cpu_ns() - begun, server.metrics()
    sent = Outcome(loaded.calls + asked.decisions, loaded.harmful + asked.harmful)
    found, deadline = of_metrics(after).since(of_metrics(before)), time.monotonic() + 5
    while (
        found != sent and time.monotonic() < deadline
    ):  # doubts that ended are looked at once a second
        time.sleep(0.2)
        found = of_metrics(server.metrics()).since(of_metrics(before))
    assert found == sent, (found, sent)
    old, new = buckets(before, SECONDS), buckets(after, SECONDS)
    assert max(new.values()) - max(old.values()) == asked.decisions
    p50, p99 = (quantile(old, new, share) for share in (0.5, 0.99))
    return Round(asked, loaded, p50, p99, spent / asked.decisions / 1e3)


def _started(module: str, *numbers: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", f"tests.bench.{module}", *map(str, numbers)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def _said(process: subprocess.Popen[str]) -> str:
    told, _ = process.communicate()
    assert process.returncode == 0, told
    return told


# --- what is shown --------------------------------------------------------------------------------


def bounds_of(calls: list[Call], rows: list[Row]) -> list[Bound]:
    """The bounds: of the usual call in process, and at the highest rate."""
    row = max(rows)
    what = f"due to decision, {row.a_second:,} a second, median of {ROUNDS} rounds"
    within = f"within the service, {row.a_second:,} a second, median of {ROUNDS} rounds"
    return [
        Bound(f"Monitor.decide, {NEXT}", dict(calls)[NEXT], CALL_US_MAX, "us"),
        Bound(f"p50 {within}", median(each.p50 for each in row.rounds), P50_MS_MAX, "ms"),
        Bound(f"p99 {within}", median(each.p99 for each in row.rounds), P99_MS_MAX, "ms"),
        Bound(
            f"p50 {what}",
            median(each.asked.decision_p50 for each in row.rounds),
            P50_MS_MAX,
            "ms",
        ),
        Bound(
            f"p99 {what}",
            median(each.asked.decision_p99 for each in row.rounds),
            P99_MS_MAX,
            "ms",
        ),
    ]


def table(calls: list[Call], rows: list[Row]) -> str:
    """Both as Markdown tables."""
    lines = ["| Monitor.decide | CPU us |", "|---|---|"]
    lines += [f"| {each.way} | {each.cpu_us:.1f} |" for each in calls]
    lines += [
        "",
        f"| {AGENTS} agents, beside {SPANS_A_SECOND:,} spans a second | p50 ms | p99 ms |",
        "|---|---|---|",
    ]
    for row in rows:
        name = f"{row.a_second:,} decisions a second"
        asked = [each.asked for each in row.rounds]
        lines += [
            _line(f"{name}: the load's own lateness", asked, "late_p50", "late_p99"),
            _line(f"{name}: due to decision", asked, "decision_p50", "decision_p99"),
            _line(
                f"{name}: due to the answer to an outcome", asked, "outcome_p50", "outcome_p99"
            ),
            _line(f"{name}: within the service", row.rounds, "p50", "p99"),
        ]
    lines += [
        "",
        "| CPU us of the service a decision, with its outcome and the telemetry beside | |",
    ]
    lines.append("|---|---|")
    for row in rows:
        shown = _shown([each.cpu_us for each in row.rounds], 0)
        lines.append(f"| {row.a_second:,} decisions a second | {shown} |")
    return "\n".join(lines)


def _line(name: str, found: list[Asked] | list[Round], *keys: str) -> str:
    cells = (_shown([getattr(each, key) for each in found], 2) for key in keys)
    return f"| {name} | {' | '.join(cells)} |"


def _shown(found: list[float], digits: int) -> str:
    """The median, and the least."""
    return f"{median(found):.{digits}f} ({min(found):.{digits}f})"


if __name__ == "__main__":
    # Their traffic is that of tests: it needs pytest, which is not there where a build is trained.
    from tests.bench import decide_floods

    in_process_rows, http_rows = in_process(), over_http()
    print(table(in_process_rows, http_rows), "", sep="\n")
    waits = decide_floods.floods()
    print(decide_floods.table(waits))
    kept = [*bounds_of(in_process_rows, http_rows), *decide_floods.bounds_of(waits)]
    print(bounds.lines(kept))
