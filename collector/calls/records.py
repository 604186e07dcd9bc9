"""Small records of this folder that several of its modules share."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Asker"]


class Asker(NamedTuple):
    """Who asks for calls."""

    namespace: str
    service: str
