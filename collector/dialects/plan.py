"""The plan of a shape: the place of each part of a call, looked up once per shape.

All numbers are attribute indexes. Each new shape makes several of these objects, and flattened conversations make one
shape per turn. So they are plain classes: compiled, they take a twentieth of the time of frozen dataclasses to make.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from collector.dialects.base import Dialect
from collector.dialects.model_messages.outputs import Outputs
from collector.dialects.names.span_name import SpanName
from collector.dialects.values.arguments import Unwrap
from collector.dialects.values.results import sign_of
from collector.dialects.wrappers import Listed

__all__ = [
    "AgentAt",
    "ArgumentsAt",
    "AttributeCondition",
    "Fields",
    "ReadPlan",
    "ResultAt",
    "ToolNameHint",
    "WrapperAt",
]


@dataclass(frozen=True, slots=True, eq=False)
class AttributeCondition:
    """The value of attribute `at` must be one of `values` (or, `forbidden`, none of them)."""

    at: int
    values: frozenset[str]
    forbidden: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ArgumentsAt:
    """A place of arguments: an attribute by index, or an event's attribute by name and key."""

    at: int
    unwrap: Unwrap
    event: str = ""
    key: str = ""


class ResultAt(NamedTuple):
    """A place of what a tool returned."""

    at: int
    quoted: bool
    """True if a text that a tool returned is quoted there."""
    type_at: int | None
    """Place of the media type, which says whether the text is quoted; None without one."""


class Fields:
    """Where the parts of a call are in one shape, by one dialect."""

    __slots__ = (
        "arguments",
        "call_id",
        "dialect",
        "failed",
        "failed_marks",
        "handed",
        "marks",
        "name",
        "plain",
        "request_id",
        "results",
        "sign",
        "tool",
        "undone",
        "version",
    )

    def __init__(
        self,
        dialect: Dialect,
        name: SpanName | None,
        tool: int | None,
        arguments: tuple[ArgumentsAt, ...],
        call_id: int | None,
        request_id: int | None,
        failed: tuple[AttributeCondition, ...],
        results: tuple[int, ...],
        failed_marks: tuple[tuple[int, tuple[str, ...]], ...],
        marks: tuple[tuple[int, str], ...],
        handed: tuple[ResultAt, ...],
        version: int | None = None,
        *,
        undone: bool,
    ) -> None:
        self.dialect = dialect
        self.name = name
        """The pattern of the span's name; None if any name will do."""
        self.tool = tool
        self.arguments = arguments
        self.call_id = call_id
        self.request_id = request_id
        self.failed = failed
        self.results = results
        self.sign = sign_of(dialect.says_failed)
        """A text that each failing result contains; "" if none is known."""
        self.failed_marks = failed_marks
        self.marks = marks
        self.handed = handed
        """Place of the answer of an MCP server."""
        self.version = version
        self.undone = undone
        """True if spans of the shape lack a key of `Dialect.failed_without`."""
        fails = failed or results or failed_marks or undone or dialect.failed_by_exception
        self.plain = not (fails or marks)
        """True if tool, arguments and ids are all there is to read."""


class AgentAt:
    """Where a span names an agent: an attribute, JSON metadata or the span's name. If none is set: its service's name."""

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
        """The attribute's last value, undecoded: the next one is mostly the same."""
        self.agent = ""
        """The agent of that value."""


@dataclass(frozen=True, slots=True, eq=False)
class WrapperAt:
    """How a span around a tool span is read."""

    name: SpanName | None
    """The pattern of the span's name; None if any name will do."""
    source: int | None
    listed: Listed
    """Reads the calls that the source lists."""


@dataclass(frozen=True, slots=True, eq=False)
class ToolNameHint:
    """Where a shape may name a tool, for spans that no dialect reads as a call."""

    names: tuple[int, ...]
    says: tuple[tuple[str, AttributeCondition], ...]
    """Conditions that mean that a tool ran, with their keys."""
    given: bool
    """True if the shape has a key that only a call's span has."""
    known: bool
    """True for a scope whose spans are known to look like calls without being any."""
    parts: bool
    """True for a scope that repeats a call's tool on spans below the call."""


class ReadPlan:
    """How spans of one shape and one set of guarded values are read."""

    __slots__ = (
        "agents",
        "arguments",
        "calls",
        "doubled",
        "doubtful",
        "entry",
        "error",
        "extras",
        "fails",
        "foreign",
        "model",
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
        "untold",
        "wordless",
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
        model: bool,
        wordless: bool,
        pending: bool,
        pending_parent: int | None,
        error: int | None,
        foreign: bool,
        fails: dict[str, str] | None,
        entry: bool,
    ) -> None:
        self.calls = calls
        self.arguments = _several(calls)
        """Places of a call's arguments, by any dialect that fits, where there are several; else ()."""
        self.session = session
        """(place, key, rung of the ladder), best first."""
        self.agents = agents
        self.wrappers = wrappers
        self.outputs = outputs
        self.extras = extras
        """Attributes that specs bind on."""
        self.stop = stop
        """True for a span of a model or an agent: spans above and below it are not one call."""
        self.model = model and bool(session)
        """True for a model's span that may name the session of those beside it."""
        self.wordless = wordless
        """True for a model's span that has neither messages nor requests."""
        self.pending = pending
        """True for the pending span that Logfire sends when a span starts."""
        self.pending_parent = pending_parent
        self.error = error
        self.foreign = foreign
        """True if it follows no dialect, not even in part."""
        self.entry = entry
        """True for a server's or consumer's span: a request from outside the service."""
        self.plain = foreign and bool(session) and not any("." in key for _, key, _ in session)
        """True if a plain key (`session_id`), which may also be a tool's argument, names the session."""
        self.fails = fails
        """Event attributes of a span below a call that mean that the call failed; {} if the span
        itself says so."""
        self.silent = not (
            calls
            or session
            or agents
            or wrappers
            or outputs
            or extras
            or stop
            or wordless
            or pending
            or fails is not None
        )
        """True if such spans only show their parent."""
        self.unclear: ToolNameHint | None = None
        """Set if such spans name a tool, or say that one ran."""
        self.says: tuple[str, ...] = ()
        """Keys that say that a tool ran."""
        self.names: tuple[int, ...] = ()
        """Attributes that name a tool."""
        self.rivals: tuple[int, ...] = ()
        """Places of `names` that the reading as a call does not use."""
        self.twins: tuple[ReadPlan, ...] = ()
        """Plans that read other attributes of equal keys."""
        self.doubled: tuple[tuple[int, ...], ...] = ()
        """Places of equal keys, for each duplicated key that decides on the reading."""
        self.doubtful = False
        """True if there are rivals or twins: see the module `ambiguous_spans`."""
        self.untold: str | None = None
        """Last name without a tool, of a span that is no call: the next span mostly has the same
        name."""

    def doubt(self, unclear: ToolNameHint | None, says: tuple[str, ...]) -> None:
        """Notes what may be ambiguous in such spans."""
        calls = [fields.tool for fields in self.calls if fields.tool is not None]
        names = sorted({*calls, *(unclear.names if unclear is not None else ())})
        self.names, self.says = tuple(names), says
        if unclear is not None and (names or says):
            self.unclear = unclear
        if len(names) > 1 and calls:
            self.rivals = tuple([at for at in names if at != calls[0]])
            self.doubtful = True

    def double(self, twins: tuple[ReadPlan, ...], doubled: tuple[tuple[int, ...], ...]) -> None:
        """Notes the plans for further attributes of equal keys."""
        self.twins, self.doubled, self.doubtful = twins, doubled, True


def _several(calls: tuple[Fields, ...]) -> tuple[ArgumentsAt, ...]:
    """The places of arguments, each once, as the first dialect reads it; () if there is no more than one."""
    if sum([len(fields.arguments) for fields in calls]) < 2:
        return ()
    found: dict[tuple[int, str, str], ArgumentsAt] = {}
    for fields in calls:
        for place in fields.arguments:
            found.setdefault((place.at, place.event, place.key), place)
    return tuple(found.values()) if len(found) > 1 else ()
