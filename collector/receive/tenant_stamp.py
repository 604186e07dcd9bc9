"""The sender's name on the spans it sent, out of its own reach.

The name of a token becomes the resource attribute `offrails.sender`; whatever a sender wrote there
itself is replaced. As a part of the namespace it keeps tenants' sessions apart.
"""

from __future__ import annotations

from typing import Final

from collector.decode.retained import Retained
from collector.decode.span import Resource, Span

__all__ = ["SENDER_KEY", "TenantStamp"]

SENDER_KEY: Final = "offrails.sender"
STAMPS_MAX: Final = 4_096


class TenantStamp:
    """Writes names on resources, and remembers them: one object for equal resources."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], tuple[Resource, Resource]] = {}

    def stamp(self, spans: list[Span], sender: str) -> list[Span]:
        """Return the spans with the name of their sender; "" takes away what was claimed."""
        return [span.but(resource=self._resource(span.resource, sender)) for span in spans]

    def _resource(self, resource: Resource, sender: str) -> Resource:
        known = self._known.get((id(resource), sender))
        if known is not None and known[0] is resource:
            return known[1]
        if len(self._known) >= STAMPS_MAX:
            self._known.clear()
        stamped = Resource(Retained({**resource.attributes, SENDER_KEY: sender}))
        self._known[id(resource), sender] = resource, stamped
        return stamped
