"""Whose call is it: the ladder of session ids, ids that come late, and several in one trace.

A trace is a turn of a conversation. Its calls are filed under the conversation's id as soon as any
span of the trace tells it, and until then under the trace's own. Where the spans of one trace tell
of two conversations, a call belongs to its nearest ancestor that tells one, else to the nearest
one below which one is told. What runs below a tool call is part of the conversation that call was
made in, whatever id a sub-agent gives itself there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import mypyc_attr

from collector.calls.records import Requester
from collector.calls.session_claim import Claim
from collector.calls.span_tree import Node, Parts, Tree
from collector.calls.trace_store import Trace
from collector.decode.span import Resource, Span
from collector.dialects.names import NO_SESSION
from collector.dialects.plan import Plan
from collector.dialects.values.arguments import HIDDEN
from monitor.records import SessionKey, built

if TYPE_CHECKING:
    from collector.calls.call import Call

__all__ = [
    "ID_MAX",
    "NAMESPACE_KEYS",
    "RESOURCE_RUNG",
    "Owner",
    "SessionIds",
    "requester_of",
]

NAMESPACE_KEYS: Final = ("service.namespace", "deployment.environment.name")

ID_MAX: Final = 1_024
"""Longer ids are cut."""

RESOURCE_RUNG: Final = 1_000_000
"""Below every rung of the ladder: an id of the whole process says least."""

_RESOURCES_MAX: Final = 4_096

_CLAIMS_MAX: Final = 16_384
_RAW_MAX: Final = 256
"""Attributes that are remembered with the session they name, and how long they may be on the wire."""


@mypyc_attr(acyclic=True)
class Owner:
    """What a resource says of whose its spans are."""

    __slots__ = ("claims", "mark", "namespace", "requester", "resource", "session")

    def __init__(
        self,
        resource: Resource,
        namespace: str,
        session: Claim | None,
        requester: Requester,
        claims: dict[bytes, Claim],
    ) -> None:
        self.resource = resource
        self.namespace = namespace
        self.mark = namespace.encode("utf-8", "surrogatepass")
        """The namespace, to be put behind ids that are its alone."""
        self.session = session
        """Where the resource itself carries a session's id."""
        self.requester = requester
        """Whose tools leave spans or not: the service."""
        self.claims = claims
        """Attribute as it was on the wire -> what it tells, shared by the owners of one namespace."""


class SessionIds:
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
        self._requesters: dict[Requester, Requester] = {}
        """One object for equal ones: processes of one service are many."""
        self._last = Owner(Resource({}), "", None, Requester("", ""), {})
        self._claims: dict[str, dict[bytes, Claim]] = {}
        """Namespace -> attribute as it was on the wire -> what it tells."""
        self._remembered = 0

    def owner(self, resource: Resource) -> Owner:
        """What the resource says, worked out once for each."""
        if resource is not self._last.resource:
            self._last = self._known(resource)
        return self._last

    def _known(self, resource: Resource) -> Owner:
        found = self._owners.get(id(resource))
        if found is None or found.resource is not resource:
            if len(self._owners) >= _RESOURCES_MAX:
                self._owners.clear()
                self._requesters.clear()
                self._claims.clear()
            found = self._owners[id(resource)] = self._owner(resource)
        return found

    def _owner(self, resource: Resource) -> Owner:
        parts = (resource.attributes.get(key) for key in self._namespace_keys)
        namespace = "/".join(str(part)[:ID_MAX] for part in parts if part)
        ids = ((key, id_of(resource.attributes.get(key))) for key in self._session_keys)
        session = next(
            (
                Claim(RESOURCE_RUNG, SessionKey(namespace, found), key)
                for key, found in ids
                if found
            ),
            None,
        )
        requester = requester_of(namespace, resource.attributes)
        requester = self._requesters.setdefault(requester, requester)
        claims = self._claims.setdefault(namespace, {})
        return Owner(resource, namespace, session, requester, claims)

    def requester(self, namespace: str, resource: Mapping[str, Any]) -> Requester:
        """Who asks in the spans of a resource, which is mostly the last span's."""
        last = self._last
        if resource is last.resource.attributes:
            return last.requester
        return requester_of(namespace, resource)

    def claim_of(self, span: Span, plan: Plan, owner: Owner, tree: Tree) -> Claim | None:
        """The session the span names, by its own id or by its resource's."""
        for index, name, rung in plan.session:
            claim = tree.claim
            if (
                claim is not None
                and claim.rung == rung
                and span.came_as(index, claim.as_written)
            ):
                return claim
            raw = span.values[index]
            if type(raw) is bytes:
                claim = self._claim(owner, span, raw, rung, name, tree)
            else:
                key = _session(owner, span, raw)
                claim = Claim(rung, key, name) if key is not None else None
            if claim is not None:
                return claim
        return owner.session

    def _claim(
        self, owner: Owner, span: Span, raw: bytes, rung: int, name: str, tree: Tree
    ) -> Claim | None:
        """What an attribute tells: one claim for equal ones, while remembered."""
        claim = owner.claims.get(raw)
        if claim is None:
            key = _session(owner, span, raw)
            if key is None:
                return None
            if len(raw) > _RAW_MAX:
                return Claim(rung, key, name)
            claim = Claim(rung, key, name, raw)
            self._remember(owner, claim)
        tree.claim = claim
        return claim

    def _remember(self, owner: Owner, claim: Claim) -> None:
        if self._remembered >= _CLAIMS_MAX:
            self._remembered = 0
            for claims in self._claims.values():
                claims.clear()
        self._remembered += 1
        owner.claims[claim.as_written] = claim

    def learn(
        self, trace: Trace, tree: Tree, node: Node, claim: Claim, start_ns: int
    ) -> SessionKey | None:
        """A span told a session: notes it in its trace.

        Returns:
            The key the trace's calls were filed under before, where they move all together.
        """
        own = claim.rung != RESOURCE_RUNG
        if own:
            node.claim, node.start_ns = claim, start_ns
        first = trace.first
        if first is None:
            trace.set_first(claim, node.span_id, start_ns)
            before = trace.belong(claim)
            return before if before is not None and before != claim.key else None
        if trace.split:
            if own and tree.parts is not None:
                tree.hint(tree.parts, claim.by(node.span_id, start_ns), node)
        elif claim.key is not first.key and claim.key != first.key:
            self._split(trace, tree)
        if trace.is_earlier(claim, node.span_id, start_ns):
            trace.set_first(claim, node.span_id, start_ns)
            first = claim
        if trace.split:
            trace.belong(first)
        return None

    def _split(self, trace: Trace, tree: Tree) -> None:
        """A second session in one trace: from now on each call looks for its own."""
        trace.split = True
        parts = tree.parts = Parts()
        for node in tree.spans():
            told = node.span_claim
            if told is not None:
                tree.hint(parts, told, node)
        tree.loosen(parts)
        for node in tree.calls():
            *_, top = node, *tree.ancestors(node)
            if not top.came:
                tree.wait(top, node.span_id)

    def resolve(
        self, trace: Trace, tree: Tree, parts: Parts, call: Call
    ) -> tuple[SessionKey, str, bool] | None:
        """The session of a call, in a trace of several.

        Returns:
            Its key, what told it, and whether a span told it (else it may still change); None
            where nothing tells one.
        """
        found = _own(call)
        nested, weak = None, None
        node = tree.node(call.outer.span_id)
        for above in tree.ancestors(node) if node is not None else ():
            other, claim = above.call, above.claim
            if other is not None and other is not call and other.is_executed:
                found, nested, weak = _own(other), found or nested, None
                if found is None and claim is not None:
                    found = claim.key, claim.name
                continue
            if found is None and claim is not None:
                found = claim.key, claim.name
            if weak is None:
                weak = parts.hints.get(above.span_id)
        certain = found or nested
        if certain is not None:
            return (*certain, True)
        likely = weak or trace.span_claim
        return None if likely is None else (*likely.whose, False)


def _own(call: Call) -> tuple[SessionKey, str] | None:
    """The session that a call's own spans name."""
    own = call.own
    if own is None or own.session is None:
        return None
    return own.session, own.session_from


def requester_of(namespace: str, resource: Mapping[str, Any]) -> Requester:
    """Who asks in the spans of a resource."""
    service = resource.get("service.name")
    return Requester(namespace, service if isinstance(service, str) else "")


def _session(owner: Owner, span: Span, raw: Any) -> SessionKey | None:
    """The session that a value names; None where it names none."""
    found = id_of(span.codec.value(raw))
    return built(SessionKey, (owner.namespace, found)) if found else None


def id_of(value: Any) -> str:
    """A session's id as text; "" where the value is none, or stands for one that is hidden or is not there."""
    if type(value) is str:
        return "" if value.startswith(HIDDEN) or value == NO_SESSION else value[:ID_MAX]
    if value is None or isinstance(value, dict | list | bytes | bool):
        return ""
    return str(value)[:ID_MAX]
