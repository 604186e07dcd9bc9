"""How spans of one shape are read: what has been looked up once, so that no span looks it up again.

All numbers are places of attributes. Each new shape makes a few of these, and a conversation whose
messages have attributes of their own makes a shape a turn: hence plain classes, which compiled cost
a twentieth of frozen dataclasses to make.
"""

from __future__ import annotations

from collector.dialects.base import Dialect
from collector.dialects.outputs import Outputs
from collector.dialects.span_name import SpanName
from collector.dialects.values.arguments import Unwrap
from collector.dialects.values.results import sign_of
from collector.dialects.wrappers import Listed

__all__ = ["AgentAt", "At", "Fields", "Guard", "Plan", "Unclear", "WrapperAt"]


class Guard:
    """The value of attribute `at` must be one of `values` (or, `forbidden`, none of them)."""

    __slots__ = ("at", "forbidden", "values")

    def __init__(self, at: int, values: frozenset[str], *, forbidden: bool = False) -> None:
        self.at = at
        self.values = values
        self.forbidden = forbidden


class At:
    """A place of arguments: an attribute by index, or one of an event by name and key."""

    __slots__ = ("at", "event", "key", "unwrap")

    def __init__(self, at: int, unwrap: Unwrap, event: str = "", key: str = "") -> None:
        self.at = at
        self.unwrap = unwrap
        self.event = event
        self.key = key


class Fields:
    """Where a dialect's parts are in one shape."""

    __slots__ = (
        "arguments",
        "call_id",
        "dialect",
        "failed",
        "failed_marks",
        "marks",
        "name",
        "plain",
        "request_id",
        "results",
        "sign",
        "tool",
        "undone",
    )

    def __init__(
        self,
        dialect: Dialect,
        name: SpanName | None,
        tool: int | None,
        arguments: tuple[At, ...],
        call_id: int | None,
        request_id: int | None,
        failed: tuple[Guard, ...],
        results: tuple[int, ...],
        failed_marks: tuple[tuple[int, tuple[str, ...]], ...],
        marks: tuple[tuple[int, str], ...],
        *,
        undone: bool,
    ) -> None:
        self.dialect = dialect
        self.name = name
        """What the span's name must match; None where it does not matter."""
        self.tool = tool
        self.arguments = arguments
        self.call_id = call_id
        self.request_id = request_id
        self.failed = failed
        self.results = results
        self.sign = sign_of(dialect.says_failed)
        """What a result has in it that says that the call failed; "" where nothing is known."""
        self.failed_marks = failed_marks
        self.marks = marks
        self.undone = undone
        """True where a span that ended lacks what it has unless the call failed."""
        fails = failed or results or failed_marks or undone or dialect.failed_by_exception
        self.plain = not (fails or marks)
        """True where tool, arguments and ids are all there is to look at."""


class AgentAt:
    """Where a span names an agent: an attribute, JSON metadata, or the span's name; or by none, its service."""

    __slots__ = ("agent", "as_written", "at", "metadata", "name", "quoted")

    def __init__(
        self,
        at: int | None,
        *,
        metadata: bool = False,
        name: SpanName | None = None,
        quoted: bool = False,
    ) -> None:
        self.at = at
        self.metadata = metadata
        self.quoted = quoted
        self.name = name
        self.as_written = b""
        """The attribute's value as it was last on the wire: it mostly comes again."""
        self.agent = ""
        """The agent that was named last, which mostly is the next one's, too."""


class WrapperAt:
    """How a span around a tool span is read."""

    __slots__ = ("listed", "name", "source")

    def __init__(self, name: SpanName | None, source: int | None, listed: Listed) -> None:
        self.name = name
        """What the span's name must match; None where any does."""
        self.source = source
        self.listed = listed
        """Reads the calls there."""


class Unclear:
    """Where a tool may be named in a shape, and what that says where no dialect reads it as a call."""

    __slots__ = ("given", "known", "names", "parts", "says")

    def __init__(
        self,
        names: tuple[int, ...],
        says: tuple[tuple[str, Guard], ...],
        *,
        given: bool,
        known: bool,
        parts: bool,
    ) -> None:
        self.names = names
        self.says = says
        """What may say that a tool ran, by its key."""
        self.given = given
        """True where it has a key that only a call's span has."""
        self.known = known
        """True for a scope of which spans are known that look like calls, and are none."""
        self.parts = parts
        """True for a scope that names a call's tool on spans below it, too."""


class Plan:
    """How spans of one shape are read, whose guarded values are those it was made for."""

    __slots__ = (
        "agents",
        "calls",
        "doubled",
        "doubtful",
        "entry",
        "error",
        "extras",
        "fails",
        "foreign",
        "names",
        "outputs",
        "pending",
        "pending_parent",
        "plain",
        "rivals",
        "says",
        "session",
        "silent",
        "stop",
        "twins",
        "unclear",
        "wrappers",
    )

    def __init__(
        self,
        calls: tuple[Fields, ...],
        session: tuple[tuple[int, str, int], ...],
        agents: tuple[AgentAt, ...],
        wrappers: tuple[WrapperAt, ...],
        outputs: Outputs | None,
        extras: tuple[tuple[int, str], ...],
        *,
        stop: bool,
        pending: bool,
        pending_parent: int | None,
        error: int | None,
        foreign: bool,
        fails: dict[str, str] | None,
        entry: bool,
    ) -> None:
        self.calls = calls
        self.session = session
        """(place, key, rung of the ladder), best first."""
        self.agents = agents
        self.wrappers = wrappers
        self.outputs = outputs
        self.extras = extras
        """Attributes that specs bind on."""
        self.stop = stop
        """True for a span of a model or an agent, which no single call reaches through."""
        self.pending = pending
        """True for a span that Logfire sends when the real one starts."""
        self.pending_parent = pending_parent
        self.error = error
        self.foreign = foreign
        """True where it speaks no dialect, not even in part."""
        self.entry = entry
        """True for a span of what a service was asked for from outside."""
        self.plain = foreign and bool(session) and not any("." in key for _, key, _ in session)
        """True where a session is told under a name that anything may have, a tool's argument too."""
        self.fails = fails
        """Of a span below a call's: what an event of it has where the call failed; empty where the span itself says it."""
        self.silent = not (
            calls
            or session
            or agents
            or wrappers
            or outputs
            or extras
            or stop
            or pending
            or fails is not None
        )
        """True where such a span can tell nothing but who its parent is."""
        self.unclear: Unclear | None = None
        """Where it names a tool, or says that one ran."""
        self.says: tuple[str, ...] = ()
        """The keys that say that a tool ran."""
        self.names: tuple[int, ...] = ()
        """Attributes that name a tool."""
        self.rivals: tuple[int, ...] = ()
        """Those of them that its reading as a call does not look at."""
        self.twins: tuple[Plan, ...] = ()
        """Plans by other attributes of equal keys."""
        self.doubled: tuple[tuple[int, ...], ...] = ()
        """Attributes of equal keys, for each key that matters and is there more than once."""
        self.doubtful = False
        """True where there are rivals or twins: see `doubt`."""

    def doubt(self, unclear: Unclear | None, says: tuple[str, ...]) -> None:
        """Notes what may be in doubt, or odd, in spans that the plan is for."""
        calls = [fields.tool for fields in self.calls if fields.tool is not None]
        names = sorted({*calls, *(unclear.names if unclear is not None else ())})
        self.names, self.says = tuple(names), says
        if unclear is not None and (names or says):
            self.unclear = unclear
        if len(names) > 1 and calls:
            self.rivals = tuple([at for at in names if at != calls[0]])
            self.doubtful = True

    def double(self, twins: tuple[Plan, ...], doubled: tuple[tuple[int, ...], ...]) -> None:
        """Notes what spans may say twice."""
        self.twins, self.doubled, self.doubtful = twins, doubled, True
