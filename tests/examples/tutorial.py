"""Follows docs/tutorial.md in a shell, command by command, as a reader does."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.console import blocks, shows, steps
from tests.end_to_end.loopback import free_port
from tests.end_to_end.service import eventually

__all__ = ["ROOT", "Missing", "Shell", "follow"]

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
PORTS = ("4317", "4318", "4319", "4320", "9464", "9093")
LISTENERS = {
    "GRPC": "4317",
    "HTTP": "4318",
    "METRICS": "9464",
    "ADMIN": "4319",
    "DECIDE": "4320",
}
ANSWER_SECONDS = 30
POLL_SECONDS = 0.1
_INSTALLS = "pip install"
_ASKS = ("curl ", "amtool ")
"""Commands that may be given again until their answer is there."""
_TOOLS = ("alertmanager", "amtool")

Missing = Callable[[str], None]
"""Is told of a command whose program is not installed."""


class Shell:
    """A shell whose answers, and those of what it starts, can be read.

    Args:
        home: where it works.
        variables: its environment.
    """

    def __init__(self, home: Path, variables: Mapping[str, str]) -> None:
        self._errors = home / "stderr"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                ["bash"],
                cwd=home,
                env=dict(variables),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._lines: list[str] = []
        self._new = threading.Condition()
        self._number = 0
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()

    def _follow(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            with self._new:
                self._lines.append(line)
                self._new.notify_all()

    def run(self, command: str, shown: str) -> str:
        """Gives a command, and waits until its answer is what is shown, or time is up.

        Returns:
            The answer.
        """
        until = time.monotonic() + ANSWER_SECONDS
        while True:
            start = len(self._lines)
            self._give(command)
            again = min(until, time.monotonic() + POLL_SECONDS)
            self._wait(start, shown, again if command.startswith(_ASKS) else until)
            answer = self._since(start)
            if shows(shown, answer) or time.monotonic() >= until:
                return answer

    def told(self, text: str) -> bool:
        """True if a command has written a text to standard error by now."""
        return text in self._errors.read_text(errors="replace")

    def _give(self, command: str) -> None:
        """Gives a command and waits for its end, or for its start where it stays in the background."""
        self._number += 1
        mark = f"__done_{self._number}__"
        assert self._process.stdin
        # An answer may end without a line break.
        self._process.stdin.write(f"{command}\nprintf '\\n{mark}\\n'\n")
        self._process.stdin.flush()
        with self._new:
            told = self._new.wait_for(lambda: f"{mark}\n" in self._lines, ANSWER_SECONDS)
        assert told, f"{command} does not end"

    def _wait(self, start: int, shown: str, until: float) -> None:
        """Waits until the lines from `start` on are what is shown, or time is up."""
        with self._new:
            self._new.wait_for(
                lambda: shows(shown, self._since(start)), max(0.0, until - time.monotonic())
            )

    def _since(self, start: int) -> str:
        lines = self._lines[start:]
        return "".join(line for line in lines if not line.startswith("__done_"))

    def close(self) -> None:
        """Ends the shell and what it has started."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write("kill $(jobs -p)\nwait\nexit\n")
        self._process.stdin.close()
        self._process.wait(ANSWER_SECONDS)
        self._reader.join(ANSWER_SECONDS)
        self._process.stdout.close()


def follow(home: Path, agent: str, python: Path, missing: Missing) -> int:
    """Runs the whole page.

    Args:
        home: an empty folder that stands for the clone.
        agent: the framework that is chosen.
        python: what is run as the agents' `.agent/bin/python`.
        missing: is told of what is not installed.

    Returns:
        How many commands were given.
    """
    ports = {port: str(free_port()) for port in PORTS}
    _clone(home, python)
    shell = Shell(home, _environment(home, ports))
    given = 0
    try:
        for block in blocks(TUTORIAL):
            if block.name:
                (home / block.name).write_text(block.text)
            elif block.kind == "console":
                given += _console(shell, _moved(block.text, ports), agent, missing)
    finally:
        shell.close()
    return given


def _console(shell: Shell, text: str, agent: str, missing: Missing) -> int:
    given = 0
    for command, shown in steps(text):
        if _INSTALLS in command:
            continue  # both environments are there
        if command.startswith(_TOOLS) and not _installed(command.split()[0]):
            missing(command)
            continue
        asked = command.replace("AGENT=pydantic_ai", f"AGENT={agent}")
        answer = shell.run(asked, shown)
        assert shows(shown, answer), (command, answer)
        if command.startswith("offrails tail"):
            eventually(lambda: shell.told("waiting for the first verdict"))
        given += 1
    return given


def _installed(program: str) -> str | None:
    return shutil.which(program) or shutil.which(f"prometheus-{program}")


def _clone(home: Path, python: Path) -> None:
    """The parts of the repository that the tutorial uses, and the two environments."""
    for folder in ("examples", "deploy"):
        (home / folder).symlink_to(ROOT / folder)
    programs = {home / ".venv/bin/offrails": f"{sys.executable} -m collector"}
    programs[home / ".agent/bin/python"] = str(python)
    for tool in _TOOLS:
        if found := _installed(tool):
            programs[home / ".venv/bin" / tool] = found
    for place, program in programs.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        place.chmod(0o755)


def _moved(text: str, ports: Mapping[str, str]) -> str:
    """The text with free ports in place of the usual ones."""
    return re.sub(r"127\.0\.0\.1:(\d+)", lambda each: f"127.0.0.1:{ports[each[1]]}", text)


def _environment(home: Path, ports: Mapping[str, str]) -> dict[str, str]:
    """Ours without settings, and with the ports on which everything is here."""
    ours = {k: v for k, v in os.environ.items() if not k.startswith(("OFFRAILS_", "OTEL_"))}
    places = {f"OFFRAILS_{name}": f"127.0.0.1:{ports[of]}" for name, of in LISTENERS.items()}
    path = [str(ROOT), *ours.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        **ours,
        **places,
        "HOME": str(home),
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{ports['4318']}",
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "no_proxy": "127.0.0.1",
    }
