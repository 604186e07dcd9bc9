"""Resources of clients of decisions: what their questions say of the client, as one object while it is remembered.

Idea: sessions, namespaces and specs are looked up by a resource, as by the resources of spans. Questions of one client
mostly carry the same attributes. Of these only those are kept that a namespace, a session id or a spec may depend on: a
client may send any others, and they must not take memory.

Bounds: `BYTES_MAX` in all, and `REMEMBER_NS` after the last question. Beyond the bytes, the client gives way that holds
more than its share, with the resource that it has not used for longest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from collector.decode.retained import RetainedAttributes
from collector.decode.span import Resource
from collector.receive.tenant_stamp import SENDER_KEY
from monitor.tenants import SharedBytes
from monitor.weights import arguments_bytes

__all__ = ["BYTES_MAX", "ClientResources"]

BYTES_MAX: Final = 4 << 20
"""Approximate bytes of all resources."""

RESOURCE_BYTES: Final = 1_024
"""Approximate bytes of one without its attributes."""

REMEMBER_NS: Final = 600 * 1_000_000_000
"""Time for which an unused one is remembered."""

_Key = tuple[Any, ...]


class _Known:
    """A resource that is remembered."""

    __slots__ = ("resource", "used_ns")

    def __init__(self, resource: Resource, used_ns: int) -> None:
        self.resource = resource
        self.used_ns = used_ns


class ClientResources:
    """Resources by their attributes.

    Args:
        wanted: the keys of the attributes that matter now.
        bytes_max: what they may take.
    """

    def __init__(
        self, wanted: Callable[[], frozenset[str]], bytes_max: int = BYTES_MAX
    ) -> None:
        self._wanted = wanted
        self._known: SharedBytes[_Key, _Known] = SharedBytes(bytes_max)
        """The one that was used last stands last."""

    def __len__(self) -> int:
        return len(self._known)

    @property
    def held_bytes(self) -> int:
        """What they take, about."""
        return self._known.total

    def of(self, attributes: Mapping[str, Any], sender: str | None, now: int) -> Resource:
        """The resource of a client, with the name of its token: nobody can claim another's."""
        wanted = self._wanted()
        kept = {name: attributes[name] for name in attributes if name in wanted}
        key = (sender, *sorted((name, type(value), value) for name, value in kept.items()))
        known = self._known.get(key)
        if known is not None:
            known.used_ns = now
            self._known.use(key)
            return known.resource
        kept.pop(SENDER_KEY, None)
        if sender is not None:
            kept[SENDER_KEY] = sender
        known = _Known(Resource(RetainedAttributes(kept)), now)
        self._known.put(key, known, sender or "", RESOURCE_BYTES + 2 * arguments_bytes(kept))
        return known.resource

    def forget(self, now: int) -> None:
        """Forgets those that were not used for long."""
        while (first := self._known.first()) is not None:
            key, known = first
            if known.used_ns + REMEMBER_NS > now:
                break
            self._known.pop(key)

    def clear(self) -> None:
        """Forgets all."""
        while (first := self._known.first()) is not None:
            self._known.pop(first[0])
