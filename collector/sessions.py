"""Whose call is it: the ladder of session ids, ids that come late, and several in one trace.

A trace is a turn of a conversation. Its calls are filed under the conversation's id as soon as any
span of the trace tells it, and until then under the trace's own. Where the spans of one trace tell
of two conversations, a call belongs to its nearest ancestor that tells one, else to the nearest
one below which one is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from collector.decode.span import Resource, Span
from collector.dialects.choose import Plan
from collector.traces import Told, Trace, Tree
from monitor.records import SessionKey

__all__ = ["ID_MAX", "NAMESPACE_KEYS", "RESOURCE_RUNG", "Owner", "Sessions"]

NAMESPACE_KEYS = ("service.namespace", "deployment.environment.name")

ID_MAX = 1_024
"""Longer ids are cut."""

RESOURCE_RUNG = 1_000_000
"""Below every rung of the ladder: an id of the whole process says least."""

_RESOURCES_MAX = 4_096


class Owner(NamedTuple):
    """What a resource says of whose its spans are."""

    resource: Resource
    namespace: str
    session: tuple[str, str] | None
    """(attribute, id), where the resource itself carries a session's id."""


class Sessions:
    """Reads and resolves session ids.

    Args:
        session_keys: the ladder, best first; resource attributes are looked at last.
        namespace_keys: resource attributes that keep tenants apart.
    """

    def __init__(
        self, session_keys: Sequence[str], namespace_keys: Sequence[str] = NAMESPACE_KEYS
    ) -> None:
        self._session_keys = tuple(session_keys)
        self._namespace_keys = tuple(namespace_keys)
        self._owners: dict[int, Owner] = {}

    def owner(self, resource: Resource) -> Owner:
        """What the resource says, worked out once for each."""
        found = self._owners.get(id(resource))
        if found is None or found.resource is not resource:
            if len(self._owners) >= _RESOURCES_MAX:
                self._owners.clear()
            found = self._owners[id(resource)] = self._owner(resource)
        return found

    def _owner(self, resource: Resource) -> Owner:
        parts = (resource.attributes.get(key) for key in self._namespace_keys)
        namespace = "/".join(str(part)[:ID_MAX] for part in parts if part)
        ids = ((key, id_of(resource.attributes.get(key))) for key in self._session_keys)
        session = next(((key, found) for key, found in ids if found), None)
        return Owner(resource, namespace, session)

    def told(self, span: Span, plan: Plan, owner: Owner) -> Told | None:
        """The session the span names, by its own id or by its resource's."""
        for index, name, rung in plan.session:
            found = id_of(span.attribute(index))
            if found:
                key = SessionKey(owner.namespace, found)
                return Told(rung, span.start_ns, span.span_id, key, name)
        if owner.session is None:
            return None
        name, found = owner.session
        key = SessionKey(owner.namespace, found)
        return Told(RESOURCE_RUNG, span.start_ns, span.span_id, key, name)

    def learn(self, trace: Trace, tree: Tree, told: Told) -> SessionKey | None:
        """A span told a session: notes it in its trace.

        Returns:
            The key the trace's calls were filed under before, where they move all together.
        """
        own = told.rung != RESOURCE_RUNG
        if own:
            tree.told[told.span_id] = told
        if trace.first is None:
            trace.first = told
            before, trace.key, trace.session_from = trace.key, told.key, told.name
            return before if before != told.key else None
        if told.key != trace.first.key and not trace.split:
            self._split(trace, tree)
        elif trace.split and own:
            tree.hint(told, told.span_id)
        if told < trace.first:
            trace.first = told
        if trace.split:
            trace.key, trace.session_from = trace.first.key, trace.first.name
        return None

    def _split(self, trace: Trace, tree: Tree) -> None:
        """A second session in one trace: from now on each call looks for its own."""
        trace.split = True
        for told in tree.told.values():
            tree.hint(told, told.span_id)
        tree.loose.update((id(call), call) for call in tree.calls.values())

    def resolve(self, trace: Trace, tree: Tree, span_id: bytes) -> tuple[Told | None, bool]:
        """The session of a span without an id of its own, in a trace of several.

        Returns:
            What tells it (None: the trace itself), and whether that is certain to stay.
        """
        weak: Told | None = None
        for above in tree.ancestors(span_id):
            told = tree.told.get(above)
            if told is not None:
                return told, True
            if weak is None:
                weak = tree.hints.get(above)
        return weak or trace.first, False


def id_of(value: Any) -> str:
    """A session's id as text; "" where the value is none."""
    if value is None or isinstance(value, dict | list | bytes | bool):
        return ""
    return str(value)[:ID_MAX]
