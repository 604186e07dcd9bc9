"""Stamps spans with the token name of their sender.

The name becomes the resource attribute `offrails.sender` and replaces what the sender wrote there, so no
sender can claim another's name. It is part of the namespace, which keeps tenants' sessions apart.
"""

from __future__ import annotations

from typing import Final

from collector.decode.retained import RetainedAttributes
from collector.decode.span import Resource, Span

__all__ = ["SENDER_KEY", "TenantStamp"]

SENDER_KEY: Final = "offrails.sender"
STAMPS_MAX: Final = 4_096


class TenantStamp:
    """Adds the sender's name to resources. Results are cached, so that equal resources stay one object."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], tuple[Resource, Resource]] = {}

    def stamp(self, spans: list[Span], sender: str) -> list[Span]:
        """The spans with the name of their sender; "" replaces a claimed name by an empty one."""
        return [span.but(resource=self._resource(span.resource, sender)) for span in spans]

    def _resource(self, resource: Resource, sender: str) -> Resource:
        known = self._known.get((id(resource), sender))
        if known is not None and known[0] is resource:
            return known[1]
        if len(self._known) >= STAMPS_MAX:
            self._known.clear()
        stamped = Resource(RetainedAttributes({**resource.attributes, SENDER_KEY: sender}))
        self._known[id(resource), sender] = resource, stamped
        return stamped
