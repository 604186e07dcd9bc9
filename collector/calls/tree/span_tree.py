"""The spans of one trace as a tree: who is whose parent, in whatever order they arrive, and what each one said.

Idea: a node is made for each span that arrives and for each parent that is named, so a child may arrive before its
parent. A call that needs to know what is above it walks up; where the path ends at a missing span, the call waits
there (`wait`), and is handed out when the span arrives (`awaited`).

Invariants:

- `SpanNode.above` never leads back to the node: parents that would close a loop (senders may write anything) are kept
  apart in `looped`, and every walk ends after `DEPTH_MAX` steps. Nodes of a tree can be freed by counting references.
- All that a tree holds is bounded: spans, waiting calls, noted requests.
- Forgetting a span (`shrink`) forgets all that refers to it.

Example: span b (parent a) arrives. The tree has b and a; a has not arrived, and the call of b waits at a. Span a
(parent r) arrives: b is handed out, looks up, meets a, and waits at r.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from mypy_extensions import mypyc_attr

from collector.calls.call.answers import ModelAnswers
from collector.calls.tree.session_claim import Claim, SpanClaim
from monitor.records import result_in
from monitor.weights import arguments_bytes, result_bytes

if TYPE_CHECKING:
    from collector.calls.call.call import LogicalCall
    from collector.calls.records import Requester
    from collector.dialects.wrappers import WrappedCall

__all__ = [
    "DEPTH_MAX",
    "FEW",
    "TREE_MAX",
    "AlikeSpans",
    "Parts",
    "SpanNode",
    "SpanTree",
    "WatchedRequest",
]

TREE_MAX: Final = 4_096
"""Spans in one tree. At the bound the older half is forgotten."""

DEPTH_MAX: Final = 64
"""Ancestors that are looked at: agents nest less deeply."""

FEW: Final = 8
"""Call ids of one tree that are searched linearly, without an index: most trees have no more."""

ASKED_MAX: Final = 1_024
ASKED_A_SPAN: Final = 4
"""Requests of models noted in one tree, and for each of its spans: one span may hold hundreds."""

WAITING_MAX: Final = 1_024
"""Calls that wait for one missing ancestor. Further ones are not updated when it arrives."""


@mypyc_attr(acyclic=True)
class SpanNode:
    """One span of a tree: one that arrived, or one that other spans name as their parent."""

    __slots__ = (
        "above",
        "agent",
        "asked_ns",
        "asks",
        "call",
        "claim",
        "clock",
        "entry",
        "failed",
        "foreign",
        "model",
        "place",
        "span_id",
        "start_ns",
        "stops",
        "waiting",
    )

    def __init__(self, span_id: bytes) -> None:
        self.span_id = span_id
        self.place = 0
        """The number of its arrival, from 1 on; 0 while it has not arrived."""
        self.above: SpanNode | None = None
        """Parent of the node, except for nodes in `SpanTree.looped`. Use `SpanTree.up` to walk."""
        self.agent = ""
        """The agent it names."""
        self.stops = False
        """True for a model's or an agent's span: a call above it is not the same as a call below it."""
        self.asks = False
        """True for a model's span that asks for several calls."""
        self.entry = False
        """True for a server's or consumer's span: what a service was asked from outside."""
        self.foreign = False
        """True for a span that follows no convention of agents: the program's own, or a web server's."""
        self.failed = False
        """True once a span below it reported that its call failed."""
        self.claim: Claim | None = None
        """The session that it names itself."""
        self.start_ns = 0
        """When it began."""
        self.asked_ns = 0
        """When a model's span ended: by then it had asked for its calls."""
        self.clock = b""
        """What its host is known by (`ResourceIdentity.clock`)."""
        self.model: Requester | None = None
        """The service, for a model's span that may name a session."""
        self.call: LogicalCall | None = None
        """The call it is, or is a piece of."""
        self.waiting: list[bytes] | None = None
        """Span ids of calls whose path to the root ends here, while it has not arrived."""

    @property
    def came(self) -> bool:
        """False for a span that is known only as the parent of others."""
        return self.place != 0

    @property
    def span_claim(self) -> SpanClaim | None:
        """The session that it names itself, as a claim of this span."""
        claim = self.claim
        return claim.by(self.span_id, self.start_ns) if claim is not None else None

    def forget(self) -> None:
        """Resets it to a span that has not arrived."""
        self.place, self.stops, self.entry, self.failed = 0, False, False, False
        self.asks = self.foreign = False
        self.above = self.claim = self.call = self.model = None
        self.agent, self.clock = "", b""
        self.start_ns = self.asked_ns = 0


@mypyc_attr(acyclic=True)
class AlikeSpans:
    """Spans of calls with one call id and tool: mostly one."""

    __slots__ = (
        "answer",
        "asked",
        "call_id",
        "first",
        "number",
        "older",
        "others",
        "several",
        "tool",
    )

    def __init__(self, call_id: str, tool: str, older: AlikeSpans | None) -> None:
        self.call_id = call_id
        self.tool = tool
        self.older = older
        """The previous one of its tree: they form a chain."""
        self.number: int = 1 if older is None else older.number + 1
        self.first: SpanNode | None = None
        self.others: list[SpanNode] | None = None
        self.asked = False
        """True once a model's request for it was noted."""
        self.several = False
        """True if the answer with that request asked for other calls, too."""
        self.answer = b""
        """The model's span with that request, the least of several."""

    def begin(self, call_id: str, tool: str, node: SpanNode) -> None:
        """Adds the first span, and takes over its texts: a request's equal texts can be freed."""
        self.call_id, self.tool, self.first = call_id, tool, node

    def nodes(self) -> list[SpanNode]:
        """All of them, in the order of their arrival."""
        if self.first is None:
            return []
        return [self.first, *(self.others or ())]

    def keep(self, nodes: list[SpanNode]) -> None:
        """Replaces them."""
        self.first = nodes[0] if nodes else None
        self.others = nodes[1:] or None


class WatchedRequest(NamedTuple):
    """A model's request for a call of a tool that leaves spans."""

    call_id: str
    tool: str
    start_ns: int
    """Start of the model's span."""


@mypyc_attr(acyclic=True)
class Parts:
    """What a tree keeps once its trace is split: two sessions were claimed in it."""

    __slots__ = ("below", "hints", "loose", "models", "rival", "roots", "rung", "stale")

    def __init__(self) -> None:
        self.hints: dict[bytes, SpanClaim] = {}
        """Span id -> the winning claim of the spans below it."""
        self.loose: dict[LogicalCall, bool | None] = {}
        """Calls whose session may still change: False if a claim names it, None if none does, so that it is only likely."""
        self.stale: dict[LogicalCall, None] = {}
        """Loose calls that are to be updated, since more is known of what names their sessions."""
        self.below: dict[bytes, list[SpanNode]] | None = None
        """Span id -> the spans right below it; made when first needed."""
        self.models: dict[tuple[bytes, Requester], tuple[Claim, bool]] = {}
        """Span id and service -> the best claim of the service's models right below the span, and whether it is the only
        one on its rung."""
        self.rung = -1
        """A model that names a session on a better rung than this one may name that of a call that is certain."""
        self.rival = -1
        """The best rung on which two sessions are claimed."""
        self.roots: set[bytes] = set()
        """Spans without a parent: one or two of them."""

    def note_root(self, span_id: bytes) -> None:
        """A span without a parent has come."""
        if len(self.roots) <= 1:
            self.roots.add(span_id)

    def tell(self, above: SpanNode, service: Requester, claim: Claim) -> bool | None:
        """Notes the session that a model's span names for the calls beside it. Two on one rung name none.

        Returns:
            None if nothing is new; True if it may concern calls whose session is certain, too.
        """
        place = above.span_id, service
        known = self.models.get(place)
        if known is None or claim.rung < known[0].rung:
            self.models[place] = claim, True
            return claim.rung < self.rung
        if known[1] and claim.rung == known[0].rung and claim.key != known[0].key:
            self.models[place] = known[0], False
            return True
        return None

    def loosen(self, calls: Iterable[LogicalCall]) -> None:
        """A new claim may concern these calls: they are loose until they are updated."""
        for call in calls:
            self.loose.setdefault(call, None)
            self.stale[call] = None

    def unnamed(self) -> list[LogicalCall]:
        """The loose calls whose session no claim names."""
        return [call for call, certain in self.loose.items() if certain is None]

    def told(self, above: SpanNode, service: Requester) -> Claim | None:
        """The session that the models of a service right below a span name; None if they name several."""
        claim, is_one = self.models.get((above.span_id, service), (None, False))
        return claim if is_one else None


@mypyc_attr(acyclic=True)
class SpanTree:
    """The spans of one trace that are still remembered."""

    __slots__ = (
        "alike",
        "answers",
        "asked",
        "by_id",
        "claim",
        "clock",
        "early",
        "failing_ns",
        "heard_ns",
        "held",
        "last",
        "latest_ns",
        "lone",
        "looped",
        "matched",
        "missing",
        "mistimed",
        "nameless",
        "nodes",
        "of_clocks",
        "parts",
        "places",
        "plain",
        "released",
        "root",
        "runs",
        "shared",
        "size",
        "taken",
        "unsettled",
        "uprooted",
        "watched",
        "wrapped",
    )

    def __init__(self) -> None:
        self.nodes: dict[bytes, SpanNode] = {}
        """The spans that arrived, and their parents, by id."""
        self.looped: dict[bytes, SpanNode] | None = None
        """Span id -> parent, where the parent may be below the span. So no chain of `above` is a cycle."""
        self.last: SpanNode | None = None
        """The parent of the last span: mostly the next span has the same."""
        self.places = 0
        """The last span's place."""
        self.size = 0
        """Spans that arrived and are remembered."""
        self.claim: Claim | None = None
        """The last claim: most spans of a trace repeat it."""
        self.clock = b""
        """What the host of its first span is known by."""
        self.of_clocks = False
        """True once spans of several hosts had come."""
        self.mistimed = False
        """True once a call seemed to have begun before what has caused it: their clocks differ."""
        self.wrapped: dict[bytes, tuple[WrappedCall, ...]] | None = None
        """Id of a span around calls -> the calls it lists; few frameworks have such spans."""
        self.alike: AlikeSpans | None = None
        """Calls with call ids: the newest of the chain."""
        self.by_id: dict[tuple[str, str], AlikeSpans] | None = None
        """The index of the chain by call id and tool, once it is longer than `FEW`."""
        self.answers: ModelAnswers | None = None
        """The answers that ask for calls, where the calls may have no ids of theirs."""
        self.latest_ns = -1
        """The latest start of a call of which no answer is known by its id."""
        self.heard_ns = -1
        """The start of the latest request to a model."""
        self.failing_ns = -1
        """The start of the latest request to a model that holds a failed call, or may: noted while tools leave no spans."""
        self.watched: list[WatchedRequest] | None = None
        """Requests of models for which no span may arrive (`unseen`)."""
        self.early: dict[str, int] | None = None
        """Tool -> executions whose request has not arrived."""
        self.plain: dict[bytes, SpanClaim] | None = None
        """Span id -> the claim it makes under a plain name (`session_id`), which is not believed yet."""
        self.parts: Parts | None = None
        """Set once the trace is split."""
        self.unsettled: dict[LogicalCall, bool] | None = None
        """Calls that may belong to another conversation (`orphans`), and whether a span above each is missing."""
        self.released: list[SpanNode] | None = None
        """Spans that turned out to be calls of their own (`merge`), and are to be updated: `Correlation` empties it."""
        self.runs: dict[bytes, int] | None = None
        """Id of an agent's span -> its end, while no session is claimed (`later_runs`)."""
        self.asked = 0
        """Number of requests of models that are noted."""
        self.missing = 0
        """Number of missing spans that calls wait for."""
        self.held = 0
        """Approximate bytes of the arguments of its calls."""
        self.taken = 0
        """Approximate bytes of its spans and calls, without the arguments."""
        self.shared = False
        """True if its calls are referred to from outside, and may outlive it."""
        self.matched: set[str] | None = None
        """Tools whose spans have the ids of the models' requests."""
        self.nameless = False
        """True once a call was executed that has no id."""
        self.lone = False
        """True if an unsettled call is the only one."""
        self.root: SpanNode | None = None
        """The first span without a parent that came and is no call."""
        self.uprooted = False
        """True once several such spans had come: nothing tells what is above them."""

    def put(self, span_id: bytes, parent: bytes) -> SpanNode:
        """Adds a span that arrived, below its parent (b"" for a root)."""
        made = SpanNode(
            span_id
        )  # mostly it is new: a look-up before would cost as much as the insertion
        node = self.nodes.setdefault(span_id, made)
        if not node.place:
            self.size += 1
            self.places += 1
            node.place = self.places
        above: SpanNode | None = None
        if parent:
            above = self.last
            if above is None or above.span_id != parent:
                above = self.last = self.nodes.setdefault(parent, SpanNode(parent))
        node.above = above
        if above is not None and self.parts is not None and self.parts.below is not None:
            self.parts.below.setdefault(parent, []).append(node)
        if self.looped is not None:
            self.looped.pop(span_id, None)
        if above is not None and (
            above is node or (node is not made and _ends_in(above, node))
        ):
            self._loop(node, above)
        return node

    def note_clock(self, clock: bytes) -> None:
        """A span has come from a host."""
        if not self.clock:
            self.clock = clock
        elif clock != self.clock:
            self.of_clocks = True

    def node(self, span_id: bytes) -> SpanNode | None:
        """The node of a span that arrived, or that is the parent of one."""
        return self.nodes.get(span_id)

    def _loop(self, node: SpanNode, above: SpanNode) -> None:
        """Keeps a parent apart that is below its child, or too far from the root to tell."""
        if self.looped is None:
            self.looped = {}
        self.looped[node.span_id] = above
        node.above = None

    def up(self, node: SpanNode) -> SpanNode | None:
        """The parent of a span, if known."""
        if node.above is None and self.looped is not None:
            return self.looped.get(node.span_id)
        return node.above

    def note_root(self, node: SpanNode) -> list[SpanNode]:
        """A span without a parent has come, and is no call.

        Returns:
            All calls, if the tree turns out to have several such spans.
        """
        if self.root is None:
            self.root = node
        if self.root is node or self.uprooted:
            return []
        self.uprooted = True
        return self.calls()

    def is_uprooted(self, node: SpanNode) -> bool:
        """True if only spans of the program's own are above one, up to one of several roots."""
        if not self.uprooted:
            return False
        for above in self.ancestors(node):  # noqa: SIM110 - `all` makes a generator
            if not above.foreign:
                return False
        return True

    def asker(self, node: SpanNode, call: LogicalCall) -> SpanNode | None:
        """The span of the model that asked for a call, above it, if only that request tells of the call.

        What it names it names beside the call. The first request of an answer has the model's node as its own.
        """
        above = None if node.model is not None or call.is_executed else self.up(node)
        return above if above is not None and above.model is not None else None

    def ancestors(self, node: SpanNode) -> Iterator[SpanNode]:
        """The ancestors, nearest first, up to and including the first that has not arrived."""
        above = self.up(node)
        for _depth in range(DEPTH_MAX):
            if above is None:
                return
            yield above
            above = self.up(above)

    def wait(self, above: SpanNode, span_id: bytes) -> None:
        """Notes that a call's span is to be looked at again when a missing ancestor arrives."""
        waiting = above.waiting
        if waiting is None:
            above.waiting = [span_id]
            self.missing += 1
        elif len(waiting) < WAITING_MAX and span_id != waiting[-1]:
            waiting.append(span_id)

    def awaited(self, node: SpanNode) -> list[SpanNode]:
        """The spans that waited for this one; they wait no longer."""
        found: list[SpanNode] = []
        if node.waiting is not None:
            for span_id in node.waiting:
                each = self.node(span_id)
                if each is not None:
                    found.append(each)
            node.waiting = None
            self.missing -= 1
        return found

    def _agent_above(self, node: SpanNode) -> str:
        """The agent that the nearest ancestor names."""
        above = self.up(node)
        for _depth in range(DEPTH_MAX):
            if above is None:
                break
            if above.agent:
                return above.agent
            above = self.up(above)
        return ""

    def above(self, call: LogicalCall, node: SpanNode | None) -> None:
        """Tells a call what is above it by now: the agent, and the span around it.

        `node` is the node of the call's outer span, if that is remembered.
        """
        outer = call.outer
        around = self.up(node) if node is not None else None
        # A model's request is below the model's span, and may have the id of that span.
        if around is None or around.span_id != outer.parent:
            around = self.node(outer.parent)
        if around is None or not around.place:
            call.look_up("", None, b"")  # nothing above is known
            return
        if around.asks:
            call.ask(around.span_id, several=True)
        agent = "" if outer.agent or node is None else self._agent_above(node)
        if self.wrapped is None:
            call.look_up(agent, None, b"")
            return
        beyond = self.up(around)
        listed = self.wrapped.get(outer.parent)
        call.look_up(agent, listed, beyond.span_id if beyond is not None else b"")

    def like(self, call_id: str, tool: str) -> AlikeSpans:
        """The spans of calls with this call id and tool; an empty set is made if needed."""
        found = self.known(call_id, tool)
        if found is None:
            found = self.alike = AlikeSpans(call_id, tool, self.alike)
            if self.by_id is not None:
                self.by_id[call_id, tool] = found
            elif found.number > FEW:
                self.by_id = self._indexed()
        return found

    def ask(self, call_id: str, tool: str) -> bool | None:
        """Notes that a model asks for a call: False for the first time, None if there is no room to note it."""
        if self.asked >= ASKED_MAX or self.asked >= ASKED_A_SPAN * self.size:
            known = self.known(call_id, tool)
            return True if known is not None and known.asked else None
        like = self.like(call_id, tool)
        if like.asked:
            return True
        like.asked = True
        self.asked += 1
        return False

    def answer(
        self, call_id: str, tool: str, span_id: bytes, *, several: bool
    ) -> AlikeSpans | None:
        """Notes which model's span asks for a call; None if that is known, or there is no room to note it."""
        found = self.known(call_id, tool)
        if found is None or b"" != found.answer <= span_id:
            return None
        found.answer, found.several = span_id, several
        return found

    def known(self, call_id: str, tool: str) -> AlikeSpans | None:
        """The spans of calls with this call id and tool, if there are any, or a request for one."""
        if self.by_id is not None:
            return self.by_id.get((call_id, tool))
        alike = self.alike
        while alike is not None:
            if alike.call_id == call_id and alike.tool == tool:
                return alike
            alike = alike.older
        return None

    def _indexed(self) -> dict[tuple[str, str], AlikeSpans]:
        return {(each.call_id, each.tool): each for each in self.alikes()}

    def alikes(self) -> Iterator[AlikeSpans]:
        """The chain of calls with call ids, the newest first."""
        alike = self.alike
        while alike is not None:
            yield alike
            alike = alike.older

    def wrap(self, span_id: bytes, calls: tuple[WrappedCall, ...]) -> None:
        """Notes the calls that a span around them lists."""
        if self.wrapped is None:
            self.wrapped = {}
        self.wrapped[span_id] = calls

    def listed_around(self, span_id: bytes) -> tuple[WrappedCall, ...] | None:
        """The calls that a span around calls lists; None for any other span."""
        return self.wrapped.get(span_id) if self.wrapped is not None else None

    def hold(self, claim: SpanClaim) -> None:
        """Notes a claim under a plain name, until `believed` says that it counts."""
        if self.plain is None:
            self.plain = {}
        self.plain[claim.span_id] = claim

    def believed(self, node: SpanNode) -> list[SpanClaim]:
        """Claims under plain names by the spans above a call, each returned once.

        Below a tool call, `session_id` may be an argument of the tool. So a claim is believed only when it is known
        that no call is above it: up to the root, or to the span of what the service was asked from outside.
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
        for claim in found:
            if plain is not None:
                del plain[claim.span_id]
        return found

    def shrink(self) -> None:
        """Forgets the older half of the spans, and what refers to them."""
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
        if self.unsettled is not None:
            self.unsettled = {
                call: missing
                for call, missing in self.unsettled.items()
                if self._has(call.outer.span_id)
            }
        if self.runs is not None:
            self.runs = {key: end for key, end in self.runs.items() if self._has(key)} or None
        if self.looped is not None:
            self.looped = {key: node for key, node in self.looped.items() if self._has(key)}
        self._shrink_alike()
        if self.wrapped is not None:
            self.wrapped = {key: calls for key, calls in self.wrapped.items() if self._has(key)}
        if self.plain is not None:
            self.plain = {key: claim for key, claim in self.plain.items() if self._has(key)}
        if self.parts is not None:
            self._shrink(self.parts)

    def weigh(self) -> int:
        """Approximate bytes of the arguments and results of its calls, computed anew."""
        total = 0
        for node in self.nodes.values():
            if node.call is not None:
                piece = node.call.piece(node.span_id)
                total += arguments_bytes(piece.arguments)
                total += result_bytes(piece.returns)
        if self.wrapped is not None:
            for calls in self.wrapped.values():
                for each in calls:
                    total += arguments_bytes(each.arguments)
        return total

    def lighten(self) -> int:
        """Reads the results of its calls, which mostly leaves less of them; returns the bytes that are freed."""
        for node in self.nodes.values():
            if node.call is not None:
                result_in(node.call.piece(node.span_id).returns)
        before, self.held = self.held, self.weigh()
        return before - self.held

    def give_up(self) -> int:
        """Frees the arguments of its calls. Verdicts stay.

        Returns:
            The number of calls that had arguments.
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
        parts.below = None
        parts.loose = {
            call: certain
            for call, certain in parts.loose.items()
            if self._has(call.outer.span_id)
        }
        parts.hints = {
            key: hint
            for key, hint in parts.hints.items()
            if self._has(key) or self._is_awaited(key)
        }
        parts.models = {
            key: told
            for key, told in parts.models.items()
            if self._has(key[0]) or self._is_awaited(key[0])
        }

    def _has(self, span_id: bytes) -> bool:
        """True for a span that arrived and is remembered."""
        node = self.node(span_id)
        return node is not None and node.came

    def _is_awaited(self, span_id: bytes) -> bool:
        node = self.node(span_id)
        return node is not None and node.waiting is not None

    def spans(self) -> list[SpanNode]:
        """The spans that arrived, in that order."""
        return sorted(_still(self.nodes.values()), key=_place)

    def all_calls(self) -> list[LogicalCall]:
        """The calls, in the order of their arrival."""
        return _calls(self.spans())

    def calls(self) -> list[SpanNode]:
        """The spans that are calls or pieces of calls, in the order of their arrival."""
        return [node for node in self.spans() if node.call is not None]

    # --- a trace of several sessions ------------------------------------------------------------

    def hint(self, parts: Parts, claim: SpanClaim, node: SpanNode) -> None:
        """Makes a claim a hint for the spans above `node`, as far as it wins over their hints."""
        top: SpanNode | None = None
        for above in self.ancestors(node):
            known = parts.hints.get(above.span_id)
            if known is not None and not claim.counts_before(known):
                break
            parts.hints[above.span_id] = claim
            top = above
        if top is None:
            return
        parts.loosen([each for each in parts.unnamed() if self._is_below(each, top)])

    def _is_below(self, call: LogicalCall, top: SpanNode) -> bool:
        """True if a span is above a call."""
        node = self.node(call.outer.span_id)
        return node is not None and any(above is top for above in self.ancestors(node))

    def calls_below(self, parts: Parts, *tops: SpanNode) -> list[LogicalCall]:
        """The calls below some spans, in the order of their arrival."""
        below = parts.below
        if below is None:
            below = parts.below = {}
            for node in self.nodes.values():
                above = self.up(node)
                if above is not None:
                    below.setdefault(above.span_id, []).append(node)
        found: dict[SpanNode, None] = {}
        waiting = list(tops)
        while waiting:
            for node in below.get(waiting.pop().span_id, ()):
                if node not in found:
                    found[node] = None
                    waiting.append(node)
        return _calls(sorted(_still(found), key=_place))


def _ends_in(node: SpanNode, end: SpanNode) -> bool:
    """True if the path up from a span leads to another one, or is longer than `DEPTH_MAX`."""
    above: SpanNode | None = node
    for _depth in range(DEPTH_MAX):
        if above is None:
            return False
        if above is end:
            return True
        above = above.above
    return True


def _calls(nodes: Iterable[SpanNode]) -> list[LogicalCall]:
    """The calls that spans are, or are pieces of."""
    return [node.call for node in nodes if node.call is not None]


def _place(node: SpanNode) -> int:
    return node.place


def _still(nodes: Iterable[SpanNode]) -> list[SpanNode]:
    """The nodes that arrived and are not forgotten."""
    return [node for node in nodes if node.came]
