"""Learning a reference: `python -m tests.bench.learning` prints its time and memory.

10,000 runs of 50 calls, as plain runs and as spans, every run another sequence: the worst case
for the tree and the medoid. The promise is one minute on one core.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from collector.offline.learn import learn_files
from tests.bench import bounds
from tests.bench.bounds import Bound

RUNS, CALLS, TOOLS = 10_000, 50, 40
PROMISED_SECONDS = 60.0
SEED = 11


def runs() -> Iterator[tuple[str, list[tuple[str, dict[str, int]]]]]:
    """Runs along one usual way, with a tenth of the calls swapped for another."""
    chance = random.Random(SEED)
    usual = [f"{'update' if n % 7 == 0 else 'get'}_{n % TOOLS}" for n in range(CALLS)]
    for number in range(RUNS):
        calls = [
            (
                tool if chance.random() < 0.9 else chance.choice(usual),
                {"id": number, "n": n % 3},
            )
            for n, tool in enumerate(usual)
        ]
        yield f"run-{number}", calls


def write_plain(file: Path) -> None:
    """A run a line."""
    with file.open("w") as stream:
        for session, calls in runs():
            record = {
                "run": session,
                "agent": "bench",
                "reward": len(session) % 2,
                "calls": [{"name": tool, "arguments": given} for tool, given in calls],
            }
            stream.write(json.dumps(record) + "\n")


def write_spans(file: Path) -> None:
    """Writes one request of spans a line, as a recording has them."""
    with file.open("w") as stream:
        for number, (session, calls) in enumerate(runs()):
            spans = [_span(number, session, n, *call) for n, call in enumerate(calls)]
            service = {"key": "service.name", "value": {"stringValue": "bench"}}
            told = [{"resource": {"attributes": [service]}, "scopeSpans": [{"spans": spans}]}]
            stream.write(json.dumps({"resourceSpans": told}) + "\n")


def _span(
    run: int, session: str, n: int, tool: str, given: dict[str, int]
) -> dict[str, object]:
    at = 10**18 + run * 10**9 + n * 10**6
    attributes = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.conversation.id": session,
        "gen_ai.tool.call.arguments": json.dumps(given),
    }
    return {
        "traceId": f"{run + 1:032x}",
        "spanId": f"{n + 1:016x}",
        "name": f"execute_tool {tool}",
        "startTimeUnixNano": str(at),
        "endTimeUnixNano": str(at + 1_000),
        "attributes": [
            {"key": key, "value": {"stringValue": value}} for key, value in attributes.items()
        ],
    }


def main() -> int:
    """Learns from each form and says how long it took; 1 where the promise is broken."""
    broken = 0
    with tempfile.TemporaryDirectory() as folder:
        for form, write in (("plain runs", write_plain), ("spans", write_spans)):
            file = Path(folder) / "runs.jsonl"
            write(file)
            start, busy = time.perf_counter(), time.process_time()
            for _ in learn_files([file], Path(folder) / "r.yaml", id_="bench"):
                pass
            took, busy = time.perf_counter() - start, time.process_time() - busy
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            what = f"learn {RUNS:,} {form} of {CALLS} calls"
            print(f"{what}: {took:.1f} s, peak {peak:,.0f} MiB")
            # On a busy machine waiting for a core is not ours.
            bound = Bound(f"{what}, busy", busy, PROMISED_SECONDS, "s")
            print(bounds.lines([bound]))
            broken |= not bound.is_kept
    return broken


if __name__ == "__main__":
    sys.exit(main())
