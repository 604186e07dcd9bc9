"""Reads a span by its plan. Nothing here raises, whatever the attributes hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from mypy_extensions import mypyc_attr

from collector.decode.span import Span
from collector.dialects.base import Dialect
from collector.dialects.choose import MARK_MAX, fits
from collector.dialects.names.name_bound import NAME_MAX, bounded
from collector.dialects.names.session_and_agent_keys import NO_AGENT
from collector.dialects.plan import AgentAt, ArgumentsAt, Fields, ReadPlan, ResultAt
from collector.dialects.values import partial_json
from collector.dialects.values.arguments import UNREADABLE, BareValue, CarriedArguments, parsed
from collector.dialects.values.results import FAILING, may_fail, of_protocol
from collector.dialects.values.rivals import united
from collector.dialects.values.span_result import SpanResult
from collector.dialects.wrappers import WrappedCall
from monitor.partial import PartialArguments
from monitor.records import UnreadResult
from monitor.value_paths import ValuePath

__all__ = [
    "STATUS_OK",
    "TOO_LONG",
    "SpanReading",
    "agent_of",
    "has_event",
    "read",
    "read_as",
    "result_of",
    "text",
    "unpended",
    "unread_result",
    "wrapped_by",
]

STATUS_OK: Final = 1
STATUS_ERROR: Final = 2
_JSON: Final = "application/json"

_SDK: Final = "telemetry.sdk.language"
_SPECIAL: Final = '"<'
_NO_ID: Final = "<not specified>"
"""Google's ADK writes this if it has no id."""

_members: Final = partial_json.members
_members_at: Final = partial_json.members_at
_lacks_at: Final = partial_json.lacks_at
_AGENT_NAME: Final = "lc_agent_name"


@mypyc_attr(acyclic=True, free_list_len=1)
class SpanReading:
    """A span read as a tool call."""

    __slots__ = (
        "arguments",
        "bare",
        "call_id",
        "control",
        "dialect",
        "disputed",
        "error",
        "handed",
        "request_id",
        "switch",
        "tool",
        "unreadable",
        "version",
    )

    def __init__(
        self,
        dialect: str,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        bare: BareValue | None = None,
        unreadable: str = "",
        call_id: str = "",
        request_id: str = "",
        error: bool = False,
        control: bool = False,
        switch: str = "",
        disputed: bool = False,
        handed: tuple[ResultAt, ...] = (),
        version: str = "",
    ) -> None:
        self.dialect = dialect
        self.tool = tool
        self.arguments = arguments
        """None if they are not on the wire or cannot be read."""
        self.bare = bare
        """Values of arguments without their names."""
        self.unreadable = unreadable
        """Why they cannot be read: a reason of `coverage`; "" if they can, or are not there."""
        self.call_id = call_id
        """The id that the model gave the call."""
        self.request_id = request_id
        """The transport's request id."""
        self.error = error
        self.control = control
        self.switch = switch
        self.handed = handed
        """Place of the tool's result in the span."""
        self.disputed = disputed
        """True if only its result says that the call failed, and a third party may have written that."""
        self.version = version
        """The transport's protocol version."""


RESULT_SHOWN: Final = 1_024
"""Characters of a result that are looked at."""

TOO_LONG: Final = SpanReading("", "")
"""A call whose tool's name is over the bound. The name is not cut, since a cut name may be another tool's."""


def read(span: Span, plan: ReadPlan) -> SpanReading | None:
    """The span as a tool call; None if it is none, TOO_LONG if the tool's name is over the bound."""
    # The hot path: an attribute is decoded at most once, and only if it is used.
    for fields in plan.calls:
        tool = fields.name.find(span.name) if fields.name is not None else ""
        if tool is None:
            continue
        if fields.tool is not None:
            value = span.recurring(fields.tool)
            tool = value if type(value) is str and value else tool
        if tool:
            return read_as(span, plan, fields, tool)
    return None


def read_as(span: Span, plan: ReadPlan, fields: Fields, tool: str) -> SpanReading:
    """The span as a call of this tool; TOO_LONG if the name is over the bound."""
    if len(tool) > NAME_MAX:
        return TOO_LONG
    call_id = ""
    if fields.call_id is not None:
        value = span.attribute(fields.call_id)
        call_id = bounded(value) if type(value) is str else ""
        if call_id and call_id[0] in _SPECIAL:
            call_id = _plain_id(call_id)
    arguments: Any = None
    told: ArgumentsAt | None = None
    if fields.arguments:
        arguments, told = _arguments(span, fields)
    if type(arguments) is CarriedArguments:
        call_id = call_id or bounded(arguments.call_id)
        arguments = arguments.arguments
    if plan.arguments and isinstance(arguments, dict):
        arguments = _united(span, plan, arguments, told)
    dialect = fields.dialect
    error = (span.status == STATUS_ERROR and dialect.status_tells) or (
        plan.error is not None and bool(text(span, plan.error))
    )
    control = len(dialect.control) > 0 and tool in dialect.control
    if not control and dialect.control_prefixes:
        control = tool.startswith(dialect.control_prefixes)
    if not fields.plain:
        error = error or _failed(span, plan, fields, call_id)
        control = control or _is_marked(span, fields)
    disputed = False
    if fields.handed and not error:
        error, disputed = _answered(span, fields)
    bare, unreadable = None, ""
    if type(arguments) is not dict:
        if arguments is None or arguments is UNREADABLE:
            unreadable = _why_unread(span, fields, arguments)
        elif type(arguments) is PartialArguments:
            unreadable = "arguments_unreadable"
        elif type(arguments) is BareValue:
            bare = arguments
        arguments = arguments if isinstance(arguments, dict) else None
    return SpanReading(
        dialect.name,
        tool,
        arguments,
        bare,
        unreadable,
        call_id,
        _id(span, fields.request_id) if fields.request_id is not None else "",
        error,
        control,
        dialect.switch,
        disputed,
        fields.handed,
        _name(span, fields.version) if fields.version is not None else "",
    )


def _plain_id(call_id: str) -> str:
    """The id without quotes, which Langfuse adds because it writes metadata as JSON."""
    return "" if call_id == _NO_ID else call_id.strip('"')


def _arguments(span: Span, fields: Fields) -> tuple[Any, ArgumentsAt | None]:
    """The arguments of the first place that has readable ones, and the place.

    UNREADABLE if all places with arguments are unreadable.
    """
    found: Any = None
    for place in fields.arguments:
        if not place.event:
            value = place.unwrap(span.attribute(place.at))
        elif span.events:
            value = place.unwrap(_event_value(span, place.event, place.key))
        else:
            continue
        if value is not None and value is not UNREADABLE:
            return value, place
        found = found or value
    return found, None


def _united(
    span: Span, plan: ReadPlan, known: dict[str, Any], told: ArgumentsAt | None
) -> Mapping[str, Any]:
    """The arguments, as far as all places of a span that tell them agree. `told` is where they were read."""
    found: Mapping[str, Any] = known
    for place in plan.arguments:
        if not place.event:
            if told is not None and _is_alike(span, place, told):
                continue
            value = place.unwrap(span.attribute(place.at))
        elif span.events:
            value = place.unwrap(_event_value(span, place.event, place.key))
        else:
            continue
        if type(value) is CarriedArguments:
            value = value.arguments
        if isinstance(value, dict) and value != known:
            found = united(found, value)
    return found


def _is_alike(span: Span, place: ArgumentsAt, told: ArgumentsAt) -> bool:
    """True if a place holds what another one does, so that reading it brings nothing new."""
    if place is told:
        return True
    if told.event or place.unwrap is not told.unwrap:
        return False
    return place.at == told.at or bool(span.values[place.at] == span.values[told.at])


def _why_unread(span: Span, fields: Fields, arguments: Any) -> str:
    """The reason for which arguments are unknown; "" if they are not on the wire."""
    is_large = span.codec.is_large
    for place in fields.arguments:
        if any(map(is_large, span.events)) if place.event else is_large(span.values[place.at]):
            return "over_bound"
    return "arguments_unreadable" if arguments is UNREADABLE else ""


def _event_value(span: Span, event: str, key: str) -> Any:
    for name, attributes, _ in span.span_events():
        if name == event and key in attributes:
            return attributes[key]
    return None


def _is_marked(span: Span, fields: Fields) -> bool:
    """True if a value marks the call as a control call."""
    for at, mark in fields.marks:  # noqa: SIM110 - `any` makes a generator
        if _name(span, at).startswith(mark):
            return True
    return False


def _failed(span: Span, plan: ReadPlan, fields: Fields, call_id: str) -> bool:
    """True if anything but the status shows that the call failed."""
    if fields.undone and span.end_ns and not plan.pending and _says_all(span, fields.dialect):
        return True
    for guard in fields.failed:
        if fits(span, guard):
            return True
    for at in fields.results:
        if _is_told(span, fields, at, call_id):
            return True
    for at, mark in fields.failed_marks:
        if _begins(span, at, mark):
            return True
    if fields.dialect.failed_by_exception:
        for name, _, _ in span.span_events():
            if name == "exception":
                return True
    return False


def _answered(span: Span, fields: Fields) -> tuple[bool, bool]:
    """Whether an MCP server's answer says that the call failed, and whether a third party may have written that."""
    for result in fields.handed:
        at = result.at
        if not _may_fail(span, at) or not of_protocol(value := span.attribute(at)):
            continue
        typed = result.type_at is not None and span.recurring(result.type_at) == _JSON
        certain = result.quoted or typed or type(value) is not str
        return True, not certain
    return False, False


def _may_fail(span: Span, at: int) -> bool:
    """False if a result does not say `isError`: it is searched undecoded."""
    if _lacks_at is not None:
        return not _lacks_at(span.values, at, FAILING)
    return may_fail(span.values[at])


def _is_told(span: Span, fields: Fields, at: int, call_id: str) -> bool:
    """True if the result shows that the call failed. Results are often long, so the sign of failure is searched for first."""
    if fields.sign and _lacks_at is not None and _lacks_at(span.values, at, fields.sign):
        return False
    says = fields.dialect.says_failed
    return says is not None and says(span.attribute(at), call_id)


def _says_all(span: Span, dialect: Dialect) -> bool:
    """True if a missing key of `failed_without` means that the call failed: not in all languages."""
    languages = dialect.failed_without_but_in
    if not languages:
        return True
    language = span.resource.attributes.get(_SDK)
    return not (isinstance(language, str) and language in languages)


def has_event(span: Span, wanted: dict[str, str]) -> bool:
    """True if one of the span's events has these attributes, or none are wanted."""
    if not wanted:
        return True
    if not span.events:
        return False
    return any(wanted.items() <= attributes.items() for _, attributes, _ in span.span_events())


def _begins(span: Span, at: int, mark: tuple[str, ...]) -> bool:
    value = span.attribute(at)
    return isinstance(value, str) and value.startswith(mark)


def text(span: Span, index: int | None) -> str:
    """A text attribute, as long as a name may be; "" if it is absent or of another type."""
    if index is None:
        return ""
    value = span.attribute(index)
    return bounded(value) if isinstance(value, str) else ""


def _id(span: Span, index: int | None) -> str:
    if index is None:
        return ""
    value = span.attribute(index)
    return bounded(str(value)) if isinstance(value, str | int) else ""


def agent_of(span: Span, plan: ReadPlan) -> str:
    """The agent that a span names; "" if it names none."""
    for place in plan.agents:
        if (
            place.as_written
            and place.at is not None
            and span.came_as(place.at, place.as_written)
        ):
            return place.agent
        name = _agent_at(span, place)
        if name:
            return name
    return ""


def _agent_at(span: Span, place: AgentAt) -> str:
    """The agent that one place names."""
    if place.name is not None:
        return _agent(place.name.find(span.name) or "")
    if place.at is None:
        return "" if span.parent_span_id else _service(span)
    if place.metadata:
        name = _metadata_agent(span, place.at)
        if not name and not span.parent_span_id and _is_nameless(span, place.at):
            return _service(span)
        if name != place.agent:
            # Equal names stay one object, which is hashed once.
            place.agent = _agent(name)
        return place.agent
    raw = span.values[place.at]
    name = _name(span, place.at)
    agent = _agent(_unquoted(name) if place.quoted else name)
    if agent and type(raw) is bytes and len(raw) <= MARK_MAX:
        place.as_written, place.agent = raw, agent
    return agent


def _unquoted(text: str) -> str:
    """A name that is written as JSON; "" if the JSON value is no text."""
    found = parsed(text)
    if isinstance(found, str):
        return found
    return text if found is UNREADABLE else ""


def _service(span: Span) -> str:
    """The name of the service that sent a span; "" if it has none."""
    name = span.resource.attributes.get("service.name")
    return _agent(name) if isinstance(name, str) else ""


def _agent(name: str) -> str:
    """A name, as long as it may be; "" if it stands for no agent."""
    if name in NO_AGENT:
        return ""
    return bounded(name)


def _name(span: Span, index: int | None) -> str:
    """A text attribute that recurs, not cut; "" if it is absent or of another type."""
    if index is None:
        return ""
    value = span.recurring(index)
    return value if type(value) is str else ""


def _metadata_agent(span: Span, at: int) -> str:
    """The agent in LangChain's metadata: read in place, else from the text, else from the parsed value."""
    found = _members_at(span.values, at, _AGENT_NAME) if _members_at is not None else None
    if found is None:
        value = span.attribute(at)
        if type(value) is not str:
            return ""
        found = _members(value, _AGENT_NAME) if _members is not None else None
    if found is not None and not isinstance(found[0], bytes):
        return found[0] or ""
    return _agent_in_full(span.attribute(at))


def _agent_in_full(text: str) -> str:
    if _AGENT_NAME not in text:
        return ""
    try:
        return partial_json.metadata(text).lc_agent_name
    except (msgspec.DecodeError, RecursionError):
        found = parsed(text)  # another form, which the full parser may read
    name = found.get(_AGENT_NAME) if isinstance(found, dict) else ""
    return name if isinstance(name, str) else ""


def _is_nameless(span: Span, at: int) -> bool:
    """True for an agent of LangChain without a name: its name is null. Spans of other things lack the key."""
    text = span.attribute(at)
    if type(text) is not str or _AGENT_NAME not in text:
        return False
    found = parsed(text)
    return isinstance(found, dict) and found.get(_AGENT_NAME, "") is None


def wrapped_by(span: Span, plan: ReadPlan) -> tuple[WrappedCall, ...] | None:
    """The calls that a span around tool spans lists; None if the span is no such wrapper."""
    for at in plan.wrappers:
        if at.name is None or at.name.find(span.name) is not None:
            if at.source is None:
                return ()
            calls = at.listed(span.attribute(at.source))
            if calls:
                return calls
    return None


def unpended(span: Span, plan: ReadPlan) -> Span | None:
    """The span that a Logfire pending span stands for; None if the span is no pending span.

    A pending span is sent when the real span starts, as its child. So its parent id is the real
    span's id; the id of the real parent is an attribute.
    """
    if not plan.pending or not span.parent_span_id:
        return None
    parent = _parent(text(span, plan.pending_parent))
    return span.but(span_id=span.parent_span_id, parent_span_id=parent)


def _parent(digits: str) -> bytes:
    try:
        found = bytes.fromhex(digits)
    except ValueError:
        return b""
    return found if len(found) == 8 and any(found) else b""


def result_of(span: Span, reading: SpanReading) -> str:
    """What a tool returned, as a text of at most `RESULT_SHOWN` characters; "" if its span does not have it."""
    for result in reading.handed:
        value = span.attribute(result.at)
        if value is not None and value != "":
            return (value if type(value) is str else str(value))[:RESULT_SHOWN]
    return ""


def unread_result(
    span: Span, reading: SpanReading, paths: tuple[ValuePath, ...]
) -> UnreadResult | None:
    """What a tool returned, to be read as far as paths ask for it; None if its span does not tell.

    Of several places the first that can be read counts.
    """
    found, codec = None, span.codec
    for at, quoted, type_at in reading.handed[::-1]:
        raw = span.values[at]
        if not codec.is_large(raw):
            typed = type_at is not None and span.recurring(type_at) == _JSON
            found = SpanResult(codec, raw, quoted or typed, paths, found)
    return found
