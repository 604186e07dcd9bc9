"""Small records of this folder that several of its modules share."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Requester"]


class Requester(NamedTuple):
    """Who asks for calls."""

    namespace: str
    service: str
