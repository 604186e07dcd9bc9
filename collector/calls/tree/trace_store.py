"""Traces: the session of each, and its tree of spans.

Idea: spans arrive in any order, children before parents and the pieces of one call apart. So a trace is remembered
twice: in full (its tree) for 2 to 4 minutes after its last span, and in few bytes (its session, `settled_trace`) for as
long as there is room, since the id of a session may arrive late.

Invariants:

- Traces and bytes of arguments have bounds: what is forgotten at a bound is of the tenant that holds most. Spans in
  trees have a bound, too, in number and bytes: at it, the period ends early for all.
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

from collector.calls.tree.settled_trace import SettledTrace, settled
from collector.calls.tree.span_tree import TREE_MAX, Parts, SpanTree
from collector.calls.tree.trace import NEVER, Trace
from monitor.records import Returned, SessionKey
from monitor.tenants import Holdings
from monitor.weights import arguments_bytes, result_bytes

__all__ = ["ARGUMENTS_BYTES_MAX", "SPANS_BYTES_MAX", "TRACES_MAX", "TREES_SHARE", "Traces"]

TRACES_MAX: Final = 200_000
"""Traces remembered for late session ids. At the bound, the less recently seen half of a tenant's is forgotten."""

PERIOD_NS: Final = 120 * 1_000_000_000
"""A tree is forgotten one to two periods after its last span, or soon after that (`SOON`)."""

SPANS_MAX: Final = 50_000
"""Spans in trees after which a period ends early, if they are small."""

SPANS_BYTES_MAX: Final = 192 << 20
"""Bound on what is remembered of spans, without arguments: trees, and ids of judged spans (`duplicate_spans`)."""

TREES_SHARE: Final = 3
"""A third of it is for trees."""

PERIODS: Final = 3
"""Trees of so many periods are there at once: a period ends at a third of what trees may take."""

SPAN_BYTES: Final = 256
CALL_BYTES: Final = 768
"""Approximate bytes of a span in a tree and of its call, without arguments."""

TRACE_BYTES: Final = 320
"""Approximate bytes of a trace without its tree."""

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

_Generation = dict[bytes, Trace | SettledTrace]


class Traces:
    """All traces, bounded by number, by time, and by the spans in their trees.

    Args:
        traces_max: bound on the number of traces.
        spans_max: spans in trees after which a period ends early.
        period_ns: length of a period, Unix nanoseconds.
        bytes_max: bound on the arguments that trees hold.
        trees_bytes_max: bound on the trees without them.
    """

    def __init__(
        self,
        traces_max: int = TRACES_MAX,
        spans_max: int = SPANS_MAX,
        period_ns: int = PERIOD_NS,
        bytes_max: int = ARGUMENTS_BYTES_MAX,
        trees_bytes_max: int = SPANS_BYTES_MAX // TREES_SHARE,
    ) -> None:
        self._bytes_max = bytes_max
        self._period_bytes_max = trees_bytes_max // PERIODS
        self._taken = 0
        """Approximate bytes of the trees with spans of this period, without arguments."""
        self._trees_bytes = 0
        """Bytes of all trees."""
        self.held = 0
        """Approximate bytes of the arguments that trees hold."""
        self._given_up = 0
        self._traces_max = traces_max
        self._spans_max = spans_max
        self._period_ns = period_ns
        self._soon_ns = period_ns // SOON
        self._recent: dict[str, _Generation] = {}
        self._older: dict[str, _Generation] = {}
        """Namespace -> trace id -> trace, in two generations. When the recent one is full, that of the tenant with
        most traces becomes its older one, and its former older one is forgotten."""
        self._names: dict[str, str] = {}
        """Namespace -> the tenant whose share its traces count in."""
        self._recent_held = Holdings()
        self._older_held = Holdings()
        """Traces of each tenant in the two generations."""
        self._near: list[Trace | None] = [None] * NEAR
        """Recent traces, in the slot their id gives: two dictionary look-ups cost four times as much."""
        self._gone: list[_Generation] = []
        """Forgotten traces: one is freed for each new trace."""
        self._young: list[Trace] = []
        self._old: list[Trace] = []
        """Traces with spans of this period, and of the one before."""
        self._leaving: list[Trace] = []
        """Traces with spans of the period before that. Trees without a span since then are due to be freed."""
        self._leaving_count = 0
        """Number of leaving traces when the period began."""
        self._epoch = 0
        self._since = 0
        self._spans = 0
        self._broken: list[tuple[Trace, int]] = []
        self.continued: list[tuple[Trace, int, int]] = []
        """Traces whose trees were freed, and whose models were given results of calls that they lack, with the number of these and
        when the trace began; who counts them empties the list."""

    def __iter__(self) -> Iterator[Trace]:
        yield from _all(self._older)
        yield from _all(self._recent)

    def of(self, namespace: str, trace_id: bytes) -> Trace:
        """The trace, which counts as recently seen from now on."""
        place = _place(trace_id)
        near = self._near[place]
        if near is not None and near.trace_id == trace_id and near.namespace == namespace:
            return near
        recent = self._recent.get(namespace)
        known = recent.get(trace_id) if recent is not None else None
        if known is None:
            trace = self._renewed(namespace, trace_id)
        elif isinstance(known, Trace):
            trace = known
        else:
            trace = known.trace(namespace, trace_id)
            if recent is not None:
                recent[trace_id] = trace
        self._near[place] = trace
        return trace

    def find(self, namespace: str, trace_id: bytes) -> Trace | None:
        """The trace, if it is known. It does not count as seen."""
        for generation in (self._recent, self._older):
            traces = generation.get(namespace)
            known = traces.get(trace_id) if traces is not None else None
            if known is not None:
                return known if isinstance(known, Trace) else known.trace(namespace, trace_id)
        return None

    def sessions(self, trace_id: bytes, namespace: str | None = None) -> list[SessionKey]:
        """The sessions of a trace's calls as far as is known, of the trace with this id in one namespace or in any."""
        namespaces = {*self._recent, *self._older} if namespace is None else {namespace}
        found = [self.find(each, trace_id) for each in sorted(namespaces)]
        return [key for trace in found if trace is not None for key in trace.sessions()]

    def _renewed(self, namespace: str, trace_id: bytes) -> Trace:
        """A trace that is new, or of the older generation."""
        older = self._older.get(namespace)
        known = older.pop(trace_id, None) if older is not None else None
        if known is None:
            trace = Trace(namespace, trace_id)
        else:
            trace = known if isinstance(known, Trace) else known.trace(namespace, trace_id)
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
                trace = gone[-1].popitem()[1]
                if isinstance(trace, Trace):
                    self._forget(trace)
                return
            gone.pop()

    def grow(self, trace: Trace, now: int) -> SpanTree:
        """The trace's tree, with room for one more span."""
        if now < self._since:  # the clock was set back
            self._since = now
        if now - self._since >= self._period_ns:
            self._turn(now)
        elif self._spans >= self._spans_max or self._taken >= self._period_bytes_max:
            self._turn_early(now)
        if self._leaving and self._is_behind(now):
            self._leave(AT_ONCE)
        if trace.epoch != self._epoch:
            self._renew(trace)
        tree = trace.tree
        if tree is None:
            tree = trace.tree = SpanTree()
            if trace.split:
                tree.parts = Parts()
        self._spans += 1
        tree.taken += SPAN_BYTES
        self._taken += SPAN_BYTES
        self._trees_bytes += SPAN_BYTES
        if tree.size >= TREE_MAX:
            tree.shrink()
            self._hold(tree, tree.weigh() - tree.held)
            gone = tree.taken // 2
            tree.taken -= gone
            self._trees_bytes -= gone
        return tree

    def hold(
        self, tree: SpanTree, arguments: Mapping[str, Any] | None, result: Returned = ()
    ) -> None:
        """Counts one more call of a tree, its arguments and its result, once the call is judged."""
        tree.taken += CALL_BYTES
        self._taken += CALL_BYTES
        self._trees_bytes += CALL_BYTES
        size = arguments_bytes(arguments) if arguments else 0
        if result:
            size += result_bytes(result)
        if size:
            self._hold(tree, size)

    def _hold(self, tree: SpanTree, size: int) -> None:
        tree.held += size
        self.held += size
        if self.held > self._bytes_max:
            self._give_up()

    def _give_up(self) -> None:
        """Frees arguments until 3/4 of the bound are held: of the tenant that holds most, its largest trees first.

        Before that, results that nobody has read yet are read: little of them is kept.
        """
        held = Holdings()
        by_tenant: dict[str, list[SpanTree]] = {}
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
        heavy = {name: list(trees) for name, trees in by_tenant.items()}
        while held.total > target:
            name = held.most()
            if heavy[name]:
                freed = heavy[name].pop().lighten()
                held.add(name, -freed)
                self.held -= freed
                continue
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
            self._taken += trace.tree.taken

    def _is_behind(self, now: int) -> bool:
        """True if more trees are left to free than there are spans, or time, left for."""
        left, rest_ns = len(self._leaving), self._since + self._soon_ns - now
        room = (self._period_bytes_max - self._taken) // (SPAN_BYTES + CALL_BYTES)
        return (
            left > room
            or left > self._spans_max - self._spans
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
        self._spans = self._taken = 0

    def _turn_early(self, now: int) -> None:
        """Begins a period as there are too many spans, or they take too much: for tenants with over half a fair share of that.

        The trees of the others stay as young as they are. So they are freed as time passes, not by a flood.
        """
        held, by_bytes = Holdings(), self._taken >= self._period_bytes_max
        for trace in chain(self._old, self._young):
            tree = trace.tree
            if tree is not None:
                held.add(held.name(trace.namespace), tree.taken if by_bytes else tree.size)
        shares = held.held
        share = (self._taken if by_bytes else self._spans) // (2 * max(1, len(shares)))
        small = {name for name, size in shares.items() if size <= share}
        epoch, since = self._epoch, self._since
        old, young = self._old, self._young
        if small:
            self._old = [each for each in old if held.name(each.namespace) not in small]
            self._young = [each for each in young if held.name(each.namespace) not in small]
        self._turn(now)
        if not small:
            return
        self._since = since
        for trace in old:
            if trace.epoch == epoch - 1 and held.name(trace.namespace) in small:
                trace.epoch = epoch
                self._old.append(trace)
        for trace in young:
            if trace.epoch == epoch and held.name(trace.namespace) in small:
                trace.epoch = epoch + 1
                self._young.append(trace)
                if trace.tree is not None:
                    self._spans += trace.tree.size
                    self._taken += trace.tree.taken

    def _leave(self, count: int) -> None:
        """Frees up to `count` trees that are due, the oldest first."""
        leaving = self._leaving
        for _ in range(min(count, len(leaving))):
            trace = leaving.pop()
            if trace.epoch < self._epoch - 1:
                self._settle(trace)

    def _settle(self, trace: Trace) -> None:
        """Frees a trace's tree, and keeps of the trace what it takes to know its session."""
        tree = trace.tree
        self._forget(trace)
        packed = settled(trace) if tree is not None and not tree.missing else None
        if packed is None:
            return
        for generation in (self._recent, self._older):
            traces = generation.get(trace.namespace)
            if traces is not None and traces.get(trace.trace_id) is trace:
                traces[trace.trace_id] = packed
        place = _place(trace.trace_id)
        if self._near[place] is trace:
            self._near[place] = None

    def _forget(self, trace: Trace) -> None:
        if trace.answered_ns < NEVER or trace.given:
            self._note_continued(trace)
        tree, trace.tree = trace.tree, None
        if tree is None:
            return
        self.held -= tree.held
        self._trees_bytes -= tree.taken
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

    def _note_continued(self, trace: Trace) -> None:
        """Notes the results of calls that a trace lacks, once: no later span of it is its first request."""
        if trace.modelled_ns and trace.goes_on:
            begun_ns = min(trace.modelled_ns, trace.called_ns)
            self.continued.append((trace, max(trace.given, 1), begun_ns))
            trace.modelled_ns = 0

    def close(self) -> None:
        """Frees all trees: the input is over."""
        while self._gone:
            self._drop()
        for trace in self:
            self._forget(trace)

    @property
    def trees_bytes(self) -> int:
        """What trees take without the arguments of their calls, about."""
        return self._trees_bytes

    @property
    def traces_bytes(self) -> int:
        """What traces take without their trees, about."""
        return TRACE_BYTES * (self._recent_held.total + self._older_held.total)


def _less_held(tree: SpanTree) -> int:
    return -tree.held


def _place(trace_id: bytes) -> int:
    """A trace's slot in the first-level cache."""
    return trace_id[-1] * 16 + (trace_id[len(trace_id) >> 1] & 15)


def _all(generation: Mapping[str, _Generation]) -> Iterator[Trace]:
    """Those that may have trees."""
    for traces in generation.values():
        for trace in traces.values():
            if isinstance(trace, Trace):
                yield trace
