"""Runbooks: what an alert means and what to do, from the monitor itself, so that the link of an alert leads somewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Final

__all__ = ["PATH", "runbook"]

PATH: Final = b"/runbooks/"

_INSTALLED: Final = Path(__file__).parent / "runbooks"
_FOLDER: Final = (
    _INSTALLED if _INSTALLED.is_dir() else Path(__file__).parents[3] / "docs" / "runbooks"
)
"""A wheel has a copy of the pages; a checkout has the pages themselves."""


def runbook(name: str) -> bytes | None:
    """The page of an alert as text (Markdown), or None if there is none.

    Args:
        name: of the alert, such as `AgentMonitorDown`; it may end in `.md`.
    """
    name = name.removesuffix(".md")
    if not (name.isascii() and name.isalnum()):
        return None
    file = _FOLDER / f"{name}.md"
    return file.read_bytes() if file.is_file() else None
