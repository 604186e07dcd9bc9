"""Small records of this folder that several of its modules share."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Requester"]


class Requester(NamedTuple):
    """The service whose models ask for calls: whether its tools leave spans is learnt for each."""

    namespace: str
    service: str
