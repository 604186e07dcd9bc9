"""What the kernel says of this process: the metrics that boards expect of every process."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from monitor.exposition.families import Family, Sample

__all__ = ["HELP", "Process"]

HELP: Final[Mapping[str, str]] = {
    "process_virtual_memory_bytes": "Virtual memory size in bytes.",
    "process_resident_memory_bytes": "Resident memory size in bytes.",
    "process_start_time_seconds": "Start time of the process since unix epoch in seconds.",
    "process_cpu_seconds": "Total user and system CPU time spent in seconds.",
    "process_open_fds": "Number of open file descriptors.",
    "process_max_fds": "Maximum number of open file descriptors.",
}
"""By the names that client libraries use."""

_COUNTERS: Final = frozenset({"process_cpu_seconds"})

# Fields of /proc/PID/stat after the command's name, from 0 (proc_pid_stat(5)).
_USER, _SYSTEM, _STARTED, _VIRTUAL, _RESIDENT = 11, 12, 19, 20, 21


class Process:
    """Read at each scrape; nothing where there is no such file system.

    Args:
        proc: where the kernel tells it.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._boot_seconds = _boot_seconds(proc)

    def families(self) -> Iterator[Family]:
        if self._boot_seconds is None:
            return
        for name, value in (self._usage() | self._files()).items():
            kind = "counter" if name in _COUNTERS else "gauge"
            yield Family(name, kind, HELP[name], [Sample("", "", value)])

    def _usage(self) -> dict[str, float]:
        try:
            fields = (self._proc / "self" / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            return {}
        ticks = os.sysconf("SC_CLK_TCK")
        started = float(fields[_STARTED]) / ticks
        return {
            "process_virtual_memory_bytes": float(fields[_VIRTUAL]),
            "process_resident_memory_bytes": float(fields[_RESIDENT])
            * os.sysconf("SC_PAGE_SIZE"),
            "process_start_time_seconds": started + (self._boot_seconds or 0.0),
            "process_cpu_seconds": (float(fields[_USER]) + float(fields[_SYSTEM])) / ticks,
        }

    def _files(self) -> dict[str, float]:
        own = self._proc / "self"
        try:
            limits = (own / "limits").read_text().splitlines()
            most = next(line.split()[3] for line in limits if line.startswith("Max open files"))
            return {
                "process_open_fds": float(sum(1 for _ in (own / "fd").iterdir())),
                "process_max_fds": float(most.replace("unlimited", "inf")),
            }
        except OSError:
            return {}


def _boot_seconds(proc: Path) -> float | None:
    """When the machine began, Unix seconds."""
    try:
        lines = (proc / "stat").read_text().splitlines()
    except OSError:
        return None
    return next((float(line.split()[1]) for line in lines if line.startswith("btime ")), None)
