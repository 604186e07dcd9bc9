"""What ends a verb of the command line."""

from __future__ import annotations

from typing import ClassVar

__all__ = ["VerbError"]


class VerbError(Exception):
    """A verb cannot do what it was asked. The command line prints the message, which says why."""

    code: ClassVar[int] = 1
    """Exit code of the process."""
