"""Folders for what hooks keep from one process to the next, which their user alone may open."""

from __future__ import annotations

import os

__all__ = ["is_ours", "own_folder"]


def own_folder(name: str) -> str:
    """The path of one: below `$XDG_RUNTIME_DIR`, or the temporary folder."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        return os.path.join(runtime, name)
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "")
    return os.path.join(os.environ.get("TMPDIR") or "/tmp", f"{name}-{user}")  # noqa: S108 - `is_ours` is asked


def is_ours(folder: str) -> bool:
    """True for a folder of this user that nobody else may open, and that is no link.

    Raises:
        OSError: there is none.
    """
    found = os.lstat(folder)
    return not hasattr(os, "getuid") or (
        found.st_uid == os.getuid()
        and found.st_mode & 0o170000 == 0o040000
        and not found.st_mode & 0o077
    )
