"""Span shape -> how to read it: decided once per shape, remembered with a bound.

A shape is the exact list of a span's attribute keys, with its scope and kind. Two spans of one
shape are read alike, so the cost per span does not grow with the number of dialects. What depends
on a value or on the span's name (OpenInference says TOOL in one) is checked span by span.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Final, NamedTuple

from collector.decode.span import Span
from collector.dialects.agno import AGNO
from collector.dialects.arguments import Unwrap
from collector.dialects.autogen import AUTOGEN, AUTOGEN_OPENINFERENCE
from collector.dialects.base import Dialect
from collector.dialects.crewai import CREWAI
from collector.dialects.gen_ai import GEN_AI, GEN_AI_BY_NAME, GEN_AI_IN_PART
from collector.dialects.google_adk import (
    GOOGLE_ADK,
    GOOGLE_ADK_BARE,
    GOOGLE_ADK_OPENINFERENCE,
)
from collector.dialects.langchain import (
    LANGCHAIN_LANGSMITH,
    LANGCHAIN_OPENINFERENCE,
    LANGCHAIN_TRACELOOP,
)
from collector.dialects.langfuse import LANGFUSE
from collector.dialects.llama_index import LLAMA_INDEX
from collector.dialects.mcp import MCP, MCP_SEND, MCP_TRACELOOP
from collector.dialects.names import (
    AGENT_KEYS,
    AGENT_SPANS,
    CONVENTIONS,
    METADATA_SCOPES,
    SESSION_KEYS,
    STOPS,
)
from collector.dialects.openai_agents import (
    HANDOFF,
    OPENAI_AGENTS,
    OPENAI_AGENTS_OPENINFERENCE,
    OPENAI_AGENTS_TRACELOOP,
)
from collector.dialects.openinference import (
    OPENINFERENCE,
    OPENINFERENCE_BY_NAME,
    TOOL_NAME_ALONE,
)
from collector.dialects.outputs import Outputs, outputs_of
from collector.dialects.pydantic_ai import PYDANTIC_AI
from collector.dialects.smolagents import SMOLAGENTS
from collector.dialects.span_name import SpanName, span_name
from collector.dialects.strands import STRANDS
from collector.dialects.traceloop import TRACELOOP
from collector.dialects.vercel_ai import VERCEL_AI
from collector.dialects.wrappers import WRAPPERS

__all__ = [
    "AGENT_KEYS",
    "DIALECTS",
    "MARK_MAX",
    "SESSION_KEYS",
    "SLOTS",
    "AgentAt",
    "Fields",
    "Guard",
    "Plan",
    "Plans",
    "fits",
]

DIALECTS: Final[tuple[Dialect, ...]] = (
    # Frameworks, known by their scope.
    PYDANTIC_AI,
    OPENAI_AGENTS_TRACELOOP,
    OPENAI_AGENTS,
    OPENAI_AGENTS_OPENINFERENCE,
    HANDOFF,
    LANGCHAIN_OPENINFERENCE,
    LANGCHAIN_TRACELOOP,
    MCP_TRACELOOP,
    SMOLAGENTS,
    STRANDS,
    GOOGLE_ADK_OPENINFERENCE,
    GOOGLE_ADK,
    CREWAI,
    AUTOGEN,
    AUTOGEN_OPENINFERENCE,
    AGNO,
    LLAMA_INDEX,
    # Frameworks and protocols, known by their keys.
    MCP,
    VERCEL_AI,
    LANGCHAIN_LANGSMITH,
    # Conventions.
    GEN_AI,
    OPENINFERENCE,
    TRACELOOP,
    LANGFUSE,
    # What follows a convention in part.
    GEN_AI_IN_PART,
    GEN_AI_BY_NAME,
    OPENINFERENCE_BY_NAME,
    TOOL_NAME_ALONE,
    # Known by scope and span name alone.
    MCP_SEND,
    GOOGLE_ADK_BARE,
)
"""In order of preference, for spans that speak several: the more specific first."""

_SCOPES: Final = tuple(sorted({scope for dialect in DIALECTS for scope in dialect.scopes}))

PENDING: Final = "pending_span"
PENDING_KEY: Final = "logfire.span_type"
PENDING_PARENT_KEY: Final = "logfire.pending_parent_id"
ERROR_KEY: Final = "error.type"

SHAPES_MAX: Final = 1_024
"""A handful of shapes make up an agent's traffic; hostile ones may only empty the cache."""

SCOPES_MAX: Final = 16
"""Scopes and kinds of one shape; more are read anew."""

SLOTS: Final = 512
"""Places for what was last known of a shape, by its identity: a power of two."""

VARIANTS_MAX: Final = 64
"""Plans of one shape; spans with other guarded values are settled each time anew."""

MARK_MAX: Final = 512
"""Longer guarded values are an attack, or a mistake: they are not remembered."""

KEYS_MAX: Final = 4_096
"""Spans with more attributes than this are not looked at: no agent writes so many."""


class Guard(NamedTuple):
    """The value of attribute `at` must be one of `values` (or, `forbidden`, none of them)."""

    at: int
    values: frozenset[str]
    forbidden: bool = False


@dataclass(frozen=True, slots=True)
class At:
    """A place of arguments: an attribute by index, or one of an event by name and key."""

    at: int
    unwrap: Unwrap
    event: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class Fields:
    """Where a dialect's parts are in one shape. All numbers are places of attributes."""

    dialect: Dialect
    guards: tuple[Guard, ...]
    name: SpanName | None
    """What the span's name must match; None where it does not matter."""
    tool: int | None
    arguments: tuple[At, ...]
    call_id: int | None
    request_id: int | None
    failed: tuple[Guard, ...]
    results: tuple[int, ...]
    marks: tuple[tuple[int, str], ...]
    plain: bool
    """True where tool, arguments and ids are all there is to look at."""


class AgentAt:
    """Where a span names an agent: an attribute, JSON metadata, or the span's name."""

    __slots__ = ("agent", "as_written", "at", "guards", "metadata", "name")

    def __init__(
        self,
        at: int | None,
        *,
        metadata: bool = False,
        name: SpanName | None = None,
        guards: tuple[Guard, ...] = (),
    ) -> None:
        self.at = at
        self.metadata = metadata
        self.name = name
        self.guards = guards
        self.as_written = b""
        """The attribute's value as it was last on the wire: it mostly comes again."""
        self.agent = ""
        """The agent that was named last, which mostly is the next one's, too."""

    def settled(self) -> AgentAt:
        """The same once its guards are."""
        return AgentAt(self.at, metadata=self.metadata, name=self.name)


class WrapperAt(NamedTuple):
    """How a span around a tool span is read."""

    guards: tuple[Guard, ...]
    name: SpanName | None
    """What the span's name must match; None where any does."""
    source: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """How spans of one shape are read. All numbers are places of attributes.

    Its guards are settled: the plan is for the spans whose guarded values are the ones it was
    made for (`Plans.of`), so nothing is left to check but names.
    """

    calls: tuple[Fields, ...]
    session: tuple[tuple[int, str, int], ...]
    """(place, key, rung of the ladder), best first."""
    agents: tuple[AgentAt, ...]
    stop: bool
    """True for a span of a model or an agent, which no single call reaches through."""
    wrappers: tuple[WrapperAt, ...]
    outputs: Outputs | None
    pending: bool
    """True for a span that Logfire sends when the real one starts."""
    pending_parent: int | None
    extras: tuple[tuple[int, str], ...]
    """Attributes that specs bind on."""
    error: int | None
    silent: bool
    """True where such a span can tell nothing but who its parent is."""
    foreign: bool
    """True where it speaks no dialect, not even in part."""


class _Open(NamedTuple):
    """The parts of a plan whose guards are not settled yet."""

    plan: Plan
    stops: tuple[Guard, ...]
    pending: int | None


class _Variant:
    """The plan for the spans of a shape that have the same guarded values."""

    __slots__ = ("as_written", "mark", "plan")

    def __init__(self, mark: Any, guarded: tuple[int, ...], plan: Plan) -> None:
        self.mark = mark
        """The guarded values."""
        self.plan = plan
        marks = mark if type(mark) is tuple else (mark,)
        found = tuple(zip(guarded, marks, strict=False))
        is_bytes = all(type(each) is bytes for _, each in found)
        self.as_written: tuple[tuple[int, bytes], ...] | None = found if is_bytes else None
        """The same, where all came as bytes: each with its place."""


class _Sieve:
    """What is known of one shape: where its guarded values are, and the plan for each set."""

    __slots__ = (
        "guarded",
        "kind",
        "mark",
        "open",
        "scope",
        "shape",
        "usual",
        "variants",
    )

    def __init__(self, span: Span, parts: _Open) -> None:
        self.shape = span.shape
        """Kept, so that no other shape can have its identity."""
        self.scope = span.scope
        self.kind = span.kind
        self.guarded = _guarded(parts)
        self.mark: Callable[[Sequence[Any]], Any] = (
            itemgetter(*self.guarded) if self.guarded else _unmarked
        )
        """Takes the guarded values out of a span's."""
        self.open = parts
        self.variants: dict[Any, _Variant] = {}
        """By the guarded values."""
        self.usual: _Variant | None = None
        """That of the last span that was settled, which mostly comes again."""


class Plans:
    """The cache of plans.

    Args:
        session_keys: the ladder of session ids, best first.
        extra_keys: attribute keys the specs' match rules ask for.
        agent_keys: where agents are named, best first.
    """

    def __init__(
        self,
        session_keys: Sequence[str],
        extra_keys: Iterable[str],
        agent_keys: Sequence[str] = AGENT_KEYS,
    ) -> None:
        self._session_keys = tuple(session_keys)
        self._agent_keys = tuple(agent_keys)
        self._extra_keys = frozenset(extra_keys)
        self._sieves: dict[int, list[_Sieve]] = {}
        """By the identity of the shape, which spans of equal keys share while it is remembered."""
        self._slots: list[_Sieve | None] = [None] * SLOTS
        """The one that was asked for last of those whose shapes have a slot in common."""

    def of(self, span: Span) -> Plan:
        """The plan for a span: by its shape, and by the values that decide what it is.

        These are few (an operation's name, a kind), so they are compared as they came, undecoded.
        """
        sieve = self._sieve(span)
        usual = sieve.usual
        # In place, bytes are compared in a tenth of the time that it takes with anything else.
        if (
            usual is not None
            and usual.as_written is not None
            and span.all_came_as(usual.as_written)
        ):
            return usual.plan
        mark = sieve.mark(span.values)
        if usual is not None and mark == usual.mark:
            return usual.plan
        return self._variant(span, sieve, mark)

    def _variant(self, span: Span, sieve: _Sieve, mark: Any) -> Plan:
        """The plan for a span whose guarded values are not those of the one before."""
        try:
            found = sieve.variants.get(mark)
        except TypeError:  # values that came as JSON
            mark = tuple([_hashable(span.attribute(at)) for at in sieve.guarded])
            found = sieve.variants.get(mark)
        if found is None:
            plan = _settled(sieve.open, span)
            if len(sieve.variants) >= VARIANTS_MAX or not _is_short(mark):
                return plan
            found = sieve.variants[mark] = _Variant(mark, sieve.guarded, plan)
        sieve.usual = found
        return found.plan

    def _sieve(self, span: Span) -> _Sieve:
        """The one for a span's shape, scope and kind; of one shape there are few."""
        shape, scope, kind = span.shape, span.scope, span.kind
        slot = (id(shape) >> 4) & (SLOTS - 1)  # objects begin at multiples of 16
        last = self._slots[slot]
        if (
            last is not None
            and last.shape is shape
            and last.kind == kind
            and last.scope == scope
        ):
            return last
        found = self._slots[slot] = self._found(span, shape, scope, kind)
        return found

    def _found(self, span: Span, shape: tuple[str, ...], scope: str, kind: int) -> _Sieve:
        """The same, looked up, or made."""
        known = self._sieves.get(id(shape))
        if known is not None:
            for sieve in known:
                if sieve.kind == kind and sieve.scope == scope:
                    return sieve
        if known is None or len(known) >= SCOPES_MAX:
            if len(self._sieves) >= SHAPES_MAX:
                self._sieves.clear()
            known = self._sieves[id(shape)] = []
        sieve = self._make(span)
        known.append(sieve)
        return sieve

    def bind_on(self, extra_keys: Iterable[str]) -> None:
        """Other specs are loaded: their match rules ask for these keys."""
        self._extra_keys = frozenset(extra_keys)
        self._sieves.clear()
        self._slots = [None] * SLOTS

    def _make(self, span: Span) -> _Sieve:
        # The last of two equal keys wins, as in a dictionary.
        keys = span.codec.keys(span.shape)[:KEYS_MAX]
        place = {key: index for index, key in enumerate(keys)}
        calls = tuple(
            _fields(dialect, place)
            for dialect in DIALECTS
            if dialect.fits(span.scope, span.kind, place)
        )
        ladder = enumerate(self._session_keys)
        plan = Plan(
            calls=calls,
            session=tuple((place[key], key, rung) for rung, key in ladder if key in place),
            agents=tuple(_agents(span.scope, place, self._agent_keys)),
            stop=False,
            wrappers=tuple(_wrappers(span.scope, place)),
            outputs=outputs_of(place),
            pending=False,
            pending_parent=place.get(PENDING_PARENT_KEY),
            extras=tuple(
                (index, key) for key, index in place.items() if key in self._extra_keys
            ),
            error=place.get(ERROR_KEY),
            silent=False,
            foreign=not (calls or span.scope.startswith(_SCOPES) or _speaks(place)),
        )
        stops = tuple(
            Guard(place[key], values) for key, values in STOPS.items() if key in place
        )
        parts = _Open(plan, stops, place.get(PENDING_KEY))
        return _Sieve(span, parts)


def _speaks(keys: Iterable[str]) -> bool:
    """True where any key is one of a convention that agents' spans follow."""
    return any(key.startswith(CONVENTIONS) for key in keys)


def _guarded(parts: _Open) -> tuple[int, ...]:
    """Places of the values that decide what a span of this shape is."""
    plan = parts.plan
    guards = [
        *parts.stops,
        *(guard for call in plan.calls for guard in call.guards),
        *(guard for agent in plan.agents for guard in agent.guards),
        *(guard for wrapper in plan.wrappers for guard in wrapper.guards),
    ]
    places = {guard.at for guard in guards}
    if parts.pending is not None:
        places.add(parts.pending)
    if plan.outputs is not None and plan.outputs.guard is not None:
        places.add(plan.outputs.guard[0])
    return tuple(sorted(places))


def _settled(parts: _Open, span: Span) -> Plan:
    """The plan for spans whose guarded values are this one's."""
    plan, outputs = parts.plan, parts.plan.outputs
    calls = tuple(replace(each, guards=()) for each in plan.calls if _pass(span, each.guards))
    agents = tuple(each.settled() for each in plan.agents if _fit(span, each.guards))
    wrappers = tuple(
        each._replace(guards=()) for each in plan.wrappers if _fit(span, each.guards)
    )
    stop = any(fits(span, guard) for guard in parts.stops)
    if outputs is not None and outputs.guard is not None:
        at, allowed = outputs.guard
        outputs = replace(outputs, guard=None) if fits(span, Guard(at, allowed)) else None
    pending = parts.pending is not None and span.attribute(parts.pending) == PENDING
    told = calls or plan.session or agents or plan.extras or wrappers or stop or outputs
    return replace(
        plan,
        calls=calls,
        agents=agents,
        stop=stop,
        wrappers=wrappers,
        outputs=outputs,
        pending=pending,
        silent=not (told or pending),
    )


def _pass(span: Span, guards: Iterable[Guard]) -> bool:
    """True where a call's guards hold: a value that is no text is none of the forbidden ones."""
    for at, allowed, forbidden in guards:
        value = span.attribute(at)
        if (isinstance(value, str) and value in allowed) is forbidden:
            return False
    return True


def _fit(span: Span, guards: Iterable[Guard]) -> bool:
    return all(fits(span, guard) for guard in guards)


def fits(span: Span, guard: Guard) -> bool:
    """True where the guarded value is a text, and one the guard lets pass."""
    value = span.recurring(guard.at)
    return isinstance(value, str) and (value in guard.values) is not guard.forbidden


def _unmarked(_values: Sequence[Any]) -> None:
    """Spans of this shape are all alike."""


def _hashable(value: Any) -> Any:
    """Stands for a decoded value: texts for themselves, all others by their type."""
    return value if isinstance(value, str) else type(value)


def _is_short(mark: Any) -> bool:
    parts = mark if isinstance(mark, tuple) else (mark,)
    return sum(len(part) for part in parts if isinstance(part, str | bytes)) <= MARK_MAX


def _first(keys: Iterable[str], place: Mapping[str, int]) -> int | None:
    return next((place[key] for key in keys if key in place), None)


def _guards(
    values: Mapping[str, frozenset[str]], place: Mapping[str, int], *, forbidden: bool = False
) -> tuple[Guard, ...]:
    return tuple(
        Guard(place[key], found, forbidden) for key, found in values.items() if key in place
    )


def _fields(dialect: Dialect, place: Mapping[str, int]) -> Fields:
    tool = _first(dialect.tool, place)
    # A pattern that only names the tool is not needed where an attribute does.
    name_matters = dialect.span_name and (tool is None or not dialect.when)
    failed = _guards(dialect.failed, place)
    results = tuple(place[key] for key in dialect.failed_result if key in place)
    marks = tuple(
        (place[key], text) for key, text in dialect.control_marks.items() if key in place
    )
    return Fields(
        dialect=dialect,
        guards=(
            *_guards(dialect.values, place),
            *_guards(dialect.not_values, place, forbidden=True),
        ),
        name=span_name(dialect.span_name) if name_matters else None,
        tool=tool,
        arguments=tuple(_places(dialect, place)),
        call_id=_first(dialect.call_id, place),
        request_id=_first(dialect.request_id, place),
        failed=failed,
        results=results,
        marks=marks,
        plain=not (failed or results or marks or dialect.failed_by_exception),
    )


def _places(dialect: Dialect, place: Mapping[str, int]) -> Iterator[At]:
    for source in dialect.arguments:
        if source.event:
            yield At(-1, source.unwrap, source.event, source.key)
        elif source.key in place and (not source.needs or source.needs in place):
            yield At(place[source.key], source.unwrap)


def _agents(scope: str, place: Mapping[str, int], keys: Sequence[str]) -> Iterator[AgentAt]:
    for key in keys:
        if key in place:
            yield AgentAt(place[key])
    if "metadata" in place and scope.startswith(METADATA_SCOPES):
        yield AgentAt(place["metadata"], metadata=True)
    for span in AGENT_SPANS:
        if span.scopes and not scope.startswith(span.scopes):
            continue
        if all(key in place for key in span.values):
            name = span_name(span.span_name)
            yield AgentAt(None, name=name, guards=_guards(span.values, place))


def _wrappers(scope: str, place: Mapping[str, int]) -> Iterator[WrapperAt]:
    for wrapper in WRAPPERS:
        if not scope.startswith(wrapper.scopes) or not all(
            key in place for key in wrapper.values
        ):
            continue
        if wrapper.source and wrapper.source not in place:
            continue
        name = span_name(wrapper.span_name) if wrapper.span_name else None
        source = place[wrapper.source] if wrapper.source else None
        yield WrapperAt(_guards(wrapper.values, place), name, source)
