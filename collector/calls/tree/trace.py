"""One trace of a tenant: whose session it is, and what its spans told of it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from mypy_extensions import mypyc_attr

from collector.calls.records import Requester
from collector.calls.tree.session_claim import Claim, SpanClaim
from collector.calls.tree.span_tree import SpanTree
from collector.decode.retained import RetainedAttributes
from monitor.records import (
    ALSO_ATTRIBUTE,
    FROM_TRACE,
    SPEC_ATTRIBUTE,
    AgentName,
    Proof,
    SessionKey,
    built,
)

__all__ = ["NEVER", "OpenRequest", "Trace", "TraceBeginning"]

NEVER: Final = 2**62 - 1
"""The time of an event that has not happened."""

BEFORE_MAX: Final = 256
"""Calls of a trace that are looked at for those before its first model was asked: the first ones that came."""

RESOURCES_MAX: Final = 64
"""Services of one trace whose joined attributes are remembered."""


@mypyc_attr(acyclic=True, free_list_len=1)
class OpenRequest:
    """Requests for one tool in one trace that wait for their execution.

    It, its trace and its neighbours in the chain refer to each other, which is a cycle that reference counting
    cannot free. It is broken when the requests are executed or expire, and by `ModelRequests.rest`.
    """

    __slots__ = ("count", "newer", "older", "since", "tool", "trace")

    def __init__(self, trace: Trace, tool: str, since: int, older: OpenRequest | None) -> None:
        self.trace = trace
        self.tool = tool
        self.count = 1
        self.since = since
        self.older = older
        """Neighbours in the chain of all traces' requests."""
        self.newer: OpenRequest | None = None


@mypyc_attr(acyclic=True)
class TraceBeginning:
    """What a trace shows of the beginning of its session. Times are Unix nanoseconds, `NEVER` while not seen."""

    __slots__ = ("earlier_ns", "fresh_ns", "proof", "root_ns", "service")

    def __init__(self) -> None:
        self.fresh_ns = NEVER
        """Start of the earliest model request, if it holds no earlier turn."""
        self.service = ""
        """The service that made it."""
        self.earlier_ns = NEVER
        """Start of the earliest model request that holds earlier turns, or may."""
        self.root_ns = NEVER
        """Start of the trace's root."""
        self.proof: Proof | None = None
        """Proof that the monitor was given last."""


@mypyc_attr(acyclic=True)
class Trace:
    """One trace of one tenant."""

    __slots__ = (
        "_extras",
        "_joined",
        "_key",
        "answered_ns",
        "beginning",
        "called_ns",
        "changed",
        "doubted",
        "epoch",
        "first",
        "first_by",
        "first_ns",
        "foreign",
        "given",
        "has_agent",
        "has_tools",
        "learnt",
        "learnt_early",
        "learnt_named",
        "missed",
        "modelled_ns",
        "named",
        "namespace",
        "noted",
        "open",
        "pinned",
        "requester",
        "sampled",
        "session_from",
        "spans",
        "split",
        "touched",
        "trace_id",
        "tree",
    )

    def __init__(self, namespace: str, trace_id: bytes) -> None:
        # In the compiled class, fields that each span needs share the first cache lines, and booleans that stand
        # side by side take one byte each.
        self.namespace = namespace
        self.trace_id = trace_id
        self.tree: SpanTree | None = None
        self.epoch = -1
        self.spans = 0
        """Spans that its session does not count yet."""
        self.split = False
        """True once two sessions were claimed in it."""
        self.touched = False
        """True if a span of the present request belongs to it."""
        self.sampled = False
        """True if its sender keeps only a sample of traces."""
        self.has_tools = False
        """True once a tool span arrived."""
        self.has_agent = False
        """True once a span of an agent or a model arrived."""
        self.noted = False
        """True once its session has noted the attribute that names it best."""
        self.changed = False
        """True if more is known of its session than when its unsettled calls were last updated."""
        self.learnt_early = False
        """True once the monitor learnt of a span from before its start."""
        self.doubted = False
        """True while the monitor doubts that the first calls of its session arrived."""
        self.pinned = False
        """True once a model's request in it was held or judged: these refer to it."""
        self.answered_ns = NEVER
        """Start of the first model's span whose input holds results of tools."""
        self.modelled_ns = NEVER
        """Start of the first model's span."""
        self.given = 0
        """Results of calls that the first model's input holds, as far as they have ids."""
        self.called_ns = NEVER
        """Start of the first call, or end of the first model's span that asks for one."""
        self.beginning: TraceBeginning | None = None
        """Evidence on the trace's beginning; made while sessions may have begun before the process."""
        self.first: Claim | None = None
        """The claim that wins."""
        self.first_ns = 0
        self.first_by = b""
        """Start and id of the span that made it."""
        self._key: SessionKey | None = None
        self.session_from = FROM_TRACE
        self._extras: dict[str, tuple[int, bytes, Any, Mapping[str, Any]]] | None = None
        """Key -> start and id of the earliest span with this attribute, the value, and the span's attributes (which are
        weighed together, and stay alive together)."""
        self.named: AgentName | None = None
        self.learnt: Mapping[str, Any] | None = None
        """The attributes that the monitor knows."""
        self.learnt_named: AgentName | None = None
        """The agent's name that the monitor learnt from a span other than a call."""
        self.requester: Requester | None = None
        """The service whose models asked for its calls: its tool spans may come from another service."""
        self.open: OpenRequest | dict[str, OpenRequest] | None = None
        """Requests that wait for their execution: of one tool, or by tool."""
        self.foreign = 0
        """Number of `spans` that speak no dialect."""
        self.missed: dict[str, int] | None = None
        """Reasons of `coverage` that its session does not count yet."""
        self._joined: dict[int, tuple[Mapping[str, Any], Mapping[str, Any]]] | None = None

    @property
    def key(self) -> SessionKey:
        """Its session. While none is claimed: one named by the trace id, made when first needed."""
        if self._key is None:
            self._key = built(SessionKey, (self.namespace, self.trace_id.hex()))
        return self._key

    @property
    def known_key(self) -> SessionKey | None:
        """Its session; None while no claim or call has asked for it."""
        return self._key

    def sessions(self) -> list[SessionKey]:
        """The sessions of its calls: several where it is split."""
        keys = [] if self._key is None else [self._key]
        if self.split and self.tree is not None:
            calls = [node.call for node in self.tree.calls()]
            keys += [call.judged.session for call in calls if call is not None and call.judged]
        return list(dict.fromkeys(keys))

    @property
    def is_one(self) -> bool:
        """True if its spans are of one session nevertheless, once it is split: its one root has a better name than all below it."""
        first, tree = self.first, self.tree
        parts = tree.parts if tree is not None else None
        if first is None or parts is None:
            return False
        return parts.rival != first.rung and parts.roots == {self.first_by}

    @property
    def is_plain(self) -> bool:
        """True if nothing is open or uncounted, and nothing rare is known of it."""
        rare = self.split or self.pinned or self._extras is not None or self.open is not None
        return (
            not rare
            and not self.touched
            and not self.spans
            and not self.foreign
            and self.missed is None
        )

    def assign(self, key: SessionKey | None, session_from: str) -> None:
        """Sets its session."""
        self._key, self.session_from = key, session_from

    @property
    def span_claim(self) -> SpanClaim | None:
        """The claim that wins, with the span that made it."""
        first = self.first
        return first.by(self.first_by, self.first_ns) if first is not None else None

    def set_first(self, claim: Claim, span_id: bytes, start_ns: int) -> None:
        """Sets the claim that wins."""
        self.changed = True
        self.first, self.first_by, self.first_ns = claim, span_id, start_ns

    def is_earlier(self, claim: Claim, span_id: bytes, start_ns: int) -> bool:
        """True if a span's claim wins over the present one."""
        first = self.first
        return first is None or claim.counts_before(
            span_id, start_ns, first, self.first_by, self.first_ns
        )

    def belong(self, first: Claim) -> SessionKey | None:
        """Moves the trace to the session of a claim.

        Returns:
            Its former session; None if that was never used.
        """
        before, self._key, self.session_from = self._key, first.key, first.name
        return before

    def unbelong(self, before: SessionKey) -> None:
        """Undoes `belong`: its calls could not be moved. A further claim tries again."""
        self.first, self._key, self.session_from = None, before, FROM_TRACE

    @property
    def is_rest(self) -> bool:
        """True if no session is claimed and the trace is a later turn of a conversation: nothing tells of which."""
        return self.goes_on and self.first is None

    @property
    def goes_on(self) -> bool:
        """True if calls were made before the trace, as a model in it was given results of tools.

        It was before any call was made or asked for in the trace; or the first model was given more results than calls were made
        before it: the run goes on with a call that an earlier trace asked for, and a person has approved.
        """
        return self.answered_ns < self.called_ns or (
            self.given > 0 and self.given > self._called_before()
        )

    def _called_before(self) -> int:
        """The number of its calls that began before its first model was asked; 0 if clocks differ, and do not tell."""
        tree = self.tree
        if tree is None or tree.mistimed or self.called_ns >= self.modelled_ns:
            return 0
        calls = {node.call for node in islice(tree.calls(), BEFORE_MAX)}
        return sum(
            each is not None and each.outer.start_ns < self.modelled_ns for each in calls
        )

    def miss(self, reason: str) -> None:
        """Counts a span that was not judged, or not for certain."""
        if self.missed is None:
            self.missed = {}
        self.missed[reason] = self.missed.get(reason, 0) + 1

    def add(self, extras: Mapping[str, Any], start_ns: int, span_id: bytes) -> None:
        """Adds attributes that specs bind on. Of each key, the earliest span's value counts."""
        place = (start_ns, span_id)
        if self._extras is None:
            self._extras = {}
        for key, value in extras.items():
            known = self._extras.get(key)
            if known is None or place < known[:2]:
                self._extras[key] = (*place, value, extras)
                if known is None or known[2] != value:
                    self._joined = None

    def attributes(
        self, resource: Mapping[str, Any], overruling: frozenset[str] = frozenset()
    ) -> Mapping[str, Any]:
        """A resource's attributes with those that spans add; the same object while nothing is new.

        The resource's own attributes stay, except for the keys in `overruling`.
        """
        if not self._extras:
            return resource
        joined = self._joined
        found = joined.get(id(resource)) if joined is not None else None
        if found is None or found[0] is not resource:
            if joined is None or len(joined) >= RESOURCES_MAX:
                joined = self._joined = {}
            extras = {key: value for key, (_, _, value, _) in self._extras.items()}
            added = _added(resource, extras, overruling)
            made = resource if added is resource else RetainedAttributes(added)
            found = joined[id(resource)] = (resource, made)
        return found[1]


def _added(
    resource: Mapping[str, Any], extras: dict[str, Any], overruling: frozenset[str]
) -> Mapping[str, Any]:
    """Adds the attributes of spans to a resource's. An agent can write span attributes, but not its resource."""
    named = extras.get(SPEC_ATTRIBUTE) if SPEC_ATTRIBUTE not in overruling else None
    added = {
        key: value
        for key, value in extras.items()
        if key in overruling or (key not in resource and key != SPEC_ATTRIBUTE)
    }
    if named is not None:
        added[ALSO_ATTRIBUTE] = named
    return {**resource, **added} if added else resource
