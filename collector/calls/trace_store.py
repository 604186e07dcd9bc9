"""Traces: whose sessions they are, and their trees.

Each is remembered for long in few bytes (whose session it is), and for minutes in full (its
tree), because spans arrive in any order: children before parents, and pieces of one call apart.
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
from monitor.records import ALSO_ATTRIBUTE, FROM_TRACE, SPEC_ATTRIBUTE, Named, SessionKey, built
from monitor.tenants import Holdings
from monitor.weights import arguments_bytes

__all__ = ["NEVER", "TRACES_MAX", "Trace", "Traces"]

TRACES_MAX: Final = 200_000
"""Traces remembered for late ids, of which the half that was seen least recently is forgotten."""

PERIOD_NS: Final = 120 * 1_000_000_000
"""A tree is forgotten one to two periods after its last span, or soon after that."""

SPANS_MAX: Final = 50_000
"""Spans in trees before a period ends early: about 20 MB with what hangs on them."""

AT_ONCE: Final = 2
"""Trees that go with a span, where too few have gone: all at the end of a period would take 25 ms."""

SOON: Final = 8
"""The part of a period's time in which they go: where spans are few, they need not wait for others."""

ARGUMENTS_BYTES_MAX: Final = 64 << 20
"""Of the arguments that trees hold, for spans of the same calls that are still to come."""

KEPT_SHARE: Final = 4
"""So large a part of it is given up at once, where there is more."""

EXPIRED_AT_ONCE: Final = 1_000
"""Trees that go at a time where no spans come."""

NEAR: Final = 4_096
"""Traces found without their dictionary, where no other has taken the place."""

NEVER: Final = 2**62 - 1
"""The time of what has not been."""

RESOURCES_MAX: Final = 64
"""Services of one trace whose attributes are kept joined."""


@mypyc_attr(acyclic=True, free_list_len=1)
class OpenRequest:
    """Requests of one tool in one trace that wait for their execution.

    It, its trace and its neighbours refer to each other until it is closed: executed, expired, or by
    `ModelRequests.rest`.
    """

    __slots__ = ("count", "newer", "older", "since", "tool", "trace")

    def __init__(self, trace: Trace, tool: str, since: int, older: OpenRequest | None) -> None:
        self.trace = trace
        self.tool = tool
        self.count = 1
        self.since = since
        self.older = older
        """The one of all traces that came before."""
        self.newer: OpenRequest | None = None


@mypyc_attr(acyclic=True)
class Trace:
    """One trace of one tenant."""

    __slots__ = (
        "_extras",
        "_joined",
        "_key",
        "answered_ns",
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
        # What each span asks for stands at the front, and what is true or false side by side:
        # compiled, that is what is fetched together, and a byte each.
        self.namespace = namespace
        self.trace_id = trace_id
        self.tree: Tree | None = None
        self.epoch = -1
        self.spans = 0
        """Its spans that no session was told of yet."""
        self.split = False
        """True once two sessions were told in it."""
        self.touched = False
        """True while one of this request is to be told."""
        self.sampled = False
        """True where only a share of such traces is kept."""
        self.has_tools = False
        """True once a tool span was seen in it."""
        self.learnt_early = False
        """True once the monitor was told of a span from before our start."""
        self.doubted = False
        """True while the monitor doubts that its session's first calls were seen."""
        self.answered_ns = NEVER
        """When the first model began that was given answers of tools."""
        self.called_ns = NEVER
        """When the first call began, or the first model had asked for one."""
        self.first: Claim | None = None
        """What the earliest span told of the session."""
        self.first_ns = 0
        self.first_by = b""
        """When that span began, and its id."""
        self._key: SessionKey | None = None
        self.session_from = FROM_TRACE
        self._extras: dict[str, tuple[int, bytes, Any, Mapping[str, Any]]] | None = None
        """Attributes of its spans that specs bind on, each with those it was read with, which count."""
        self.named: Named | None = None
        self.learnt: Mapping[str, Any] | None = None
        """The attributes the monitor was last told of."""
        self.learnt_named: Named | None = None
        """The agent's name it was last told of, by a span that is no call."""
        self.requester: Requester | None = None
        """Who asked for calls in it, for tool spans that another service sends."""
        self.open: OpenRequest | dict[str, OpenRequest] | None = None
        """Tool -> requests that wait for their execution."""
        self.foreign = 0
        """Of `spans`, those that speak no dialect."""
        self.missed: dict[str, int] | None = None
        """What of it was not judged, or not for certain, that its session was not told of."""
        self._joined: dict[int, tuple[Mapping[str, Any], Mapping[str, Any]]] | None = None

    @property
    def key(self) -> SessionKey:
        """The session it is of: one of its own, made when first asked for, while none is told."""
        if self._key is None:
            self._key = built(SessionKey, (self.namespace, self.trace_id.hex()))
        return self._key

    @property
    def span_claim(self) -> SpanClaim | None:
        """What the earliest span told of the session, and when."""
        first = self.first
        return first.by(self.first_by, self.first_ns) if first is not None else None

    def set_first(self, claim: Claim, span_id: bytes, start_ns: int) -> None:
        """A span has told of the session that is earlier than all that have."""
        self.first, self.first_by, self.first_ns = claim, span_id, start_ns

    def is_earlier(self, claim: Claim, span_id: bytes, start_ns: int) -> bool:
        """True where a span that tells a session counts before the one that told it."""
        first = self.first
        return first is None or claim.counts_before(
            span_id, start_ns, first, self.first_by, self.first_ns
        )

    def belong(self, first: Claim) -> SessionKey | None:
        """It is of the session that was told.

        Returns:
            The one it was of before; None where nobody has heard of that.
        """
        before, self._key, self.session_from = self._key, first.key, first.name
        return before

    def unbelong(self, before: SessionKey) -> None:
        """Its calls could not be moved: it is of the session it was of, and may be told again."""
        self.first, self._key, self.session_from = None, before, FROM_TRACE

    @property
    def is_rest(self) -> bool:
        """True where its session, which nobody has told, made calls that are not in it.

        So it is with a conversation that names no session, where each turn is a trace: a model was
        given answers of tools before a call was made or asked for in this one.
        """
        return self.answered_ns < self.called_ns and self.first is None

    def miss(self, reason: str) -> None:
        """One of its spans was not judged, or not for certain."""
        if self.missed is None:
            self.missed = {}
        self.missed[reason] = self.missed.get(reason, 0) + 1

    def add(self, extras: Mapping[str, Any], start_ns: int, span_id: bytes) -> None:
        """Takes note of attributes that specs bind on: of each, the earliest span's."""
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
        """A resource's attributes with what spans add; one object while nothing is new.

        What the resource says itself stays, but for the keys that are `overruling`.
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
    """What spans say beside their resource: theirs is the agent's word, the resource's is not."""
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
    """All traces, bounded in number, in time, and in the spans they remember.

    Args:
        traces_max: bound on the traces remembered.
        spans_max: spans remembered in trees before a period ends early.
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
        """Bytes of the arguments that trees hold, about."""
        self._given_up = 0
        self._traces_max = traces_max
        self._spans_max = spans_max
        self._period_ns = period_ns
        self._soon_ns = period_ns // SOON
        self._recent: dict[str, dict[bytes, Trace]] = {}
        self._older: dict[str, dict[bytes, Trace]] = {}
        """Two generations of each tenant: what is not asked for while the recent one fills up is
        forgotten, of the tenant that has most. By namespace, and then by trace id."""
        self._names: dict[str, str] = {}
        """Namespace -> the tenant whose share its traces are in."""
        self._recent_held = Holdings()
        self._older_held = Holdings()
        """How many traces each tenant has in them."""
        self._near: list[Trace | None] = [None] * NEAR
        """Recent traces, each at a place that its id gives: dictionaries cost four times as much."""
        self._gone: list[dict[bytes, Trace]] = []
        """Traces that are not asked for any more: one goes for each that comes."""
        self._young: list[Trace] = []
        self._old: list[Trace] = []
        """Those with spans of this period, and of the one before."""
        self._leaving: list[Trace] = []
        """Those with spans of the period before these: what had none since is to be forgotten."""
        self._leaving_count = 0
        """How many these were when the period began."""
        self._epoch = 0
        self._since = 0
        self._spans = 0
        self._broken: list[tuple[Trace, int]] = []

    def __iter__(self) -> Iterator[Trace]:
        yield from _all(self._older)
        yield from _all(self._recent)

    def of(self, namespace: str, trace_id: bytes) -> Trace:
        """The trace, which is one of the recently seen ones now."""
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
        """A trace that is new, or was not seen for long."""
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
        """The recent traces of a tenant are its older ones now; too many of these are forgotten."""
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
        """Forgets one of the traces that are not asked for any more."""
        gone = self._gone
        while gone:
            if gone[-1]:
                self._forget(gone[-1].popitem()[1])
                return
            gone.pop()

    def grow(self, trace: Trace, now: int) -> Tree:
        """The trace's tree, with room for one span more."""
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
        """A tree holds the arguments of one call more, which has been told by now."""
        if arguments:
            self._hold(tree, arguments_bytes(arguments))

    def _hold(self, tree: Tree, size: int) -> None:
        tree.held += size
        self.held += size
        if self.held > self._bytes_max:
            self._give_up()

    def _give_up(self) -> None:
        """Gives up arguments: of the tenant that holds most its largest trees, then its oldest."""
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
            trees.reverse()  # what is taken from the end is the largest, then the oldest
        wanted = self._bytes_max - self._bytes_max // KEPT_SHARE
        while held.total > wanted:
            name = held.most()
            tree = by_tenant[name].pop()
            held.add(name, -tree.held)
            self.held -= tree.held
            self._given_up += tree.give_up()

    def given_up(self) -> int:
        """Calls whose arguments were given up since this was last asked."""
        found, self._given_up = self._given_up, 0
        return found

    def expire(self, now: int) -> None:
        """Time has passed, whether spans have come or not: trees that are due are forgotten."""
        if now - self._since >= self._period_ns:
            self._turn(now)
        elif self._leaving and self._is_behind(now):
            self._leave(EXPIRED_AT_ONCE)

    def _renew(self, trace: Trace) -> None:
        """The first span of a period has come to a trace: an old one's tree goes.

        One for one: the new tree is made of its memory, which is in the cache by then.
        """
        trace.epoch = self._epoch
        self._leave(1)
        self._young.append(trace)
        if trace.tree is not None:
            self._spans += trace.tree.size

    def _is_behind(self, now: int) -> bool:
        """True where more trees are left to go than there are spans, or time, for."""
        left, rest_ns = len(self._leaving), self._since + self._soon_ns - now
        return (
            left > self._spans_max - self._spans
            or left * self._soon_ns > self._leaving_count * rest_ns
        )

    def _turn(self, now: int) -> None:
        """A period is over: trees that no span came to are forgotten from now on."""
        self._leave(len(self._leaving))
        self._leaving, self._old, self._young = self._old, self._young, []
        self._leaving.reverse()
        self._leaving_count = len(self._leaving)
        self._epoch += 1
        self._since = now
        self._spans = 0

    def _leave(self, count: int) -> None:
        """Forgets trees that no span has come to for a period, the oldest first."""
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
        """Traces forgotten since this was last asked, with the spans their calls still waited for."""
        found, self._broken = self._broken, []
        return found

    def close(self) -> None:
        """The input is over: no span will come any more."""
        while self._gone:
            self._drop()
        for trace in self:
            self._forget(trace)


def _less_held(tree: Tree) -> int:
    return -tree.held


def _all(generation: Mapping[str, Mapping[bytes, Trace]]) -> Iterator[Trace]:
    return (trace for traces in generation.values() for trace in traces.values())
