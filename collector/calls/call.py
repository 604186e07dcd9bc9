"""One logical call: the spans that tell of it are its pieces.

Idea: a call is often several spans: the framework's, below it the MCP client's, below that the MCP server's; or
two instrumentations at once. Their spans share a call id, or are each other's ancestors and name one tool. The call
is judged once. `merge` decides which spans are one call; this module says what the call then is.

- Name, start and place come from the outermost piece.
- Arguments come from the outermost piece that has them in full.
- The call failed if any piece says so, except for an attempt that was retried.

Invariant: the result does not depend on the order in which the pieces arrive. The known arguments of two pieces
agree (`agree`): spans with other arguments are other calls, wherever they stand.

Example: `execute_tool move` (no arguments, call id c1) and below it `tools/call move` (x=3, no id) are one call:
move(x=3), id c1, with the start and span id of the first. Had the first one y=5, they would be two calls.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from mypy_extensions import mypyc_attr

from collector.decode.span import Span
from collector.dialects.names import BETWEEN, PREFIX, is_served
from collector.dialects.read import Reading
from collector.dialects.values.arguments import UNREADABLE, parsed
from collector.dialects.wrappers import Wrapped
from monitor.alphabet.pattern import same
from monitor.partial import Partial
from monitor.records import Evidence, SessionKey, ToolCall

__all__ = [
    "PIECES_MAX",
    "SERVER",
    "Call",
    "Piece",
    "agree",
    "differ",
    "is_another",
    "outward",
    "overlaps",
    "same_call",
]

SERVER: Final = "mcp"
"""The dialect of MCP's own spans."""
_ACTIONS: Final = "openhands"
_UNNAMED: Final = "MCPToolAction"
"""The dialect that gives one name to the tools of all MCP servers, and that name."""
_SENDER: Final = "fast_agent"
"""The dialect whose spans are the agent's side of MCP only."""

PIECES_MAX: Final = 64
"""Pieces of one call. Further spans stay calls of their own: no framework writes so many."""

_NONE: Final[frozenset[bytes]] = frozenset()
_VALUES_MAX: Final = 32
"""Values of a call whose digests are kept."""

_LONE: Final = frozenset({"__arg1", "input"})
"""LangChain's names for the single argument of a tool whose argument names it does not know."""

_MILLISECOND: Final = 1_000_000
"""In nanoseconds."""
_SDK: Final = "telemetry.sdk.language"
_COARSE: Final = ("nodejs", "webjs")
"""The SDKs whose spans begin at whole milliseconds: see `_end`."""


@mypyc_attr(acyclic=True)
class Piece:
    """One span of a call."""

    __slots__ = (
        "agent",
        "apart",
        "arguments",
        "around",
        "attributes",
        "bare",
        "call_id",
        "control",
        "cut",
        "digest",
        "end_ns",
        "error",
        "evidence",
        "parent",
        "request_id",
        "scope",
        "session",
        "session_from",
        "source",
        "span_id",
        "start_ns",
        "tool",
        "values",
        "why",
    )

    def __init__(
        self,
        span_id: bytes,
        parent: bytes,
        tool: str,
        arguments: Mapping[str, Any] | None,
        bare: Any,
        call_id: str,
        request_id: str,
        agent: str,
        error: bool,
        control: bool,
        start_ns: int,
        end_ns: int,
        evidence: Evidence,
        source: str,
        attributes: Mapping[str, Any],
        session: SessionKey | None,
        session_from: str,
        why: str = "",
        cut: bool = False,
        scope: str = "",
    ) -> None:
        self.span_id = span_id
        self.parent = parent
        self.tool = tool
        self.arguments = arguments
        self.bare = bare
        self.call_id = call_id
        self.request_id = request_id
        self.agent = agent
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.evidence = evidence
        self.source = source
        self.scope = scope
        self.attributes = attributes
        self.session = session
        """Its own session, where the span itself names one."""
        self.session_from = session_from
        self.why = why
        """Why its arguments are unknown, if they are not just missing: a reason of `coverage`."""
        self.digest = b""
        """Of its arguments, once they were freed: a span with others is another call."""
        self.values: frozenset[bytes] = _NONE
        """Digests of the freed arguments' values, for spans of other instrumentations."""
        self.around: Wrapped | None = None
        """The call as the span around the piece lists it."""
        # Booleans stand side by side: in the compiled class each takes one byte.
        self.error = error
        self.control = control
        self.cut = cut
        """True if the sender dropped attributes of the span: arguments may be missing."""
        self.apart = False
        """True once a span above it has settled which call it is part of."""

    @property
    def is_given(self) -> bool:
        """True where something is known of its arguments."""
        return self.arguments is not None or self.bare is not None

    def give_up(self) -> None:
        """Frees its arguments, and keeps a digest of them."""
        known = self.arguments
        if known is not None and type(known) is not Partial:
            self.digest, self.values = _digest(known), _values(known)
        self.arguments = self.bare = self.around = None

    def listed(self, calls: tuple[Wrapped, ...]) -> Wrapped | None:
        """The listed call that this is a piece of, if that is certain.

        If several listed calls have the same arguments, the result has these arguments and no id.
        """
        mine = [call for call in calls if call.tool == self.tool]
        if self.bare is not None:
            bare = self.bare.value
            mine = [call for call in mine if _is_given(call, bare)]
        elif len(mine) > 1 and self.arguments is not None:
            mine = [call for call in mine if call.arguments == self.arguments]
        if not mine or any(call.arguments != mine[0].arguments for call in mine):
            return None
        return mine[0] if len(mine) == 1 else mine[0]._replace(call_id="")

    @staticmethod
    def of(
        span: Span,
        reading: Reading,
        agent: str,
        evidence: Evidence,
        session: SessionKey | None,
        session_from: str,
    ) -> Piece:
        """The piece that a span is, once it is read."""
        end_ns = span.end_ns
        if evidence is Evidence.PENDING and end_ns < span.start_ns:
            end_ns = span.start_ns
        return Piece(
            span.span_id,
            span.parent_span_id,
            reading.tool,
            reading.arguments,
            reading.bare,
            reading.call_id,
            reading.request_id,
            agent,
            reading.error,
            reading.control,
            span.start_ns,
            end_ns,
            evidence,
            reading.dialect,
            span.resource.attributes,
            session,
            session_from,
            reading.unreadable or ("" if reading.bare is None else "arguments_unnamed"),
            span.dropped > 0,
            span.scope,
        )


@mypyc_attr(acyclic=True)
class Call:
    """A logical call: its pieces, what is above it, and the call as the monitor knows it."""

    __slots__ = (
        "_inner",
        "_made",
        "_pieces",
        "agent",
        "doubled",
        "given_up",
        "judged",
        "lifted",
        "outer",
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
        """True if the spans of another call tell of it: see `mcp_echo`."""
        self.given_up = False
        """True once its arguments were freed: its verdict stays, unless a later span has the arguments again."""
        self.agent = ""
        """Of the nearest ancestor that names one."""
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
    def is_one(self) -> bool:
        """True while one span is all of it."""
        return self._pieces is None

    def piece(self, span_id: bytes) -> Piece:
        """The piece that a span is."""
        return self.outer if self._pieces is None else self._pieces[span_id]

    def add(self, piece: Piece) -> None:
        """Adds a further span of a piece: the end of a pending one, or a fuller copy."""
        known = self.piece(piece.span_id)
        if known.evidence is Evidence.EXECUTED:
            if piece.is_given and not known.is_given:  # a fuller copy
                known.arguments, known.bare, known.why = (
                    piece.arguments,
                    piece.bare,
                    piece.why,
                )
                self._made = None
            return
        if piece.arguments is None and piece.bare is None:
            # Nobody else has this piece yet.
            piece.arguments, piece.bare = known.arguments, known.bare
            piece.digest, piece.values = known.digest, known.values
        elif piece.arguments is not None:
            self.given_up = False
        piece.apart, piece.around = known.apart, known.around
        self._made = None
        if self._pieces is None:
            self.outer = piece
        else:
            self._pieces[piece.span_id] = piece
            self._choose()

    def absorb(self, other: Call) -> None:
        """Takes over the pieces of another call that turned out to be the same."""
        self._pieces = {**self.pieces, **other.pieces}
        self._inner = (self._inner or set()) | (other._inner or set())
        self.doubled = self.doubled and other.doubled
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

    def against(self, other: Call) -> list[Piece]:
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
        judged, self._made = self.judged, None
        if judged is not None and judged.arguments is not None:
            had, self.judged = True, judged._replace(arguments=None)
        self.given_up = self.given_up or had
        return had

    def fail(self, span_id: bytes) -> None:
        """Marks a piece as failed: a span below it says so."""
        self.piece(span_id).error = True
        self._made = None

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
        if any(_is_unnamed(piece) for piece in outermost):
            outermost = [piece for piece in self.pieces.values() if not _is_unnamed(piece)]
        self.outer = min(outermost or self.pieces.values(), key=outward)

    @property
    def is_executed(self) -> bool:
        """False while the call is known only as a model's request."""
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

    def enclose(self, piece: Piece, around: Wrapped) -> None:
        """Notes the call as the span around a piece lists it."""
        piece.around = around
        self._made = None

    def look_up(self, agent: str, calls: tuple[Wrapped, ...] | None, parent: bytes) -> None:
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
    ) -> ToolCall:
        """The call as it is known now; the same object while nothing is new."""
        made = self._made
        if (
            made is not None
            and made.attributes is attributes
            and (made.session is session or made.session == session)
            and made.session_from == session_from
            and (made.gaps or not gaps)
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
        gaps = gaps or outer.cut
        if self._pieces is not None:
            pieces = sorted(self._pieces.values(), key=self._rank)
            arguments = _best(pieces)
            call_id = next((p.call_id for p in pieces if p.call_id), "")
            around = next((p.around for p in pieces if p.around is not None), None)
            agent = next((p.agent for p in pieces if p.agent), "")
            error = any(p.error for p in self._counting(pieces))
            control = any(p.control for p in pieces)
            gaps = gaps or any(p.cut for p in pieces)
            request_id = next((p.request_id for p in self._pieces.values() if p.request_id), "")
            if any(p.evidence is Evidence.EXECUTED for p in pieces):
                evidence = Evidence.EXECUTED
        if around is not None:
            arguments = around.arguments if arguments is None else arguments
            call_id = call_id or around.call_id
        call = ToolCall(
            session,
            agent or self.agent,
            outer.tool,
            arguments,
            error,
            outer.start_ns,
            _end(outer),
            trace_id,
            outer.span_id,
            outer.parent if self.lifted is None else self.lifted,
            call_id or request_id,
            evidence,
            attributes,
            control,
            outer.source,
            session_from,
            gaps,
        )
        self._made = call
        return call

    def _counting(self, pieces: list[Piece]) -> list[Piece]:
        """The failed pieces that count. A failed attempt that was retried does not, nor do the spans below it."""
        failed = [p for p in pieces if p.error]
        if not failed or len(failed) == len(pieces):
            return failed
        void = {p.span_id for p in failed if any(_is_retry(p, other) for other in pieces)}
        if not void:
            return failed
        for _ in pieces:  # spread to the spans below a retried attempt
            below = {p.span_id for p in failed if p.parent in void} - void
            if not below:
                break
            void |= below
        return [p for p in failed if p.span_id not in void]

    def _rank(self, piece: Piece) -> tuple[Any, ...]:
        return (piece.span_id in (self._inner or ()), *outward(piece))


def _is_retry(failed: Piece, other: Piece) -> bool:
    """True where the other piece is a retry of the failed one: the same source and parent, begun after it ended."""
    return (
        other.parent == failed.parent
        and other.source == failed.source
        and other.evidence is Evidence.EXECUTED
        and other.start_ns >= failed.end_ns
        and other.span_id != failed.span_id
    )


def _best(pieces: list[Piece]) -> Mapping[str, Any] | None:
    """The arguments of the outermost piece that has them in full, else of one that has them in part.

    An inner piece with more arguments wins: its arguments are what the tool was given.
    """
    best, some = None, None
    for piece in pieces:
        known = piece.arguments
        if known is None:
            continue
        if type(known) is Partial:
            some = some or known
        elif best is None or best.keys() < known.keys() or (_is_lone(best) and len(known) == 1):
            best = known
    return some if best is None else best


def _is_given(call: Wrapped, bare: Any) -> bool:
    """True if this is the value of the call's only argument, or its text."""
    values = list((call.arguments or {}).values())
    return len(values) == 1 and (values[0] == bare or str(values[0]) == bare)


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


def outward(piece: Piece) -> tuple[int, int, bytes]:
    """Sort key of pieces: the outermost first, as far as times tell."""
    return piece.start_ns, -piece.end_ns, piece.span_id


def same_call(outer: Piece, inner: Piece) -> bool:
    """True if a piece below another one, with no other call between them, is the same call.

    The client's and the server's part may be timed by two clocks, so times are compared only within one
    instrumentation: a span that begins after its ancestor ended is another call, made in a context that leaked.
    """
    if outer.source == inner.source != SERVER and not overlaps(outer, inner):
        return False
    if not agree(outer, inner):
        return False
    if outer.call_id and inner.call_id:
        if outer.call_id != inner.call_id:
            return False
        if inner.source == SERVER and outer.tool.startswith(PREFIX):
            return True  # the ids agree, and the name says that a server executes the tool
    return outer.tool == inner.tool or (
        inner.source == SERVER
        and (is_served(outer.tool, inner.tool) or _is_unnamed(outer) or _is_sent(outer, inner))
    )


def _is_unnamed(piece: Piece) -> bool:
    """True for a piece that does not say which server's tool it calls."""
    return piece.tool == _UNNAMED and piece.source == _ACTIONS


def _is_sent(outer: Piece, inner: Piece) -> bool:
    """True for a tool that fast-agent names with its server's name before it."""
    return outer.source == _SENDER and outer.tool.endswith(BETWEEN + inner.tool)


def differ(one: Piece, other: Piece) -> bool:
    """True if two pieces with one call id are two calls: models may repeat an id.

    Either their arguments differ, or one instrumentation wrote both, overlapping, below one span.
    """
    return not agree(one, other) or _are_beside(one, other)


def _are_beside(one: Piece, other: Piece) -> bool:
    return (
        one.parent == other.parent != b""
        and one.parent not in (one.span_id, other.span_id)
        and one.span_id != other.span_id
        and one.call_id == other.call_id != ""
        and (one.source, one.scope) == (other.source, other.scope)
        and Evidence.REQUESTED not in (one.evidence, other.evidence)
        and overlaps(one, other)
    )


def is_another(known: Piece, piece: Piece) -> bool:
    """True if a second span with a known id is neither a copy nor a fuller copy, but another call."""
    if Evidence.REQUESTED in (known.evidence, piece.evidence):
        return False
    return (
        known.tool != piece.tool or known.start_ns != piece.start_ns or not agree(known, piece)
    )


def agree(one: Piece, other: Piece) -> bool:
    """False if the known arguments of two pieces show that they are two calls.

    One instrumentation writes the arguments of a call the same way each time. Of two instrumentations, one may
    add arguments, or write values as text. Unknown and unreadable arguments contradict nothing.
    """
    if not (one.is_given and other.is_given):
        return _agree_freed(one, other)
    mine, others = one.arguments, other.arguments
    if mine is None or others is None:
        return _agree_bare(one, other)
    if mine is others:
        return True
    alike = _is_equal if one.source == other.source else _is_alike
    unread = _unread(mine) | _unread(others)
    common = mine.keys() & others.keys()
    if not all(name in unread or alike(mine[name], others[name]) for name in common):
        return False
    if len(common) == len(mine) == len(others) or unread:
        return True
    if one.source == other.source:
        return False
    if _is_lone(mine) is not _is_lone(others) and len(mine) == len(others) == 1:
        return _is_alike(next(iter(mine.values())), next(iter(others.values())))
    return 0 < len(common) == min(len(mine), len(others))


def _agree_freed(one: Piece, other: Piece) -> bool:
    """`agree` for a piece whose arguments were freed, and one that has arguments."""
    if one.is_given:
        one, other = other, one
    known = other.arguments
    if not one.digest or known is None or type(known) is Partial:
        return True
    if one.source == other.source:
        return one.digest == _digest(known)
    mine, others = one.values, _values(known)
    return not mine or not others or mine <= others or others <= mine


def _digest(arguments: Mapping[str, Any]) -> bytes:
    """The same for equal arguments in any order."""
    return _hash({name: _text(value) for name, value in arguments.items()})


def _values(arguments: Mapping[str, Any]) -> frozenset[bytes]:
    """Digests of the values, which need not have the same names in another instrumentation; none if many."""
    if len(arguments) > _VALUES_MAX:
        return _NONE
    return frozenset([_hash(_text(value)) for value in arguments.values()])


def _text(value: Any) -> Any:
    """The same for a value and its text."""
    if not isinstance(value, str):
        return value
    known = parsed(value)
    return value if known is UNREADABLE else known


def _hash(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, default=repr)
    return blake2b(text.encode(), digest_size=16).digest()


def _is_lone(arguments: Mapping[str, Any]) -> bool:
    """True for a single argument whose name is not known."""
    return len(arguments) == 1 and not _LONE.isdisjoint(arguments)


def _unread(arguments: Mapping[str, Any]) -> frozenset[str]:
    return arguments.unread if isinstance(arguments, Partial) else frozenset()


def _agree_bare(one: Piece, other: Piece) -> bool:
    """`agree` for pieces of which at least one has values without names."""
    if one.bare is None:
        one, other = other, one
    bare, given = one.bare.value, other.arguments
    if given is None:
        return _is_alike(bare, other.bare.value)
    values = list(given.values())
    return _is_alike(bare, given) or (
        _is_alike(bare, values)
        if isinstance(bare, list)
        else any(_is_alike(bare, value) for value in values) or bool(_unread(given))
    )


def _is_equal(one: Any, other: Any) -> bool:
    return one is other or same(one, other) or repr(one) == repr(other)


def _is_alike(one: Any, other: Any) -> bool:
    """True for equal values, and for a value and its text."""
    if _is_equal(one, other):
        return True
    if isinstance(other, str):
        one, other = other, one
    return isinstance(one, str) and (one == str(other) or _is_equal(parsed(one), other))


def overlaps(one: Piece, other: Piece) -> bool:
    """True if the pieces overlap in time. Requests have no time, and overlap with everything."""
    if Evidence.REQUESTED in (one.evidence, other.evidence):
        return True
    if one.start_ns == other.start_ns:
        return True
    first, second = (one, other) if one.start_ns < other.start_ns else (other, one)
    return first.end_ns > second.start_ns or first.evidence is Evidence.PENDING
