"""The process that writes a snapshot: a copy of the service, of one moment.

Invariant: it takes no lock, since another thread of its parent may have held it, and it ends without clean-up.
"""

from __future__ import annotations

import gc
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from collector.state.segment_writer import DISK_FULL
from monitor.plain_records.blocks import Block
from monitor.plain_records.kinds import UnkeptError

__all__ = ["FAILED", "FULL", "NICE", "REFUSED", "UNKEPT", "begun", "while_child_of"]

NICE: Final = 5
"""Niceness of the process: it gives way to the service and to all else."""
FAILED: Final = 1
UNKEPT: Final = 3
REFUSED: Final = 4
FULL: Final = 5
"""Exit codes of the process."""


def begun(write: Callable[[int], None], nice: int = NICE) -> int:
    """Begins a process that does nothing else, and gives its number.

    Args:
        write: is given the number of the parent.
        nice: by how much it gives way; 0 if somebody waits for it.

    Raises:
        OSError: there can be no other process.
    """
    with warnings.catch_warnings():
        # Python warns of other threads, whose locks the child may find taken: it takes none.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        _write_and_exit(write, nice)
    return child


def while_child_of(parent: int, blocks: Iterator[Block]) -> Iterator[Block]:
    """Ends where the parent has ended: nobody needs it any more."""
    for block in blocks:
        if os.getppid() != parent:
            os._exit(FAILED)
        yield block


def _write_and_exit(write: Callable[[int], None], nice: int) -> None:
    """In the child: writes, and ends at once."""
    code = FAILED
    try:
        parent = os.getppid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        _close_files()
        os.nice(nice)
        gc.disable()  # what is written would be copied for nothing
        write(parent)
        code = 0
    except UnkeptError:
        code = UNKEPT
    except OSError as problem:
        code = FULL if problem.errno in DISK_FULL else REFUSED
    finally:
        os._exit(code)


def _close_files() -> None:
    """Lets go of all that the parent has open: sockets, which would outlive it here, and the lock of the folder."""
    for each in list(Path("/dev/fd").iterdir()):
        with suppress(OSError):
            os.close(int(each.name))
