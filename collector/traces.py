"""What the spans of one trace have told: who is whose parent, and what each said.

A trace is remembered for long in few bytes (whose session it is), and for minutes in full (its
tree), because spans arrive in any order: children before parents, and pieces of one call apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from mypy_extensions import mypyc_attr

from monitor.records import FROM_TRACE, Named, SessionKey, built

if TYPE_CHECKING:
    from collector.dialects.wrappers import Wrapped
    from collector.one_call import Call
    from collector.requested import Open
    from collector.sessions import Asker

__all__ = [
    "DEPTH_MAX",
    "FEW",
    "NEVER",
    "TRACES_MAX",
    "Alike",
    "Claim",
    "Node",
    "Parts",
    "Told",
    "Trace",
    "Traces",
    "Tree",
]

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

TREE_MAX: Final = 4_096
"""Spans in one tree; beyond it the older half is forgotten."""

DEPTH_MAX: Final = 64
"""Ancestors looked at; agents nest less."""

FEW: Final = 8
"""Calls of one tree that are looked through one by one; most trees have no more."""

ASKED_MAX: Final = 1_024
ASKED_A_SPAN: Final = 4
"""Calls that models were seen to ask for, noted in one tree, and for each of its spans: models ask for
hundreds at once if they like."""

NEAR: Final = 4_096
"""Traces found without their dictionary, where no other has taken the place."""

WAITING_MAX: Final = 1_024
"""Calls that wait for one ancestor; more stay as they are."""

NEVER: Final = 2**62 - 1
"""The time of what has not been."""

RESOURCES_MAX: Final = 64
"""Services of one trace whose attributes are kept joined."""


@mypyc_attr(acyclic=True)
class Claim:
    """A session as spans of a trace tell it: many of them the same."""

    __slots__ = ("key", "name", "rung")

    def __init__(self, rung: int, key: SessionKey, name: str) -> None:
        self.rung = rung
        """The place of what told it on the ladder of ids: the least says most."""
        self.key = key
        self.name = name
        """What told it."""

    def told(self, span_id: bytes, start_ns: int) -> Told:
        """The same as one span told it."""
        return Told(self, span_id, start_ns)

    def counts_before(
        self, span_id: bytes, start_ns: int, other: Claim, other_id: bytes, other_ns: int
    ) -> bool:
        """True where this says more, as one span told it, than another as another did."""
        if self.rung != other.rung:
            return self.rung < other.rung
        if start_ns != other_ns:
            return start_ns < other_ns
        return (span_id, self.key, self.name) < (other_id, other.key, other.name)


@mypyc_attr(acyclic=True)
class Told:
    """A session id, and the span that told it: the best rung of the earliest span counts."""

    __slots__ = ("claim", "span_id", "start_ns")

    def __init__(self, claim: Claim, span_id: bytes, start_ns: int) -> None:
        self.claim = claim
        self.span_id = span_id
        self.start_ns = start_ns

    def counts_before(self, other: Told) -> bool:
        """True where this says more than the other of whose the trace is."""
        return self.claim.counts_before(
            self.span_id, self.start_ns, other.claim, other.span_id, other.start_ns
        )

    @property
    def whose(self) -> tuple[SessionKey, str]:
        """The session, and what told it."""
        return self.claim.key, self.claim.name


@mypyc_attr(acyclic=True)
class Node:
    """One span of a tree: one that has come, or one that others name as their parent."""

    __slots__ = (
        "above",
        "agent",
        "call",
        "claim",
        "entry",
        "failed",
        "place",
        "span_id",
        "start_ns",
        "stops",
        "waiting",
    )

    def __init__(self, span_id: bytes) -> None:
        self.span_id = span_id
        self.place = 0
        """Among the spans that came, from 1 on; 0 for one that has not."""
        self.above: Node | None = None
        """Its parent, but for those in `Tree.looped`; who walks asks `Tree.up`."""
        self.agent = ""
        """The agent it names."""
        self.stops = False
        """True where no call above it is the same as one below."""
        self.entry = False
        """True for what a service was asked for from outside."""
        self.failed = False
        """True once a span below it has said that its call failed."""
        self.claim: Claim | None = None
        """The session it tells itself."""
        self.start_ns = 0
        """When it began, where it tells one."""
        self.call: Call | None = None
        """The call it is, or is a piece of."""
        self.waiting: list[bytes] | None = None
        """Calls' spans whose way up ends here, while it has not come."""

    @property
    def came(self) -> bool:
        """False for a span that is only known as the parent of others."""
        return self.place != 0

    @property
    def told(self) -> Told | None:
        """The session it tells itself, and when."""
        claim = self.claim
        return claim.told(self.span_id, self.start_ns) if claim is not None else None

    def forget(self) -> None:
        """It is as if it had not come."""
        self.place, self.stops, self.entry, self.failed = 0, False, False, False
        self.above = self.claim = self.call = None
        self.agent = ""


@mypyc_attr(acyclic=True)
class Alike:
    """Spans of calls that have the same call id and tool: mostly one, which a model asked for."""

    __slots__ = ("asked", "call_id", "first", "number", "older", "others", "tool")

    def __init__(self, call_id: str, tool: str, older: Alike | None) -> None:
        self.call_id = call_id
        self.tool = tool
        self.older = older
        """The one of its tree that came before."""
        self.number: int = 1 if older is None else older.number + 1
        self.first: Node | None = None
        self.others: list[Node] | None = None
        self.asked = False
        """True once a model was seen to ask for it."""

    def begin(self, call_id: str, tool: str, node: Node) -> None:
        """The first span has come: its texts, which it keeps, stand for equal ones of a request."""
        self.call_id, self.tool, self.first = call_id, tool, node

    def nodes(self) -> list[Node]:
        """All of them, as they came."""
        if self.first is None:
            return []
        return [self.first, *(self.others or ())]

    def keep(self, nodes: list[Node]) -> None:
        """These are all of them."""
        self.first = nodes[0] if nodes else None
        self.others = nodes[1:] or None


@mypyc_attr(acyclic=True)
class Parts:
    """What is known of a tree once two sessions were told in its trace."""

    __slots__ = ("hints", "loose", "loosened")

    def __init__(self) -> None:
        self.hints: dict[bytes, Told] = {}
        """Span -> the session told by the earliest span below it."""
        self.loose: dict[int, Call] = {}
        """Calls whose session may still change."""
        self.loosened = False
        """True where more calls are loose than were last looked at."""


@mypyc_attr(acyclic=True)
class Tree:
    """The spans of one trace that are still remembered."""

    __slots__ = (
        "alike",
        "as_written",
        "asked",
        "by_id",
        "claim",
        "early",
        "last",
        "looped",
        "missing",
        "nodes",
        "parts",
        "places",
        "plain",
        "size",
        "wrapped",
    )

    def __init__(self) -> None:
        self.nodes: dict[bytes, Node] = {}
        """The spans that have come, and their parents, by id."""
        self.looped: dict[bytes, Node] | None = None
        """Span -> its parent, where that one may be below it: nodes never refer to themselves."""
        self.last: Node | None = None
        """The parent of the last span: mostly of the next one, too."""
        self.places = 0
        """The last span's place."""
        self.size = 0
        """Spans that have come and are remembered."""
        self.as_written = b""
        """A session's id as it was last on the wire: most spans of a trace repeat it."""
        self.claim: Claim | None = None
        """What it tells."""
        self.wrapped: dict[bytes, tuple[Wrapped, ...]] | None = None
        """Span around calls -> the calls it lists; few frameworks have such spans."""
        self.alike: Alike | None = None
        """Calls that have ids: the newest of a chain."""
        self.by_id: dict[tuple[str, str], Alike] | None = None
        """The same by call id and tool, once they are many."""
        self.early: dict[str, int] | None = None
        """Tool -> executions that no model has been seen to ask for."""
        self.plain: dict[bytes, Told] | None = None
        """Span -> the session it tells under a plain name, which is not believed yet."""
        self.parts: Parts | None = None
        """What is kept once two sessions were told in the trace."""
        self.asked = 0
        """Calls that models were seen to ask for."""
        self.missing = 0
        """Spans that calls wait for."""

    def put(self, span_id: bytes, parent: bytes) -> Node:
        """A span has come, below its parent (b"" for a root)."""
        known = self.node(span_id)
        node = known if known is not None else self._add(span_id)
        if not node.came:
            self.size += 1
            self.places += 1
            node.place = self.places
        above = node.above = self._parent(parent) if parent else None
        if self.looped is not None:
            self.looped.pop(span_id, None)
        if above is not None and (
            above is node or (known is not None and _ends_in(above, node))
        ):
            self._loop(node, above)
        return node

    def _parent(self, span_id: bytes) -> Node:
        """A span that others name as their parent, whether it has come or not."""
        last = self.last
        if last is not None and last.span_id == span_id:
            return last
        found = self.node(span_id)
        if found is None:
            found = self._add(span_id)
        self.last = found
        return found

    def node(self, span_id: bytes) -> Node | None:
        """A span that has come, or is the parent of one."""
        return self.nodes.get(span_id)

    def _add(self, span_id: bytes) -> Node:
        node = self.nodes[span_id] = Node(span_id)
        return node

    def _loop(self, node: Node, above: Node) -> None:
        """The parent of a span is below it, or so far from the root that this is not looked up."""
        if self.looped is None:
            self.looped = {}
        self.looped[node.span_id] = above
        node.above = None

    def up(self, node: Node) -> Node | None:
        """The parent of a span, if it has one that is known."""
        if node.above is None and self.looped is not None:
            return self.looped.get(node.span_id)
        return node.above

    def ancestors(self, node: Node) -> Iterator[Node]:
        """The known ancestors, nearest first, and last the one that has not come, if any."""
        above = self.up(node)
        for _depth in range(DEPTH_MAX):
            if above is None:
                return
            yield above
            above = self.up(above)

    def wait(self, above: Node, span_id: bytes) -> None:
        """A call's span is looked at again when the one above it comes."""
        waiting = above.waiting
        if waiting is None:
            above.waiting = [span_id]
            self.missing += 1
        elif len(waiting) < WAITING_MAX and span_id != waiting[-1]:
            waiting.append(span_id)

    def awaited(self, node: Node) -> list[Node]:
        """The spans that waited for this one, which do no more."""
        found: list[Node] = []
        if node.waiting is not None:
            for span_id in node.waiting:
                each = self.node(span_id)
                if each is not None:
                    found.append(each)
            node.waiting = None
            self.missing -= 1
        return found

    def _agent_above(self, node: Node) -> str:
        """The agent that the nearest ancestor names."""
        above = self.up(node)
        for _depth in range(DEPTH_MAX):
            if above is None:
                break
            if above.agent:
                return above.agent
            above = self.up(above)
        return ""

    def above(self, call: Call, node: Node | None) -> None:
        """Tells a call what is above it by now: who it acts for, and the span around it.

        `node` is of the call's outer span, as far as that is remembered.
        """
        outer = call.outer
        around = self.up(node) if node is not None else None
        # A model's request is below the model's span, and may have its id.
        if around is None or around.span_id != outer.parent:
            around = self.node(outer.parent)
        if around is None or not around.came:
            call.look_up("", None, b"")  # the way up ends here
            return
        agent = "" if outer.agent or node is None else self._agent_above(node)
        listed = self.listed_around(outer.parent)
        beyond = self.up(around)
        call.look_up(agent, listed, beyond.span_id if beyond is not None else b"")

    def like(self, call_id: str, tool: str) -> Alike:
        """The spans of calls with a call id and a tool, to be added to."""
        found = self._known(call_id, tool)
        if found is None:
            found = self.alike = Alike(call_id, tool, self.alike)
            if self.by_id is not None:
                self.by_id[call_id, tool] = found
            elif found.number > FEW:
                self.by_id = self._indexed()
        return found

    def ask(self, call_id: str, tool: str) -> bool | None:
        """A model asks for a call: False for the first time, None where that cannot be noted."""
        if self.asked >= ASKED_MAX or self.asked >= ASKED_A_SPAN * self.size:
            known = self._known(call_id, tool)
            return True if known is not None and known.asked else None
        like = self.like(call_id, tool)
        if like.asked:
            return True
        like.asked = True
        self.asked += 1
        return False

    def _known(self, call_id: str, tool: str) -> Alike | None:
        if self.by_id is not None:
            return self.by_id.get((call_id, tool))
        alike = self.alike
        while alike is not None:
            if alike.call_id == call_id and alike.tool == tool:
                return alike
            alike = alike.older
        return None

    def _indexed(self) -> dict[tuple[str, str], Alike]:
        return {(each.call_id, each.tool): each for each in self.alikes()}

    def alikes(self) -> Iterator[Alike]:
        """Calls that have ids, the newest first."""
        alike = self.alike
        while alike is not None:
            yield alike
            alike = alike.older

    def wrap(self, span_id: bytes, calls: tuple[Wrapped, ...]) -> None:
        """A span is around calls, which it lists."""
        if self.wrapped is None:
            self.wrapped = {}
        self.wrapped[span_id] = calls

    def listed_around(self, span_id: bytes) -> tuple[Wrapped, ...] | None:
        """The calls that a span lists which is around calls; None where it is not."""
        return self.wrapped.get(span_id) if self.wrapped is not None else None

    def hold(self, told: Told) -> None:
        """A span tells a session under a plain name."""
        if self.plain is None:
            self.plain = {}
        self.plain[told.span_id] = told

    def believed(self, node: Node) -> list[Told]:
        """Sessions under plain names that the spans above a call tell, for the first time.

        A name that is below a call may be an argument of it, so nothing is believed before it is known
        what is above: up to the root, or to what the service was asked for from outside.
        """
        plain, found, inside = self.plain, list[Told](), list[Told]()
        for above in self.ancestors(node) if plain else ():
            if not above.came:
                inside.clear()
                break
            if above.call is not None and above.call.is_executed:
                inside.clear()
            if plain is not None and above.span_id in plain:
                inside.append(plain[above.span_id])
            if above.entry:
                found += inside
                inside.clear()
        found += inside
        for told in found:
            if plain is not None:
                del plain[told.span_id]
        return found

    def shrink(self) -> None:
        """Forgets the older half of the spans, and all that hangs on them."""
        spans = self.spans()
        half = self.size // 2
        for node in spans[:half]:
            node.forget()
        del spans[:half]
        self.size -= half
        self.last = None
        kept = {node.span_id: node for node in spans}
        for node in spans:
            above = self.up(node)
            if above is not None:
                kept[above.span_id] = above
        for node in self.nodes.values():
            if node.waiting is None:
                continue
            waiting = [each for each in node.waiting if each in kept and kept[each].came]
            node.waiting = waiting or None
            if waiting:
                kept[node.span_id] = node
            else:
                self.missing -= 1
        self.nodes = kept
        if self.looped is not None:
            self.looped = {key: node for key, node in self.looped.items() if self._has(key)}
        self._shrink_alike()
        if self.wrapped is not None:
            self.wrapped = {key: calls for key, calls in self.wrapped.items() if self._has(key)}
        if self.plain is not None:
            self.plain = {key: told for key, told in self.plain.items() if self._has(key)}
        if self.parts is not None:
            self._shrink(self.parts)

    def _shrink_alike(self) -> None:
        known, self.alike = list(self.alikes()), None
        for each in reversed(known):
            nodes = _still(each.nodes())
            if nodes or each.asked:
                each.keep(nodes)
                each.older, self.alike = self.alike, each
                each.number = 1 if each.older is None else each.older.number + 1
        if self.by_id is not None:
            self.by_id = self._indexed()

    def _shrink(self, parts: Parts) -> None:
        parts.loose = {
            key: call for key, call in parts.loose.items() if self._has(call.outer.span_id)
        }
        parts.hints = {
            key: hint
            for key, hint in parts.hints.items()
            if self._has(key) or self._is_awaited(key)
        }

    def _has(self, span_id: bytes) -> bool:
        """True for a span that has come."""
        node = self.node(span_id)
        return node is not None and node.came

    def _is_awaited(self, span_id: bytes) -> bool:
        node = self.node(span_id)
        return node is not None and node.waiting is not None

    def spans(self) -> list[Node]:
        """Those that have come, in that order."""
        return sorted(_still(self.nodes.values()), key=_place)

    def calls(self) -> list[Node]:
        """Those of them that are calls, or pieces of one."""
        return [node for node in self.spans() if node.call is not None]

    # --- a trace of several sessions ------------------------------------------------------------

    def hint(self, parts: Parts, told: Told, node: Node) -> None:
        """What was told below a span is a hint for it and for those above."""
        for above in self.ancestors(node):
            known = parts.hints.get(above.span_id)
            if known is not None and not told.counts_before(known):
                return
            parts.hints[above.span_id] = told

    def loosen(self, parts: Parts) -> None:
        """What was told may be of any call by now: all are loose until they are looked at again."""
        parts.loosened = True
        for node in self.calls():
            if node.call is not None:
                parts.loose[id(node.call)] = node.call


def _ends_in(node: Node, end: Node) -> bool:
    """True where the way up from a span leads to another, or is longer than is looked at."""
    above: Node | None = node
    for _depth in range(DEPTH_MAX):
        if above is None:
            return False
        if above is end:
            return True
        above = above.above
    return True


def _place(node: Node) -> int:
    return node.place


def _still(nodes: Iterable[Node]) -> list[Node]:
    """Those that are not forgotten."""
    return [node for node in nodes if node.came]


@mypyc_attr(acyclic=True)
class Trace:
    """One trace of one tenant."""

    __slots__ = (
        "_extras",
        "_joined",
        "_key",
        "answered_ns",
        "asker",
        "called_ns",
        "doubted",
        "epoch",
        "first",
        "first_by",
        "first_ns",
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
        self.heard = False
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
        self._extras: dict[str, tuple[int, bytes, Any]] | None = None
        """Attributes of its spans that specs bind on."""
        self.named: Named | None = None
        self.learnt: Mapping[str, Any] | None = None
        """The attributes the monitor was last told of."""
        self.learnt_named: Named | None = None
        """The agent's name it was last told of, by a span that is no call."""
        self.asker: Asker | None = None
        """Who asked for calls in it, for tool spans that another service sends."""
        self.open: Open | dict[str, Open] | None = None
        """Tool -> requests that wait for their execution."""
        self.foreign = 0
        """Of `spans`, those that speak no dialect."""
        self._joined: dict[int, tuple[Mapping[str, Any], Mapping[str, Any]]] | None = None

    @property
    def key(self) -> SessionKey:
        """The session it is of: one of its own, made when first asked for, while none is told."""
        if self._key is None:
            self._key = built(SessionKey, (self.namespace, self.trace_id.hex()))
        return self._key

    @property
    def told(self) -> Told | None:
        """What the earliest span told of the session, and when."""
        first = self.first
        return first.told(self.first_by, self.first_ns) if first is not None else None

    def hear(self, claim: Claim, span_id: bytes, start_ns: int) -> None:
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

    @property
    def is_rest(self) -> bool:
        """True where its session, which nobody has told, made calls that are not in it.

        So it is with a conversation that names no session, where each turn is a trace: a model was
        given answers of tools before a call was made or asked for in this one.
        """
        return self.answered_ns < self.called_ns and self.first is None

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
        self._soon_ns = period_ns // SOON
        self._recent: dict[str, dict[bytes, Trace]] = {}
        self._older: dict[str, dict[bytes, Trace]] = {}
        """Two generations: what is not asked for while the recent one fills up is forgotten. By
        namespace, and then by trace id."""
        self._recent_count = 0
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
        self._drop()
        if self._recent_count >= self._traces_max // 2:
            self._gone += self._older.values()
            self._recent, self._older, self._recent_count = {}, self._recent, 0
            self._near = [None] * NEAR
        recent = self._recent.get(namespace)
        if recent is None:
            recent = self._recent[namespace] = {}
        recent[trace_id] = trace
        self._recent_count += 1
        return trace

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
        return tree

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
        if tree is not None and tree.missing:
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


def _all(generation: Mapping[str, Mapping[bytes, Trace]]) -> Iterator[Trace]:
    return (trace for traces in generation.values() for trace in traces.values())
