"""Finds the session of a call: the ladder of session ids, ids that come late, and several sessions in one trace.

Idea: a trace is a turn of a conversation. Its calls are filed under the trace's own id until any of its spans tells
the conversation's id. Of several claims the one on the lowest rung of the ladder wins, then the earliest.

Ids under two attributes, on spans one above the other, are two names of one conversation: a web application's and its
framework's, say. The one on the better rung is used. So is an id of a model's span, for the calls beside it: the agent
above both asked the model, and made the calls.

Rules for a trace in which two sessions are claimed (a *split* trace), in this order:

1. What runs below a tool call belongs to the session that the tool call was made in, whatever id a sub-agent gives itself.
2. A call belongs to the session that its own spans or its ancestors name: on the best rung, then by the nearest span. On a
   better rung than these, spans of models count that its own service runs for the agent above it.
3. Else to the winning claim made below its nearest ancestor that has one below it (a *hint*).
4. Else to the winning claim of the trace.

By 1 and 2 the session is certain, unless a span above the call is missing, and the trace has a claim on a better rung or a
model named it. Else it may change with the next span (the call is *loose*).

Example: the agent's span names s1, a tool call is below it, and a sub-agent below the tool call names s2. The tool
call belongs to s1, and so do the sub-agent's calls: they run inside a call of s1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import mypyc_attr

from collector.calls.records import Requester
from collector.calls.tree.session_claim import Claim, SpanClaim
from collector.calls.tree.span_tree import Parts, SpanNode, SpanTree
from collector.calls.tree.trace import Trace
from collector.decode.span import Resource, Span
from collector.dialects.names.name_bound import bounded
from collector.dialects.names.session_and_agent_keys import NO_SESSION
from collector.dialects.plan import ReadPlan
from collector.dialects.values.arguments import HIDDEN
from monitor.records import SessionKey, built
from monitor.session.hosts import clock_of
from monitor.weights import arguments_bytes

if TYPE_CHECKING:
    from collector.calls.call.call import LogicalCall

__all__ = [
    "DECIDED_RUNG",
    "NAMESPACE_KEYS",
    "RESOURCES_BYTES_MAX",
    "RESOURCE_RUNG",
    "UNNAMED_RUNG",
    "ResourceIdentity",
    "SessionIds",
    "requester_of",
]

NAMESPACE_KEYS: Final = ("service.namespace", "deployment.environment.name")

RESOURCE_RUNG: Final = 1_000_000
"""Weaker than every rung of the ladder: the id of a whole process says least."""

DECIDED_RUNG: Final = RESOURCE_RUNG + 1
"""Rung of a session that only a client of decisions names: weaker than every claim of a span."""

UNNAMED_RUNG: Final = DECIDED_RUNG + 1
"""Rung of calls for which nothing names a session."""

_RESOURCES_MAX: Final = 4_096
RESOURCES_BYTES_MAX: Final = 8 << 20
"""Approximate bytes of the texts that are made of their attributes."""
COPIES: Final = 2
"""Most texts that are made of one attribute: what it says, and what it is known by."""

SERVICE: Final = "service.name"

_CLAIMS_MAX: Final = 16_384
_RAW_MAX: Final = 256
"""Attributes that are remembered with their claims, and bytes of one on the wire."""


@mypyc_attr(acyclic=True)
class ResourceIdentity:
    """What a resource says about the session and the tenant of its spans."""

    __slots__ = ("claims", "clock", "mark", "namespace", "requester", "resource", "session")

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
        """The namespace as bytes, appended to span ids: tenants may use the same ids."""
        self.session = session
        """Set if the resource itself carries a session id."""
        self.requester = requester
        """The service: whether its tools leave spans is learnt for each service."""
        self.clock = clock_of(resource.attributes)
        """What its host is known by: spans with equal ones have one clock."""
        self.claims = claims
        """Attribute as it was on the wire -> claim; shared by the owners of one namespace."""


class SessionIds:
    """Reads and resolves session ids.

    Args:
        session_keys: the ladder, best first; resource attributes are looked at last.
        namespace_keys: resource attributes that keep tenants apart.
        resources_bytes_max: what resources say is forgotten beyond these bytes, and read again.
    """

    def __init__(
        self,
        session_keys: Sequence[str],
        namespace_keys: Sequence[str] = NAMESPACE_KEYS,
        resources_bytes_max: int = RESOURCES_BYTES_MAX,
    ) -> None:
        self._session_keys = tuple(session_keys)
        self._resources_bytes_max = resources_bytes_max
        self._rungs = {name: rung for rung, name in enumerate(self._session_keys)}
        self._namespace_keys = tuple(namespace_keys)
        self._owners: dict[int, ResourceIdentity] = {}
        self._owners_bytes = 0
        """Approximate bytes of the attributes of their resources."""
        self._requesters: dict[Requester, Requester] = {}
        """Interned: a service has many processes."""
        self._last = ResourceIdentity(Resource({}), "", None, Requester("", ""), {})
        self._claims: dict[str, dict[bytes, Claim]] = {}
        """Namespace -> attribute as it was on the wire -> claim."""
        self._remembered = 0

    @property
    def resource_keys(self) -> frozenset[str]:
        """The attributes of a resource that a namespace, a session or a requester may depend on."""
        return frozenset((*self._namespace_keys, *self._session_keys, SERVICE))

    def owner(self, resource: Resource) -> ResourceIdentity:
        """What the resource says, computed once per resource."""
        if resource is not self._last.resource:
            found = self._owners.get(id(resource))
            if found is None or found.resource is not resource:
                found = self._new(resource)
            self._last = found
        return self._last

    def _new(self, resource: Resource) -> ResourceIdentity:
        self._owners_bytes += COPIES * arguments_bytes(resource.attributes)
        if (
            len(self._owners) >= _RESOURCES_MAX
            or self._owners_bytes > self._resources_bytes_max
        ):
            self.forget()
            self._owners_bytes = COPIES * arguments_bytes(resource.attributes)
        found = self._owners[id(resource)] = self._owner(resource)
        return found

    def forget(self) -> None:
        """Forgets what resources say. It is read again from each that comes again."""
        self._owners.clear()
        self._owners_bytes = 0
        self._requesters.clear()
        self._claims.clear()
        self._remembered = 0

    def _owner(self, resource: Resource) -> ResourceIdentity:
        parts = (resource.attributes.get(key) for key in self._namespace_keys)
        namespace = "/".join(bounded(str(part)) for part in parts if part)
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
        return ResourceIdentity(resource, namespace, session, requester, claims)

    def requester(self, namespace: str, resource: Mapping[str, Any]) -> Requester:
        """The requester of a resource, which is mostly the last span's resource."""
        last = self._last
        if resource is last.resource.attributes:
            return last.requester
        return requester_of(namespace, resource)

    def claim_of(
        self, span: Span, plan: ReadPlan, owner: ResourceIdentity, tree: SpanTree
    ) -> Claim | None:
        """The session that the span claims, by its own attributes or by its resource's."""
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
        self,
        owner: ResourceIdentity,
        span: Span,
        raw: bytes,
        rung: int,
        name: str,
        tree: SpanTree,
    ) -> Claim | None:
        """The claim of an attribute; equal attributes share one claim while it is remembered."""
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

    def _remember(self, owner: ResourceIdentity, claim: Claim) -> None:
        if self._remembered >= _CLAIMS_MAX:
            self._remembered = 0
            for claims in self._claims.values():
                claims.clear()
        self._remembered += 1
        owner.claims[claim.as_written] = claim

    def learn(
        self, trace: Trace, tree: SpanTree, node: SpanNode, claim: Claim, start_ns: int
    ) -> SessionKey | None:
        """Notes a span's claim in its trace.

        Returns:
            The former session of the trace, if all its calls are to move to the one claimed; else None.
        """
        own, parts = claim.rung != RESOURCE_RUNG, tree.parts
        if own:
            node.claim, node.start_ns = claim, start_ns
        first = trace.first
        if first is None:
            trace.set_first(claim, node.span_id, start_ns)
            before = trace.belong(claim)
            return before if before is not None and before != claim.key else None
        if trace.split:
            if own and parts is not None:
                tree.hint(parts, claim.by(node.span_id, start_ns), node)
                self._tell(trace, tree, parts, node, claim)
        elif claim.key is not first.key and claim.key != first.key:
            self._split(trace, tree)
        if (
            tree.parts is not None
            and claim.rung == first.rung
            and claim.key is not first.key
            and claim.key != first.key
        ):
            tree.parts.rival = claim.rung
        # The claim that wins, made again by a span that began later, changes nothing.
        if (claim is not first or start_ns <= trace.first_ns) and trace.is_earlier(
            claim, node.span_id, start_ns
        ):
            if tree.parts is not None:
                # It may be a better name for any call, or the likely one of those that no claim names.
                is_better = claim.rung < first.rung
                tree.parts.loosen(tree.all_calls() if is_better else tree.parts.unnamed())
            trace.set_first(claim, node.span_id, start_ns)
            first = claim
        if trace.split:
            trace.belong(first)
        return None

    def _split(self, trace: Trace, tree: SpanTree) -> None:
        """Splits a trace, since a second session was claimed: each call looks for its own session from now on."""
        trace.split = True
        parts = tree.parts = Parts()
        for node in tree.spans():
            claim = node.span_claim
            if claim is not None:
                tree.hint(parts, claim, node)
                self._tell(trace, tree, parts, node, claim.claim)
            if tree.up(node) is None:
                parts.note_root(node.span_id)
        parts.loosen(tree.all_calls())
        for node in tree.calls():
            *_, top = node, *tree.ancestors(node)
            if not top.came:
                tree.wait(top, node.span_id)

    def _tell(
        self, trace: Trace, tree: SpanTree, parts: Parts, node: SpanNode, claim: Claim
    ) -> None:
        """A model's span names the session of its service's calls beside it: those that this may concern are loose."""
        above, service = tree.up(node), node.model
        if above is None or service is None:
            return
        any_call = parts.tell(above, service, claim)
        if any_call is None:
            return
        parts.loosen(
            [
                each
                for each in tree.calls_below(parts, above)
                if (any_call or each in parts.loose)
                and self.requester(trace.namespace, each.outer.attributes) == service
            ]
        )

    def resolve(
        self, trace: Trace, tree: SpanTree, parts: Parts, call: LogicalCall
    ) -> tuple[SessionKey, str, bool | None] | None:
        """The session of a call in a split trace.

        Returns:
            Its key, the attribute that named it, and whether that is certain (else it may still change; None: no claim
            names it, it is only likely); None if no span claims one.
        """
        found, inside = self._own(call), None
        hinted: SpanClaim | None = None
        told: Claim | None = None
        is_there = is_beside = True
        service = self.requester(trace.namespace, call.outer.attributes)
        node = tree.node(call.outer.span_id)
        asker = tree.asker(node, call) if node is not None else None
        for above in tree.ancestors(node) if node is not None else ():
            if above is asker:
                continue
            other, is_there = above.call, above.came
            if other is not None and other is not call and other.is_executed:
                inside = _better(told, found) or inside
                found, hinted, told, is_beside = self._own(other), None, None, True
            else:
                if hinted is None:
                    hinted = parts.hints.get(above.span_id)
                if is_beside:
                    told = _better(parts.told(above, service), told)
                    is_beside = not (above.stops or above.agent)
            found = _better(above.claim, found)
        best, own = trace.first, found
        found = _better(told, own)
        by_model = found is not own
        # A nearer model may name it on the same rung, and one beside the call around what only calls inside name.
        rung = found.rung + by_model if found is not None else UNNAMED_RUNG
        found = found or inside
        if found is not None:
            is_best = best is None or found.rung <= best.rung
            is_certain = is_there or (is_best and not by_model)
            if is_certain:
                parts.rung = max(parts.rung, rung)
            return found.key, found.name, is_certain
        likely = hinted or trace.span_claim
        return None if likely is None else (*likely.whose, None)

    def own_rung(self, call: LogicalCall) -> int:
        """The rung on which a call's own spans name its session."""
        own = call.own
        return UNNAMED_RUNG if own is None else self._rungs.get(own.session_from, RESOURCE_RUNG)

    def _own(self, call: LogicalCall) -> Claim | None:
        """The session that the call's own spans name."""
        own = call.own
        if own is None or own.session is None:
            return None
        return Claim(self.own_rung(call), own.session, own.session_from)


def _better(claim: Claim | None, known: Claim | None) -> Claim | None:
    """The claim on the better rung; of two on one rung the one that is known, which is nearer."""
    if known is None or (claim is not None and claim.rung < known.rung):
        return claim
    return known


def requester_of(namespace: str, resource: Mapping[str, Any]) -> Requester:
    """The requester that a resource names."""
    service = resource.get(SERVICE)
    return Requester(namespace, bounded(service) if isinstance(service, str) else "")


def _session(owner: ResourceIdentity, span: Span, raw: Any) -> SessionKey | None:
    """The session that a value names, if any."""
    found = id_of(span.codec.value(raw))
    return built(SessionKey, (owner.namespace, found)) if found else None


def id_of(value: Any) -> str:
    """A session id as text; "" for a value that is no id, or a placeholder for a hidden or missing one."""
    if type(value) is str:
        return "" if value.startswith(HIDDEN) or value == NO_SESSION else bounded(value)
    if value is None or isinstance(value, dict | list | bytes | bool):
        return ""
    return bounded(str(value))
