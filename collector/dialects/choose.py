"""Chooses how a span is read: one plan a shape, remembered with a bound.

Idea: a shape is the exact list of a span's attribute keys, with its scope and kind. What a span is follows from its
shape and from a few *guarded* values (an operation's name, a kind). So the dialects are matched once per shape and
set of guarded values. The cost per span does not grow with the number of dialects.

Invariant: spans of one shape with equal guarded values have the same plan. Whatever depends on any other value, or
on the span's name, is a part of the plan that `read` checks span by span.

Example: a span with `openinference.span.kind` and `tool.name`. The shape says that OpenInference may read it, and
guards `openinference.span.kind`. With the value TOOL the plan reads a call from `tool.name`; with LLM it does not.

Three caches, from fast to full: the slot of the shape (`_slots`), the plan last used for the shape (`usual`), and
all plans of the shape (`variants`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, Final

from collector.decode.span import Span
from collector.dialects.base import Dialect
from collector.dialects.model_messages.outputs import OUTPUTS_FROM, outputs_of
from collector.dialects.names.session_and_agent_keys import (
    AGENT_KEYS,
    AGENT_SPANS,
    AGENTS,
    CONVENTIONS,
    DOCTOR_SCOPE,
    FAILED_PARTS,
    METADATA_SCOPES,
    MODELS,
    ROOT_AGENT,
    SESSION_KEYS,
    STOPS,
)
from collector.dialects.names.span_name import span_name
from collector.dialects.plan import (
    AgentAt,
    ArgumentsAt,
    AttributeCondition,
    Fields,
    ReadPlan,
    ResultAt,
    ToolNameHint,
    WrapperAt,
)
from collector.dialects.registry import DIALECTS
from collector.dialects.unknown_dialect import GIVEN, NAMES, SAYS, UNCLEAR, WITH_PARTS
from collector.dialects.values.arguments import unless_scrubbed
from collector.dialects.values.results import HANDED_THROUGH
from collector.dialects.wrappers import WRAPPERS

__all__ = [
    "AGENT_KEYS",
    "MARK_MAX",
    "SESSION_KEYS",
    "SLOTS",
    "Plans",
    "fits",
    "unclear_fields",
]


_SCOPES: Final = tuple(sorted({scope for dialect in DIALECTS for scope in dialect.scopes}))

_ENTRIES: Final = frozenset({2, 5})
"""Kinds of spans: a server's, and a consumer's."""

PENDING: Final = "pending_span"
PENDING_KEY: Final = "logfire.span_type"
PENDING_PARENT_KEY: Final = "logfire.pending_parent_id"
SCRUBBED_KEY: Final = "logfire.scrubbed"
"""Attribute in which Logfire lists the values that it hid."""
ERROR_KEY: Final = "error.type"
TYPED_KEY: Final = "output.value"
TYPE_KEY: Final = "output.mime_type"
"""Attribute in which OpenInference says whether a result is JSON."""

SHAPES_MAX: Final = 1_024
"""An agent's traffic has a handful of shapes, but flattened conversations bring new ones with each turn. A hostile
sender can do no more than empty the cache."""

SCOPES_MAX: Final = 16
"""Scopes and kinds remembered for one shape."""

SCOPES_KEPT_MAX: Final = 64
"""Names of scopes that are kept to be shown."""

SCOPE_NAME_MAX: Final = 256
"""Longer ones are cut there."""

TWINS_MAX: Final = 8
"""Attributes with one key that are read as alternatives: the last ones."""

SLOTS: Final = 512
"""Slots of the first-level cache, which the identity of a shape chooses: a power of two."""

VARIANTS_MAX: Final = 64
"""Plans remembered for one shape. Further guarded values get a new plan with each span."""

MARK_MAX: Final = 512
"""Plans for longer guarded values are not remembered: they are an attack, or a mistake."""

Guards = tuple[AttributeCondition, ...]
"""Conditions on a span's values, under which its plan has a part."""


class _PlanParts:
    """The parts of a shape's plans, each with the guards under which a plan has it."""

    __slots__ = (
        "agents",
        "apart",
        "calls",
        "entry",
        "error",
        "extras",
        "fails",
        "foreign",
        "kinds",
        "models",
        "outputs",
        "pending",
        "pending_parent",
        "session",
        "stops",
        "unclear",
        "wrappers",
    )

    def __init__(
        self,
        scope: str,
        kind: int,
        place: dict[str, int],
        session_keys: tuple[str, ...],
        agent_keys: tuple[str, ...],
        extra_keys: frozenset[str],
    ) -> None:
        rungs = enumerate(session_keys)
        extras = [(place[key], key) for key in extra_keys if key in place]
        self.calls = [
            (_call_guards(dialect, place), _fields(dialect, place))
            for dialect in DIALECTS
            if dialect.fits(scope, kind, place)
        ]
        self.session = tuple([(place[key], key, rung) for rung, key in rungs if key in place])
        self.agents = _agents(scope, place, agent_keys)
        self.wrappers = _wrappers(scope, place)
        self.outputs = outputs_of(place, scope)
        self.kinds = _guards(OUTPUTS_FROM, place)[:1]
        """What states that a span is a model's: of the keys that do, the first present one decides."""
        self.extras = tuple(sorted(extras))
        self.fails = _failed_parts(scope, place)
        self.stops = _guards(STOPS, place)
        """Any of them makes a span one of a model or an agent."""
        self.models, self.apart = _guards(MODELS, place), _guards(AGENTS, place)
        """Any of the first makes a span a model's, unless one of the second makes it an agent's."""
        self.pending = place.get(PENDING_KEY)
        """Attribute by which Logfire marks a span that has not ended."""
        self.pending_parent = place.get(PENDING_PARENT_KEY)
        self.error = place.get(ERROR_KEY)
        self.entry = kind in _ENTRIES
        self.unclear = _unclear(scope, place)
        self.foreign = not (
            self.calls or scope.startswith(_SCOPES) or scope == DOCTOR_SCOPE or _speaks(place)
        )

    def guarded(self) -> tuple[int, ...]:
        """Places of the values that decide what a span of this shape is."""
        places = {guard.at for guard in (*self.stops, *self.models)}
        for guards, _ in (*self.calls, *self.agents, *self.wrappers):
            for guard in guards:
                places.add(guard.at)
        for guards, _ in self.fails:
            for guard in guards:
                places.add(guard.at)
        for guard in self.kinds:
            places.add(guard.at)
        if self.unclear is not None:
            for _, guard in self.unclear.says:
                places.add(guard.at)
        if self.pending is not None:
            places.add(self.pending)
        return tuple(sorted(places))

    def settled(self, span: Span) -> ReadPlan:
        """The plan for spans whose guarded values are this one's."""
        outputs, at = self.outputs, self.pending
        is_asked = _fit(span, self.kinds)
        plan = ReadPlan(
            tuple([fields for guards, fields in self.calls if _pass(span, guards)]),
            self.session,
            tuple([agent for guards, agent in self.agents if _fit(span, guards)]),
            tuple([wrapper for guards, wrapper in self.wrappers if _fit(span, guards)]),
            outputs if is_asked else None,
            self.extras,
            stop=any(fits(span, guard) for guard in self.stops),
            model=self._is_model(span),
            wordless=outputs is None and bool(self.kinds) and is_asked,
            pending=at is not None and span.attribute(at) == PENDING,
            pending_parent=self.pending_parent,
            error=self.error,
            foreign=self.foreign,
            entry=self.entry,
            fails=self._failing(span),
        )
        unclear = self.unclear
        says = [key for key, guard in unclear.says if fits(span, guard)] if unclear else []
        plan.doubt(unclear, tuple(says))
        return plan

    def _is_model(self, span: Span) -> bool:
        found = any(fits(span, guard) for guard in self.models)
        return found and not any(fits(span, guard) for guard in self.apart)

    def _failing(self, span: Span) -> dict[str, str] | None:
        for guards, event in self.fails:
            if _fit(span, guards):
                return event
        return None


class _Variant:
    """The plan for the spans of a shape that have the same guarded values."""

    __slots__ = ("as_written", "mark", "plan")

    def __init__(self, mark: Any, guarded: tuple[int, ...], plan: ReadPlan) -> None:
        self.mark = mark
        """The guarded values."""
        self.plan = plan
        marks = mark if type(mark) is tuple else (mark,)
        found = tuple(zip(guarded, marks, strict=False))
        is_bytes = all(type(each) is bytes for _, each in found)
        self.as_written: tuple[tuple[int, bytes], ...] | None = found if is_bytes else None
        """The same, where all came as bytes: each with its place."""


class _ShapePlans:
    """What is known of one shape: where its guarded values are, and the plan for each set."""

    __slots__ = (
        "doubled",
        "guarded",
        "kind",
        "mark",
        "open",
        "scope",
        "shape",
        "twins",
        "usual",
        "variants",
    )

    def __init__(
        self,
        span: Span,
        parts: _PlanParts,
        twins: tuple[_PlanParts, ...] = (),
        doubled: tuple[tuple[int, ...], ...] = (),
    ) -> None:
        self.shape = span.shape
        """Shape of the span, kept alive so that no other can get its identity."""
        self.scope = span.scope
        self.kind = span.kind
        self.twins = twins
        """The parts by other attributes of equal keys."""
        self.doubled = doubled
        self.guarded = _all_guarded((parts, *twins)) if twins else parts.guarded()
        self.mark: Callable[[Sequence[Any]], Any] = (
            itemgetter(*self.guarded) if self.guarded else _unmarked
        )
        """Takes the guarded values out of a span's."""
        self.open = parts
        self.variants: dict[Any, _Variant] = {}
        """Variants by the guarded values."""
        self.usual: _Variant | None = None
        """The last one used: mostly the next span has the same guarded values."""

    def settled(self, span: Span) -> ReadPlan:
        """The plan for spans whose guarded values are this one's."""
        plan = self.open.settled(span)
        if self.twins:
            plan.double(tuple([each.settled(span) for each in self.twins]), self.doubled)
        return plan


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
        self._shapes: dict[int, list[_ShapePlans]] = {}
        """Plans by the identity of the shape: decoders intern shapes, so spans of equal keys share
        one object."""
        self.scopes: dict[str, bool] = {}
        """Names of the instrumentation scopes that spans came from -> whether any of these follows a convention of
        agents. At most `SCOPES_KEPT_MAX`, the first ones."""
        self._slots: list[_ShapePlans | None] = [None] * SLOTS
        """Slot -> the last one used of the shapes that share the slot."""

    def of(self, span: Span) -> ReadPlan:
        """The plan for a span: by its shape, and by the values that decide what it is.

        These are few (an operation's name, a kind), so they are compared as they came, undecoded.
        """
        shape, scope, kind = span.shape, span.scope, span.kind
        slot = (id(shape) >> 4) & (SLOTS - 1)  # objects begin at multiples of 16
        known_shape = self._slots[slot]
        if (
            known_shape is None
            or known_shape.shape is not shape
            or known_shape.kind != kind
            or known_shape.scope != scope
        ):
            known_shape = self._slots[slot] = self._found(span, shape, scope, kind)
        usual = known_shape.usual
        # Bytes are compared in place, in a tenth of the time that decoding them would take.
        if (
            usual is not None
            and usual.as_written is not None
            and span.all_came_as(usual.as_written)
        ):
            return usual.plan
        mark = known_shape.mark(span.values)
        if usual is not None and mark == usual.mark:
            return usual.plan
        return self._variant(span, known_shape, mark)

    def _variant(self, span: Span, known_shape: _ShapePlans, mark: Any) -> ReadPlan:
        """The plan for a span whose guarded values are not those of the one before."""
        try:
            found = known_shape.variants.get(mark)
        except TypeError:  # values that came as JSON
            mark = tuple([_hashable(span.attribute(at)) for at in known_shape.guarded])
            found = known_shape.variants.get(mark)
        if found is None:
            plan = known_shape.settled(span)
            if len(known_shape.variants) >= VARIANTS_MAX or not _is_short(mark):
                return plan
            found = known_shape.variants[mark] = _Variant(mark, known_shape.guarded, plan)
        known_shape.usual = found
        return found.plan

    def _found(self, span: Span, shape: tuple[str, ...], scope: str, kind: int) -> _ShapePlans:
        """What is known of a span's shape, scope and kind: looked up, or made."""
        known = self._shapes.get(id(shape))
        if known is not None:
            for known_shape in known:
                if known_shape.kind == kind and known_shape.scope == scope:
                    return known_shape
        if known is None or len(known) >= SCOPES_MAX:
            if len(self._shapes) >= SHAPES_MAX:
                self._shapes.clear()
            known = self._shapes[id(shape)] = []
        known_shape = self._make(span)
        known.append(known_shape)
        self._keep_scope(scope, known_shape.open.foreign)
        return known_shape

    def _keep_scope(self, scope: str, foreign: bool) -> None:
        name = scope[:SCOPE_NAME_MAX]
        if scope != DOCTOR_SCOPE and (
            name in self.scopes or len(self.scopes) < SCOPES_KEPT_MAX
        ):
            self.scopes[name] = self.scopes.get(name, False) or not foreign

    def bind_on(self, extra_keys: Iterable[str]) -> None:
        """Sets the attribute keys that the match rules of newly loaded specs ask for."""
        self._extra_keys = frozenset(extra_keys)
        self._shapes.clear()
        self._slots = [None] * SLOTS

    def _make(self, span: Span) -> _ShapePlans:
        # The last of two equal keys wins, as in a dictionary.
        keys = span.codec.keys(span.shape)
        place = {key: index for index, key in enumerate(keys)}
        parts = self._parts(span, place)
        doubled = self._doubled(keys) if len(place) < len(keys) else {}
        if not doubled:
            return _ShapePlans(span, parts)
        most = max([len(places) for places in doubled.values()])
        twins = [
            self._parts(
                span, place | {key: at[min(n, len(at) - 1)] for key, at in doubled.items()}
            )
            for n in range(most - 1)
        ]
        return _ShapePlans(span, parts, tuple(twins), tuple(doubled.values()))

    def _parts(self, span: Span, place: dict[str, int]) -> _PlanParts:
        return _PlanParts(
            span.scope,
            span.kind,
            place,
            self._session_keys,
            self._agent_keys,
            self._extra_keys,
        )

    def _doubled(self, keys: Sequence[str]) -> dict[str, tuple[int, ...]]:
        """Duplicated keys that decide on the reading, with the places of each."""
        others = {*self._session_keys, *self._agent_keys, *self._extra_keys}
        places: dict[str, list[int]] = {}
        for index, key in enumerate(keys):
            if key in _READ_KEYS or key in others:
                places.setdefault(key, []).append(index)
        return {key: tuple(at[-TWINS_MAX:]) for key, at in places.items() if len(at) > 1}


def _all_guarded(opened: Iterable[_PlanParts]) -> tuple[int, ...]:
    places: set[int] = set()
    for each in opened:
        places.update(each.guarded())
    return tuple(sorted(places))


def _keys_of(dialect: Dialect) -> Iterable[str]:
    """The keys that a dialect asks for."""
    yield from dialect.tool
    yield from dialect.values
    yield from dialect.not_values
    yield from dialect.call_id
    yield from dialect.request_id
    yield dialect.version
    yield from dialect.failed
    yield from dialect.failed_result
    yield from dialect.failed_marks
    yield from dialect.control_marks
    for source in dialect.arguments:
        if not source.event:
            yield source.key


_READ_KEYS: Final = frozenset(
    {key for dialect in (*DIALECTS, UNCLEAR) for key in _keys_of(dialect)}
    | {*NAMES, *SAYS, *STOPS, *MODELS, ERROR_KEY, PENDING_KEY, PENDING_PARENT_KEY}
)
"""Keys by whose values a span is read."""

_NOT_CALLS: Final = tuple(
    sorted({scope for dialect in DIALECTS for scope in dialect.not_scopes})
)


def _unclear(scope: str, place: dict[str, int]) -> ToolNameHint | None:
    """The unclear parts of a shape that names a tool or may say that one ran; None for all others."""
    names = tuple([place[key] for key in NAMES if key in place])
    says = tuple(
        [(key, AttributeCondition(place[key], SAYS[key])) for key in SAYS if key in place]
    )
    if not names and not says:
        return None
    return ToolNameHint(
        names,
        says,
        given=not GIVEN.isdisjoint(place),
        known=scope.startswith(_NOT_CALLS),
        parts=scope.startswith(WITH_PARTS),
    )


def _speaks(keys: Iterable[str]) -> bool:
    """True if any key belongs to a convention that agents' spans follow."""
    return any(key.startswith(CONVENTIONS) for key in keys)


def _pass(span: Span, guards: Guards) -> bool:
    """True if a call's guards hold. A value that is no text counts as absent."""
    for guard in guards:
        value = span.attribute(guard.at)
        if (isinstance(value, str) and value in guard.values) is guard.forbidden:
            return False
    return True


def _fit(span: Span, guards: Guards) -> bool:
    return all(fits(span, guard) for guard in guards)


def fits(span: Span, guard: AttributeCondition) -> bool:
    """True if the guarded value is a text or a bool that the guard accepts."""
    value = span.recurring(guard.at)
    if type(value) is bool:
        value = "true" if value else "false"
    return isinstance(value, str) and (value in guard.values) is not guard.forbidden


def _unmarked(_values: Sequence[Any]) -> None:
    """The mark of a shape without guarded values: all its spans are alike."""


def _hashable(value: Any) -> Any:
    """The cache key of a decoded value: a text itself, else the value's type."""
    return value if isinstance(value, str) else type(value)


def _is_short(mark: Any) -> bool:
    parts = mark if isinstance(mark, tuple) else (mark,)
    return sum(len(part) for part in parts if isinstance(part, str | bytes)) <= MARK_MAX


def _first(keys: tuple[str, ...], place: dict[str, int]) -> int | None:
    for key in keys:
        found = place.get(key)
        if found is not None:
            return found
    return None


def _guards(
    values: dict[str, frozenset[str]], place: dict[str, int], *, forbidden: bool = False
) -> Guards:
    if not values:
        return ()
    return tuple(
        [
            AttributeCondition(place[key], found, forbidden=forbidden)
            for key, found in values.items()
            if key in place
        ]
    )


def _call_guards(dialect: Dialect, place: dict[str, int]) -> Guards:
    return _guards(dialect.values, place) + _guards(dialect.not_values, place, forbidden=True)


def _fields(dialect: Dialect, place: dict[str, int]) -> Fields:
    tool = _first(dialect.tool, place)
    # If an attribute names the tool, a pattern that only names the tool is not needed.
    name_matters = dialect.span_name and (tool is None or not dialect.when)
    marks, failed_marks = dialect.control_marks.items(), dialect.failed_marks.items()
    return Fields(
        dialect,
        span_name(dialect.span_name) if name_matters else None,
        tool,
        _places(dialect, place),
        _first(dialect.call_id, place),
        _first(dialect.request_id, place),
        failed=_guards(dialect.failed, place),
        results=tuple([place[key] for key in dialect.failed_result if key in place]),
        failed_marks=tuple([(place[key], text) for key, text in failed_marks if key in place]),
        marks=tuple([(place[key], text) for key, text in marks if key in place]),
        handed=tuple(
            [_result_at(dialect, key, place) for key in HANDED_THROUGH if key in place]
        ),
        version=place.get(dialect.version) if dialect.version else None,
        undone=any(key not in place for key in dialect.failed_without),
    )


def _result_at(dialect: Dialect, key: str, place: dict[str, int]) -> ResultAt:
    if key == TYPED_KEY and TYPE_KEY in place:
        return ResultAt(place[key], quoted=False, type_at=place[TYPE_KEY])
    return ResultAt(place[key], quoted=dialect.quotes, type_at=None)


def unclear_fields(span: Span) -> Fields:
    """Where the parts of a call may be in a span that no dialect reads as a call."""
    keys = span.codec.keys(span.shape)
    return _fields(UNCLEAR, {key: index for index, key in enumerate(keys)})


def _places(dialect: Dialect, place: dict[str, int]) -> tuple[ArgumentsAt, ...]:
    found = []
    for source in dialect.arguments:
        unwrap = unless_scrubbed(source.unwrap) if SCRUBBED_KEY in place else source.unwrap
        if source.event:
            found.append(ArgumentsAt(-1, unwrap, source.event, source.key))
        elif source.key in place and (not source.needs or source.needs in place):
            found.append(ArgumentsAt(place[source.key], unwrap))
    return tuple(found)


def _agents(
    scope: str, place: dict[str, int], keys: tuple[str, ...]
) -> list[tuple[Guards, AgentAt]]:
    found: list[tuple[Guards, AgentAt]] = [
        ((), AgentAt(place[key])) for key in keys if key in place
    ]
    if "metadata" in place and scope.startswith(METADATA_SCOPES):
        found.append(((), AgentAt(place["metadata"], metadata=True)))
    for span in AGENT_SPANS:
        if span.scopes and not scope.startswith(span.scopes):
            continue
        if span.unless and span.unless in place:
            continue
        guards = _guards(span.values, place)
        if len(guards) < len(span.values):
            continue
        if span.span_name:
            found.append((guards, AgentAt(None, name=span_name(span.span_name))))
        elif span.key in place:
            found.append((guards, AgentAt(place[span.key], quoted=span.quoted)))
    guards = _guards(ROOT_AGENT, place)
    if guards:
        found.append((guards, AgentAt(None)))
    return found


def _wrappers(scope: str, place: dict[str, int]) -> list[tuple[Guards, WrapperAt]]:
    found = []
    for wrapper in WRAPPERS:
        if not scope.startswith(wrapper.scopes):
            continue
        guards, source = _guards(wrapper.values, place), place.get(wrapper.source)
        if len(guards) < len(wrapper.values) or (wrapper.source and source is None):
            continue
        name = span_name(wrapper.span_name) if wrapper.span_name else None
        found.append((guards, WrapperAt(name, source, wrapper.listed)))
    return found


def _failed_parts(
    scope: str, place: dict[str, int]
) -> tuple[tuple[Guards, dict[str, str]], ...]:
    found = []
    for part in FAILED_PARTS:
        if scope.startswith(part.scopes):
            guards = _guards(part.values, place)
            if len(guards) == len(part.values):
                found.append((guards, part.event))
    return tuple(found)
