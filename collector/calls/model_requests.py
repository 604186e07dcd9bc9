"""Decides which tool calls that models ask for are judged: those of tools that leave no spans.

Idea: where tools have spans, a request says nothing new. So the requests of a requester (a service) are *held* until
it is known whether its tools are silent. They are if a later model's span holds the answer to a request and no tool
span has arrived. Then what is held is judged, and each further request at once. If a tool span arrives after all,
the judged requests were doubles: they are retracted.

Invariants: of a request and its execution, one is judged in the end. A request is judged at most once. All that
is held, judged or open is bounded by number, bytes and time.

Example: model span 1 asks for move(x=3): held. Model span 2 holds the result of that request, and no span of `move`
has arrived: move(x=3) is judged as a call with the evidence `requested`. Later a span `execute_tool move` arrives:
the request is retracted and the executed call is judged; from now on requests of this service are only counted.

Where some tools leave spans, others may leave none: one that a person or a browser runs, or the model's provider. So
silence is learnt for each tool. There, a request for a tool that a spec names and that has no span yet is held, and
judged once a model was given its result. While it is held, calls of the tool may be missing (`Cause.SILENT_TOOL`).

A request that is judged went well, unless its result says otherwise (`awaited_outcomes`).

Beside that, requests without an execution are counted after `OPEN_NS` (`requested_only`).
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Final, Literal, NamedTuple

from collector.calls.awaited_outcomes import AwaitedOutcomes, JudgedRequest
from collector.calls.call.answers import ModelAnswer, ModelAnswers, requests_of
from collector.calls.call.call import LogicalCall
from collector.calls.call.piece import Piece
from collector.calls.call.same_call import digest_of
from collector.calls.duplicate_spans import DuplicateFilter
from collector.calls.records import Requester
from collector.calls.set_clocks import LatestRequests, set_back
from collector.calls.tree.span_tree import AlikeSpans, SpanTree, WatchedRequest
from collector.calls.tree.trace import OpenRequest, Trace
from collector.calls.unseen_calls import (
    Change,
    UnseenCalls,
    do_ids_tell,
    has_come,
    is_asked_after,
    is_unseen,
    note_id,
    spans_between,
    watch,
)
from collector.decode.span import Span
from collector.dialects.model_messages.given_results import (
    GivenResult,
    SpanResults,
    may_show_failure,
)
from collector.dialects.model_messages.outputs import (
    NOTHING,
    OVERSIZED,
    REQUESTS_MAX,
    Outputs,
    RequestedCall,
    executed_within,
    given_texts,
    goes_on,
    requested,
)
from collector.dialects.read import SpanReading
from monitor.alphabet.spelling import folded
from monitor.records import Evidence, built
from monitor.tenants import Holdings
from monitor.visibility.cause import Cause
from monitor.visibility.gap import EVER, Gap
from monitor.weights import arguments_bytes

__all__ = [
    "AGENTS_MAX",
    "HELD_MAX",
    "JudgedRequest",
    "Mode",
    "ModelRequests",
    "OpenRequest",
    "RequestPiece",
]

Mode = Literal["auto", "always", "never"]

AGENTS_MAX: Final = 1_000
"""Requesters remembered. At the bound, the least recently active one is forgotten, and learnt anew."""

HELD_MAX: Final = 256
"""Requests held of one requester until it is known whether its tools are silent. Further ones are counted."""

HELD_BYTES_MAX: Final = 16 << 20
"""Approximate bytes of all held requests. Beyond it, those of who holds most are dropped and counted."""

JUDGED_MAX: Final = 256
"""Judged requests of one requester that can still be retracted."""

TOOLS_MAX: Final = 1_024
"""Tools of one requester that are known to have spans. Requests for further ones are held until they are answered."""

OPEN_MAX: Final = 10_000
"""Requests that wait for their execution."""

EARLY_MAX: Final = 64
"""Tools of one trace whose executions arrived before their requests."""

OPEN_NS: Final = 300 * 1_000_000_000
"""Age at which a request counts as never executed: 300 seconds."""

REQUEST_BYTES: Final = 512
"""Approximate bytes of a request beside its arguments."""

_SPAN_BITS: Final = 64

_PROTOCOL: Final = frozenset({"fast_agent", "mcp", "mcp_traceloop"})
"""Dialects of MCP, which stands between an agent and only some of its tools."""

_ANSWER: Final = '"tool_call_response"'
"""The type of a tool's result in messages of the GenAI conventions."""


class RequestPiece(NamedTuple):
    """A request to judge, as a piece of a call in its trace."""

    trace: Trace
    piece: Piece


class _Agent:
    """What is known of one requester: whether its tools leave spans."""

    __slots__ = (
        "answered",
        "awaited",
        "bytes",
        "gaps",
        "has_tools",
        "held",
        "is_silent",
        "judged",
        "tools",
    )

    def __init__(self) -> None:
        self.bytes = 0
        """Approximate bytes of what is held."""
        self.has_tools = False
        self.is_silent = False
        self.held: deque[RequestPiece] = deque(maxlen=HELD_MAX)
        self.judged: deque[JudgedRequest] = deque(maxlen=JUDGED_MAX)
        self.tools: set[str] = set()
        """Tools with spans. Those of MCP say nothing about the other tools."""
        self.answered: deque[str] = deque(maxlen=JUDGED_MAX)
        """Ids of requests whose results a model was given."""
        self.awaited = AwaitedOutcomes()
        self.gaps: dict[str, Gap] = {}
        """Tool -> the gap while requests for it are held, beside tools with spans."""


class ModelRequests:
    """Decides which requests are judged.

    Args:
        mode: `always`, `never`, or `auto` as described above.
        by_answer: True if calls of one answer are to be known as such.
    """

    def __init__(self, mode: Mode = "auto", *, by_answer: bool = True) -> None:
        self.mode = mode
        self._agents: OrderedDict[Requester, _Agent] = OrderedDict()
        self._asked = DuplicateFilter(period_ns=600 * 1_000_000_000, bound=100_000)
        self._oldest: OpenRequest | None = None
        self._newest: OpenRequest | None = None
        """The ends of the chain of all open requests, by time."""
        self._count = 0
        """Length of the chain."""
        self._due = 0
        """No open request expires before this time."""
        self._lost: list[tuple[Trace, int]] = []
        self.oversized = 0
        """Requests over a bound that are not counted yet: who counts them sets it to 0."""
        self.is_named: Callable[[str], bool] = _is_any
        """True for a tool that a spec names."""
        self._unseen = UnseenCalls()
        self._latest = LatestRequests()
        self.gaps: list[Change] = []
        """Gaps that are new, and those that have ended (False); who tells the monitor empties the list."""
        self._bytes = Holdings(AGENTS_MAX)
        """Bytes of what is held, by tenant."""
        self.by_answer = by_answer
        self.answered: list[AlikeSpans] = []
        """Calls of which it is known now which answer asks for them; who updates them empties the list."""
        self.outcomes: list[tuple[JudgedRequest, GivenResult]] = []
        """Calls whose results a model was given; who updates them empties the list."""
        self.shortened: list[JudgedRequest] = []
        """Calls of which it is known now that they had ended earlier; who updates them empties the list."""
        self._given: Mapping[str, GivenResult] = {}
        """Results that the present span gives, as far as they were read."""
        self.overtaken = False
        """True if calls came before an answer that may ask for them; who looks at them again sets it to False."""

    def _agent(self, requester: Requester) -> _Agent:
        agent = self._agents.get(requester)
        if agent is None:
            agent = self._agents[requester] = _Agent()
            if len(self._agents) > AGENTS_MAX:
                other, gone = self._agents.popitem(last=False)
                self.oversized += len(gone.held) + len(gone.awaited)
                self._clear(other, gone)
        else:
            self._agents.move_to_end(requester)
        return agent

    def read(
        self,
        requester: Requester,
        trace: Trace,
        span: Span,
        outputs: Outputs,
        agent: str,
        now: int,
    ) -> list[RequestPiece]:
        """Reads a model's span.

        Returns:
            The requests to judge now; they may be of earlier spans.
        """
        if self.mode == "never":
            return []
        known = self._agent(requester)
        if trace.has_tools:
            known.has_tools = True
        begins = _hear(trace, span)
        self._given = {}
        results = SpanResults(span, outputs)
        asked_ns = self._latest.asked_later(trace.key, results)
        if asked_ns:
            self.gaps.append((set_back(requester, span.start_ns, asked_ns, now), True))
        self.outcomes += known.awaited.told(trace, results, begins=begins)
        if known.has_tools and self.mode != "always":
            # Tool spans tell of the calls: most requests are only noted, to see whether they are executed.
            waiting = _open_tools(trace)
            ready = self._answered(requester, known, trace, results) if known.held else []
            found = requested(span, outputs, names_only=True)
            _note_asked(trace, span, found)
            self._latest.note(trace.key, found, span.start_ns)
            some = self._some_may_be_silent(known, found)
            if some:
                found = requested(span, outputs)
            held: list[RequestPiece] = []
            for index, request in enumerate(found):
                silent = some and self._may_be_silent(known, request)
                if not self._is_news(
                    requester, trace, span, request, index, now, judged=silent
                ):
                    continue
                if silent:
                    piece = _piece(span, request, index, len(found), agent)
                    held.append(RequestPiece(trace, piece))
                else:
                    self._watch(trace, span, request)
            if self.by_answer:
                self._note_answer(trace, span, found)
            self._shorten(known, trace, span)
            if trace.tree is not None and trace.tree.watched is not None:
                self._look_for_unseen(requester, trace, trace.tree, results, waiting, now)
            if held:
                self._hold(requester, known, held)
            return ready
        if trace.tree is not None and may_show_failure(span, outputs):
            trace.tree.failing_ns = max(trace.tree.failing_ns, span.start_ns)
        ready = self._confirmed(requester, known, trace, results)
        waiting = _open_tools(trace) if known.tools else ()
        found = requested(span, outputs)
        _note_asked(trace, span, found)
        self._latest.note(trace.key, found, span.start_ns)
        asked: list[RequestPiece] = []
        for index, request in enumerate(found):
            if not self._is_news(requester, trace, span, request, index, now, judged=True):
                continue
            if request.tool not in known.tools or self.mode == "always":
                piece = _piece(span, request, index, len(found), agent)
                asked.append(RequestPiece(trace, piece))
            else:  # a server tells of its calls
                self._watch(trace, span, request)
        if self.by_answer:
            self._note_answer(trace, span, found)
        if trace.tree is not None and trace.tree.watched is not None:
            self._look_for_unseen(requester, trace, trace.tree, results, waiting, now)
        if self.mode == "always" or known.is_silent:
            return ready + asked
        self._hold(requester, known, asked)
        return ready

    def hear(self, requester: Requester, trace: Trace, span: Span, now: int) -> None:
        """A model was asked, and nothing is on the wire of what it was given, or answered."""
        tree = trace.tree
        if self.mode == "never" or tree is None:
            return
        _hear(trace, span)
        if tree.watched is not None:
            results = SpanResults(span, NOTHING)
            self._look_for_unseen(requester, trace, tree, results, _open_tools(trace), now)

    def _some_may_be_silent(self, known: _Agent, found: list[RequestedCall]) -> bool:
        for request in found:  # noqa: SIM110 - `any` makes a generator
            if self._may_be_silent(known, request):
                return True
        return False

    def _may_be_silent(self, known: _Agent, request: RequestedCall) -> bool:
        """True if nothing tells yet whether a tool leaves spans, beside others that do, and a spec names it."""
        return (
            request.tool not in known.tools
            and request.call_id != ""
            and request is not OVERSIZED
            and self.is_named(request.tool)
        )

    def _answered(
        self, requester: Requester, known: _Agent, trace: Trace, results: SpanResults
    ) -> list[RequestPiece]:
        """The held requests whose results a model was given, while no span told of their calls."""
        held = [each.piece.call_id for each in known.held]
        if not results.may_answer(held):
            return []
        self._given = results.all()
        ready = [
            each
            for each in known.held
            if each.piece.call_id in self._given and not _is_told(each, known.tools)
        ]
        self._settle(trace, ready)
        for each in ready:
            _lay_beside(each, trace, results.span)
            known.held.remove(each)
            known.answered.append(each.piece.call_id)
        if ready:
            self._weigh(requester, known, sum(map(_size, known.held)))
            self._mind_gaps(requester, known)
        return ready

    def _shorten(self, known: _Agent, trace: Trace, span: Span) -> None:
        """A model was asked again before the result of a judged request was seen: the call had ended by then."""
        for each in known.judged:
            outer = each.call.outer
            if (
                each.trace is trace
                and outer.start_ns < span.start_ns < outer.end_ns
                and outer.parent == span.parent_span_id
                and outer.evidence is Evidence.REQUESTED
            ):
                each.call.end(span.start_ns)
                self.shortened.append(each)

    def _watch(self, trace: Trace, span: Span, asked: RequestedCall) -> None:
        """Watches a request for a tool that leaves spans: this call may leave none."""
        tree, requester = trace.tree, trace.requester
        if tree is None or not asked.call_id or not self.is_named(asked.tool):
            return
        fields = (asked.call_id, asked.tool, span.start_ns)
        request: WatchedRequest = built(WatchedRequest, fields)
        others = watch(tree, request)
        is_late = tree.heard_ns > span.start_ns and tree.heard_ns >= span.end_ns
        if is_late and requester is not None:
            since_ns, above = span.start_ns, span.parent_span_id
            self._miss_unseen(requester, trace, tree, request, since_ns, above)
        if others:
            self._look_again(trace, tree, others)

    def _look_again(
        self, trace: Trace, tree: SpanTree, asked: Sequence[WatchedRequest]
    ) -> None:
        """Ids tell from now on which of these requests were executed."""
        requester = trace.requester
        if requester is None or not self.is_named(asked[0].tool):
            return
        for each in asked:
            if each.start_ns < tree.heard_ns:
                self._miss_unseen(requester, trace, tree, each, each.start_ns, b"")

    def _look_for_unseen(
        self,
        requester: Requester,
        trace: Trace,
        tree: SpanTree,
        results: SpanResults,
        opened: Collection[str],
        now: int,
    ) -> None:
        """Calls may be missing whose results a model was given, and of which no span has told.

        Where it is not on the wire what a model was given, it may be the result of each earlier request.

        `opened`: tools of which fewer calls had been executed than asked for, before this span.
        """
        heard_ns = results.span.start_ns
        parent = results.span.parent_span_id
        between: dict[str, set[bytes]] = {}
        waiting: list[WatchedRequest] = []
        for each in tree.watched or ():
            if each.start_ns < heard_ns and not is_unseen(
                tree, each, heard_ns, is_open=each.tool in opened
            ):
                if has_come(tree, each) or not (above := spans_between(tree, each, parent)):
                    continue
                between[each.call_id] = above
            waiting.append(each)
        tree.watched = waiting or None
        earlier = [each.call_id for each in waiting if each.start_ns < heard_ns]
        if not earlier:
            return
        if not results.are_recorded:
            ids = {each.call_id for each in waiting if is_asked_after(tree, each, results.span)}
        elif results.may_answer(earlier):
            ids = results.all().keys() & earlier
        else:
            return
        tree.watched = [each for each in waiting if each.call_id not in ids] or None
        for each in waiting:
            if each.call_id in ids:
                # Without ids, the span that came may be a later request's, and an earlier one has none.
                since_ns = each.start_ns
                if tree.nameless:
                    since_ns = min(since_ns, trace.called_ns)
                self.gaps += self._unseen.miss(
                    requester, trace, each, since_ns, heard_ns, between.get(each.call_id, ())
                )
                is_taken = each.tool not in opened and each.call_id not in between
                if is_taken and do_ids_tell(tree, each.tool):
                    self._await(trace, each.tool, now)  # another execution was taken for it

    def _mind_gaps(self, requester: Requester, known: _Agent) -> None:
        """While requests for a tool are held beside tools with spans, calls of that tool may be missing."""
        held: dict[str, int] = {}
        for each in known.held if known.has_tools or known.tools else ():
            tool, start = each.piece.tool, each.piece.start_ns
            if known.has_tools or self.is_named(tool):
                held[tool] = min(start, held.get(tool, start))
        for tool, gap in list(known.gaps.items()):
            if held.get(tool, EVER) < gap.since_ns or tool not in held:
                del known.gaps[tool]
                self.gaps.append((gap, False))
        for tool, start in held.items():
            if tool not in known.gaps:
                namespace, service = requester
                gap = Gap(
                    Cause.SILENT_TOOL, start, EVER, tool, namespace=namespace, service=service
                )
                known.gaps[tool] = gap
                self.gaps.append((gap, True))

    @property
    def held_bytes(self) -> int:
        """What requests that wait take, about."""
        return self._bytes.total + self._asked.size()

    def keep(self, requester: Requester, asked: RequestPiece) -> None:
        """Holds a request that could not be judged until the next answer to a request of its agent."""
        self._hold(requester, self._agent(requester), [asked])

    def _hold(self, requester: Requester, known: _Agent, asked: list[RequestPiece]) -> None:
        """Holds requests until it is known whether their tools are silent."""
        for each in asked:
            each.trace.pinned = True
        self.oversized += max(0, len(known.held) + len(asked) - HELD_MAX)
        known.held.extend(asked)
        self._weigh(requester, known, sum(map(_size, known.held)))
        self._mind_gaps(requester, known)
        while self._bytes.total > HELD_BYTES_MAX:
            if not self._drop_held(
                self._bytes.gives_way(self._bytes.name(requester.namespace))
            ):
                return

    def _drop_held(self, name: str) -> bool:
        """Drops the requests of the requester that holds most, of one tenant; False if none holds any."""
        most: tuple[Requester, _Agent] | None = None
        for requester, agent in self._agents.items():
            more = agent.bytes > (0 if most is None else most[1].bytes)
            if more and self._bytes.name(requester.namespace) == name:
                most = requester, agent
        if most is None:
            return False
        self.oversized += len(most[1].held)
        self._clear(*most)
        return True

    def _clear(self, requester: Requester, known: _Agent) -> None:
        """Drops all held requests of a requester."""
        known.held.clear()
        self._weigh(requester, known, 0)
        self._mind_gaps(requester, known)

    def _weigh(self, requester: Requester, known: _Agent, size: int) -> None:
        """Updates the bytes of a requester's held requests."""
        if size != known.bytes:
            self._bytes.add(self._bytes.name(requester.namespace), size - known.bytes)
            known.bytes = size

    def _is_news(
        self,
        requester: Requester,
        trace: Trace,
        span: Span,
        request: RequestedCall,
        index: int,
        now: int,
        *,
        judged: bool,
    ) -> bool:
        """Notes a request; False if it was noted before: models repeat earlier requests.

        It is noted in its trace's tree, beside the call it asks for. The tree is freed after minutes. So a request that
        may be judged is also put into a duplicate filter, and none is judged twice.
        """
        if request is OVERSIZED:
            self.oversized += 1
            return False
        tree, known = trace.tree, None
        if tree is not None and request.call_id:
            known = tree.ask(request.call_id, request.tool)
        if judged or known is None:
            known = self._asked.is_repeat(_identity(trace, span, request, index), now)
        if known:
            return False
        self._await(trace, request.tool, now)
        trace.requester = requester
        return True

    def _note_answer(self, trace: Trace, span: Span, found: list[RequestedCall]) -> None:
        """Notes which calls one answer asks for."""
        tree = trace.tree
        if tree is None or not found:
            return
        several = len(found) > 1
        self._keep_answer(tree, span, found, several=several)
        node = tree.node(span.span_id) if several else None
        if node is not None:
            node.asks = True
        for each in found:
            if each.call_id:
                like = tree.answer(each.call_id, each.tool, span.span_id, several=several)
                if like is not None and like.first is not None:
                    self.answered.append(like)

    def _keep_answer(
        self, tree: SpanTree, span: Span, found: list[RequestedCall], *, several: bool
    ) -> None:
        """Notes an answer for calls that have no ids of theirs."""
        if tree.answers is None:
            tree.answers = ModelAnswers()
        asked: dict[str, list[str]] = {}
        if several:
            for each in found:
                asked.setdefault(each.tool, []).append(each.call_id)
        else:
            asked[found[0].tool] = [found[0].call_id]
        unnamed = tuple([each.tool for each in found if not each.call_id])
        requests = tuple([requests_of(ids) for ids in asked.values()])
        begun = (span.start_ns, span.span_id, span.parent_span_id)
        answer: ModelAnswer = built(
            ModelAnswer, (*begun, tuple(asked), unnamed, several, requests)
        )
        tree.answers.add(answer)
        if tree.latest_ns >= span.start_ns:
            self.overtaken = True

    def _confirmed(
        self, requester: Requester, known: _Agent, trace: Trace, results: SpanResults
    ) -> list[RequestPiece]:
        """The held requests, once a model was given the answer to one and no tool span arrived; else none."""
        if known.has_tools:
            return []
        span, outputs = results.span, results.outputs
        if not executed_within(span, outputs) and not (
            known.held and _is_answered(span, outputs, [each.piece for each in known.held])
        ):
            return []
        known.is_silent = True
        self._given = results.all()
        known.answered.extend(self._given)
        ready = list(known.held)
        self._settle(trace, ready)
        self._clear(requester, known)
        return ready

    def _settle(self, trace: Trace, ready: list[RequestPiece]) -> None:
        """A model of a trace was given the results of some requests: whether their calls have failed."""
        for each in ready:
            result = self._given.get(each.piece.call_id, GivenResult.UNMARKED)
            if result and each.trace is not trace and each.trace.key != trace.key:
                result = GivenResult.DISPUTED  # another conversation may have an equal id
            each.piece.settle(result)

    def judged(self, requester: Requester, trace: Trace, call: LogicalCall) -> None:
        """Notes a judged request: it waits for its result, not for an execution, and may have to be retracted."""
        trace.pinned = True
        agent, request = self._agent(requester), JudgedRequest(trace, call)
        agent.judged.append(request)
        if call.call_id and call.call_id not in self._given:
            self.oversized += agent.awaited.wait(request)
            if trace.tree is not None and trace.tree.failing_ns >= call.outer.start_ns:
                call.settle(GivenResult.DISPUTED)  # its result may have been given before
        known = _open_of(trace, call.outer.tool)
        if known is not None:
            self._one_less(known)

    def back(self, judged: Sequence[JudgedRequest], now: int) -> None:
        """Notes that judged requests are retracted: they wait for their executions again."""
        for each in judged:
            self._await(each.trace, each.call.outer.tool, now)
        for each in judged:
            self._miss_again(each.trace, each.call.outer)

    def _miss_again(self, trace: Trace, outer: Piece) -> None:
        """A request is not held or judged any more, since its tool leaves spans; its own may not have come."""
        requester, tree, tool = trace.requester, trace.tree, outer.tool
        if requester is None or tree is None:
            return
        if tool not in self._agent(requester).tools or not self.is_named(tool):
            return
        request = WatchedRequest(outer.call_id, tool, outer.start_ns)
        if outer.call_id:
            watch(tree, request)
        if tree.heard_ns > outer.start_ns:
            # It may have been made before the others of its answer, which begin within so many nanoseconds (`_piece`).
            since_ns = outer.start_ns - REQUESTS_MAX
            self._miss_unseen(
                requester, trace, tree, request, since_ns, _above_asker(tree, outer)
            )

    def _miss_unseen(
        self,
        requester: Requester,
        trace: Trace,
        tree: SpanTree,
        request: WatchedRequest,
        since_ns: int,
        above: bytes,
    ) -> None:
        """A model was asked again after a request: its call was made, and may be missing.

        `above`: the span above the models' own.
        """
        is_open = _open_of(trace, request.tool) is not None
        between = set[bytes]()
        if not is_unseen(tree, request, tree.heard_ns, is_open=is_open):
            between = spans_between(tree, request, above)
            if not between:
                return
        if tree.nameless:
            since_ns = min(since_ns, trace.called_ns)  # see `_look_for_unseen`
        until_ns = tree.heard_ns
        self.gaps += self._unseen.miss(requester, trace, request, since_ns, until_ns, between)

    def executed(
        self,
        requester: Requester,
        trace: Trace,
        tool: str,
        source: str,
        *,
        counts: bool,
        start_ns: int = 0,
        call_id: str = "",
    ) -> list[JudgedRequest]:
        """Notes a tool's span, of the dialect `source`.

        `counts`: False if it stands for no request that waits: its request was judged, or it may be no call of its own.

        Returns:
            Judged requests to retract, because tool spans tell of them.
        """
        if counts:
            known = _open_of(trace, tool)
            if known is not None:
                self._one_less(known)
            elif trace.tree is not None:
                _note_early(trace.tree, tool)
        if trace.tree is not None:
            # A request to a server has an id of its own.
            others = note_id(trace.tree, "" if source in _PROTOCOL else call_id, tool)
            if others:
                self._look_again(trace, trace.tree, others)
        is_open = _open_of(trace, tool) is not None
        self.gaps += self._unseen.came(trace, tool, call_id, start_ns, is_open=is_open)
        back = self._is_loud(requester, trace, tool, source)
        other = trace.requester
        if other is None or other is requester or other == requester:
            return back
        return back + self._is_loud(other, trace, tool, source)

    def above_came(self, trace: Trace, span_id: bytes, tool: str = "") -> None:
        """A span has come that calls waited for; `tool`: that it is a call of."""
        self.gaps += self._unseen.above_came(trace, span_id, tool)

    def _is_loud(
        self, requester: Requester, trace: Trace, tool: str, source: str
    ) -> list[JudgedRequest]:
        """Notes that a tool leaves spans."""
        known = self._agent(requester)
        protocol = source in _PROTOCOL
        if not protocol:
            trace.has_tools = True
        if tool in known.tools and (known.has_tools or protocol):
            return []
        alone = not known.tools
        if len(known.tools) < TOOLS_MAX:
            known.tools.add(tool)
        first = not known.has_tools and not protocol
        known.has_tools = known.has_tools or first
        kept = [each for each in known.held if each.piece.tool != tool]
        for trace_, piece in known.held:
            if piece.tool == tool:
                self._miss_again(trace_, piece)
        back: list[JudgedRequest] = []
        if self.mode == "auto":
            back = [each for each in known.judged if self._is_double(known, each, tool, first)]
            for judged in back:
                known.judged.remove(judged)
        if first:
            # The other tools may be silent nevertheless: those that were not answered wait again.
            kept += [
                RequestPiece(each.trace, each.call.outer)
                for each in back
                if each.call.outer.tool not in known.tools
            ]
            kept = [
                each for each in kept if each.piece.call_id and self.is_named(each.piece.tool)
            ]
        if len(kept) != len(known.held) or first or alone:
            known.held = deque(kept, maxlen=HELD_MAX)
            self._weigh(requester, known, sum(map(_size, known.held)))
            self._mind_gaps(requester, known)
        return back

    def _is_double(self, known: _Agent, judged: JudgedRequest, tool: str, first: bool) -> bool:
        """True if a judged request may be told by a span, now that a tool has one.

        With the first span of all, only requests that were answered by their ids still count as made.
        """
        outer = judged.call.outer
        if outer.tool == tool:
            return True
        return first and not (outer.call_id in known.answered and self.is_named(outer.tool))

    def _await(self, trace: Trace, tool: str, now: int) -> None:
        """Has a request wait for its execution, unless that arrived before."""
        early = trace.tree.early if trace.tree is not None else None
        if early and tool in early:
            early[tool] -= 1
            if not early[tool]:
                del early[tool]
            return
        known = _open_of(trace, tool)
        if known is not None:
            known.count += 1
            return
        self._open(trace, tool, now)
        if self._count > OPEN_MAX:
            for _ in range(OPEN_MAX // 16):
                self._give_up(self._lost)

    def _open(self, trace: Trace, tool: str, now: int) -> None:
        """Opens the first request for a tool in a trace, as the newest of the chain."""
        newest = self._newest
        known = self._newest = OpenRequest(trace, tool, now, newest)
        if newest is None:
            self._oldest = known
        else:
            newest.newer = known
        self._count += 1
        others = trace.open
        if others is None:
            trace.open = known
        elif isinstance(others, OpenRequest):
            trace.open = {others.tool: others, tool: known}
        else:
            others[tool] = known

    def _close(self, known: OpenRequest) -> None:
        """Takes requests out of the chain, and breaks their cycle with the trace."""
        older, newer = known.older, known.newer
        if older is None:
            self._oldest = newer
        else:
            older.newer = newer
        if newer is None:
            self._newest = older
        else:
            newer.older = older
        known.older = known.newer = None
        self._count -= 1
        others = known.trace.open
        if isinstance(others, dict) and len(others) > 1:
            del others[known.tool]
        else:
            known.trace.open = None

    def _one_less(self, known: OpenRequest) -> None:
        if known.count == 1:
            self._close(known)
        else:
            known.count -= 1

    def expired(self, now: int) -> list[tuple[Trace, int]]:
        """Requests that were never executed, with their traces; each is returned once."""
        found, self._lost = self._lost, []
        if self._oldest is not None and not self._due - OPEN_NS <= now < self._due:
            found += self._overdue(now)
        return found

    def _overdue(self, now: int) -> list[tuple[Trace, int]]:
        """Gives up requests that are too old, and notes when to look again."""
        gone: list[tuple[Trace, int]] = []
        self._due = 0
        while (oldest := self._oldest) is not None:
            oldest.since = min(oldest.since, now)  # the clock may have been set back
            if now - oldest.since < OPEN_NS:
                self._due = oldest.since + OPEN_NS
                break
            self._give_up(gone)
        return gone

    def _give_up(self, gone: list[tuple[Trace, int]]) -> None:
        """Gives up the oldest requests."""
        oldest = self._oldest
        if oldest is not None:
            self._close(oldest)
            gone.append((oldest.trace, oldest.count))

    def rest(self) -> list[tuple[Trace, int]]:
        """All requests that are still open: the input is over."""
        rest: list[tuple[Trace, int]] = []
        while self._oldest is not None:
            self._give_up(rest)
        return rest + self._lost


def _is_any(_tool: str) -> bool:
    return True


def _is_told(asked: RequestPiece, tools: set[str]) -> bool:
    """True if a span may tell of a request's call: it has its id, or names its tool in another way."""
    tree, piece = asked.trace.tree, asked.piece
    if tree is not None:
        for alike in tree.alikes():
            if alike.call_id == piece.call_id and any(
                node.call is not None and node.call.is_executed for node in alike.nodes()
            ):
                return True
    name = folded(piece.tool)
    return any(each and (name in each or each in name) for each in map(folded, tools))


def _lay_beside(asked: RequestPiece, trace: Trace, given: Span) -> None:
    """A request beside tools with spans was executed beside these, until its model was asked again.

    Where the models' spans are not beside each other, it stays where it was asked for.
    """
    tree, piece, parent = asked.trace.tree, asked.piece, given.parent_span_id
    node = tree.node(piece.parent) if tree is not None else None
    if asked.trace is not trace or tree is None or tree.answers is None or node is None:
        return
    if node.above is None or node.above.span_id != parent:
        return
    following = tree.answers.following(piece.start_ns, parent)
    piece.parent = parent
    piece.end_ns = max(piece.end_ns, min(given.start_ns, following or given.start_ns))


def _above_asker(tree: SpanTree, piece: Piece) -> bytes:
    """The span above the model's that asks for a call; the call may have been laid below it (`_lay_beside`)."""
    like, node = tree.known(piece.call_id, piece.tool), tree.node(piece.parent)
    if like is None or node is None or node.above is None or like.answer != piece.parent:
        return piece.parent
    return node.above.span_id


def _size(asked: RequestPiece) -> int:
    return REQUEST_BYTES + arguments_bytes(asked.piece.arguments)


def _open_of(trace: Trace, tool: str) -> OpenRequest | None:
    """The open requests for a tool in a trace; mostly a trace has requests for one tool at a time."""
    known = trace.open
    if known is None:
        return None
    if isinstance(known, OpenRequest):
        return known if known.tool == tool else None
    return known.get(tool)


def _open_tools(trace: Trace) -> Collection[str]:
    """The tools of a trace that more calls were asked for of than executed."""
    known = trace.open
    if known is None:
        return ()
    return (known.tool,) if isinstance(known, OpenRequest) else tuple(known)


def _note_asked(trace: Trace, span: Span, found: list[RequestedCall]) -> None:
    """Notes when a model first asked for calls: results that later models are given may be theirs."""
    if found and span.end_ns < trace.called_ns:
        trace.called_ns = span.end_ns


def _hear(trace: Trace, span: Span) -> bool:
    """Notes a request to a model; True if no earlier one of its trace is known."""
    tree = trace.tree
    if tree is None:
        return True
    begins = tree.heard_ns <= 0 or span.start_ns <= tree.heard_ns
    tree.heard_ns = max(tree.heard_ns, span.start_ns)
    return begins


def _note_early(tree: SpanTree, tool: str) -> None:
    """Notes an execution whose request has not arrived."""
    if tree.early is None:
        tree.early = {}
    early = tree.early
    if tool in early or len(early) < EARLY_MAX:
        early[tool] = early.get(tool, 0) + 1


def _is_answered(span: Span, outputs: Outputs, pieces: list[Piece]) -> bool:
    """True if the input of a model's span holds the answer to one of these requests.

    If a request has no id, or the input is not recorded, any answer that comes after the request counts.
    """
    texts = given_texts(span, outputs)
    if any(isinstance(text, str) and _answers(text, pieces) for text in texts):
        return True
    if texts and all(piece.call_id for piece in pieces):
        return False
    earlier = any(piece.start_ns <= span.start_ns for piece in pieces)
    return earlier and goes_on(span, outputs)


def _answers(text: str, pieces: list[Piece]) -> bool:
    """True if a model's input holds the answer to one of these requests.

    An answer has the id of its request. OpenAI's Responses API gives a call one id in the output and another in
    the inputs that follow; there, the name of the tool counts.
    """
    if any(piece.call_id and piece.call_id in text for piece in pieces):
        return True
    return _ANSWER in text and any(f'"{piece.tool}"' in text for piece in pieces)


def _identity(trace: Trace, span: Span, request: RequestedCall, index: int) -> bytes:
    """The identity of a request: its id, tool and arguments in its trace; without an id, its place in its span.

    An id alone does not suffice: some models number their calls, and begin anew with each turn. Of the texts only a
    digest is remembered: arguments may be long.
    """
    if request.call_id:
        text = f"{trace.namespace}\0{request.call_id}\0{request.tool}\0{_given(request)}"
        told = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16)
        return trace.trace_id + told.digest()
    return trace.trace_id + span.span_id + index.to_bytes(2, "big")


def _given(request: RequestedCall) -> str:
    """A digest of a request's arguments."""
    return digest_of(request.arguments).hex() if request.arguments else ""


def _piece(span: Span, request: RequestedCall, index: int, count: int, agent: str) -> Piece:
    """A request as a piece of a call, below the model's span and begun when that ended, in the order of its turn."""
    number = (int.from_bytes(span.span_id, "big") + index) % 2**_SPAN_BITS
    return Piece(
        number.to_bytes(8, "big") if index else span.span_id,
        span.span_id,
        SpanReading("requested", request.tool, request.arguments, call_id=request.call_id),
        span.end_ns + index,
        span.end_ns + count,
        Evidence.REQUESTED,
        span.resource.attributes,
        agent=agent,
        cut=span.dropped > 0,
    )
