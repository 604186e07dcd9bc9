"""What the spans of one trace have told: who is whose parent, and what each said.

A trace is remembered for long in few bytes (whose session it is), and for minutes in full (its
tree), because spans arrive in any order: children before parents, and pieces of one call apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

from mypy_extensions import mypyc_attr

from monitor.records import FROM_TRACE, Named, SessionKey, built

if TYPE_CHECKING:
    from collector.dialects.wrappers import Wrapped
    from collector.one_call import Call
    from collector.requested import Open
    from collector.sessions import Asker

__all__ = ["DEPTH_MAX", "TRACES_MAX", "Told", "Trace", "Traces", "Tree"]

TRACES_MAX: Final = 200_000
"""Traces remembered for late ids, of which the half that was seen least recently is forgotten."""

PERIOD_NS: Final = 120 * 1_000_000_000
"""A tree is forgotten one to two periods after its last span."""

SPANS_MAX: Final = 50_000
"""Spans in trees before a period ends early: about 20 MB with what hangs on them."""

TREE_MAX: Final = 4_096
"""Spans in one tree; beyond it the older half is forgotten."""

DEPTH_MAX: Final = 64
"""Ancestors looked at; agents nest less."""

WAITING_MAX: Final = 1_024
"""Calls that wait for one ancestor; more stay as they are."""

RESOURCES_MAX: Final = 64
"""Services of one trace whose attributes are kept joined."""


@mypyc_attr(acyclic=True)
class Told:
    """A session id, and the span that told it: the best rung of the earliest span counts."""

    __slots__ = ("key", "name", "rung", "span_id", "start_ns")

    def __init__(
        self, rung: int, start_ns: int, span_id: bytes, key: SessionKey, name: str
    ) -> None:
        self.rung = rung
        self.start_ns = start_ns
        self.span_id = span_id
        self.key = key
        self.name = name

    def counts_before(self, other: Told) -> bool:
        """True where this says more than the other of whose the trace is."""
        if self.rung != other.rung:
            return self.rung < other.rung
        if self.start_ns != other.start_ns:
            return self.start_ns < other.start_ns
        return (self.span_id, self.key, self.name) < (other.span_id, other.key, other.name)

    @property
    def whose(self) -> tuple[SessionKey, str]:
        """The session, and what told it."""
        return self.key, self.name


@mypyc_attr(acyclic=True)
class Tree:
    """The spans of one trace that are still remembered, by span id."""

    __slots__ = (
        "agents",
        "as_written",
        "by_id",
        "calls",
        "early",
        "hints",
        "loose",
        "loosened",
        "parents",
        "session",
        "split",
        "stops",
        "told",
        "waiting",
        "wrapped",
    )

    def __init__(self, *, split: bool = False) -> None:
        self.split = split
        """True once two sessions were told in the trace."""
        self.parents: dict[bytes, bytes] = {}
        self.told: dict[bytes, Told] = {}
        self.as_written = b""
        """A session's id as it was last on the wire: most spans of a trace repeat it."""
        self.session: SessionKey | None = None
        """The session it names."""
        self.agents: dict[bytes, str] = {}
        self.stops: set[bytes] = set()
        self.wrapped: dict[bytes, tuple[Wrapped, ...]] | None = None
        """Span around calls -> the calls it lists; few frameworks have such spans."""
        self.calls: dict[bytes, Call] = {}
        self.by_id: dict[tuple[str, str], list[bytes]] = {}
        """(call id, tool) -> spans of calls."""
        self.early: dict[str, int] | None = None
        """Tool -> executions that no model has been seen to ask for."""
        self.waiting: dict[bytes, list[bytes]] = {}
        """Span that has not come -> spans of calls whose way up ends there."""
        self.hints: dict[bytes, Told] = {}
        """Span -> the session told by the earliest span below it; kept once a trace is split."""
        self.loosened = False
        """True where more calls are loose than were last looked at."""
        self.loose: dict[int, Call] = {}
        """Calls of a split trace whose session may still change."""

    def ancestors(self, span_id: bytes) -> Iterator[bytes]:
        """The known ancestors, nearest first, and last the one that has not come, if any."""
        parents = self.parents
        for _ in range(DEPTH_MAX):
            above = parents.get(span_id)
            if not above:
                return
            yield above
            span_id = above

    def wait(self, above: bytes, span_id: bytes) -> None:
        """A call's span is looked at again when one above it comes."""
        waiting = self.waiting.get(above)
        if waiting is None:
            self.waiting[above] = [span_id]
        elif len(waiting) < WAITING_MAX and span_id != waiting[-1]:
            waiting.append(span_id)

    def wait_on_top(self, span_id: bytes) -> None:
        """A call's span is looked at again when the next one on its way up comes."""
        *_, top = span_id, *self.ancestors(span_id)
        if top not in self.parents:
            self.wait(top, span_id)

    def above(self, call: Call) -> None:
        """Tells a call what is above it by now: who it acts for, and the span around it."""
        outer = call.outer
        beyond = self.parents.get(outer.parent)
        if beyond is None:
            call.look_up("", None, b"")  # the way up ends here
            return
        agent = "" if outer.agent else self._agent_above(outer.span_id)
        wrapped = self.wrapped.get(outer.parent) if self.wrapped is not None else None
        call.look_up(agent, wrapped, beyond)

    def wrap(self, span_id: bytes, calls: tuple[Wrapped, ...]) -> None:
        """A span is around calls, which it lists."""
        if self.wrapped is None:
            self.wrapped = {}
        self.wrapped[span_id] = calls

    def _agent_above(self, span_id: bytes) -> str:
        """The agent that the nearest ancestor names."""
        agents, parents = self.agents, self.parents
        above = parents.get(span_id)
        for _ in range(DEPTH_MAX):
            if not above:
                break
            agent = agents.get(above)
            if agent is not None:
                return agent
            above = parents.get(above)
        return ""

    def hint(self, told: Told, span_id: bytes) -> None:
        """What was told below `span_id` is a hint for it and for those above."""
        for above in self.ancestors(span_id):
            known = self.hints.get(above)
            if known is not None and not told.counts_before(known):
                return
            self.hints[above] = told

    def loosen(self) -> None:
        """What was told may be of any call by now: all are loose until they are looked at again."""
        self.loosened = True
        self.loose.update((id(call), call) for call in self.calls.values())

    def shrink(self) -> None:
        """Forgets the older half of the spans, and all that hangs on them."""
        for span_id in list(self.parents)[: len(self.parents) // 2]:
            del self.parents[span_id]
            self.calls.pop(span_id, None)
        kept = self.parents
        self.told = {key: told for key, told in self.told.items() if key in kept}
        self.agents = {key: name for key, name in self.agents.items() if key in kept}
        if self.wrapped is not None:
            self.wrapped = {key: calls for key, calls in self.wrapped.items() if key in kept}
        self.stops &= kept.keys()
        self.waiting = _still(self.waiting, kept)
        self.by_id = _still(self.by_id, kept)
        self.loose = {
            key: call for key, call in self.loose.items() if call.outer.span_id in kept
        }
        self.hints = {
            key: hint for key, hint in self.hints.items() if key in kept or key in self.waiting
        }


_Key = TypeVar("_Key")


def _still(
    memory: dict[_Key, list[bytes]], kept: Mapping[bytes, bytes]
) -> dict[_Key, list[bytes]]:
    """The lists without spans that are forgotten."""
    lists = ((key, [span for span in spans if span in kept]) for key, spans in memory.items())
    return {key: spans for key, spans in lists if spans}


@mypyc_attr(acyclic=True)
class Trace:
    """One trace of one tenant."""

    __slots__ = (
        "_extras",
        "_joined",
        "_key",
        "asker",
        "epoch",
        "first",
        "foreign",
        "has_tools",
        "heard",
        "learnt",
        "learnt_early",
        "learnt_named",
        "named",
        "namespace",
        "open",
        "sampled",
        "session_from",
        "spans",
        "split",
        "trace_id",
        "tree",
    )

    def __init__(self, namespace: str, trace_id: bytes) -> None:
        self.namespace = namespace
        self.trace_id = trace_id
        self._key: SessionKey | None = None
        self.session_from = FROM_TRACE
        self.first: Told | None = None
        """What the earliest span told of the session."""
        self.split = False
        """True once two sessions were told in it."""
        self.has_tools = False
        """True once a tool span was seen in it."""
        self.asker: Asker | None = None
        """Who asked for calls in it, for tool spans that another service sends."""
        self.open: Open | dict[str, Open] | None = None
        """Tool -> requests that wait for their execution."""
        self.named: Named | None = None
        self._extras: dict[str, tuple[int, bytes, Any]] | None = None
        """Attributes of its spans that specs bind on."""
        self._joined: dict[int, tuple[Mapping[str, Any], Mapping[str, Any]]] | None = None
        self.sampled = False
        """True where only a share of such traces is kept."""
        self.learnt: Mapping[str, Any] | None = None
        """The attributes the monitor was last told of."""
        self.learnt_early = False
        """True once it was told of a span from before our start."""
        self.learnt_named: Named | None = None
        """The agent's name it was last told of, by a span that is no call."""
        self.tree: Tree | None = None
        self.epoch = -1
        self.spans = 0
        """Its spans that no session was told of yet."""
        self.foreign = 0
        """Those of them that speak no dialect."""
        self.heard = False
        """True while one of this request is to be told."""

    @property
    def key(self) -> SessionKey:
        """The session it is of: one of its own, made when first asked for, while none is told."""
        if self._key is None:
            self._key = built(SessionKey, (self.namespace, self.trace_id.hex()))
        return self._key

    def belong(self, told: Told) -> SessionKey | None:
        """It is of the session that was told.

        Returns:
            The one it was of before; None where nobody has heard of that.
        """
        before, self._key, self.session_from = self._key, told.key, told.name
        return before

    def add(self, extras: Mapping[str, Any], start_ns: int, span_id: bytes) -> None:
        """Takes note of attributes that specs bind on: of each, the earliest span's."""
        place = (start_ns, span_id)
        if self._extras is None:
            self._extras = {}
        for key, value in extras.items():
            known = self._extras.get(key)
            if known is None or place < known[:2]:
                self._extras[key] = (*place, value)
                if known is None or known[2] != value:
                    self._joined = None

    def attributes(self, resource: Mapping[str, Any]) -> Mapping[str, Any]:
        """A resource's attributes with what spans add; one object while nothing is new."""
        if not self._extras:
            return resource
        joined = self._joined
        found = joined.get(id(resource)) if joined is not None else None
        if found is None or found[0] is not resource:
            if joined is None or len(joined) >= RESOURCES_MAX:
                joined = self._joined = {}
            extras = {key: value for key, (_, _, value) in self._extras.items()}
            found = joined[id(resource)] = (resource, {**resource, **extras})
        return found[1]


class Traces:
    """All traces, bounded in number, in time, and in the spans they remember.

    Args:
        traces_max: bound on the traces remembered.
        spans_max: spans remembered in trees before a period ends early.
        period_ns: length of a period, Unix nanoseconds.
    """

    def __init__(
        self,
        traces_max: int = TRACES_MAX,
        spans_max: int = SPANS_MAX,
        period_ns: int = PERIOD_NS,
    ) -> None:
        self._traces_max = traces_max
        self._spans_max = spans_max
        self._period_ns = period_ns
        self._recent: dict[str, dict[bytes, Trace]] = {}
        self._older: dict[str, dict[bytes, Trace]] = {}
        """Two generations: what is not asked for while the recent one fills up is forgotten. By
        namespace, and then by trace id."""
        self._recent_count = 0
        self._young: list[Trace] = []
        self._old: list[Trace] = []
        self._epoch = 0
        self._since = 0
        self._spans = 0
        self._broken: list[tuple[Trace, int]] = []

    def __iter__(self) -> Iterator[Trace]:
        yield from _all(self._older)
        yield from _all(self._recent)

    def of(self, namespace: str, trace_id: bytes) -> Trace:
        """The trace, which is one of the recently seen ones now."""
        recent = self._recent.get(namespace)
        if recent is not None:
            trace = recent.get(trace_id)
            if trace is not None:
                return trace
        return self._renewed(namespace, trace_id)

    def _renewed(self, namespace: str, trace_id: bytes) -> Trace:
        """A trace that is new, or was not seen for long."""
        older = self._older.get(namespace)
        trace = older.pop(trace_id, None) if older is not None else None
        if trace is None:
            trace = Trace(namespace, trace_id)
        if self._recent_count >= self._traces_max // 2:
            for gone in _all(self._older):
                self._forget(gone)
            self._recent, self._older, self._recent_count = {}, self._recent, 0
        recent = self._recent.get(namespace)
        if recent is None:
            recent = self._recent[namespace] = {}
        recent[trace_id] = trace
        self._recent_count += 1
        return trace

    def grow(self, trace: Trace, span_id: bytes, parent: bytes, now: int) -> Tree:
        """The trace's tree with one span more."""
        if now - self._since >= self._period_ns or self._spans >= self._spans_max:
            self._turn(now)
        tree = trace.tree
        if tree is None:
            tree = trace.tree = Tree(split=trace.split)
        if trace.epoch != self._epoch:
            trace.epoch = self._epoch
            self._young.append(trace)
            self._spans += len(tree.parents)
        self._spans += 1
        if len(tree.parents) >= TREE_MAX:
            tree.shrink()
        tree.parents[span_id] = parent
        return tree

    def _turn(self, now: int) -> None:
        """A period is over: trees that no span came to are forgotten."""
        for trace in self._old:
            if trace.epoch < self._epoch:
                self._forget(trace)
        self._old, self._young = self._young, []
        self._epoch += 1
        self._since = now
        self._spans = 0

    def _forget(self, trace: Trace) -> None:
        tree, trace.tree = trace.tree, None
        if tree is not None and tree.waiting:
            self._broken.append((trace, len(tree.waiting)))

    def broken(self) -> list[tuple[Trace, int]]:
        """Traces forgotten since this was last asked, with the spans their calls still waited for."""
        found, self._broken = self._broken, []
        return found

    def close(self) -> None:
        """The input is over: no span will come any more."""
        for trace in self:
            self._forget(trace)


def _all(generation: Mapping[str, Mapping[bytes, Trace]]) -> Iterator[Trace]:
    return (trace for traces in generation.values() for trace in traces.values())
