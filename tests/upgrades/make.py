"""Makes a folder of the journal by a version of the program: `python -m tests.upgrades.make NAME [CHECKOUT]`.

Each release makes one of its own, with its name, before it is published; a folder of an earlier commit is made from a
checkout of it (`git worktree add CHECKOUT COMMIT`). The service of that checkout takes a few sessions, is stopped, and
what it said of them is kept beside its folder: every later version must say the same.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

from tests.end_to_end.loopback import free_port

__all__ = ["FIELDS", "FOLDERS", "SPEC", "main", "request_of"]

FOLDERS: Final = Path(__file__).parent / "folders"
SPEC: Final = """\
id: shop
version: "1"
match: {service.name: shop}
alphabet:
  look_up: {tool: look_up}
  check: {tool: check}
  pay: {tool: pay}
golden:
  - [look_up, check, pay]
reads: [look_up]
"""
SESSIONS: Final = {
    "right": ("look_up", "check", "pay"),
    "wrong": ("look_up", "pay", "check"),
    "goes-on": ("look_up", "check"),
}
FIELDS: Final = ("calls", "substantive", "harmful", "harm_rate", "accepting")
"""What is compared of a session; numbers of each version's own are left out."""
SECOND: Final = 1_000_000_000


def request_of(session: str, tools: tuple[str, ...], begun_ns: int) -> bytes:
    """An OTLP/JSON request with the calls of a session, ten milliseconds apart."""
    number = sum(session.encode())
    spans = [
        {
            "traceId": f"{number:032x}",
            "spanId": f"{number * 100 + place + 1:016x}",
            "name": f"execute_tool {tool}",
            "kind": 1,
            "startTimeUnixNano": str(begun_ns + place * 10_000_000),
            "endTimeUnixNano": str(begun_ns + place * 10_000_000 + 5_000_000),
            "attributes": [
                {"key": key, "value": {"stringValue": value}}
                for key, value in (
                    ("gen_ai.operation.name", "execute_tool"),
                    ("gen_ai.tool.name", tool),
                    ("gen_ai.tool.call.arguments", '{"order": 7}'),
                    ("gen_ai.conversation.id", session),
                )
            ],
        }
        for place, tool in enumerate(tools)
    ]
    service = {"key": "service.name", "value": {"stringValue": "shop"}}
    return json.dumps(
        {
            "resourceSpans": [
                {"resource": {"attributes": [service]}, "scopeSpans": [{"spans": spans}]}
            ]
        }
    ).encode()


class _Old:
    """The service of a checkout, on free ports."""

    def __init__(self, checkout: Path, scratch: Path) -> None:
        self.ports = {name: free_port() for name in ("HTTP", "METRICS", "ADMIN")}
        places = {f"OFFRAILS_{name}": f"127.0.0.1:{port}" for name, port in self.ports.items()}
        given = {
            "OFFRAILS_GRPC": "off",
            "OFFRAILS_DECIDE": "off",
            "OFFRAILS_HISTORY": "complete",
        }
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "collector",
                "serve",
                "--specs",
                "specs",
                "--state",
                "state",
            ],
            cwd=scratch,
            env={**os.environ, **places, **given, "PYTHONPATH": str(checkout)},
        )
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            try:
                self.get("METRICS", "/-/ready")
            except OSError:
                time.sleep(0.1)
            else:
                return
        raise SystemExit("the service was not ready in 30 s")

    def get(self, port: str, path: str, body: bytes | None = None) -> bytes:
        place = f"http://127.0.0.1:{self.ports[port]}{path}"
        asked = Request(place, body, {"content-type": "application/json"})
        with urlopen(asked, timeout=10) as answer:
            found: bytes = answer.read()
        return found

    def judged(self) -> dict[str, dict[str, Any]]:
        """The sessions as the API has them."""
        sessions = json.loads(self.get("ADMIN", "/api/v1/sessions"))["sessions"]
        return {each["session"]: {name: each[name] for name in FIELDS} for each in sessions}

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


def main(name: str, checkout: Path) -> None:
    """Makes the folder of that name.

    Args:
        name: of a release, or the hash of a commit.
        checkout: of its code.
    """
    with tempfile.TemporaryDirectory() as made:
        scratch = Path(made)
        (scratch / "specs").mkdir()
        (scratch / "specs" / "shop.yaml").write_text(SPEC)
        service = _Old(checkout.resolve(), scratch)
        try:
            for session, tools in SESSIONS.items():
                sent = request_of(session, tools, time.time_ns() - SECOND)
                service.get("HTTP", "/v1/traces", sent)
            time.sleep(2)  # counters follow the requests
            judged = service.judged()
        finally:
            service.stop()
        _keep(
            FOLDERS / name,
            scratch / "state",
            {"stopped_ns": time.time_ns(), "sessions": judged},
        )


def _keep(target: Path, state: Path, about: dict[str, Any]) -> None:
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    (target / "about.json").write_text(json.dumps(about, indent=1, sort_keys=True) + "\n")
    for file in sorted(state.iterdir()):
        if file.name.startswith(("journal-", "snapshot-")):
            shutil.copyfile(file, target / file.name)


def _name(text: str) -> str:
    """The name of a folder, as the command line has it."""
    if not re.fullmatch(r"[0-9a-f]{7}|\d+\.\d+\.\d+", text):
        raise argparse.ArgumentTypeError(
            f"expected a release or seven hex digits, not {text!r}"
        )
    return text


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(
        description="Makes a folder of the journal by a version."
    )
    arguments.add_argument("name", type=_name, help="of a release (0.2.0), or of a commit")
    arguments.add_argument("checkout", type=Path, nargs="?", default=".", help="of its code")
    given = arguments.parse_args()
    main(given.name, given.checkout)
