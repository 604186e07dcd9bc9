"""The spans of one trace: who is whose parent, in whatever order they come, and what each said."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from mypy_extensions import mypyc_attr

from collector.calls.session_claim import Claim, SpanClaim
from monitor.weights import arguments_bytes

if TYPE_CHECKING:
    from collector.calls.call import Call
    from collector.dialects.wrappers import Wrapped

__all__ = ["DEPTH_MAX", "FEW", "TREE_MAX", "Alike", "Node", "Parts", "Tree"]

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

WAITING_MAX: Final = 1_024
"""Calls that wait for one ancestor; more stay as they are."""


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
    def span_claim(self) -> SpanClaim | None:
        """The session it tells itself, and when."""
        claim = self.claim
        return claim.by(self.span_id, self.start_ns) if claim is not None else None

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
        self.hints: dict[bytes, SpanClaim] = {}
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
        "asked",
        "by_id",
        "claim",
        "early",
        "held",
        "last",
        "looped",
        "missing",
        "nodes",
        "parts",
        "places",
        "plain",
        "shared",
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
        self.claim: Claim | None = None
        """The session that was told last: most spans of a trace repeat it."""
        self.wrapped: dict[bytes, tuple[Wrapped, ...]] | None = None
        """Span around calls -> the calls it lists; few frameworks have such spans."""
        self.alike: Alike | None = None
        """Calls that have ids: the newest of a chain."""
        self.by_id: dict[tuple[str, str], Alike] | None = None
        """The same by call id and tool, once they are many."""
        self.early: dict[str, int] | None = None
        """Tool -> executions that no model has been seen to ask for."""
        self.plain: dict[bytes, SpanClaim] | None = None
        """Span -> the session it tells under a plain name, which is not believed yet."""
        self.parts: Parts | None = None
        """What is kept once two sessions were told in the trace."""
        self.asked = 0
        """Calls that models were seen to ask for."""
        self.missing = 0
        """Spans that calls wait for."""
        self.held = 0
        """Bytes of the arguments of its calls, about."""
        self.shared = False
        """True where others remember calls of it for longer."""

    def put(self, span_id: bytes, parent: bytes) -> Node:
        """A span has come, below its parent (b"" for a root)."""
        made = Node(span_id)  # mostly it is new: to look first costs as much as to add it
        node = self.nodes.setdefault(span_id, made)
        if not node.came:
            self.size += 1
            self.places += 1
            node.place = self.places
        above = node.above = self._parent(parent) if parent else None
        if self.looped is not None:
            self.looped.pop(span_id, None)
        if above is not None and (
            above is node or (node is not made and _ends_in(above, node))
        ):
            self._loop(node, above)
        return node

    def _parent(self, span_id: bytes) -> Node:
        """A span that others name as their parent, whether it has come or not."""
        last = self.last
        if last is not None and last.span_id == span_id:
            return last
        found = self.last = self.nodes.setdefault(span_id, Node(span_id))
        return found

    def node(self, span_id: bytes) -> Node | None:
        """A span that has come, or is the parent of one."""
        return self.nodes.get(span_id)

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

    def hold(self, told: SpanClaim) -> None:
        """A span tells a session under a plain name."""
        if self.plain is None:
            self.plain = {}
        self.plain[told.span_id] = told

    def believed(self, node: Node) -> list[SpanClaim]:
        """Sessions under plain names that the spans above a call tell, for the first time.

        A name that is below a call may be an argument of it, so nothing is believed before it is known
        what is above: up to the root, or to what the service was asked for from outside.
        """
        plain, found, inside = self.plain, list[SpanClaim](), list[SpanClaim]()
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

    def weigh(self) -> int:
        """Bytes of the arguments of its calls, about, looked at anew."""
        total = 0
        for node in self.nodes.values():
            if node.call is not None:
                piece = node.call.piece(node.span_id)
                total += arguments_bytes(piece.arguments)
        if self.wrapped is not None:
            for calls in self.wrapped.values():
                for each in calls:
                    total += arguments_bytes(each.arguments)
        return total

    def give_up(self) -> int:
        """Gives up the arguments of its calls: what was judged by them stays as it was judged.

        Returns:
            How many calls had some.
        """
        count = 0
        for node in self.nodes.values():
            if node.call is not None and node.call.give_up():
                count += 1
        self.wrapped, self.held = None, 0
        return count

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

    def hint(self, parts: Parts, told: SpanClaim, node: Node) -> None:
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
