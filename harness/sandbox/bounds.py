"""What a sandboxed process sees, and how much it may take."""

from __future__ import annotations

from typing import Final

__all__ = ["ANSWER_MAX", "LIMITS", "VISIBLE"]

VISIBLE: Final = (
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/etc/ld.so.cache",
    "/dev/null",
    "/dev/urandom",
    "/dev/zero",
)
"""Paths that are seen, read-only, beside Python's own, the bench and the world's folder."""

LIMITS: Final = {
    "AS": 2 * 1024**3,
    "CORE": 0,
    "FSIZE": 1024**2,
    "NOFILE": 64,
    "CPU": 3600,
}
"""Limits of the process: bytes of memory, of a core file, of a file; open files; seconds of processor time."""

ANSWER_MAX: Final = 4 * 1024**2
"""Bytes of one answer of a tool with the state afterwards; more is a flood."""
