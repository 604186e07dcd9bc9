"""Processes that end with the demo, however the demo ends.

    python -m tests.demo.tied MODULE ARGUMENT...

runs a module as `python -m MODULE ARGUMENT...` does, and ends it when standard input ends. Standard input
is a pipe that the demo alone holds open: the system closes it when the demo is gone, by SIGKILL too.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading
import time
from types import FrameType

__all__ = ["command", "end_by_signals", "orphaned"]

GRACE_SECONDS = 5.0
"""How long a module may take to end before it is ended without asking."""

_PARENT = os.getppid()


def command(*words: str) -> list[str]:
    """The command line of a module that is tied to this process; its `stdin` must be a pipe."""
    return [sys.executable, "-m", "tests.demo.tied", *words]


def end_by_signals() -> None:
    """SIGTERM and SIGHUP (a terminal that is closed) end this process as Ctrl-C does: cleaned up."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, _end)


def orphaned() -> bool:
    """True if the process that started this one, such as make, has ended."""
    return os.getppid() != _PARENT


def _end(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _end_with_input() -> None:
    descriptor = sys.stdin.fileno()
    while os.read(descriptor, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    threading.Thread(target=_end_with_input, daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
