"""A stand-in for an example agent whose framework is not installed: it sends the recorded spans.

    python stand_in.py examples/agent_pydantic_ai.py RUN SESSION

The spans are those of the recording, under the new session's id, with new trace ids, as of now.
"""

from __future__ import annotations

import gzip
import os
import re
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

RECORDINGS = Path(__file__).parents[2] / "examples" / "recordings"
_TIME = re.compile(r'(?<=UnixNano":")\d+')
_TRACE = re.compile(r'(?<="traceId":")[0-9a-f]{32}')


def _lines(agent: str) -> Iterator[str]:
    for file in sorted((RECORDINGS / agent).glob("*.jsonl.gz")):
        yield from gzip.decompress(file.read_bytes()).decode().splitlines()


def recorded(agent: str, run: str, session: str) -> str:
    """The recorded request of an agent's run."""
    [line] = [each for each in _lines(agent) if f'"{run}-1"' in each]
    by = time.time_ns() - max(map(int, _TIME.findall(line)))
    line = _TIME.sub(lambda found: str(int(found[0]) + by), line)
    for trace in set(_TRACE.findall(line)):
        line = line.replace(trace, uuid4().hex)
    return line.replace(f"{run}-1", session)


def main(script: str, run: str, session: str) -> None:
    """Sends it, and prints the answer of the agent."""
    agent = Path(script).stem.removeprefix("agent_")
    request = urllib.request.Request(
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] + "/v1/traces",
        recorded(agent, run, session).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=20):
        print("You have your money back.")


if __name__ == "__main__":
    main(*sys.argv[1:])
