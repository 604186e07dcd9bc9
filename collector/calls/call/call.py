"""One logical call: the spans that tell of it are its pieces.

Idea: a call is often several spans: the framework's, below it the MCP client's, below that the MCP server's; or
two instrumentations at once. Their spans share a call id, or are each other's ancestors and name one tool. The call
is judged once. `merge` joins them by the criteria of `same_call`; this module says what the call then is.

- Name, start and place come from the outermost piece.
- Arguments come from the outermost piece that has them in full.
- What it returned comes from the outermost piece that has it.
- The call failed if any piece says so, except for an attempt that was retried (`retried_attempts`). A model's request, which
  knows the outcome from what a model is given next, says so only where no span has ended.

Invariant: the result does not depend on the order in which the pieces arrive. The known arguments of two pieces
agree (`agree`): spans with other arguments are other calls, wherever they stand.

Example: `execute_tool move` (no arguments, call id c1) and below it `tools/call move` (x=3, no id) are one call:
move(x=3), id c1, with the start and span id of the first. Had the first one y=5, they would be two calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from mypy_extensions import mypyc_attr

from collector.calls.call.answers import ModelAnswer
from collector.calls.call.piece import SERVER, Piece, outward
from collector.calls.call.retried_attempts import failures
from collector.calls.call.same_call import differ, is_lone, is_unnamed
from collector.dialects.model_messages.given_results import GivenResult
from collector.dialects.values.span_result import FirstResult
from collector.dialects.wrappers import WrappedCall
from monitor.partial import PartialArguments
from monitor.records import Evidence, Returned, SessionKey, ToolCall, UnreadResult
from monitor.visibility.cause import Cause

__all__ = ["PIECES_MAX", "LogicalCall"]

PIECES_MAX: Final = 64
"""Pieces of one call. Further spans stay calls of their own: no framework writes so many."""

ROUNDS_SINCE: Final = "2026-07-28"
"""The first version of MCP in which one call may be several requests."""

_MILLISECOND: Final = 1_000_000
"""One millisecond in nanoseconds."""

_SDK: Final = "telemetry.sdk.language"

_COARSE: Final = ("nodejs", "webjs")
"""The SDKs whose spans begin at whole milliseconds: see `_end`."""


@mypyc_attr(acyclic=True)
class LogicalCall:
    """A logical call: its pieces, what is above it, and the call as the monitor knows it."""

    __slots__ = (
        "_inner",
        "_made",
        "_pieces",
        "agent",
        "asked_by",
        "begun_anew",
        "beside",
        "chained",
        "decided",
        "doubled",
        "doubts",
        "echo",
        "given_up",
        "guessed",
        "judged",
        "lifted",
        "noted",
        "outer",
        "refused",
        "request",
        "request_span",
        "retold",
        "service",
        "shared",
        "together",
        "told",
        "twinned",
        "unplaced",
        "withdrawn",
    )

    def __init__(self, piece: Piece) -> None:
        self._pieces: dict[bytes, Piece] | None = None
        """Pieces by span id; None while there is one piece, as for most calls."""
        self._inner: set[bytes] | None = None
        """Span ids of pieces that are below another piece."""
        self._made: ToolCall | None = None
        """The last result of `tool_call`; None once more is known."""
        self.outer = piece
        self.judged: ToolCall | None = None
        self.withdrawn = False
        """True for a judged request that was retracted: it is judged again once it is executed."""
        self.doubled = False
        """True if another call's spans also describe it: see `in_process_mcp`."""
        self.decided = False
        """True once a decided call met it: see `confirmation`."""
        self.refused = False
        """True if its spans are those of a call that was refused: it is not judged."""
        self.given_up = False
        """True once its arguments were freed: its verdict stays, unless a later span has the arguments again."""
        self.doubts: tuple[Cause, ...] = ()
        """Why it may be no call of its own: see `repeated_call_ids`."""
        self.noted = b""
        """What calls that may be one with it are known by: see `repeated_call_ids`."""
        self.begun_anew = False
        """True if another span came under the ids of one of its spans, and began later."""
        self.retold = False
        """True if another span came under the ids of one of its spans, and began earlier."""
        self.asked_by = b""
        """The model's span that asks for it, where that is known."""
        self.together = False
        """True if that span asks for other calls, too."""
        self.guessed = b""
        """Model answer that probably requested it and others, if no id says so: see `answers`."""
        self.request = b""
        """What that answer's requests of the tool are known by, if it is known; b"" else."""
        self.request_span = b""
        """The span of the model that gave that answer."""
        self.chained = b""
        """The span of the call above it, where the two may have been asked for together: see `same_call.are_chained`."""
        self.told: tuple[Any, ...] = ()
        """What a client tells that it returned, which counts where no span does."""
        self.twinned = b""
        """The nearest span above both it and a call that may be the same and runs meanwhile; b"" if there is none: see `repeated_call_ids`."""
        self.beside: bytes | None = None
        """The parent it is placed under: that of the call above it, where one answer asked for both."""
        self.echo = False
        """True if it may be the call of another trace, reported a second time: see `lone_echoes`."""
        self.shared = False
        """True once equal calls are known, which may make it doubtful."""
        self.service: str | None = None
        """Name of its service, once a call of that service was unplaced; None until then."""
        self.unplaced = False
        """True if spans above it that may name its conversation have not come, awaited or not: see `orphans`."""
        self.agent = ""
        """Agent name of the nearest ancestor that has one."""
        self.lifted: bytes | None = None
        """The parent of the span around the call, if that span holds this call alone."""

    @property
    def pieces(self) -> Mapping[bytes, Piece]:
        """The pieces by span."""
        return self._pieces or {self.outer.span_id: self.outer}

    @property
    def has_arguments(self) -> bool:
        """True if arguments of a piece are known."""
        return any(piece.is_given for piece in self.pieces.values())

    @property
    def has_told(self) -> bool:
        """True if something is known of its arguments, or was before they were freed."""
        return any(piece.is_told for piece in self.pieces.values())

    @property
    def is_returned(self) -> bool:
        """True if it went well and returned something, as far as was noted."""
        pieces = list(self.pieces.values())
        return any(each.result for each in pieces) and not failures(pieces)

    @property
    def is_one(self) -> bool:
        """True while one span is all of it."""
        return self._pieces is None

    def piece(self, span_id: bytes) -> Piece:
        """The piece that a span is."""
        return self.outer if self._pieces is None else self._pieces[span_id]

    def add(self, piece: Piece) -> None:
        """Adds a further span of a piece: the end of a pending one, or a copy that is fuller or has another status."""
        known = self.piece(piece.span_id)
        if known.evidence is Evidence.EXECUTED:
            if known.retell(piece):
                self._made = None
                if self._pieces is not None:
                    self._choose()
            return
        if piece.arguments is None and piece.bare is None:
            # Nobody else has this piece yet.
            piece.arguments, piece.bare = known.arguments, known.bare
            piece.freed = known.freed
        elif piece.arguments is not None:
            self.given_up = False
        piece.apart, piece.around = known.apart, known.around
        self._made = None
        if self._pieces is None:
            self.outer = piece
        else:
            self._pieces[piece.span_id] = piece
            self._choose()

    def absorb(self, other: LogicalCall) -> None:
        """Takes over the pieces of another call that turned out to be the same."""
        self._pieces = {**self.pieces, **other.pieces}
        self._inner = (self._inner or set()) | (other._inner or set())
        self.doubled = self.doubled and other.doubled
        self.decided = self.decided or other.decided
        self.refused = self.refused or other.refused
        self.shared = self.shared or other.shared
        self.told = self.told or other.told
        if other.asked_by:
            self.ask(other.asked_by, several=other.together)
        if self.given_up:
            self.given_up = all(each.arguments is None for each in other.pieces.values())
        self._choose()

    def release(self, span_ids: Sequence[bytes]) -> list[Piece]:
        """Removes pieces that turned out to be other calls'; at least one must remain."""
        kept = dict(self.pieces)
        gone = [kept.pop(span_id) for span_id in span_ids]
        self._pieces = kept
        self._inner = (self._inner or set()).difference(span_ids)
        self._choose()
        return gone

    def against(self, other: LogicalCall) -> list[Piece]:
        """Its pieces that contradict a piece of another call: they cannot be one call."""
        others = other.pieces.values()
        return [
            piece
            for piece in self.pieces.values()
            if any(differ(piece, each) for each in others)
        ]

    def give_up(self) -> bool:
        """Frees its arguments; False if it has none."""
        had = False
        for piece in self.pieces.values():
            had = had or piece.arguments is not None or piece.bare is not None
            piece.give_up()
        self.told = ()
        judged, self._made = self.judged, None
        if judged is not None and judged.arguments is not None:
            had, self.judged = True, judged._replace(arguments=None, result=())
        self.given_up = self.given_up or had
        return had

    @property
    def call_id(self) -> str:
        """The id that the model gave the call; "" if no piece has one."""
        outer = self.outer
        if outer.call_id:
            return outer.call_id
        if self._pieces is None:
            return outer.around.call_id if outer.around is not None else ""
        pieces = self._pieces.values()
        found = min((each.call_id for each in pieces if each.call_id), default="")
        listed = (each.around.call_id for each in pieces if each.around is not None)
        return found or min(listed, default="")

    @property
    def has_request(self) -> bool:
        """True if a request to an MCP server tells of it."""
        if self._pieces is None:
            return self.outer.source == SERVER
        return any(each.source == SERVER for each in self._pieces.values())

    @property
    def request_id(self) -> str:
        """The id of its request to an MCP server, which tells it from others of one connection; "" if no span has one."""
        return next((each.request_id for each in self.pieces.values() if each.request_id), "")

    @property
    def may_be_round(self) -> bool:
        """True if it is told by requests to an MCP server alone, of which several may be one call."""
        if self.outer.source != SERVER:
            return False
        pieces = self.pieces.values()
        return all(each.source == SERVER for each in pieces) and not any(
            each.version and each.version < ROUNDS_SINCE for each in pieces
        )

    @property
    def answer(self) -> bytes:
        """Names the model's answer that asks for it and others; b"" if that is not known."""
        if self.asked_by:
            return self.asked_by if self.together else b""
        return self.guessed or self.chained

    def ask(self, span_id: bytes, *, several: bool) -> None:
        """Notes the model's span that asks for it, and whether it asks for others; the least span id counts."""
        if not self.asked_by or span_id < self.asked_by:
            self.asked_by, self.together, self._made = span_id, several, None

    def guess(self, answer: ModelAnswer | None) -> None:
        """Notes the answer that asks for it, where no id tells; None if there is none."""
        span_id = answer.span_id if answer is not None and answer.several else b""
        if span_id != self.guessed:
            self.guessed, self._made = span_id, None
        self.request = b"" if answer is None else answer.request(self.outer.tool)
        self.request_span = b"" if answer is None else answer.span_id

    def chain(self, span_id: bytes) -> None:
        """Notes the span of the call above it, or its own, by which both are known as one answer's."""
        if span_id != self.chained:
            self.chained, self._made = span_id, None

    def tell(self, result: tuple[Any, ...]) -> None:
        """Notes what a client says that it returned."""
        self.told, self._made = result, None

    def stand_beside(self, parent: bytes | None) -> None:
        """Places it under another parent than its span has; None for that one."""
        if parent != self.beside:
            self.beside, self._made = parent, None

    @property
    def parent(self) -> bytes:
        """The span that it is placed under."""
        if self.beside is not None:
            return self.beside
        return self.outer.parent if self.lifted is None else self.lifted

    def echoes(self, *, echo: bool) -> None:
        """Sets whether it may be another trace's call."""
        if echo is not self.echo:
            self.echo, self._made = echo, None

    def doubt(self, doubts: tuple[Cause, ...]) -> None:
        """Sets why it may be no call of its own."""
        self.doubts, self._made = doubts, None

    def fail(self, span_id: bytes) -> None:
        """Marks a piece as failed: a span below it says so."""
        piece = self.piece(span_id)
        piece.error, piece.disputed = True, False
        self._made = None

    def settle(self, result: GivenResult) -> bool:
        """Takes what a model was given as the result of its request; False if that is not new."""
        news = False
        for each in self.pieces.values():
            if each.evidence is Evidence.REQUESTED and each.settle(result):
                news, self._made = True, None
        return news

    def end(self, end_ns: int) -> None:
        """Sets when a call that only its request tells of had ended."""
        self.outer.end_ns, self._made = end_ns, None

    def sink(self, span_id: bytes) -> None:
        """Marks a piece as one that is below another piece."""
        self._inner = self._inner or set()
        self._inner.add(span_id)
        if self._pieces is not None:
            self._choose()

    def _choose(self) -> None:
        self._made = None
        inner = self._inner or ()
        outermost = [piece for key, piece in self.pieces.items() if key not in inner]
        if any(is_unnamed(piece) for piece in outermost):
            outermost = [piece for piece in self.pieces.values() if not is_unnamed(piece)]
        self.outer = min(outermost or self.pieces.values(), key=outward)

    @property
    def is_executed(self) -> bool:
        """False while the call is known only as a model's request."""
        if self._pieces is None:
            return self.outer.evidence is not Evidence.REQUESTED
        return any(each.evidence is not Evidence.REQUESTED for each in self.pieces.values())

    @property
    def own(self) -> Piece | None:
        """The outermost piece that names its session itself."""
        if self.outer.session is not None:
            return self.outer
        if self._pieces is None:
            return None
        named = (piece for piece in self._pieces.values() if piece.session is not None)
        return min(named, key=outward, default=None)

    @property
    def session(self) -> SessionKey | None:
        """The session that its own spans name."""
        own = self.own
        return own.session if own is not None else None

    def enclose(self, piece: Piece, around: WrappedCall) -> None:
        """Notes the call as the span around a piece lists it."""
        piece.around = around
        self._made = None

    def look_up(self, agent: str, calls: tuple[WrappedCall, ...] | None, parent: bytes) -> None:
        """Notes what is above the call: an agent, and the calls that the span around it lists."""
        lifted = parent if calls is not None and len(calls) <= 1 and parent else None
        if agent != self.agent or lifted != self.lifted:
            self.agent, self.lifted = agent, lifted
            self._made = None

    def tool_call(
        self,
        trace_id: bytes,
        session: SessionKey,
        session_from: str,
        attributes: Mapping[str, Any],
        *,
        gaps: bool,
        orphan: bool = False,
        now: int = 0,
    ) -> ToolCall:
        """The call as it is known now; the same object while nothing is new. See `orphans`.

        `now`: a call without a start had ended by the time of its first receipt.
        """
        made = self._made
        if (
            made is not None
            and made.attributes is attributes
            and (made.session is session or made.session == session)
            and made.session_from == session_from
            and (made.gaps or not gaps)
            and (Cause.ORPHAN in made.doubts) is orphan
        ):
            return made
        outer = self.outer
        arguments, call_id, error, evidence = (
            outer.arguments,
            outer.call_id,
            outer.error,
            outer.evidence,
        )
        around = outer.around
        agent, control, request_id = outer.agent, outer.control, outer.request_id
        gaps, disputed, result = gaps or outer.cut, outer.disputed, outer.returns
        if self._pieces is not None:
            pieces = sorted(self._pieces.values(), key=self._rank)
            arguments = _best(pieces)
            result = _first([p.returns for p in pieces if p.returns])
            call_id = next((p.call_id for p in pieces if p.call_id), "")
            around = next((p.around for p in pieces if p.around is not None), None)
            agent = next((p.agent for p in pieces if p.agent), "")
            failed = failures(pieces)
            error = bool(failed)
            control = any(p.control for p in pieces)
            gaps = gaps or any(p.cut for p in pieces)
            disputed = error and all(p.disputed for p in failed)
            request_id = next((p.request_id for p in self._pieces.values() if p.request_id), "")
            if any(p.evidence is Evidence.EXECUTED for p in pieces):
                evidence = Evidence.EXECUTED
        if self.told:  # what a client tells counts where no span does
            result = _first([result, self.told] if result else [self.told])
        if around is not None:
            arguments = around.arguments if arguments is None else arguments
            call_id = call_id or around.call_id
        doubts = self.doubts
        if self.echo and Cause.TOLD_TWICE not in doubts:
            doubts = (Cause.TOLD_TWICE, *doubts)
        if orphan:
            doubts = (Cause.ORPHAN, *doubts)
        if disputed and Cause.CONTRADICTED not in doubts:
            doubts = (*doubts, Cause.CONTRADICTED)
        call = ToolCall(
            session,
            agent or self.agent,
            outer.tool,
            arguments,
            error,
            outer.start_ns,
            _end(outer) if outer.start_ns else self.received(now),
            trace_id,
            outer.span_id,
            self.parent,
            call_id or request_id,
            evidence,
            attributes,
            control,
            outer.source,
            session_from,
            gaps,
            doubts,
            self.answer,
            result if evidence is Evidence.EXECUTED else (),
        )
        self._made = call
        return call

    def received(self, now: int) -> int:
        """When a call without a start was received first, as far as the monitor knows it."""
        judged = self.judged
        return now if judged is None or judged.start_ns else judged.end_ns

    def _rank(self, piece: Piece) -> tuple[Any, ...]:
        return (piece.span_id in (self._inner or ()), *outward(piece))


def _best(pieces: list[Piece]) -> Mapping[str, Any] | None:
    """The arguments of the outermost piece that has them in full, else of one that has them in part.

    An inner piece with more arguments wins: its arguments are what the tool was given.
    """
    best, some = None, None
    for piece in pieces:
        known = piece.arguments
        if known is None:
            continue
        if type(known) is PartialArguments:
            some = some or known
        elif best is None or best.keys() < known.keys() or (is_lone(best) and len(known) == 1):
            best = known
    return some if best is None else best


def _first(returned: list[Returned]) -> Returned:
    """Of what the spans of a call say of its result, best first, that which counts."""
    if len(returned) > 1 and isinstance(returned[0], UnreadResult):
        return FirstResult(returned)
    return returned[0] if returned else ()


def _end(piece: Piece) -> int:
    """The end of a piece, with no finer resolution than its start.

    The OpenTelemetry SDK for JavaScript truncates starts to milliseconds, but not durations. So the first of two
    sequential calls often seems to end after the second one starts.
    """
    start, end = piece.start_ns, piece.end_ns
    fine = end % _MILLISECOND
    if start % _MILLISECOND or not fine or end <= start:
        return end
    return max(start + 1, end - fine) if piece.attributes.get(_SDK) in _COARSE else end
