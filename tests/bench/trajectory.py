"""A whole trajectory judged anew, beside checkers that do nothing else.

    python -m tests.bench.trajectory

Microseconds for one session of 6 and of 50 calls: opened, each call judged, the verdicts checked.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

from monitor import Limits, Monitor, SessionKey, ToolCall
from monitor.records import Evidence, Kind
from monitor.spec.compiler.compile import compile_text
from monitor.spec.spec import Spec
from tests.bench import bounds
from tests.bench.bounds import Bound
from tests.bench.service import OURS, PEERS
from tests.bench.traffic import SECOND

LENGTHS = (6, 50)
STRICT = "agentevals strict"
SHARE_MAX = 1 / 15
"""Of the time that this checker takes."""
SECONDS = 1.0
START = 1_700_000_000 * SECOND
ATTRIBUTES = {"service.name": "bench"}


def _spec(length: int) -> Spec:
    """A task of one golden path."""
    names = [f"tool_{number}" for number in range(length)]
    alphabet = "\n".join(f"  {name}: {{tool: {name}}}" for name in names)
    text = (
        f"id: chain\nkind: task\nmatch: {{service.name: bench}}\nalphabet:\n{alphabet}\n"
        f"golden: [[{', '.join(names)}]]\n"
    )
    found, findings = compile_text(text, "chain.yaml")
    assert found is not None, findings
    return found


def _calls(length: int, key: SessionKey) -> list[ToolCall]:
    return [
        ToolCall(
            session=key,
            agent="bench",
            tool=f"tool_{number}",
            arguments={"x": number, "y": 4},
            error=False,
            start_ns=START + number * SECOND,
            end_ns=START + number * SECOND + 1,
            trace_id=b"t" * 16,
            span_id=(number + 1).to_bytes(8, "big"),
            parent_span_id=b"p" * 8,
            call_id=f"call_{number}",
            evidence=Evidence.EXECUTED,
            attributes=ATTRIBUTES,
        )
        for number in range(length)
    ]


def ours(length: int) -> float:
    """Microseconds for one trajectory, the least over a second of them."""
    spec, least, number = _spec(length), float("inf"), 0
    monitor = Monitor([spec], Limits(history_complete=True))
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        number += 1
        calls = _calls(length, SessionKey("", f"s{number}"))
        begin = time.perf_counter()
        for call in calls:
            monitor.observe(call, START + 100 * SECOND, quiet=True)
        least = min(least, time.perf_counter() - begin)
    (pair,) = monitor.totals.pairs.values()
    assert pair.calls[Kind.PROGRESS] == number * length
    assert not pair.calls[Kind.HARMFUL]
    return least * 1e6


def theirs() -> dict[str, dict[str, float | None]]:
    """The same of the checkers that are installed."""
    python = PEERS / "bin" / "python"
    if not python.exists():
        return {}
    script = Path(__file__).parent / "peers" / "checkers.py"
    command = [str(python), str(script), *map(str, LENGTHS)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True
    )
    found: dict[str, dict[str, float | None]] = json.loads(done.stdout)
    return found


def measure() -> dict[str, dict[str, float | None]]:
    """Checker -> length -> microseconds; None where it refuses so long a run."""
    return {OURS: {str(length): ours(length) for length in LENGTHS}, **theirs()}


def bounds_of(found: dict[str, dict[str, float | None]]) -> list[Bound]:
    """The bounds, if the checker is installed."""
    kept = []
    for length, theirs in found.get(STRICT, {}).items():
        cost = found[OURS][length]
        if cost is not None and theirs is not None:
            what = f"a trajectory of {length} calls, against {STRICT}"
            kept.append(Bound(what, cost / theirs, SHARE_MAX, "x"))
    return kept


def table(found: dict[str, dict[str, float | None]]) -> str:
    """The costs as a Markdown table."""
    lines = [
        f"| us a trajectory | {' | '.join(f'{n} calls' for n in LENGTHS)} |",
        "|---|---|---|",
    ]
    for name, costs in found.items():
        cells = ("refuses" if cost is None else f"{cost:.0f}" for cost in costs.values())
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    measured = measure()
    print(table(measured))
    print(bounds.lines(bounds_of(measured)))
