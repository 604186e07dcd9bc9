"""What is known of a session before its first call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.records import AgentName
from monitor.session.data.seen_values import UserText
from monitor.session.data.session_data import earliest
from monitor.session.session import ATTRIBUTES_MAX

__all__ = ["Mention"]


class Mention:
    """What spans that are no call say of a session without calls."""

    __slots__ = ("attributes", "named", "now", "start_ns", "texts")

    def __init__(
        self,
        now: int,
        start_ns: int,
        named: AgentName | None,
        attributes: tuple[Mapping[str, Any], ...],
        texts: tuple[UserText, ...] = (),
    ) -> None:
        self.now = now
        self.start_ns = start_ns
        """When the earliest of them began."""
        self.named = named
        self.attributes = attributes
        self.texts = texts
        """Messages of the user."""

    def and_(self, other: Mention) -> Mention:
        """Both together."""
        named = self.named
        if named is None or (other.named is not None and other.named.counts_before(named)):
            named = other.named
        known = {id(each): each for each in (*self.attributes, *other.attributes)}
        return Mention(
            max(self.now, other.now),
            min(self.start_ns, other.start_ns),
            named,
            tuple(known.values())[:ATTRIBUTES_MAX],
            earliest((*self.texts, *other.texts)),
        )
