"""How long a killed service takes to come back: until senders are answered, and until all is judged again.

    python -m tests.bench restart            # 20,000 live sessions
    python -m tests.bench.restart 100000     # so many

Each session is one trace of eleven spans, five of them calls (`tests.bench.live_sessions`). The service is killed, and the
next one must know all sessions, calls and harmful verdicts.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from tests.bench import bounds
from tests.bench.bounds import Bound
from tests.bench.live_sessions import bodies
from tests.bench.outcome import Outcome, of_metrics
from tests.bench.sender import Sender, prepared
from tests.bench.service import COMPILED, Server, service

SESSIONS: Final = 20_000
OPEN_SECONDS_MAX: Final = 5.0
"""From the start of the process until senders are answered."""

SETTINGS: Final = """\
sessions: {{max: {sessions}, max_bytes: {bytes}, idle_seconds: 86400}}
state: {{dir: {folder}, bytes_max: 20000000000}}
"""
_SESSION_BYTES: Final = 4_096


class Restart(NamedTuple):
    """One restart, in seconds from the start of the process."""

    sessions: int
    requests: int
    megabytes: float
    open_seconds: float
    judged_seconds: float


def measure(sessions: int) -> Restart:
    """Sends, kills, and starts again."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as found:
        folder = Path(found)
        config = folder / "settings.yaml"
        config.write_text(
            SETTINGS.format(
                sessions=sessions, bytes=sessions * _SESSION_BYTES, folder=folder / "state"
            )
        )
        with service("--config", str(config)) as server:
            requests, true = _fill(server, sessions)
            os.kill(server.pid, signal.SIGKILL)
        size = sum(file.stat().st_size for file in (folder / "state").glob("journal-*"))
        with (folder / "log").open("w+") as log:
            begun = time.time_ns() / 1e9
            with service("--config", str(config), log=log.fileno()) as server:
                assert of_metrics(server.metrics()) == true
            opened, told = _event(log, "receiving"), _event(log, "state_recovered")
        assert (told["requests"], told["sessions"]) == (requests, sessions), told
        assert told["failed"] == told["flaws"] == 0, told
        return Restart(sessions, requests, size / 1e6, _at(opened) - begun, _at(told) - begun)


def _fill(server: Server, sessions: int) -> tuple[int, Outcome]:
    """Sends all sessions; the number of requests, and what came of them."""
    requests = calls = harmful = 0
    with closing(Sender(server.ports["http"])) as sender:
        for body, begun, harm in bodies(sessions, time.time_ns()):
            sender.post(prepared(body))
            requests, calls, harmful = requests + 1, calls + begun, harmful + harm
    found = of_metrics(server.metrics())
    assert found == Outcome(calls, harmful), (found, calls, harmful)
    return requests, found


def _event(log: IO[str], name: str) -> dict[str, Any]:
    log.seek(0)
    lines = (json.loads(line) for line in log)
    return next(line for line in lines if line["event"] == name)


def _at(line: dict[str, Any]) -> float:
    return datetime.fromisoformat(line["timestamp"]).timestamp()


def main() -> None:
    """Prints it, and fails where the work was not done."""
    found = measure(int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS)
    print("compiled" if COMPILED else "plain")
    print(
        f"{found.sessions:,} sessions, {found.requests:,} requests, {found.megabytes:,.0f} MB: senders are answered"
        f" after {found.open_seconds:.2f} s, all is judged after {found.judged_seconds:.1f} s"
    )
    what = f"seconds to the first answer, {found.sessions:,} live sessions"
    print(bounds.lines([Bound(what, found.open_seconds, OPEN_SECONDS_MAX, "s")]))


if __name__ == "__main__":
    main()
