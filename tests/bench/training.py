"""The training load of a compiled build: the usual paths of spans, repeated often (`hatch_build.py`).

    python -m tests.bench.training

Spans from bytes to verdicts, in one process and over sockets, as protobuf and as JSON, in requests of
all sizes; with keys never seen together; sessions that end, under tasks, policies and a reference; decisions
before calls; and scrapes. As in the benchmarks, whose traffic it is, each part proves its work.

What is not taken here is compiled for size: a usual way that is missing is slower than it need be.
"""

from __future__ import annotations

from collector.app import gc_tuning
from monitor import Limits, Monitor
from monitor.reference.document import reference_text
from monitor.reference.learn import learn
from monitor.reference.runs import SeenRun, seen_call
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.bench import decide, decode, histories, longrun, policies
from tests.bench.outcome import of_monitor
from tests.bench.pipeline import JUDGE, WAYS
from tests.bench.process import TRANSPORTS
from tests.bench.service import COMPILED, service
from tests.bench.traffic import RUNS, generate

SEED = 1_000
"""Other sessions than those that are measured."""
OTHER_SEED = 2_000
"""Others again."""
IN_PROCESS: dict[int, int] = {50: 320, 1: 4_000, 512: 16}
OVER_SOCKETS: dict[int, int] = {1: 1_500, 50: 120, 512: 12}
"""Spans a request -> requests."""
ONE_SDK = 1
"""Instrumentations of the requests that have one resource and one scope."""
DECISIONS_A_SECOND = min(decide.RATES)
SCRAPES = 3
REFERENCE_SESSIONS = 1_000


def main() -> None:
    """Takes them all; an error ends it, and the build."""
    assert COMPILED, "only what is compiled can be trained"
    gc_tuning.settle()
    for size, requests in IN_PROCESS.items():
        WAYS[JUDGE](generate(size, requests, seed=SEED))()
    decode.measure()
    histories.measure()
    longrun.measure()
    policies.main()
    judge_by_a_reference()
    decide.in_process()
    with service("--decide", "127.0.0.1:0") as server:
        for number, (size, requests) in enumerate(OVER_SOCKETS.items(), SEED + 1):
            for transport in TRANSPORTS.values():
                transport(server, generate(size, requests, seed=number))
                transport(
                    server, generate(size, requests, seed=OTHER_SEED + number, speakers=ONE_SDK)
                )
        decide.measure_round(server, DECISIONS_A_SECOND, SEED)
        for _ in range(SCRAPES):
            server.metrics()


def judge_by_a_reference() -> None:
    """Sessions as the reference has learnt them, and others."""
    monitor = Monitor([_reference()], Limits(history_complete=True))
    calls = 0
    for number in range(REFERENCE_SESSIONS):
        for place in range(len(RUNS[number % len(RUNS)])):
            call = decide.session_call(number, place, flying=False)
            monitor.observe(call, call.end_ns)
            calls += 1
    assert of_monitor(monitor).calls == calls


def _reference() -> Spec:
    """Learnt from half of what agents do."""
    runs = [
        SeenRun(str(number), "", tuple(seen_call(tool, {}, failed=False) for tool in tools))
        for number, tools in enumerate(RUNS[::2])
    ]
    text = reference_text(learn(runs), "training", match=decide.ATTRIBUTES)
    spec, findings = compile_text(text, "training.yaml")
    assert spec is not None, findings
    return spec


if __name__ == "__main__":
    main()
