"""Traces: the session of each, and its tree of spans.

Idea: spans arrive in any order, children before parents and the pieces of one call apart. So a trace is remembered
twice: in full (its tree) for 2 to 4 minutes after its last span, and in few bytes (its session) for as long as there
is room, since the id of a session may arrive late.

Invariants:

- Traces and bytes of arguments have bounds: what is forgotten at a bound is of the tenant that holds most. Spans in
  trees have a bound, too: at it, the period ends early for all.
- No step takes long. Trees are freed a few at a time, with the spans that arrive (`AT_ONCE`), and forgotten traces
  one at a time, with each new one.

Example: a span of trace t arrives at minute 0, the next one at minute 1: one tree. No further span arrives. At
minute 5 and 15 seconds at the latest, the tree is freed. A span that arrives at minute 10 finds the trace and
its session, and begins a new tree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, Final

from mypy_extensions import mypyc_attr

from collector.calls.records import Requester
from collector.calls.session_claim import Claim, SpanClaim
from collector.calls.span_tree import TREE_MAX, Parts, Tree
from collector.decode.retained import Retained
from monitor.records import (
    ALSO_ATTRIBUTE,
    FROM_TRACE,
    SPEC_ATTRIBUTE,
    Named,
    Proof,
    SessionKey,
    built,
)
from monitor.tenants import Holdings
from monitor.weights import arguments_bytes

__all__ = ["NEVER", "TRACES_MAX", "Beginning", "Trace", "Traces"]

TRACES_MAX: Final = 200_000
"""Traces remembered for late session ids. At the bound, the less recently seen half of a tenant's is forgotten."""

PERIOD_NS: Final = 120 * 1_000_000_000
"""A tree is forgotten one to two periods after its last span, or soon after that (`SOON`)."""

SPANS_MAX: Final = 50_000
"""Spans in trees after which a period ends early: about 20 MB with all that refers to them."""

AT_ONCE: Final = 2
"""Trees freed with one span, if too few were freed so far. To free all at the end of a period takes 25 ms."""

SOON: Final = 8
"""Trees that are due are freed within 1/8 of a period, even if few spans arrive."""

ARGUMENTS_BYTES_MAX: Final = 64 << 20
"""Bound on the arguments that trees hold for later spans of the same calls."""

KEPT_SHARE: Final = 4
"""1/4 of the bound is freed at once when it is reached."""

EXPIRED_AT_ONCE: Final = 1_000
"""Trees freed with one tick if no spans arrive."""

NEAR: Final = 4_096
"""Slots of the first-level cache of traces."""

NEVER: Final = 2**62 - 1
"""The time of an event that has not happened."""

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
        """Its neighbours in the chain of all traces' requests."""
        self.newer: OpenRequest | None = None


@mypyc_attr(acyclic=True)
class Beginning:
    """What a trace shows of the beginning of its session. Times are Unix nanoseconds, `NEVER` while not seen."""

    __slots__ = ("earlier_ns", "fresh_ns", "proof", "root_ns")

    def __init__(self) -> None:
        self.fresh_ns = NEVER
        """Start of the earliest model request, if it holds no earlier turn."""
        self.earlier_ns = NEVER
        """Start of the earliest model request that holds earlier turns, or may."""
        self.root_ns = NEVER
        """Start of the trace's root."""
        self.proof: Proof | None = None
        """What the monitor was given last."""


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
        "doubted",
        "epoch",
        "first",
        "first_by",
        "first_ns",
        "foreign",
        "has_tools",
        "learnt",
        "learnt_early",
        "learnt_named",
        "missed",
        "named",
        "namespace",
        "open",
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
        self.tree: Tree | None = None
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
        self.learnt_early = False
        """True once the monitor learnt of a span from before its start."""
        self.doubted = False
        """True while the monitor doubts that the first calls of its session arrived."""
        self.answered_ns = NEVER
        """Start of the first model's span whose input holds results of tools."""
        self.called_ns = NEVER
        """Start of the first call, or end of the first model's span that asks for one."""
        self.beginning: Beginning | None = None
        """Kept while sessions may have begun before the process."""
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
        self.named: Named | None = None
        self.learnt: Mapping[str, Any] | None = None
        """The attributes that the monitor knows."""
        self.learnt_named: Named | None = None
        """The agent's name that the monitor learnt from a span other than a call."""
        self.requester: Requester | None = None
        """The service whose models asked for its calls: its tool spans may come from another service."""
        self.open: OpenRequest | dict[str, OpenRequest] | None = None
        """Requests that wait for their execution: of one tool, or by tool."""
        self.foreign = 0
        """Those of `spans` that speak no dialect."""
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
    def span_claim(self) -> SpanClaim | None:
        """The claim that wins, with the span that made it."""
        first = self.first
        return first.by(self.first_by, self.first_ns) if first is not None else None

    def set_first(self, claim: Claim, span_id: bytes, start_ns: int) -> None:
        """Sets the claim that wins."""
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
        """True if no session is claimed and the trace is a later turn of a conversation.

        A model's input holds results of tools before any call is made or asked for in the trace: calls of earlier
        turns are in other traces, and nothing tells which.
        """
        return self.answered_ns < self.called_ns and self.first is None

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
            made = resource if added is resource else Retained(added)
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


class Traces:
    """All traces, bounded by number, by time, and by the spans in their trees.

    Args:
        traces_max: bound on the number of traces.
        spans_max: spans in trees after which a period ends early.
        period_ns: length of a period, Unix nanoseconds.
        bytes_max: bound on the arguments that trees hold.
    """

    def __init__(
        self,
        traces_max: int = TRACES_MAX,
        spans_max: int = SPANS_MAX,
        period_ns: int = PERIOD_NS,
        bytes_max: int = ARGUMENTS_BYTES_MAX,
    ) -> None:
        self._bytes_max = bytes_max
        self.held = 0
        """Approximate bytes of the arguments that trees hold."""
        self._given_up = 0
        self._traces_max = traces_max
        self._spans_max = spans_max
        self._period_ns = period_ns
        self._soon_ns = period_ns // SOON
        self._recent: dict[str, dict[bytes, Trace]] = {}
        self._older: dict[str, dict[bytes, Trace]] = {}
        """Namespace -> trace id -> trace, in two generations. When the recent one is full, that of the tenant with
        most traces becomes its older one, and its former older one is forgotten."""
        self._names: dict[str, str] = {}
        """Namespace -> the tenant whose share its traces count in."""
        self._recent_held = Holdings()
        self._older_held = Holdings()
        """Traces of each tenant in the two generations."""
        self._near: list[Trace | None] = [None] * NEAR
        """Recent traces, in the slot their id gives: two dictionary look-ups cost four times as much."""
        self._gone: list[dict[bytes, Trace]] = []
        """Forgotten traces: one is freed for each new trace."""
        self._young: list[Trace] = []
        self._old: list[Trace] = []
        """Traces with spans of this period, and of the one before."""
        self._leaving: list[Trace] = []
        """Traces with spans of the period before that. Trees without a span since then are due to be freed."""
        self._leaving_count = 0
        """Their number when the period began."""
        self._epoch = 0
        self._since = 0
        self._spans = 0
        self._broken: list[tuple[Trace, int]] = []

    def __iter__(self) -> Iterator[Trace]:
        yield from _all(self._older)
        yield from _all(self._recent)

    def of(self, namespace: str, trace_id: bytes) -> Trace:
        """The trace, which counts as recently seen from now on."""
        place = trace_id[-1] * 16 + (trace_id[len(trace_id) >> 1] & 15)
        near = self._near[place]
        if near is not None and near.trace_id == trace_id and near.namespace == namespace:
            return near
        recent = self._recent.get(namespace)
        trace = recent.get(trace_id) if recent is not None else None
        if trace is None:
            trace = self._renewed(namespace, trace_id)
        self._near[place] = trace
        return trace

    def _renewed(self, namespace: str, trace_id: bytes) -> Trace:
        """A trace that is new, or of the older generation."""
        older = self._older.get(namespace)
        trace = older.pop(trace_id, None) if older is not None else None
        if trace is None:
            trace = Trace(namespace, trace_id)
        else:
            self._older_held.add(self._names[namespace], -1)
        self._drop()
        if self._recent_held.total >= self._traces_max // 2:
            self._age(self._recent_held.most())
        recent = self._recent.get(namespace)
        if recent is None:
            recent = self._recent[namespace] = {}
            if namespace not in self._names:
                self._names[namespace] = self._recent_held.name(namespace)
        recent[trace_id] = trace
        self._recent_held.add(self._names[namespace], 1)
        return trace

    def _age(self, name: str) -> None:
        """Makes a tenant's recent traces its older ones, and forgets older ones over the bound."""
        self._forget_older(name)
        for namespace in [each for each in self._recent if self._names[each] == name]:
            found = self._older[namespace] = self._recent.pop(namespace)
            self._recent_held.add(name, -len(found))
            self._older_held.add(name, len(found))
        while self._older_held.total > self._traces_max // 2:
            self._forget_older(self._older_held.most())
        self._near = [None] * NEAR

    def _forget_older(self, name: str) -> None:
        for namespace in [each for each in self._older if self._names[each] == name]:
            found = self._older.pop(namespace)
            self._older_held.add(name, -len(found))
            self._gone.append(found)
            if namespace not in self._recent:
                del self._names[namespace]

    def _drop(self) -> None:
        """Frees one of the forgotten traces."""
        gone = self._gone
        while gone:
            if gone[-1]:
                self._forget(gone[-1].popitem()[1])
                return
            gone.pop()

    def grow(self, trace: Trace, now: int) -> Tree:
        """The trace's tree, with room for one more span."""
        if now < self._since:  # the clock was set back
            self._since = now
        if now - self._since >= self._period_ns or self._spans >= self._spans_max:
            self._turn(now)
        if self._leaving and self._is_behind(now):
            self._leave(AT_ONCE)
        if trace.epoch != self._epoch:
            self._renew(trace)
        tree = trace.tree
        if tree is None:
            tree = trace.tree = Tree()
            if trace.split:
                tree.parts = Parts()
        self._spans += 1
        if tree.size >= TREE_MAX:
            tree.shrink()
            self._hold(tree, tree.weigh() - tree.held)
        return tree

    def hold(self, tree: Tree, arguments: Mapping[str, Any] | None) -> None:
        """Counts the arguments of one more call of a tree, once the call is judged."""
        if arguments:
            self._hold(tree, arguments_bytes(arguments))

    def _hold(self, tree: Tree, size: int) -> None:
        tree.held += size
        self.held += size
        if self.held > self._bytes_max:
            self._give_up()

    def _give_up(self) -> None:
        """Frees arguments until 3/4 of the bound are held: of the tenant that holds most, its largest trees first."""
        held = Holdings()
        by_tenant: dict[str, list[Tree]] = {}
        seen: set[int] = set()
        for trace in chain(self._leaving, self._old, self._young):
            tree = trace.tree
            if tree is not None and tree.held and id(tree) not in seen:
                seen.add(id(tree))
                name = held.name(trace.namespace)
                held.add(name, tree.held)
                by_tenant.setdefault(name, []).append(tree)
        for trees in by_tenant.values():
            trees.sort(key=_less_held)
            trees.reverse()  # trees are taken from the end: the largest, of equal ones the oldest
        target = self._bytes_max - self._bytes_max // KEPT_SHARE
        while held.total > target:
            name = held.most()
            tree = by_tenant[name].pop()
            held.add(name, -tree.held)
            self.held -= tree.held
            self._given_up += tree.give_up()

    def given_up(self) -> int:
        """Number of calls whose arguments were freed since the last call of this method."""
        found, self._given_up = self._given_up, 0
        return found

    def expire(self, now: int) -> None:
        """Frees trees that are due, as time passes without spans."""
        if now < self._since:
            self._since = now
        if now - self._since >= self._period_ns:
            self._turn(now)
        elif self._leaving and self._is_behind(now):
            self._leave(EXPIRED_AT_ONCE)

    def _renew(self, trace: Trace) -> None:
        """The first span of a period arrived in a trace: an old tree is freed.

        One for one, since the new tree then gets memory that is in the processor's cache.
        """
        trace.epoch = self._epoch
        self._leave(1)
        self._young.append(trace)
        if trace.tree is not None:
            self._spans += trace.tree.size

    def _is_behind(self, now: int) -> bool:
        """True if more trees are left to free than there are spans, or time, left for."""
        left, rest_ns = len(self._leaving), self._since + self._soon_ns - now
        return (
            left > self._spans_max - self._spans
            or left * self._soon_ns > self._leaving_count * rest_ns
        )

    def _turn(self, now: int) -> None:
        """Begins a period: trees without a span since the last but one are due from now on."""
        self._leave(len(self._leaving))
        self._leaving, self._old, self._young = self._old, self._young, []
        self._leaving.reverse()
        self._leaving_count = len(self._leaving)
        self._epoch += 1
        self._since = now
        self._spans = 0

    def _leave(self, count: int) -> None:
        """Frees up to `count` trees that are due, the oldest first."""
        leaving = self._leaving
        for _ in range(min(count, len(leaving))):
            trace = leaving.pop()
            if trace.epoch < self._epoch - 1:
                self._forget(trace)

    def _forget(self, trace: Trace) -> None:
        tree, trace.tree = trace.tree, None
        if tree is None:
            return
        self.held -= tree.held
        if tree.shared:
            tree.give_up()
        if tree.missing:
            self._broken.append((trace, tree.missing))

    def broken(self) -> list[tuple[Trace, int]]:
        """Traces whose trees were freed while calls waited for missing spans, and the number of these spans.

        Each is returned once.
        """
        found, self._broken = self._broken, []
        return found

    def close(self) -> None:
        """Frees all trees: the input is over."""
        while self._gone:
            self._drop()
        for trace in self:
            self._forget(trace)


def _less_held(tree: Tree) -> int:
    return -tree.held


def _all(generation: Mapping[str, Mapping[bytes, Trace]]) -> Iterator[Trace]:
    return (trace for traces in generation.values() for trace in traces.values())
