"""How long a killed service takes to come back: until senders are answered, and until all is known again.

    python -m tests.bench restart            # 20,000 live sessions
    python -m tests.bench.restart 100000     # so many

Once from its journal alone, and once from a snapshot.

Each session is one trace of eleven spans, five of them calls (`tests.bench.live_sessions`). The service is killed, and the
next one must know all sessions, calls and harmful verdicts.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import tempfile
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from collector.restart.snapshot_schedule import SHARE
from tests.bench import bounds
from tests.bench.bounds import Bound
from tests.bench.live_sessions import bodies
from tests.bench.outcome import Outcome, of_metrics
from tests.bench.sender import Sender, prepared
from tests.bench.service import COMPILED, Server, service

SESSIONS: Final = 20_000
SECONDS_MAX: Final = 5.0
"""From the start of the process until senders are answered, and with a snapshot until all is judged."""
EVERY_SECONDS: Final = 10
"""Between two snapshots."""

SETTINGS: Final = """\
sessions: {{max: {sessions}, max_bytes: {bytes}, idle_seconds: 86400}}
state: {{dir: {folder}, bytes_max: 20000000000, snapshot_seconds: {every}}}
"""
_SESSION_BYTES: Final = 4_096


class Restart(NamedTuple):
    """One restart, in seconds from the start of the process."""

    sessions: int
    requests: int
    again: int
    """Of these, those that were judged again."""
    megabytes: float
    snapshot_megabytes: float
    """0 without a snapshot."""
    open_seconds: float
    judged_seconds: float


def measure(sessions: int, *, snapshot: bool) -> Restart:
    """Sends, kills, and starts again."""
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=Path.cwd()) as found:
        folder = Path(found)
        config = folder / "settings.yaml"
        config.write_text(
            SETTINGS.format(
                sessions=sessions,
                bytes=sessions * _SESSION_BYTES,
                folder=folder / "state",
                every=EVERY_SECONDS if snapshot else 0,
            )
        )
        with service("--config", str(config)) as server:
            requests, true = _fill(server, sessions)
            if snapshot:
                _await_snapshot(server)
            os.kill(server.pid, signal.SIGKILL)
        size = _bytes(folder / "state", "journal-*")
        snapshot_size = _bytes(folder / "state", "snapshot-*")
        with (folder / "log").open("w+") as log:
            begun = time.time_ns() / 1e9
            with service("--config", str(config), log=log.fileno()) as server:
                assert of_metrics(server.metrics()) == true
            opened, told = _event(log, "receiving"), _event(log, "state_recovered")
        assert told["snapshot"] == snapshot, told
        assert told["sessions"] == sessions, told
        assert snapshot or told["requests"] == requests, told
        assert told["failed"] == told["flaws"] == 0, told
        return Restart(
            sessions,
            requests,
            told["requests"],
            size / 1e6,
            snapshot_size / 1e6,
            _at(opened) - begun,
            _at(told) - begun,
        )


def _bytes(folder: Path, pattern: str) -> int:
    return sum(file.stat().st_size for file in folder.glob(pattern))


def _await_snapshot(server: Server) -> None:
    """Waits for a snapshot that was begun after now, or until none is due any more: the rest is little."""
    now = time.time_ns() / 1e9
    patience: float = 2 * EVERY_SECONDS
    while time.time_ns() / 1e9 < now + patience:
        time.sleep(0.5)
        told = dict(
            re.findall(r"^offrails_snapshot_(\w+) (\S+)", server.metrics(), re.MULTILINE)
        )
        if float(told["timestamp_seconds"]) > now:
            return
        patience = 2 * EVERY_SECONDS + 2 * SHARE * float(told["seconds"])


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
    sessions = int(sys.argv[1]) if len(sys.argv) > 1 else SESSIONS
    print("compiled" if COMPILED else "plain")
    kept: list[Bound] = []
    for snapshot in (False, True):
        found = measure(sessions, snapshot=snapshot)
        way = f"snapshot of {found.snapshot_megabytes:,.0f} MB" if snapshot else "journal alone"
        print(
            f"{way}: {sessions:,} sessions, {found.again:,} of {found.requests:,} requests again, {found.megabytes:,.0f} MB:"
            f" senders are answered after {found.open_seconds:.2f} s, all is judged after {found.judged_seconds:.1f} s"
        )
        what = f"seconds to the first answer, {sessions:,} live sessions, {way}"
        kept.append(Bound(what, found.open_seconds, SECONDS_MAX, "s"))
    kept.append(
        Bound(
            f"{sessions:,} live sessions, all is judged", found.judged_seconds, SECONDS_MAX, "s"
        )
    )
    print(bounds.lines(kept))


if __name__ == "__main__":
    main()
