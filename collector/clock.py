"""The only place where the process reads the time."""

from __future__ import annotations

import time

__all__ = ["now_ns"]


def now_ns() -> int:
    """Unix time in nanoseconds."""
    return time.time_ns()
