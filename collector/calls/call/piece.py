"""One span's contribution to a call. Arguments can be freed; their digests stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from mypy_extensions import mypyc_attr

from collector.calls.call.argument_digests import ArgumentDigests, freed
from collector.decode.span import Span
from collector.dialects.model_messages.given_results import GivenResult
from collector.dialects.read import SpanReading
from collector.dialects.wrappers import WrappedCall
from monitor.records import Evidence, Returned, SessionKey, result_in

__all__ = ["SERVER", "Piece", "outward"]

SERVER: Final = "mcp"
"""The dialect of MCP's own spans."""


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
        "disputed",
        "end_ns",
        "error",
        "evidence",
        "freed",
        "parent",
        "request_id",
        "result",
        "returns",
        "says_ok",
        "scope",
        "session",
        "session_from",
        "source",
        "span_id",
        "start_ns",
        "tool",
        "version",
        "why",
    )

    def __init__(
        self,
        span_id: bytes,
        parent: bytes,
        reading: SpanReading,
        start_ns: int,
        end_ns: int,
        evidence: Evidence,
        attributes: Mapping[str, Any],
        agent: str = "",
        session: SessionKey | None = None,
        session_from: str = "",
        cut: bool = False,
        scope: str = "",
    ) -> None:
        """A span that was read.

        Args:
            span_id: of the span.
            parent: id of the span around it; b"" for none.
            reading: what it says of the call.
            start_ns: Unix nanoseconds.
            end_ns: Unix nanoseconds.
            evidence: how the call is known.
            attributes: of the resource.
            agent: that made the call; "" if no span names it.
            session: that the span itself names.
            session_from: the attribute that named it.
            cut: True if the sender dropped attributes of the span.
            scope: its instrumentation scope.
        """
        self.span_id = span_id
        self.parent = parent
        self.tool = reading.tool
        self.arguments = reading.arguments
        self.bare: Any = reading.bare
        self.call_id = reading.call_id
        self.request_id = reading.request_id
        self.agent = agent
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.evidence = evidence
        self.source = reading.dialect
        self.scope = scope
        self.attributes = attributes
        self.session = session
        self.session_from = session_from
        self.why = reading.unreadable or ("" if reading.bare is None else "arguments_unnamed")
        """Why its arguments are unknown, if they are not just missing: a reason of `coverage`."""
        self.result = ""
        """Beginning of the tool's result; "" if it is not known."""
        self.returns: Returned = ()
        """What the tool returned, as `ToolCall.returned`: noted only where a spec asks for it."""
        self.version = reading.version
        """Version of the MCP protocol; "" if it is not known."""
        self.freed: ArgumentDigests | None = None
        """Digests of its arguments after they were freed: a span with other arguments is another
        call."""
        self.around: WrappedCall | None = None
        """The call as the span around the piece lists it."""
        # Booleans stand side by side: in the compiled class each takes one byte.
        self.error = reading.error
        self.control = reading.control
        self.cut = cut
        """True if the sender dropped attributes of the span, one of which may have named the session: `ToolCall.gaps`. Of the
        arguments nothing follows: they are those that the span has."""
        self.disputed = reading.disputed
        """True if it may have failed or not: the evidence of the failure is contradicted, or may be
        a third party's."""
        self.says_ok = False
        """True if its span says that the call went well. Only noted while calls are decided, as is `result`."""
        self.apart = False
        """True once a span above it has settled which call it is part of."""

    @property
    def returned(self) -> tuple[Any, ...]:
        """What the tool returned, read."""
        return result_in(self.returns)

    @returned.setter
    def returned(self, returned: tuple[Any, ...]) -> None:
        self.returns = returned

    @property
    def is_given(self) -> bool:
        """True if something is known of its arguments."""
        return self.arguments is not None or self.bare is not None

    @property
    def is_told(self) -> bool:
        """True if something was known of its arguments, though they may be freed by now."""
        return self.is_given or self.freed is not None

    def is_news(self, end_ns: int, *, error: bool) -> bool:
        """True if a copy of its span tells its end or its status otherwise: an exporter may send both provisionally."""
        if end_ns != self.end_ns:
            return end_ns > self.end_ns
        return error is not self.error and not self.disputed

    def retell(self, copy: Piece) -> bool:
        """Takes what a copy of its span has more; False if that is nothing.

        The status of the latest end counts. Of two copies with one end, neither is the later one.
        """
        fuller = copy.is_given and not self.is_given
        if fuller:
            self.arguments, self.bare, self.why = copy.arguments, copy.bare, copy.why
        if copy.returns and not self.returned and copy.returned:
            self.returns, fuller = copy.returns, True
        if not self.is_news(copy.end_ns, error=copy.error):
            return fuller
        if copy.end_ns > self.end_ns:
            self.end_ns, self.error, self.disputed = copy.end_ns, copy.error, copy.disputed
        else:
            self.error = self.disputed = True
        return True

    def settle(self, result: GivenResult) -> bool:
        """Takes what a model was given as its result; False if that is not new."""
        error, disputed = result > GivenResult.UNMARKED, result is GivenResult.DISPUTED
        if (error, disputed) == (self.error, self.disputed):
            return False
        self.error, self.disputed = error, disputed
        return True

    def give_up(self) -> None:
        """Frees its arguments and its result, and keeps a digest of the arguments."""
        if self.is_given:
            self.freed = freed(self.arguments, self.bare)
        self.arguments = self.bare = self.around = None
        self.returns = ()

    def has_told(self, arguments: Mapping[str, Any] | None) -> bool:
        """True if its arguments were these, all of them."""
        if arguments is None:
            return False
        if self.freed is not None:
            return self.freed.is_of(arguments)
        return self.arguments == arguments

    def listed(self, calls: tuple[WrappedCall, ...]) -> WrappedCall | None:
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
        reading: SpanReading,
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
            reading,
            span.start_ns,
            end_ns,
            evidence,
            span.resource.attributes,
            agent,
            session,
            session_from,
            span.dropped > 0,
            span.scope,
        )


def _is_given(call: WrappedCall, bare: Any) -> bool:
    """True if this is the value of the call's only argument, or its text."""
    values = list((call.arguments or {}).values())
    return len(values) == 1 and (values[0] == bare or str(values[0]) == bare)


def outward(piece: Piece) -> tuple[int, int, bytes]:
    """Sort key of pieces: the outermost first, as far as times tell."""
    return piece.start_ns, -piece.end_ns, piece.span_id
