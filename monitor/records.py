"""The records that flow through the monitor: without logic, and never changed once they are made.

`ToolCall` is the seam between the collector (which reads spans) and the monitor (which decides).
One is made per tool call and looked at many times, so it is a plain class with slots: compiled, it
costs a quarter of a tuple; and so is `AgentName`, which each trace keeps. The others are `NamedTuple`s:
as immutable as a frozen dataclass, and five times cheaper to build.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

from mypy_extensions import mypyc_attr

from monitor.visibility.cause import Cause

__all__ = [
    "ALARMING",
    "ALSO_ATTRIBUTE",
    "CALL_KINDS",
    "FROM_DECISION",
    "FROM_TRACE",
    "PROFILES",
    "SESSION_KINDS",
    "SEVERITIES",
    "SPEC_ATTRIBUTE",
    "AgentName",
    "Conventions",
    "Evidence",
    "Kind",
    "NamedThing",
    "Obstacle",
    "Proof",
    "Reason",
    "ReferenceAlarm",
    "ReferenceReason",
    "Returned",
    "SessionKey",
    "ToolCall",
    "UnreadResult",
    "Verdict",
    "built",
    "result_in",
    "thing_field",
]

FROM_TRACE: Final = "trace"
"""Source of a session's id while no attribute has named it."""

FROM_DECISION: Final = "decide"
"""Source of a session's id that only a client of decisions has named. Like `FROM_TRACE` it yields to attributes."""

SPEC_ATTRIBUTE: Final = "offrails.spec"
"""A resource attribute of this name names a task outright."""

ALSO_ATTRIBUTE: Final = "offrails.spec.also"
"""One of this name names a spec beside those that match: a span's own `offrails.spec` is handed on as this."""

built: Final[Any] = tuple.__new__
"""`built(Verdict, fields)` makes a NamedTuple of all its fields, at half the cost of its constructor."""


class Kind(StrEnum):
    """What one call was (papers/000 section 2.1: progress, self-loop, harmful), or a session is."""

    PROGRESS = "progress"
    SELF_LOOP = "self_loop"
    HARMFUL = "harmful"
    CONTROL = "control"
    CANNOT_FINISH = "cannot_finish"
    """Verdict on a session: it can no longer reach an accepting state, or missed a deadline."""
    STALLED = "stalled"
    """Verdict on a session: it made no call for longer than its state allows."""


CALL_KINDS: Final = (Kind.PROGRESS, Kind.SELF_LOOP, Kind.HARMFUL, Kind.CONTROL)
"""Verdicts on calls; the others are on sessions."""

SESSION_KINDS: Final = (Kind.CANNOT_FINISH, Kind.STALLED)

ALARMING: Final = frozenset({Kind.HARMFUL, *SESSION_KINDS})
"""Verdicts that somebody may want an alert on."""


SEVERITIES: Final = ("info", "warning", "critical")
"""How bad a harm may be, the mildest first."""


class Reason(StrEnum):
    """Why a call is harmful (or, for `FAILED_CALL`, without effect); the first that applies."""

    FORBIDDEN = "forbidden"
    FAILED_CALL = "failed_call"
    UNKNOWN_TOOL = "unknown_tool"
    ARGUMENT_MISMATCH = "argument_mismatch"
    AFTER_FINAL = "after_final"
    OUT_OF_ORDER = "out_of_order"
    REPEATED = "repeated"
    UNREACHABLE = "unreachable"


class ReferenceReason(StrEnum):
    """Why a learnt reference denies a call that is asked about."""

    UNEXPECTED_WRITE = "unexpected_write"
    """No usual run wrote by the tool, or all gave another value to an argument."""


class Obstacle(StrEnum):
    """Why a session cannot finish, or stands still: the reason of a verdict on a session."""

    TRAP = "trap"
    """The session is in a state from which no accepting state can be reached."""
    DEADLINE = "deadline"
    """A call did not follow another one in time."""
    IDLE = "idle"
    """No call was made for longer than its state allows."""


OBSTACLES: Final[Mapping[Obstacle, Kind]] = {
    Obstacle.TRAP: Kind.CANNOT_FINISH,
    Obstacle.DEADLINE: Kind.CANNOT_FINISH,
    Obstacle.IDLE: Kind.STALLED,
}
"""Each with the verdict on the session that it gives."""


class Evidence(StrEnum):
    """How a call is known: it ended, it began, a model asked for it, or its agent asked whether to make it.

    A pending call has not ended, as far as is known, nor has a decided one. Both are in flight.
    """

    EXECUTED = "executed"
    PENDING = "pending"
    REQUESTED = "requested"
    DECIDED = "decided"


class SessionKey(NamedTuple):
    """A session's identity; two tenants' session "1" differ by namespace."""

    namespace: str
    id: str


@mypyc_attr(acyclic=True)
class AgentName:
    """A span that names an agent. Of several the earliest counts."""

    __slots__ = ("agent", "span_id", "start_ns")

    def __init__(self, start_ns: int, span_id: bytes, agent: str) -> None:
        self.start_ns = start_ns
        """Unix nanoseconds."""
        self.span_id = span_id
        self.agent = agent

    def counts_before(self, other: AgentName) -> bool:
        """True if it is the earlier one; of spans that began at once, by their ids and names."""
        if self.start_ns != other.start_ns:
            return self.start_ns < other.start_ns
        return (self.span_id, self.agent) < (other.span_id, other.agent)


NO_TRACE: Final = bytes(16)
"""Trace id of a call whose trace is not known: OpenTelemetry's invalid id."""

SAID: Final = bytes(16)
"""Trace of a proof that comes from a client, not from a trace."""


@mypyc_attr(acyclic=True)
class Proof:
    """What a trace shows of the beginning of its session. Of several traces the earliest counts.

    A client may say it instead, who knows better than any trace: of those the first counts.
    """

    __slots__ = ("holds", "resumed", "start_ns", "trace_id")

    def __init__(
        self, start_ns: int, trace_id: bytes, *, holds: bool, resumed: bool = False
    ) -> None:
        self.start_ns = start_ns
        """When the session begins by it, Unix nanoseconds."""
        self.trace_id = trace_id
        self.holds = holds
        """False if the trace shows that the session may have begun before, or does not show that it did not."""
        self.resumed = resumed
        """True if the trace shows that there were calls before, which this session or another one has."""

    @staticmethod
    def said(now: int) -> Proof:
        """A client says that no call of the session was made before."""
        return Proof(now, SAID, holds=True)

    @property
    def is_said(self) -> bool:
        """True for the word of a client."""
        return self.trace_id == SAID


@mypyc_attr(acyclic=True)
class UnreadResult:
    """What a tool returned, to be read once somebody asks: of most sessions no spec does."""

    __slots__ = ()

    def read(self) -> tuple[Any, ...]:
        """The result, as the only item; () if it is not known."""
        raise NotImplementedError

    def size(self) -> int:
        """Approximate bytes. To be read makes it lighter, or leaves it as it is."""
        raise NotImplementedError


Returned = tuple[Any, ...] | UnreadResult
"""What a tool returned, read or not."""


def result_in(returned: Returned) -> tuple[Any, ...]:
    """What a tool returned, as `ToolCall.result`."""
    return returned.read() if isinstance(returned, UnreadResult) else returned


@mypyc_attr(acyclic=True)
class ToolCall:
    """One tool call as read from spans. Times are Unix nanoseconds, ids are raw bytes.

    A value: calls are equal that have equal fields, and `_replace` makes another one.
    """

    __slots__ = (
        "agent",
        "answer",
        "arguments",
        "attributes",
        "call_id",
        "control",
        "doubts",
        "end_ns",
        "error",
        "evidence",
        "gaps",
        "parent_span_id",
        "returned",
        "session",
        "session_from",
        "source",
        "span_id",
        "start_ns",
        "tool",
        "trace_id",
    )

    def __init__(
        self,
        session: SessionKey,
        agent: str,
        tool: str,
        arguments: Mapping[str, Any] | None,
        error: bool,
        start_ns: int,
        end_ns: int,
        trace_id: bytes,
        span_id: bytes,
        parent_span_id: bytes,
        call_id: str,
        evidence: Evidence,
        attributes: Mapping[str, Any],
        control: bool = False,
        source: str = "",
        session_from: str = "",
        gaps: bool = False,
        doubts: tuple[Cause, ...] = (),
        answer: bytes = b"",
        result: Returned = (),
    ) -> None:
        self.session = session
        self.agent = agent
        self.tool = tool
        self.arguments = arguments
        """None means "not on the wire", never "no arguments"."""
        self.start_ns = start_ns
        self.end_ns = end_ns
        self.trace_id = trace_id
        self.span_id = span_id
        self.parent_span_id = parent_span_id
        self.call_id = call_id
        """"" if the framework exports none."""
        self.evidence = evidence
        self.attributes = attributes
        """Attributes on which a spec may bind: those of the resource, and `offrails.spec` if a span
        has it."""
        self.source = source
        """Name of the dialect the span was read by."""
        self.session_from = session_from
        """Source of the session id: an attribute's name, or "trace"."""
        self.doubts = doubts
        """Why the call may not be what it seems, in the order of `Cause`; () for nearly all."""
        self.answer = answer
        """Names the model's answer that asked for the call: calls with one answer are one group, whether
        their spans overlap or not. b"" if it is not known."""
        self.returned = result
        """What the tool returned, as `result`, or unread: only what asks for it reads it."""
        # What is true or false stands side by side: compiled, that takes a byte each.
        self.error = error
        self.control = control
        """True for a framework's control tool (hand-off, final answer)."""
        self.gaps = gaps
        """True if others of its session's calls may be missing: its trace is sampled, or the
        sender dropped attributes of its span, one of which may have named the session."""

    @property
    def result(self) -> tuple[Any, ...]:
        """What the tool returned, as the only item, a JSON value of which parts that no spec asks for may be left out.

        () if it is not known, as always before the call has ended.
        """
        return result_in(self.returned)

    @result.setter
    def result(self, result: tuple[Any, ...]) -> None:
        self.returned = result

    def returns_as(self, other: ToolCall) -> bool:
        """True if another call returned the same."""
        return self.returned is other.returned or self.result == other.result

    def _values(self) -> tuple[Any, ...]:
        """All fields, in the order in which they are given."""
        return (
            self.session,
            self.agent,
            self.tool,
            self.arguments,
            self.error,
            self.start_ns,
            self.end_ns,
            self.trace_id,
            self.span_id,
            self.parent_span_id,
            self.call_id,
            self.evidence,
            self.attributes,
            self.control,
            self.source,
            self.session_from,
            self.gaps,
            self.doubts,
            self.answer,
            self.returned,
        )

    def _read_values(self) -> tuple[Any, ...]:
        """The same, with the result read."""
        return (*self._values()[:-1], self.result)

    def _replace(self, **changes: Any) -> ToolCall:
        """The same call with other values of some fields."""
        return ToolCall(**{**dict(zip(_FIELDS, self._values(), strict=True)), **changes})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolCall) and self._read_values() == other._read_values()

    def __hash__(self) -> int:
        return hash(self._read_values())

    def __repr__(self) -> str:
        fields = zip(_FIELDS, self._read_values(), strict=True)
        return f"ToolCall({', '.join([f'{name}={value!r}' for name, value in fields])})"

    def __reduce__(self) -> tuple[Callable[..., ToolCall], tuple[Any, ...]]:
        return _call_of, self._read_values()


def _call_of(*values: Any) -> ToolCall:
    """The call with these values of all fields: what pickles are read by."""
    return ToolCall(**dict(zip(_FIELDS, values, strict=True)))


_FIELDS: Final = (
    "session",
    "agent",
    "tool",
    "arguments",
    "error",
    "start_ns",
    "end_ns",
    "trace_id",
    "span_id",
    "parent_span_id",
    "call_id",
    "evidence",
    "attributes",
    "control",
    "source",
    "session_from",
    "gaps",
    "doubts",
    "answer",
    "result",
)
"""Fields of a tool call in the order of its arguments."""


@dataclass(frozen=True, slots=True)
class Conventions:
    """How the scores treat the cases the paper leaves open (a profile, overridable key by key)."""

    profile: Literal["live", "core"] = "live"
    failed_calls: Literal["no_effect", "harmful", "ordinary"] = "no_effect"
    tau_below_two: float = 0.5
    """tau+ when fewer than two tokens match: 0.5 as the text of section 3 says, 0 as its tables."""
    undefined_efficiency: float | None = None
    beta: float = 0.5
    lambda_: float = 0.5


PROFILES: Final[Mapping[str, Conventions]] = {
    "live": Conventions(),
    "core": Conventions(profile="core", failed_calls="harmful"),
}
"""The named sets of conventions; `core` are the published scorer's."""


class NamedThing(NamedTuple):
    """A thing of a spec with `each`: an order, a customer. Without value and digest it is the thing `none`."""

    name: str
    """The kind of thing, as the spec names it."""
    value: Any = None
    """A scalar, if it may be shown."""
    digest: str = ""

    def as_json(self) -> dict[str, Any]:
        """The thing as the API shows it."""
        if self.digest:
            return {"name": self.name, "digest": self.digest}
        return {"name": self.name, "value": "none" if self.value is None else self.value}

    @property
    def known_by(self) -> str:
        """The value as a text, or the digest; "none" of the thing `none`."""
        if self.digest or self.value is None:
            return self.digest or "none"
        is_flag = isinstance(self.value, bool)
        return str(self.value).lower() if is_flag else str(self.value)

    def __str__(self) -> str:
        if not self.digest and self.value is None:
            return f"no {self.name}"
        return f"{self.name} {self.known_by}"


def thing_field(thing: NamedThing | None) -> dict[str, Any]:
    """The field `thing` of an object that is shown; nothing where there is none."""
    return {} if thing is None else {"thing": thing.as_json()}


class Verdict(NamedTuple):
    """What one call was, in one session under one spec; or what the session has come to.

    A verdict on a session refers to a call: the first one of a missed deadline, the last one before
    a standstill, the one that led into a trap.
    """

    session: SessionKey
    agent: str
    spec: str
    spec_version: str
    mode: str
    kind: Kind
    reason: Reason | Obstacle | None
    severity: str
    step: int
    """Place of the call in the session, from 1, as known when the verdict was given."""
    tool: str
    symbol: str | None
    skipped: tuple[str, ...]
    allowed: tuple[str, ...]
    state_before: str | None
    """None while several states are possible."""
    state: str | None
    final: bool
    revised_from: Kind | None
    """The kind this call had before an earlier call arrived late; None for a first verdict."""
    trace_id: bytes
    span_id: bytes
    constraint: str | None = None
    """Rule of the spec that was not kept: a constraint, a deadline, an idle limit."""
    certain_call: bool = True
    """False if something is not known (arguments, earlier calls) that would make this call right
    and an earlier one the harm: that there is one harm more by now is certain."""
    possible: bool = False
    """True if the call is harmful unless something was missed or doubtful (`unless`). It counts as `kind` says."""
    was_possible: bool = False
    """True if that was reported before, and does not hold any more."""
    unless_before_ns: int = 0
    """Start of the monitor, Unix nanoseconds, if the session may have begun before it; else 0."""
    unless: tuple[str, ...] = ()
    """Conditions under which possible harm is harmless: causes of gaps
    (`monitor.visibility.cause`), and `doubted_calls`."""
    detail: str = ""
    """Why, in a sentence of at most 300 characters; "" if nothing is harmful. It holds values of
    arguments only where they are shown (`Limits.keep_arguments`), as hostile as all texts of an agent."""
    thing: NamedThing | None = None
    """The thing that the call harms; None if it is harmful for no thing, or the spec has none."""


class ReferenceAlarm(NamedTuple):
    """An alarm that one session raises against a learnt reference, or takes back."""

    session: SessionKey
    agent: str
    spec: str
    """The reference."""
    spec_version: str
    mode: str
    alarm: str
    """new_write_tool, new_arguments, missing_write, first_two, divergence or risk."""
    level: str
    """page, hint or advisory."""
    severity: str
    withdrawn: bool
    """True if it was raised before, and does not hold any more."""
    step: int
    """Place of the call in the session, from 1; of the one that did not come, at the end."""
    tool: str
    """"" if no single call is meant."""
    kind: str | None
    """How the call departs: wrong_tool, wrong_arguments, extra or missing; None for a risk."""
    phase: str | None
    write: bool
    expected: tuple[str, ...]
    support: int
    """Number of seen runs behind the alarm."""
    precision: float | None
    """Precision of the alarm on the runs it was learnt from; None if their outcomes are unknown."""
    false_per_1000: float | None
    risk: float | None
    trace_id: bytes
    span_id: bytes
    """Span id of the call; both ids are empty if no single call is meant."""
